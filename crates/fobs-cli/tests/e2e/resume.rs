//! The same command goes on after one that was killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;

use super::case::{Case, fobs_path};
use super::files::{Compare, assert_same_tree, hash, make_many, names, write_random};
use super::process::Running;
use super::remote::{Carrier, Direction, Route};
use super::sshd::Sshd;

/// Some 10 s of transfer at [`RATE`].
const FILE_BYTES: u64 = 64 << 20;
const RATE: &str = "50Mbit";
/// What may have to be sent twice: a chunk, what was in flight and what was verified and not stored yet.
const TWICE_MAX: u64 = 10 << 20;

/// Starts a transfer and returns it once this much is verified. An earlier one may hold the destination until
/// its other end notices that it is over.
fn after(case: &Case, route: &Route<'_>, flags: &[&str], bytes: u64) -> Running {
    let flags = [&["--rate", RATE], flags].concat();
    loop {
        let mut running = case.start(&mut route.copy(&flags, "file", "copy"));
        case.wait_for("some of it is verified", || {
            running.exited().is_some() || running.bytes_so_far() >= bytes
        });
        if running.exited().is_none() {
            return running;
        }
    }
}

/// The same command once more, as soon as the other end has noticed that the first one ended.
fn again(case: &Case, route: &Route<'_>, flags: &[&str]) -> (Value, Vec<Value>) {
    let mut done = None;
    case.wait_for("the copy goes on", || {
        let finished = case.run(&mut route.copy(flags, "file", "copy"));
        if finished.code == Some(0) {
            done = Some((finished.done(), finished.events()));
        }
        done.is_some()
    });
    done.expect("it is over")
}

fn resumed(done: &Value) -> u64 {
    done["resumed_bytes"].as_u64().unwrap_or_else(|| panic!("no figure: {done}"))
}

#[track_caller]
fn expect_gone_on(route: &Route<'_>, done: &Value, verified: u64) {
    assert_eq!(done["bytes"], FILE_BYTES, "{done}");
    assert!(resumed(done) + TWICE_MAX >= verified, "{verified} were verified: {done}");
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    assert_eq!(names(&route.target_path("")), ["copy"], "nothing else stays");
}

#[test]
fn after_a_killed_client_the_same_command_goes_on() {
    for (carrier, direction) in [
        (Carrier::Daemon, Direction::Push),
        (Carrier::Daemon, Direction::Pull),
        (Carrier::Ssh, Direction::Push),
        (Carrier::Ssh, Direction::Pull),
    ] {
        let case = Case::new("after_a_killed_client_the_same_command_goes_on");
        let route = Route::open(&case, carrier, direction);
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let mut verified = 0;
        for bytes in [12 << 20, 28 << 20] {
            let mut running = after(&case, &route, &[], bytes);
            verified = running.bytes_so_far();
            running.kill();
        }
        let (done, _) = again(&case, &route, &[]);
        expect_gone_on(&route, &done, verified);
    }
}

#[test]
fn after_a_killed_server_the_same_command_goes_on() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("after_a_killed_server_the_same_command_goes_on");
        let mut route = Route::open(&case, Carrier::Daemon, direction);
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let mut running = after(&case, &route, &[], 20 << 20);
        let verified = running.bytes_so_far();
        route.daemon().kill();
        running.kill();
        route.daemon().start_again(&case);
        let (done, _) = again(&case, &route, &[]);
        expect_gone_on(&route, &done, verified);
    }
}

#[test]
fn a_killed_tree_sends_no_complete_file_again() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_killed_tree_sends_no_complete_file_again");
        let route = Route::open(&case, Carrier::Daemon, direction);
        make_many(&route.source_path("file"), 2000, 40_000, &mut case.random());
        let mut running = after(&case, &route, &["-r"], 15 << 20);
        let verified = running.bytes_so_far();
        running.kill();
        let (done, _) = again(&case, &route, &["-r"]);
        assert!(resumed(&done) + TWICE_MAX >= verified, "{verified} were verified: {done}");
        assert_eq!(done["files"], 2000, "{done}");
        assert_same_tree(&route.source_path("file"), &route.target_path("copy"), Compare::Content);
        assert_eq!(names(&route.target_path("")), ["copy"]);
    }
}

