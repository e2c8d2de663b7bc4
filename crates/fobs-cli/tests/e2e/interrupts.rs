//! Interrupted transfers leave nothing under the final name, and complete ones replace existing files in one
//! step.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::{hash, names, write_random};
use super::net::Side;
use super::process::Running;
use super::remote::{Carrier, Direction, Route};
use super::sshd::Sshd;

/// Some 10 s of transfer at [`RATE`]: far more than a test needs to interrupt it.
const FILE_BYTES: u64 = 64 << 20;
const RATE: &str = "50Mbit";

/// Starts a transfer and returns it in its middle.
fn in_its_middle(case: &Case, route: &Route<'_>) -> Running {
    in_its_middle_with(case, route, &[])
}

fn in_its_middle_with(case: &Case, route: &Route<'_>, flags: &[&str]) -> Running {
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let flags = [&["--rate", RATE], flags].concat();
    let mut running = case.start(&mut route.copy(&flags, "file", "copy"));
    running.wait_until_data_flows();
    running
}

fn interrupted(name: &'static str, carrier: Carrier, direction: Direction, signal: Signal) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, direction);
    for keeps in [true, false] {
        let flags: &[&str] = if keeps { &[] } else { &["--no-partial"] };
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let rate = [&["--rate", RATE], flags].concat();
        let mut running = case.start(&mut route.copy(&rate, "file", "copy"));
        running.wait_until_data_flows();
        running.signal(signal);
        let failed = running.finish().expect_code(20).failed();
        let message = failed["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("interrupted; what was complete is in place"), "{message}");
        if keeps {
            assert!(message.contains("run the same command again to go on: "), "{message}");
        } else {
            assert!(message.ends_with(", the rest was removed"), "{message}");
            // The other end notices when the control channel closes: soon, but not at once.
            case.wait_for("nothing is left", || names(&route.target_path("")).is_empty());
        }
        let finished = again(&case, &route, flags);
        assert_eq!(finished["resumed_bytes"].as_u64().is_some_and(|bytes| bytes > 0), keeps, "{finished}");
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
        assert_eq!(names(&route.target_path("")), ["copy"]);
        fs::remove_file(route.target_path("copy")).expect("it is there");
    }
}

/// The same command once more, as soon as the other end has noticed that the first one ended: its figures.
fn again(case: &Case, route: &Route<'_>, flags: &[&str]) -> serde_json::Value {
    let mut done = None;
    case.wait_for("the copy goes on", || {
        let finished = case.run(&mut route.copy(flags, "file", "copy"));
        let is_over = finished.code == Some(0);
        if is_over {
            done = Some(finished.done());
        }
        is_over
    });
    done.expect("it is over")
}

#[test]
fn an_interrupted_push_is_exit_20_and_goes_on() {
    interrupted("an_interrupted_push_is_exit_20_and_goes_on", Carrier::Daemon, Direction::Push, Signal::INT);
}

#[test]
fn an_interrupted_pull_is_exit_20_and_goes_on() {
    interrupted("an_interrupted_pull_is_exit_20_and_goes_on", Carrier::Daemon, Direction::Pull, Signal::INT);
}

#[test]
fn an_interrupted_push_over_ssh_is_exit_20_and_goes_on() {
    interrupted(
        "an_interrupted_push_over_ssh_is_exit_20_and_goes_on",
        Carrier::Ssh,
        Direction::Push,
        Signal::INT,
    );
}

#[test]
fn a_terminated_pull_over_ssh_is_exit_20_and_goes_on() {
    interrupted(
        "a_terminated_pull_over_ssh_is_exit_20_and_goes_on",
        Carrier::Ssh,
        Direction::Pull,
        Signal::TERM,
    );
}

#[test]
fn a_quiet_copy_says_how_it_stands_on_sigusr1() {
    let case = Case::new("a_quiet_copy_says_how_it_stands_on_sigusr1");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let mut command = route.plain_cp(&["-q", "--rate", RATE]);
    let mut running = case.start(command.arg(route.source("file")).arg(route.target("copy")));
    let stores = |name: &OsString| {
        name.as_bytes().starts_with(b".copy.fobs-") && !name.as_bytes().ends_with(b"journal")
    };
    case.wait_for("data flows", || names(&route.target_path("")).iter().any(stores));
    let pid = running.id().to_string();
    // Any number of lines may be asked for, and the copy goes on; the first may come before any progress.
    let mut status = String::new();
    for lines in 1.. {
        case.run(case.command(Side::Client, "kill").args(["-USR1", &pid])).expect_success();
        case.wait_for("a line", || running.stderr_so_far().lines().count() == lines);
        status = running.stderr_so_far();
        if lines >= 2 && status.lines().last().is_some_and(|line| line.contains(" of 67.1 MB (")) {
            break;
        }
    }
    let line = status.lines().last().unwrap_or_default();
    assert!(line.starts_with("fobs: "), "{line}");
    assert!(line.contains("bit/s, ") && line.contains("; "), "{line}");
    running.signal(Signal::INT);
    running.finish().expect_code(20);
}

/// What the terminal turns into SIGINT for its whole foreground group: Ctrl-C.
const CTRL_C: [u8; 1] = [3];

#[test]
fn ctrl_c_that_ends_ssh_first_is_our_interruption() {
    let case = Case::new("ctrl_c_that_ends_ssh_first_is_our_interruption");
    for round in 0..6 {
        let direction = if round % 2 == 0 { Direction::Push } else { Direction::Pull };
        let route = Route::open(&case, Carrier::Ssh, direction);
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let command = route.copy(&["--rate", RATE], "file", "copy");
        let (mut running, mut keyboard) = case.start_on_a_terminal(&command);
        running.wait_until_data_flows();
        keyboard.write_all(&CTRL_C).expect("it is typed");
        let finished = running.finish().expect_code(20);
        let message = finished.failed()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.starts_with("interrupted"), "{message}");
        assert!(!route.target_path("copy").exists(), "nothing stands under the final name");
        drop(route);
        case.start_over();
    }
}

