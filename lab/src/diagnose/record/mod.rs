//! `fobs-lab diagnose record`: loss windows of a receiver that has too little CPU time, on real sockets.
//!
//! The two ends of a path that loses nothing by itself (`scripts/record-signatures.sh` makes one of a veth
//! pair) run `send` and `recv`. `recv` prints one JSON line for each window with losses (format:
//! docs/classifier.md); `lost - ovfl` is what the network lost. `spin` is a competitor for the CPU, which
//! `recv` starts. No privilege is needed beyond the socket buffer sizes.

mod host;

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fobs_sys::clock::monotonic_ns;
use fobs_sys::udp::{Burst, Ecn, RecvBatch, SendError, UdpOptions, UdpSocket};

use crate::failure::{EXIT_FILE_IO, Failure};
use host::{Host, Scenario};

/// Packets in a window: the reference length of the collection.
const WINDOW: u64 = 70_000;
/// UDP payload of a packet, bytes: a full Ethernet frame.
const PACKET: usize = 1472;
/// Bytes of Ethernet, IP and UDP headers, which the sending rate includes.
const HEADERS: usize = 66;
/// Longest lateness that the sender makes up for, ns: a stalled sender must not turn into a burst.
const OWED_MAX_NS: u64 = 500_000;

/// Why a role ended early.
type Stopped = Box<dyn std::error::Error>;

/// Record loss windows of a receiver with too little CPU time, on real sockets.
#[derive(Debug, Args)]
pub struct RecordArgs {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    Send(SendArgs),
    Recv(RecvArgs),
    /// Use one CPU for MS milliseconds.
    #[command(hide = true)]
    Spin {
        ms: u64,
    },
}

/// Send numbered packets at an even pace.
#[derive(Debug, Args)]
struct SendArgs {
    /// Address and port of the receiver
    to: SocketAddr,
    /// Rate on the wire, Mbit/s
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    mbps: u64,
    /// Packets sent back to back
    burst: usize,
    /// Packets per system call
    way: Way,
    /// Duration, seconds
    seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// One packet
    One,
    /// A burst, segmented by the kernel (GSO)
    Gso,
}

/// Receive, with a disturbed CPU, and print one JSON line per window with losses.
#[derive(Debug, Args)]
struct RecvArgs {
    /// Address and port to listen at
    at: SocketAddr,
    /// How the receiver is disturbed
    scenario: Scenario,
    /// The sender's rate, Mbit/s
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    mbps: u64,
    /// The sender's burst, packets
    burst: usize,
    /// Socket receive buffer, bytes
    buffer: usize,
    /// Whether the kernel merges packets on receipt
    gro: Merging,
    /// Duration, seconds
    seconds: u64,
    /// Seed of the disturbance
    seed: u64,
    /// Number of the recording, for the label
    run: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Merging {
    /// Merge packets (GRO)
    Gro,
    /// One packet at a time
    Plain,
}

/// Runs a role.
pub fn run(args: &RecordArgs) -> Result<(), Failure> {
    let done = match &args.role {
        Role::Send(args) => send(args),
        Role::Recv(args) => recv(args),
        Role::Spin { ms } => {
            host::spin(*ms);
            Ok(())
        }
    };
    done.map_err(|error| Failure::with_code(EXIT_FILE_IO, format!("recording failed: {error}")))
}

fn recv(args: &RecvArgs) -> Result<(), Stopped> {
    let RecvArgs { at, scenario, mbps, burst, buffer, gro, seconds, seed, run } = args;
    let mut host = Host::new(*scenario, *seed, *mbps);
    let scenario = scenario.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned());
    let label = format!(
        r#""cause":"cpu","scenario":"{scenario}","rate_mbps":{mbps},"burst":{burst},"rcvbuf":{buffer},"run":{run}"#
    );
    let options = UdpOptions { recv_buffer: *buffer, send_buffer: 1 << 20, gro: *gro == Merging::Gro };
    receive(*at, &options, *seconds, &mut host, &label)
}

/// Sends numbered packets at an even pace, `burst` at a time.
fn send(args: &SendArgs) -> Result<(), Stopped> {
    let &SendArgs { to, mbps, burst, way, seconds } = args;
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let options = UdpOptions { recv_buffer: 1 << 18, send_buffer: 4 << 20, gro: false };
    let socket = UdpSocket::bind(any.parse()?, &options)?;
    if way == Way::One {
        socket.disable_segmentation();
    }
    let interval_ns = (burst * (PACKET + HEADERS) * 8) as u64 * 1000 / mbps;
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

/// Receives for `seconds`, disturbed as the scenario says, and prints windows.
fn receive(
    at: SocketAddr,
    options: &UdpOptions,
    seconds: u64,
    host: &mut Host,
    label: &str,
) -> Result<(), Stopped> {
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

/// The losses of one window.
#[derive(Default)]
struct Window {
    index: u64,
    /// Smallest number not yet received or counted as lost.
    next: u64,
    /// Pairs: packets received, packets lost after them.
    runs: Vec<u64>,
    /// End of the last run, packets from the window's start.
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

    /// Completes and prints the window; packets lost at its end count for it.
    fn print(&mut self, ovfl: u32, label: &str) {
        let end = (self.index + 1) * WINDOW;
        if self.index == 0 || self.next + WINDOW / 2 < end {
            return; // the first window (warm-up), or one that was not sent to its end
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
