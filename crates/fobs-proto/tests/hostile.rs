//! Hostile acks: for any content the sender does not panic, its bytes in flight balance and its memory stays
//! bounded.

use fobs_diagnose::model::judge;
use fobs_proto::congestion::CongestionControl;
use fobs_proto::loss_cause::JudgeMethod;
use fobs_proto::sender::{PacketOut, Refusal, ScheduleKind, Sender, SenderConfig, Transmit};
use fobs_proto::wire::{Ack, BlockBitmap, HostReport};
use fobs_proto::{Rate, Timestamp};
use fobs_rng::{Chance, Rng};
use std::time::Duration;

const CHUNKS_MAX: usize = 16;
const CHUNK: u32 = 300_000;

fn sender(kind: u64) -> Sender {
    let family = CongestionControl::ALL.map(|cc| cc.with_rate(Rate::bits_per_second(100_000_000)));
    let controller = family[kind as usize % family.len()].controller(1200).expect("a rate is given");
    Sender::new(
        Timestamp::ZERO,
        SenderConfig {
            controller,
            judge: judge(JudgeMethod::ALL[kind as usize % JudgeMethod::ALL.len()]),
            schedule: if kind.is_multiple_of(2) { ScheduleKind::LossDriven } else { ScheduleKind::Circular },
            rate_limit: None,
            payload_size: None,
            ip_overhead: 28,
            burst: None,
            chunk_limit: 8,
            chunks_max: CHUNKS_MAX,
            ack_delay_max: Duration::from_millis(5),
        },
    )
}

/// Mostly plausible numbers, sometimes absurd ones.
fn number(rng: &mut Rng, around: u64) -> u64 {
    match rng.range(0, 9) {
        0 => rng.bits(),
        1 => u64::MAX - 1 - rng.range(0, 3),
        2 => 0,
        _ => rng.range(around.saturating_sub(200), around + 5),
    }
}

fn hostile_ack(rng: &mut Rng, sent: u64) -> Ack {
    let largest = number(rng, sent).min(u64::MAX - 1);
    let mut ranges = vec![];
    let mut high = largest;
    for _ in 0..rng.range(1, 20) {
        let low = high.saturating_sub(if rng.happens(Chance::ppm(100_000)) {
            rng.bits()
        } else {
            rng.range(0, 40)
        });
        ranges.push((low, high));
        let Some(next) = low.checked_sub(2 + rng.range(0, 30)) else { break };
        high = next;
    }
    let bitmaps = (0..rng.range(0, 2)).map(|_| BlockBitmap {
        chunk: number(rng, 4) as u32,
        attempt: rng.range(0, 3) as u8,
        block: rng.pick(&[0, 0, 0, 1, 255]),
        bits: (0..rng.range(0, 200)).map(|_| rng.bits() as u8).collect(),
    });
    let bitmaps = bitmaps.collect();
    Ack {
        largest: Some(largest),
        ack_delay_us: number(rng, 100) as u32,
        receive_time_us: number(rng, 1_000_000),
        received_packets: number(rng, sent),
        received_bytes: number(rng, sent * 1200),
        ect0: rng.bits() as u32,
        ce: number(rng, 10) as u32,
        socket_drops: rng.bits() as u32,
        chunk_limit: number(rng, 8) as u32,
        verified_below: if rng.happens(Chance::ppm(50_000)) { rng.bits() as u32 } else { 0 },
        backlog: rng.bits() as u16,
        ranges,
        bitmaps,
        host: HostReport {
            dropped: rng.happens(Chance::ppm(500_000)).then(|| number(rng, sent) as u32),
            lag: rng.happens(Chance::ppm(500_000)).then(|| rng.range(0, 65_534) as u16),
        },
    }
}

#[test]
fn hostile_acks_break_no_bound() {
    for seed in 0..60u64 {
        let rng = &mut Rng::new(seed);
        let (mut sender, mut out) = (sender(seed), Vec::<PacketOut>::new());
        let (mut now, mut sent, mut sent_bytes, mut pushed, mut freed) = (0u64, 0u64, 0u64, 0usize, 0usize);
        for _ in 0..400 {
            now += rng.range(0, 20_000_000);
            let at = Timestamp::from_nanos(now);
            while sender.wants_chunk() {
                sender.push_chunk(CHUNK, false);
                pushed += 1;
            }
            for _ in 0..rng.range(0, 20) {
                if sender.poll_transmit(at, &mut out) != Transmit::Burst {
                    break;
                }
                for packet in &out {
                    assert_eq!(packet.number, sent, "seed {seed}");
                    sent += 1;
                    sent_bytes += packet.datagram_len() as u64;
                }
            }
            match rng.range(0, 9) {
                0 => sender.handle_timeout(at),
                1 => _ = sender.handle_rejected(rng.range(0, 10) as u32, rng.range(0, 4) as u8),
                2 => {
                    let is_size = rng.happens(Chance::ppm(500_000));
                    let why = if is_size { Refusal::Size } else { Refusal::Room };
                    sender.handle_refused(at, number(rng, sent), why);
                }
                _ => {
                    // Through the wire, as from a peer: what decoding refuses goes no further.
                    let mut bytes = vec![];
                    hostile_ack(rng, sent).encode(&mut bytes);
                    if rng.happens(Chance::ppm(300_000)) {
                        let i = rng.range(0, bytes.len() as u64 - 1) as usize;
                        bytes[i] = rng.bits() as u8;
                    }
                    if let Ok(ack) = Ack::decode(&bytes) {
                        sender.handle_ack(at, &ack);
                    }
                }
            }
            assert!(sender.bytes_in_flight() <= sent_bytes, "seed {seed}: bytes in flight wrapped");
            while sender.poll_freed().is_some() {
                freed += 1;
            }
            assert!(pushed - freed <= CHUNKS_MAX, "seed {seed}: {pushed} pushed, {freed} freed");
        }
        // A host that refuses what it is given is offered a packet in 120 ms at least: 33 in these 4 s.
        assert!(sent >= 33, "seed {seed}: the acks stopped the sender at once: {sent} packets");
    }
}
