//! The receiving host: takes datagrams in batches, reports, and hands complete chunks to the writer; the
//! engine's `receive` in virtual time, with the same machine and the same policy.

use super::kept::Bytes;
use super::replay::Seen;
use super::writer::{Letter, Writer, WriterEvent, outcome_of};
use super::{FobsConfig, Honesty, Identity, Role};
use crate::check::{Assembly, Piece, rule};
use crate::flow::FlowFigures;
use crate::host::{Cpu, Disk, HostConfig, Socket};
use crate::net::Net;
use crate::object::Cut;
use crate::packet::{Cargo, Ecn, Packet, UDP_IP_OVERHEAD, Way};
use crate::rng::Rng;
use crate::time::{Nanos, stamp};
use fobs_proto::receiver::{ChunkVerification, Disposition, EcnCodepoint, PacketMeta, Receiver, SocketNote};
use fobs_proto::session::{HEARTBEAT, ReceivePolicy, Side, Silence, Stored, VerdictOutcome};
use fobs_proto::wire::{
    AEAD_TAG_LEN, Ack, AckRatio, DATA_HEADER_LEN, DataHeader, Header, PLAIN_HEADER_LEN, decode_packet_number,
};
use fobs_proto::{ChunkId, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

mod frames;
mod lane;
mod measures;

use lane::ReceiverLane;

/// Datagrams that the thread takes at once.
const BATCH: usize = 64;

#[derive(Debug)]
struct Datagram {
    number: u64,
    header: [u8; DATA_HEADER_LEN],
    offset: u32,
    body: u16,
    ecn: Ecn,
    damaged: bool,
    /// Datagrams that the socket had dropped before.
    drops: u32,
}

#[derive(Debug)]
pub(super) struct Receiving {
    me: Identity,
    machine: Receiver,
    policy: ReceivePolicy,
    host: HostConfig,
    cpu: Cpu,
    rng: Rng,
    socket: Socket<Datagram>,
    writer: Writer,
    letters: VecDeque<Letter>,
    expected: u64,
    /// When the thread took the newest datagram.
    newest: Option<Timestamp>,
    seen: Seen,
    next_ack: u64,
    busy_until: Nanos,
    /// The thread has been woken already.
    woken: bool,
    heartbeat: Nanos,
    /// Chunks verified; chunks below `stored` are stored.
    verified: u64,
    stored: ChunkId,
    stored_bytes: u64,
    /// Bytes that arrived and count, and when the last chunk was verified.
    delivered: u64,
    last_verified: Option<Nanos>,
    damaged: u64,
    /// Packets that were not damaged and came for the first time.
    taken: u64,
    assembly: Assembly,
    session: u32,
    /// Where there are streams, the newest ack, and whether it has left on one.
    newest_ack: Option<(Ack, bool)>,
    has_streams: bool,
    /// Where it is one of several lanes.
    lane: Option<ReceiverLane>,
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
            policy: ReceivePolicy::new(stamp(me.start), Side::Server, Duration::from_nanos(config.timeout)),
            cpu: Cpu::new(host.cpu.clone(), cpu_rng),
            rng,
            socket: Socket::new(host.receive_buffer),
            writer: Writer::new(host),
            host: host.clone(),
            letters: VecDeque::new(),
            expected: 0,
            newest: None,
            seen: Seen::default(),
            next_ack: 0,
            busy_until: 0,
            woken: false,
            heartbeat: 0,
            verified: 0,
            stored: 0,
            stored_bytes: 0,
            delivered: 0,
            last_verified: None,
            damaged: 0,
            taken: 0,
            assembly: Assembly::default(),
            session: 0,
            newest_ack: None,
            has_streams: config.streams.is_some(),
            lane: config.seat.map(ReceiverLane::new),
        }
    }

    /// The attempt of a transfer that may have several, on the disk of those before.
    pub(super) fn set_attempt(&mut self, session: u32, disk: Disk) {
        self.session = session;
        self.writer.use_disk(disk);
    }

    /// Chunks below are on the disk; with those below the other, the writer has begun.
    pub(super) fn written(&self) -> (ChunkId, ChunkId) {
        self.writer.written()
    }

    /// What of the object has been taken and not stored.
    pub(super) fn held(&self, cut: &Cut) -> Bytes {
        let mut held = Bytes::default();
        for (chunk, piece) in self.assembly.pieces() {
            let span = cut.span(chunk);
            let at = |offset: u32| (span.start + u64::from(offset)).min(span.end);
            held.insert(at(piece.start)..at(piece.end));
        }
        held
    }

    /// The process is gone; what is left is its disk.
    pub(super) fn into_disk(self) -> Disk {
        self.writer.into_disk()
    }

    /// A datagram reaches the host: into the socket, if there is room.
    pub(super) fn on_datagram(&mut self, net: &mut Net, packet: Packet) {
        let Cargo::Fobs { number, header, offset, body, .. } = packet.cargo else { return };
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

    /// Chunks below are stored.
    pub(super) fn stored(&self) -> ChunkId {
        self.stored
    }

    /// A message of the sender arrived over the control channel.
    pub(super) fn on_message(&mut self, at: Nanos) {
        self.policy.handle_message(stamp(at));
    }

    /// Asks the policy for how long the sender has been silent; as
    /// [`Sending::check_silence`](super::sending::Sending::check_silence).
    pub(super) fn check_silence(&self, now: Nanos) -> Silence {
        if self.cpu.ready(now) > now || !self.socket.is_empty() {
            return Silence::Short;
        }
        self.policy.check_silence(stamp(now), self.newest)
    }

    /// The thread runs: letters, one batch, one report. Chunks that must be sent anew; `None` for one that
    /// was tried too often.
    pub(super) fn on_due(
        &mut self,
        net: &mut Net,
        config: &FobsConfig,
        cut: &Cut,
    ) -> Vec<Option<(ChunkId, u8)>> {
        let now = net.now;
        let ready = self.cpu.ready(now);
        if ready > now {
            net.agenda.set(self.me.slot(Role::Receive), Some(ready));
            return Vec::new();
        }
        self.woken = false;
        let rejected = self.take_letters(net, cut);
        let mut taken = 0;
        while taken < BATCH as u64
            && let Some((at, len, datagram)) = self.socket.pop()
        {
            taken += 1;
            self.take(net, config, cut, (at, len as u16), &datagram);
        }
        let socket_is_empty = self.socket.is_empty();
        let mut count_drops = self.policy.wants_drop_count(stamp(now), &self.machine, socket_is_empty);
        if now >= self.heartbeat {
            self.heartbeat = now + HEARTBEAT.as_nanos() as Nanos;
            count_drops = true;
        }
        if count_drops && config.honesty == Honesty::Honest {
            self.machine.handle_socket_drops(self.socket.drops() as u32);
        }
        let reports = self.report(net) + self.remind(net);
        self.busy_until = self.cpu.run(now, self.host.packet_cost * (taken + reports));
        let next = if self.socket.is_empty() && self.letters.is_empty() {
            let timer =
                self.machine.poll_timeout().map(|at| at.as_nanos().max(self.busy_until) + self.late());
            let reminder = self.newest.map(|_| self.policy.reminder_at(self.newest).as_nanos());
            [timer, reminder].into_iter().flatten().min()
        } else {
            self.woken = true;
            Some(self.busy_until)
        };
        net.agenda.set(self.me.slot(Role::Receive), next.map(|at| at.max(now + 1)));
        rejected
    }

    /// Sends the ack that is due, if one is; how many that were.
    fn report(&mut self, net: &mut Net) -> u64 {
        let mut reports = 0;
        while let Some(ack) = self.machine.poll_ack(stamp(net.now)) {
            rule!(net, reports == 0, "one report is enough", "another ack at once");
            if reports > 0 {
                break;
            }
            reports += 1;
            self.send_ack(net, &ack);
        }
        reports
    }

    /// Repeats the newest ack, if nothing was heard for long; how often.
    fn remind(&mut self, net: &mut Net) -> u64 {
        let due = self.policy.poll_reminder(stamp(net.now), self.newest);
        if due {
            let ack = self.machine.make_ack(stamp(net.now));
            self.send_ack(net, &ack);
        }
        u64::from(due)
    }

    fn send_ack(&mut self, net: &mut Net, ack: &Ack) {
        if self.has_streams {
            self.newest_ack = Some((ack.clone(), false));
        }
        let mut bytes = vec![0; Header::Ack.len()];
        Header::Ack.encode(self.next_ack, &mut bytes);
        ack.encode_within(self.machine.ack_len_max(), &mut bytes);
        net.send(Packet {
            flow: self.me.id,
            way: Way::Acks,
            hop: 0,
            ecn: Ecn::NotCapable,
            damaged: false,
            len: (bytes.len() + AEAD_TAG_LEN) as u32 + UDP_IP_OVERHEAD,
            cargo: Cargo::FobsAck { session: self.session, number: self.next_ack, bytes },
        });
        self.next_ack += 1;
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

    fn take_letters(&mut self, net: &mut Net, cut: &Cut) -> Vec<Option<(ChunkId, u8)>> {
        let mut rejected = Vec::new();
        while let Some(letter) = self.letters.pop_front() {
            match letter {
                Letter::Verdict { chunk, matches } => {
                    self.assembly.on_verdict(net, chunk, matches);
                    let verdict =
                        if matches { ChunkVerification::Verified } else { ChunkVerification::Mismatch };
                    if !matches {
                        self.delivered -= u64::from(cut.len(chunk));
                    }
                    match self.policy.handle_verdict(stamp(net.now), &mut self.machine, chunk, verdict) {
                        VerdictOutcome::Verified => {
                            self.verified += 1;
                            self.last_verified = Some(net.now);
                            self.on_lane_verified(net, chunk);
                        }
                        VerdictOutcome::Reject { attempt } => rejected.push(Some((chunk, attempt))),
                        VerdictOutcome::Hopeless { .. } => rejected.push(None),
                    }
                }
                Letter::Stored(chunk) => {
                    self.assembly.on_chunk_stored(net, chunk);
                    self.stored = chunk + 1;
                    self.stored_bytes += u64::from(cut.len(chunk));
                    if self.policy.handle_stored(&mut self.machine, chunk) == Stored::All {
                        self.writer.finish();
                        // Only the last sync is left, and it cannot fail.
                        self.start_writer(net);
                    }
                }
            }
        }
        rejected
    }

    /// Takes a datagram of `len` bytes that reached the socket at `at`.
    fn take(
        &mut self,
        net: &mut Net,
        config: &FobsConfig,
        cut: &Cut,
        (at, len): (Nanos, u16),
        datagram: &Datagram,
    ) {
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
        self.newest = Some(stamp(net.now));
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
            // It claims all that is missing.
            Honesty::ClaimsAllLosses => Some((self.expected - self.taken) as u32),
        };
        let socket = SocketNote { drops, merged: 1 };
        let meta = PacketMeta { number, arrived: stamp(arrived), len, ecn, socket };
        match header {
            Header::Data(header) => {
                let body = usize::from(datagram.body);
                let disposition = self.machine.handle_data(stamp(net.now), &meta, &header, body);
                self.store(net, (config, cut), &header, datagram, disposition);
            }
            Header::Probe => {
                let body = &datagram.header[PLAIN_HEADER_LEN..][..usize::from(datagram.body.min(1))];
                self.machine.handle_probe(stamp(net.now), &meta, AckRatio::from_probe(body))
            }
            Header::Ack | Header::Challenge | Header::Response => {
                net.breach("a sender sends data and probes", format!("packet {number}"))
            }
        }
    }

    fn store(
        &mut self,
        net: &mut Net,
        (config, cut): (&FobsConfig, &Cut),
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
        if let Some(complete_len) = completes {
            let len = cut.len_as(chunk, complete_len);
            self.assembly.on_complete(net, chunk, complete_len, len);
            self.on_lane_complete(chunk, len);
            let mismatches = self.policy.mismatches(chunk);
            let matches = config.mismatches.get(&chunk).is_none_or(|wanted| mismatches >= *wanted);
            self.writer.push(chunk, len, matches);
            let held = self.writer.chunks() as u32;
            let bounded = held <= config.receiver_chunks;
            rule!(net, bounded, "the receiver's memory is bounded", "{held} chunks held");
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

    pub(super) fn check_end(&mut self, net: &mut Net, config: &FobsConfig, cut: &Cut) {
        let (verified, chunks) = (self.verified, u64::from(cut.end()));
        rule!(net, verified == chunks, "complete means verified", "{verified} of {chunks} chunks");
        let (stored, delivered, total) = (self.stored_bytes, self.delivered, cut.total());
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
        figures.delivered = self.lane.as_ref().map_or(self.delivered, ReceiverLane::useful);
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
