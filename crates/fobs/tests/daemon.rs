//! A daemon and its clients in one process, by the public interface alone.

mod served;

use std::fs;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fobs::control::message::{Bytes, Direction, Message, Open, Sending};
use fobs::control::{ControlChannel, hello, tls};
use fobs::event::{Event, Summary};
use fobs::options::{AddressFamily, CongestionControl, TransferOptions};
use fobs::secure::identity::Identity;
use fobs::{CancelToken, ErrorKind};

use served::{Served, content, temporary_files};

fn figures(s: &Summary) -> [f64; 8] {
    [
        s.seconds,
        s.seconds_total,
        s.goodput_bps,
        s.waste,
        s.rtt_ms_min,
        s.loss_rate,
        s.cpu_seconds,
        s.cpu_seconds_peer,
    ]
}

#[test]
fn a_tree_goes_there_and_back() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    fs::create_dir(here.join("sub")).unwrap();
    fs::write(here.join("empty"), "").unwrap();
    fs::write(here.join("sub/large"), content(6 << 20)).unwrap();
    for options in [
        served.options(),
        TransferOptions { compress: true, preserve: true, packet_size: Some(512), ..served.options() },
        TransferOptions { congestion_control: CongestionControl::Greedy, ..served.options() },
        TransferOptions {
            congestion_control: CongestionControl::Fixed { bits_per_second: 400_000_000 },
            rate_limit: Some(300_000_000),
            burst: Some(4),
            ack_every: Some(1),
            ..served.options()
        },
    ] {
        let options = TransferOptions { recursive: true, ..options };
        let pushed = served.push(&here, "", &options).unwrap();
        assert_eq!((pushed.files, pushed.bytes), (2, 6 << 20));
        assert_eq!(fs::read(served.root().join("here/sub/large")).unwrap(), content(6 << 20));
        let back = served.directory("back");
        let pulled = served.pull("here/", &back, &options).unwrap();
        assert_eq!((pulled.files, pulled.bytes), (2, 6 << 20));
        assert_eq!(fs::read(back.join("sub/large")).unwrap(), content(6 << 20));
        assert_eq!(fs::read(back.join("empty")).unwrap(), b"");
        for summary in [pushed, pulled] {
            assert!(summary.errors.is_empty());
            assert!(figures(&summary).iter().all(|f| f.is_finite() && *f >= 0.0), "{summary:?}");
            assert!(summary.packets_sent >= summary.packets_needed && summary.packets_needed > 0);
            assert_eq!(summary.root.len(), 64);
        }
        fs::remove_dir_all(served.root().join("here")).unwrap();
        fs::remove_dir_all(back).unwrap();
    }
}

#[test]
fn an_empty_tree_has_figures_without_holes() {
    let served = Served::start(|_| ());
    let empty = served.directory("empty");
    let options = TransferOptions { recursive: true, ..served.options() };
    let pushed = served.push(&empty, "copy", &options).unwrap();
    let pulled = served.pull("copy", &served.directory("back"), &options).unwrap();
    for summary in [pushed, pulled] {
        assert_eq!((summary.files, summary.bytes, summary.goodput_bps), (0, 0, 0.0));
        assert!(figures(&summary).iter().all(|f| f.is_finite() && *f >= 0.0), "{summary:?}");
    }
}

#[test]
fn a_deadline_goes_both_ways_and_what_became_of_it_is_told() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    fs::write(here.join("file"), content(1 << 20)).unwrap();
    let hour = SystemTime::now() + Duration::from_secs(3600);
    let options = TransferOptions { deadline: Some(hour), ..served.options() };
    let pushed = served.push(&here.join("file"), "copy", &options).unwrap();
    let pulled = served.pull("copy", &here, &options).unwrap();
    for summary in [pushed, pulled] {
        let margin = summary.deadline_margin_s.expect("there is a deadline");
        // A megabyte is there before the path's rate is found, and does not wait for the hour.
        assert!((3000.0..3600.0).contains(&margin), "{margin}");
    }
    // The shortest that is possible: it cannot be met, and is no reason to fail.
    let options = TransferOptions { deadline: Some(SystemTime::now() + Duration::from_millis(2)), ..options };
    let late = served.pull("copy", &here, &options);
    match late {
        Ok(summary) => assert!(summary.deadline_margin_s.is_some_and(|margin| margin < 0.0), "{summary:?}"),
        Err(error) => assert_eq!(error.kind, ErrorKind::Usage, "it had passed: {error}"),
    }
    let options = TransferOptions { deadline: Some(SystemTime::UNIX_EPOCH), ..served.options() };
    let error = served.pull("copy", &here, &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("has passed"), "{error}");
    let options = TransferOptions {
        deadline: Some(hour),
        congestion_control: CongestionControl::Cubic,
        ..served.options()
    };
    let error = served.pull("copy", &here, &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("a mode of --cc auto"), "{error}");
}

