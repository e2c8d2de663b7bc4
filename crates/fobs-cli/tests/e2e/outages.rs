//! Networks that fail in the middle of a copy.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::case::Case;
use super::files::{hash, write_random};
use super::needs;
use super::net::Side;
use super::process::Running;
use super::remote::{Carrier, Direction, Route};

/// Some 10 s of transfer at [`RATE`].
const FILE_BYTES: u64 = 64 << 20;
const RATE: &str = "50Mbit";
/// An outage that is longer than what earlier versions endured.
const OUTAGE: Duration = Duration::from_secs(33);

/// A network from which everything vanishes, until it is dropped.
pub struct Dead<'a>(&'a Case);

impl<'a> Dead<'a> {
    pub fn new(case: &'a Case) -> Dead<'a> {
        for side in [Side::Client, Side::Server] {
            case.net.iptables(side, "-I INPUT -j DROP");
        }
        Dead(case)
    }
}

impl Drop for Dead<'_> {
    fn drop(&mut self) {
        for side in [Side::Client, Side::Server] {
            self.0.net.iptables(side, "-D INPUT -j DROP");
        }
    }
}

/// Starts a transfer and returns it in its middle.
fn in_its_middle(case: &Case, route: &Route<'_>, flags: &[&str]) -> Running {
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let flags = [&["--rate", RATE], flags].concat();
    let mut running = case.start(&mut route.copy(&flags, "file", "copy"));
    running.wait_until_data_flows();
    running
}

fn outlives_an_outage(name: &'static str, carrier: Carrier, direction: Direction) {
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let route = Route::open(&case, carrier, direction);
    let running = in_its_middle(&case, &route, &[]);
    let dead = Dead::new(&case);
    std::thread::sleep(OUTAGE);
    drop(dead);
    running.finish().expect_success();
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
}

#[test]
fn a_push_outlives_an_outage() {
    outlives_an_outage("a_push_outlives_an_outage", Carrier::Daemon, Direction::Push);
}

#[test]
fn a_pull_outlives_an_outage() {
    outlives_an_outage("a_pull_outlives_an_outage", Carrier::Daemon, Direction::Pull);
}

#[test]
fn a_push_over_ssh_outlives_an_outage() {
    outlives_an_outage("a_push_over_ssh_outlives_an_outage", Carrier::Ssh, Direction::Push);
}

/// The copy succeeds, over more than one connection, and the file is right.
#[track_caller]
fn expect_reconnected(route: &Route<'_>, running: Running) {
    let finished = running.finish().expect_success();
    let notices: Vec<String> = finished
        .events()
        .iter()
        .filter(|event| event["event"] == "notice")
        .map(|event| event["message"].to_string())
        .collect();
    for part in ["the next attempt follows in", "connected again"] {
        assert!(notices.iter().any(|notice| notice.contains(part)), "{part}: {notices:?}");
    }
    let done = finished.done();
    assert_eq!(done["bytes"], FILE_BYTES, "{done}");
    // What was verified after the last answer that came counts as resumed: a third of a second at this rate.
    assert!(done["resumed_bytes"].as_u64().is_some_and(|bytes| bytes <= 2 << 20), "{done}");
    // Of a connection that broke only what the sender counted at its last sample is known.
    let figure = |name: &str| done[name].as_u64().unwrap_or_default();
    let needed_bytes = figure("packets_needed") * figure("packet_size");
    assert!(needed_bytes * 10 >= FILE_BYTES * 9 && figure("packets_sent") > 0, "{done}");
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
}

#[test]
fn a_restarted_daemon_is_reconnected_to() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_restarted_daemon_is_reconnected_to");
        let mut route = Route::open(&case, Carrier::Daemon, direction);
        let running = in_its_middle(&case, &route, &[]);
        route.daemon().restart(&case, Duration::from_secs(2));
        expect_reconnected(&route, running);
    }
}

/// The process id of a program's child of this name.
fn child_of(parent: u32, name: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let of_threads = threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .collect::<Vec<_>>();
    let ids = [children].into_iter().chain(of_threads).collect::<Vec<_>>().join(" ");
    ids.split_whitespace()
        .filter_map(|id| id.parse().ok())
        .find(|id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == name))
}

#[test]
fn a_dead_ssh_is_replaced() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_dead_ssh_is_replaced");
        let route = Route::open(&case, Carrier::Ssh, direction);
        let running = in_its_middle(&case, &route, &[]);
        let ssh = child_of(running.id(), "ssh").expect("it runs");
        let ssh = Pid::from_raw(ssh.cast_signed()).expect("an id");
        kill_process(ssh, Signal::KILL).expect("a program of ours");
        expect_reconnected(&route, running);
    }
}

#[test]
fn a_reset_control_connection_is_made_anew() {
    let name = "a_reset_control_connection_is_made_anew";
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let running = in_its_middle(&case, &route, &[]);
        let rule = "INPUT -p tcp -j REJECT --reject-with tcp-reset";
        case.net.iptables(Side::Server, &format!("-I {rule}"));
        std::thread::sleep(Duration::from_secs(2));
        case.net.iptables(Side::Server, &format!("-D {rule}"));
        expect_reconnected(&route, running);
    }
}

#[test]
fn a_client_with_a_new_address_goes_on() {
    let name = "a_client_with_a_new_address_goes_on";
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let running = in_its_middle(&case, &route, &[]);
        case.net.readdress_client();
        running.finish().expect_success();
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    }
}

#[test]
fn a_stream_is_not_begun_anew() {
    let case = Case::new("a_stream_is_not_begun_anew");
    let mut route = Route::open(&case, Carrier::Daemon, Direction::Pull);
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let mut command = route.plain_cp(&["--rate", RATE]);
    command.arg(route.source("file")).arg("-");
    let running = case.start(&mut command);
    case.wait_for("data", || running.stdout_len() > 0);
    route.daemon().kill();
    let finished = running.finish().expect_code(35);
    assert!(finished.stderr.contains("the transfer broke off"), "{}", finished.stderr);
}

#[test]
fn a_path_that_stays_dead_is_exit_30() {
    let name = "a_path_that_stays_dead_is_exit_30";
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let running = in_its_middle(&case, &route, &["--timeout", "3"]);
        let dead = Dead::new(&case);
        let message = running.finish().expect_code(30).failed()["message"].to_string();
        drop(dead);
        assert!(message.contains("3 s") && message.contains("same command again"), "{message}");
    }
}

#[test]
fn a_copy_that_crawls_is_exit_30() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_copy_that_crawls_is_exit_30");
        let route = Route::open(&case, Carrier::Daemon, direction);
        let running = in_its_middle(&case, &route, &["--min-rate", "500Mbit/2s"]);
        let message = running.finish().expect_code(30).failed()["message"].to_string();
        assert!(message.contains("500.000 Mbit/s of --min-rate"), "{message}");
        let same = route.copy(&["--min-rate", "1kbit/2s"], "file", "copy");
        case.run(&mut { same }).expect_success();
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    }
}
