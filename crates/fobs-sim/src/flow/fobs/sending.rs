//! The sending host: reads chunks ahead, paces packets, hears acks; the engine's `reader` and `send` in virtual time.

use super::{FobsConfig, Identity, Role};
use crate::check::{Ledger, rule};
use crate::flow::{FlowFigures, Judged, Taught};
use crate::host::{Cpu, HostConfig, Socket, work_time};
use crate::net::Net;
use crate::packet::{Cargo, Ecn, Packet, UDP_IP_OVERHEAD, Way};
use crate::rng::Rng;
use crate::time::{Nanos, stamp};
use fobs_diagnose::model::judge;
use fobs_proto::congestion::{Controller, Fixed, ModeChange};
use fobs_proto::loss_cause::Verdict;
use fobs_proto::recovery::BASE_DATAGRAM;
use fobs_proto::sender::{
    Body, Extent, PacketOut, ScheduleKind, Sender, SenderConfig, SenderStats, Transmit,
};
use fobs_proto::wire::{
    ATTEMPT_MAX, Ack, DATA_HEADER_LEN, DATA_OVERHEAD, DataHeader, Header, decode_packet_number,
};
use fobs_proto::{ChunkId, Rate};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Empty buffers at the reader: one to fill while the last one is handed over.
const GRANTS_MAX: u32 = 2;
/// Chunks beyond three congestion windows, for the disks.
const CHUNKS_FOR_DISKS: u64 = 6;
/// Longest burst: 44 packets are what one GSO super-packet holds.
const BURST_MAX: usize = 44;

/// Changes of a controller's way of sending that are kept; of more, the first.
const MODES_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Sending {
    me: Identity,
    machine: Sender,
    host: HostConfig,
    cpu: Cpu,
    rng: Rng,
    acks: Socket<(u64, Vec<u8>)>,
    out: Vec<PacketOut>,
    loss_driven: bool,
    /// Chunks handed to the machine, and given back by it.
    pushed: ChunkId,
    freed: ChunkId,
    /// Bytes of the chunks that were not handed to it.
    left: u64,
    /// Chunks that the reader may fill, those that are filled, and whether it is at one now.
    granted: u32,
    filled: u32,
    reading: bool,
    /// The thread is at work until then.
    busy_until: Nanos,
    /// Something has woken the thread already.
    woken: bool,
    began: Option<Nanos>,
    expected_ack: u64,
    credit_told: ChunkId,
    damaged: u64,
    ledger: Ledger,
    /// Layouts beyond the first that packets were seen of, and their packets.
    layouts: BTreeSet<(ChunkId, u8)>,
    /// How far each chunk in hand has been sent for the first time, bytes; and data packets that were not that.
    sent_below: HashMap<ChunkId, u32>,
    repeated: u64,
    taught: Taught,
    judged: Judged,
    relaid: u64,
    /// Changes of the controller's way of sending, the first of them.
    modes: Vec<ModeChange>,
}

impl Sending {
    pub(super) fn new(
        me: Identity,
        config: &FobsConfig,
        host: &HostConfig,
        cpu_rng: Rng,
        rng: Rng,
    ) -> Sending {
        let datagram = config.payload.map_or(BASE_DATAGRAM, |payload| payload + DATA_OVERHEAD as u16);
        let (own_schedule, own_burst) = config.controller.schedule();
        let schedule = if config.circular { ScheduleKind::Circular } else { own_schedule };
        // `fixed` without a rate, which no scenario can say, is one that crawls.
        let crawls = || Box::new(Fixed::new(Rate::ZERO)) as Box<dyn Controller>;
        let mut machine = Sender::new(
            stamp(me.start),
            SenderConfig {
                controller: config
                    .controller
                    .controller_tuned(datagram, config.priority, &config.params)
                    .unwrap_or_else(crawls),
                judge: judge(config.loss_cause),
                schedule,
                rate_limit: config.rate_limit.map(Rate::bits_per_second),
                payload_size: config.payload,
                ip_overhead: UDP_IP_OVERHEAD as u16,
                burst: config.burst.or(own_burst),
                chunk_limit: config.receiver_chunks,
                chunks_max: config.sender_chunks as usize,
                ack_delay_max: Duration::from_nanos(config.ack_delay),
            },
        );
        machine.recall(&config.history);
        if let Some(deadline) = config.deadline {
            machine.pursue(stamp(me.start), stamp(me.start.saturating_add(deadline)), config.priority);
            machine.expect(stamp(me.start), config.object.total(), Extent::Whole);
        }
        Sending {
            me,
            left: config.object.total(),
            machine,
            cpu: Cpu::new(host.cpu.clone(), cpu_rng),
            rng,
            acks: Socket::new(host.receive_buffer),
            host: host.clone(),
            out: Vec::new(),
            loss_driven: schedule == ScheduleKind::LossDriven,
            pushed: 0,
            freed: 0,
            granted: 0,
            filled: 0,
            reading: false,
            busy_until: 0,
            woken: false,
            began: None,
            expected_ack: 0,
            credit_told: config.receiver_chunks,
            damaged: 0,
            ledger: Ledger::default(),
            layouts: BTreeSet::new(),
            sent_below: HashMap::new(),
            repeated: 0,
            taught: Taught::default(),
            judged: Judged::default(),
            relaid: 0,
            modes: Vec::new(),
        }
    }

