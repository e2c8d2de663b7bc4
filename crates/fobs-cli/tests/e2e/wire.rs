//! Networks that lose, reorder, duplicate or block packets; and concurrent transfers.

use std::net::UdpSocket;
use std::time::Duration;

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::{hash, names, write_random};
use super::needs;
use super::net::{Net, Side};
use super::remote::{Carrier, Direction, Route};

/// The sentence about a blocked path is due within 5 s of the first datagram (protocol 5.2 gives up after 4);
/// the rest is for starting ssh and for a slow machine.
const BLOCKED_TIME_MAX: Duration = Duration::from_secs(8);
/// Blocks incoming datagrams; and unblocks them.
const BLOCK: &str = "-A INPUT -p udp -j DROP";
const UNBLOCK: &str = "-D INPUT -p udp -j DROP";
/// Several chunks and thousands of datagrams, but few enough for a bad network.
const FILE_BYTES: u64 = 24 << 20;

fn blocked_udp(name: &'static str, carrier: Carrier) {
    if !needs::given(name) {
        return;
    }
    let case = Case::alone(name);
    for (direction, blocked_at) in
        [(Direction::Push, Side::Server), (Direction::Pull, Side::Server), (Direction::Pull, Side::Client)]
    {
        eprintln!("{direction:?}, blocked at the {blocked_at:?}");
        // Servers and directories of a round end with its block.
        let route = Route::open(&case, carrier, direction);
        case.net.iptables(blocked_at, BLOCK);
        write_random(&route.source_path("file"), 1000, &mut case.random());
        let udp_alone = ["--transport", "udp"];
        let finished = case.run(&mut route.copy(&udp_alone, "file", "copy")).expect_code(35);
        let message = finished.failed()["message"].as_str().expect("a sentence").to_owned();
        assert!(message.contains("UDP"), "{message}");
        assert!(finished.took < BLOCKED_TIME_MAX, "{:?}", finished.took);
        assert!(!route.target_path("copy").exists());
        case.net.iptables(blocked_at, UNBLOCK);
        // After unblocking, a copy succeeds.
        case.run(&mut route.copy(&udp_alone, "file", "copy")).expect_success();
        drop(route);
        case.start_over();
    }
}

#[test]
fn a_blocked_udp_path_is_named_within_seconds() {
    blocked_udp("a_blocked_udp_path_is_named_within_seconds", Carrier::Daemon);
}

#[test]
fn a_blocked_udp_path_is_named_within_seconds_over_ssh() {
    blocked_udp("a_blocked_udp_path_is_named_within_seconds_over_ssh", Carrier::Ssh);
}

/// Runs a transfer each way over a network that `spoil` has made bad.
fn over_a_bad_network(name: &'static str, spoil: fn(&Net)) {
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        spoil(&case.net);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let expected = write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let done = case.run(&mut route.copy(&[], "file", "copy")).expect_success().done();
        eprintln!("{direction:?}: {done}");
        assert_eq!(hash(&route.target_path("copy")), expected);
        assert_eq!(names(&route.target_path("")), ["copy"]);
    }
}

/// Loses every twentieth datagram, each way.
fn lose(net: &Net) {
    net.single_datagrams();
    for side in [Side::Client, Side::Server] {
        net.iptables(side, "-A INPUT -p udp -m statistic --mode random --probability 0.05 -j DROP");
    }
}

/// Delivers every twentieth datagram after later ones, each way.
fn reorder(net: &Net) {
    net.single_datagrams();
    for side in [Side::Client, Side::Server] {
        net.slow_lane(side);
        let chosen = "-t mangle -A POSTROUTING -p udp -m statistic --mode random --probability 0.05";
        net.iptables(side, &format!("{chosen} -j CLASSIFY --set-class 1:2"));
    }
}

/// Delivers every datagram twice, each way.
fn double(net: &Net) {
    for (side, peer) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
        // TEE sends a copy to the original's destination.
        let gateway = net.address(peer);
        net.iptables(side, &format!("-t mangle -A POSTROUTING -p udp -j TEE --gateway {gateway}"));
    }
}

#[test]
fn loss_both_ways_only_costs_time() {
    over_a_bad_network("loss_both_ways_only_costs_time", lose);
}

#[test]
fn reordering_both_ways_only_costs_time() {
    over_a_bad_network("reordering_both_ways_only_costs_time", reorder);
}

