//! Round trips under load: small ICMP echoes through the same queues as the flows, answered by the other
//! host's kernel. So they show the queue and nothing of any program's own scheduling, but the prober's.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, connect, ipproto, recv, send, socket};

use super::namespace::Namespace;
use super::over::Over;
use crate::record::RoundTrips;

/// Time between echoes: 20 a second of 44 bytes each are 7 kbit/s.
const INTERVAL: Duration = Duration::from_millis(50);
/// Echoes before the flows start, from which the path's own round trip is taken.
const BEFORE: u16 = 4;
/// Unanswered echoes at a time: 50 s of them. Older ones count as lost.
const WAITED_FOR: usize = 1000;
/// ICMP types (RFC 792).
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// Type, code, checksum, identifier, sequence number (RFC 792), and as much again so that no link pads it.
const ECHO_BYTES: usize = 16;

/// A prober that runs until [`Prober::finish`].
pub struct Prober {
    over: Over,
    thread: JoinHandle<Vec<Echo>>,
    base: f64,
}

/// One echo: when it left, and milliseconds until its answer, if it came.
struct Echo {
    sent: Instant,
    answer_ms: Option<f64>,
}

impl Prober {
    /// Measures the idle path between a host and an address, then starts to probe it. Takes a few round
    /// trips.
    pub fn start(from: &Namespace, to: &str, rtt: Duration) -> Result<Prober, String> {
        let failed = |error: io::Error| format!("cannot send ICMP echoes: {error}");
        let address: Ipv4Addr = to.parse().map_err(|_| format!("{to:?} is no IPv4 address"))?;
        // Echo sockets without privileges, for every group (icmp(7)); root's own are not exempt.
        from.set_sysctls(&[("net/ipv4/ping_group_range", "0 2147483647".to_owned())])?;
        let socket = from.within(|| echo_socket(address))?.map_err(failed)?;
        // A first answer that takes longer than this is not the idle path's round trip.
        let patience = rtt * 4 + Duration::from_millis(200);
        let mut probe = Probe { socket, echoes: Vec::new(), waiting: VecDeque::new() };
        for _ in 0..BEFORE {
            probe.send().map_err(failed)?;
            probe.listen(Instant::now() + INTERVAL).map_err(failed)?;
        }
        let until = Instant::now() + patience;
        while !probe.waiting.is_empty() && Instant::now() < until {
            probe.listen(Instant::now() + Duration::from_millis(5)).map_err(failed)?;
        }
        let idle = probe.echoes.iter().filter_map(|echo| echo.answer_ms);
        let base = idle.min_by(f64::total_cmp).unwrap_or(f64::NAN);

        let over = Over::default();
        let watch = over.watch();
        let thread = thread::spawn(move || {
            // An error in the course of a run (an outage makes none) ends the probing, not the run.
            while !watch.is_over() {
                let next = Instant::now() + INTERVAL;
                if probe.send().and_then(|()| probe.listen(next)).is_err() {
                    break;
                }
            }
            probe.echoes
        });
        Ok(Prober { over, thread, base })
    }

    /// The figures of the echoes since `from`; none if nothing was answered. The last that were sent had no
    /// time to be answered and count only if they were.
    pub fn finish(self, from: Instant, rtt: Duration) -> Option<RoundTrips> {
        drop(self.over);
        let echoes = self.thread.join().ok()?;
        let answerable = Instant::now().checked_sub(rtt * 4 + INTERVAL)?;
        let during = echoes.iter().filter(|echo| echo.sent >= from);
        let lost = during.clone().filter(|echo| echo.answer_ms.is_none() && echo.sent < answerable).count();
        let mut answers: Vec<f64> = during.filter_map(|echo| echo.answer_ms).collect();
        answers.sort_by(f64::total_cmp);
        let at = |share: f64| answers.get(((answers.len() as f64 - 1.0) * share).round() as usize).copied();
        Some(RoundTrips {
            base: if self.base.is_finite() { self.base } else { answers.first().copied()? },
            p50: at(0.5)?,
            p95: at(0.95)?,
            max: at(1.0)?,
            count: answers.len() as u32,
            lost: lost as u32,
        })
    }
}

/// The sending and the listening side of echoes.
struct Probe {
    socket: OwnedFd,
    echoes: Vec<Echo>,
    /// Sequence number and index of those that are waited for, oldest first.
    waiting: VecDeque<(u16, usize)>,
}

impl Probe {
    fn send(&mut self) -> io::Result<()> {
        let sequence = self.echoes.len() as u16;
        let mut packet = [0; ECHO_BYTES];
        // The kernel fills in the identifier and the checksum.
        packet[0] = ECHO_REQUEST;
        packet[6..8].copy_from_slice(&sequence.to_be_bytes());
        let sent = Instant::now();
        send(&self.socket, &packet, SendFlags::empty())?;
        if self.waiting.len() == WAITED_FOR {
            self.waiting.pop_front();
        }
        self.waiting.push_back((sequence, self.echoes.len()));
        self.echoes.push(Echo { sent, answer_ms: None });
        Ok(())
    }

    /// Takes answers until `until`.
    fn listen(&mut self, until: Instant) -> io::Result<()> {
        let mut packet = [0; 64];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // A timeout of zero would be none at all.
            set_socket_timeout(&self.socket, Timeout::Recv, Some(left.max(Duration::from_micros(100))))?;
            match recv(&self.socket, &mut packet, RecvFlags::empty()) {
                Ok((_, length)) => self.take(&packet[..length.min(packet.len())]),
                // Time is over; or a signal came, which is for others.
                Err(error) if error == rustix::io::Errno::AGAIN || error == rustix::io::Errno::INTR => {}
                Err(error) => return Err(error.into()),
            }
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    fn take(&mut self, packet: &[u8]) {
        let now = Instant::now();
        let [ECHO_REPLY, _, _, _, _, _, high, low, ..] = packet else { return };
        let sequence = u16::from_be_bytes([*high, *low]);
        if let Some(place) = self.waiting.iter().position(|(waiting, _)| *waiting == sequence)
            && let Some((_, index)) = self.waiting.remove(place)
        {
            let echo = &mut self.echoes[index];
            // Whole microseconds: a wake-up takes longer.
            echo.answer_ms = Some(now.saturating_duration_since(echo.sent).as_micros() as f64 / 1e3);
        }
    }
}

fn echo_socket(address: Ipv4Addr) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::ICMP))?;
    connect(&socket, &SocketAddrV4::new(address, 0))?;
    Ok(socket)
}
