//! One copy over two paths: both carry it, one is cut, one leads nowhere, and a killed copy goes on.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::{hash, write_random};
use super::needs;
use super::net::Side;
use super::process::Running;
use super::remote::{Carrier, Direction, Route};

/// The second path's device, and its addresses.
pub const SECOND: &str = "veth1";
const FILE_BYTES: u64 = 64 << 20;

/// A second pair of devices between the two hosts.
fn second_path(case: &Case) {
    let tool = |side, line: &str| case.net.tool(side, &line.split_whitespace().collect::<Vec<_>>());
    case.net.join_again(SECOND);
    for (side, address) in [(Side::Client, "10.78.0.1/24"), (Side::Server, "10.78.0.2/24")] {
        tool(side, &format!("ip addr add {address} dev {SECOND}"));
        tool(side, &format!("ip link set {SECOND} up"));
    }
}

/// Bytes that left one side by a device. By a thread and no program: tests look again and again.
pub fn sent_by(case: &Case, side: Side, device: &str) -> u64 {
    let table = case.net.thread(side, || fs::read_to_string("/proc/thread-self/net/dev").expect("a table"));
    let table = table.join().expect("no panic");
    let row = table.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'));
    // Eight columns of what was received, and the first of what was sent (net/core/net-procfs.c).
    let sent = row.and_then(|row| row.split_whitespace().nth(8));
    sent.unwrap_or_else(|| panic!("{device} in {table}")).parse().expect("a number")
}

pub fn sender_of(direction: Direction) -> Side {
    match direction {
        Direction::Push => Side::Client,
        Direction::Pull => Side::Server,
    }
}

/// A daemon at all addresses, as one that clients reach by several paths is set up.
fn route(case: &Case, carrier: Carrier, direction: Direction) -> Route<'_> {
    match carrier {
        Carrier::Ssh => Route::open(case, carrier, direction),
        Carrier::Daemon => {
            let (client, server) = (Key::generate(case, "client-key"), Key::generate(case, "server-key"));
            let everywhere = format!("0.0.0.0:{}", case.net.tcp_port() + 100);
            let (options, keys) = (["--listen", &everywhere], [("read-write", &client)]);
            let spec = Spec { options: &options, ..Spec::new(case, &keys, &server) };
            Route::to(case, Daemon::start_with(case, spec), direction)
        }
    }
}

fn both_paths_carry(name: &'static str, carrier: Carrier, via: [&str; 2]) {
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        second_path(&case);
        let route = route(&case, carrier, direction);
        let expected = write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        // A rate that one path alone has no use for, so that neither is done before the other begins.
        let flags = ["--rate", "200Mbit", "--via", via[0], "--via", via[1]];
        let done = case.run(&mut route.copy(&flags, "file", "copy")).expect_success().done();
        assert_eq!(hash(&route.target_path("copy")), expected);
        let sentences: Vec<&str> =
            done["lanes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for lane in ["lane 0 (", "lane 1 ("] {
            assert!(sentences.iter().any(|sentence| sentence.starts_with(lane)), "{lane}: {sentences:?}");
        }
        for device in ["veth0", SECOND] {
            let bytes = sent_by(&case, sender_of(direction), device);
            assert!(bytes >= FILE_BYTES / 5, "{device} carried {bytes}: {done}");
        }
    }
}

#[test]
fn two_paths_of_a_daemon_carry_one_file() {
    let own = ["10.77.0.1", SECOND];
    both_paths_carry("two_paths_of_a_daemon_carry_one_file", Carrier::Daemon, own);
}

#[test]
fn two_addresses_of_an_ssh_host_carry_one_file() {
    let theirs = ["10.77.0.2", "10.78.0.2"];
    both_paths_carry("two_addresses_of_an_ssh_host_carry_one_file", Carrier::Ssh, theirs);
}

/// The second path has IPv6 alone.
#[test]
fn ipv4_and_ipv6_carry_one_file() {
    let name = "ipv4_and_ipv6_carry_one_file";
    if !needs::given(name) {
        return;
    }
    for (direction, first) in [(Direction::Push, "10.77.0.1"), (Direction::Pull, "fd00:78::1")] {
        let case = Case::new(name);
        case.net.join_again(SECOND);
        for (side, address) in [(Side::Client, "fd00:78::1/64"), (Side::Server, "fd00:78::2/64")] {
            let tool = |line: &str| case.net.tool(side, &line.split_whitespace().collect::<Vec<_>>());
            tool(&format!("ip addr add {address} dev {SECOND} nodad"));
            tool(&format!("ip link set {SECOND} up"));
        }
        let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
        let port = case.net.tcp_port() + 100;
        let (v4, v6) = (format!("0.0.0.0:{port}"), format!("[::]:{port}"));
        let (options, keys) = (["--listen", &v4, "--listen", &v6], [("read-write", &client)]);
        let daemon =
            Daemon::start_with(&case, Spec { options: &options, ..Spec::new(&case, &keys, &server) });
        let route = Route::to(&case, daemon, direction);
        let expected = write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let second = if first == "10.77.0.1" { "fd00:78::1" } else { "10.77.0.1" };
        let flags = ["--rate", "200Mbit", "--via", first, "--via", second];
        let done = case.run(&mut route.copy(&flags, "file", "copy")).expect_success().done();
        assert_eq!(hash(&route.target_path("copy")), expected);
        for device in ["veth0", SECOND] {
            let bytes = sent_by(&case, sender_of(direction), device);
            // A chunk at the least, however busy the machine is.
            assert!(bytes >= 1 << 20, "{device} carried {bytes}: {done}");
        }
    }
}

/// Plays a test with each side sending, over both paths of a daemon.
pub fn each_way(name: &'static str, play: impl Fn(&Case, &Route<'_>)) {
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        second_path(&case);
        play(&case, &route(&case, Carrier::Daemon, direction));
    }
}

