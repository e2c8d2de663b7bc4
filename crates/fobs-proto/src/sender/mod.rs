//! The sending machine: decides which packet leaves when (protocol 5).
//!
//! A driver hands it chunks ([`Sender::push_chunk`]), acks ([`Sender::handle_ack`]) and time
//! ([`Sender::handle_timeout`]), and asks for bursts ([`Sender::poll_transmit`]), for the next deadline
//! ([`Sender::poll_timeout`]) and for chunks whose memory is free again ([`Sender::poll_freed`]).
//!
//! ```text
//!   flight       the object's packets: supply (chunks, credit), schedule (order), transmissions, path MTU
//!   burst        how many of them leave together
//!   rate, rounds what acks measure: delivery rate, round trips
//!   attribution  whose losses they are; drain: a slow receiver's rate; lessons: windows of known cause
//!   timers       the probe timeout
//!   way_back     how rare acks should be, and the room that those held back take
//!   local        a local queue's rate
//!   pace         which of several rates applies, and when the next burst may leave
//!   deadline     what a deadline needs
//!   acks         what an ack says, by which way it came, and what the controller hears of it
//!   moved        a peer that changes its address
//!   route        by which way packets leave: datagrams, frames on streams, or both
//!   frames       packets that leave in frames; carrier: which way has a packet now
//! ```

mod acks;
mod again;
mod attribution;
mod burst;
mod carrier;
mod chunk;
mod config;
mod deadline;
mod drain;
mod flight;
mod frames;
mod greeting;
mod lesson_cutter;
mod limit;
mod local;
mod losses;
mod moved;
mod opening;
mod pace;
mod packet;
mod rate;
mod rounds;
mod route;
mod schedule;
mod stats;
mod steer;
mod supply;
mod tally;
mod timers;
mod way_back;

pub use config::{BURST_BYTES_MAX, BURST_MAX, SenderConfig};
pub use deadline::Extent;
pub use frames::{FrameOut, FramesOutstanding, TransmitFrame};
pub use limit::SendLimit;
pub use local::Refusal;
pub use packet::{Body, PacketOut, Transmit};
pub use route::Route;
pub use stats::SenderStats;

pub use crate::order::ScheduleKind;

use crate::congestion::{BurstSent, Controller, ModeChange, PathHistory, Priority};
use crate::loss_cause::{Lesson, LossReport};
use crate::object::{CHUNK_LEN_MAX, PAYLOAD_MAX, PAYLOAD_MIN};
use crate::recovery::{Delays, InFlight, Plpmtu, Rtt};
use crate::wire::DATA_OVERHEAD;
use crate::{ChunkId, PacketNumber, Rate, Timestamp};
use attribution::Attribution;
use burst::{Budget, Filling};
use carrier::Carrier;
use deadline::Deadline;
use flight::Flight;
use frames::Frames;
use local::LocalLimit;
use pace::Pace;
use rate::RateSampler;
use rounds::Rounds;
use schedule::{Schedule, copy_delay};
use std::time::Duration;
use supply::Supply;
use timers::{Expiry, ProbeTimeout};
use way_back::WayBack;

/// The machine.
#[derive(Debug)]
pub struct Sender {
    controller: Box<dyn Controller>,
    flight: Flight,
    rtt: Rtt,
    delays: Delays,
    rate: RateSampler,
    rounds: Rounds,
    attribution: Attribution,
    probe_timeout: ProbeTimeout,
    pace: Pace,
    local: LocalLimit,
    /// The local host has refused data since data was last acknowledged.
    refused: bool,
    /// A packet has arrived that is larger than what the size falls back to.
    large_arrived: bool,
    /// Data waits for the first answer.
    greets: bool,
    frames: Frames,
    deadline: Option<Deadline>,
    limit: SendLimit,
    burst: u32,
    way_back: WayBack,
    /// Until then, acks that come as datagrams speak for datagrams alone.
    datagram_acks_until: Timestamp,
}

impl Sender {
    /// A sender whose first packet may leave at `now`.
    pub fn new(now: Timestamp, config: SenderConfig) -> Sender {
        let payload_size = config.payload_size.map(|n| n.clamp(PAYLOAD_MIN, PAYLOAD_MAX));
        let plpmtu = match payload_size {
            Some(payload) => Plpmtu::fixed(payload + DATA_OVERHEAD as u16),
            None => Plpmtu::new(config.ip_overhead),
        };
        Sender {
            controller: config.controller,
            flight: Flight {
                supply: Supply::new(config.chunks_max, config.chunk_limit),
                schedule: Schedule::new(config.schedule),
                sent: InFlight::default(),
                plpmtu,
                stats: SenderStats::default(),
            },
            rtt: Rtt::default(),
            delays: Delays::default(),
            rate: RateSampler::default(),
            rounds: Rounds::default(),
            attribution: Attribution::new(config.judge),
            probe_timeout: ProbeTimeout::new(now),
            pace: Pace::new(now, config.rate_limit),
            local: LocalLimit::new(now),
            refused: false,
            large_arrived: false,
            greets: false,
            frames: Frames::new(now),
            deadline: None,
            limit: SendLimit::default(),
            burst: config.burst.unwrap_or(BURST_MAX).clamp(1, BURST_MAX),
            way_back: WayBack::new(now, config.ack_delay_max),
            // The first comes within a probe timeout, or a stream's may count.
            datagram_acks_until: now + Rtt::default().probe_timeout(config.ack_delay_max),
        }
    }

