//! The sending thread: gives buffers to the reader, paces packets, takes acks; the engine's `send` in virtual
//! time, with the same machine and the same policy.

use super::audit::Audit;
use super::kept::Trace;
use super::measured::{SenderMeasures, ThreadTime, Waiting, stood};
use super::observed::Observed;
use super::reading::Reading;
use super::{FobsConfig, Identity, LaneShared, Role};
use crate::check::{PacketLedger, rule};
use crate::flow::FlowFigures;
use crate::host::{Cpu, FullQueue, HostConfig, Socket};
use crate::net::Net;
use crate::object::Cut;
use crate::packet::{Cargo, Ecn, Packet, UDP_IP_OVERHEAD, Way};
use crate::rng::Rng;
use crate::time::{Nanos, stamp};
use fobs_diagnose::model::judge;
use fobs_proto::congestion::{Controller, Fixed, ModeChange};
use fobs_proto::recovery::BASE_DATAGRAM;
use fobs_proto::sender::{BURST_MAX, Body, PacketOut, Refusal, ScheduleKind, Sender, SenderConfig, Transmit};
use fobs_proto::session::{GRANTS_MAX, Rejection, SendPolicy, SendPolicyConfig, Side, Silence, Wait};
use fobs_proto::wire::{Ack, DATA_HEADER_LEN, DATA_OVERHEAD, Header, PLAIN_HEADER_LEN, decode_packet_number};
use fobs_proto::{ChunkId, Rate, Timestamp};
use std::time::Duration;

mod frames;
mod lane;

use lane::SenderLane;

#[derive(Debug)]
pub(super) struct Sending {
    me: Identity,
    machine: Sender,
    policy: SendPolicy,
    reading: Reading,
    host: HostConfig,
    cpu: Cpu,
    rng: Rng,
    acks: Socket<(u64, Vec<u8>)>,
    out: Vec<PacketOut>,
    chunks_max: u32,
    burst_max: usize,
    /// Chunks handed to the machine, and given back by it.
    pushed: ChunkId,
    freed: ChunkId,
    /// The thread is at work until then.
    busy_until: Nanos,
    /// The thread has been woken already.
    woken: bool,
    began: Option<Nanos>,
    expected_ack: u64,
    /// When the thread took the newest ack.
    newest_ack: Option<Timestamp>,
    /// When it took the newest one that came in a datagram.
    newest_datagram: Option<Timestamp>,
    damaged: u64,
    ledger: PacketLedger,
    audit: Audit,
    observed: Observed,
    waiting: Waiting,
    session: u32,
    /// What the transfer's next attempt may not repeat, where there may be one.
    trace: Option<Trace>,
    /// Where it is one of several lanes.
    lane: Option<SenderLane>,
}

impl Sending {
    pub(super) fn new(
        me: Identity,
        config: &FobsConfig,
        host: &HostConfig,
        (cpu_rng, rng): (Rng, Rng),
        shared: Option<LaneShared>,
    ) -> Sending {
        let (machine, policy, schedule) = make(me, config, shared);
        Sending {
            me,
            machine,
            policy,
            reading: Reading::default(),
            cpu: Cpu::new(host.cpu.clone(), cpu_rng),
            rng,
            acks: Socket::new(host.receive_buffer),
            host: host.clone(),
            out: Vec::new(),
            chunks_max: config.sender_chunks,
            burst_max: config.burst.unwrap_or(BURST_MAX).min(BURST_MAX) as usize,
            pushed: 0,
            freed: 0,
            busy_until: 0,
            woken: false,
            began: None,
            expected_ack: 0,
            newest_ack: None,
            newest_datagram: None,
            damaged: 0,
            ledger: PacketLedger::default(),
            audit: Audit::new(schedule == ScheduleKind::LossDriven, config.receiver_chunks),
            observed: Observed::default(),
            waiting: Waiting::default(),
            session: 0,
            trace: None,
            lane: config.seat.map(SenderLane::new),
        }
    }

    /// The attempt of a transfer that may have several: which one it is, and its account.
    pub(super) fn set_attempt(&mut self, session: u32, trace: Trace) {
        (self.session, self.trace) = (session, Some(trace));
    }

    /// What was sent in this attempt.
    pub(super) fn take_trace(&mut self) -> Option<Trace> {
        self.trace.take()
    }

