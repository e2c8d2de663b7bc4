//! The receiving host: takes datagrams in batches, reports, and hands complete chunks to the writer; the
//! engine's `receive` in virtual time.

use super::writer::{Letter, Writer, WriterEvent, outcome_of};
use super::{FobsConfig, Honesty, Identity, Role};
use crate::check::{Assembly, Piece, rule};
use crate::flow::FlowFigures;
use crate::host::{Cpu, HostConfig, Socket};
use crate::net::Net;
use crate::packet::{Cargo, Ecn, Packet, UDP_IP_OVERHEAD, Way};
use crate::rng::Rng;
use crate::time::{MS, Nanos, stamp};
use fobs_proto::ChunkId;
use fobs_proto::receiver::{Disposition, EcnCodepoint, PacketMeta, Receiver, SocketNote, Verdict};
use fobs_proto::wire::{AEAD_TAG_LEN, DATA_HEADER_LEN, DataHeader, Header, decode_packet_number};
use std::collections::{HashMap, VecDeque};

/// Datagrams that the thread takes at once.
const BATCH: usize = 64;
/// How often the socket's drop counter is read.
const HEARTBEAT: Nanos = 200 * MS;
/// A chunk that does not verify so often ends the transfer (protocol 7.5).
const MISMATCHES_MAX: u8 = 3;
/// How far below the largest number a packet may arrive (protocol 3.5).
const REPLAY_WINDOW: u64 = 131_072;

#[derive(Debug)]
struct Datagram {
    number: u64,
    header: [u8; DATA_HEADER_LEN],
    offset: u32,
    body: u16,
    ecn: Ecn,
    damaged: bool,
    /// What the socket had dropped before.
    drops: u32,
}

#[derive(Debug)]
pub(super) struct Receiving {
    me: Identity,
    machine: Receiver,
    host: HostConfig,
    cpu: Cpu,
    rng: Rng,
    socket: Socket<Datagram>,
    writer: Writer,
    letters: VecDeque<Letter>,
    expected: u64,
    seen: Seen,
    next_ack: u64,
    busy_until: Nanos,
    /// Something has woken the thread already.
    woken: bool,
    heartbeat: Nanos,
    /// Verdicts that did not match, of chunks that have not verified yet.
    mismatches: HashMap<ChunkId, u8>,
    verified: u64,
    stored_bytes: u64,
    /// Useful bytes that arrived, and when the last chunk was verified.
    delivered: u64,
    last_verified: Option<Nanos>,
    damaged: u64,
    /// Packets that were not damaged and came for the first time.
    taken: u64,
    assembly: Assembly,
}

impl Receiving {
    pub(super) fn new(
        me: Identity,
        config: &FobsConfig,
        host: &HostConfig,
        cpu_rng: Rng,
        rng: Rng,
    ) -> Receiving {
        let mut machine = Receiver::new(config.receiver());
        machine.handle_socket_buffer(host.receive_buffer);
        Receiving {
            me,
            machine,
            cpu: Cpu::new(host.cpu.clone(), cpu_rng),
            rng,
            socket: Socket::new(host.receive_buffer),
            writer: Writer::new(host),
            host: host.clone(),
            letters: VecDeque::new(),
            expected: 0,
            seen: Seen::default(),
            next_ack: 0,
            busy_until: 0,
            woken: false,
            heartbeat: 0,
            mismatches: HashMap::new(),
            verified: 0,
            stored_bytes: 0,
            delivered: 0,
            last_verified: None,
            damaged: 0,
            taken: 0,
            assembly: Assembly::default(),
        }
    }

    /// A datagram reaches the host: into the socket, if there is room.
    pub(super) fn on_datagram(&mut self, net: &mut Net, packet: Packet) {
        let Cargo::Fobs { number, header, offset, body } = packet.cargo else { return };
        let datagram = Datagram {
            number,
            header,
            offset,
            body,
            ecn: packet.ecn,
            damaged: packet.damaged,
            drops: self.socket.drops() as u32,
        };
        if self.socket.push(net.now, packet.len - UDP_IP_OVERHEAD, datagram) {
            self.wake_soon(net);
        }
        rule!(net, self.socket.is_within_bounds(), "no queue past its limit", "the receiving socket");
    }