    /// Whether another chunk should be read now.
    pub fn wants_chunk(&self) -> bool {
        self.flight.supply.wants_chunk()
    }

    /// The next chunk of the object was read: `len` bytes (1 to [`crate::object::CHUNK_LEN_MAX`]). Its
    /// number.
    pub fn push_chunk(&mut self, len: u32, is_final: bool) -> ChunkId {
        debug_assert!((1..=CHUNK_LEN_MAX).contains(&len), "a chunk of {len} bytes");
        self.flight.supply.push(len, is_final)
    }

    /// A chunk that the receiver has verified and whose memory may be used again.
    pub fn poll_freed(&mut self) -> Option<ChunkId> {
        self.flight.supply.pop_freed()
    }

    /// Whether the receiver has verified every chunk of the object.
    pub fn is_complete(&self) -> bool {
        self.flight.supply.is_verified()
    }

    /// Counters.
    pub fn stats(&self) -> SenderStats {
        self.flight.stats
    }

    /// The round-trip estimator.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Delays of the last stretches of time.
    pub fn delays(&self) -> &Delays {
        &self.delays
    }

    /// Sets a deadline: the object is to be complete at `at`, and the sender claims no more of the path than
    /// that takes, at most `most`. Only `auto` supports that. The driver reports what is left with
    /// [`expect`](Self::expect).
    pub fn pursue(&mut self, now: Timestamp, at: Timestamp, most: Priority) {
        self.deadline = Some(Deadline::new(now, at, most));
        self.claim(now, 0, 0);
    }

    /// The driver expects `beyond` bytes in chunks that are not handed over yet. Needed for a deadline only.
    pub fn expect(&mut self, now: Timestamp, beyond: u64, extent: Extent) {
        if let Some(deadline) = &mut self.deadline {
            deadline.expect(now, self.flight.supply.handed(), beyond, extent);
        }
    }

    /// By how much the deadline will be missed, if that is foreseeable.
    pub fn late(&self) -> Option<Duration> {
        self.deadline.as_ref().and_then(Deadline::late)
    }

    /// Hands the controller what earlier transfers to this peer left.
    pub fn recall(&mut self, history: &PathHistory) {
        self.controller.recall(history);
    }

    /// The controller, for its name and state, and for what it would have remembered.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// The oldest mode change of the controller that was not taken yet.
    pub fn poll_mode_change(&mut self) -> Option<ModeChange> {
        self.controller.as_adaptive()?.poll_mode_change()
    }

    /// The oldest judgement of losses that was not taken yet; at most 64 wait.
    pub fn poll_loss_report(&mut self) -> Option<LossReport> {
        self.attribution.take_report()
    }

    /// The oldest window of losses whose cause the receiver's counters show; at most 64 wait.
    pub fn poll_lesson(&mut self) -> Option<Lesson> {
        self.attribution.take_lesson()
    }

    /// Data bytes per packet of chunks that start now.
    pub fn payload_size(&self) -> u16 {
        self.flight.payload_size()
    }

    /// Datagram bytes in flight.
    pub fn bytes_in_flight(&self) -> u64 {
        self.flight.sent.bytes()
    }

    /// Bytes of chunks that were handed in and never sent under their present layout.
    pub fn bytes_unsent(&self) -> u64 {
        self.flight.supply.chunks.unsent()
    }

    /// The largest packet number acknowledged.
    pub fn largest_acked(&self) -> Option<PacketNumber> {
        self.flight.sent.largest_acked()
    }

    /// What kept the last [`poll_transmit`](Self::poll_transmit) that gave no burst from giving one; where
    /// only frames carry data, the last [`poll_frame`](Self::poll_frame), or the streams if it gave one.
    pub fn limit(&self) -> SendLimit {
        if self.route().has_datagrams() { self.limit } else { self.frames.limit() }
    }

    /// The rate to which losses at the receiver hold the sender; `None` if they do not.
    pub fn drain_rate(&self) -> Option<Rate> {
        self.attribution.drain_rate()
    }

