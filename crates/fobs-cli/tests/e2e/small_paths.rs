//! Paths that carry less than usual: tunnels in tunnels, devices whose other end takes less, a cable.

use std::fs;

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::files::{hash, write_random};
use super::needs;
use super::net::{DEVICE, Net, Side};
use super::remote::{Carrier, Direction, Route};

/// Headers of IPv4, UDP and FOBS with its tag, bytes.
const OVERHEAD: u64 = 20 + 8 + 28;
const FILE_BYTES: u64 = 8 << 20;

/// Copies a file each way over a network set up like this; `look` gets what each run says at its end.
fn copies(name: &'static str, flags: &[&str], set_up: impl Fn(&Net), look: impl Fn(&serde_json::Value)) {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        set_up(&case.net);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let expected = write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let done = case.run(&mut route.copy(flags, "file", "copy")).expect_success().done();
        assert_eq!(hash(&route.target_path("copy")), expected);
        look(&done);
    }
}

fn packet_size(done: &serde_json::Value) -> u64 {
    done["packet_size"].as_u64().unwrap_or_else(|| panic!("{done}"))
}

#[test]
fn a_device_below_the_base_size_is_filled() {
    let name = "a_device_below_the_base_size_is_filled";
    if !needs::given(name) {
        return;
    }
    for mtu in [1227, 1000, 576] {
        let small = |net: &Net| [Side::Client, Side::Server].into_iter().for_each(|side| net.mtu(side, mtu));
        copies(name, &["--transport", "udp", "--timeout", "20"], small, |done| {
            let wire = packet_size(done) + OVERHEAD;
            assert!(wire <= u64::from(mtu) && wire + 128 > u64::from(mtu), "MTU {mtu}: {done}");
        });
    }
}

#[test]
fn a_path_that_drops_the_base_size_is_crossed() {
    let name = "a_path_that_drops_the_base_size_is_crossed";
    if !needs::given(name) {
        return;
    }
    // Jumbo devices, and a middle that carries 1,100 bytes and says nothing.
    for device in [1500, 9000] {
        let narrow = |net: &Net| {
            net.single_datagrams();
            for side in [Side::Client, Side::Server] {
                net.mtu(side, device);
                net.iptables(side, "-A INPUT -p udp -m length --length 1101:65535 -j DROP");
            }
        };
        copies(name, &["--transport", "udp", "--timeout", "30"], narrow, |done| {
            assert!(packet_size(done) + OVERHEAD <= 1100, "{done}");
        });
    }
}

#[test]
fn a_path_that_carries_no_size_goes_over_streams() {
    let name = "a_path_that_carries_no_size_goes_over_streams";
    if !needs::given(name) {
        return;
    }
    let narrow = |net: &Net| {
        net.single_datagrams();
        for side in [Side::Client, Side::Server] {
            net.iptables(side, "-A INPUT -p udp -m length --length 401:65535 -j DROP");
        }
    };
    copies(name, &["--timeout", "30"], narrow, |_| {});
}

#[test]
fn a_path_that_carries_no_size_ends_by_its_timeout() {
    let name = "a_path_that_carries_no_size_ends_by_its_timeout";
    if !needs::given(name) {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        case.net.single_datagrams();
        for side in [Side::Client, Side::Server] {
            case.net.iptables(side, "-A INPUT -p udp -m length --length 401:65535 -j DROP");
        }
        let route = Route::open(&case, Carrier::Daemon, direction);
        write_random(&route.source_path("file"), FILE_BYTES, &mut case.random());
        let flags = ["--transport", "udp", "--timeout", "5"];
        let finished = case.run(&mut route.copy(&flags, "file", "copy")).expect_code(30);
        assert!(finished.stderr.contains("5 s"), "{}", finished.stderr);
    }
}

#[test]
fn hosts_on_a_cable_need_link_local_addresses_only() {
    let name = "hosts_on_a_cable_need_link_local_addresses_only";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    // Addresses of ours, at once usable; those of the kernel wait for duplicate detection.
    for (side, address) in [(Side::Client, "fe80::77:1/64"), (Side::Server, "fe80::77:2/64")] {
        case.net.tool(side, &["ip", "addr", "add", address, "dev", DEVICE, "scope", "link", "nodad"]);
    }
    let (client, server) = (Key::generate(&case, "client-key"), Key::generate(&case, "server-key"));
    let keys = [("read-write", &client)];
    let port = case.net.tcp_port();
    let listen = format!("[fe80::77:2%{DEVICE}]:{port}");
    let options = ["--listen", &listen];
    let daemon = Daemon::start_with(&case, Spec { options: &options, ..Spec::new(&case, &keys, &server) });
    let expected = write_random(&case.local("file"), FILE_BYTES, &mut case.random());
    for (number, zone) in ["%", "%25"].into_iter().enumerate() {
        for transport in ["udp", "tcp"] {
            let copy = format!("{transport}{number}");
            let url = format!("fobs://[fe80::77:2{zone}{DEVICE}]:{port}/{copy}");
            let flags = ["--transport", transport];
            case.run(daemon.cp(&case).args(flags).arg(case.local("file")).arg(url)).expect_success();
            assert_eq!(hash(&daemon.root.join(&copy)), expected, "{copy}");
        }
    }
    let url = format!("fobs://[fe80::77:2%{DEVICE}]:{port}/udp0");
    case.run(daemon.cp(&case).args(["--transport", "udp"]).arg(url).arg(case.local("back"))).expect_success();
    assert_eq!(fs::read(case.local("back")).unwrap(), fs::read(case.local("file")).unwrap());
}