    /// The thread has its CPU: letters, one batch, one report. Chunks that must come again; `None` for one
    /// that was tried too often.
    pub(super) fn on_due(&mut self, net: &mut Net, config: &FobsConfig) -> Vec<Option<(ChunkId, u8)>> {
        let now = net.now;
        let ready = self.cpu.ready(now);
        if ready > now {
            net.agenda.set(self.me.slot(Role::Receive), Some(ready));
            return Vec::new();
        }
        self.woken = false;
        let rejected = self.take_letters(net, config);
        let mut taken = 0;
        while taken < BATCH as u64
            && let Some((at, len, datagram)) = self.socket.pop()
        {
            taken += 1;
            self.take(net, config, at, len as u16, &datagram);
        }
        if now >= self.heartbeat {
            self.heartbeat = now + HEARTBEAT;
            if config.honesty == Honesty::Honest {
                self.machine.handle_socket_drops(self.socket.drops() as u32);
            }
        }
        let mut reports = 0;
        while let Some(ack) = self.machine.poll_ack(stamp(now)) {
            rule!(net, reports == 0, "one report says all there is", "another ack at once");
            if reports > 0 {
                break;
            }
            reports += 1;
            let mut bytes = vec![0; Header::Ack.len()];
            Header::Ack.encode(self.next_ack, &mut bytes);
            ack.encode(&mut bytes);
            net.send(Packet {
                flow: self.me.id,
                way: Way::Acks,
                hop: 0,
                ecn: Ecn::NotCapable,
                damaged: false,
                len: (bytes.len() + AEAD_TAG_LEN) as u32 + UDP_IP_OVERHEAD,
                cargo: Cargo::FobsAck { number: self.next_ack, bytes },
            });
            self.next_ack += 1;
        }
        self.busy_until = self.cpu.run(now, self.host.packet_cost * (taken + reports));
        let next = if self.socket.is_empty() && self.letters.is_empty() {
            self.machine.poll_timeout().map(|at| at.as_nanos().max(self.busy_until) + self.late())
        } else {
            self.woken = true;
            Some(self.busy_until)
        };
        net.agenda.set(self.me.slot(Role::Receive), next.map(|at| at.max(now + 1)));
        rejected
    }

    /// The writer has finished a piece of work.
    pub(super) fn on_writer_due(&mut self, net: &mut Net, config: &FobsConfig) -> WriterEvent {
        if let Some(letter) = self.writer.on_done() {
            self.letters.push_back(letter);
            let letters = self.letters.len() as u32;
            // A verdict and a notice of storing for each chunk of the credit.
            let bounded = letters <= 2 * config.receiver_chunks;
            rule!(net, bounded, "no queue past its limit", "{letters} letters of the writer");
            self.wake_soon(net);
        }
        self.start_writer(net)
    }

    fn start_writer(&mut self, net: &mut Net) -> WriterEvent {
        match self.writer.start(net.now) {
            Ok(None) => WriterEvent::Nothing,
            Ok(Some(done)) => {
                net.agenda.set(self.me.slot(Role::Write), Some(done));
                WriterEvent::Nothing
            }
            Err(error) => WriterEvent::Failed(outcome_of(error)),
        }
    }

