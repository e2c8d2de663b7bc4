//! Access: client keys and their rights, the pinned key of the server.

use std::collections::BTreeSet;
use std::fs;

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::{hash, names, write_random};
use super::process::Finished;

/// Sets a daemon up with files on both sides.
fn with_rights(case: &Case, rights: &str) -> Daemon {
    let daemon = Daemon::start(case, rights);
    let mut random = case.random();
    for directory in ["sub", "subtle", "other"] {
        fs::create_dir(daemon.root.join(directory)).expect("a fresh directory");
        write_random(&daemon.root.join(directory).join("file"), 10_000, &mut random);
    }
    write_random(&daemon.root.join("file"), 10_000, &mut random);
    write_random(&case.local("mine"), 20_000, &mut random);
    daemon
}

fn push(case: &Case, daemon: &Daemon, to: &str) -> Finished {
    case.run(daemon.cp(case).arg(case.local("mine")).arg(daemon.url(to)))
}

fn pull(case: &Case, daemon: &Daemon, from: &str) -> Finished {
    case.run(daemon.cp(case).arg("-r").arg(daemon.url(from)).arg(case.local("pulled")))
}

#[track_caller]
fn arrived(case: &Case, daemon: &Daemon, from: &str) {
    assert_eq!(hash(&case.local("pulled")), hash(&daemon.root.join(from)));
    fs::remove_file(case.local("pulled")).expect("it is there");
}

/// All fingerprints in a text.
fn fingerprints(text: &str) -> BTreeSet<String> {
    let end = |c: char| !(c.is_ascii_alphanumeric() || "+/".contains(c));
    let of = |rest: &str| rest.split(end).next().unwrap_or_default().to_owned();
    text.split("SHA256:").skip(1).map(of).filter(|hash| hash.len() == 43).collect()
}

#[test]
fn an_unknown_client_key_is_exit_5() {
    let case = Case::new("an_unknown_client_key_is_exit_5");
    let daemon = with_rights(&case, "read-write");
    let stranger = Key::generate(&case, "stranger");
    let mut pulls = daemon.cp_with(&case, &stranger.file);
    case.run(pulls.arg(daemon.url("file")).arg(case.local("pulled"))).expect_code(5).failed();
    let mut pushes = daemon.cp_with(&case, &stranger.file);
    case.run(pushes.arg(case.local("mine")).arg(daemon.url("mine"))).expect_code(5).failed();
    assert_eq!(names(&case.local("")), ["mine"]);
    assert!(!daemon.root.join("mine").exists());
    // The known key still gets in.
    push(&case, &daemon, "mine").expect_success();
}

#[test]
fn a_changed_server_key_is_exit_5_with_both_fingerprints() {
    let case = Case::new("a_changed_server_key_is_exit_5_with_both_fingerprints");
    let client = Key::generate(&case, "client-key");
    write_random(&case.local("mine"), 20_000, &mut case.random());
    let authorized = [("read-write", &client)];
    for (server, code) in [("first", 0), ("second", 5), ("third", 5)] {
        let key = Key::generate(&case, server);
        let daemon = Daemon::start_with(&case, Spec::new(&case, &authorized, &key));
        let finished = push(&case, &daemon, server).expect_code(code);
        assert_eq!(daemon.root.join(server).exists(), code == 0);
        if code != 0 {
            let message = finished.failed()["message"].as_str().expect("a sentence").to_owned();
            let seen = fingerprints(&message);
            assert_eq!(seen.len(), 2, "expected and found: {message}");
        }
    }
}

#[test]
fn a_key_without_rights_may_only_read() {
    let case = Case::new("a_key_without_rights_may_only_read");
    let daemon = with_rights(&case, "");
    pull(&case, &daemon, "file").expect_success();
    arrived(&case, &daemon, "file");
    push(&case, &daemon, "mine").expect_code(5).failed();
    assert!(!daemon.root.join("mine").exists());
}

#[test]
fn a_key_that_may_only_write_cannot_read() {
    let case = Case::new("a_key_that_may_only_write_cannot_read");
    let daemon = with_rights(&case, "write-only");
    push(&case, &daemon, "mine").expect_success();
    assert_eq!(hash(&daemon.root.join("mine")), hash(&case.local("mine")));
    let refused = pull(&case, &daemon, "file").expect_code(5);
    refused.failed();
    assert!(!case.local("pulled").exists());
    // The answer does not reveal whether a file exists.
    let missing = pull(&case, &daemon, "no-such-file").expect_code(5);
    let mask = |finished: &Finished| finished.failed()["message"].to_string().replace("no-such-file", "file");
    assert_eq!(mask(&refused), mask(&missing));
}

#[test]
fn a_key_for_a_subtree_reaches_nothing_else() {
    let case = Case::new("a_key_for_a_subtree_reaches_nothing_else");
    let daemon = with_rights(&case, "read-write,path=\"sub\"");
    pull(&case, &daemon, "sub/file").expect_success();
    arrived(&case, &daemon, "sub/file");
    push(&case, &daemon, "sub/mine").expect_success();
    assert_eq!(hash(&daemon.root.join("sub/mine")), hash(&case.local("mine")));
    for outside in
        ["", "file", "subtle/file", "other/file", "sub/../file", "su", "/file", "sub/../sub/../other/file"]
    {
        pull(&case, &daemon, outside).expect_code(5).failed();
        push(&case, &daemon, outside).expect_code(5).failed();
    }
    assert_eq!(names(&case.local("")), ["mine"]);
    assert_eq!(names(&daemon.root), ["file", "other", "sub", "subtle"]);
}

#[test]
fn a_read_only_daemon_refuses_writes_of_any_key() {
    let case = Case::new("a_read_only_daemon_refuses_writes_of_any_key");
    let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
    let authorized = [("read-write", &client)];
    let mut spec = Spec::new(&case, &authorized, &server);
    spec.read_only = true;
    let daemon = Daemon::start_with(&case, spec);
    write_random(&daemon.root.join("file"), 10_000, &mut case.random());
    write_random(&case.local("mine"), 10_000, &mut case.random());
    push(&case, &daemon, "mine").expect_code(5).failed();
    pull(&case, &daemon, "file").expect_success();
    arrived(&case, &daemon, "file");
    assert_eq!(names(&daemon.root), ["file"]);
}

#[test]
fn two_clients_have_the_rights_of_their_own_keys() {
    let case = Case::new("two_clients_have_the_rights_of_their_own_keys");
    let (writer, reader) = (Key::generate(&case, "writer"), Key::generate(&case, "reader"));
    let server = Key::generate(&case, "server-key");
    let authorized = [("write-only", &writer), ("read-only", &reader)];
    let daemon = Daemon::start_with(&case, Spec::new(&case, &authorized, &server));
    write_random(&case.local("mine"), 10_000, &mut case.random());
    let copy = |key: &Key, from: std::ffi::OsString, to: std::ffi::OsString| {
        case.run(daemon.cp_with(&case, &key.file).arg(from).arg(to)).code
    };
    let (mine, back) = (case.local("mine").into_os_string(), case.local("back").into_os_string());
    assert_eq!(copy(&reader, mine.clone(), daemon.url("mine").into()), Some(5));
    assert_eq!(copy(&writer, mine, daemon.url("mine").into()), Some(0));
    assert_eq!(copy(&writer, daemon.url("mine").into(), back.clone()), Some(5));
    assert_eq!(copy(&reader, daemon.url("mine").into(), back), Some(0));
    assert_eq!(hash(&case.local("back")), hash(&case.local("mine")));
}
