//! Data over TCP and through the control channel: chosen by the user, and where UDP does not get through.

use super::case::Case;
use super::files::{hash, write_random};
use super::needs;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};

const ROUTES: [(Carrier, Direction); 4] = [
    (Carrier::Daemon, Direction::Push),
    (Carrier::Daemon, Direction::Pull),
    (Carrier::Ssh, Direction::Push),
    (Carrier::Ssh, Direction::Pull),
];
/// Several chunks.
const FILE_BYTES: u64 = 12 << 20;
/// Blocks incoming datagrams.
const BLOCK_UDP: &str = "-A INPUT -p udp -j DROP";

/// Copies the file with these flags; by what most of it came.
#[track_caller]
fn carried_by(case: &Case, route: &Route<'_>, flags: &[&str], target: &str) -> String {
    let done = case.run(&mut route.copy(flags, "file", target)).expect_success().done();
    eprintln!("{flags:?}: {done}");
    assert_eq!(hash(&route.target_path(target)), hash(&route.source_path("file")));
    done["transport"].as_str().expect("it is named").to_owned()
}

fn make_source(case: &Case, route: &Route<'_>) {
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
}

#[test]
fn a_copy_goes_by_the_transport_that_was_chosen() {
    for (carrier, direction) in ROUTES {
        eprintln!("{carrier:?}, {direction:?}");
        let case = Case::new("a_copy_goes_by_the_transport_that_was_chosen");
        let route = Route::open(&case, carrier, direction);
        make_source(&case, &route);
        for (flag, transport) in [("tcp:3", "tcp"), ("ssh", "channel")] {
            let flags = ["--transport", flag];
            assert_eq!(carried_by(&case, &route, &flags, transport), transport, "{flag}");
        }
    }
}

#[test]
fn where_udp_is_blocked_a_copy_goes_over_tcp() {
    let name = "where_udp_is_blocked_a_copy_goes_over_tcp";
    if !needs::given(name) {
        return;
    }
    // Each costs a second of waiting for UDP.
    for (carrier, direction) in [(Carrier::Daemon, Direction::Push), (Carrier::Ssh, Direction::Pull)] {
        eprintln!("{carrier:?}, {direction:?}");
        let case = Case::new(name);
        let route = Route::open(&case, carrier, direction);
        for side in [Side::Client, Side::Server] {
            case.net.iptables(side, BLOCK_UDP);
        }
        make_source(&case, &route);
        // What had come through the channel before the first TCP connection was up may be most of it.
        let transport = carried_by(&case, &route, &[], "copy");
        assert!(["tcp", "channel"].contains(&transport.as_str()), "{transport}");
        let mut telling = route.plain_cp(&["-v", "--explain"]);
        telling.arg(route.source("file")).arg(route.target("again"));
        let said = case.run(&mut telling).expect_success().said();
        assert!(said.contains("no answer over UDP"), "{said}");
    }
}

#[test]
fn where_only_ssh_is_open_a_copy_goes_through_it() {
    let name = "where_only_ssh_is_open_a_copy_goes_through_it";
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Ssh, direction);
        let ssh = case.net.tcp_port();
        case.net.iptables(Side::Server, BLOCK_UDP);
        case.net.iptables(Side::Server, &format!("-A INPUT -p tcp ! --dport {ssh} -j DROP"));
        make_source(&case, &route);
        assert_eq!(carried_by(&case, &route, &[], "copy"), "channel");
        // A user who wants TCP alone is told that there is none.
        let finished = case.run(&mut route.copy(&["--transport", "tcp"], "file", "other")).expect_code(35);
        assert!(finished.said().contains("TCP"), "{}", finished.said());
        assert!(!route.target_path("other").exists());
    }
}

#[test]
fn a_copy_begun_over_udp_goes_on_over_tcp() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_copy_begun_over_udp_goes_on_over_tcp");
        let route = Route::open(&case, Carrier::Daemon, direction);
        let expected = write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let slowly = ["--transport", "udp", "--rate", "60Mbit"];
        let mut running = case.start(&mut route.copy(&slowly, "file", "copy"));
        case.wait_for("a third is verified", || running.bytes_so_far() >= FILE_BYTES / 3);
        running.kill();
        let mut done = None;
        // The other end may hold the destination until it notices that the first command is gone.
        case.wait_for("the copy goes on", || {
            let finished = case.run(&mut route.copy(&["--transport", "tcp"], "file", "copy"));
            done = (finished.code == Some(0)).then(|| finished.done());
            done.is_some()
        });
        let done = done.expect("it is over");
        assert_eq!(done["transport"], "tcp", "{done}");
        assert!(done["resumed_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{done}");
        assert_eq!(hash(&route.target_path("copy")), expected);
    }
}