    /// The rate at which bursts leave at present; `None` as fast as the host can.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pace.rate(self.controller.pacing_rate(), self.host_rate())
    }

    /// The next burst, into `out`; see [`Transmit`]. Call again until it does not return a burst.
    pub fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<PacketOut>) -> Transmit {
        out.clear();
        if !self.route().has_datagrams() {
            return self.poll_route_probe(now, out);
        }
        let budget = match (self.pacing_rate(), self.budget_wait(now)) {
            _ if self.greets => Budget::TimerOnly,
            (None, None) => Budget::Bytes(u64::MAX),
            (Some(rate), None) if now >= self.pace.next_departure() => Budget::Bytes(Pace::quantum(rate)),
            // A probe timeout's packets are few and must not wait: a slow pacer would let the next one
            // overtake them.
            _ if self.probe_timeout.admits_packet() => Budget::TimerOnly,
            (_, Some(at)) => {
                self.limit = SendLimit::Cap;
                return Transmit::WaitUntil(at);
            }
            (Some(rate), None) => {
                let ceiling = self.deadline.as_ref().and_then(|deadline| deadline.claim().ceiling);
                self.limit = self.pace.limit(rate, self.attribution.drain_rate(), ceiling);
                return Transmit::WaitUntil(self.pace.next_departure());
            }
        };
        self.fill(now, budget, out);
        if out.is_empty() {
            return self.idle(now);
        }
        self.on_burst(now, out);
        Transmit::Burst
    }

    fn fill(&mut self, now: Timestamp, budget: Budget, out: &mut Vec<PacketOut>) {
        let window = self.window();
        let mut filling = Filling {
            flight: &mut self.flight,
            timer: &mut self.probe_timeout,
            rate: &mut self.rate,
            window,
            packets_max: self.burst as usize,
            way_back: &mut self.way_back,
            round_trip: self.rtt.smoothed(),
            copy_delay: copy_delay(self.rtt.smoothed()),
        };
        if let Some(limit) = filling.fill(now, budget, out) {
            self.limit = limit;
        }
    }

    /// A burst leaves.
    fn on_burst(&mut self, now: Timestamp, out: &[PacketOut]) {
        let bytes = out.iter().map(|p| p.datagram_len() as u64).sum();
        self.attribution.on_burst(out.len());
        let bytes_in_flight = self.flight.sent.bytes();
        self.controller.on_sent(&BurstSent { now, packets: out.len() as u32, bytes, bytes_in_flight });
        self.local.on_sent(now, bytes, self.controller.pacing_rate());
        if let Some(rate) = self.pacing_rate() {
            self.pace.on_sent(now, bytes, rate);
        }
        self.spend(now, bytes);
        let nothing_else_in_flight = bytes_in_flight <= bytes;
        self.probe_timeout.on_sent(now, nothing_else_in_flight);
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let loss = self.flight.sent.loss_deadline(self.loss_delay());
        [loss, self.probe_deadline()].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.flight.sent.loss_deadline(self.loss_delay()).is_some_and(|at| at <= now) {
            self.detect_losses(now);
        }
        if self.probe_deadline().is_some_and(|at| at <= now) {
            match self.probe_timeout.on_expiry(now, self.flight.sent.bytes() > 0) {
                Expiry::Ping => {}
                Expiry::Resend => self.flight.resend_oldest(),
                Expiry::GiveUp => self.lose_all(now),
            }
        }
    }

    fn probe_deadline(&self) -> Option<Timestamp> {
        // Where only frames carry data, the route's probe takes its place.
        if !self.route().has_datagrams() {
            return None;
        }
        // Also while nothing is in flight but chunks wait for their verdict or for credit: the ack may have
        // been lost.
        let supply = &self.flight.supply;
        let waiting = self.flight.sent.bytes() > 0 || supply.chunks.count() > 0 || supply.waits_for_credit();
        let (timeout, round_trip) = (self.rtt.probe_timeout(self.ack_delay_max()), self.rtt.smoothed());
        waiting.then(|| self.probe_timeout.deadline(timeout, round_trip))
    }

    /// What is left and what has arrived, by either way, against the deadline.
    fn look_at_deadline(&mut self, now: Timestamp) {
        let Flight { supply, sent, stats, .. } = &self.flight;
        let in_flight = sent.bytes().saturating_add(self.frames.bytes());
        let held = supply.chunks.unsent().saturating_add(in_flight);
        self.claim(now, held, stats.bytes_acked.saturating_add(stats.bytes_frames_delivered));
    }

    /// Passes on to the controller what the deadline needs; `held` and `acked` are bytes.
    fn claim(&mut self, now: Timestamp, held: u64, acked: u64) {
        if let Some(deadline) = &mut self.deadline {
            let claim = deadline.look(now, held, acked);
            if let Some(adaptive) = self.controller.as_adaptive() {
                adaptive.claim(now, claim);
            }
        }
    }
}
