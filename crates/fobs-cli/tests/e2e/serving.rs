//! The daemon as a service: its signals and its log.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};

/// A daemon with `file` and more options, whose client may read.
fn start(case: &Case, options: &[&str]) -> Daemon {
    let (client, server) = (Key::generate(case, "client-key"), Key::generate(case, "server-key"));
    let keys = [("", &client)];
    let daemon = Daemon::start_with(case, Spec { options, ..Spec::new(case, &keys, &server) });
    fs::write(daemon.root.join("file"), vec![7; 64 << 20]).expect("the served directory");
    daemon
}

/// The arguments of a copy that takes minutes, and of one that takes a few seconds.
const SLOWLY: [&str; 2] = ["--rate", "2Mbit"];
const QUICKLY: [&str; 2] = ["--rate", "300Mbit"];

#[test]
fn sigterm_lets_a_running_copy_end_and_is_exit_0() {
    let case = Case::new("sigterm_lets_a_running_copy_end_and_is_exit_0");
    let mut daemon = start(&case, &["--drain", "100"]);
    let mut copy = case.start(daemon.cp(&case).args(QUICKLY).arg(daemon.url("file")).arg(case.local("to")));
    copy.wait_until_data_flows();
    daemon.signal(Signal::TERM);
    copy.finish().expect_success();
    assert_eq!(daemon.exit_code(&case), Some(0));
    let log = daemon.log();
    assert!(log.contains("shutting down: no new clients; 1 running sessions"), "{log}");
    assert!(log.contains("all sessions have ended"), "{log}");
}

#[test]
fn a_second_sigterm_and_sigint_end_the_daemon_at_once() {
    for signals in [&[Signal::TERM, Signal::TERM][..], &[Signal::INT]] {
        let case = Case::new("a_second_sigterm_and_sigint_end_the_daemon_at_once");
        let mut daemon = start(&case, &["--drain", "10000"]);
        // It may go on when the daemon is back, for which nobody waits here.
        let mut copy =
            case.start(daemon.cp(&case).args(SLOWLY).arg(daemon.url("file")).arg(case.local("to")));
        copy.wait_until_data_flows();
        for signal in signals {
            daemon.signal(*signal);
            // Two signals that come together are one.
            let drains = || daemon.log().contains("shutting down") || *signal == Signal::INT;
            case.wait_for("the log of it", drains);
        }
        assert_eq!(daemon.exit_code(&case), Some(20));
        copy.kill();
    }
}

#[test]
fn sighup_changes_nothing_at_a_daemon_without_a_terminal() {
    let case = Case::new("sighup_changes_nothing_at_a_daemon_without_a_terminal");
    let mut daemon = start(&case, &[]);
    daemon.signal(Signal::HUP);
    case.wait_for("the log of it", || daemon.log().contains("SIGHUP: nothing to do"));
    case.run(daemon.cp(&case).arg(daemon.url("file")).arg(case.local("to"))).expect_success();
    daemon.expect_alive();
}

#[test]
fn the_json_log_has_an_object_a_line() {
    let case = Case::new("the_json_log_has_an_object_a_line");
    let mut daemon = start(&case, &["--log-json"]);
    fs::write(daemon.root.join("a\nb"), "content").expect("the served directory");
    case.run(daemon.cp(&case).arg(daemon.url("a%0Ab")).arg(case.local("to"))).expect_success();
    case.wait_for("the outcome", || daemon.log().contains("\"done\""));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(&case), Some(0));
    let log = daemon.log();
    let records: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let events: Vec<_> = records.iter().filter_map(|record| record["event"].as_str()).collect();
    assert_eq!(events, ["listening", "walls", "request", "done", "draining", "drained"], "{log}");
    assert_eq!((&records[3]["bytes"], &records[3]["key_name"]), (&Value::from(7), &Value::from("e2e")));
    assert!(records.iter().all(|record| record["timestamp"].is_string() && record["level"] == "INFO"));
}

/// Descriptors that one session may hold (docs/security.md).
const DESCRIPTORS_PER_SESSION: usize = 448;

