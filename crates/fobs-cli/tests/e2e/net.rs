//! Two hosts for a test: network namespaces joined by a veth pair where root may make them, else the
//! loopback.

use std::ffi::OsStr;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Name of the device on both sides.
pub const DEVICE: &str = "veth0";
/// Ports per test on the loopback: one for TCP, the rest for UDP.
const PORTS_PER_TEST: u16 = 16;
/// On the loopback, ports are taken from here up: above the well-known, below the kernel's ephemeral range.
const FIRST_PORT: u16 = 12_000;
/// Room for all tests of one process.
const PORTS_PER_PROCESS: u16 = 4_000;

/// One of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where `fobs cp` runs.
    Client,
    /// Where the daemon or sshd runs.
    Server,
}

/// The two hosts; removed when dropped.
pub struct Net {
    kind: Kind,
    first_port: u16,
}

enum Kind {
    Namespaces { client: String, server: String },
    Loopback,
}

impl Net {
    /// Makes the two hosts: namespaces, or the loopback.
    pub fn new(test: &str) -> Net {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let index = NEXT.fetch_add(1, Ordering::Relaxed);
        if namespaces_work() {
            let tag = format!("{PREFIX}{}-{index}", std::process::id());
            let (client, server) = (format!("{tag}c"), format!("{tag}s"));
            eprintln!("{test}: network namespaces {client} and {server}");
            // Made first, so that Drop cleans up whatever half of the following succeeded.
            let net = Net {
                kind: Kind::Namespaces { client: client.clone(), server: server.clone() },
                first_port: FIRST_PORT,
            };
            for name in [&client, &server] {
                ip(&["netns", "add", name]);
            }
            ip(&[
                "link", "add", DEVICE, "netns", &client, "type", "veth", "peer", "name", DEVICE, "netns",
                &server,
            ]);
            for (side, name) in [(Side::Client, &client), (Side::Server, &server)] {
                let (v4, v6) = (format!("{}/24", net.address(side)), format!("{}/64", net.address_v6(side)));
                ip(&["-n", name, "addr", "add", &v4, "dev", DEVICE]);
                // `nodad`: usable at once, where duplicate detection would take a second.
                ip(&["-n", name, "addr", "add", &v6, "dev", DEVICE, "nodad"]);
                ip(&["-n", name, "link", "set", "lo", "up"]);
                ip(&["-n", name, "link", "set", DEVICE, "up"]);
            }
            return net;
        }
        eprintln!("{test}: loopback (no root for network namespaces)");
        let base = FIRST_PORT + (std::process::id() % 4) as u16 * PORTS_PER_PROCESS;
        loop {
            let index = NEXT.fetch_add(1, Ordering::Relaxed);
            let first_port = base + index * PORTS_PER_TEST % PORTS_PER_PROCESS;
            let tcp = TcpListener::bind(("127.0.0.1", first_port)).is_ok();
            if tcp && (1..PORTS_PER_TEST).all(|n| UdpSocket::bind(("127.0.0.1", first_port + n)).is_ok()) {
                return Net { kind: Kind::Loopback, first_port };
            }
        }
    }