    pub(super) fn start(&mut self, net: &mut Net, cut: &mut Cut) {
        // The session's set-up has crossed the empty path once.
        let answered = net.delay(self.me.id, Way::Data) + net.delay(self.me.id, Way::Acks);
        self.policy.recall(&mut self.machine, Some(Duration::from_nanos(answered)));
        self.grant(net, cut);
        self.wake_at(net, net.now);
    }

    /// Chunks below are verified by the receiver.
    pub(super) fn freed(&self) -> ChunkId {
        self.freed
    }

    /// The reader has filled a chunk.
    pub(super) fn on_read(&mut self, net: &mut Net, cut: &mut Cut) {
        self.reading.on_done();
        self.reading.start(net, self.me, &self.host, cut);
        self.wake_soon(net);
    }

    fn grant(&mut self, net: &mut Net, cut: &mut Cut) {
        self.take_tasks(net, cut);
        // A reader that has read the final chunk takes no more buffers.
        while self.lane.is_none()
            && !cut.is_done()
            && let Some(data_max) = self.policy.next_grant(&self.machine)
        {
            self.policy.handle_granted();
            self.reading.grant(data_max);
        }
        self.reading.start(net, self.me, &self.host, cut);
    }

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

    /// The receiver reports that a chunk does not verify.
    pub(super) fn on_rejected(&mut self, net: &mut Net, chunk: ChunkId, attempt: u8) -> Rejection {
        let rejection = self.policy.handle_rejected(&mut self.machine, chunk, attempt);
        self.wake_soon(net);
        rejection
    }

    /// Asks the policy for how long the receiver has been silent. A thread that is off its CPU cannot ask,
    /// and one with acks to take does that first.
    pub(super) fn check_silence(&mut self, now: Nanos) -> Silence {
        if self.cpu.ready(now) > now || !self.acks.is_empty() {
            return Silence::Short;
        }
        self.policy.check_silence(stamp(now), &self.machine, self.newest_ack)
    }

    /// The thread runs: acks, chunks, timers, one burst.
    pub(super) fn on_due(&mut self, net: &mut Net, cut: &mut Cut) {
        let now = net.now;
        if now < self.busy_until {
            // Another lane has woken it.
            return self.wake_at(net, self.busy_until);
        }
        self.waiting.end(now);
        let ready = self.cpu.ready(now);
        if ready > now {
            return self.wake_at(net, ready);
        }
        self.woken = false;
        let acks = self.take_acks(net);
        self.take_chunks(net, cut);
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
        let next = self.put_out(net, cut);
        let sent = self.ledger.next_number() - sent_before;
        self.busy_until = self.cpu.run(now, self.host.packet_cost * (acks + sent));
        let next = match next {
            Next::Again => self.busy_until,
            Next::At(at, why) => {
                self.waiting.begin(why, self.busy_until);
                at.max(self.busy_until).saturating_add(self.late())
            }
        };
        let timer = self.machine.poll_timeout().map(|at| at.as_nanos().max(self.busy_until));
        let next = timer.map_or(next, |at| next.min(at));
        net.agenda.set(self.me.slot(Role::Send), (next < Nanos::MAX).then_some(next.max(now + 1)));
        self.observed.take(&mut self.machine);
        let in_flight = self.machine.bytes_in_flight();
        self.ledger.check(net, in_flight);
    }

    fn put_out(&mut self, net: &mut Net, cut: &Cut) -> Next {
        let now = net.now;
        let waits = self.host.full_queue == FullQueue::Waits;
        if let Some(at) = net.room_at(self.me.id, Way::Data, self.host.send_buffer).filter(|_| waits) {
            return Next::At(at, Wait::Socket);
        }
        let mut out = std::mem::take(&mut self.out);
        let wanted = self.machine.poll_transmit(stamp(now), &mut out);
        let next = match wanted {
            Transmit::Burst => {
                self.emit(net, cut, &out);
                Next::Again
            }
            Transmit::WaitUntil(at) => {
                rule!(net, at > stamp(now), "no wait for the past", "{at:?}");
                Next::At(at.as_nanos().max(now + self.host.pace_grain), self.policy.wait(&self.machine))
            }
            Transmit::Wait => Next::At(Nanos::MAX, self.policy.wait(&self.machine)),
        };
        self.out = out;
        next
    }