#[test]
fn the_log_names_who_wanted_what_and_what_came_of_it() {
    let served = Served::start(|options| options.read_only = true);
    fs::write(served.root().join("a\n[fake] line"), "12345").unwrap();
    let here = served.directory("here");
    served.pull("a\n[fake] line", &here, &served.options()).unwrap();
    let refused = served.push(&here.join("a\n[fake] line"), "b", &served.options()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Denied);
    served.pull("missing", &here, &served.options()).unwrap_err();
    let fingerprint = &served.fingerprint()[..19];
    for (request, outcome) in [
        ("pull of 'a\\n[fake] line'", "sent 1 files, 5 bytes in "),
        ("push to 'b'", "denied: this server is read-only"),
        ("pull of 'missing'", "no_source: "),
    ] {
        let asked = format!("{fingerprint}: {request}");
        let line = served.wait_for_notice(|line| line.contains(&format!("{asked}: {outcome}")));
        assert!(line.starts_with("127.0.0.1:") && !line.contains('\n'), "{line:?}");
        // And before it was done.
        assert!(served.notices().iter().any(|line| line.ends_with(&asked)), "{:?}", served.notices());
    }
}

#[test]
fn a_read_only_daemon_gives_and_does_not_take() {
    let served = Served::start(|options| options.read_only = true);
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    served.pull("file", &here, &served.options()).unwrap();
    assert_eq!(fs::read(here.join("file")).unwrap(), b"content");
    let error = served.push(&here.join("file"), "other", &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("read-only"), "{error}");
    assert!(!served.root().join("other").exists());
}

#[test]
fn a_key_that_is_taken_out_is_out() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    served.pull("file", &here, &served.options()).unwrap();
    served.authorize("");
    let error = served.pull("file", &here.join("again"), &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains(&served.fingerprint()), "{error}");
    assert!(!here.join("again").exists());
    served.wait_for_notice(|line| line.contains("denied") && line.contains("pull of 'file'"));
    // A file that cannot be understood lets nobody in, and tells strangers nothing of itself.
    served.authorize("secret nonsense\n");
    let error = served.pull("file", &here, &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(!error.message.contains("secret") && !error.message.contains("line 1"), "{error}");
    served.wait_for_notice(|line| line.contains("line 1"));
    served.authorize_client();
    served.pull("file", &here, &served.options()).unwrap();
}

#[test]
fn sessions_are_as_many_as_allowed() {
    let served = Served::start(|options| options.sessions_max = 1);
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    // Has a seat and does not say what for; it may keep it for ten seconds.
    let held = call(&served);
    let error = served.pull("file", &here, &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect);
    assert!(error.message.contains("try again later"), "{error}");
    drop(held);
    retry(|| served.pull("file", &here, &served.options()));
}

