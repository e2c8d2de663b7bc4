//! The real sender and receiver on two hosts in virtual time, with every rule checked at every step.

use crate::path::{MS, Nanos, Path, PathConfig, SEC, US};
use crate::rng::Rng;
use fobs_proto::congestion::Controller;
use fobs_proto::loss_cause::Judge;
use fobs_proto::receiver::{
    ChunkVerification, Disposition, EcnCodepoint, PacketMeta, Receiver, ReceiverConfig, SocketNote,
};
use fobs_proto::sender::{Body, PacketOut, ScheduleKind, Sender, SenderConfig, Transmit};
use fobs_proto::wire::{
    AEAD_TAG_LEN, ATTEMPT_MAX, Ack, DATA_HEADER_LEN, DataHeader, Header, decode_packet_number,
};
use fobs_proto::{Rate, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::time::Duration;

/// Bytes of room that a pushing-back host waits for: a burst of two of the largest packets.
const BACK_PRESSURE_ROOM: u64 = 18_000;
/// Datagrams that a receiving thread takes at once.
const BATCH: usize = 64;
/// What no byte of an object is: marks bytes that were not stored.
const POISON: u8 = 0xff;

/// What hosts add to the network.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// How late the sending thread wakes, at most.
    pub sender_late: Nanos,
    /// How long after a datagram the receiving thread wakes and stamps what it finds.
    pub receiver_wake: (Nanos, Nanos),
    /// From the last packet of a chunk to its verdict.
    pub verify: Nanos,
    /// From a verdict to the chunk being stored; chunks are stored one after another.
    pub store: Nanos,
    /// The sender's link pushes back: bursts leave only while its queue has room.
    pub back_pressure: bool,
}

impl Hosts {
    pub fn ideal() -> Hosts {
        Hosts { sender_late: 0, receiver_wake: (0, 0), verify: 0, store: 0, back_pressure: false }
    }

    /// Two ordinary machines: wake-ups up to 100 us late, datagrams in batches that are stamped 50 to 100 us late.
    pub fn ordinary() -> Hosts {
        Hosts {
            sender_late: 100 * US,
            receiver_wake: (50 * US, 100 * US),
            verify: 2 * MS,
            store: 2 * MS,
            back_pressure: false,
        }
    }
}

/// Everything about a run.
pub struct Setup {
    pub seed: u64,
    /// Length of each chunk.
    pub chunks: Vec<u32>,
    pub controller: Box<dyn Controller>,
    pub schedule: ScheduleKind,
    pub payload_size: Option<u16>,
    pub rate_limit: Option<Rate>,
    pub burst: Option<u32>,
    pub sender_chunks_max: usize,
    pub receiver: ReceiverConfig,
    pub data: PathConfig,
    pub acks: PathConfig,
    pub hosts: Hosts,
    /// How often each chunk's verdict is a mismatch.
    pub mismatches: BTreeMap<u32, u8>,
    /// Assemble and compare every byte, and keep a ledger of every packet.
    pub checked: bool,
    /// Drop datagrams seen before, as the replay window does (protocol 3.5).
    pub replay_window: bool,
    /// Virtual time after which the run has failed.
    pub deadline: Nanos,
}

