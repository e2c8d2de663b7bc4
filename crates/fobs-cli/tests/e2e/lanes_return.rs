//! Paths that die in the middle of a copy over two of them, and return: their lanes carry data again.

use std::time::Duration;

use super::case::Case;
use super::files::{hash, write_random};
use super::lanes::{SECOND, each_way, sender_of, sent_by};
use super::net::Side;
use super::process::Running;
use super::remote::{Direction, Route};

const FILE_BYTES: u64 = 40 << 20;
/// Slow enough that a path is back long before the copy ends.
const RATE: &str = "40Mbit";
const OUTAGE: Duration = Duration::from_secs(2);

/// Bytes that the sending side's devices have sent.
fn sent_by_both(case: &Case, route: &Route<'_>) -> u64 {
    ["veth0", SECOND].iter().map(|device| sent_by(case, sender_of(route.direction()), device)).sum()
}

/// Starts a copy over these paths and returns it in its middle, with what was sent before it.
fn in_its_middle(case: &Case, route: &Route<'_>, via: [&str; 2]) -> (Running, u64) {
    write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
    let before = sent_by_both(case, route);
    let flags = ["--rate", RATE, "--via", via[0], "--via", via[1]];
    let running = case.start(&mut route.copy(&flags, "file", "copy"));
    case.wait_for("a part is verified", || running.bytes_so_far() >= FILE_BYTES / 8);
    (running, before)
}

/// The copy is whole, and no more was sent again than what the dead lane had: some chunks of 1 MiB, the
/// flight of its path, and what looks for it.
fn expect_little_again(case: &Case, route: &Route<'_>, (running, before): (Running, u64)) {
    let done = running.finish().expect_success().done();
    assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
    let sent = sent_by_both(case, route) - before;
    // With headers of packets, and the control channel.
    let most = FILE_BYTES + FILE_BYTES / 16 + (14 << 20);
    assert!(sent <= most, "{sent} bytes were sent: {done}");
}

/// Kills the path of a device for a while, and expects its lane to carry data after that.
fn returns(case: &Case, route: &Route<'_>, (via, device): ([&str; 2], &str), play: impl Fn()) {
    let (mut running, at_first) = in_its_middle(case, route, via);
    play();
    let side = sender_of(route.direction());
    let before = sent_by(case, side, device);
    case.wait_for("the path carries data again", || {
        // Probes of a path that stays dead come to less in all the time of the copy.
        sent_by(case, side, device) >= before + (3 << 20) || running.exited().is_some()
    });
    let after = sent_by(case, side, device);
    assert!(after >= before + (3 << 20), "{before} bytes before, {after} after");
    expect_little_again(case, route, (running, at_first));
}

/// Both orders of the paths, of which the second device's dies: the first lane is the session's own.
const PATHS: [([&str; 2], &str); 2] = [(["10.77.0.1", SECOND], SECOND), ([SECOND, "10.77.0.1"], SECOND)];

/// One of them for each direction.
fn paths(route: &Route<'_>) -> ([&'static str; 2], &'static str) {
    PATHS[usize::from(route.direction() == Direction::Pull)]
}

/// No datagram passes the device for a while, and nothing says so.
fn silence(case: &Case, device: &str, time: Duration) {
    let rules = |verb: &str| {
        for side in [Side::Client, Side::Server] {
            for way in ["INPUT -i", "OUTPUT -o"] {
                case.net.iptables(side, &format!("{verb} {way} {device} -p udp -j DROP"));
            }
        }
    };
    rules("-I");
    std::thread::sleep(time);
    rules("-D");
}

#[test]
fn a_path_that_is_silent_for_a_while_carries_data_again() {
    each_way("a_path_that_is_silent_for_a_while_carries_data_again", |case, route| {
        let (via, device) = paths(route);
        returns(case, route, (via, device), || silence(case, device, OUTAGE));
    });
}

#[test]
fn an_interface_that_goes_down_and_up_carries_data_again() {
    each_way("an_interface_that_goes_down_and_up_carries_data_again", |case, route| {
        let (via, device) = paths(route);
        returns(case, route, (via, device), || {
            case.net.tool(Side::Client, &["ip", "link", "set", device, "down"]);
            std::thread::sleep(OUTAGE);
            case.net.tool(Side::Client, &["ip", "link", "set", device, "up"]);
        });
    });
}

#[test]
fn an_address_that_its_interface_loses_and_gets_back_carries_data_again() {
    each_way("an_address_that_its_interface_loses_and_gets_back_carries_data_again", |case, route| {
        let (via, device) = paths(route);
        returns(case, route, (via, device), || {
            let address = |verb| ["ip", "addr", verb, "10.78.0.1/24", "dev", device];
            case.net.tool(Side::Client, &address("del"));
            std::thread::sleep(OUTAGE);
            case.net.tool(Side::Client, &address("add"));
        });
    });
}

/// As an interface that gets another address from its network.
#[test]
fn an_interface_with_another_address_carries_data_again() {
    each_way("an_interface_with_another_address_carries_data_again", |case, route| {
        let (via, device) = paths(route);
        returns(case, route, (via, device), || {
            let address = |verb, address| {
                case.net.tool(Side::Client, &["ip", "addr", verb, address, "dev", device]);
            };
            address("del", "10.78.0.1/24");
            std::thread::sleep(OUTAGE);
            address("add", "10.78.0.9/24");
        });
    });
}

#[test]
fn an_address_that_stays_away_leaves_its_chunks_to_the_other_path() {
    each_way("an_address_that_stays_away_leaves_its_chunks_to_the_other_path", |case, route| {
        for (via, device) in PATHS {
            let running = in_its_middle(case, route, via);
            let address = |verb| ["ip", "addr", verb, "10.78.0.1/24", "dev", device];
            case.net.tool(Side::Client, &address("del"));
            expect_little_again(case, route, running);
            case.net.tool(Side::Client, &address("add"));
        }
    });
}

/// Routers that say so are no reason to give a path up either.
#[test]
fn a_path_whose_routers_report_errors_for_a_while_carries_data_again() {
    each_way("a_path_whose_routers_report_errors_for_a_while_carries_data_again", |case, route| {
        let (via, device) = paths(route);
        returns(case, route, (via, device), || {
            let rule = |verb: &str| {
                let reject = "-j REJECT --reject-with icmp-host-unreachable";
                for side in [Side::Client, Side::Server] {
                    case.net.iptables(side, &format!("{verb} INPUT -i {device} -p udp {reject}"));
                }
            };
            rule("-I");
            std::thread::sleep(OUTAGE);
            rule("-D");
        });
    });
}

#[test]
fn an_interface_that_is_not_there_is_left_out_where_another_is() {
    each_way("an_interface_that_is_not_there_is_left_out_where_another_is", |case, route| {
        write_random(&route.source_path("file"), 2 << 20, &mut case.random());
        let flags = ["--via", "wlan7", "--via", "10.77.0.1"];
        let finished = case.run(&mut route.copy(&flags, "file", "copy")).expect_success();
        assert_eq!(hash(&route.target_path("copy")), hash(&route.source_path("file")));
        let told =
            finished.events().iter().any(|event| event.to_string().contains("--via wlan7 is left out"));
        assert!(told, "{:?}", finished.events());
        let flags = ["--via", "wlan7", "--via", "wlan8"];
        let refused = case.run(&mut route.copy(&flags, "file", "copy")).expect_code(1);
        assert!(refused.stderr.contains("wlan7"), "{}", refused.stderr);
    });
}