    pub(super) fn start(&mut self, net: &mut Net, config: &FobsConfig) {
        self.grant(net, config);
        self.wake_at(net, net.now);
    }

    // ---- the reading thread ----

    /// The reader has filled a chunk.
    pub(super) fn on_read(&mut self, net: &mut Net, config: &FobsConfig) {
        self.reading = false;
        self.granted -= 1;
        self.filled += 1;
        self.read_next(net, config);
        self.wake_soon(net);
    }

    fn grant(&mut self, net: &mut Net, config: &FobsConfig) {
        let windows = self.machine.controller().congestion_window().saturating_mul(3) / super::CHUNK_DATA;
        let window = windows.saturating_add(CHUNKS_FOR_DISKS).min(u64::from(config.sender_chunks));
        loop {
            let ahead = self.granted + self.filled;
            let taken = u64::from(self.pushed) + u64::from(ahead);
            let in_hand = taken - u64::from(self.freed);
            if ahead >= GRANTS_MAX
                || in_hand >= window
                || taken >= config.object.chunks()
                || !self.machine.wants_chunk()
            {
                break;
            }
            self.granted += 1;
        }
        self.read_next(net, config);
    }

    fn read_next(&mut self, net: &mut Net, config: &FobsConfig) {
        if self.reading || self.granted == 0 {
            return;
        }
        self.reading = true;
        let len = u64::from(config.object.len(self.pushed + self.filled));
        let time = work_time(len, self.host.disk.rate) + work_time(len, self.host.hash_rate);
        net.agenda.set(self.me.slot(Role::Read), Some(net.now + time));
    }

    // ---- the sending thread ----

    /// An ack reaches the host.
    pub(super) fn on_ack_datagram(
        &mut self,
        net: &mut Net,
        number: u64,
        bytes: Vec<u8>,
        len: u32,
        damaged: bool,
    ) {
        if damaged {
            self.damaged += 1;
        } else if self.acks.push(net.now, len, (number, bytes)) {
            self.wake_soon(net);
        }
    }

    /// The receiver found that a chunk does not verify. False if it was tried too often.
    pub(super) fn on_rejected(&mut self, net: &mut Net, chunk: ChunkId, attempt: u8) -> bool {
        let again = self.machine.handle_rejected(chunk, attempt);
        self.wake_soon(net);
        again
    }

    /// The thread has its CPU and looks at what there is: one burst, then again.
    pub(super) fn on_due(&mut self, net: &mut Net, config: &FobsConfig) {
        let now = net.now;
        let ready = self.cpu.ready(now);
        if ready > now {
            return self.wake_at(net, ready);
        }
        self.woken = false;
        let heard = self.hear_acks(net);
        self.take_chunks(net, config);
        if self.machine.poll_timeout().is_some_and(|at| at <= stamp(now)) {
            self.machine.handle_timeout(stamp(now));
            let again = self.machine.poll_timeout();
            rule!(
                net,
                again.is_none_or(|at| at > stamp(now)),
                "a handled timer is not due again",
                "{again:?}"
            );
        }
        let sent_before = self.ledger.next_number();
        let next = self.put_out(net, config);
        let sent = self.ledger.next_number() - sent_before;
        self.busy_until = self.cpu.run(now, self.host.packet_cost * (heard + sent));
        let next = match next {
            Next::Again => self.busy_until,
            Next::At(at) => at.max(self.busy_until).saturating_add(self.late()),
        };
        let timer = self.machine.poll_timeout().map(|at| at.as_nanos().max(self.busy_until));
        let next = timer.map_or(next, |at| next.min(at));
        net.agenda.set(self.me.slot(Role::Send), (next < Nanos::MAX).then_some(next.max(now + 1)));
        while let Some(change) = self.machine.poll_mode_change() {
            if self.modes.len() < MODES_MAX {
                self.modes.push(change);
            }
        }
        let in_flight = self.machine.bytes_in_flight();
        self.ledger.check(net, in_flight);
    }