#[test]
fn a_source_that_changed_meanwhile_is_copied_anew() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_source_that_changed_meanwhile_is_copied_anew");
        let route = Route::open(&case, Carrier::Daemon, direction);
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let mut running = after(&case, &route, &[], 12 << 20);
        running.kill();
        let file = fs::File::options().append(true).open(route.source_path("file")).expect("the source");
        file.set_modified(SystemTime::now() + Duration::from_secs(5)).expect("its own");
        let (done, events) = again(&case, &route, &[]);
        assert_eq!(resumed(&done), 0, "{done}");
        let says = |event: &Value| {
            event["event"] == "notice"
                && event["message"].as_str().is_some_and(|it| it.contains("'file' changed"))
        };
        assert!(events.iter().any(says), "{events:?}");
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    }
}

#[test]
fn a_second_transfer_is_refused_and_names_the_first() {
    let case = Case::new("a_second_transfer_is_refused_and_names_the_first");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let mut first = after(&case, &route, &[], 1);
    let failed = case.run(&mut route.copy(&[], "file", "copy")).failed();
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(message.contains("another") && message.contains("process"), "{message}");
    first.kill();
}

/// A client that falls silent, as one whose host has lost its power, does not keep its own next command out.
fn a_silent_client_gives_way(name: &'static str, carrier: Carrier) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, Direction::Push);
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let mut silent = after(&case, &route, &[], 12 << 20);
    silent.signal(Signal::STOP);
    let verified = silent.bytes_so_far();
    let done = case.run(&mut route.copy(&[], "file", "copy")).done();
    expect_gone_on(&route, &done, verified);
    silent.kill();
}

#[test]
fn a_silent_client_of_a_daemon_gives_way() {
    a_silent_client_gives_way("a_silent_client_of_a_daemon_gives_way", Carrier::Daemon);
}

#[test]
fn a_silent_client_over_ssh_gives_way() {
    a_silent_client_gives_way("a_silent_client_over_ssh_gives_way", Carrier::Ssh);
}

#[test]
fn what_another_program_began_is_continued() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("what_another_program_began_is_continued");
        let route = Route::open(&case, Carrier::Daemon, direction);
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let whole = fs::read(route.source_path("file")).expect("the source");
        fs::write(route.target_path("copy"), &whole[..(40 << 20) + 7]).expect("the beginning");
        let (done, _) = again(&case, &route, &["--append-verify"]);
        assert_eq!(resumed(&done), 40 << 20, "{done}");
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
        fs::write(route.target_path("copy"), vec![7; 1 << 20]).expect("another beginning");
        let (done, events) = again(&case, &route, &["--append-verify"]);
        assert_eq!(resumed(&done), 0, "{done}");
        let says =
            |event: &Value| event["message"].as_str().is_some_and(|it| it.contains("does not begin with"));
        // The sender notices it.
        assert_eq!(events.iter().any(says), direction == Direction::Push, "{events:?}");
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    }
}

#[test]
fn with_an_older_server_a_copy_begins_anew_and_says_so() {
    let case = Case::new("with_an_older_server_a_copy_begins_anew_and_says_so");
    let sshd = Sshd::start(&case);
    // What the server says it can do loses one name, at the same length.
    let older = case.path("older-fobs");
    let script = format!(
        "#!/bin/sh\n{} \"$@\" | perl -e '$| = 1; while (sysread(STDIN, $b, 65536)) {{ $b =~ s/\"survey\"/\"xurvey\"/; \
         print $b }}'\n",
        fobs_path().display()
    );
    fs::write(&older, script).expect("a script");
    fs::set_permissions(&older, fs::Permissions::from_mode(0o755)).expect("its own");
    write_random(&case.local("file"), FILE_BYTES, &mut case.random());
    let copy = |flags: &[&str]| {
        let mut command = sshd.cp_with(&case, &older);
        command.args(flags).arg("--json").arg(case.local("file")).arg(sshd.location("copy"));
        command
    };
    let mut running = case.start(&mut copy(&["--rate", RATE]));
    running.wait_until_data_flows();
    running.kill();
    let mut finished = case.run(&mut copy(&[]));
    case.wait_for("the first one's end", || {
        if finished.code != Some(0) {
            finished = case.run(&mut copy(&[]));
        }
        finished.code == Some(0)
    });
    assert_eq!(resumed(&finished.done()), 0);
    let says = |event: &Value| event["message"].as_str().is_some_and(|it| it.contains("has an older fobs"));
    assert!(finished.events().iter().any(says), "{:?}", finished.events());
    assert_eq!(hash(&sshd.root.join("copy")), hash(&case.local("file")));
}
