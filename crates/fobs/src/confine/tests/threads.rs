//! Every thread of a session is in its domain.

use super::*;
use crate::TransferOptions;
use crate::options::Transport;
use crate::options::sync::SyncOptions;
use crate::served::{Served, content};
use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

/// Where threads of sessions try to get out to, while a test wants them to, and which of them did.
static DRILL: Mutex<Option<Drill>> = Mutex::new(None);

struct Drill {
    outside: PathBuf,
    escaped: BTreeMap<String, bool>,
}

/// What a thread in a domain does at its start while there is a drill: it writes where it must not.
pub(in crate::confine) fn drill() {
    let mut drill = DRILL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Drill { outside, escaped }) = &mut *drill {
        let name = thread::current().name().unwrap_or_default().to_owned();
        let did = fs::write(outside.join(&name), "escaped").is_ok();
        *escaped.entry(name).or_default() |= did;
    }
}

/// Files that start threads in another way than `confine::spawn`, and why that is right.
const OTHERS: &[(&str, &str)] = &[
    ("confine/mod.rs", "it is the way"),
    ("confine/kernel.rs", "tries a domain and ends"),
    ("daemon.rs", "the clerks of a daemon"),
    ("daemon/metrics/http.rs", "the metrics, of which no client hears"),
    ("server/fetch.rs", "scoped, with the clerk of its session"),
    ("transfer.rs", "the thread of a library's user"),
    ("object/memory.rs", "beside a session of the library's user, for its memory"),
    ("client/dial.rs", "asks ssh for a host's address, at the client"),
    ("control/ssh.rs", "reads what ssh prints, at the client"),
    ("control/ssh/patience.rs", "looks at ssh, at the client"),
    ("control/ssh/between.rs", "carries bytes between two logins"),
    ("doctor/visit.rs", "at the client"),
    ("lessons.rs", "started by the clerk"),
];

#[test]
fn no_thread_of_a_session_is_started_past_its_domain() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let starts = ["thread::spawn(", "thread::Builder::new()", "spawn_scoped("];
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(&source).into_iter().map(std::result::Result::unwrap) {
        let name = entry.path().strip_prefix(&source).unwrap().display().to_string();
        // Hostile clients are played, by tests and the laboratory.
        let is_test = name.contains("tests/") || name.ends_with("tests.rs") || name.starts_with("hostile/");
        if !name.ends_with(".rs") || is_test {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        if starts.iter().any(|start| code.contains(start)) {
            found.push(name);
        }
    }
    found.retain(|name| !OTHERS.iter().any(|(other, _)| other == name));
    assert!(found.is_empty(), "use confine::spawn, or say above why not: {found:?}");
}

#[test]
fn a_thread_that_a_confined_one_starts_is_confined_and_has_its_clerk() {
    if !has_landlock(1) {
        return;
    }
    let started = || {
        let looks = || (File::open("/").is_ok(), outside(Errand::Counters, || File::open("/").is_ok()));
        spawn("fobs-test", move || spawn("fobs-test", looks).unwrap().join().unwrap())
            .unwrap()
            .join()
            .unwrap()
    };
    let seen = within(Domain::of_strangers(), "outer", started).unwrap();
    assert_eq!(seen, (false, true));
}

#[test]
fn every_thread_of_a_session_at_both_ends_writes_nothing_outside() {
    if !has_landlock(2) {
        return;
    }
    let served = Served::start(|_| ());
    let (here, back) = (served.directory("here"), served.directory("back"));
    fs::create_dir(here.join("sub")).unwrap();
    fs::write(here.join("sub/large"), content(3 << 20)).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let drill = Drill { outside: outside.path().to_owned(), escaped: BTreeMap::new() };
    *DRILL.lock().unwrap() = Some(drill);
    let plain = TransferOptions { recursive: true, ..served.options() };
    let sync = Arc::new(SyncOptions { link_dest: vec![b"../here".to_vec()], ..SyncOptions::default() });
    for options in [
        plain.clone(),
        TransferOptions { transport: Transport::Tcp { count: Some(2) }, ..plain.clone() },
        TransferOptions { sync: Some(sync), ..plain },
    ] {
        served.push(&here, "there", &options).unwrap();
        served.pull("there", &back, &options).unwrap();
    }
    let Drill { escaped, .. } = DRILL.lock().unwrap().take().unwrap();
    let names: Vec<_> = escaped.keys().map(String::as_str).collect();
    for name in [
        "fobs-opening",
        "fobs-session",
        "fobs-receive",
        "fobs-control",
        "fobs-read",
        "fobs-write",
        "fobs-sync",
        "fobs-streams",
        "fobs-survey",
        "fobs-walk",
    ] {
        assert!(names.contains(&name), "{name} is among {names:?}");
    }
    assert!(!escaped.values().any(|did| *did), "{escaped:?}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}
