//! The machines, driven by what a peer with the right keys may send.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fobs_diagnose::model::judge;
use fobs_proto::congestion::CongestionControl;
use fobs_proto::loss_cause::JudgeMethod;
use fobs_proto::object::CHUNK_LEN_MAX;
use fobs_proto::receiver::{
    ChunkVerification, Disposition, EcnCodepoint, PacketMeta, Receiver, ReceiverConfig, SocketNote,
};
use fobs_proto::sender::{Body, Refusal, ScheduleKind, Sender, SenderConfig, Transmit};
use fobs_proto::wire::{ACK_LEN_MAX, Ack, AckRatio, DATA_HEADER_LEN, DataHeader, Header, REPLAY_WINDOW};
use fobs_proto::{Rate, Timestamp};

use super::input::Input;

/// Chunks that a machine holds here.
pub(super) const CHUNKS_MAX: u32 = 4;
/// Packet numbers end here (protocol 3.4).
const NUMBER_END: u64 = 1 << 62;

/// A receiver and the driver around it.
struct Driven {
    machine: Receiver,
    now: u64,
    largest: u64,
    used: BTreeSet<u64>,
    /// Complete, without a verdict.
    complete: BTreeMap<u32, u32>,
    verified: BTreeSet<u32>,
    stored: u32,
}

/// The receiving machine: data and probes of any kind, verdicts and stored chunks as a driver gives them.
pub(super) fn receiver(input: &[u8]) {
    let config =
        ReceiverConfig { ack_every: 4, ack_delay_max: Duration::from_millis(5), chunks_max: CHUNKS_MAX };
    let mut driven = Driven {
        machine: Receiver::new(config),
        now: 0,
        largest: 0,
        used: BTreeSet::new(),
        complete: BTreeMap::new(),
        verified: BTreeSet::new(),
        stored: 0,
    };
    let mut input = Input(input);
    while let Some(operation) = input.byte() {
        driven.step(operation, &mut input);
    }
}

impl Driven {
    fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    fn step(&mut self, operation: u8, input: &mut Input<'_>) {
        match operation & 7 {
            0..=2 => self.data(operation, input),
            3 => {
                let meta = self.meta(operation, input);
                if let Some(meta) = meta {
                    let ratio = (operation & 8 != 0).then(|| AckRatio::new(operation >> 4));
                    self.machine.handle_probe(self.at(), &meta, ratio);
                }
            }
            4 => {
                if let Some((chunk, _)) = self.complete.pop_first() {
                    let verdict = match operation & 8 {
                        0 => ChunkVerification::Verified,
                        _ => ChunkVerification::Mismatch,
                    };
                    if verdict == ChunkVerification::Verified {
                        self.verified.insert(chunk);
                    }
                    self.machine.handle_verdict(chunk, verdict);
                }
            }
            5 => {
                if self.verified.remove(&self.stored) {
                    self.machine.handle_stored(self.stored);
                    self.stored += 1;
                }
            }
            6 => self.now = self.now.saturating_add(u64::from(input.u16()) * 1000),
            _ => self.machine.handle_socket_drops(u32::from(input.u16())),
        }
        if let Some(ack) = self.machine.poll_ack(self.at()) {
            let mut body = Vec::new();
            let room = self.machine.ack_len_max();
            ack.encode_within(room, &mut body);
            assert!(body.len() <= room && room <= ACK_LEN_MAX);
            Ack::decode(&body).expect("our own acks can be read");
            assert_eq!(ack.chunk_limit, self.stored + CHUNKS_MAX);
        }
        assert!(u32::from(self.machine.backlog()) <= CHUNKS_MAX);
    }

    /// What the link knows of a packet; `None` where the replay window drops it.
    fn meta(&mut self, operation: u8, input: &mut Input<'_>) -> Option<PacketMeta> {
        let number = match operation & 0x40 {
            0 => self.largest.saturating_add(u64::from(operation >> 7) + 1),
            _ => input.u64() % NUMBER_END,
        };
        let is_old = self.largest.saturating_sub(number) > REPLAY_WINDOW;
        if is_old || number >= NUMBER_END || !self.used.insert(number) {
            return None;
        }
        self.largest = self.largest.max(number);
        let ecn = if operation & 0x20 == 0 { EcnCodepoint::Ect0 } else { EcnCodepoint::Ce };
        let socket = SocketNote { drops: Some(u32::from(operation >> 3)), merged: u16::from(operation & 3) };
        Some(PacketMeta { number, arrived: self.at(), len: 1200, ecn, socket })
    }

