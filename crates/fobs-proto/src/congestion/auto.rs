//! `auto`, ours: a model of the path, not a reaction to single losses.
//!
//! 1. **Train**: the first flight is one short train; the receiver's arrival stamps give its dispersion, and so the
//!    bottleneck's rate, within one round trip.
//! 2. **Ramp**: starts a little below that estimate and goes on faster each round while the path delivers what is sent and no
//!    queue grows. A wrong estimate costs one round in either direction.
//! 3. **Cruise**: sends what the path delivers, a little more while its queue is nearly empty and less while it is not, so that
//!    the bottleneck never idles behind a queue of a few milliseconds. From time to time a *drain* sends less for one
//!    round: it shows the path's own delay, and how much is lost when nothing is in the way. Only loss beyond that is
//!    ours.
//!
//! Random loss therefore moves nothing, and a queue too shallow to be seen as delay is seen as loss.

use super::{AckSample, Controller, EcnMark, LossCause, LossEpisode};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Packets of the first train. At 1 Gbit/s 64 packets of 1200 bytes last 0.6 ms, long against the ~0.1 ms that stamps jitter;
/// they are 77 kB, which a path of 10 Mbit/s drains in 60 ms.
const TRAIN_PACKETS: u64 = 64;
/// The train is believed when this much of it has arrived,
const TRAIN_PACKETS_MIN: u64 = 48;
/// or when fewer packets have taken so long that 0.1 ms of jitter is a few percent.
const TRAIN_SLOW: (u64, Duration) = (4, Duration::from_millis(4));
/// Rate of the train: as good as back to back, and the most that it can measure.
const TRAIN_RATE: Rate = Rate::bits_per_second(20_000_000_000);
/// The fastest that stamps can tell: a quicker train measures the hosts. Assumed where the train arrived as one.
const TRAIN_FASTEST: Rate = Rate::bits_per_second(1_000_000_000);
/// Share of the estimate to start with: stamps make trains look up to a tenth faster or slower than they are.
const RAMP_START: f64 = 0.95;
/// Gains of the rounds of the ramp that found the path willing: small while the estimate may be nearly right.
const RAMP_GAINS: [f64; 6] = [1.10, 1.10, 1.10, 1.25, 1.5, 2.0];
/// Where the ramp begins if the train only said that the path is fast, and if it said nothing.
const RAMP_FAST: usize = 3;
const RAMP_BLIND: usize = 5;
/// The path delivers what is sent, up to the noise of one window.
const DELIVERED_ALL: f64 = 0.95;

/// A phase, of the ramp or of cruising, waits for one round trip and measures for a part of one, but not less than this: a window
/// of the delivery rate must fit. So whatever it measures left under its own rate.
const MEASURE_MIN: Duration = Duration::from_millis(10);
/// From drain to drain: rare enough to cost nothing, and twice within the 10 s for which a minimal RTT stands.
const CYCLE_PHASES: u32 = 16;
const CYCLE_MIN: Duration = Duration::from_secs(2);
/// A drain sends this much less than is delivered, beyond what empties the standing queue: more than a model's noise.
const DRAIN_MARGIN: f64 = 0.05;
const DRAIN_MAX: f64 = 0.30;

/// The standing queue to keep: a twentieth of the path, and well above the ~0.3 ms of noise of two hosts.
const QUEUE_SHARE: u32 = 20;
const QUEUE_MIN: Duration = Duration::from_millis(2);
/// On slow paths a few packets are a delay of their own.
const QUEUE_PACKETS: u64 = 8;
/// A queue above this share of the target means that the bottleneck never idled: what is delivered is its rate.
const QUEUE_BUSY_SHARE: u32 = 2;
/// Rate per queue, both relative to the round trip. A loop that acts one round trip late is stable below pi/2 and calm below
/// half of that.
const QUEUE_GAIN: f64 = 0.4;
const CREEP_MAX: f64 = 0.03;
/// A queue of which more than half outlives a drain is other people's: trimming for it would only make room for them. When
/// trimming has cost this share of what was delivered before, a drain finds out.
const FOREIGN_SHARE: u32 = 2;
const TRIM_TRUSTED: f64 = 0.15;
const TRIM_MAX: f64 = 0.25;

