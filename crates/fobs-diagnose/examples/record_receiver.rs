//! Records loss signatures of a receiver that is kept from its CPU: the real windows that models are trained on.
//!
//! Two roles, to be run on the two ends of a path that loses nothing by itself (`scripts/record-signatures.sh` makes
//! one of a veth pair): `send ADDR MBPS BURST one|gso SECONDS` and
//! `recv ADDR SCENARIO RATE BURST BUFFER gro|plain SECONDS SEED RUN`, which prints one JSON line for each window in
//! which something was lost (format: docs/classifier.md). What the network lost shows as `lost - ovfl`.
//!
//! Without privilege beyond the buffer sizes asked for. A third role, `spin MS`, is a competitor for the CPU; the
//! receiver starts them.

use fobs_diagnose::Random;
use fobs_sys::clock::monotonic_ns;
use fobs_sys::udp::{Burst, Ecn, RecvBatch, SendError, UdpOptions, UdpSocket};
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::time::Duration;

/// Packets of a window; the reference length of the collection.
const WINDOW: u64 = 70_000;
/// UDP payload of a packet: a full Ethernet frame.
const PACKET: usize = 1472;
/// Lateness after which a sender forgets what it owes: a stalled sender must not turn into a burst.
const OWED_MAX_NS: u64 = 500_000;
/// Competitors at most, as in the paper (section 3.1.4).
const COMPETITORS_MAX: u64 = 7;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["send", to, mbps, burst, way, seconds] => {
            send(to.parse()?, mbps.parse()?, burst.parse()?, way, seconds.parse()?)
        }
        ["recv", at, scenario, mbps, burst, buffer, gro, seconds, seed, run] => {
            let mut host = Host::new(scenario, seed.parse()?, mbps.parse()?)?;
            let label = format!(
                r#""cause":"cpu","scenario":"{scenario}","rate_mbps":{mbps},"burst":{burst},"rcvbuf":{buffer},"run":{run}"#
            );
            let options =
                UdpOptions { recv_buffer: buffer.parse()?, send_buffer: 1 << 20, gro: *gro == "gro" };
            receive(at.parse()?, &options, seconds.parse()?, &mut host, &label)
        }
        ["spin", ms] => {
            let end = monotonic_ns() + ms.parse::<u64>()? * 1_000_000;
            while monotonic_ns() < end {}
            Ok(())
        }
        _ => Err("usage: record_receiver send|recv|spin ... (see the top of the source)".into()),
    }
}

/// Numbered packets at an even pace, `burst` at a time.
fn send(to: SocketAddr, mbps: u64, burst: usize, way: &str, seconds: u64) -> Result<(), Failure> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let options = UdpOptions { recv_buffer: 1 << 18, send_buffer: 4 << 20, gro: false };
    let socket = UdpSocket::bind(any.parse()?, &options)?;
    if way == "one" {
        socket.disable_segmentation();
    }
    let interval_ns = (burst * (PACKET + 66) * 8) as u64 * 1000 / mbps;
    let mut buffer = vec![0u8; burst * PACKET];
    let (start, mut number) = (monotonic_ns(), 0u64);
    let mut due = start;
    while due < start + seconds * 1_000_000_000 {
        for packet in buffer.chunks_mut(PACKET) {
            packet[..8].copy_from_slice(&number.to_le_bytes());
            number += 1;
        }
        loop {
            let now = monotonic_ns();
            if now >= due {
                due = due.max(now.saturating_sub(OWED_MAX_NS)) + interval_ns;
                break;
            }
        }
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            match socket.send(&Burst { to, data: rest, segment_len: PACKET, ecn: Ecn::NotEct }) {
                Ok(taken) => rest = &rest[rest.len().min(taken * PACKET)..],
                Err(SendError::WouldBlock | SendError::NoBuffers) => {}
                Err(SendError::Refused) => break,
                Err(error) => return Err(format!("{error:?}").into()),
            }
        }
    }
    Ok(())
}

/// Receives until `seconds` have passed, disturbed as `host` says, and prints windows.
fn receive(
    at: SocketAddr,
    options: &UdpOptions,
    seconds: u64,
    host: &mut Host,
    label: &str,
) -> Result<(), Failure> {
    let socket = UdpSocket::bind(at, options)?;
    let mut batch = RecvBatch::new(host.batch);
    let mut window = Window::default();
    let start = monotonic_ns();
    let mut dropped = 0;
    while monotonic_ns() < start + seconds * 1_000_000_000 {
        host.disturb()?;
        if socket.recv(&mut batch)? == 0 {
            std::thread::sleep(Duration::from_micros(20));
            continue;
        }
        let mut work = 0;
        let mut lag_us = 0;
        let now = monotonic_ns();
        for datagram in batch.datagrams() {
            work += host.work_ns;
            let Some(number) = datagram.data.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
                continue;
            };
            lag_us = datagram.arrived_ns.map_or(lag_us, |at| now.saturating_sub(at) / 1000);
            if number / WINDOW != window.index {
                let total = socket.socket_drops()?;
                window.print(total.wrapping_sub(dropped), label);
                dropped = total;
                window =
                    Window { index: number / WINDOW, next: number - number % WINDOW, ..Window::default() };
            }
            window.take(number, lag_us);
        }
        while work > 0 && monotonic_ns() < now + work {}
    }
    host.end();
    Ok(())
}

