//! The receiver's ledger on real sockets: what the kernel counts at a full buffer, made packets.

use fobs_proto::Timestamp;
use fobs_proto::receiver::{EcnCodepoint, PacketMeta, Receiver, ReceiverConfig, SocketNote};
use fobs_rng::Rng;
use fobs_sys::{Burst, Ecn, RecvBatch, UdpOptions, UdpSocket, monotonic_ns};
use std::time::Duration;

const PAYLOAD: usize = 1200;
const SEED: u64 = 0x1ed6e4;
/// Times that the buffer overflows and is emptied.
const ROUNDS: u64 = 40;

/// Bursts of these lengths leave while nobody reads, and some numbers are never sent, as if the network had
/// lost them.
struct Scene {
    gro: bool,
    burst_max: u64,
    /// Lost by the network, of a thousand.
    network_loss: u64,
}

/// What the host lost, and what the ledger says that it lost.
fn play(scene: &Scene) -> (f64, f64) {
    let options = |recv_buffer| UdpOptions { recv_buffer, send_buffer: 8 << 20, gro: scene.gro };
    let local = "127.0.0.1:0".parse().expect("an address");
    let sender = UdpSocket::bind(local, &options(1 << 20)).expect("a socket");
    let receiver = UdpSocket::bind(local, &options(200_000)).expect("a socket");
    let config = ReceiverConfig { ack_every: 64, ack_delay_max: Duration::from_millis(5), chunks_max: 1 };
    let (mut machine, mut batch, mut rng) = (Receiver::new(config), RecvBatch::default(), Rng::new(SEED));
    let (mut number, mut skipped, mut received, mut trailing) = (0u64, 0u64, 0u64, 0u64);
    let mut take = |machine: &mut Receiver| {
        let (mut count, mut highest) = (0, 0);
        while receiver.recv(&mut batch).expect("it receives") > 0 {
            let now = Timestamp::from_nanos(monotonic_ns());
            for datagram in batch.datagrams() {
                let number = u64::from_le_bytes(datagram.data[..8].try_into().expect("eight bytes"));
                let socket = SocketNote { drops: Some(datagram.drops), merged: datagram.merged };
                let len = datagram.data.len() as u16;
                let meta = PacketMeta { number, arrived: now, len, ecn: EcnCodepoint::NotEct, socket };
                machine.handle_probe(now, &meta, None);
                (count, highest) = (count + 1, number);
            }
        }
        machine.handle_socket_drops(receiver.socket_drops().expect("it counts"));
        (count, highest)
    };
    for round in 0..=ROUNDS {
        // Several buffers full; in the end a little, so that the last gap is closed.
        let until = number + if round < ROUNDS { rng.range(400, 999) } else { 20 };
        while number < until {
            let mut data = Vec::new();
            for _ in 0..rng.range(1, scene.burst_max) {
                if rng.range(0, 999) < scene.network_loss {
                    skipped += 1;
                } else {
                    let start = data.len();
                    data.resize(start + PAYLOAD, 0);
                    data[start..start + 8].copy_from_slice(&number.to_le_bytes());
                }
                number += 1;
            }
            let (mut sent, count) = (0, data.len() / PAYLOAD);
            while sent < count {
                let burst = Burst {
                    to: receiver.local_addr(),
                    data: &data[sent * PAYLOAD..],
                    segment_len: PAYLOAD,
                    ecn: Ecn::NotEct,
                };
                sent += sender.send(&burst).expect("loopback takes it");
            }
        }
        let (count, highest) = take(&mut machine);
        received += count;
        trailing = number - 1 - highest;
    }
    // What was skipped behind the last packet that arrived nobody can know of.
    let lost = number - skipped - received;
    assert!(trailing < 20, "seed {SEED:#x}: the last gap is open");
    (lost as f64, f64::from(machine.packets_dropped().expect("it counts")))
}

#[test]
fn it_is_exact_where_the_kernel_merges_nothing() {
    for network_loss in [0, 10, 200] {
        let (lost, counted) = play(&Scene { gro: false, burst_max: 44, network_loss });
        assert!(lost > 5000.0, "seed {SEED:#x}: only {lost} lost");
        assert_eq!(lost, counted, "seed {SEED:#x}, {network_loss} of 1000 lost by the network");
    }
}

#[test]
fn it_is_exact_with_merged_datagrams_on_a_clean_path() {
    for burst_max in [1, 10, 44] {
        let (lost, counted) = play(&Scene { gro: true, burst_max, network_loss: 0 });
        assert!(lost > 5000.0, "seed {SEED:#x}: only {lost} lost");
        assert_eq!(lost, counted, "seed {SEED:#x}, bursts of up to {burst_max}");
    }
}

#[test]
fn it_is_within_1_percent_with_merged_datagrams_and_losses() {
    for network_loss in [1, 10, 50] {
        let (lost, counted) = play(&Scene { gro: true, burst_max: 44, network_loss });
        let error = counted / lost - 1.0;
        assert!(lost > 5000.0, "seed {SEED:#x}: only {lost} lost");
        assert!(error.abs() < 0.01, "seed {SEED:#x}: {counted} counted, {lost} lost, {network_loss} of 1000");
    }
}