impl Setup {
    pub fn new(seed: u64, chunks: Vec<u32>, controller: Box<dyn Controller>) -> Setup {
        Setup {
            seed,
            chunks,
            controller,
            schedule: ScheduleKind::LossDriven,
            payload_size: None,
            rate_limit: None,
            burst: None,
            sender_chunks_max: 64,
            receiver: ReceiverConfig {
                ack_every: 64,
                ack_delay_max: Duration::from_millis(5),
                chunks_max: 64,
            },
            data: PathConfig::clean(10 * MS),
            acks: PathConfig::clean(10 * MS),
            hosts: Hosts::ideal(),
            mismatches: BTreeMap::new(),
            checked: true,
            replay_window: true,
            deadline: 120 * SEC,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every chunk is verified and stored, the sender knows it and is silent.
    Complete,
    /// A chunk had no attempt left.
    GaveUp,
}

#[derive(Debug, Clone, Copy)]
struct Datagram {
    at: Nanos,
    number: u64,
    header: [u8; DATA_HEADER_LEN],
    payload: (u32, u32, u16),
    len: u16,
    ecn: EcnCodepoint,
}

#[derive(Debug)]
enum Later {
    Verdict(u32),
    Stored(u32),
    Rejected(u32, u8),
}

pub struct World {
    pub sender: Sender,
    pub receiver: Receiver,
    pub now: Nanos,
    pub data: Path,
    pub acks: Path,
    /// First data packet sent.
    pub began: Nanos,
    /// Last chunk verified.
    pub verified: Option<Nanos>,
    /// Every packet sent, for tests that look; only kept when `checked`.
    pub log: Vec<(Nanos, PacketOut)>,
    setup: Rest,
    rng: Rng,
    out: Vec<PacketOut>,
    pushed: usize,
    freed: usize,
    sender_wake: Nanos,
    receiver_wake: Option<Nanos>,
    in_transit: VecDeque<Datagram>,
    acks_in_transit: VecDeque<(Nanos, u64, Vec<u8>)>,
    agenda: BTreeMap<(Nanos, u64), Later>,
    agenda_count: u64,
    next_number: u64,
    next_ack_number: u64,
    expected_number: u64,
    expected_ack_number: u64,
    seen: HashSet<u64>,
    to_store: BTreeSet<u32>,
    next_to_store: u32,
    store_free_at: Nanos,
    ack_wake: Option<Nanos>,
    loss_driven: bool,
    verified_count: usize,
    credit_told: u32,
    end: Option<End>,
    ledger: Ledger,
    buffers: BTreeMap<u32, (u8, Vec<u8>)>,
    relaid_packets: u64,
    layouts: BTreeSet<(u32, u8)>,
}

/// What of the setup a run still needs.
struct Rest {
    chunks: Vec<u32>,
    sender_chunks_max: usize,
    hosts: Hosts,
    mismatches: BTreeMap<u32, u8>,
    checked: bool,
    replay_window: bool,
    deadline: Nanos,
    burst: u32,
    payload_size: Option<u16>,
}

/// Every packet sent that no ack has named: an upper bound on what is in flight.
#[derive(Default)]
struct Ledger {
    unacked: BTreeMap<u64, u64>,
    bytes: u64,
}

pub fn content(chunk: u32, offset: u32) -> u8 {
    let x = (u64::from(chunk) << 32 | u64::from(offset)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x >> 40) % 251) as u8
}

impl World {
    pub fn new(setup: Setup) -> World {
        let mut rng = Rng::new(setup.seed);
        let sender = Sender::new(
            Timestamp::ZERO,
            SenderConfig {
                controller: setup.controller,
                judge: Judge::Off,
                schedule: setup.schedule,
                rate_limit: setup.rate_limit,
                payload_size: setup.payload_size,
                ip_overhead: 28,
                burst: setup.burst,
                chunk_limit: setup.receiver.chunks_max,
                chunks_max: setup.sender_chunks_max,
                ack_delay_max: setup.receiver.ack_delay_max,
            },
        );
        World {
            sender,
            receiver: Receiver::new(setup.receiver),
            now: 0,
            data: Path::new(setup.data, rng.next()),
            acks: Path::new(setup.acks, rng.next()),
            began: Nanos::MAX,
            verified: None,
            log: Vec::new(),
            rng,
            out: Vec::new(),
            pushed: 0,
            freed: 0,
            sender_wake: 0,
            receiver_wake: None,
            in_transit: VecDeque::new(),
            acks_in_transit: VecDeque::new(),
            agenda: BTreeMap::new(),
            agenda_count: 0,
            next_number: 0,
            next_ack_number: 0,
            expected_number: 0,
            expected_ack_number: 0,
            seen: HashSet::new(),
            to_store: BTreeSet::new(),
            next_to_store: 0,
            store_free_at: 0,
            ack_wake: None,
            loss_driven: setup.schedule == ScheduleKind::LossDriven,
            verified_count: 0,
            credit_told: setup.receiver.chunks_max,
            end: None,
            ledger: Ledger::default(),
            buffers: BTreeMap::new(),
            relaid_packets: 0,
            layouts: BTreeSet::new(),
            setup: Rest {
                chunks: setup.chunks,
                sender_chunks_max: setup.sender_chunks_max,
                hosts: setup.hosts,
                mismatches: setup.mismatches,
                checked: setup.checked,
                replay_window: setup.replay_window,
                deadline: setup.deadline,
                burst: setup.burst.unwrap_or(u32::MAX),
                payload_size: setup.payload_size,
            },
        }
    }

