//! A daemon in operation: limits of keys, the queue, and its end.

mod served;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fobs::event::Outcome;
use fobs::options::Location;
use fobs::{Call, CancelToken, ErrorKind, Onto, Session, TransferOptions};

use served::{Events, Served, content, wait_for};

/// Long enough that no test waits for it.
const LONG: Duration = Duration::from_secs(600);

/// A daemon with `file`, which takes minutes at [`slow`].
fn served(adjust: impl FnOnce(&mut fobs::ServeOptions)) -> Arc<Served> {
    let served = Served::start(adjust);
    fs::write(served.root().join("file"), content(64 << 20)).unwrap();
    fs::write(served.root().join("small"), "content").unwrap();
    Arc::new(served)
}

fn slow(served: &Served, bits_per_second: u64) -> TransferOptions {
    TransferOptions { rate_limit: Some(bits_per_second), ..served.options() }
}

/// Starts a pull of `file`; returns once its session runs, the only one.
fn begin(served: &Arc<Served>, bits_per_second: u64, cancel: &CancelToken) -> JoinHandle<Outcome> {
    // A session ends a little after its copy.
    wait_for(|| (served.handle.sessions() == 0).then_some(()));
    let (other, cancel) = (served.clone(), cancel.clone());
    let copy = thread::spawn(move || {
        let to = other.directory("slowly");
        other.pull_until("file", &to, &slow(&other, bits_per_second), &cancel)
    });
    wait_for(|| (served.handle.sessions() == 1).then_some(()));
    copy
}

#[test]
fn a_key_has_no_more_sessions_than_its_line_allows() {
    let served = served(|_| ());
    for (options, says) in [
        ("read-write,sessions=1", "full for this key: 1 of its sessions"),
        ("read-write,open-files=500", "full for this key: 1 of its sessions"),
    ] {
        served.authorize_client_with(options);
        let cancel = CancelToken::new();
        let copy = begin(&served, 2_000_000, &cancel);
        // It tries again meanwhile.
        let impatient = TransferOptions { timeout: Duration::from_secs(1), ..served.options() };
        let error = served.pull("small", &served.directory("here"), &impatient).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Connect, "{error}");
        assert!(error.message.contains(says), "{error}");
        cancel.cancel();
        copy.join().unwrap().unwrap_err();
        wait_for(|| (served.handle.sessions() == 0).then_some(()));
        served.pull("small", &served.directory("here"), &served.options()).unwrap();
    }
}

#[test]
fn a_full_daemon_lets_a_known_client_wait() {
    let served = served(|options| {
        options.sessions_max = 1;
        options.queue_wait = LONG;
    });
    let cancel = CancelToken::new();
    let first = begin(&served, 2_000_000, &cancel);
    let other = served.clone();
    let second =
        thread::spawn(move || other.pull("small", &other.directory("here"), &other.options()).map(|_| ()));
    wait_for(|| (served.handle.waiting() == 1).then_some(()));
    cancel.cancel();
    first.join().unwrap().unwrap_err();
    second.join().unwrap().unwrap();
    assert_eq!(served.handle.waiting(), 0);
}

#[test]
fn every_request_that_waits_for_a_place_is_told_so() {
    type Ask = fn(Call<'_>) -> fobs::Result<()>;
    let asks: &[(&str, Ask)] = &[
        ("list", |call| call.list("").map(drop)),
        ("stat", |call| call.stat("small").map(drop)),
        ("walk", |call| call.walk("", 3).map(drop)),
        ("copy", |call| call.copy("small", "again", Onto::Anything).map(drop)),
        ("touch", |call| call.touch("small")),
        ("make_directory", |call| call.make_directory("new")),
        ("remove", |call| call.remove("again")),
        ("recv", |call| call.recv("small", 100).map(drop)),
        ("send", |call| call.send("sent", b"content").map(drop)),
    ];
    let served = served(|options| {
        options.sessions_max = 1;
        options.queue_wait = LONG;
    });
    for (name, ask) in asks {
        let cancel = CancelToken::new();
        let first = begin(&served, 2_000_000, &cancel);
        let Location::Remote(remote) = served.remote("") else { panic!("a remote") };
        let session = Session::builder(remote).options(served.options()).open().unwrap();
        let events = Arc::new(Events::default());
        thread::scope(|scope| {
            let asked = scope.spawn(|| ask(session.call().events(events.clone())));
            let told = "the one session of the server is taken: waiting for one for up to 600 s";
            let is_told = || events.notices().iter().any(|line| line.contains(told)).then_some(());
            // The first copy takes minutes: what is told meanwhile is told before the answer.
            wait_for(is_told);
            assert!(!asked.is_finished(), "{name}");
            cancel.cancel();
            asked.join().unwrap().unwrap_or_else(|error| panic!("{name}: {error}"));
        });
        first.join().unwrap().unwrap_err();
    }
}

#[test]
fn sessions_of_a_key_share_its_rate_in_both_directions() {
    const BYTES: usize = 12 << 20;
    let served = served(|_| ());
    served.authorize_client_with("read-write,rate=100Mbit");
    let here = served.directory("here");
    fs::write(here.join("up"), content(BYTES)).unwrap();
    fs::write(served.root().join("down"), content(BYTES)).unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        let up = scope.spawn(|| served.push(&here.join("up"), "up", &served.options()));
        served.pull("down", &here, &served.options()).unwrap();
        up.join().unwrap().unwrap();
    });
    // 2 s less the last chunk; 1 s if each had the rate for itself. A slow machine takes longer.
    assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    assert_eq!(fs::read(served.root().join("up")).unwrap(), content(BYTES));
}