    fn emit(&mut self, net: &mut Net, cut: &Cut, out: &[PacketOut]) {
        self.audit.check_burst(net, out, self.burst_max);
        for packet in out {
            let len = packet.datagram_len();
            self.ledger.on_sent(net, packet.number, len as u16);
            let mut header = [0; DATA_HEADER_LEN];
            packet.header.encode(packet.number, &mut header);
            if let Body::Probe { ack_ratio, .. } = packet.body {
                header[PLAIN_HEADER_LEN] = ack_ratio.exponent();
            }
            let Some((offset, body)) = self.audit.check_packet(net, cut, self.pushed, packet) else { return };
            if let Some(trace) = &mut self.trace {
                trace.on_sent(net, cut, packet);
            }
            if packet.header != Header::Probe {
                self.began.get_or_insert(net.now);
            }
            let on_wire = len as u32 + UDP_IP_OVERHEAD;
            let full =
                self.host.full_queue == FullQueue::Refuses && !net.fits(self.me.id, Way::Data, on_wire);
            let too_large = self.host.device.filter(|device| on_wire > device.mtu).map(|device| device.says);
            if let Some(why) = too_large.or(full.then_some(Refusal::Room)) {
                self.machine.handle_refused(stamp(net.now), packet.number, why);
                continue;
            }
            net.send(Packet {
                flow: self.me.id,
                way: Way::Data,
                hop: 0,
                ecn: Ecn::Capable,
                damaged: false,
                len: len as u32 + UDP_IP_OVERHEAD,
                cargo: Cargo::Fobs { session: self.session, number: packet.number, header, offset, body },
            });
        }
    }

    /// Takes the acks that have come; their number.
    fn take_acks(&mut self, net: &mut Net) -> u64 {
        let mut taken = 0;
        while let Some((_, _, (number, bytes))) = self.acks.pop() {
            taken += 1;
            self.newest_ack = Some(stamp(net.now));
            self.newest_datagram = self.newest_ack;
            let Some((truncated, ack)) = decode(&bytes) else {
                net.breach("our own acks can be read", format!("ack {number}"));
                continue;
            };
            let decoded = decode_packet_number(truncated, self.expected_ack);
            rule!(net, decoded == number, "24 bits are enough for a packet number", "{decoded} for {number}");
            self.expected_ack = self.expected_ack.max(number + 1);
            self.audit.on_credit(ack.chunk_limit);
            for &(low, high) in &ack.ranges {
                self.ledger.on_acked(net, low, high);
                if let Some(trace) = &mut self.trace {
                    trace.on_acked(low, high);
                }
            }
            self.machine.handle_ack(stamp(net.now), &ack);
        }
        taken
    }

    fn take_chunks(&mut self, net: &mut Net, cut: &mut Cut) {
        while let Some(chunk) = self.policy.poll_freed(&mut self.machine) {
            rule!(net, chunk == self.freed, "chunks are freed in order", "{chunk} before {}", self.freed);
            self.freed += 1;
            self.audit.on_freed(chunk);
            self.on_lane_freed(net);
        }
        while let Some(chunk) = self.reading.take() {
            let number = self.policy.handle_chunk(stamp(net.now), &mut self.machine, chunk, cut.size());
            self.on_lane_read(net, cut, number, chunk);
            self.pushed += 1;
        }
        self.grant(net, cut);
        self.audit.check_memory(net, self.policy.held(), self.policy.granted(), self.chunks_max);
    }

    /// The thread has work; if it sleeps, it wakes.
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

    /// Whether the sender knows that everything is verified, and has nothing in flight.
    pub(super) fn is_silent(&self) -> bool {
        let in_flight = self.machine.route().has_datagrams() && self.machine.bytes_in_flight() > 0;
        self.machine.is_complete() && !in_flight
    }

