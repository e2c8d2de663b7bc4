//! Sessions with a server in the same process.

mod failures;
mod hashes;
mod hostile;
mod inherited;
mod moves;
mod names;
mod rate;
mod tickets;
mod walls;

use crate::served::{Served, content};
use fobs::{Session, SessionBuilder};
use fobs_model::error::ErrorKind;
use fobs_model::event::Event;
use fobs_model::options::{TcpTuning, TransferOptions, Transport};
use std::fs;
use std::sync::Arc;

/// Bytes of a chunk's data: where a range crosses into the next one.
pub const CHUNK: u64 = fobs_store::CHUNK_DATA_MAX as u64;

pub(super) fn builder(served: &Served) -> SessionBuilder {
    let fobs_model::options::Location::Remote(remote) = served.remote("") else { panic!("a remote") };
    Session::builder(remote).options(served.options())
}

pub(super) fn open(served: &Served) -> Session {
    builder(served).open().unwrap()
}

/// A counter of the server.
pub(super) fn counter(served: &Served, name: &str) -> u64 {
    let text = served.handle.metrics();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("{name} in {text}"))
}

pub(super) fn connections(served: &Served) -> u64 {
    counter(served, "fobs_connections_total")
}

#[test]
fn objects_of_all_sizes_go_both_ways_over_one_connection() {
    let served = Served::start(|_| ());
    let session = open(&served);
    for len in [0, 1, 1000, 65_535, 65_536, 65_537, 1 << 20, (5 << 20) + 3] {
        let (name, data) = (format!("object-{len}"), content(len));
        let sent = session.send(&name, &data).unwrap();
        assert_eq!((sent.files, sent.bytes, sent.errors.len()), (1, len as u64, 0), "{len}");
        assert!(fs::read(served.root().join(&name)).unwrap() == data, "{len}");
        assert!(session.recv(&name, len as u64).unwrap() == data, "{len}");
        let mut buffer = vec![0; len + 7];
        assert_eq!(session.recv_into(&name, &mut buffer).unwrap(), len);
        assert!(buffer[..len] == data, "{len}");
    }
    session.send("object-1", b"replaced").unwrap();
    assert_eq!(session.recv("object-1", 100).unwrap(), b"replaced");
    assert_eq!(connections(&served), 1);
    let done = |direction| counter(&served, &format!("fobs_sessions_total{{{direction},outcome=\"ok\"}}"));
    assert_eq!(done("direction=\"push\""), 9);
    // The last one may not be counted yet: its client has what it came for.
    assert!((16..=17).contains(&done("direction=\"pull\"")));
}

#[test]
fn small_objects_need_no_data_plane() {
    let served = Served::start(|_| ());
    let session = open(&served);
    let small = session.send("small", &content(65_536)).unwrap();
    assert_eq!((small.transport.as_str(), small.packets_sent), ("control", 0));
    assert_eq!(small.root.len(), 64);
    let large = session.send("large", &content(65_537)).unwrap();
    assert_eq!(large.transport, "udp");
    assert!(large.packets_sent > 0);
}

#[test]
fn objects_of_one_session_go_over_streams() {
    let served = Served::start(|_| ());
    for (transport, carrier) in
        [(Transport::Channel, "channel"), (Transport::Tcp { count: Some(2) }, "tcp"), (Transport::Udp, "udp")]
    {
        let options = TransferOptions { transport, ..served.options() };
        let session = builder(&served).options(options).open().unwrap();
        for round in 0..3 {
            let data = content((1 << 20) + round);
            let (name, len) = (format!("{carrier}-{round}"), data.len());
            let sent = session.send(&name, &data).unwrap();
            assert_eq!(sent.transport, carrier, "{round}");
            assert!(fs::read(served.root().join(&name)).unwrap() == data, "{name}");
            let mut buffer = vec![0; len + 1];
            assert_eq!(session.recv_into(&name, &mut buffer).unwrap(), len, "{name}");
            assert!(buffer[..len] == data, "{name}");
        }
    }
}

#[test]
fn tcp_is_set_up_as_it_was_asked_for_or_refused() {
    let served = Served::start(|_| ());
    let session = open(&served);
    let with = |congestion: &str| {
        let tcp = TcpTuning { congestion: Some(congestion.to_owned()), buffer: Some(256 << 10) };
        let transport = Transport::Tcp { count: Some(2) };
        session.call().options(TransferOptions { transport, tcp, ..served.options() })
    };
    let data = content(1 << 20);
    assert_eq!(with("reno").send("object", &data).unwrap().transport, "tcp");
    assert!(with("reno").recv("object", 1 << 20).unwrap() == data);
    // The sender decides: the client, and then the server.
    for outcome in
        [with("none").send("other", &data).map(drop), with("none").recv("object", 1 << 20).map(drop)]
    {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        assert!(error.message.contains("--tcp-cc none") && error.message.contains("reno"), "{error}");
    }
    assert!(!served.root().join("other").exists());
    assert!(session.recv("object", 1 << 20).unwrap() == data);
}

