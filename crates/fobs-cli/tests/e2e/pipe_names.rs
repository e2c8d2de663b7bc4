//! `fobs pipe` at a daemon: the command of a key's line, and programs that meet by a name.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::net::Side;

/// A daemon, and what its clients need.
pub(super) struct Served {
    pub(super) daemon: Daemon,
    keys: Vec<Key>,
}

impl Served {
    /// One key for each line of rights.
    #[track_caller]
    pub(super) fn start(case: &Case, rights: &[&str], options: &[&str]) -> Served {
        let server = Key::generate(case, "server-key");
        let keys: Vec<Key> =
            (0..rights.len()).map(|n| Key::generate(case, &format!("client-key-{n}"))).collect();
        let authorized: Vec<(&str, &Key)> = rights.iter().copied().zip(&keys).collect();
        let daemon = Daemon::start_with(case, Spec { options, ..Spec::new(case, &authorized, &server) });
        Served { daemon, keys }
    }

    /// `fobs pipe` with the key of a line.
    pub(super) fn pipe(&self, case: &Case, key: usize, words: &[&str]) -> Command {
        let mut command = case.fobs(Side::Client);
        command.args(["pipe", "-q", "-i"]).arg(&self.keys[key].file);
        command.arg("--known-hosts").arg(case.path("known_hosts")).args(words);
        command
    }
}

#[test]
fn a_line_of_a_key_names_the_command_that_it_may_run() {
    let case = Case::new("a_line_of_a_key_names_the_command_that_it_may_run");
    let at = case.path("made");
    fs::create_dir(&at).unwrap();
    let tee = format!("pipe=\"tee {}/%k.got\"", at.display());
    let served = Served::start(&case, &[&tee, "pipe=\"cat\"", "read-write"], &[]);
    let input = case.random().bytes(2_000_000);
    let named = case.run_with_input(&mut served.pipe(&case, 0, &[&served.daemon.url("db")]), input.clone());
    assert!(named.expect_success().stdout == input && fs::read(at.join("db.got")).unwrap() == input);
    let plain = case.run_with_input(&mut served.pipe(&case, 1, &[&served.daemon.url("")]), input.clone());
    assert!(plain.expect_success().stdout == input);
    for (key, name, why) in [
        (0, "../db", "plain|letters"),
        (0, "a%20b", "letters"),
        (0, "-x", "letters"),
        (0, "a/b", "letters"),
        (0, "", "takes a name"),
        (1, "db", "takes no name"),
        (2, "db", "no pipe-names"),
    ] {
        let refused = case.run(&mut served.pipe(&case, key, &[&served.daemon.url(name)])).expect_code(5);
        assert!(why.split('|').any(|why| refused.stderr.contains(why)), "{name}: {}", refused.stderr);
    }
    assert_eq!(super::files::names(&at), ["db.got"], "no other name was made");
    assert!(served.daemon.log().contains("pipe to 'db'"), "{}", served.daemon.log());
}

#[test]
fn a_command_of_a_key_tells_its_end_and_ends_with_its_pipe() {
    let case = Case::new("a_command_of_a_key_tells_its_end_and_ends_with_its_pipe");
    let at = case.path("made");
    fs::create_dir(&at).unwrap();
    let script = case.path("script");
    let lines = format!(
        "#!/bin/sh\necho $$ > {0}/pid\ncat > {0}/got\necho said >&2\necho > {0}/ended\nexit 9\n",
        at.display()
    );
    fs::write(&script, lines).unwrap();
    let served = Served::start(&case, &[&format!("pipe=\"sh {}\"", script.display())], &[]);
    let url = served.daemon.url("");
    let done = case.run_with_input(&mut served.pipe(&case, 0, &[&url]), b"all".to_vec()).expect_code(9);
    assert!(done.stderr == "said\n" && fs::read(at.join("got")).unwrap() == b"all", "{}", done.stderr);
    fs::remove_file(at.join("ended")).unwrap();
    // A client that was killed is waited for so long.
    let words = ["--timeout", "3", &url];
    let mut child = served.pipe(&case, 0, &words).stdin(Stdio::piped()).spawn().expect("fobs");
    child.stdin.as_mut().unwrap().write_all(&[1; 70_000]).unwrap();
    let got = || fs::metadata(at.join("got")).map_or(0, |it| it.len());
    case.wait_for("the command has what was sent", || got() == 70_000);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::KILL).unwrap();
    let pid = fs::read_to_string(at.join("pid")).unwrap();
    case.wait_for("the command is gone", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    assert!(!at.join("ended").exists(), "it took the half for the whole");
    child.wait().unwrap();
}

#[test]
fn two_programs_meet_by_a_name_and_both_get_everything() {
    let case = Case::new("two_programs_meet_by_a_name_and_both_get_everything");
    let served = Served::start(&case, &["pipe-names", "pipe-names,read-write"], &["--read-only"]);
    let (url, host) = (served.daemon.url("db"), served.daemon.url(""));
    let (one, other) = (case.random().bytes(5_000_000), case.random().bytes(3_000_001));
    let mut listener = served
        .pipe(&case, 0, &["--listen", "db", &host])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("fobs");
    let mut into = listener.stdin.take().unwrap();
    let all = one.clone();
    let writing = std::thread::spawn(move || into.write_all(&all));
    let reading = std::thread::spawn(move || listener.wait_with_output().unwrap());
    let mut called = None;
    case.wait_for("the listener listens", || {
        let done = case.run_with_input(&mut served.pipe(&case, 1, &[&url]), other.clone());
        let is_met = done.code != Some(3);
        called = Some(done);
        is_met
    });
    let called = called.unwrap().expect_success();
    writing.join().unwrap().unwrap();
    let listened = reading.join().unwrap();
    assert!(listened.status.success(), "{:?}", listened.status);
    assert!(called.stdout == one && listened.stdout == other);
}