    fn put_out(&mut self, net: &mut Net, config: &FobsConfig) -> Next {
        let now = net.now;
        if let Some(at) = net.room_at(self.me.id, Way::Data, self.host.send_buffer) {
            return Next::At(at);
        }
        let mut out = std::mem::take(&mut self.out);
        let wanted = self.machine.poll_transmit(stamp(now), &mut out);
        let next = match wanted {
            Transmit::Burst => {
                self.emit(net, config, &out);
                Next::Again
            }
            Transmit::WaitUntil(at) => {
                rule!(net, at > stamp(now), "nobody waits for the past", "{at:?}");
                Next::At(at.as_nanos().max(now + self.host.pace_grain))
            }
            Transmit::Wait => Next::At(Nanos::MAX),
        };
        self.out = out;
        next
    }

    fn emit(&mut self, net: &mut Net, config: &FobsConfig, out: &[PacketOut]) {
        let burst = config.burst.map_or(BURST_MAX, |burst| burst as usize).min(BURST_MAX);
        rule!(net, !out.is_empty() && out.len() <= burst, "a burst has its length", "{} packets", out.len());
        let first = out.first().map_or(0, PacketOut::datagram_len);
        for (i, packet) in out.iter().enumerate() {
            let len = packet.datagram_len();
            let cut = len == first || i + 1 == out.len() && len < first;
            rule!(net, cut, "GSO can cut a burst", "{len} bytes after {first}");
            self.ledger.on_sent(net, packet.number, len as u16);
            let mut header = [0; DATA_HEADER_LEN];
            packet.header.encode(packet.number, &mut header);
            let (offset, body) = match (packet.body, packet.header) {
                (Body::Chunk { chunk, offset, len }, Header::Data(data)) => {
                    self.check_piece(net, config, &data, (chunk, offset, len));
                    self.began.get_or_insert(net.now);
                    (offset, len)
                }
                (Body::Padding { len }, Header::Probe) => (0, len),
                (body, header) => {
                    net.breach("header and body agree", format!("{header:?} and {body:?}"));
                    return;
                }
            };
            net.send(Packet {
                flow: self.me.id,
                way: Way::Data,
                hop: 0,
                ecn: Ecn::Capable,
                damaged: false,
                len: len as u32 + UDP_IP_OVERHEAD,
                cargo: Cargo::Fobs { number: packet.number, header, offset, body },
            });
        }
    }

    fn check_piece(
        &mut self,
        net: &mut Net,
        config: &FobsConfig,
        data: &DataHeader,
        piece: (ChunkId, u32, u16),
    ) {
        let (chunk, offset, len) = piece;
        let chunk_len = config.object.len(chunk);
        let in_place = chunk == data.chunk
            && offset == u32::from(data.packet_index) * u32::from(data.payload_size)
            && data.last == (offset + u32::from(len) == chunk_len)
            && data.final_chunk == config.object.is_final(chunk)
            && data.attempt <= ATTEMPT_MAX;
        rule!(net, in_place, "headers say where data belongs", "{data:?}, {offset}+{len} of {chunk_len}");
        let (pushed, credit) = (self.pushed, self.credit_told);
        rule!(
            net,
            chunk < pushed && chunk < credit,
            "nothing beyond credit",
            "{chunk} of {pushed}, {credit}"
        );
        let below = self.sent_below.entry(chunk).or_insert(0);
        self.repeated += u64::from(offset < *below);
        *below = (*below).max(offset + u32::from(len));
        if data.attempt > 0 && self.layouts.insert((chunk, data.attempt)) {
            self.relaid += u64::from(chunk_len.div_ceil(u32::from(data.payload_size)));
        }
    }

    /// Takes what has come; how many acks.
    fn hear_acks(&mut self, net: &mut Net) -> u64 {
        let mut heard = 0;
        while let Some((_, _, (number, bytes))) = self.acks.pop() {
            heard += 1;
            let Some((truncated, ack)) = decode(&bytes) else {
                net.breach("our own acks can be read", format!("ack {number}"));
                continue;
            };
            let decoded = decode_packet_number(truncated, self.expected_ack);
            rule!(net, decoded == number, "24 bits are enough for a packet number", "{decoded} for {number}");
            self.expected_ack = self.expected_ack.max(number + 1);
            self.credit_told = self.credit_told.max(ack.chunk_limit);
            for &(low, high) in &ack.ranges {
                self.ledger.on_acked(net, low, high);
            }
            self.machine.handle_ack(stamp(net.now), &ack);
        }
        while let Some(lesson) = self.machine.poll_lesson() {
            match lesson.cause {
                Verdict::Receiver => self.taught.receiver += 1,
                Verdict::Network | Verdict::Inconclusive => self.taught.network += 1,
            }
        }
        while let Some(report) = self.machine.poll_loss_report() {
            // Of fewer losses no pattern is asked: where nothing counts they are the network's without a judgement.
            if report.evidence.pattern.is_some() {
                match report.verdict {
                    Verdict::Receiver => self.judged.receiver += 1,
                    Verdict::Network => self.judged.network += 1,
                    Verdict::Inconclusive => self.judged.inconclusive += 1,
                }
            }
        }
        heard
    }