/// Packets lost in a phase beyond which chance does not explain them: what is expected and a quarter (the expectation is a
/// measurement too), three standard deviations, and a few.
const CHANCE_SHARE: f64 = 1.25;
const CHANCE_SIGMAS: f64 = 3.0;
const CHANCE_PACKETS: f64 = 4.0;
/// Phases of unexplained loss in a row that call for a drain, to learn whether it is ours.
const DRAIN_AFTER: u32 = 2;
/// When at least this many packets and this share of a turn are lost, and no more than this share of the rate is delivered,
/// nothing is left to measure: no path that is worth using loses a third at random.
const COLLAPSE_PACKETS: f64 = 64.0;
const COLLAPSE_LOSS: f64 = 1.0 / 3.0;
const COLLAPSE_DELIVERED: f64 = 0.7;
/// Most loss that is made up for by sending more. Paths with 5% random loss exist; more is somebody's congestion.
const LOSS_MADE_UP: f64 = 0.10;

/// Window over the bandwidth-delay product: room for acks that come late and together.
const WINDOW_GAIN: f64 = 2.0;
/// What ends and acks may add to the path's own delay: ack delay and scheduling of two hosts (stalls of up to 2.6 ms in 0.1% of sleeps, measured).
const HOST_DELAY: Duration = Duration::from_millis(4);
/// Never slower: a few packets a second keep the feedback alive.
const RATE_MIN: Rate = Rate::bytes_per_second(10_000);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Train,
    Ramp {
        steps: usize,
    },
    /// Phase 0 is the drain.
    Cruise {
        phase: u32,
    },
}

/// The default controller.
#[derive(Debug)]
pub struct Auto {
    state: State,
    /// Since when the present phase has stood, and whether it measures already.
    since: Timestamp,
    measuring: bool,
    /// When the last drain began.
    drained: Timestamp,
    packet_len: u64,
    /// What the path delivers when it is busy, as far as known.
    capacity: Rate,
    newest: Rate,
    span: Duration,
    queue: StandingQueue,
    min_rtt: Duration,
    latest_rtt: Duration,
    losses: Losses,
    /// Whether sending a little more than is delivered is of any use: not where it was lost.
    creeps: bool,
    /// Share that the drain takes off, the queue that it began with, and the least that it left.
    drain: f64,
    drain_from: Duration,
    drain_left: Duration,
    /// Queue that the last drain did not take away, and what was delivered then.
    foreign: Duration,
    proven: Rate,
    /// When the present turn of [`Auto::has_collapsed`] began, and what was acknowledged and lost by then, packets.
    turn: (Timestamp, f64, f64),
    /// Phases in a row with loss that chance does not explain.
    overloaded: u32,
    /// The rate before the present one: what arrives now left under it.
    previous: Rate,
    pacing: Rate,
    window: u64,
}

