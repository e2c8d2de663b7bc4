//! The handle of a transfer: several in one process, cancelled on their own.

mod served;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use fobs::{CancelToken, ErrorKind, Event, Location, Transfer, TransferBuilder, TransferOptions};

use served::{Served, content, temporary_files, wait_for};

/// Slow enough that [`LARGE`] bytes take minutes, bits per second.
const SLOW: u64 = 2_000_000;
const LARGE: usize = 64 << 20;

fn push(served: &Served, from: &Path, to: &str, options: TransferOptions) -> TransferBuilder {
    Transfer::builder([Location::Local(from.to_path_buf())], served.remote(to)).options(options)
}

fn pull(served: &Served, from: &str, to: &Path, options: TransferOptions) -> TransferBuilder {
    Transfer::builder([served.remote(from)], Location::Local(to.to_path_buf())).options(options)
}

fn slow(served: &Served) -> TransferOptions {
    TransferOptions { rate_limit: Some(SLOW), ..served.options() }
}

#[test]
fn transfers_of_one_process_are_cancelled_independently() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    let data = content(LARGE);
    fs::write(here.join("large"), &data).unwrap();
    let leaves_nothing = TransferOptions { no_partial: true, ..slow(&served) };
    let doomed = push(&served, &here.join("large"), "doomed", leaves_nothing).start().unwrap();
    wait_for(|| (doomed.progress().bytes > 0).then_some(()));
    // Large enough to be running still when the other one is cancelled.
    let options = TransferOptions { rate_limit: Some(200_000_000), ..served.options() };
    let other = push(&served, &here.join("large"), "other", options).start().unwrap();
    wait_for(|| (other.progress().bytes > 0).then_some(()));
    doomed.cancel();
    doomed.cancel();
    assert_eq!(doomed.wait().unwrap_err().kind, ErrorKind::Interrupted);
    let summary = other.wait().unwrap();
    assert_eq!((summary.files, summary.bytes), (1, LARGE as u64));
    assert!(fs::read(served.root().join("other")).unwrap() == data);
    assert!(!served.root().join("doomed").exists());
    wait_for(|| temporary_files(&served.root()).is_empty().then_some(()));
}

#[test]
fn a_shared_token_cancels_all_its_transfers() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("large"), content(LARGE)).unwrap();
    let token = CancelToken::new();
    let transfers = ["one", "two"].map(|name| {
        let to = served.directory(name);
        pull(&served, "large", &to, slow(&served)).cancel_token(token.clone()).start().unwrap()
    });
    token.cancel();
    for transfer in transfers {
        assert_eq!(transfer.wait().unwrap_err().kind, ErrorKind::Interrupted);
    }
}

#[test]
fn a_cancelled_token_starts_no_transfer() {
    let served = Served::start(|_| ());
    let token = CancelToken::new();
    token.cancel();
    let before = served.notices().len();
    let started =
        pull(&served, "file", &served.directory("here"), served.options()).cancel_token(token).start();
    assert_eq!(started.unwrap_err().kind, ErrorKind::Interrupted);
    assert_eq!(served.notices().len(), before, "no connection was made: {:?}", served.notices());
}

#[test]
fn a_dropped_handle_cancels_and_cleans_up_first() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("large"), content(LARGE)).unwrap();
    let here = served.directory("here");
    let transfer = pull(&served, "large", &here, slow(&served)).start().unwrap();
    wait_for(|| (!temporary_files(&here).is_empty()).then_some(()));
    drop(transfer);
    assert_eq!(fs::read_dir(&here).unwrap().count(), 0);
}

#[test]
fn cancelling_a_complete_transfer_changes_nothing() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    let here = served.directory("here");
    let transfer = pull(&served, "file", &here, served.options()).start().unwrap();
    wait_for(|| transfer.is_finished().then_some(()));
    transfer.cancel();
    assert_eq!(transfer.wait().unwrap().files, 1);
    assert_eq!(fs::read(here.join("file")).unwrap(), b"content");
}

#[test]
fn impossible_requests_fail_at_the_start() {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    let options = TransferOptions { packet_size: Some(1), ..served.options() };
    let failed = [
        pull(&served, "file", &here, options).start(),
        Transfer::builder([], Location::Local(here.clone())).start(),
        Transfer::builder([served.remote("a")], served.remote("b")).start(),
        Transfer::builder([Location::Local(here.clone())], Location::Local(here.clone())).start(),
        Transfer::builder([Location::Stdio, Location::Stdio], served.remote("b")).start(),
    ];
    assert_eq!(failed.map(|started| started.unwrap_err().kind), [ErrorKind::Usage; 5]);
}

#[test]
fn a_panic_in_a_sink_is_an_internal_error() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("file"), "content").unwrap();
    let sink = Arc::new(|event: Event| assert!(!matches!(event, Event::Started { .. }), "on purpose"));
    let transfer =
        pull(&served, "file", &served.directory("here"), served.options()).events(sink).start().unwrap();
    assert_eq!(transfer.wait().unwrap_err().kind, ErrorKind::Internal);
}
