//! Datagrams as an attacker on the path sees and makes them: captured, forged, sent again. Needs root in a
//! namespace.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto,
    socket_with,
};

use super::files::Random;
use super::net::{Net, Side};

/// Lengths of the headers, bytes: IPv4 without options, UDP.
const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
/// Where an IPv4 packet has its UDP checksum.
const UDP_CHECKSUM: usize = IPV4_HEADER + 6;
/// `ETH_P_ALL` (packet(7)): the only choice that shows what leaves as well as what arrives.
const EVERY_PROTOCOL: u16 = 0x0003;
/// The TTL of replayed packets, which tells them from original ones. Real hosts start at 64.
const TTL_MARK: u8 = 63;
/// Largest forged payload, bytes: a full datagram on a 1500-byte path.
const PAYLOAD_MAX: u64 = 1472;
/// How many datagrams a forger or replayer sends at most: ten times what any test needs.
const SENT_MAX: u64 = 400_000;
/// How many captured datagrams are held back before the oldest is sent again.
const HELD: usize = 300;

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
        let raw = raw_socket().expect("root may make a raw socket");
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) && sent < SENT_MAX {
            for _ in 0..16 {
                let payload = forged_payload(&mut random);
                if send_raw(&raw, &udp_packet(from, to, &payload), *to.ip()).is_ok() {
                    sent += 1;
                }
            }
            std::thread::sleep(Duration::from_micros(500));
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

/// Captures the UDP datagrams that leave one side and sends each of them again, unchanged, from the same
/// source, a few hundred datagrams later; and the very first ones again and again.
pub fn replay(net: &Net, side: Side) -> Attack {
    let own: Ipv4Addr = net.address(side).parse().expect("an address");
    attack(net, side, move |stop| {
        let capture = capture_socket().expect("root may capture");
        let raw = raw_socket().expect("root may make a raw socket");
        let mut buffer = vec![0; 1 << 16];
        let (mut first, mut held, mut sent) = (Vec::new(), VecDeque::new(), 0);
        while !stop.load(Ordering::Relaxed) && sent < SENT_MAX {
            let Ok((len, _)) = recv(&capture, &mut buffer[..], RecvFlags::empty()) else { continue };
            let packet = &buffer[..len];
            let is_udp = len > IPV4_HEADER + UDP_HEADER && packet[0] == 0x45 && packet[9] == ipproto_udp();
            if !is_udp || packet[8] == TTL_MARK || packet[12..16] != own.octets() {
                continue;
            }
            let mut again = packet.to_vec();
            again[8] = TTL_MARK;
            // The sender left this sum to its device, so a capture holds a half-made one; zero means none.
            again[UDP_CHECKSUM..UDP_CHECKSUM + 2].fill(0);
            if first.len() < 32 {
                first.push(again.clone());
            }
            held.push_back(again);
            if held.len() < HELD {
                continue;
            }
            let oldest = held.pop_front().expect("it is full");
            let ancient = &first[sent as usize % first.len()];
            for packet in [&oldest, ancient] {
                let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
                sent += u64::from(send_raw(&raw, packet, to).is_ok());
            }
        }
        sent
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

/// A socket that takes whole IPv4 packets, headers and all.
fn raw_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW))?)
}

/// A socket that sees every packet of the host, without link headers, and looks up ten times a second.
fn capture_socket() -> io::Result<OwnedFd> {
    let protocol = NonZeroU32::new(u32::from(EVERY_PROTOCOL.to_be())).map(Protocol::from_raw);
    let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(100)))?;
    Ok(socket)
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
    let replayer = replay(&net, Side::Client);
    // Enough to replay some even if the capture starts late.
    let sender = net.thread(Side::Client, move || {
        let socket = std::net::UdpSocket::bind((client, 4001)).expect("a free port");
        for index in 0..4 * HELD {
            socket.send_to(format!("datagram {index}").as_bytes(), to).expect("sent");
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    sender.join().expect("no panic");
    assert!(listener.join().expect("no panic"), "a datagram came again");
    assert_eq!(seen_from, from.into());
    assert!(replayer.stop() > 0);
}