impl Auto {
    /// A controller that knows nothing of the path, with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Auto {
        let packet_len = u64::from(packet_len);
        Auto {
            state: State::Train,
            since: Timestamp::ZERO,
            measuring: false,
            drained: Timestamp::ZERO,
            packet_len,
            capacity: RATE_MIN,
            newest: RATE_MIN,
            span: Duration::ZERO,
            queue: StandingQueue::default(),
            min_rtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            losses: Losses::default(),
            creeps: true,
            drain: 0.0,
            drain_from: Duration::ZERO,
            drain_left: Duration::ZERO,
            foreign: Duration::ZERO,
            proven: RATE_MIN,
            turn: (Timestamp::ZERO, 0.0, 0.0),
            overloaded: 0,
            previous: TRAIN_RATE,
            pacing: TRAIN_RATE,
            window: TRAIN_PACKETS * packet_len,
        }
    }

    fn on_train_ack(&mut self, ack: &AckSample) {
        if self.since == Timestamp::ZERO {
            self.since = ack.now;
        }
        let enough = ack.rate.filter(|s| {
            s.packets >= TRAIN_PACKETS_MIN || s.packets >= TRAIN_SLOW.0 && s.span >= TRAIN_SLOW.1
        });
        // All of the train is accounted for, or all of it that will be: then what there is must do.
        let waited = ack.now - self.since >= self.latest_rtt.max(MEASURE_MIN);
        let complete = waited || self.losses.acked as u64 >= TRAIN_PACKETS || ack.bytes_in_flight == 0;
        let (estimate, steps) = match (enough.or(ack.rate.filter(|_| complete)), complete) {
            // On a short path a ramp that goes too far is over in 10 ms.
            (Some(sample), _) if sample.rate < TRAIN_FASTEST || self.min_rtt > MEASURE_MIN => {
                (sample.rate, 0)
            }
            (Some(sample), _) => (sample.rate, RAMP_FAST),
            (None, true) => (TRAIN_FASTEST, RAMP_BLIND),
            (None, false) => return,
        };
        self.capacity = estimate.scaled(RAMP_START).max(RATE_MIN);
        self.ramp(steps, ack.now, 1.0);
    }

    fn end_ramp_phase(&mut self, ack: &AckSample, steps: usize) {
        if ack.app_limited {
            // Not tried: hold this rate and look again after another phase.
            self.begin(ack.now);
            return;
        }
        let sent = self.pacing.scaled(1.0 - self.losses.share());
        if self.queue_is_empty() && self.newest >= sent.scaled(DELIVERED_ALL) {
            self.capacity = sent;
            self.ramp(steps + 1, ack.now, RAMP_GAINS[steps.min(RAMP_GAINS.len() - 1)]);
        } else {
            self.capacity = self.newest.max(RATE_MIN);
            self.enter_phase(0, ack.now);
        }
    }

    fn update_capacity(&mut self, ack: &AckSample) {
        if ack.app_limited {
            return;
        }
        let busy = self.queue.standing() > self.queue_target() / QUEUE_BUSY_SHARE
            && self.queue.stood_for(ack.now, self.span);
        if busy || self.overloaded > 0 {
            self.capacity = self.newest;
        } else {
            // A window can be read as faster than it was sent.
            self.capacity = self.capacity.max(self.newest.min(self.pacing.max(self.previous)));
        }
        self.capacity = self.capacity.max(RATE_MIN);
    }

    fn end_cruise_phase(&mut self, ack: &AckSample, phase: u32) {
        if phase == 0 {
            self.losses.learn();
        } else if self.losses.beyond_chance() {
            self.overloaded += 1;
            self.creeps = false;
        } else {
            self.overloaded = 0;
        }
        if phase == 1 {
            self.judge_drain();
        }
        let due = phase >= CYCLE_PHASES && ack.now - self.drained >= CYCLE_MIN;
        let trimmed = phase > 1 && self.our_queue() > self.queue_target() && self.capacity < self.proven.scaled(1.0 - TRIM_TRUSTED);
        if due || trimmed || self.overloaded >= DRAIN_AFTER {
            self.enter_phase(0, ack.now);
            return;
        }
        // A whole phase of creeping has left the queue empty and lost nothing: there is room, so go on as the ramp does.
        if phase > 1 && self.creeps && self.queue_is_empty() && !ack.app_limited && self.overloaded == 0 {
            self.ramp(1, ack.now, RAMP_GAINS[0]);
            return;
        }
        self.enter_phase(phase + 1, ack.now);
    }

    /// Whether the path has become another one, or the ramp has left it far behind: looked at once every round trip.
    fn has_collapsed(&mut self, now: Timestamp) -> bool {
        let (acked, lost) = (self.losses.acked_ever - self.turn.1, self.losses.lost_ever - self.turn.2);
        if now - self.turn.0 < self.latest_rtt.max(MEASURE_MIN) {
            return false;
        }
        self.turn = (now, self.losses.acked_ever, self.losses.lost_ever);
        self.state != State::Train
            && lost >= COLLAPSE_PACKETS
            && lost > COLLAPSE_LOSS * (acked + lost)
            && self.newest < self.pacing.scaled(COLLAPSE_DELIVERED)
    }

    /// Half a round trip after the drain its effect is complete: is the queue ours?
    fn judge_drain(&mut self) {
        let outlived = self.drain_left > self.queue_target() && self.drain_left * FOREIGN_SHARE > self.drain_from;
        self.foreign = if outlived { self.drain_left } else { Duration::ZERO };
        // What trimming gave away to others is taken back.
        self.capacity = if outlived { self.capacity.max(self.proven) } else { self.capacity };
        self.proven = self.capacity;
    }

    fn ramp(&mut self, steps: usize, now: Timestamp, gain: f64) {
        self.state = State::Ramp { steps };
        self.begin(now);
        self.set_rate(gain);
    }

    fn enter_phase(&mut self, phase: u32, now: Timestamp) {
        self.state = State::Cruise { phase };
        if phase == 0 {
            self.drained = now;
            self.creeps = true;
            self.overloaded = 0;
            let phase_len = (self.wait_len() + self.measure_len()).as_secs_f64();
            self.drain = (DRAIN_MARGIN + self.our_queue().as_secs_f64() / phase_len).min(DRAIN_MAX);
            self.drain_from = self.queue.standing();
            self.drain_left = self.drain_from;
        }
        self.begin(now);
        self.set_rate(self.cruise_gain(phase));
    }

    fn begin(&mut self, now: Timestamp) {
        self.since = now;
        self.measuring = false;
        self.previous = self.pacing;
    }

    fn cruise_gain(&self, phase: u32) -> f64 {
        if phase == 0 {
            return 1.0 - self.drain;
        }
        let path = self.latest_rtt.max(self.span).max(MEASURE_MIN).as_secs_f64();
        let queue = self.our_queue().as_secs_f64();
        let feedback = QUEUE_GAIN * (self.queue_target().as_secs_f64() - queue) / path;
        1.0 + feedback.clamp(-TRIM_MAX, if self.creeps { CREEP_MAX } else { 0.0 })
    }

    fn set_rate(&mut self, gain: f64) {
        // A drain makes up for nothing: it must stay below the path's rate to tell whose the losses are.
        let draining = self.state == State::Cruise { phase: 0 };
        let made_up = 1.0 - if draining { 0.0 } else { self.losses.share() };
        self.pacing = self.capacity.scaled(gain / made_up).max(RATE_MIN).min(TRAIN_RATE);
        let path = self.pacing.bytes_in(self.min_rtt) as f64 * WINDOW_GAIN;
        self.window = path as u64 + self.pacing.bytes_in(HOST_DELAY) + 16 * self.packet_len;
    }

    fn queue_target(&self) -> Duration {
        let packets = self.pacing.time_for(QUEUE_PACKETS * self.packet_len);
        (self.min_rtt / QUEUE_SHARE).max(QUEUE_MIN).max(packets)
    }

    fn our_queue(&self) -> Duration {
        self.queue.standing().saturating_sub(self.foreign)
    }

    /// Below what keeps the bottleneck busy, up to the noise of two hosts.
    fn queue_is_empty(&self) -> bool {
        self.queue.standing() < self.queue_target() / 4
    }

    fn wait_len(&self) -> Duration {
        // News of a loss by time comes 9/8 round trips after the packet left (RFC 9002 section 6.1.2); rates are not so late.
        if matches!(self.state, State::Ramp { .. }) { self.latest_rtt } else { self.latest_rtt * 5 / 4 }
    }

    fn measure_len(&self) -> Duration {
        // The ramp needs the sign of a change, cruising the size of a loss.
        let share = if matches!(self.state, State::Ramp { .. }) { 4 } else { 2 };
        (self.latest_rtt / share).max(self.span).max(MEASURE_MIN)
    }
}