/// Starts a copy over both paths and returns it in its middle.
fn in_its_middle(case: &Case, route: &Route<'_>) -> Running {
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let flags = ["--rate", "80Mbit", "--via", "10.77.0.1", "--via", SECOND];
    let running = case.start(&mut route.copy(&flags, "file", "copy"));
    case.wait_for("a part is verified", || running.bytes_so_far() >= FILE_BYTES / 4);
    running
}

#[test]
fn a_path_that_is_cut_leaves_its_chunks_to_the_other() {
    each_way("a_path_that_is_cut_leaves_its_chunks_to_the_other", |case, route| {
        let running = in_its_middle(case, route);
        case.net.tool(Side::Client, &["ip", "link", "set", SECOND, "down"]);
        let done = running.finish().expect_success().done();
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
        // At most what the lane held: some chunks of 1 MiB, and the flight of its path.
        let figure = |name: &str| done[name].as_u64().unwrap_or_default();
        let again = figure("packets_sent").saturating_sub(figure("packets_needed")) * figure("packet_size");
        assert!(again <= 16 << 20, "{again} bytes were sent again: {done}");
    });
}

#[test]
fn a_killed_copy_over_two_paths_goes_on() {
    each_way("a_killed_copy_over_two_paths_goes_on", |case, route| {
        let mut running = in_its_middle(case, route);
        let verified = running.bytes_so_far();
        running.kill();
        let flags = ["--via", "10.77.0.1", "--via", SECOND];
        let mut done = Value::Null;
        case.wait_for("the copy goes on", || {
            let finished = case.run(&mut route.copy(&flags, "file", "copy"));
            if finished.code == Some(0) {
                done = finished.done();
            }
            done != Value::Null
        });
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
        let resumed = done["resumed_bytes"].as_u64().unwrap_or_default();
        // Chunks behind one that a lane still sends are verified and not stored: at most a window of them.
        assert!(resumed + (40 << 20) >= verified && resumed > 0, "{verified} were verified: {done}");
    });
}

