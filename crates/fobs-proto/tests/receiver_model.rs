//! The receiver against a simple model that keeps every fact in a map.

use fobs_proto::Timestamp;
use fobs_proto::object::{BLOCK_PACKETS, CHUNK_LEN_MAX};
use fobs_proto::receiver::{
    ChunkVerification, Disposition, EcnCodepoint, PacketMeta, Receiver, ReceiverConfig, Reject, SocketNote,
};
use fobs_proto::wire::{Ack, DataHeader};
use fobs_rng::{Chance, Rng};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const CHUNKS_MAX: u32 = 4;

#[derive(Default, Clone)]
struct Chunk {
    attempt: u8,
    attempt_min: u8,
    payload: u16,
    got: BTreeSet<u16>,
    last: Option<(u16, u32)>,
    done: bool,
    verified: bool,
}

#[derive(Default)]
struct Model {
    chunks: BTreeMap<u32, Chunk>,
    base: u32,
    end: Option<u32>,
    numbers: BTreeSet<u64>,
    taken: u64,
}

impl Model {
    fn expect(&mut self, h: &DataHeader, len: usize) -> Disposition {
        if h.chunk < self.base {
            return Disposition::Duplicate;
        }
        if h.chunk >= self.base + CHUNKS_MAX {
            return Disposition::Reject(Reject::NoRoom);
        }
        let known_to = self.chunks.keys().next_back().map_or(self.base, |c| c + 1).max(self.base);
        let geometry = Disposition::Reject(Reject::Geometry);
        match self.end {
            Some(end) if h.chunk >= end || h.final_chunk != (h.chunk + 1 == end) => return geometry,
            None if h.final_chunk && h.chunk + 1 < known_to => return geometry,
            _ => {}
        }
        let chunk = self.chunks.entry(h.chunk).or_default();
        if h.attempt < chunk.attempt.max(chunk.attempt_min) {
            return Disposition::Reject(Reject::OldAttempt);
        }
        if chunk.done {
            chunk.attempt = h.attempt;
            return Disposition::Duplicate;
        }
        if h.attempt > chunk.attempt || chunk.payload == 0 {
            *chunk = Chunk {
                attempt: h.attempt,
                attempt_min: chunk.attempt_min,
                payload: h.payload_size,
                ..Chunk::default()
            };
        }
        let offset = u32::from(h.packet_index) * u32::from(chunk.payload);
        let end = offset + len as u32;
        let whole = len == usize::from(chunk.payload);
        let fits = h.payload_size == chunk.payload
            && len > 0
            && len <= usize::from(chunk.payload)
            && end <= CHUNK_LEN_MAX;
        let agrees = match chunk.last {
            Some((last, length)) => {
                h.packet_index < last && !h.last || h.packet_index == last && h.last && end == length
            }
            None => !h.last || chunk.got.iter().all(|i| *i <= h.packet_index),
        };
        if !fits || !(whole || h.last) || !agrees {
            return geometry;
        }
        if h.last {
            chunk.last = Some((h.packet_index, end));
        }
        if !chunk.got.insert(h.packet_index) {
            return Disposition::Duplicate;
        }
        if h.final_chunk {
            self.end = Some(h.chunk + 1);
        }
        let completes = chunk.last.filter(|(last, _)| chunk.got.len() == usize::from(*last) + 1).map(|l| l.1);
        chunk.done = completes.is_some();
        Disposition::Store { offset, completes }
    }
}

#[test]
fn the_receiver_agrees_with_the_model() {
    for seed in 0..300 {
        let rng = &mut Rng::new(seed);
        let config =
            ReceiverConfig { ack_every: 8, ack_delay_max: Duration::from_millis(5), chunks_max: CHUNKS_MAX };
        let (mut receiver, mut model) = (Receiver::new(config), Model::default());
        let payload = 1024u16;
        // Chunks of 1 to 6 packets; some headers are wrong.
        let lens: Vec<u32> = (0..10).map(|_| rng.range(1, 6 * u64::from(payload)) as u32).collect();
        for step in 0..1500u64 {
            let now = Timestamp::from_nanos(step * 100_000);
            match rng.range(0, 19) {
                0 => verdict(rng, &mut receiver, &mut model),
                1 => store(&mut receiver, &mut model),
                2 => {
                    if let Some(ack) = receiver.poll_ack(now) {
                        check_ack(&ack, &model, seed);
                    }
                }
                _ => {
                    let (header, len) = packet(rng, &lens, payload, &model);
                    let number = step + rng.range(0, 3);
                    let meta = PacketMeta {
                        number,
                        arrived: now,
                        len: len as u16 + 28,
                        ecn: EcnCodepoint::NotEct,
                        socket: SocketNote::default(),
                    };
                    let expected = model.expect(&header, len);
                    let vacancy = receiver.vacancy(&header, len);
                    let got = receiver.handle_data(now, &meta, &header, len);
                    check_vacancy(vacancy, got, &model, &header, seed);
                    assert_eq!(got, expected, "seed {seed} step {step}: {header:?} of {len}");
                    if !matches!(got, Disposition::Reject(_)) {
                        model.numbers.insert(number);
                        model.taken += 1;
                    }
                }
            }
            assert_eq!(receiver.chunk_limit(), model.base + CHUNKS_MAX);
            assert_eq!(receiver.is_complete(), model.end == Some(model.base), "seed {seed}");
        }
    }
}

