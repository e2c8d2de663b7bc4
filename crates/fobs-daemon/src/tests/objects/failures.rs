//! Sessions in which something goes wrong, and which are used again.

use super::{builder, connections, counter, open};
use crate::Server;
use crate::served::{Served, content, temporary_files, wait_for};
use fobs::Session;
use fobs_model::cancel::CancelToken;
use fobs_model::error::ErrorKind;
use fobs_model::event::Event;
use fobs_model::options::{ServeOptions, TransferOptions};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

/// Slow enough that [`LARGE`] bytes take half a minute, fast enough that some arrive soon, bits per second.
const SLOW: u64 = 20_000_000;
const LARGE: usize = 64 << 20;

fn slow(served: &Served) -> TransferOptions {
    TransferOptions { rate_limit: Some(SLOW), ..served.options() }
}

/// The session still works, over as many connections as expected so far.
#[track_caller]
fn expect_use(served: &Served, session: &Session, expected: u64) {
    session.send("used", b"again").unwrap();
    assert_eq!(session.recv("used", 10).unwrap(), b"again");
    assert_eq!(connections(served), expected);
}

#[test]
fn refusals_leave_the_connection() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), content(100_000)).unwrap();
    fs::write(served.directory("here").join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../here/secret", served.root().join("link")).unwrap();
    let session = open(&served);
    let kind = |outcome: fobs_model::error::Result<Vec<u8>>| outcome.unwrap_err().kind;
    assert_eq!(kind(session.recv("none", 10)), ErrorKind::NoSource);
    assert_eq!(kind(session.recv("../here/secret", 10)), ErrorKind::Denied);
    assert_eq!(kind(session.recv("link", 10)), ErrorKind::Denied);
    assert_eq!(kind(session.recv(".", 10)), ErrorKind::Usage);
    for buffer in [&mut [0; 10][..], &mut vec![0; 99_999]] {
        let error = session.recv_into("file", buffer).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("100000 bytes"), "{error}");
        assert_eq!(session.read_range("none", 0, buffer).unwrap_err().kind, ErrorKind::NoSource);
        assert_eq!(session.read_range("../here/secret", 0, buffer).unwrap_err().kind, ErrorKind::Denied);
    }
    for data in [&content(10)[..], &content(1 << 20)] {
        let outcome = session.send("../here/written", data);
        assert!(matches!(outcome.unwrap_err().kind, ErrorKind::Destination | ErrorKind::Denied));
        assert_eq!(session.send("none/written", data).unwrap_err().kind, ErrorKind::Destination);
    }
    assert!(!served.directory("here").join("written").exists());
    expect_use(&served, &session, 1);
}

#[test]
fn what_fails_here_is_not_asked_for() {
    let served = Served::start(|_| ());
    let session = open(&served);
    let nothing = served.directory("here").join("nothing");
    // Before anything else: both ends must agree on the secret of the first transfer with packets.
    assert_eq!(session.put(&[nothing], "x").unwrap_err().kind, ErrorKind::NoSource);
    let error = session.get(&["x"], std::path::Path::new("/proc/nothing/here")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Destination, "{error}");
    let data = content(100_000);
    session.send("large", &data).unwrap();
    assert!(session.recv("large", 100_000).unwrap() == data);
    expect_use(&served, &session, 1);
}

#[test]
fn a_key_that_may_only_read_cannot_send() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    served.authorize_client_with("read-only");
    let session = open(&served);
    for data in [&content(10)[..], &content(1 << 20)] {
        assert_eq!(session.send("new", data).unwrap_err().kind, ErrorKind::Denied);
    }
    assert_eq!(session.recv("file", 10).unwrap(), b"content");
    assert!(!served.root().join("new").exists());
    served.authorize_client_with("write-only");
    assert_eq!(session.recv("file", 10).unwrap_err().kind, ErrorKind::Denied);
    assert_eq!(session.read_range("file", 0, &mut [0; 5]).unwrap_err().kind, ErrorKind::Denied);
    session.send("new", b"now").unwrap();
    // A key that is removed has no further transfer on a connection that rests.
    served.authorize("");
    let error = session.send("new", b"refused").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert_eq!(fs::read(served.root().join("new")).unwrap(), b"now");
}

#[test]
fn options_that_no_session_has_are_refused() {
    let served = Served::start(|_| ());
    let sync = TransferOptions { sync: Some(Arc::default()), ..served.options() };
    let error = builder(&served).options(sync.clone()).open().err().unwrap();
    assert_eq!(error.kind, ErrorKind::Usage);
    let session = open(&served);
    let error = session.call().options(sync).send("a", b"b").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    let packets = TransferOptions { packet_size: Some(1), ..served.options() };
    assert_eq!(session.call().options(packets).send("a", b"b").unwrap_err().kind, ErrorKind::Usage);
    expect_use(&served, &session, 1);
}

