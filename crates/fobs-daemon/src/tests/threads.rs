//! Every thread of a session is in its domain.

use crate::served::{Served, content};
use fobs_model::options::sync::SyncOptions;
use fobs_model::options::{TransferOptions, Transport};
use fobs_sys::confine::{Domain, Errand, drill, landlock_here, outside, spawn, within};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Where threads of sessions try to get out to, while a test wants them to, and which of them did.
static DRILL: Mutex<Option<Drill>> = Mutex::new(None);

struct Drill {
    outside: PathBuf,
    escaped: BTreeMap<String, bool>,
}

/// What a thread in a domain does at its start while there is a drill: it writes where it must not.
fn write_outside() {
    let mut place = DRILL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Drill { outside, escaped }) = &mut *place {
        let name = thread::current().name().unwrap_or_default().to_owned();
        let did = fs::write(outside.join(&name), "escaped").is_ok();
        *escaped.entry(name).or_default() |= did;
    }
}

/// Files that start threads in another way than `confine::spawn`, and why that is right.
const OTHERS: &[(&str, &str)] = &[
    ("fobs-sys/src/confine/mod.rs", "it is the way"),
    ("fobs-sys/src/confine/kernel.rs", "tries a domain and ends"),
    ("fobs-daemon/src/server.rs", "the clerks of a daemon"),
    ("fobs-daemon/src/metrics/http.rs", "the metrics, of which no client hears"),
    ("fobs-daemon/src/fetch.rs", "scoped, with the clerk of its session"),
    ("fobs/src/transfer.rs", "the thread of a library's user"),
    ("fobs/src/object/memory.rs", "beside a session of the library's user, for its memory"),
    ("fobs/src/stream/mod.rs", "ends a stream of the library's user"),
    ("fobs/src/stream/opening.rs", "the thread of a stream of the library's user"),
    ("fobs/src/server/login/returning.rs", "takes logins over, each of which has a clerk of its own then"),
    ("fobs/src/pipe/program.rs", "starts the commands of pipes, which have no walls"),
    ("fobs/src/client/pipe/line.rs", "at the client"),
    ("fobs/src/client/dial.rs", "asks ssh for a host's address, at the client"),
    ("fobs-channel/src/control/ssh.rs", "reads what ssh prints, at the client"),
    ("fobs-channel/src/control/ssh/patience.rs", "looks at ssh, at the client"),
    ("fobs-channel/src/control/ssh/words.rs", "prints what ssh says, at the client"),
    ("fobs-channel/src/control/ssh/between.rs", "carries bytes between two logins"),
    ("fobs/src/doctor/mod.rs", "at the client"),
    ("fobs/src/doctor/visit.rs", "at the client"),
    ("fobs-engine/src/memory/lessons.rs", "started by the clerk"),
];

/// The crates whose code runs in a session.
const SERVING: [&str; 6] = ["fobs-sys", "fobs-store", "fobs-channel", "fobs-engine", "fobs", "fobs-daemon"];

/// Whether sessions are held here as this version of Landlock holds them.
fn has_landlock(at_least: u32) -> bool {
    let has = landlock_here() >= at_least;
    if !has {
        eprintln!("skipped: needs Landlock {at_least}, and here is {}", landlock_here());
    }
    has
}

#[test]
fn no_thread_of_a_session_is_started_past_its_domain() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let starts = ["thread::spawn(", "Builder::new().name(", "thread::Builder::new()", "spawn_scoped("];
    let mut found = Vec::new();
    let sources = SERVING.iter().map(|name| crates.join(name).join("src"));
    let entries = sources.flat_map(|source| walkdir::WalkDir::new(source).into_iter().map(Result::unwrap));
    for entry in entries {
        let name = entry.path().strip_prefix(crates).unwrap().display().to_string();
        // Hostile clients are played, by tests and the laboratory.
        let is_test = name.contains("tests/")
            || name.ends_with("tests.rs")
            || name.starts_with("fobs-daemon/src/hostile/");
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
    drill::set(write_outside);
    *DRILL.lock().unwrap() = Some(Drill { outside: outside.path().to_owned(), escaped: BTreeMap::new() });
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