/// A place that is promised is where the packet goes, if it is taken, and holds nothing of a packet before;
/// each packet that is not the first of its layout has one.
fn check_vacancy(vacancy: Option<u32>, got: Disposition, model: &Model, header: &DataHeader, seed: u64) {
    let chunk = model.chunks.get(&header.chunk);
    let agrees = match got {
        Disposition::Store { offset, .. } if chunk.is_some_and(|c| c.got.len() > 1) => {
            vacancy == Some(offset)
        }
        Disposition::Store { offset, .. } => vacancy.is_none_or(|place| place == offset),
        Disposition::Duplicate => vacancy.is_none(),
        Disposition::Reject(_) => {
            let filled =
                |place: u32| chunk.is_some_and(|c| c.got.contains(&((place / u32::from(c.payload)) as u16)));
            vacancy.is_none_or(|place| !filled(place))
        }
    };
    assert!(agrees, "seed {seed}: {header:?} was promised {vacancy:?}, then {got:?}");
}

fn packet(rng: &mut Rng, lens: &[u32], payload: u16, model: &Model) -> (DataHeader, usize) {
    let chunk =
        (model.base + rng.range(0, 5) as u32).saturating_sub(u32::from(rng.happens(Chance::ppm(100_000))));
    let len = lens.get(chunk as usize).copied().unwrap_or(1);
    let index = rng.range(0, u64::from(len.div_ceil(u32::from(payload)) - 1)) as u16;
    let last = u32::from(index) + 1 == len.div_ceil(u32::from(payload));
    let size = if last { len - u32::from(index) * u32::from(payload) } else { u32::from(payload) };
    let attempt = model.chunks.get(&chunk).map_or(0, |c| c.attempt.max(c.attempt_min.min(3)));
    let final_chunk = chunk as usize + 1 == lens.len();
    let mut header =
        DataHeader { chunk, packet_index: index, payload_size: payload, attempt, last, final_chunk };
    let mut size = size as usize;
    if rng.happens(Chance::ppm(60_000)) {
        match rng.range(0, 6) {
            0 => header.last ^= true,
            1 => header.final_chunk ^= true,
            2 => header.payload_size = 600,
            3 => header.attempt = rng.range(0, 3) as u8,
            4 => header.packet_index = rng.range(0, 4300) as u16,
            5 => size = rng.range(0, 1500) as usize,
            _ => header.chunk = rng.bits() as u32,
        }
    }
    (header, size)
}

fn verdict(rng: &mut Rng, receiver: &mut Receiver, model: &mut Model) {
    let base = model.base;
    let Some((&id, chunk)) = model.chunks.iter_mut().find(|(id, c)| **id >= base && c.done && !c.verified)
    else {
        return;
    };
    if rng.happens(Chance::ppm(800_000)) {
        chunk.verified = true;
        assert!(receiver.handle_verdict(id, ChunkVerification::Verified));
    } else {
        let again = receiver.handle_verdict(id, ChunkVerification::Mismatch);
        assert_eq!(again, chunk.attempt < 3);
        let min = chunk.attempt + 1;
        *chunk = Chunk { attempt: chunk.attempt, attempt_min: min, ..Chunk::default() };
    }
}

fn store(receiver: &mut Receiver, model: &mut Model) {
    if model.chunks.get(&model.base).is_some_and(|c| c.verified) {
        receiver.handle_stored(model.base);
        model.base += 1;
    }
}

fn check_ack(ack: &Ack, model: &Model, seed: u64) {
    assert_eq!(ack.largest, model.numbers.last().copied(), "seed {seed}");
    assert_eq!(ack.received_packets, model.taken);
    let claimed: BTreeSet<u64> = ack.ranges.iter().flat_map(|(low, high)| *low..=*high).collect();
    assert!(claimed.is_subset(&model.numbers), "seed {seed}: an ack claims what never came");
    let oldest = claimed.first().copied().unwrap_or(0);
    assert!(
        model.numbers.range(oldest..).all(|n| claimed.contains(n)),
        "seed {seed}: an ack leaves out what came"
    );
    let verified =
        (model.base..).find(|id| model.chunks.get(id).is_none_or(|c| !c.verified)).expect("one is not");
    assert_eq!(ack.verified_below, verified, "seed {seed}");
    for bitmap in &ack.bitmaps {
        let chunk = &model.chunks[&bitmap.chunk];
        assert_eq!(bitmap.attempt, chunk.attempt);
        for bit in 0..bitmap.bits.len() as u16 * 8 {
            let set = bitmap.bits[usize::from(bit / 8)] >> (bit % 8) & 1 == 1;
            let i = u16::from(bitmap.block) * BLOCK_PACKETS as u16 + bit;
            assert_eq!(set, chunk.got.contains(&i), "seed {seed}: bit {i} of chunk {}", bitmap.chunk);
        }
    }
}
