//! An attacker that captures the datagrams which leave a host and sends forged ones in that host's name.
//! Knows nothing of the laboratory: the end-to-end tests use it too.

pub mod forgery;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto,
    socket_with,
};

use forgery::{Kind, Random, forge, is_genuine};

/// `ETH_P_ALL` (packet(7)): the only choice that shows what leaves as well as what arrives.
const EVERY_PROTOCOL: u16 = 0x0003;
/// Captured datagrams that are kept to forge from: the first ones, and the newest.
const KEPT_FIRST: usize = 32;
const KEPT_NEWEST: usize = 512;
/// Packets looked at each time that the capture is read; most are the attacker's own.
const LOOKED_AT: usize = 1024;
/// How often the capture is read.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time between two bursts: short beside what a receive buffer holds.
const BURST_EVERY: Duration = Duration::from_millis(1);
/// What a late attacker catches up at once; what is due from longer ago is never sent.
const CATCH_UP: Duration = Duration::from_millis(50);
/// Largest packet that is captured whole, bytes: no IPv4 packet is longer.
const PACKET_BYTES: usize = 1 << 16;

/// What an attacker did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    /// Forged datagrams that left.
    pub datagrams: u64,
    /// From the first capture to the end.
    pub elapsed: Duration,
}

/// Captures what `host`, in whose network the calling thread is, sends over UDP, and sends `per_second`
/// forged datagrams to where those go, until `stop`. Needs root.
pub fn run(host: Ipv4Addr, per_second: u64, seed: u64, stop: &AtomicBool) -> io::Result<Sent> {
    let capture = capture_socket()?;
    let raw = raw_socket()?;
    let mut captured = Captured { host, first: Vec::new(), newest: Vec::new(), next: 0 };
    let (mut random, mut packet) = (Random(seed), Vec::new());
    let is_over = || stop.load(Ordering::Relaxed);
    while captured.newest.is_empty() {
        if is_over() {
            return Ok(Sent::default());
        }
        captured.look(&capture, RecvFlags::empty(), 1);
    }
    let begin = Instant::now();
    let (mut looked, mut due_since, mut datagrams) = (begin, begin, 0u64);
    while !is_over() {
        std::thread::sleep(BURST_EVERY);
        let now = Instant::now();
        if now - looked >= LOOK_EVERY {
            captured.look(&capture, RecvFlags::DONTWAIT, LOOKED_AT);
            looked = now;
        }
        due_since = due_since.max(now.checked_sub(CATCH_UP).unwrap_or(now));
        let due = ((now - due_since).as_nanos() * u128::from(per_second) / 1_000_000_000) as u64;
        for _ in 0..due {
            let kind = Kind::ALL[random.below(Kind::ALL.len())];
            let genuine = captured.any(&mut random);
            forge(kind, genuine, &mut random, &mut packet);
            let to = SocketAddrV4::new(Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]), 0);
            datagrams += u64::from(sendto(&raw, &packet, SendFlags::empty(), &to).is_ok());
        }
        due_since += Duration::from_nanos(due * 1_000_000_000 / per_second.max(1));
    }
    Ok(Sent { datagrams, elapsed: begin.elapsed() })
}

/// Datagrams of the host.
struct Captured {
    host: Ipv4Addr,
    first: Vec<Vec<u8>>,
    newest: Vec<Vec<u8>>,
    /// The next of `newest` to be replaced.
    next: usize,
}

impl Captured {
    /// Reads up to `count` packets.
    fn look(&mut self, capture: &OwnedFd, flags: RecvFlags, count: usize) {
        let mut buffer = vec![0; PACKET_BYTES];
        for _ in 0..count {
            let Ok((len, _)) = recv(capture, &mut buffer[..], flags) else { return };
            let packet = &buffer[..len];
            if !is_genuine(packet) || packet[12..16] != self.host.octets() {
                continue;
            }
            if self.first.len() < KEPT_FIRST {
                self.first.push(packet.to_vec());
            }
            if self.newest.len() < KEPT_NEWEST {
                self.newest.push(packet.to_vec());
            } else {
                let place = &mut self.newest[self.next];
                place.clear();
                place.extend_from_slice(packet);
                self.next = (self.next + 1) % KEPT_NEWEST;
            }
        }
    }

    /// One of them: one in eight of the first.
    fn any(&self, random: &mut Random) -> &[u8] {
        let from = if random.below(8) == 0 { &self.first } else { &self.newest };
        &from[random.below(from.len())]
    }
}

/// A socket that takes whole IPv4 packets, headers and all. Needs root.
pub fn raw_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW))?)
}

/// A socket that sees every packet of the host, without link headers, and looks up ten times a second.
fn capture_socket() -> io::Result<OwnedFd> {
    let protocol = NonZeroU32::new(u32::from(EVERY_PROTOCOL.to_be())).map(Protocol::from_raw);
    let socket = socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(100)))?;
    Ok(socket)
}