#[test]
fn a_session_holds_no_more_descriptors_than_documented() {
    let case = Case::new("a_session_holds_no_more_descriptors_than_documented");
    let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
    let keys = [("read-write", &client)];
    let daemon = Daemon::start_with(&case, Spec::new(&case, &keys, &server));
    // Deep and wide: directories, small files, and one that takes a while.
    for top in [case.local("tree"), daemon.root.join("tree")] {
        let mut deep = top.clone();
        (0..40).for_each(|level| deep.push(format!("level{level}")));
        fs::create_dir_all(&deep).expect("a directory of ours");
        for number in 0..200 {
            fs::write(deep.join(number.to_string()), [7; 5000]).expect("a file of ours");
        }
        fs::write(top.join("large"), vec![7; 8 << 20]).expect("a file of ours");
    }
    let open = || fs::read_dir(format!("/proc/{}/fd", daemon.id())).expect("it runs").count();
    let idle = open();
    let copies: Vec<_> = [(case.local("tree").display().to_string(), daemon.url("pushed"))]
        .into_iter()
        .chain([(daemon.url("tree"), case.local("pulled").display().to_string())])
        .map(|(from, to)| case.start(daemon.cp(&case).args(["-rp", "--rate", "50Mbit", &from, &to])))
        .collect();
    let count = copies.len();
    let (mut most, mut running) = (idle, copies);
    while !running.is_empty() {
        most = most.max(open());
        running.retain_mut(|copy| copy.exited().is_none());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(fs::read(case.local("pulled/large")).expect("it was copied").len(), 8 << 20);
    assert!(most > idle, "something was open");
    assert!(most <= idle + count * DESCRIPTORS_PER_SESSION, "{idle} idle, {most} with {count} sessions");
    case.wait_for("all are closed again", || open() <= idle);
    eprintln!("{} descriptors with {count} sessions", most - idle);
}

#[test]
fn a_client_that_waits_for_a_session_is_told_so_at_once() {
    let case = Case::new("a_client_that_waits_for_a_session_is_told_so_at_once");
    let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
    let keys = [("", &client)];
    let options = ["--queue-wait", "100"];
    let spec = Spec { options: &options, sessions_max: Some(1), ..Spec::new(&case, &keys, &server) };
    let daemon = Daemon::start_with(&case, spec);
    fs::write(daemon.root.join("file"), vec![7; 8 << 20]).expect("the served directory");
    let mut first = case.start(daemon.cp(&case).args(SLOWLY).arg(daemon.url("file")).arg(case.local("one")));
    first.wait_until_data_flows();
    let second = case.start(daemon.cp(&case).arg(daemon.url("file")).arg(case.local("two")));
    let told = "the one session of the server is taken: waiting for one for up to 100 s";
    case.wait_for("the notice", || second.stdout_so_far().contains(told));
    first.signal(Signal::INT);
    first.finish().expect_code(20);
    second.finish().expect_success();
}

#[test]
fn the_log_names_files_where_asked_and_is_searched() {
    let case = Case::new("the_log_names_files_where_asked_and_is_searched");
    let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
    let keys = [("read-write,rate=900Mbit", &client)];
    let options = ["--log-json", "--log-files"];
    let daemon = Daemon::start_with(&case, Spec { options: &options, ..Spec::new(&case, &keys, &server) });
    fs::create_dir(case.local("set")).expect("a directory");
    for name in ["a", "b"] {
        fs::write(case.local("set").join(name), name).expect("a file");
    }
    case.run(daemon.cp(&case).arg("-r").arg(case.local("set")).arg(daemon.url("new"))).expect_success();
    case.wait_for("the outcome", || daemon.log().contains("\"event\":\"done\""));
    let log = daemon.log();
    let found = |words: &[&str]| {
        let mut command = case.fobs(super::net::Side::Client);
        let finished = case.run_with_input(command.arg("log").args(words), log.clone().into_bytes());
        let text = String::from_utf8(finished.expect_success().stdout).expect("text");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let files = found(&["--event", "file", "--key", "e2e"]);
    assert_eq!(files.len(), 2, "{files:?}");
    for name in ["file 'set/a' of it, 1 bytes", "file 'set/b' of it, 1 bytes"] {
        assert!(files.iter().any(|line| line.ends_with(name)), "{name}: {files:?}");
    }
    assert_eq!(found(&["--path", "set/a"]).len(), 1);
    assert_eq!(found(&["--path", "new"]).len(), 4, "a request, two files and the outcome");
    let requests = found(&["--event", "request", "--path", "/new", "--since", "1h"]);
    assert!(requests.len() == 1 && requests[0].contains("at most 900 Mbit/s"), "{requests:?}");
    let outcome: Value = serde_json::from_str(&found(&["--code", "ok", "--json"])[0]).expect("a record");
    assert_eq!((&outcome["event"], &outcome["files"]), (&Value::from("done"), &Value::from(2)));
    assert_eq!(found(&["--key", "somebody"]), [""; 0]);
}

#[test]
fn a_copy_is_told_the_cpu_time_of_its_own_session() {
    let case = Case::new("a_copy_is_told_the_cpu_time_of_its_own_session");
    let daemon = start(&case, &[]);
    fs::write(daemon.root.join("small"), [7; 100_000]).expect("the served directory");
    let spent = |name: &str| {
        let mut copy = daemon.cp(&case);
        let done = case.run(copy.arg("--json").arg(daemon.url(name)).arg(case.local(name))).expect_success();
        done.done()["cpu_seconds_peer"].as_f64().expect("a number")
    };
    let large = spent("file");
    // That of the daemon would be larger each time.
    let small = spent("small");
    assert!(small < large, "{small} s for 100 kB, after {large} s for 64 MiB");
}
