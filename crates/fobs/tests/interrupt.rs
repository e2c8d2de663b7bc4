//! What an interruption does. It is for the whole process, so nothing else may be tested here.

mod served;

use std::fs;
use std::sync::Arc;
use std::thread;

use fobs::ErrorKind;
use fobs::event::{Event, Progress};
use fobs::options::TransferOptions;

use served::{Served, content, temporary_files, wait_for};

#[test]
fn an_interruption_ends_copies_and_daemon_and_leaves_nothing_behind() {
    let served = Arc::new(Served::start(|_| ()));
    let here = served.directory("here");
    fs::write(here.join("large"), content(64 << 20)).unwrap();
    fs::write(served.root().join("large"), content(64 << 20)).unwrap();
    let back = served.directory("back");
    // Slow enough to be in the middle for minutes.
    let options = TransferOptions { rate_limit: Some(2_000_000), ..served.options() };
    let copies = {
        let (one, other) = (served.clone(), served.clone());
        let (from, to) = (here.join("large"), back.clone());
        let (push_options, pull_options) = (options.clone(), options);
        [
            thread::spawn(move || one.push(&from, "pushed", &push_options)),
            thread::spawn(move || other.pull("large", &to, &pull_options)),
        ]
    };
    // Both store something by now.
    wait_for(|| (!temporary_files(&served.root()).is_empty()).then_some(()));
    wait_for(|| (!temporary_files(&back).is_empty()).then_some(()));
    let events = served.client_events();
    let told = |event: &Event| matches!(event, Event::Progress(Progress { bytes, .. }) if *bytes > 0);
    wait_for(|| events.any(told).then_some(()));

    fobs::interrupt();
    for copy in copies {
        assert_eq!(copy.join().unwrap().unwrap_err().kind, ErrorKind::Interrupted);
    }
    let mut served = Arc::into_inner(served).unwrap();
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
