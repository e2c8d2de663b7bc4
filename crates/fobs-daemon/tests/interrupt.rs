//! Cancellation of copies and of a daemon.

mod served;

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use fobs::event::{Event, Progress};
use fobs::options::{Carrier, Location, Remote, TransferOptions};
use fobs::{CancelToken, ErrorKind, Transfer};

use served::{Served, content, temporary_files, wait_for};

#[test]
fn cancelled_copies_and_daemon_leave_nothing_behind() {
    let served = Arc::new(Served::start(|_| ()));
    let here = served.directory("here");
    fs::write(here.join("large"), content(64 << 20)).unwrap();
    fs::write(served.root().join("large"), content(64 << 20)).unwrap();
    let back = served.directory("back");
    // Slow enough to be in the middle for minutes.
    let options = TransferOptions { rate_limit: Some(2_000_000), no_partial: true, ..served.options() };
    let cancel = CancelToken::new();
    let copies = {
        let (push_token, pull_token) = (cancel.clone(), cancel.clone());
        let (one, other) = (served.clone(), served.clone());
        let (from, to) = (here.join("large"), back.clone());
        let (push_options, pull_options) = (options.clone(), options);
        [
            thread::spawn(move || one.push_until(&from, "pushed", &push_options, &push_token)),
            thread::spawn(move || other.pull_until("large", &to, &pull_options, &pull_token)),
        ]
    };
    // Both store something by now.
    wait_for(|| (!temporary_files(&served.root()).is_empty()).then_some(()));
    wait_for(|| (!temporary_files(&back).is_empty()).then_some(()));
    let events = served.client_events();
    let told = |event: &Event| matches!(event, Event::Progress(Progress { bytes, .. }) if *bytes > 0);
    wait_for(|| events.any(told).then_some(()));

    cancel.cancel();
    for copy in copies {
        assert_eq!(copy.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
    }
    let mut served = Arc::into_inner(served).unwrap();
    served.cancel.cancel();
    let ended = served.thread.take().unwrap().join().unwrap();
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Interrupted);
    for place in [served.root(), back] {
        assert!(temporary_files(&place).is_empty());
    }
    assert!(!served.root().join("pushed").exists());
    assert_eq!(fs::read_dir(served.directory("back")).unwrap().count(), 0);
    // Nothing new begins.
    let error = served.pull("large", &served.directory("more"), &served.options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connect, "{error}");
}

#[test]
fn cancellation_ends_a_wait_for_a_silent_server() {
    // Accepts connections and never answers: the TLS handshake waits.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = Served::start(|_| ());
    let remote = Location::Remote(Remote {
        carrier: Carrier::Daemon,
        user: None,
        host: "127.0.0.1".to_owned(),
        port: Some(silent.local_addr().unwrap().port()),
        path: Vec::new(),
    });
    let here = Location::Local(served.directory("here"));
    let (options, cancel) = (served.options(), CancelToken::new());
    let transfer =
        Transfer::builder([remote], here).options(options).cancel_token(cancel.clone()).start().unwrap();
    let _held = silent.accept().unwrap();
    cancel.cancel();
    assert_eq!(transfer.wait().unwrap_err().kind, ErrorKind::Interrupted);
}