#[test]
fn a_path_that_leads_nowhere_is_named_and_the_copy_succeeds() {
    let name = "a_path_that_leads_nowhere_is_named_and_the_copy_succeeds";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let route = route(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let flags = ["--rate", "60Mbit", "--via", "10.77.0.1", "--via", "10.77.0.200"];
    let finished = case.run(&mut route.copy(&flags, "file", "copy")).expect_success();
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    let told = finished.events().iter().any(|event| event.to_string().contains("no datagram came by --via"));
    assert!(told, "{:?}", finished.events());
}

#[test]
fn a_path_that_stops_udp_is_named_where_tcp_carries_the_data() {
    let name = "a_path_that_stops_udp_is_named_where_tcp_carries_the_data";
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = route(&case, Carrier::Daemon, direction);
        block_udp(&case);
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let finished = case.run(&mut route.copy(&["--via", "10.77.0.1"], "file", "copy")).expect_success();
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
        let is_it = |event: &Value| event.to_string().contains("--via 10.77.0.1: the data goes over TCP");
        let told = finished.events().iter().filter(|event| is_it(event)).count();
        assert_eq!(told, 1, "{:?}", finished.events());
    }
}

fn block_udp(case: &Case) {
    for side in [Side::Client, Side::Server] {
        case.net.iptables(side, "-A INPUT -p udp -j DROP");
    }
}

/// What copies keep of paths.
fn memory(case: &Case) -> PathBuf {
    case.path("home/.local/state/fobs/paths.json")
}

/// Has the next copies find what one keeps that the thread of its packets limited.
fn remember_lanes(case: &Case, count: u8) {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let lanes = json!({"forth": count, "back": count});
    let kept = json!({"v": 1, "peers": {"10.77.0.2": {"at": now, "lanes": lanes}}});
    fs::create_dir_all(memory(case).parent().expect("a parent")).expect("directories");
    fs::write(memory(case), kept.to_string()).expect("a file");
}

#[test]
fn lanes_that_an_earlier_copy_needed_are_used_while_udp_passes() {
    each_way("lanes_that_an_earlier_copy_needed_are_used_while_udp_passes", |case, route| {
        write_random(&route.source_path("file"), FILE_BYTES / 4, &mut case.random());
        let copy = |target: &str| {
            let done = case.run(&mut route.copy(&[], "file", target)).expect_success().done();
            assert_eq!(hash(&route.target_path(target)), hash(&route.source_path("file")));
            let because = done["lanes"][0].as_str().is_some_and(|said| said.starts_with("3 lanes, because"));
            (done["transport"].as_str().expect("it is named").to_owned(), because)
        };
        remember_lanes(case, 3);
        assert_eq!(copy("with"), ("udp".to_owned(), true));
        let chosen = case.run(&mut route.copy(&["--lanes", "1"], "file", "one")).expect_success().done();
        assert_eq!(chosen["lanes"], Value::Null, "{chosen}");
        block_udp(case);
        let (transport, because) = copy("without");
        assert!(["tcp", "channel"].contains(&transport.as_str()) && !because, "{transport}");
        let kept = fs::read_to_string(memory(case)).expect("it is there");
        let direction = if route.direction() == Direction::Push { "forth" } else { "back" };
        assert!(!kept.contains(direction), "the next copy does not try that again: {kept}");
    });
}

#[test]
fn lanes_that_cannot_be_are_refused_with_a_sentence() {
    let case = Case::new("lanes_that_cannot_be_are_refused_with_a_sentence");
    let client = Key::generate(&case, "client-key");
    let server = Key::generate(&case, "server-key");
    let daemon = Daemon::start_with(&case, Spec::new(&case, &[("read-write", &client)], &server));
    write_random(&case.local("file"), 1 << 20, &mut case.random());
    let url = daemon.url("copy");
    let cp = |flags: &[&str]| -> Command {
        let mut command = daemon.cp(&case);
        command.args(flags).arg(case.local("file")).arg(&url);
        command
    };
    for (flags, part) in [
        (&["--via", "no-such-if"][..], "no interface"),
        (&["--via", "a/b"], "an IP address"),
        (&["--lanes", "17"], "17"),
        (&["--lanes", "2", "--transport", "tcp"], "uses none"),
        (&["--lanes", "2", "--deadline", "2h"], "one lane"),
    ] {
        let finished = case.run(&mut cp(flags)).expect_code(1);
        assert!(finished.stderr.contains(part), "{flags:?}: {}", finished.stderr);
    }
    case.run(&mut cp(&["--lanes", "3"])).expect_success();
}
