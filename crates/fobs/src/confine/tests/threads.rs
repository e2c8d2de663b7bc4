//! Every thread of a session is in its domain.

use super::*;

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
        let is_test = name.contains("tests/") || name.ends_with("tests.rs");
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