#[test]
fn every_datagram_arriving_twice_changes_nothing() {
    over_a_bad_network("every_datagram_arriving_twice_changes_nothing", double);
}

/// The bad networks work: of numbered datagrams some are lost, some are late, all come twice, or none arrive.
#[test]
fn the_bad_networks_lose_delay_duplicate_and_block() {
    let name = "the_bad_networks_lose_delay_duplicate_and_block";
    if !needs::given(name) {
        return;
    }
    let arrivals = |spoil: fn(&Net)| -> Vec<u32> {
        let net = Net::new(name);
        spoil(&net);
        let (sender, receiver) = std::sync::mpsc::channel();
        let address = net.address(Side::Server);
        let listener = net.thread(Side::Server, move || {
            let socket = UdpSocket::bind((address, 0)).expect("a free port");
            socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
            sender.send(socket.local_addr().expect("bound")).expect("the test waits");
            let mut buffer = [0; 2000];
            let mut numbers = Vec::new();
            while socket.recv(&mut buffer).is_ok() {
                numbers.push(u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]));
            }
            numbers
        });
        let to = receiver.recv().expect("the listener stands");
        let sender = net.thread(Side::Client, move || {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
            for number in 0..SENT {
                let mut datagram = vec![0; 1400];
                datagram[..4].copy_from_slice(&number.to_be_bytes());
                socket.send_to(&datagram, to).expect("sent");
                if number % 40 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        sender.join().expect("no panic");
        listener.join().expect("no panic")
    };
    const SENT: u32 = 2000;
    let lost = arrivals(lose);
    assert!((100..1990).contains(&lost.len()), "{} arrived of {SENT}", lost.len());
    let reordered = arrivals(reorder);
    let late = reordered.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(late > 5, "{late} late, {} arrived", reordered.len());
    let mut doubled = arrivals(double);
    let all = doubled.len();
    doubled.sort_unstable();
    doubled.dedup();
    assert!(doubled.len() < all * 3 / 4, "{} of {all} different", doubled.len());
    assert_eq!(arrivals(|net| net.iptables(Side::Server, BLOCK)).len(), 0);
}

/// Copies a file each way and returns the packet sizes, data bytes, that it ended with.
fn packet_sizes(name: &'static str, set_up: fn(&Net)) -> Vec<u64> {
    [Direction::Push, Direction::Pull]
        .into_iter()
        .map(|direction| {
            let case = Case::new(name);
            set_up(&case.net);
            let route = Route::open(&case, Carrier::Daemon, direction);
            let expected = write_random(&route.source_path("file"), 2 * FILE_BYTES, &mut case.random());
            let done = case.run(&mut route.copy(&[], "file", "copy")).expect_success().done();
            assert_eq!(hash(&route.target_path("copy")), expected);
            done["packet_size"].as_u64().unwrap_or_else(|| panic!("{done}"))
        })
        .collect()
}

/// Headers of IPv4, UDP and FOBS with its tag: what a packet of data is less than the path's MTU, bytes.
const OVERHEAD: u64 = 20 + 8 + 28;

#[test]
fn jumbo_frames_are_found_and_filled() {
    let name = "jumbo_frames_are_found_and_filled";
    if !needs::given(name) {
        return;
    }
    let sizes = packet_sizes(name, |net| {
        [Side::Client, Side::Server].into_iter().for_each(|side| net.mtu(side, 9000))
    });
    assert!(sizes.iter().all(|size| (8000..=9000 - OVERHEAD).contains(size)), "{sizes:?}");
}

#[test]
fn a_black_hole_for_large_packets_is_survived() {
    let name = "a_black_hole_for_large_packets_is_survived";
    if !needs::given(name) {
        return;
    }
    // One side's device accepts 9000 bytes: only probing shows what arrives at the other.
    for set_up in [|net: &Net| net.mtu(Side::Client, 9000), |net: &Net| net.mtu(Side::Server, 9000)] {
        let sizes = packet_sizes(name, set_up);
        assert!(sizes.iter().all(|size| *size <= 1500 - OVERHEAD), "{sizes:?}");
    }
}

#[test]
fn a_path_of_1280_bytes_is_enough() {
    let name = "a_path_of_1280_bytes_is_enough";
    if !needs::given(name) {
        return;
    }
    let sizes = packet_sizes(name, |net| {
        [Side::Client, Side::Server].into_iter().for_each(|side| net.mtu(side, 1280))
    });
    assert!(sizes.iter().all(|size| *size <= 1280 - OVERHEAD), "{sizes:?}");
}

#[test]
fn a_packet_size_above_the_path_mtu_is_reduced() {
    let name = "a_packet_size_above_the_path_mtu_is_reduced";
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let expected = write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let done =
            case.run(&mut route.copy(&["--packet-size", "8000"], "file", "copy")).expect_success().done();
        assert_eq!(hash(&route.target_path("copy")), expected);
        assert!(done["packet_size"].as_u64().is_some_and(|size| size <= 1500 - OVERHEAD), "{done}");
    }
}