/// What was lost of one window.
#[derive(Default)]
struct Window {
    index: u64,
    /// Smallest number not yet seen or given up.
    next: u64,
    /// gap, length, gap, length...
    runs: Vec<u64>,
    /// End of the last run.
    covered: u64,
    lost: u64,
    lags_us: Vec<u64>,
    last_lag_us: u64,
}

impl Window {
    fn take(&mut self, number: u64, lag_us: u64) {
        if number > self.next {
            let origin = self.index * WINDOW;
            self.runs.push(self.next - origin - self.covered);
            self.runs.push(number - self.next);
            self.covered = number - origin;
            self.lost += number - self.next;
            self.lags_us.push(self.last_lag_us);
        }
        self.next = self.next.max(number + 1);
        self.last_lag_us = lag_us;
    }

    /// The last packets of a window may be lost, too: those count for it, not the next.
    fn print(&mut self, ovfl: u32, label: &str) {
        let end = (self.index + 1) * WINDOW;
        if self.index == 0 || self.next + WINDOW / 2 < end {
            return; // the first one (warming up), or one that was never sent to its end
        }
        self.take(end, 0);
        if self.lost > 0 {
            self.lags_us.sort_unstable();
            let lag = self.lags_us[self.lags_us.len() / 2];
            println!(
                r#"{{{label},"n":{WINDOW},"lost":{},"ovfl":{ovfl},"lag_before_us":{lag},"rle":{:?}}}"#,
                self.lost, self.runs
            );
        }
    }
}

/// The receiving host and what is wrong with it.
struct Host {
    /// Datagrams of a read.
    batch: usize,
    /// Extra work a packet, ns.
    work_ns: u64,
    kind: Kind,
    next_ns: u64,
    random: Random,
    children: Vec<Child>,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Up to 7 competitors for 0.1 to 0.7 s, then 0 to 2 s of peace (the paper's generator at a tenth).
    Paper,
    /// One competitor for 3 to 40 ms, often.
    Light,
    /// Batches of processes that live some ms.
    Spark,
    /// The receiver itself stands still for 2 to 60 ms.
    Stall,
    /// It runs part of every 100 ms only.
    Quota,
    /// It is a little too slow for the rate.
    Slow,
}

impl Host {
    fn new(scenario: &str, seed: u64, mbps: u64) -> Result<Host, Failure> {
        let kind = match scenario {
            "paper" => Kind::Paper,
            "light" => Kind::Light,
            "spark" => Kind::Spark,
            "stall" => Kind::Stall,
            "quota" => Kind::Quota,
            "slowrx" => Kind::Slow,
            other => return Err(format!("no scenario {other}").into()),
        };
        let mut host =
            Host { batch: 1, work_ns: 0, kind, next_ns: 0, random: Random::new(seed), children: Vec::new() };
        host.batch = [1, 8, 64][host.below(3) as usize];
        if matches!(kind, Kind::Slow) {
            let interval_ns = (PACKET + 66) as u64 * 8000 / mbps;
            host.work_ns = interval_ns * (70 + host.below(36)) / 100;
        }
        Ok(host)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n as usize) as u64
    }

    fn disturb(&mut self) -> Result<(), Failure> {
        let now = monotonic_ns();
        if now < self.next_ns {
            return Ok(());
        }
        let first = self.next_ns == 0;
        self.end();
        let wait_ms = match self.kind {
            _ if first => 200,
            Kind::Paper => {
                let ms = 100 + self.below(600);
                for _ in 0..self.below(COMPETITORS_MAX + 1) {
                    self.compete(ms)?;
                }
                ms + self.below(2000)
            }
            Kind::Light => {
                let ms = 3 + self.below(38);
                self.compete(ms)?;
                ms + 20 + self.below(400)
            }
            Kind::Spark => {
                let ms = 1 + self.below(12);
                for _ in 0..=self.below(4) {
                    self.compete(ms)?;
                }
                4 * ms + 20 + self.below(300)
            }
            Kind::Stall => {
                let ms = 2 + self.below(59);
                std::thread::sleep(Duration::from_millis(ms));
                50 + self.below(500)
            }
            Kind::Quota => {
                let off = 10 + self.below(40);
                std::thread::sleep(Duration::from_millis(off));
                100 - off
            }
            Kind::Slow => 1_000_000,
        };
        self.next_ns = monotonic_ns() + wait_ms * 1_000_000;
        Ok(())
    }

    /// A process on the same CPU (the caller pinned us), which ends by itself.
    fn compete(&mut self, ms: u64) -> Result<(), Failure> {
        let program = std::env::current_exe()?;
        self.children.push(Command::new(program).args(["spin", &ms.to_string()]).spawn()?);
        Ok(())
    }

    /// Waits for the competitors that have ended.
    fn end(&mut self) {
        self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }
}