#[test]
fn ranges_are_those_of_the_file() {
    let served = Served::start(|_| ());
    let data = content(2 * CHUNK as usize + 1000);
    fs::write(served.root().join("file"), &data).unwrap();
    let session = open(&served);
    let check = |start: u64, len: usize| {
        let mut buffer = vec![0; len];
        let got = session.read_range("file", start, &mut buffer).unwrap();
        let from = usize::try_from(start).unwrap_or(usize::MAX).min(data.len());
        let expected = &data[from..from.saturating_add(len).min(data.len())];
        assert_eq!(got, expected.len(), "{start}+{len}");
        assert!(buffer[..got] == *expected, "{start}+{len}");
    };
    let end = data.len() as u64;
    for (start, len) in [
        (0, 0),
        (0, 1),
        (17, 1000),
        (0, 65_536),
        (1, 65_537),
        (CHUNK - 1, 2),
        (CHUNK, 1),
        (CHUNK - 1, 100_000),
        (CHUNK - 7, CHUNK as usize + 14),
        (end - 1, 1),
        (end - 1, 500),
        (end - 10, 100_000),
        (end, 0),
        (end, 1),
        (end + 5, 100_000),
        (u64::MAX, 10),
        (i64::MAX as u64, 100_000),
    ] {
        check(start, len);
    }
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut rng = fobs_rng::Rng::new(seed);
    for _ in 0..20 {
        check(rng.below(data.len() + 100) as u64, rng.below(70_000));
    }
    assert_eq!(connections(&served), 1);
}

#[test]
fn trees_and_files_go_over_the_same_session() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    fs::create_dir_all(here.join("tree/sub")).unwrap();
    let (small, large) = (content(300), content(3 << 20));
    fs::write(here.join("tree/small"), &small).unwrap();
    fs::write(here.join("tree/sub/large"), &large).unwrap();
    let session = open(&served);
    let recursive = TransferOptions { recursive: true, ..served.options() };
    let put = session.call().options(recursive.clone()).put(&[here.join("tree")], "").unwrap();
    assert_eq!((put.files, put.errors.len()), (2, 0));
    let there = served.root().join("tree");
    assert!(fs::read(there.join("small")).unwrap() == small);
    assert!(fs::read(there.join("sub/large")).unwrap() == large);
    let got = session.call().options(recursive).get(&["tree"], &here.join("back")).unwrap();
    assert_eq!((got.files, got.bytes), (2, (300 + (3 << 20)) as u64));
    assert!(fs::read(here.join("back/sub/large")).unwrap() == large);
    // Small ones go with the messages, and are files all the same.
    let put = session.put(&[here.join("tree/small")], "one").unwrap();
    assert_eq!((put.transport.as_str(), put.files), ("control", 1));
    let got = session.get(&["one"], &here.join("one")).unwrap();
    assert_eq!((got.transport.as_str(), got.files), ("control", 1));
    assert!(fs::read(here.join("one")).unwrap() == small);
    assert_eq!(session.put(&[here.join("none")], "two").unwrap_err().kind, ErrorKind::NoSource);
    assert_eq!(session.get(&["none"], &here.join("new")).unwrap_err().kind, ErrorKind::NoSource);
    assert!(!here.join("new").exists());
    assert_eq!(connections(&served), 1);
}

#[test]
fn two_threads_take_turns() {
    let served = Served::start(|options| options.sessions_max = 1);
    let session = open(&served);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let session = &session;
            scope.spawn(move || {
                for number in 0..10 {
                    let name = format!("{thread}-{number}");
                    // Every other one over the data plane.
                    let data = content(100 + number % 2 * 100_000);
                    session.send(&name, &data).unwrap();
                    assert!(session.recv(&name, 1 << 20).unwrap() == data);
                }
            });
        }
    });
    assert_eq!(connections(&served), 1);
}

#[test]
fn names_begin_at_the_path_of_the_remote() {
    let served = Served::start(|_| ());
    fs::create_dir_all(served.root().join("a/b")).unwrap();
    let fobs_model::options::Location::Remote(remote) = served.remote("a") else { panic!("a remote") };
    let session = Session::builder(remote).options(served.options()).open().unwrap();
    session.send("b/c", b"below").unwrap();
    session.send("/d", b"at the root").unwrap();
    assert_eq!(fs::read(served.root().join("a/b/c")).unwrap(), b"below");
    assert_eq!(fs::read(served.root().join("d")).unwrap(), b"at the root");
    assert_eq!(session.recv("/a/b/c", 10).unwrap(), b"below");
}

#[test]
fn events_of_a_call_go_to_its_sink() {
    let served = Served::start(|_| ());
    let session = open(&served);
    let events = Arc::new(crate::served::Events::default());
    session.call().events(events.clone()).send("small", b"content").unwrap();
    let is_done =
        |event: &Event| matches!(event, Event::FileDone(fobs_model::event::FileDone { bytes: 7, .. }));
    assert!(events.any(is_done));
    session.call().events(events.clone()).send("large", &content(1 << 20)).unwrap();
    assert!(events.any(|event| matches!(event, Event::Started { control: "tls", .. })));
    assert!(
        events.any(|event| matches!(
            event,
            Event::FileDone(fobs_model::event::FileDone { bytes: 1_048_576, .. })
        ))
    );
}
