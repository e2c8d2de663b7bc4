//! Datagrams as an attacker on the path sees and makes them: captured, forged, sent again. Needs root in a
//! namespace.

#[path = "../../../../lab/src/flood/attack/mod.rs"]
mod attacker;

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{SendFlags, ipproto, sendto};

use super::files::Random;
use super::net::{Net, Side};

/// Lengths of the headers, bytes: IPv4 without options, UDP.
const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
/// Largest forged payload, bytes: a full datagram on a 1500-byte path.
const PAYLOAD_MAX: u64 = 1472;
/// How many datagrams a forger sends at most: ten times what any test needs.
const SENT_MAX: u64 = 400_000;
/// Datagrams that a forger sends at once, and the time between: 5,000 a second (`fobs-lab flood`: 100,000).
const FORGED_AT_ONCE: u32 = 16;
const BETWEEN_FORGED: Duration = Duration::from_micros(3200);

/// A thread that does something to the network until it is stopped.
pub struct Attack {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Attack {
    /// Stops it; returns the number of datagrams that it sent.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("stopped once").join().expect("an attack never panics")
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends forged datagrams from one address to another, both of any owner: random
/// bytes, and random bodies behind headers that look like those of every type.
pub fn forge(net: &Net, side: Side, from: SocketAddrV4, to: SocketAddrV4, mut random: Random) -> Attack {
    attack(net, side, move |stop| {
        let raw = attacker::raw_socket().expect("root may make a raw socket");
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) && sent < SENT_MAX {
            for _ in 0..FORGED_AT_ONCE {
                let payload = forged_payload(&mut random);
                if send_raw(&raw, &udp_packet(from, to, &payload), *to.ip()).is_ok() {
                    sent += 1;
                }
            }
            std::thread::sleep(BETWEEN_FORGED);
        }
        sent
    })
}

/// Some bytes; three in four begin like a packet of ours (protocol 4.1: type in the top three bits).
pub fn forged_payload(random: &mut Random) -> Vec<u8> {
    let len = random.below(PAYLOAD_MAX + 1) as usize;
    let mut payload = random.bytes(len);
    if let (Some(first), kind @ 0..=4) = (payload.first_mut(), random.below(8)) {
        *first = (kind as u8) << 5 | (random.next() as u8 & 0b1111);
    }
    if payload.len() >= 12 && random.below(2) == 0 {
        // Data of a chunk near the beginning, with a packet number near the beginning.
        payload[1..3].fill(0);
        payload[4..7].fill(0);
        payload[8] = 0;
    }
    payload
}

/// Captures the UDP datagrams that leave one side and sends forged ones in its name, made of those: repeated,
/// with a bit changed, cut short, from elsewhere, with another body, and noise.
pub fn flood(net: &Net, side: Side, per_second: u64, seed: u64) -> Attack {
    let own: Ipv4Addr = net.address(side).parse().expect("an address");
    attack(net, side, move |stop| {
        let sent = attacker::run(own, per_second, seed, stop).expect("root may capture and forge");
        eprintln!("in the name of the {side:?}: {} forged datagrams in {:?}", sent.datagrams, sent.elapsed);
        sent.datagrams
    })
}

fn attack(net: &Net, side: Side, body: impl FnOnce(&AtomicBool) -> u64 + Send + 'static) -> Attack {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    Attack { stop, thread: Some(net.thread(side, move || body(&seen))) }
}

fn ipproto_udp() -> u8 {
    ipproto::UDP.as_raw().get() as u8
}

fn send_raw(socket: &OwnedFd, packet: &[u8], to: Ipv4Addr) -> io::Result<()> {
    sendto(socket, packet, SendFlags::empty(), &SocketAddrV4::new(to, 0))?;
    Ok(())
}

/// An IPv4 packet (RFC 791) with a UDP datagram (RFC 768) in it. The kernel fills in the IPv4 checksum and
/// id; the UDP checksum may be zero over IPv4.
fn udp_packet(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let udp_len = (UDP_HEADER + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend((IPV4_HEADER as u16 + udp_len).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, ipproto_udp(), 0, 0]);
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    for word in [from.port(), to.port(), udp_len, 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// The UDP ports that a process has bound: its own sockets among its host's.
pub fn udp_ports_of(pid: u32) -> Vec<u16> {
    let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let own: HashSet<String> = fds
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok()?.into_os_string().into_string().ok())
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut ports = Vec::new();
    for table in ["udp", "udp6"] {
        let text = std::fs::read_to_string(Path::new("/proc").join(format!("{pid}/net/{table}")))
            .unwrap_or_default();
        for line in text.lines().skip(1) {
            // sl local rem st queues tr retransmits uid timeout inode ...
            let words: Vec<&str> = line.split_whitespace().collect();
            let port = words.get(1).and_then(|local| u16::from_str_radix(local.rsplit(':').next()?, 16).ok());
            if let (Some(port), Some(inode)) = (port, words.get(9))
                && own.contains(*inode)
            {
                ports.push(port);
            }
        }
    }
    ports
}

/// A forged datagram arrives with its forged sender; a captured one arrives a second time.
#[test]
fn forged_and_replayed_datagrams_do_arrive() {
    let name = "forged_and_replayed_datagrams_do_arrive";
    if !super::needs::given(name) {
        return;
    }
    let net = Net::new(name);
    let (client, server): (Ipv4Addr, Ipv4Addr) =
        (net.address(Side::Client).parse().unwrap(), net.address(Side::Server).parse().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    let listener = net.thread(Side::Server, move || {
        let socket = std::net::UdpSocket::bind((server, 0)).expect("a free port");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        sender.send(socket.local_addr().expect("bound")).expect("the test waits");
        let mut buffer = [0; 2048];
        sender.send(socket.recv_from(&mut buffer).expect("a forged datagram").1).expect("the test waits");
        let mut seen = HashSet::new();
        // Each is sent once: what is seen twice was replayed.
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            if from.port() == 4001 && !seen.insert(buffer[..len].to_vec()) {
                return true;
            }
        }
        false
    });
    let port = receiver.recv().expect("the listener stands").port();
    let (from, to) = (SocketAddrV4::new(client, 4000), SocketAddrV4::new(server, port));
    let forger = forge(&net, Side::Client, from, to, Random::new(5));
    let seen_from = receiver.recv().expect("the listener received it");
    assert!(forger.stop() > 0);
    let replayer = flood(&net, Side::Client, 5_000, 5);
    // Enough to replay some even if the capture starts late.
    let sender = net.thread(Side::Client, move || {
        let socket = std::net::UdpSocket::bind((client, 4001)).expect("a free port");
        for index in 0..1200 {
            socket.send_to(format!("datagram {index}").as_bytes(), to).expect("sent");
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    sender.join().expect("no panic");
    assert!(listener.join().expect("no panic"), "a datagram came again");
    assert_eq!(seen_from, from.into());
    assert!(replayer.stop() > 0);
}