    pub(super) fn check_end(&mut self, net: &mut Net, cut: &mut Cut) {
        self.take_chunks(net, cut);
        let (freed, chunks) = (self.freed, cut.end());
        rule!(net, freed == chunks && cut.is_done(), "every chunk is given back", "{freed} of {chunks}");
        self.audit.check_end(net, &self.machine.stats());
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
        figures.framed = stats.packets_framed;
        figures.repeated = self.audit.repeated();
        figures.taught = self.observed.taught;
        figures.judged = self.observed.judged;
        figures.lost = stats.packets_lost.saturating_sub(stats.packets_late);
        figures.spared = stats.packets_spared;
        figures.rtt_min = self.machine.rtt().min_ever().map(nanos);
        figures.rtt = self.machine.rtt().latest().map(nanos);
        figures.pacing = controller.pacing_rate().map(|rate| rate.as_bytes().saturating_mul(8));
        figures.window = Some(controller.congestion_window()).filter(|window| *window < u64::MAX);
        figures.datagram = self.machine.payload_size() + DATA_OVERHEAD as u16;
        figures.damaged += self.damaged;
        figures.datagram = self.machine.payload_size() + DATA_OVERHEAD as u16;
    }

    /// What it measures of itself.
    pub(super) fn measures(&self, now: Nanos) -> SenderMeasures {
        let (delays, rtt) = (self.machine.delays(), self.machine.rtt());
        SenderMeasures {
            waits: self.waiting.times(now),
            thread: ThreadTime {
                ran: self.cpu.ran(),
                off: self.cpu.off(),
                stood: stood(&self.host.cpu, now),
            },
            reader: self.reading.worked(),
            stats: self.machine.stats(),
            rtt: (rtt.latest(), rtt.min_ever()),
            delays: (delays.rtt(stamp(now)), delays.forward(stamp(now))),
            pacing: self.machine.pacing_rate().map(|rate| rate.as_bytes()),
            window: self.machine.controller().congestion_window(),
            state: self.machine.controller().state(),
        }
    }

    pub(super) fn modes(&self) -> &[ModeChange] {
        &self.observed.modes
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

/// The controller of a flow.
pub(crate) fn controller_of(config: &FobsConfig) -> Box<dyn Controller> {
    // `fixed` without a rate, which no scenario can configure, crawls.
    let crawls = || Box::new(Fixed::new(Rate::ZERO)) as Box<dyn Controller>;
    let made = config.controller.controller_tuned(first_datagram(config), config.priority, &config.params);
    made.unwrap_or_else(crawls)
}

/// Datagram bytes of its first packets.
pub(crate) fn first_datagram(config: &FobsConfig) -> u16 {
    config.payload.map_or(BASE_DATAGRAM, |payload| payload + DATA_OVERHEAD as u16)
}

/// The machine of a flow's sender, its policy and its schedule.
fn make(me: Identity, config: &FobsConfig, shared: Option<LaneShared>) -> (Sender, SendPolicy, ScheduleKind) {
    let (controller, limit) = shared.map(|shared| (shared.controller, shared.limit)).unzip();
    let (start, priority) = (stamp(me.start), config.priority);
    let (own_schedule, own_burst) = config.controller.schedule();
    let schedule = if config.circular { ScheduleKind::Circular } else { own_schedule };
    let sender = SenderConfig {
        controller: controller.unwrap_or_else(|| controller_of(config)),
        judge: judge(config.loss_cause),
        schedule,
        rate_limit: config.rate_limit.map(Rate::bits_per_second),
        payload_size: config.payload,
        ip_overhead: UDP_IP_OVERHEAD as u16,
        burst: config.burst.or(own_burst),
        chunk_limit: config.receiver_chunks,
        chunks_max: config.sender_chunks as usize,
        ack_delay_max: Duration::from_nanos(config.ack_delay),
    };
    let mut machine = Sender::new(start, sender);
    if let Some(limit) = limit {
        machine.share_rate_limit(limit);
    }
    if let Some(deadline) = config.deadline {
        machine.pursue(start, stamp(me.start.saturating_add(deadline)), priority);
    }
    let policy = SendPolicy::new(SendPolicyConfig {
        began: start,
        side: Side::Client,
        chunks_max: config.sender_chunks,
        grants_max: GRANTS_MAX,
        timeout: Duration::from_nanos(config.timeout),
        history: config.history.clone(),
    });
    (machine, policy, schedule)
}

/// The thread's next step.
enum Next {
    /// It runs again as soon as this turn's work is done.
    Again,
    /// It waits for this until then, or until it is woken.
    At(Nanos, Wait),
}

fn decode(bytes: &[u8]) -> Option<(u32, Ack)> {
    let (header, truncated) = Header::decode(bytes).ok()?;
    let ack = Ack::decode(bytes.get(header.len()..)?).ok()?;
    (header == Header::Ack).then_some((truncated, ack))
}