#[test]
fn one_host_alone_copies_over_its_loopback() {
    let case = Case::new("one_host_alone_copies_over_its_loopback");
    let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
    let authorized = [("read-write", &client)];
    let mut spec = Spec::new(&case, &authorized, &server);
    (spec.side, spec.listen) = (Side::Client, "127.0.0.1".to_owned());
    let daemon = Daemon::start_with(&case, spec);
    let expected = write_random(&case.local("file"), 2 * FILE_BYTES, &mut case.random());
    let (here, there, back) = (case.local("file"), daemon.url("file"), case.local("back"));
    // The loopback's MTU is 65,536 bytes: the largest packet there is fits.
    for flags in [&[][..], &["--packet-size", "65000"]] {
        case.run(daemon.cp(&case).args(flags).arg(&here).arg(&there)).expect_success();
        case.run(daemon.cp(&case).args(flags).arg(&there).arg(&back)).expect_success();
        assert_eq!((&hash(&daemon.root.join("file")), &hash(&back)), (&expected, &expected), "{flags:?}");
    }
}

#[test]
fn four_transfers_at_once_share_one_daemon() {
    let case = Case::new("four_transfers_at_once_share_one_daemon");
    let mut daemon = Daemon::start(&case, "read-write");
    let mut random = case.random();
    let mut expected = Vec::new();
    for index in 0..4 {
        let directory = if index % 2 == 0 { case.local("") } else { daemon.root.clone() };
        expected.push(write_random(&directory.join(format!("file{index}")), 30_000_000, &mut random));
    }
    // The first call pins the server's key; four at once must not conflict over the file.
    let running: Vec<_> = (0..4)
        .map(|index| {
            let mut command = daemon.cp(&case);
            let (here, there) = (case.local(format!("file{index}")), daemon.url(&format!("file{index}")));
            match index % 2 {
                0 => command.arg(here).arg(there),
                _ => command.arg(there).arg(here),
            };
            case.start(&mut command)
        })
        .collect();
    for transfer in running {
        transfer.finish().expect_success().done();
    }
    for (index, expected) in expected.iter().enumerate() {
        let file = format!("file{index}");
        assert_eq!((&hash(&case.local(&file)), &hash(&daemon.root.join(&file))), (expected, expected));
    }
    daemon.expect_alive();
}

#[test]
fn transfers_beyond_the_ports_are_refused_and_the_daemon_stays() {
    let case = Case::new("transfers_beyond_the_ports_are_refused_and_the_daemon_stays");
    let mut daemon = Daemon::start(&case, "read-write");
    write_random(&daemon.root.join("file"), 4 << 20, &mut case.random());
    let (first, last) = case.net.udp_ports();
    let start = |index: u16| {
        let mut command = daemon.cp(&case);
        command.args(["--rate", "4Mbit"]).arg(daemon.url("file")).arg(case.local(format!("copy{index}")));
        case.start(&mut command)
    };
    // One pins the key and starts; then as many as there are ports, and two more.
    let sessions = last - first + 1;
    let running: Vec<_> = (0..sessions + 2).map(start).collect();
    let finished: Vec<_> = running.into_iter().map(super::process::Running::finish).collect();
    let done = finished.iter().filter(|finished| finished.code == Some(0)).count();
    assert!(done >= usize::from(sessions), "{done} of {} were served", sessions + 2);
    for refused in finished.iter().filter(|finished| finished.code != Some(0)) {
        assert!(!refused.failed()["message"].as_str().unwrap_or_default().is_empty(), "{}", refused.said());
    }
    daemon.expect_alive();
    case.run(daemon.cp(&case).arg(daemon.url("file")).arg(case.local("after"))).expect_success();
}