    /// Runs to the end; panics if a rule breaks or the deadline passes.
    pub fn run(&mut self) -> End {
        while self.end.is_none() {
            self.step();
        }
        let end = self.end.expect("the loop ended");
        if end == End::Complete {
            self.check_end();
        }
        end
    }

    /// Runs until a moment of virtual time, or the end.
    pub fn run_until(&mut self, at: Nanos) {
        while self.end.is_none() && self.next_at() <= at {
            self.step();
        }
    }

    /// The next thing that happens, happens.
    pub fn step(&mut self) {
        let at = self.next_at();
        assert!(at != Nanos::MAX, "nothing will ever happen again: {}", self.describe());
        assert!(at >= self.now, "time went back");
        assert!(at <= self.setup.deadline, "not finished in time: {}", self.describe());
        self.now = at;
        if self.receiver_wake == Some(at) {
            self.receiver_wake = None;
            self.receive_batch();
        }
        while let Some(entry) = self.agenda.first_entry().filter(|e| e.key().0 <= at) {
            let later = entry.remove();
            self.act(later);
        }
        self.send_ack_if_due();
        let mut awake = self.sender_wake <= at;
        if self.ack_wake == Some(at) {
            self.ack_wake = None;
            awake = true;
        }
        // Whoever is awake takes what is there.
        while awake && self.acks_in_transit.front().is_some_and(|a| a.0 <= at) {
            let (_, number, bytes) = self.acks_in_transit.pop_front().expect("just seen");
            self.take_ack(number, &bytes);
        }
        self.wake_for_acks();
        if awake {
            self.drive_sender();
        }
        self.finish_if_done();
    }

    fn next_at(&self) -> Nanos {
        let ack_due = self.receiver.poll_timeout().map(|t| t.as_nanos().max(self.now));
        let agenda = self.agenda.first_key_value().map(|(k, _)| k.0);
        [Some(self.sender_wake), self.ack_wake, self.receiver_wake, ack_due, agenda]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Nanos::MAX)
    }

    fn stamp(&self) -> Timestamp {
        Timestamp::from_nanos(self.now)
    }

    // ---- the sending host ----

    fn drive_sender(&mut self) {
        let now = self.stamp();
        if self.sender.poll_timeout().is_some_and(|at| at <= now) {
            self.sender.handle_timeout(now);
            let again = self.sender.poll_timeout();
            assert!(again.is_none_or(|at| at > now), "a timer that was handled is due again");
        }
        let mut next = Nanos::MAX;
        let mut bursts = 0;
        loop {
            self.feed();
            if self.setup.hosts.back_pressure {
                let room = self.data.room_at(self.now, BACK_PRESSURE_ROOM);
                if room > self.now {
                    next = room;
                    break;
                }
            }
            let mut out = std::mem::take(&mut self.out);
            let wanted = self.sender.poll_transmit(now, &mut out);
            match wanted {
                Transmit::Burst => self.transmit(&out),
                Transmit::WaitUntil(at) => {
                    assert!(at > now, "told to wait for the past");
                    next = at.as_nanos();
                }
                Transmit::Wait => {}
            }
            self.out = out;
            if wanted != Transmit::Burst {
                break;
            }
            bursts += 1;
            assert!(bursts < 20_000, "the sender never stops in one moment: {}", self.describe());
        }
        if let Some(at) = self.sender.poll_timeout() {
            next = next.min(at.as_nanos().max(self.now + 1));
        }
        let late = if self.setup.hosts.sender_late > 0 {
            self.rng.range(0, self.setup.hosts.sender_late)
        } else {
            0
        };
        self.sender_wake = next.saturating_add(late);
    }

    fn feed(&mut self) {
        while let Some(chunk) = self.sender.poll_freed() {
            assert_eq!(chunk as usize, self.freed, "chunks are freed in order");
            self.freed += 1;
        }
        while self.pushed < self.setup.chunks.len() && self.sender.wants_chunk() {
            let id = self
                .sender
                .push_chunk(self.setup.chunks[self.pushed], self.pushed + 1 == self.setup.chunks.len());
            assert_eq!(id as usize, self.pushed);
            self.pushed += 1;
            assert!(
                self.pushed - self.freed <= self.setup.sender_chunks_max,
                "more chunks in hand than allowed"
            );
        }
    }

