//! What an operator can answer afterwards from a daemon's log and counters: who did what to which path.

mod served;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use fobs::doctor::Checkup;
use fobs::options::sync::{Delete, Enter, SyncOptions};
use fobs::{CancelToken, Event, Location, Preserve, Remote, Session, SymbolicLinks, TransferOptions};

use served::{Served, content, wait_for};

/// A daemon, and a source with one file.
fn served() -> (Served, std::path::PathBuf) {
    let served = Served::start(|_| ());
    let here = served.directory("here");
    fs::write(here.join("kept"), "content").unwrap();
    (served, here)
}

fn sync(served: &Served, adjust: impl FnOnce(&mut SyncOptions)) -> TransferOptions {
    let preserve = Preserve { links: SymbolicLinks::Kept, times: true, ..Preserve::default() };
    let mut sync = SyncOptions { directories: Enter::All, preserve, ..SyncOptions::default() };
    adjust(&mut sync);
    TransferOptions { sync: Some(Arc::new(sync)), recursive: true, ..served.options() }
}

fn deleting(served: &Served) -> TransferOptions {
    sync(served, |sync| sync.delete = Some(Delete::default()))
}

fn contents_of(path: &std::path::Path) -> std::path::PathBuf {
    path.join("")
}

fn remote(served: &Served) -> Remote {
    match served.remote("") {
        Location::Remote(remote) => remote,
        other => panic!("{other:?}"),
    }
}

/// The records of an event, once there are so many.
fn records(served: &Served, event: &str, count: usize) -> Vec<BTreeMap<String, String>> {
    wait_for(|| {
        let all = served.records();
        let found: Vec<_> =
            all.into_iter().filter(|it| it.get("event").is_some_and(|it| it == event)).collect();
        (found.len() >= count).then_some(found)
    })
}

#[track_caller]
fn has_metric(served: &Served, line: &str) {
    let text = served.handle.metrics();
    assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
}

#[test]
fn each_deletion_of_a_sync_is_logged_with_who_did_it() {
    let (served, here) = served();
    let there = served.root().join("in/ann");
    fs::create_dir_all(there.join("sub")).unwrap();
    fs::create_dir(there.join("way")).unwrap();
    for name in ["sub/old", "way/too", "bad\n\u{1b}[31mname"] {
        fs::write(there.join(name), "x").unwrap();
    }
    // A file in the place of a directory, which makes way.
    fs::write(here.join("way"), "now a file").unwrap();
    served.push(&contents_of(&here), "in/ann", &deleting(&served)).unwrap();
    let done = &records(&served, "done", 1)[0];
    let who = format!("{} (ann@laptop): sync --delete to 'in/ann'", &served.fingerprint()[..19]);
    assert!(done["message"].contains(&who) && done["message"].ends_with(", deleted 4"), "{done:?}");
    assert_eq!([&done["work"], &done["deleted"], &done["deleted_unnamed"]], ["sync", "4", "0"]);
    let deleted = records(&served, "deleted", 4);
    let mut paths: Vec<_> = deleted.iter().map(|it| it["path"].as_str()).collect();
    paths.sort_unstable();
    let bad = "in/ann/bad\\n\\u{1b}[31mname";
    assert_eq!(paths, [bad, "in/ann/sub", "in/ann/sub/old", "in/ann/way/too"]);
    for record in &deleted {
        assert_eq!([&record["key"], &record["key_name"]], [&served.fingerprint(), "ann@laptop"]);
        let line = format!("{who}: deleted '{}'", record["path"]);
        assert!(
            record["message"].ends_with(&line) && !record["message"].contains(char::is_control),
            "{record:?}"
        );
    }
    has_metric(&served, "fobs_deleted_total{by=\"sync\"} 4");
}

#[test]
fn a_dry_run_is_no_copy_and_deletes_nothing() {
    let (served, here) = served();
    fs::write(served.root().join("other"), "x").unwrap();
    let options = sync(&served, |sync| {
        sync.delete = Some(Delete::default());
        sync.dry_run = true;
    });
    served.push(&contents_of(&here), "", &options).unwrap();
    served.pull("", &served.directory("back"), &options).unwrap();
    assert!(
        served.client_events().any(|event| matches!(event, Event::Deleted { .. })),
        "it says what it would"
    );
    let done = records(&served, "done", 2);
    for (record, what) in done.iter().zip(["to ''", "of ''"]) {
        let says = format!(": dry run of sync --delete {what}: nothing was changed, in ");
        assert!(record["message"].contains(&says), "{record:?}");
        assert_eq!([&record["work"], &record["deleted"]], ["dry_run", "0"]);
    }
    for direction in ["push", "pull"] {
        has_metric(&served, &format!("fobs_dry_runs_total{{direction=\"{direction}\",outcome=\"ok\"}} 1"));
        has_metric(&served, &format!("fobs_sessions_total{{direction=\"{direction}\",outcome=\"ok\"}} 0"));
        has_metric(&served, &format!("fobs_files_total{{direction=\"{direction}\"}} 0"));
    }
    has_metric(&served, "fobs_deleted_total{by=\"sync\"} 0");
    assert!(served.root().join("other").exists());
}