    /// A command that runs on one side. Its process id is the program's own.
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        match &self.kind {
            Kind::Loopback => Command::new(program),
            Kind::Namespaces { .. } => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", self.namespace(side)]).arg(program);
                command
            }
        }
    }

    fn namespace(&self, side: Side) -> &str {
        match (&self.kind, side) {
            (Kind::Namespaces { client, .. }, Side::Client) => client,
            (Kind::Namespaces { server, .. }, Side::Server) => server,
            (Kind::Loopback, _) => {
                panic!("the loopback is no namespace: list the test in the table of needs")
            }
        }
    }

    /// The IPv4 address of a side.
    pub fn address(&self, side: Side) -> &'static str {
        match (&self.kind, side) {
            (Kind::Loopback, _) => "127.0.0.1",
            (_, Side::Client) => "10.77.0.1",
            (_, Side::Server) => "10.77.0.2",
        }
    }

    /// The IPv6 address of a side.
    pub fn address_v6(&self, side: Side) -> &'static str {
        match (&self.kind, side) {
            (Kind::Loopback, _) => "::1",
            (_, Side::Client) => "fd77::1",
            (_, Side::Server) => "fd77::2",
        }
    }

    /// The TCP port for this test's server.
    pub fn tcp_port(&self) -> u16 {
        self.first_port
    }

    /// The UDP ports for this test's sessions, inclusive.
    pub fn udp_ports(&self) -> (u16, u16) {
        (self.first_port + 1, self.first_port + PORTS_PER_TEST - 1)
    }

    /// Runs a tool to its end on one side; it must succeed. Namespaces only.
    pub fn tool(&self, side: Side, words: &[&str]) {
        self.namespace(side);
        let output = self.command(side, words[0]).args(&words[1..]).output().expect(words[0]);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs `iptables` on one side. Namespaces only.
    pub fn iptables(&self, side: Side, rule: &str) {
        // `-w`: concurrent calls wait for each other instead of failing.
        let words: Vec<&str> = ["iptables", "-w"].into_iter().chain(rule.split_whitespace()).collect();
        self.tool(side, &words);
    }

    /// Makes both devices cut super-packets up before they cross and never glue them again, so that rules and
    /// captures see every datagram by itself. Namespaces only.
    pub fn single_datagrams(&self) {
        for side in [Side::Client, Side::Server] {
            self.tool(side, &["ethtool", "-K", DEVICE, "tx-udp-segmentation", "off", "gro", "off"]);
        }
    }

    /// Joins the two hosts by one more pair of devices, without addresses. Namespaces only.
    pub fn join_again(&self, device: &str) {
        let [client, server] = [Side::Client, Side::Server].map(|side| self.namespace(side));
        ip(&[
            "link", "add", device, "netns", client, "type", "veth", "peer", "name", device, "netns", server,
        ]);
    }

    /// Sets the largest IP packet that a side's device sends and takes, bytes. Where the two differ, what the
    /// smaller one does not take vanishes without a word: a black hole. Namespaces only.
    pub fn mtu(&self, side: Side, bytes: u16) {
        ip(&["-n", self.namespace(side), "link", "set", DEVICE, "mtu", &bytes.to_string()]);
    }

    /// Gives the client another IPv4 address in place of the one it has. Namespaces only.
    pub fn readdress_client(&self) {
        let (name, old) = (self.namespace(Side::Client), format!("{}/24", self.address(Side::Client)));
        ip(&["-n", name, "addr", "add", "10.77.0.9/24", "dev", DEVICE]);
        ip(&["-n", name, "addr", "del", &old, "dev", DEVICE]);
        // Deleting the first address of a subnet deletes the others, unless they are promoted.
        ip(&["-n", name, "addr", "replace", "10.77.0.9/24", "dev", DEVICE]);
    }

    /// Sends what `iptables -j CLASSIFY` puts into traffic class 1:2 over a slow lane of its own, so that it
    /// arrives up to 60 ms after younger datagrams; what the lane has no room for is lost. Namespaces only.
    pub fn slow_lane(&self, side: Side) {
        let tc = |words: &str| {
            let words: Vec<&str> = ["tc"].into_iter().chain(words.split_whitespace()).collect();
            self.tool(side, &words);
        };
        tc(&format!("qdisc add dev {DEVICE} root handle 1: htb default 1"));
        tc(&format!("class add dev {DEVICE} parent 1: classid 1:1 htb rate 10gbit quantum 60000"));
        tc(&format!(
            "class add dev {DEVICE} parent 1: classid 1:2 htb rate 20mbit burst 1600 cburst 1600 quantum 60000"
        ));
        tc(&format!("qdisc add dev {DEVICE} parent 1:2 bfifo limit 150000"));
    }

    /// Runs a closure in a thread that lives on one side: sockets that it makes are that host's. Namespaces
    /// only.
    pub fn thread<T: Send + 'static>(
        &self,
        side: Side,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/run/netns/{}", self.namespace(side));
        std::thread::spawn(move || {
            let file = std::fs::File::open(&path).expect("a namespace that exists");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter it");
            body()
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Kind::Namespaces { client, server } = &self.kind {
            for name in [client, server] {
                let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
            }
        }
    }
}

/// Prefix of the namespaces' names; the process id follows.
const PREFIX: &str = "fobs-e2e-";

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().expect("ip");
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whether this process can make network namespaces with veth pairs. Checked once.
pub fn namespaces_work() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        if !rustix::process::geteuid().is_root() || !super::needs::program_exists("ip") {
            return false;
        }
        remove_stale();
        let (a, b) = (
            format!("{PREFIX}{}-probe-a", std::process::id()),
            format!("{PREFIX}{}-probe-b", std::process::id()),
        );
        let try_ip = |words: &[&str]| {
            Command::new("ip").args(words).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let works = try_ip(&["netns", "add", &a])
            && try_ip(&["netns", "add", &b])
            && try_ip(&[
                "link", "add", DEVICE, "netns", &a, "type", "veth", "peer", "name", DEVICE, "netns", &b,
            ])
            && try_ip(&["netns", "exec", &a, "true"]);
        try_ip(&["netns", "del", &a]);
        try_ip(&["netns", "del", &b]);
        works
    })
}