#[test]
fn a_drained_daemon_lets_running_sessions_end() {
    let served = served(|options| options.drain = LONG);
    // 64 MiB in about 2.7 s.
    let copy = begin(&served, 200_000_000, &CancelToken::new());
    served.handle.drain();
    served.wait_for_notice(|line| line.contains("shutting down: no new clients; 1 running sessions"));
    let error = served.pull("small", &served.directory("here"), &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect, "{error}");
    copy.join().unwrap().unwrap();
    let mut served = Arc::into_inner(served).unwrap();
    assert_eq!(served.thread.take().unwrap().join().unwrap(), Ok(()));
    assert!(served.notices().iter().any(|line| line.contains("all sessions have ended")));
}

#[test]
fn the_end_of_the_grace_ends_a_session_with_the_reason() {
    let served = served(|options| options.drain = Duration::from_millis(100));
    // So slow that nothing is verified: the client would wait for the restart.
    let copy = begin(&served, 50_000, &CancelToken::new());
    served.handle.drain();
    let error = copy.join().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect, "a restart, not the user's wish: {error}");
    assert!(error.message.contains("this server is shutting down"), "{error}");
    let mut served = Arc::into_inner(served).unwrap();
    assert_eq!(served.thread.take().unwrap().join().unwrap(), Ok(()));
    assert!(served.notices().iter().any(|line| line.contains("1 sessions had to be ended")));
}

#[test]
fn records_have_fields_for_programs() {
    let served = served(|_| ());
    served.pull("small", &served.directory("here"), &served.options()).unwrap();
    served.wait_for_notice(|line| line.contains("sent 1 files"));
    let records = served.records();
    let field = |event: &str, name: &str| {
        let record = records.iter().find(|record| record["event"] == event).unwrap();
        record.get(name).cloned().unwrap_or_default()
    };
    assert_eq!(field("listening", "address"), served.address().to_string());
    for event in ["request", "done"] {
        assert_eq!(field(event, "key"), served.fingerprint());
        assert_eq!(field(event, "key_name"), "ann@laptop");
        assert_eq!(field(event, "direction"), "pull");
        assert_eq!(field(event, "request"), "pull of 'small'");
        assert_eq!(field(event, "session"), field("done", "session"));
        assert!(field(event, "peer").starts_with("127.0.0.1:"));
    }
    assert_eq!((field("done", "files").as_str(), field("done", "bytes").as_str()), ("1", "7"));
    assert_eq!(field("done", "files_failed"), "0");
}

#[test]
fn metrics_of_sessions_are_counted_and_served() {
    let served = served(|options| options.metrics = Some((std::net::Ipv4Addr::LOCALHOST, 0).into()));
    served.pull("small", &served.directory("here"), &served.options()).unwrap();
    served.pull("missing", &served.directory("here"), &served.options()).unwrap_err();
    let line = served.wait_for_notice(|line| line.contains("metrics at http://"));
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let scrape = || {
        let mut socket = TcpStream::connect(&address).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    // A session is counted when its thread ends, after its client has gone.
    let has = |text: &str, line: &str| text.lines().any(|other| other == line);
    let ended = "fobs_sessions_total{direction=\"pull\",outcome=\"no_source\"} 1";
    wait_for(|| has(&scrape(), ended).then_some(()));
    let text = scrape();
    for line in [
        "fobs_sessions_total{direction=\"pull\",outcome=\"ok\"} 1",
        "fobs_moved_bytes_total{direction=\"pull\"} 7",
        "fobs_files_total{direction=\"pull\"} 1",
        "fobs_connections_total 2",
        "fobs_sessions_running 0",
        "fobs_draining 0",
    ] {
        assert!(has(&text, line), "{line} in\n{text}");
    }
    // Every line is a comment or a sample: a name, labels, and one number.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let is_ours = name.starts_with("fobs_") || name.starts_with("process_");
        assert!(is_ours && value.parse::<f64>().is_ok(), "{line}");
    }
    // What the process takes grows meanwhile, and other programs write to the disk.
    let is_counted = |line: &&str| !line.starts_with("process_") && !line.starts_with("fobs_disk_");
    let counted = |text: &str| text.lines().filter(is_counted).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(counted(&text), counted(&served.handle.metrics()));
}