/// A copy that waits on a terminal while ssh asks for the passphrase of a key, with the echo off.
fn asks_for_a_passphrase(case: &Case, sshd: &Sshd) -> (Running, fs::File) {
    let key = case.path("locked_key");
    let _ = fs::remove_file(&key);
    let mut keygen = case.command(Side::Client, "ssh-keygen");
    case.run(keygen.args(["-q", "-t", "ed25519", "-N", "secret", "-f"]).arg(&key)).expect_success();
    let public = fs::read_to_string(key.with_extension("pub")).expect("its public half");
    fs::write(case.path("ssh/authorized_keys"), public).expect("a file of ours");
    fs::write(case.local("file"), "content").expect("a file of ours");
    let mut command = sshd.plain_cp(case);
    command.args(["-o", "BatchMode=no", "-i"]).arg(&key);
    command.arg(case.local("file")).arg(sshd.location("copy"));
    let (running, keyboard) = case.start_on_a_terminal(&command);
    case.wait_for("ssh asks for the passphrase", || !echoes(&keyboard));
    (running, keyboard)
}

fn echoes(terminal: &fs::File) -> bool {
    tcgetattr(terminal).expect("a terminal").local_modes.contains(LocalModes::ECHO)
}

#[test]
fn ctrl_c_while_ssh_asks_ends_it_and_keeps_the_echo() {
    let case = Case::new("ctrl_c_while_ssh_asks_ends_it_and_keeps_the_echo");
    let sshd = Sshd::start(&case);
    for _ in 0..5 {
        let (running, mut keyboard) = asks_for_a_passphrase(&case, &sshd);
        keyboard.write_all(&CTRL_C).expect("it is typed");
        let finished = running.finish().expect_code(20);
        assert!(finished.stderr.contains("interrupted"), "{}", finished.stderr);
        assert!(echoes(&keyboard), "the terminal is left as it was");
    }
}

/// Longer than the silence after which a notice says what is being waited for.
const LONG: Duration = Duration::from_secs(12);

#[test]
fn a_passphrase_may_take_its_time_without_a_hint() {
    let case = Case::new("a_passphrase_may_take_its_time_without_a_hint");
    let sshd = Sshd::start(&case);
    let (running, mut keyboard) = asks_for_a_passphrase(&case, &sshd);
    std::thread::sleep(LONG);
    keyboard.write_all(b"secret\n").expect("it is typed");
    let finished = running.finish().expect_success();
    assert!(!finished.stderr.contains("has said nothing"), "{}", finished.stderr);
    assert_eq!(fs::read(sshd.root.join("copy")).expect("it arrived"), b"content");
}

#[test]
fn a_remote_command_that_hangs_is_named_while_it_does() {
    let case = Case::new("a_remote_command_that_hangs_is_named_while_it_does");
    let sshd = Sshd::start(&case);
    fs::write(case.local("file"), "content").expect("a fresh file");
    let mut command = sshd.cp_with(&case, Path::new("sleep 100;:"));
    command.arg(case.local("file")).arg(sshd.location("copy"));
    let mut running = case.start(&mut command);
    case.wait_for("the notice", || running.stderr_so_far().contains("peer has said nothing for 10 s"));
    assert!(running.stderr_so_far().contains("\"sleep 100;:\" hangs there"), "{}", running.stderr_so_far());
    running.signal(Signal::INT);
    let finished = running.finish().expect_code(20);
    assert!(finished.stderr.contains("interrupted"), "{}", finished.stderr);
}