#[test]
fn a_cancelled_transfer_leaves_the_session() {
    let served = Served::start(|_| ());
    let data = content(LARGE);
    fs::write(served.root().join("large"), &data).unwrap();
    let session = open(&served);
    let moves = |event: &Event| matches!(event, Event::Progress(progress) if progress.bytes > 0);
    // By the session, and by a token of the call; each way.
    for round in 0..4 {
        let (token, events) = (CancelToken::new(), Arc::new(crate::served::Events::default()));
        let call = session.call().options(slow(&served)).events(events.clone()).cancel_token(token.clone());
        let data = &data;
        thread::scope(|scope| {
            let moving = scope.spawn(move || match round % 2 {
                0 => call.send("new", data).map(drop),
                _ => call.recv_into("large", &mut vec![0; LARGE]).map(drop),
            });
            wait_for(|| events.any(moves).then_some(()));
            if round < 2 {
                session.cancel()
            } else {
                token.cancel()
            }
            assert_eq!(moving.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
        });
        assert!(!served.root().join("new").exists());
        session.send("between", b"works").unwrap();
    }
    assert_eq!(session.recv("between", 10).unwrap(), b"works");
    wait_for(|| temporary_files(&served.root()).is_empty().then_some(()));
    // With nothing to cancel, nothing happens.
    session.cancel();
    assert_eq!(session.recv("between", 10).unwrap(), b"works");
}

#[test]
fn a_thread_that_waits_for_the_session_can_be_cancelled() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("large"), content(LARGE)).unwrap();
    let session = open(&served);
    let (waits, runs) = (CancelToken::new(), CancelToken::new());
    thread::scope(|scope| {
        let call = session.call().options(slow(&served)).cancel_token(runs.clone());
        let running = scope.spawn(move || call.recv("large", LARGE as u64));
        wait_for(|| (served.handle.sessions() == 1).then_some(()));
        let call = session.call().cancel_token(waits.clone());
        let waiting = scope.spawn(move || call.recv("large", LARGE as u64));
        waits.cancel();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
        runs.cancel();
        assert_eq!(running.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
    });
}

#[test]
fn a_server_that_was_restarted_is_called_again() {
    let kept: Arc<Mutex<Option<ServeOptions>>> = Arc::default();
    let options = kept.clone();
    let mut served = Served::start(move |chosen| *options.lock().unwrap() = Some(chosen.clone()));
    let session = open(&served);
    session.send("before", b"one").unwrap();
    served.cancel.cancel();
    let _ = served.thread.take().unwrap().join().unwrap();
    let error = session.send("meanwhile", b"two").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect, "{error}");
    let options = kept.lock().unwrap().take().unwrap();
    let options = ServeOptions { listen: vec![served.address()], ..options };
    let (server, stop) = (Server::bind(&options).unwrap(), CancelToken::new());
    let token = stop.clone();
    let serving = thread::spawn(move || server.run(&token));
    session.send("after", b"three").unwrap();
    assert_eq!(session.recv("before", 10).unwrap(), b"one");
    stop.cancel();
    assert_eq!(serving.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
}

#[test]
fn a_connection_that_the_server_ended_costs_no_error() {
    let served = Served::start(|_| ());
    // One key has 16 places; those that rest longest make room, whichever these are.
    let sessions: Vec<_> = (0..20).map(|_| open(&served)).collect();
    sessions.iter().for_each(|session| drop(session.send("object", b"content").unwrap()));
    wait_for(|| (connections(&served) > 20).then_some(()));
    for session in &sessions {
        assert_eq!(session.recv("object", 10).unwrap(), b"content");
        let before = connections(&served);
        assert_eq!(session.recv("object", 10).unwrap(), b"content");
        assert_eq!(connections(&served), before, "the one that was used last rests");
    }
}

#[test]
fn a_session_at_rest_holds_no_seat_and_no_server() {
    let mut served = Served::start(|options| options.sessions_max = 1);
    let resting = [open(&served), open(&served)];
    wait_for(|| (served.handle.sessions() == 0).then_some(()));
    for session in &resting {
        session.send("object", b"content").unwrap();
        // Free a little after the answer.
        wait_for(|| (served.handle.sessions() == 0).then_some(()));
    }
    let here = served.directory("here");
    served.pull("object", &here, &served.options()).unwrap();
    served.handle.drain();
    served.thread.take().unwrap().join().unwrap().unwrap();
    assert!(served.notices().iter().any(|line| line.contains("all sessions have ended")));
    assert_eq!(resting[0].recv("object", 10).unwrap_err().kind, ErrorKind::Connect);
}

#[test]
fn a_server_that_keeps_no_connection_is_called_for_each_transfer() {
    let served = Served::start(|_| ());
    let data = content(200_000);
    let session = builder(&served).plays_old().open().unwrap();
    for len in [0, 10, 200_000] {
        session.send("object", &data[..len]).unwrap();
        assert!(session.recv("object", 200_000).unwrap() == data[..len]);
        assert_eq!(session.recv_into("object", &mut vec![0; 200_001]).unwrap(), len);
    }
    assert_eq!(connections(&served), 10);
    assert_eq!(session.recv("object", 199_999).unwrap_err().kind, ErrorKind::Usage);
    assert_eq!(session.recv_into("object", &mut vec![0; 199_999]).unwrap_err().kind, ErrorKind::Usage);
    let error = session.read_range("object", 0, &mut [0; 5]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert!(error.message.contains("older fobs"), "{error}");
    assert_eq!(counter(&served, "fobs_sessions_total{direction=\"push\",outcome=\"ok\"}"), 3);
}
