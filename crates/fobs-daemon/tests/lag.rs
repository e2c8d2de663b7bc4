//! The lag of a receiver on real sockets: without a count of drops it tells a starved receiver from a
//! blackout, which leave the same pattern.

use fobs_diagnose::model::judge;
use fobs_proto::Timestamp;
use fobs_proto::loss_cause::witness::Evidence;
use fobs_proto::loss_cause::{JudgeMethod, Signature, Verdict};
use fobs_proto::receiver::{EcnCodepoint, PacketMeta, Receiver, ReceiverConfig, SocketNote};
use fobs_sys::{Burst, Ecn, RecvBatch, UdpOptions, UdpSocket, monotonic_ns};
use std::time::Duration;

const PAYLOAD: usize = 1200;
/// 96 Mbit/s, at which the default maximum buffer of Linux, 416 KiB, lasts 20 to 35 ms.
const BURST: u64 = 10;
const TICK: Duration = Duration::from_millis(1);
/// Stretches, holes in all, and the shortest hole.
const EVERY: Duration = Duration::from_millis(200);
const TIMES: u32 = 12;
const HOLE_MS: u128 = 50;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Cause {
    /// The receiver does not read for a while.
    Stall,
    /// Packet numbers are skipped for as long, as if the network had lost them.
    Blackout,
}

/// A receiver without a count of drops.
fn evidence(cause: Cause) -> Evidence {
    let options = UdpOptions { recv_buffer: 212_992, send_buffer: 1 << 20, gro: false };
    let local = "127.0.0.1:0".parse().expect("an address");
    let sender = UdpSocket::bind(local, &options).expect("a socket");
    let receiver = UdpSocket::bind(local, &options).expect("a socket");
    let to = receiver.local_addr();
    let packets = std::thread::scope(|scope| {
        let sending = scope.spawn(move || send(&sender, to, cause));
        let received = receive(&receiver, cause, || !sending.is_finished());
        (sending.join().expect("it sends"), received)
    });
    let (sent, (gaps, mut lags)) = packets;
    let signature = Signature::from_gaps(sent, BURST as u32, gaps).expect("a signature");
    lags.sort_unstable();
    Evidence {
        lost: signature.lost(),
        pattern: judge(JudgeMethod::On).pattern(&signature),
        host_drops: None,
        lag: lags.get(lags.len() / 2).map(|lag| f64::from(*lag) / 1000.0),
    }
}

/// How many numbers there were.
fn send(socket: &UdpSocket, to: std::net::SocketAddr, cause: Cause) -> u64 {
    let (began, mut number) = (monotonic_ns(), 0u64);
    let ticks = (EVERY * TIMES).as_nanos() / TICK.as_nanos();
    for tick in 1..=ticks as u32 {
        let at = TICK * tick;
        let is_out = cause == Cause::Blackout && is_hole(at);
        let mut data = vec![0; BURST as usize * PAYLOAD];
        for packet in data.chunks_mut(PAYLOAD) {
            packet[..8].copy_from_slice(&number.to_le_bytes());
            number += 1;
        }
        let mut rest = &data[..];
        while !is_out && !rest.is_empty() {
            let burst = Burst { to, data: rest, segment_len: PAYLOAD, ecn: Ecn::NotEct };
            let taken = socket.send(&burst).expect("loopback takes it");
            rest = &rest[rest.len().min(taken * PAYLOAD)..];
        }
        let due = began + at.as_nanos() as u64;
        std::thread::sleep(Duration::from_nanos(due.saturating_sub(monotonic_ns())));
    }
    number
}

/// One hole in each stretch but the first, by which the rate must be known. None begins or lasts like the one
/// before: what comes by a clock is the network's.
fn is_hole(at: Duration) -> bool {
    let (stretch, into) = (at.as_millis() / EVERY.as_millis(), at.as_millis() % EVERY.as_millis());
    let (begin, len) = (20 + stretch * 29 % 60, HOLE_MS + stretch * 37 % 60);
    stretch > 0 && (begin..begin + len).contains(&into)
}

/// Pairs of packets received and lost, and the lags that a sender would receive.
fn receive(socket: &UdpSocket, cause: Cause, go_on: impl Fn() -> bool) -> (Vec<(u64, u64)>, Vec<u16>) {
    let config = ReceiverConfig { ack_every: 64, ack_delay_max: Duration::from_millis(5), chunks_max: 1 };
    let (mut machine, mut batch) = (Receiver::new(config), RecvBatch::default());
    machine.handle_socket_buffer(socket.recv_buffer() as u64);
    let (mut gaps, mut lags, mut run, mut expected) = (Vec::new(), Vec::new(), 0, 0);
    let began = monotonic_ns();
    while go_on() {
        let at = Duration::from_nanos(monotonic_ns() - began);
        if cause == Cause::Stall && is_hole(at) {
            std::thread::sleep(TICK);
            continue;
        }
        if socket.recv(&mut batch).expect("it receives") == 0 {
            std::thread::sleep(TICK / 4);
            continue;
        }
        let now = Timestamp::from_nanos(monotonic_ns());
        for datagram in batch.datagrams() {
            let number = u64::from_le_bytes(datagram.data[..8].try_into().expect("eight bytes"));
            if number > expected {
                gaps.push((run, number - expected));
                run = 0;
            }
            (run, expected) = (run + 1, number + 1);
            let arrived = datagram.arrived_ns.map_or(now, Timestamp::from_nanos);
            let socket = SocketNote { drops: None, merged: datagram.merged };
            let len = datagram.data.len() as u16;
            let meta = PacketMeta { number, arrived, len, ecn: EcnCodepoint::NotEct, socket };
            machine.handle_probe(now, &meta, None);
        }
        let host = machine.make_ack(now).host;
        assert_eq!(host.dropped, None);
        lags.extend(host.lag);
    }
    (gaps, lags)
}

#[test]
fn without_a_count_the_lag_tells_a_stall_from_a_blackout() {
    let [stall, blackout] = [Cause::Stall, Cause::Blackout].map(evidence);
    eprintln!("stall {stall:?}\nblackout {blackout:?}");
    for evidence in [&stall, &blackout] {
        let pattern = evidence.pattern.expect("enough was lost");
        assert!(pattern.p_receiver >= 0.95, "to the pattern they are the same: {evidence:?}");
    }
    assert_eq!(stall.judge().verdict, Verdict::Receiver, "{stall:?}");
    assert_eq!(blackout.judge().verdict, Verdict::Inconclusive, "{blackout:?}");
}