    fn transmit(&mut self, out: &[PacketOut]) {
        assert!(!out.is_empty(), "an empty burst");
        assert!(out.len() <= self.setup.burst as usize, "a burst longer than asked");
        let first = out[0].datagram_len();
        for (i, packet) in out.iter().enumerate() {
            let len = packet.datagram_len();
            assert!(len == first || i + 1 == out.len() && len < first, "a burst that GSO cannot cut");
            assert_eq!(packet.number, self.next_number, "numbers go up by one");
            self.next_number += 1;
            self.check_sent(packet);
            let mut header = [0; DATA_HEADER_LEN];
            packet.header.encode(packet.number, &mut header);
            let payload = match packet.body {
                Body::Chunk { chunk, offset, len } => (chunk, offset, len),
                Body::Padding { len } => (0, 0, len),
            };
            for arrival in self.data.send(self.now, len as u64).into_iter().flatten() {
                let ecn = if arrival.marked { EcnCodepoint::Ce } else { EcnCodepoint::Ect0 };
                let datagram =
                    Datagram { at: arrival.at, number: packet.number, header, payload, len: len as u16, ecn };
                let after = self.in_transit.iter().rposition(|d| d.at <= datagram.at).map_or(0, |i| i + 1);
                self.in_transit.insert(after, datagram);
            }
        }
        if self.setup.checked {
            assert!(self.sender.bytes_in_flight() <= self.ledger.bytes, "bytes in flight do not balance");
        }
        self.wake_receiver();
    }

    fn check_sent(&mut self, packet: &PacketOut) {
        if let Header::Data(header) = packet.header {
            self.began = self.began.min(self.now);
            let chunk_len = self.setup.chunks[header.chunk as usize];
            assert!((header.chunk as usize) < self.pushed, "a chunk that was never handed over");
            assert!(header.chunk < self.credit_told, "sent beyond the credit");
            let Body::Chunk { chunk, offset, len } = packet.body else { panic!("data without payload") };
            assert_eq!(chunk, header.chunk);
            assert_eq!(offset, u32::from(header.packet_index) * u32::from(header.payload_size));
            assert_eq!(header.last, offset + u32::from(len) == chunk_len);
            assert_eq!(header.final_chunk, header.chunk as usize + 1 == self.setup.chunks.len());
            if header.attempt > 0 && self.layouts.insert((header.chunk, header.attempt)) {
                self.relaid_packets += u64::from(chunk_len.div_ceil(u32::from(header.payload_size)));
            }
        }
        if self.setup.checked {
            self.log.push((self.now, *packet));
            let len = packet.datagram_len() as u64;
            self.ledger.unacked.insert(packet.number, len);
            self.ledger.bytes += len;
        }
    }

    fn take_ack(&mut self, number: u64, bytes: &[u8]) {
        let (header, truncated) = Header::decode(bytes).expect("our own header");
        assert_eq!(header, Header::Ack);
        assert_eq!(decode_packet_number(truncated, self.expected_ack_number), number);
        self.expected_ack_number = self.expected_ack_number.max(number + 1);
        let ack = Ack::decode(&bytes[header.len()..]).expect("our own ack");
        assert!(ack.largest.is_none_or(|n| n < self.next_number), "the receiver saw what was not sent");
        self.credit_told = self.credit_told.max(ack.chunk_limit);
        if self.setup.checked {
            for &(low, high) in &ack.ranges {
                let named: Vec<u64> = self.ledger.unacked.range(low..=high).map(|(n, _)| *n).collect();
                for n in named {
                    self.ledger.bytes -= self.ledger.unacked.remove(&n).expect("just found");
                }
            }
        }
        self.sender.handle_ack(self.stamp(), &ack);
        if self.setup.checked {
            assert!(self.sender.bytes_in_flight() <= self.ledger.bytes, "bytes in flight do not balance");
        }
    }

    // ---- the receiving host ----

    fn wake_receiver(&mut self) {
        if let (None, Some(first)) = (self.receiver_wake, self.in_transit.front()) {
            let (soonest, latest) = self.setup.hosts.receiver_wake;
            let late = if latest > 0 { self.rng.range(soonest, latest) } else { 0 };
            // A thread that is behind does not sleep.
            self.receiver_wake = Some(if first.at <= self.now { self.now } else { first.at + late });
        }
    }