    fn take_chunks(&mut self, net: &mut Net, config: &FobsConfig) {
        while let Some(chunk) = self.machine.poll_freed() {
            rule!(net, chunk == self.freed, "chunks are freed in order", "{chunk} before {}", self.freed);
            self.freed += 1;
            self.sent_below.remove(&chunk);
        }
        // What was read is handed over even where it is not wanted now: the reader was told that it would be.
        while self.filled > 0 {
            self.filled -= 1;
            let len = config.object.len(self.pushed);
            self.machine.push_chunk(len, config.object.is_final(self.pushed));
            self.pushed += 1;
            self.left = self.left.saturating_sub(u64::from(len));
            self.machine.expect(stamp(net.now), self.left, Extent::Whole);
        }
        let in_hand = self.pushed - self.freed;
        rule!(
            net,
            in_hand <= config.sender_chunks,
            "the sender's memory is bounded",
            "{in_hand} chunks in hand"
        );
        self.grant(net, config);
    }

    /// The thread has something to do; if it sleeps it wakes.
    fn wake_soon(&mut self, net: &mut Net) {
        if !self.woken {
            self.woken = true;
            let at = net.now.max(self.busy_until) + self.late();
            net.agenda.hasten(self.me.slot(Role::Send), at);
        }
    }

    fn wake_at(&mut self, net: &mut Net, at: Nanos) {
        net.agenda.set(self.me.slot(Role::Send), Some(at));
    }

    fn late(&mut self) -> Nanos {
        let (soonest, latest) = self.host.wake;
        if latest > 0 { self.rng.range(soonest, latest) } else { 0 }
    }

    // ---- the end ----

    /// Whether the sender knows that everything is verified, and has nothing on its way.
    pub(super) fn is_silent(&self) -> bool {
        self.machine.is_complete() && self.machine.bytes_in_flight() == 0
    }

    pub(super) fn check_end(&mut self, net: &mut Net, config: &FobsConfig) {
        self.take_chunks(net, config);
        let (freed, chunks) = (u64::from(self.freed), config.object.chunks());
        rule!(net, freed == chunks, "every chunk is given back", "{freed} of {chunks}");
        let SenderStats {
            packets_needed, packets_sent, packets_lost, packets_refused, packets_copied, ..
        } = self.machine.stats();
        let excused = packets_needed + self.relaid + packets_lost + packets_refused + packets_copied;
        let waste_has_causes = !self.loss_driven || packets_sent <= excused;
        rule!(net, waste_has_causes, "waste has its causes", "{packets_sent} sent, {excused} excused");
    }

    pub(super) fn clear(&mut self) {
        self.acks.clear();
    }

    pub(super) fn calm(&mut self, net: &mut Net) {
        self.cpu.calm();
        if net.agenda.next_of(self.me.slot(Role::Send)).is_some() {
            net.agenda.hasten(self.me.slot(Role::Send), net.now.max(self.busy_until));
        }
    }

    pub(super) fn fill(&self, figures: &mut FlowFigures) {
        let (stats, controller) = (self.machine.stats(), self.machine.controller());
        let nanos = |d: Duration| d.as_nanos() as Nanos;
        figures.began = self.began;
        figures.sent = stats.packets_sent;
        figures.repeated = self.repeated;
        figures.taught = self.taught;
        figures.judged = self.judged;
        figures.lost = stats.packets_lost.saturating_sub(stats.packets_late);
        figures.spared = stats.packets_spared;
        figures.rtt_min = self.machine.rtt().min_ever().map(nanos);
        figures.rtt = self.machine.rtt().latest().map(nanos);
        figures.pacing = controller.pacing_rate().map(|rate| rate.as_bytes().saturating_mul(8));
        figures.window = Some(controller.congestion_window()).filter(|window| *window < u64::MAX);
        figures.damaged += self.damaged;
    }

    pub(super) fn modes(&self) -> &[ModeChange] {
        &self.modes
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "sender: {} {} at {:?}, {} bytes in flight, {} of {} chunks freed, {:?}",
            self.machine.controller().name(),
            self.machine.controller().state(),
            self.machine.controller().pacing_rate(),
            self.machine.bytes_in_flight(),
            self.freed,
            self.pushed,
            self.machine.stats(),
        )
    }
}

/// What the thread does next.
enum Next {
    /// Looks again as soon as it is done.
    Again,
    /// Sleeps until then, or until something comes.
    At(Nanos),
}

fn decode(bytes: &[u8]) -> Option<(u32, Ack)> {
    let (header, truncated) = Header::decode(bytes).ok()?;
    let ack = Ack::decode(bytes.get(header.len()..)?).ok()?;
    (header == Header::Ack).then_some((truncated, ack))
}