/// Whether `iptables` works in a namespace as the tests need it. Checked once.
pub fn iptables_work() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        if !namespaces_work() || !super::needs::program_exists("iptables") {
            return false;
        }
        let net = Net::new("iptables probe");
        let rules = [
            "-A INPUT -p udp -m statistic --mode random --probability 0.05 -j DROP",
            "-t mangle -A POSTROUTING -p udp -j TEE --gateway 10.77.0.2",
            "-t mangle -A POSTROUTING -p udp -j CLASSIFY --set-class 1:2",
        ];
        rules.iter().all(|rule| {
            net.command(Side::Client, "iptables")
                .arg("-w")
                .args(rule.split_whitespace())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        })
    })
}

/// Removes the namespaces of test processes that were killed before they could.
fn remove_stale() {
    let Ok(names) = std::fs::read_dir("/run/netns") else { return };
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !std::path::Path::new("/proc").join(pid).exists()) {
            let _ = Command::new("ip").args(["netns", "del", &name]).stderr(Stdio::null()).status();
        }
    }
}

/// Namespaces reach each other, and are gone afterwards.
#[test]
fn the_two_hosts_of_a_test_reach_each_other_and_are_removed() {
    let net = Net::new("the_two_hosts_of_a_test_reach_each_other_and_are_removed");
    if !namespaces_work() {
        assert_eq!(net.address(Side::Client), net.address(Side::Server));
        return;
    }
    let (server, port) = (net.address(Side::Server), net.tcp_port());
    let path = format!("/run/netns/{}", net.namespace(Side::Server));
    let (ready, listening) = std::sync::mpsc::channel();
    let listener = net.thread(Side::Server, move || {
        let listener = TcpListener::bind((server, port)).expect("a fresh host has every port free");
        ready.send(()).expect("the test waits");
        listener.accept().expect("the client calls").1.ip().to_string()
    });
    listening.recv().expect("the listener stands");
    let client = net.thread(Side::Client, move || std::net::TcpStream::connect((server, port)).is_ok());
    assert!(client.join().expect("no panic"));
    assert_eq!(listener.join().expect("no panic"), net.address(Side::Client));
    assert!(std::path::Path::new(&path).exists());
    drop(net);
    assert!(!std::path::Path::new(&path).exists(), "{path} is left behind");
}