#[test]
fn seats_come_back_however_sessions_end() {
    let served = Served::start(|options| options.sessions_max = 1);
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    // More than there is room for at once, counting those that may be shaking hands.
    for round in 0..12 {
        let stranger = TcpStream::connect(served.address()).unwrap();
        drop(stranger);
        drop(call(&served));
        call(&served).writer.close();
        retry(|| match served.pull("missing", &here, &served.options()) {
            Err(error) if error.kind == ErrorKind::NoSource => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let target = here.join(round.to_string());
        retry(|| served.pull("file", &target, &served.options()));
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_with_a_reason() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    let (first, last) = served.udp_ports();
    let good = Open {
        direction: Direction::Pull,
        paths: vec![Bytes(b"file".to_vec())],
        recursive: false,
        preserve: false,
        compress: false,
        fsync: false,
        payload_size: 0,
        ack_every: 0,
        shape: Default::default(),
        sending: Sending { cc: "auto".to_owned(), ..Sending::default() },
        udp_ports: None,
    };
    let push = Open { direction: Direction::Push, ..good.clone() };
    let sending = |cc: &str| Sending { cc: cc.to_owned(), ..Sending::default() };
    let usage = ErrorKind::Usage;
    for (open, kind, says) in [
        (Open { paths: Vec::new(), ..good.clone() }, usage, "1 to 100000 paths"),
        (Open { paths: vec![Bytes(Vec::new()); 100_001], ..good.clone() }, usage, "not 100001"),
        (Open { paths: vec![Bytes(b"a".to_vec()); 2], ..push.clone() }, usage, "one destination"),
        (Open { sending: sending("warp \u{1b}"), ..good.clone() }, usage, "\"warp \""),
        (Open { sending: sending(&"x".repeat(500_000)), ..good.clone() }, usage, "xxx"),
        (Open { sending: sending("fixed"), ..good.clone() }, usage, "--rate"),
        (Open { payload_size: 511, ..good.clone() }, usage, "511"),
        (Open { payload_size: u16::MAX, ..good.clone() }, usage, "65535"),
        (Open { udp_ports: Some((first - 9, first - 1)), ..good.clone() }, usage, "UDP ports"),
        (Open { udp_ports: Some((last + 1, last + 9)), ..good.clone() }, usage, "UDP ports"),
        (Open { udp_ports: Some((last, first)), ..good.clone() }, usage, "UDP ports"),
        (Open { udp_ports: Some((0, 0)), ..good.clone() }, usage, "UDP ports"),
        (Open { paths: vec![Bytes(b"../file".to_vec())], ..good.clone() }, ErrorKind::Denied, "no right"),
        (Open { paths: vec![Bytes(b"nothing".to_vec())], ..good.clone() }, ErrorKind::NoSource, "nothing"),
        (Open { paths: vec![Bytes(b"a/b".to_vec())], ..push }, ErrorKind::Destination, "a/b"),
    ] {
        let mut channel = call(&served);
        channel.writer.send(&Message::Open(open.clone())).unwrap();
        let Ok(Some(Message::Abort { code, message })) = channel.reader.recv() else {
            panic!("{says}: not refused");
        };
        assert_eq!(ErrorKind::from_code(&code), kind, "{message}");
        assert!(message.contains(says) && message.len() < 1000, "{says}: {message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
    // The measure of all these.
    let mut channel = call(&served);
    let udp_ports = Some((first, u16::MAX));
    channel.writer.send(&Message::Open(Open { udp_ports, payload_size: 512, ..good })).unwrap();
    let Ok(Some(Message::Accept(accept))) = channel.reader.recv() else { panic!("not accepted") };
    assert!((first..=last).contains(&accept.udp_addresses[0].1));
    assert!(accept.secret.is_none(), "the channel yields the secret by itself");
}

#[test]
fn words_out_of_turn_end_a_session_with_a_reason() {
    let served = Served::start(|_| ());
    for message in [Message::Rejected { chunk: 0, attempt: 0 }, Message::Finished(Default::default())] {
        let mut channel = call(&served);
        channel.writer.send(&message).unwrap();
        let Ok(Some(Message::Abort { code, .. })) = channel.reader.recv() else { panic!("not refused") };
        assert_eq!(code, "protocol");
    }
    // A client that changes its mind in words of its own: one line of the log, whatever it says.
    let channel = call(&served);
    let message = "over\nand\u{1b}[2J out".to_owned();
    channel.writer.send(&Message::Abort { code: "interrupted".to_owned(), message }).unwrap();
    let line = served.wait_for_notice(|line| line.contains("interrupted"));
    assert!(!line.contains(char::is_control), "{line:?}");
}

#[test]
fn senseless_options_are_told_before_anyone_is_called() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    for options in [
        TransferOptions { packet_size: Some(100), ..served.options() },
        TransferOptions {
            congestion_control: CongestionControl::Fixed { bits_per_second: 0 },
            ..served.options()
        },
    ] {
        let error = served.pull("file", &here, &options).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
        let error = served.push(&here, "", &options).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage, "{error}");
    }
    assert_eq!(served.notices().len(), 1, "someone called: {:?}", served.notices());
}

#[test]
fn several_clients_at_once_do_not_mix() {
    let served = Arc::new(Served::start(|_| ()));
    let threads: Vec<_> = (0..4usize)
        .map(|number| {
            let served = served.clone();
            thread::spawn(move || {
                let here = served.directory(&format!("here{number}"));
                let file = here.join("file");
                let data: Vec<u8> = content(2 << 20).iter().map(|byte| byte ^ number as u8).collect();
                fs::write(&file, &data).unwrap();
                let name = format!("there{number}");
                served.push(&file, &name, &served.options()).unwrap();
                served.pull(&name, &here, &served.options()).unwrap();
                assert_eq!(fs::read(here.join(&name)).unwrap(), data);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(temporary_files(&served.root()).is_empty());
}

#[test]
fn every_file_is_told_on_the_client_s_side() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    for number in 0..300 {
        fs::write(here.join(number.to_string()), number.to_string()).unwrap();
    }
    let options = TransferOptions { recursive: true, ..served.options() };
    let told =
        |events: Vec<Event>| events.iter().filter(|event| matches!(event, Event::FileDone { .. })).count();
    served.push(&here, "", &options).unwrap();
    assert_eq!(told(served.take_events()), 300);
    served.pull("here/", &served.directory("back"), &options).unwrap();
    assert_eq!(told(served.take_events()), 300);
}

/// A client that has said hello and nothing else.
fn call(served: &Served) -> ControlChannel {
    let identity = Identity::load(&served.client_key()).unwrap();
    let address = served.address();
    let (host, port) = (address.ip().to_string(), address.port());
    let mut channel =
        tls::connect(&host, port, AddressFamily::Any, &identity, &CancelToken::new(), |_| Ok(())).unwrap();
    hello(&mut channel).unwrap();
    channel
}

/// Tries again while the daemon has not noticed yet that a seat is free.
fn retry<T, E: std::fmt::Debug>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < end, "still: {error:?}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn paths_of_any_bytes_are_served() {
    let served = Served::start(|_| ());
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe name");
    let here = served.directory("here");
    fs::write(here.join(name), "odd").unwrap();
    served.push(&here.join(name), "", &served.options()).unwrap();
    assert_eq!(fs::read(served.root().join(name)).unwrap(), b"odd");
}