    fn take_letters(&mut self, net: &mut Net, config: &FobsConfig) -> Vec<Option<(ChunkId, u8)>> {
        let mut rejected = Vec::new();
        while let Some(letter) = self.letters.pop_front() {
            match letter {
                Letter::Verdict { chunk, matches } => {
                    self.assembly.on_verdict(net, chunk, matches);
                    let attempt = self.machine.attempt(chunk).unwrap_or(0);
                    let verdict = if matches { Verdict::Verified } else { Verdict::Mismatch };
                    let again = self.machine.handle_verdict(chunk, verdict);
                    if matches {
                        self.mismatches.remove(&chunk);
                        self.verified += 1;
                        self.last_verified = Some(net.now);
                    } else {
                        self.delivered -= u64::from(config.object.len(chunk));
                        let count = self.mismatches.entry(chunk).or_insert(0);
                        *count += 1;
                        let hopeless = !again || *count >= MISMATCHES_MAX;
                        rejected.push((!hopeless).then_some((chunk, attempt)));
                    }
                }
                Letter::Stored(chunk) => {
                    self.assembly.on_chunk_stored(net, chunk);
                    self.machine.handle_stored(chunk);
                    self.stored_bytes += u64::from(config.object.len(chunk));
                    if self.machine.is_complete() {
                        self.writer.finish();
                        // Only the last sync is left, and it cannot fail.
                        self.start_writer(net);
                    }
                }
            }
        }
        rejected
    }

    fn take(&mut self, net: &mut Net, config: &FobsConfig, at: Nanos, len: u16, datagram: &Datagram) {
        let Ok((header, truncated)) = Header::decode(&datagram.header) else {
            net.breach("our own headers can be read", format!("packet {}", datagram.number));
            return;
        };
        if datagram.damaged {
            self.damaged += 1;
            return;
        }
        let number = decode_packet_number(truncated, self.expected);
        rule!(net, number == datagram.number, "24 bits are enough for a packet number", "{number}");
        self.expected = self.expected.max(number + 1);
        if !self.seen.insert(number) && config.replay_window {
            return;
        }
        let arrived = match self.host.stamp_grain {
            0 => at,
            grain => at.next_multiple_of(grain).min(net.now),
        };
        let ecn = match datagram.ecn {
            Ecn::NotCapable => EcnCodepoint::NotEct,
            Ecn::Capable => EcnCodepoint::Ect0,
            Ecn::Marked => EcnCodepoint::Ce,
        };
        self.taken += 1;
        let drops = match config.honesty {
            Honesty::Honest => Some(datagram.drops),
            Honesty::Uncounted => None,
            // All that is missing is claimed.
            Honesty::ClaimsAllLosses => Some((self.expected - self.taken) as u32),
        };
        let socket = SocketNote { drops, merged: 1 };
        let meta = PacketMeta { number, arrived: stamp(arrived), len, ecn, socket };
        match header {
            Header::Data(header) => {
                let body = usize::from(datagram.body);
                let disposition = self.machine.handle_data(stamp(net.now), &meta, &header, body);
                self.store(net, config, &header, datagram, disposition);
            }
            Header::Probe => self.machine.handle_probe(stamp(net.now), &meta),
            Header::Ack => net.breach("a sender sends no acks", format!("packet {number}")),
        }
    }

    fn store(
        &mut self,
        net: &mut Net,
        config: &FobsConfig,
        header: &DataHeader,
        datagram: &Datagram,
        disposition: Disposition,
    ) {
        let Disposition::Store { offset, completes } = disposition else { return };
        let chunk = header.chunk;
        let limit = self.machine.chunk_limit();
        rule!(net, chunk < limit, "nothing is stored beyond the credit", "chunk {chunk} of {limit}");
        net.on_stored(self.me.id, chunk, header.packet_index);
        self.delivered += u64::from(datagram.body);
        let piece = Piece {
            chunk,
            attempt: header.attempt,
            payload: u32::from(header.payload_size),
            offset,
            read_at: datagram.offset,
            len: datagram.body,
        };
        self.delivered -= self.assembly.on_stored(net, &piece);
        if let Some(said) = completes {
            let len = config.object.len(chunk);
            self.assembly.on_complete(net, chunk, said, len);
            let mismatches = self.mismatches.get(&chunk).copied().unwrap_or(0);
            let matches = config.mismatches.get(&chunk).is_none_or(|wanted| mismatches >= *wanted);
            self.writer.push(chunk, len, matches);
            let held = self.writer.chunks() as u32;
            rule!(
                net,
                held <= config.receiver_chunks,
                "the receiver's memory is bounded",
                "{held} chunks held"
            );
            if let WriterEvent::Failed(_) = self.start_writer(net) {
                // A chunk is verified before it is stored: an idle writer begins with that.
                net.breach("an idle writer verifies first", format!("chunk {chunk}"));
            }
        }
    }