#[test]
fn a_doctors_visit_is_a_probe() {
    let (served, here) = served();
    let checkup = Checkup {
        directory: here,
        remote: Some(remote(&served)),
        options: served.options(),
        time: Duration::from_millis(200),
        whole: None,
    };
    let found = checkup.run(served.client_events(), &CancelToken::new()).unwrap();
    assert!(found.there.is_some());
    let done = records(&served, "done", 2);
    for record in &done {
        assert!(record["message"].contains("probe of the path (pu"), "{record:?}");
        assert!(record["message"].contains(" bytes of no file in "), "{record:?}");
        assert_eq!(record["work"], "probe");
    }
    let requests = records(&served, "request", 2);
    assert!(
        requests.iter().any(|it| it["request"].starts_with("examination of '', then probe")),
        "{requests:?}"
    );
    for direction in ["push", "pull"] {
        has_metric(&served, &format!("fobs_probes_total{{direction=\"{direction}\",outcome=\"ok\"}} 1"));
        has_metric(&served, &format!("fobs_moved_bytes_total{{direction=\"{direction}\"}} 0"));
        has_metric(&served, &format!("fobs_files_total{{direction=\"{direction}\"}} 0"));
    }
}

#[test]
fn sources_that_a_pull_removes_are_logged() {
    let (served, _) = served();
    fs::create_dir_all(served.root().join("out/sub")).unwrap();
    for name in ["out/a", "out/sub/b"] {
        fs::write(served.root().join(name), name).unwrap();
    }
    let options = sync(&served, |sync| sync.remove_source_files = true);
    served.pull("out", &served.directory("back"), &options).unwrap();
    let done = &records(&served, "done", 1)[0];
    assert!(done["message"].contains(": sync --remove-source-files of 'out': sent 2 files"), "{done:?}");
    assert_eq!(done["deleted"], "2");
    let mut paths: Vec<_> = records(&served, "deleted", 2).iter().map(|it| it["path"].clone()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["out/a", "out/sub/b"]);
    has_metric(&served, "fobs_deleted_total{by=\"source\"} 2");
}

#[test]
fn requests_by_name_say_how_much_they_removed() {
    let (served, _) = served();
    fs::create_dir_all(served.root().join("tree/sub")).unwrap();
    fs::write(served.root().join("tree/sub/file"), "x").unwrap();
    let session = Session::builder(remote(&served)).options(served.options()).open().unwrap();
    session.remove_tree("tree").unwrap();
    session.make_directory("new").unwrap();
    session.remove("missing").unwrap_err();
    let answered = records(&served, "answered", 2);
    assert!(
        answered[0]["message"].ends_with("(ann@laptop): remove tree 'tree': answered, deleted 3"),
        "{answered:?}"
    );
    assert!(answered[1]["message"].ends_with("make directory 'new': answered"), "{answered:?}");
    let failed = &records(&served, "failed", 1)[0];
    assert!(failed["message"].contains("(ann@laptop): remove 'missing': no_source"), "{failed:?}");
    has_metric(&served, "fobs_deleted_total{by=\"request\"} 3");
}

#[test]
fn a_refused_request_is_logged_with_who_asked_what() {
    let (served, here) = served();
    served.authorize_client_with("read-only");
    served.push(&contents_of(&here), "in", &deleting(&served)).unwrap_err();
    let failed = &records(&served, "failed", 1)[0];
    assert!(failed["message"].contains("(ann@laptop): sync --delete to 'in': denied: "), "{failed:?}");
    assert_eq!([&failed["key"], &failed["work"]], [&served.fingerprint(), "sync"]);
    // By a key that is not known.
    served.authorize("");
    served.push(&contents_of(&here), "in", &deleting(&served)).unwrap_err();
    let who = format!("{}: sync --delete to 'in': denied: ", &served.fingerprint()[..19]);
    served.wait_for_notice(|line| line.contains(&who));
}

#[test]
fn the_lines_of_one_transfer_are_bounded_and_the_rest_is_counted() {
    let (served, here) = served();
    fs::create_dir(served.root().join("many")).unwrap();
    for number in 0..1200 {
        fs::write(served.root().join(format!("many/{number}")), "").unwrap();
    }
    served.push(&contents_of(&here), "many", &deleting(&served)).unwrap();
    let done = &records(&served, "done", 1)[0];
    assert!(done["message"].ends_with(", deleted 1200, 200 of them not named here"), "{done:?}");
    assert_eq!([&done["deleted"], &done["deleted_unnamed"]], ["1200", "200"]);
    assert_eq!(records(&served, "deleted", 1000).len(), 1000);
    has_metric(&served, "fobs_deleted_total{by=\"sync\"} 1200");
    // What was deleted before a transfer failed is in the line of its failure.
    fs::write(here.join("large"), content(64 << 20)).unwrap();
    fs::write(served.root().join("many/old"), "").unwrap();
    let options = TransferOptions { rate_limit: Some(2_000_000), ..deleting(&served) };
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        let copy = scope.spawn(|| served.push_until(&contents_of(&here), "many", &options, &cancel));
        records(&served, "deleted", 1001);
        cancel.cancel();
        copy.join().unwrap().unwrap_err();
    });
    let failed = &records(&served, "failed", 1)[0];
    assert!(failed["message"].ends_with(", deleted 1"), "{failed:?}");
}