fn killed(name: &'static str, direction: Direction) {
    let case = Case::new(name);
    let mut route = Route::open(&case, Carrier::Daemon, direction);
    let mut running = in_its_middle(&case, &route);
    running.kill();
    assert!(!route.target_path("copy").exists(), "nothing stands under the final name");
    route.daemon().expect_alive();
    let done = again(&case, &route, &[]);
    assert!(done["resumed_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{done}");
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    assert_eq!(names(&route.target_path("")), ["copy"]);
    route.daemon().expect_alive();
}

#[test]
fn a_killed_push_leaves_no_file_under_the_final_name() {
    killed("a_killed_push_leaves_no_file_under_the_final_name", Direction::Push);
}

#[test]
fn a_killed_pull_leaves_no_file_under_the_final_name() {
    killed("a_killed_pull_leaves_no_file_under_the_final_name", Direction::Pull);
}

#[test]
fn what_a_killed_receiver_left_is_no_source() {
    let case = Case::new("what_a_killed_receiver_left_is_no_source");
    let mut route = Route::open(&case, Carrier::Daemon, Direction::Pull);
    let mut running = in_its_middle(&case, &route);
    running.kill();
    fs::write(case.local("beside"), b"x").expect("a fresh file");
    let left = names(&case.local(""));
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left[..2].iter().all(|name| name.as_bytes().starts_with(b".copy.fobs-")), "{left:?}");

    let daemon = route.daemon();
    let mut again = daemon.cp(&case);
    again.arg("-r").arg(case.local("")).arg(daemon.url("again"));
    case.run(&mut again).expect_success();
    assert_eq!(names(&daemon.root.join("again")), ["beside"]);

    let mut clean = case.fobs(Side::Client);
    clean.arg("clean").arg(case.local(""));
    case.run(&mut clean).expect_success();
    assert_eq!(names(&case.local("")), ["beside"]);
}

#[test]
fn a_killed_daemon_ends_the_client_with_an_error() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_killed_daemon_ends_the_client_with_an_error");
        let mut route = Route::open(&case, Carrier::Daemon, direction);
        let running = in_its_middle_with(&case, &route, &["--timeout", "3"]);
        route.daemon().kill();
        let failed = running.finish().expect_code(30).failed();
        let message = failed["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("nothing new arrived for 3 s"), "{message}");
        assert!(!route.target_path("copy").exists(), "nothing stands under the final name");
    }
}

#[test]
fn a_full_daemon_says_so_and_serves_again_later() {
    let case = Case::new("a_full_daemon_says_so_and_serves_again_later");
    let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
    let authorized = [("read-write", &client)];
    let spec = Spec::new(&case, &authorized, &server);
    let options = ["--queue-wait", "0"];
    let daemon = Daemon::start_with(&case, Spec { sessions_max: Some(1), options: &options, ..spec });
    write_random(&case.local("file"), FILE_BYTES, &mut case.random());
    let copy = |flags: &[&str]| {
        let mut command = daemon.cp(&case);
        command.args(flags).arg(case.local("file")).arg(daemon.url("copy"));
        command
    };
    let mut running = case.start(&mut copy(&["--rate", RATE]));
    running.wait_until_data_flows();
    // It tries again meanwhile.
    let failed = case.run(&mut copy(&["--timeout", "2"])).expect_code(35).failed();
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(message.contains("is busy: this server is full: 1 sessions are running"), "{message}");
    running.signal(Signal::INT);
    running.finish().expect_code(20);
    case.wait_for("room again", || case.run(&mut copy(&[])).code == Some(0));
}

/// What a reader finds at the destination: all of the old content, or all of the new.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Old,
    New,
}

#[test]
fn an_existing_file_is_replaced_in_one_step() {
    let case = Case::new("an_existing_file_is_replaced_in_one_step");
    let daemon = Daemon::start(&case, "read-write");
    let target = daemon.root.join("file");
    let (old, new) = (vec![b'o'; 3_000_000], vec![b'n'; 20_000_000]);
    fs::write(&target, &old).expect("the older file");
    fs::write(case.local("file"), &new).expect("the newer file");
    let before = fs::metadata(&target).expect("it is there").ino();
    // A reader that opened the old file keeps it to its end.
    let mut opened_before = fs::File::open(&target).expect("it is there");

    let stop = Arc::new(AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (stop, target) = (Arc::clone(&stop), target.clone());
        move || {
            let mut seen = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let content = fs::read(&target).expect("a file is there at every moment");
                let all = |byte| content.iter().all(|b| *b == byte);
                seen.push(match content.len() {
                    3_000_000 if all(b'o') => Seen::Old,
                    20_000_000 if all(b'n') => Seen::New,
                    len => panic!("{len} bytes, neither old nor new"),
                });
            }
            seen
        }
    });
    let mut command = daemon.cp(&case);
    command.args(["--rate", "200Mbit"]).arg(case.local("file")).arg(daemon.url("file"));
    case.run(&mut command).expect_success();
    stop.store(true, Ordering::Relaxed);
    let seen = watcher.join().expect("every reading was whole");

    assert_eq!(seen.first(), Some(&Seen::Old), "the watcher watched in time");
    assert!(fs::read(&target).expect("it is there") == new);
    assert_ne!(fs::metadata(&target).expect("it is there").ino(), before, "another inode");
    let mut kept = Vec::new();
    std::io::Read::read_to_end(&mut opened_before, &mut kept).expect("still readable");
    assert!(kept == old);
    assert_eq!(names(&daemon.root), ["file"]);
}