    fn wake_soon(&mut self, net: &mut Net) {
        let slot = self.me.slot(Role::Receive);
        if !self.woken {
            self.woken = true;
            let at = net.now.max(self.busy_until) + self.late();
            net.agenda.hasten(slot, at);
        }
    }

    fn late(&mut self) -> Nanos {
        let (soonest, latest) = self.host.wake;
        if latest > 0 { self.rng.range(soonest, latest) } else { 0 }
    }

    /// Whether everything is verified, stored and, where that is wanted, synced.
    pub(super) fn is_complete(&self) -> bool {
        self.machine.is_complete() && self.writer.is_finished() && self.letters.is_empty()
    }

    pub(super) fn check_end(&mut self, net: &mut Net, config: &FobsConfig) {
        let (verified, chunks) = (self.verified, config.object.chunks());
        rule!(net, verified == chunks, "complete means verified", "{verified} of {chunks} chunks");
        let (stored, delivered, total) = (self.stored_bytes, self.delivered, config.object.total());
        rule!(
            net,
            stored == total && delivered == total,
            "complete means stored",
            "{stored} of {total} bytes"
        );
        let open = self.assembly.open_max() as u64;
        let bound = u64::from(config.receiver_chunks);
        rule!(net, open <= bound, "the receiver's memory is bounded", "{open} chunks open of {bound}");
    }

    pub(super) fn clear(&mut self) {
        self.socket.clear();
        self.letters.clear();
    }

    pub(super) fn calm(&mut self, net: &mut Net) {
        self.cpu.calm();
        self.writer.calm(net.now);
        if net.agenda.next_of(self.me.slot(Role::Receive)).is_some() {
            net.agenda.hasten(self.me.slot(Role::Receive), net.now.max(self.busy_until));
        }
    }

    pub(super) fn fill(&mut self, now: Nanos, figures: &mut FlowFigures) {
        figures.delivered = self.delivered;
        figures.ended = self.last_verified;
        figures.socket_drops = self.socket.drops();
        figures.damaged += self.damaged;
        figures.durable = self.writer.durable(now);
        figures.chunks_open_max = self.assembly.open_max() as u64;
        figures.off_cpu = self.cpu.off();
    }

    pub(super) fn describe(&self) -> String {
        format!("receiver: {} chunks verified, {:?}", self.verified, self.machine.stats())
    }
}

/// Which packet numbers have been seen: the receiver's replay window (protocol 3.5).
#[derive(Debug)]
struct Seen {
    words: Vec<u64>,
    next: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Seen { words: vec![0; (REPLAY_WINDOW / 64) as usize], next: 0 }
    }
}

impl Seen {
    /// Whether the number is new, and not too old to tell.
    fn insert(&mut self, number: u64) -> bool {
        if number >= self.next {
            if number - self.next >= REPLAY_WINDOW {
                self.words.fill(0);
            } else {
                (self.next..=number).for_each(|n| self.words[Self::word(n)] &= !(1 << (n % 64)));
            }
            self.next = number + 1;
        } else if self.next - number > REPLAY_WINDOW {
            return false;
        }
        let (word, bit) = (Self::word(number), 1 << (number % 64));
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    fn word(number: u64) -> usize {
        (number % REPLAY_WINDOW / 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_new_once() {
        let mut seen = Seen::default();
        assert!([5, 3, 4, 0].iter().all(|n| seen.insert(*n)));
        assert!([5, 3, 4, 0].iter().all(|n| !seen.insert(*n)));
        assert!(seen.insert(REPLAY_WINDOW));
        assert!(!seen.insert(0), "too old to tell");
        assert!(seen.insert(1));
        assert!(seen.insert(10 * REPLAY_WINDOW) && !seen.insert(5) && seen.insert(10 * REPLAY_WINDOW - 5));
    }
}