    fn receive_batch(&mut self) {
        for _ in 0..BATCH {
            let Some(datagram) = self.in_transit.front().copied().filter(|d| d.at <= self.now) else { break };
            self.in_transit.pop_front();
            self.receive(&datagram);
            self.send_ack_if_due();
        }
        self.wake_receiver();
    }

    fn receive(&mut self, datagram: &Datagram) {
        let (header, truncated) = Header::decode(&datagram.header).expect("our own header");
        let number = decode_packet_number(truncated, self.expected_number);
        assert_eq!(number, datagram.number, "24 bits were not enough");
        self.expected_number = self.expected_number.max(number + 1);
        if self.setup.checked && !self.seen.insert(number) && self.setup.replay_window {
            return;
        }
        let now = self.stamp();
        let meta = PacketMeta {
            number,
            arrived: now,
            len: datagram.len,
            ecn: datagram.ecn,
            socket: SocketNote::default(),
        };
        match header {
            Header::Data(header) => {
                let (chunk, offset, len) = datagram.payload;
                assert_eq!(chunk, header.chunk);
                let disposition = self.receiver.handle_data(now, &meta, &header, usize::from(len));
                self.assemble(&header, offset, len, disposition);
            }
            Header::Probe => self.receiver.handle_probe(now, &meta),
            Header::Ack => panic!("a sender sends none"),
        }
    }

    fn assemble(&mut self, header: &DataHeader, at: u32, len: u16, disposition: Disposition) {
        let chunk = header.chunk;
        let chunk_len = self.setup.chunks[chunk as usize];
        let Disposition::Store { offset, completes } = disposition else { return };
        assert_eq!(offset, at, "stored elsewhere than it was read");
        assert!(completes.is_none_or(|n| n == chunk_len), "complete with a wrong length");
        if self.setup.checked {
            let (attempt, buffer) =
                self.buffers.entry(chunk).or_insert_with(|| (0, vec![POISON; chunk_len as usize]));
            if *attempt != header.attempt {
                *attempt = header.attempt;
                buffer.fill(POISON);
            }
            for i in offset..offset + u32::from(len) {
                assert_eq!(buffer[i as usize], POISON, "byte {i} of chunk {chunk} stored twice");
                buffer[i as usize] = content(chunk, i);
            }
            if completes.is_some() {
                assert!(
                    (0..chunk_len).all(|i| buffer[i as usize] == content(chunk, i)),
                    "chunk {chunk} complete with holes"
                );
            }
            assert!(chunk < self.receiver.chunk_limit(), "stored where there is no room");
        }
        if completes.is_some() {
            self.later(self.setup.hosts.verify, Later::Verdict(chunk));
        }
    }

    fn later(&mut self, delay: Nanos, what: Later) {
        self.agenda_count += 1;
        self.agenda.insert((self.now + delay, self.agenda_count), what);
    }

    fn act(&mut self, later: Later) {
        match later {
            Later::Verdict(chunk) => {
                let left = self.setup.mismatches.get(&chunk).copied().unwrap_or(0);
                if left == 0 {
                    assert!(self.receiver.handle_verdict(chunk, ChunkVerification::Verified));
                    self.verified_count += 1;
                    if self.verified_count == self.setup.chunks.len() {
                        self.verified = Some(self.now);
                    }
                    self.to_store.insert(chunk);
                    self.store_verified();
                    return;
                }
                self.setup.mismatches.insert(chunk, left - 1);
                let attempt = self.receiver.attempt(chunk).expect("a chunk in the window");
                // A buffer is used again only after a mismatch.
                self.buffers.remove(&chunk);
                if self.receiver.handle_verdict(chunk, ChunkVerification::Mismatch) {
                    // The control channel is reliable and about as fast as the path.
                    self.later(20 * MS, Later::Rejected(chunk, attempt));
                } else {
                    assert_eq!(attempt, ATTEMPT_MAX);
                    self.end = Some(End::GaveUp);
                }
            }
            Later::Stored(chunk) => self.receiver.handle_stored(chunk),
            Later::Rejected(chunk, attempt) => {
                assert!(
                    self.sender.handle_rejected(chunk, attempt),
                    "the sender gives up before the receiver"
                );
                self.sender_wake = self.now;
            }
        }
    }

    /// Verified chunks are stored in order, one after another.
    fn store_verified(&mut self) {
        while self.to_store.remove(&self.next_to_store) {
            self.store_free_at = self.store_free_at.max(self.now) + self.setup.hosts.store;
            self.later(self.store_free_at - self.now, Later::Stored(self.next_to_store));
            self.next_to_store += 1;
        }
    }