impl Controller for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.min_rtt = ack.min_rtt;
        self.latest_rtt = ack.latest_rtt;
        self.queue.on_rtt(
            ack.now,
            ack.latest_rtt.saturating_sub(ack.min_rtt),
            (ack.min_rtt / 8).max(MEASURE_MIN / 2),
            self.queue_target() / QUEUE_BUSY_SHARE,
        );
        self.foreign = self.foreign.min(self.queue.standing());
        self.drain_left = self.drain_left.min(self.queue.standing());
        self.losses.on_acked(ack.acked_bytes as f64 / self.packet_len as f64);
        if let Some(sample) = ack.rate
            && (!ack.app_limited || sample.rate > self.newest)
        {
            self.newest = sample.rate.min(TRAIN_RATE);
            self.span = sample.span;
        }
        if self.has_collapsed(ack.now) {
            self.capacity = self.newest.max(RATE_MIN);
            self.enter_phase(0, ack.now);
        }
        let wait = self.wait_len();
        if !self.measuring && ack.now - self.since >= wait && self.state != State::Train {
            self.measuring = true;
            self.losses.begin();
        }
        let over = ack.now - self.since >= wait + self.measure_len();
        match self.state {
            State::Train => self.on_train_ack(ack),
            State::Ramp { steps } if over => self.end_ramp_phase(ack, steps),
            State::Ramp { .. } => {}
            State::Cruise { phase } => {
                self.update_capacity(ack);
                if over {
                    self.end_cruise_phase(ack, phase);
                } else {
                    self.set_rate(self.cruise_gain(phase));
                }
            }
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if loss.cause != LossCause::LocalSend {
            self.losses.on_lost(loss.packets as f64);
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        // The queue marks before it drops: give back now, once a round trip, and do not creep back at once.
        let draining = matches!(self.state, State::Train | State::Cruise { phase: 0 });
        if !draining && mark.now - self.drained >= self.latest_rtt.max(MEASURE_MIN) {
            self.capacity = self.capacity.min(self.newest).max(RATE_MIN);
            self.enter_phase(0, mark.now);
            self.creeps = false;
        }
    }

    fn congestion_window(&self) -> u64 {
        self.window.max(4 * self.packet_len)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing)
    }

    fn state(&self) -> &'static str {
        match self.state {
            State::Train => "train",
            State::Ramp { .. } => "ramp",
            State::Cruise { phase: 0 } => "drain",
            State::Cruise { .. } => "cruise",
        }
    }
}