#[test]
fn an_end_that_fails_is_told_to_the_other_one() {
    let case = Case::new("an_end_that_fails_is_told_to_the_other_one");
    let served = Served::start(&case, &["pipe-names"], &[]);
    let (url, host) = (served.daemon.url("db"), served.daemon.url(""));
    let mut listener = case.start(&mut served.pipe(&case, 0, &["--listen", "db", &host]));
    let log = || served.daemon.log();
    case.wait_for("the listener listens", || log().contains("listens as 'db'"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let words = ["--timeout", "3", &url];
    let mut caller = served.pipe(&case, 0, &words).stdin(Stdio::piped()).spawn().expect("fobs");
    caller.stdin.as_mut().unwrap().write_all(&[3; 200_000]).unwrap();
    case.wait_for("the first bytes are there", || listener.stdout_len() == 200_000);
    rustix::process::kill_process(rustix::process::Pid::from_child(&caller), Signal::KILL).unwrap();
    case.wait_for("the listener ends", || listener.exited().is_some());
    let ended = listener.finish();
    assert_ne!(ended.code, Some(0), "half of the bytes are not all of them");
    assert!(ended.stderr.contains("other end of the pipe"), "{}", ended.stderr);
    caller.wait().unwrap();
}

#[test]
fn a_listener_waits_no_longer_than_it_says() {
    let case = Case::new("a_listener_waits_no_longer_than_it_says");
    let served = Served::start(&case, &["pipe-names", ""], &[]);
    let (url, host) = (served.daemon.url("db"), served.daemon.url(""));
    let late =
        case.run(&mut served.pipe(&case, 0, &["--timeout", "2", "--listen", "db", &host])).expect_code(30);
    assert!(late.stderr.contains("nobody asked for the pipe 'db'"), "{}", late.stderr);
    let nobody = case.run(&mut served.pipe(&case, 0, &[&url])).expect_code(3);
    assert!(nobody.stderr.contains("no pipe listens as 'db'"), "{}", nobody.stderr);
    case.run(&mut served.pipe(&case, 1, &["--listen", "db", &host])).expect_code(5);
    // One that goes away gives its name free.
    let mut listener = case.start(&mut served.pipe(&case, 0, &["--listen", "db", &host]));
    case.wait_for("it listens", || served.daemon.log().matches("listens as 'db'").count() > 1);
    listener.kill();
    case.wait_for("its name is free", || {
        let again = case.run(&mut served.pipe(&case, 0, &["--timeout", "1", "--listen", "db", &host]));
        again.code == Some(30)
    });
}

#[test]
fn a_pipe_is_seen_changed_and_recorded() {
    let case = Case::new("a_pipe_is_seen_changed_and_recorded");
    let served = Served::start(&case, &["pipe=\"cat\""], &[]);
    let (url, record) = (served.daemon.url(""), case.path("record.jsonl"));
    let words = ["--trace", record.to_str().unwrap(), &url];
    let mut child =
        served.pipe(&case, 0, &words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("fobs");
    let (id, mut into) = (child.id(), child.stdin.take().unwrap());
    into.write_all(&[1; 70_000]).unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 70_000]).unwrap();
    let run = |words: &[&str]| case.run(case.fobs(Side::Client).args(words));
    case.wait_for("fobs top shows what went both ways", || {
        let listed = run(&["top", "--json"]).expect_success();
        let shown: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("one pipe");
        assert_eq!(
            (shown["id"].as_u64(), &shown["sources"][0]),
            (Some(u64::from(id)), &"-".into()),
            "{shown}"
        );
        assert!(shown["destination"].as_str().is_some_and(|it| it.ends_with(": pipe to ''")), "{shown}");
        shown["bytes"] == 140_000
    });
    let ctl = |change: &str| run(&["ctl", &id.to_string(), change]);
    ctl("pause").expect_success();
    into.write_all(&[2; 10_000]).unwrap();
    let listed = run(&["top", "--once"]).expect_success();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("paused"), "{:?}", listed.stdout);
    ctl("resume").expect_success();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 10_000]).unwrap();
    assert!(ctl("faster").expect_code(1).stderr.contains("is no change"));
    drop(into);
    assert!(child.wait().unwrap().success());
    let said = run(&["explain", record.to_str().unwrap()]).expect_success();
    assert!(!said.stdout.is_empty(), "{}", said.stderr);
    ctl("pause").expect_code(3);
    // An impossible place is found out before anything runs.
    let refused = case.run(&mut served.pipe(&case, 0, &["--trace", "/no/such/place", &url])).expect_code(11);
    assert!(refused.stderr.contains("/no/such/place"), "{}", refused.stderr);
}