    fn send_ack_if_due(&mut self) {
        let now = self.stamp();
        while let Some(ack) = self.receiver.poll_ack(now) {
            let mut bytes = vec![0; Header::Ack.len()];
            Header::Ack.encode(self.next_ack_number, &mut bytes);
            ack.encode(&mut bytes);
            let len = bytes.len() as u64 + AEAD_TAG_LEN as u64;
            for arrival in self.acks.send(self.now, len).into_iter().flatten() {
                let after = self.acks_in_transit.iter().rposition(|a| a.0 <= arrival.at).map_or(0, |i| i + 1);
                self.acks_in_transit.insert(after, (arrival.at, self.next_ack_number, bytes.clone()));
            }
            self.next_ack_number += 1;
        }
        self.wake_for_acks();
    }

    fn wake_for_acks(&mut self) {
        if let (None, Some(first)) = (self.ack_wake, self.acks_in_transit.front()) {
            self.ack_wake = Some(first.0.max(self.now) + self.rng.range(0, self.setup.hosts.sender_late));
        }
    }

    // ---- the end ----

    fn finish_if_done(&mut self) {
        if self.end.is_some() || !self.receiver.is_complete() || !self.sender.is_complete() {
            return;
        }
        // A checked run goes on until nothing is on its way: a sender that is done falls silent.
        let silent = self.sender.bytes_in_flight() == 0
            && self.in_transit.is_empty()
            && self.acks_in_transit.is_empty();
        if !self.setup.checked || silent {
            self.end = Some(End::Complete);
        }
    }

    fn check_end(&mut self) {
        while self.sender.poll_freed().is_some() {
            self.freed += 1;
        }
        assert_eq!(self.freed, self.setup.chunks.len(), "every chunk is given back");
        assert_eq!(self.verified_count, self.setup.chunks.len());
        if self.setup.checked {
            for (chunk, len) in self.setup.chunks.iter().enumerate() {
                let (_, buffer) = &self.buffers[&(chunk as u32)];
                assert!(
                    (0..*len).all(|i| buffer[i as usize] == content(chunk as u32, i)),
                    "chunk {chunk} differs"
                );
            }
        }
        let stats = self.sender.stats();
        if self.loss_driven {
            // Waste is what was lost or taken for lost, what the tail and the timers repeat, and what was laid out anew.
            let needed = stats.packets_needed + self.relaid_packets;
            let excused = stats.packets_lost + stats.packets_refused + stats.packets_copied;
            assert!(
                stats.packets_sent <= needed + excused,
                "waste beyond its causes: {stats:?}, {} laid out anew",
                self.relaid_packets
            );
        }
    }

    /// Share of the link that the object got, in 10,000ths: object bytes over what the link carries from the first data
    /// packet to the last verdict.
    pub fn goodput_share(&self, link: u64) -> u64 {
        let bytes: u64 = self.setup.chunks.iter().map(|n| u64::from(*n)).sum();
        let time = self.verified.expect("the run is over") - self.began;
        (u128::from(bytes) * 8 * u128::from(SEC) * 10_000 / u128::from(time) / u128::from(link)) as u64
    }

    /// Packets sent beyond those needed, in 10,000ths of those needed.
    pub fn waste(&self) -> u64 {
        let stats = self.sender.stats();
        stats.packets_sent.saturating_sub(stats.packets_needed) * 10_000 / stats.packets_needed
    }

    /// Whether the receiver still lacks a packet of a chunk.
    pub fn lacks(&self, chunk: u32, index: u16) -> bool {
        let Some((_, buffer)) = self.buffers.get(&chunk) else { return true };
        let size = self.setup.payload_size.map_or(0, usize::from);
        buffer[usize::from(index) * size] == POISON
    }

    pub fn describe(&self) -> String {
        format!(
            "at {} ms: {} of {} chunks verified, {} in flight, {:?}, {:?}, {} {:?}, data {:?}, acks {:?}",
            self.now / MS,
            self.verified_count,
            self.setup.chunks.len(),
            self.sender.bytes_in_flight(),
            self.sender.stats(),
            self.receiver.stats(),
            self.sender.controller().state(),
            self.sender.controller().pacing_rate(),
            self.data.stats(),
            self.acks.stats(),
        )
    }
}