    fn data(&mut self, operation: u8, input: &mut Input<'_>) {
        let mut bytes: [u8; DATA_HEADER_LEN] = input.array();
        bytes[0] &= 0b0000_1111;
        let Ok((Header::Data(header), _)) = Header::decode(&bytes) else { return };
        let len = match operation & 0x10 {
            0 => usize::from(header.payload_size),
            _ => usize::from(input.u16()),
        };
        let Some(meta) = self.meta(operation, input) else { return };
        let vacancy = self.machine.vacancy(&header, len);
        let disposition = self.machine.handle_data(self.at(), &meta, &header, len);
        self.check(&header, len, vacancy, disposition);
    }

    fn check(&mut self, header: &DataHeader, len: usize, vacancy: Option<u32>, disposition: Disposition) {
        if let Some(offset) = vacancy {
            // The driver opens into this place before it knows the disposition.
            assert!(offset as usize + len <= CHUNK_LEN_MAX as usize);
            assert!(!self.complete.contains_key(&header.chunk) && !self.verified.contains(&header.chunk));
        }
        let Disposition::Store { offset, completes } = disposition else { return };
        assert!(vacancy.is_none_or(|place| place == offset));
        assert!(offset as usize + len <= CHUNK_LEN_MAX as usize);
        assert!((self.stored..self.stored + CHUNKS_MAX).contains(&header.chunk));
        if let Some(whole) = completes {
            assert!((1..=CHUNK_LEN_MAX).contains(&whole));
            assert!(self.complete.insert(header.chunk, whole).is_none(), "completed twice");
        }
    }
}

/// The sending machine: acks and rejections of any content.
pub(super) fn sender(input: &[u8]) {
    let mut input = Input(input);
    let kind = usize::from(input.byte().unwrap_or(0));
    let mut machine = a_sender(kind);
    let (mut now, mut sent_bytes, mut pushed, mut freed, mut sent) = (0_u64, 0_u64, 0_u32, 0_u32, 0_u64);
    let mut out = Vec::new();
    while let Some(operation) = input.byte() {
        now = now.saturating_add(u64::from(operation >> 3) * 250_000);
        let at = Timestamp::from_nanos(now);
        match operation & 7 {
            0 => machine.handle_timeout(at),
            1 => drop(machine.handle_rejected(u32::from(input.byte().unwrap_or(0)), operation >> 6)),
            2 => {
                let why = if operation & 8 != 0 { Refusal::Size } else { Refusal::Room };
                machine.handle_refused(at, u64::from(input.u16()), why);
            }
            3 | 4 => {
                let len = usize::from(input.u16());
                if let Ok(ack) = Ack::decode(input.take(len)) {
                    machine.handle_ack(at, &ack);
                }
            }
            _ => {
                while machine.wants_chunk() {
                    machine.push_chunk(1 + u32::from(operation) * 1000, false);
                    pushed += 1;
                }
                if machine.poll_transmit(at, &mut out) == Transmit::Burst {
                    for packet in &out {
                        assert_eq!(packet.number, sent, "a packet number is used once, in order");
                        if let Body::Chunk { chunk, .. } = packet.body {
                            assert!((freed..pushed).contains(&chunk), "the driver holds {freed}..{pushed}");
                        }
                        sent += 1;
                        sent_bytes += packet.datagram_len() as u64;
                    }
                }
            }
        }
        while machine.poll_freed().is_some() {
            freed += 1;
        }
        assert!(machine.bytes_in_flight() <= sent_bytes && freed <= pushed);
        assert!(pushed - freed <= CHUNKS_MAX);
    }
}

pub(super) fn a_sender(kind: usize) -> Sender {
    let family = CongestionControl::ALL.map(|cc| cc.with_rate(Rate::bits_per_second(100_000_000)));
    let controller = family[kind % family.len()].controller(1200).expect("a rate is given");
    let schedule = if kind & 0x80 == 0 { ScheduleKind::LossDriven } else { ScheduleKind::Circular };
    let config = SenderConfig {
        controller,
        judge: judge(JudgeMethod::ALL[kind % JudgeMethod::ALL.len()]),
        schedule,
        rate_limit: None,
        payload_size: None,
        ip_overhead: 28,
        burst: None,
        chunk_limit: CHUNKS_MAX,
        chunks_max: CHUNKS_MAX as usize,
        ack_delay_max: Duration::from_millis(5),
    };
    Sender::new(Timestamp::ZERO, config)
}