/// The part of the queueing delay that never goes away: the least of a window, so that noise of hosts and bursts does not count.
#[derive(Debug, Default)]
struct StandingQueue {
    now: Duration,
    before: Duration,
    began: Timestamp,
    empty_at: Timestamp,
}

impl StandingQueue {
    fn on_rtt(&mut self, now: Timestamp, queue: Duration, window: Duration, busy: Duration) {
        if now - self.began >= window {
            self.before = self.now;
            self.now = queue;
            self.began = now;
        }
        self.now = self.now.min(queue);
        if queue <= busy {
            self.empty_at = now;
        }
    }

    fn standing(&self) -> Duration {
        self.now.min(self.before)
    }

    /// Whether it has stood for all of `span`.
    fn stood_for(&self, now: Timestamp, span: Duration) -> bool {
        now - self.empty_at >= span
    }
}

/// How many packets get lost, and how many would if we were not there.
#[derive(Debug, Default)]
struct Losses {
    acked_ever: f64,
    lost_ever: f64,
    /// Of this phase, packets.
    acked: f64,
    lost: f64,
    /// Of drains, each weighing half of the one after it.
    drain_all: f64,
    drain_lost: f64,
}

impl Losses {
    fn on_acked(&mut self, packets: f64) {
        self.acked += packets;
        self.acked_ever += packets;
    }

    fn on_lost(&mut self, packets: f64) {
        self.lost += packets;
        self.lost_ever += packets;
    }

    fn begin(&mut self) {
        (self.acked, self.lost) = (0.0, 0.0);
    }

    fn learn(&mut self) {
        self.drain_all = self.drain_all / 2.0 + self.acked + self.lost;
        self.drain_lost = self.drain_lost / 2.0 + self.lost;
    }

    /// Share of packets that are lost whatever we do, as far as that is made up for.
    fn share(&self) -> f64 {
        if self.drain_all < 1.0 { 0.0 } else { (self.drain_lost / self.drain_all).min(LOSS_MADE_UP) }
    }

    fn beyond_chance(&self) -> bool {
        let expected = CHANCE_SHARE * self.share() * (self.acked + self.lost);
        self.lost > expected + CHANCE_SIGMAS * expected.sqrt() + CHANCE_PACKETS
    }
}
