//! `auto`, ours: a model of the path, not a reaction to single losses.
//!
//! 1. **Train**: the first flight is one short train; the receiver's arrival stamps give its dispersion, and so the
//!    bottleneck's rate, within one round trip.
//! 2. **Ramp**: starts a little below that estimate and goes on faster each round while the path delivers what is sent
//!    and no queue grows. A wrong estimate costs one round in either direction.
//! 3. **Cruise**: sends what the path delivers, a little more while its queue is nearly empty and less while it is not,
//!    so that the bottleneck never idles behind a queue of a few milliseconds. Who has less aims at a longer queue than who has
//!    more: so several of us come to equal shares.
//! 4. **Compete** (`compete`, `persist`): where the queue does not go away when we send less, others fill it; then we do as CUBIC
//!    does, or, where they do not answer losses, hold on to what is delivered.
//!
//! A queue may be somebody's burst and pass: the best delivery of late is remembered, and resumed when the queue that we gave
//! way to is gone, unless what was resumed makes the queue come back. A fall without a queue is forgotten at once.
//!
//! A rise of the path's rate is looked for with another train (`rise`).
//!
//! A **drain**, from time to time, when somebody seems to have joined and when the path's own delay is found lower, sends less for a round: it shows the path's own delay, to
//! us and to him, and how much is lost when nothing of ours is in the way: only loss beyond that moves the rate, as where a
//! queue is too shallow to be seen as delay.

mod bursts;
mod compete;
mod persist;
mod priority;
mod rise;
mod start;
mod witness;

use super::mode::ModeLog;
use super::{
    AckSample, Adaptive, BurstSent, Claim, Controller, EcnMark, LossCause, LossEpisode, ModeChange,
    ModeReason, PathHistory,
};
use crate::{Rate, Timestamp};
pub use priority::{Priority, UnknownPriority};

use bursts::Bursts;
use compete::{Compete, Crowd, Verdict};
use rise::Rise;
use start::{Memory, RAMP_GAINS, RAMP_QUEUE, TRAIN_PACKETS, TRAIN_RATE};
use std::time::Duration;
use witness::{BEST_SPAN, Base, Best, HELD_SPAN, Losses, StandingQueue};

/// A phase, of the ramp or of cruising, waits for one round trip and measures for a part of one, but not less than this: a
/// window of the delivery rate must fit. So whatever it measures left under its own rate.
const MEASURE_MIN: Duration = Duration::from_millis(10);
/// From drain to drain, or from when a standing queue was last seen to go, whoever made it go: so several of us drain together, and all
/// see the path's own delay. Rare enough to cost little (0.4% of the link at 200 ms), and at least once in the 5 s for which a minimal
/// RTT stands on any path of up to 450 ms.
const CYCLE_PHASES: u32 = 6;
const CYCLE_MIN: Duration = Duration::from_secs(2);
/// A drain sends this much less than is delivered, beyond what empties the standing queue: more than a model's noise.
const DRAIN_MARGIN: f64 = 0.05;
const DRAIN_MAX: f64 = 0.50;
const SHARE_MIN: f64 = 0.25;
/// Behind a standing queue less than this share of what was delivered before: somebody has joined, whose idea of the path's own
/// delay has our queue in it. A drain shows it to him; not before so many phases after the last.
/// Not while bursts are expected: what they take comes back.
const JOINED_SHARE: f64 = 0.85;
const JOINED_PHASES: u32 = 4;
/// A path's own delay that has fallen by this part of a short queue since the last drain had others' queue in it, and may still have: it is
/// drained again, at once and by all who saw it, until it falls no more. A half is above the noise of two hosts on any path.
const LOWER: u32 = 2;
/// So many times as much as it fell is drained then. With 1, eight at 100 Mbit/s and 200 ms come to a Jain index of 0.88 (0.40
/// in the worst of sixteen starts), with 2 to 0.95 (0.90).
const DEEPER: f64 = 2.0;
/// Phases of unexplained loss in a row that call for a drain, to learn whether it is ours.
const DRAIN_AFTER: u32 = 2;
/// The standing queue to keep: a twentieth of the path, and well above the ~0.3 ms of noise of two hosts.
const QUEUE_SHARE: u32 = 20;
const QUEUE_MIN: Duration = Duration::from_millis(2);
/// A twentieth at a window of so many packets, and with its root: who has less aims at a longer queue than who has more, so that shares
/// become equal (Swift, Kumar and others 2020, section 3.2, flow-based scaling). At most a quarter of the path; at least an eightieth, which one
/// has at 1 Gbit/s and 200 ms. The root of the squares joins it to the least queue: where that alone is the target, nobody gains on
/// anybody (eight at 1 Gbit/s and 26 ms: a Jain index of 0.60, eight seeds).
const QUEUE_WINDOW: f64 = 500.0;
const QUEUE_SCALE: (f64, f64) = (0.25, 5.0);
/// On a long path, where gaining on others takes the longest and the root is flattest (targets of eight at 1 Gbit/s differ by 1.4 ms from one to
/// half of it), the fifth root, if it is more: so much, less what it is at the window that has nothing of it, and less of it all on a shorter
/// path. Eight at 1 Gbit/s and 200 ms come to a Jain index of 0.95 instead of 0.86 (eight starts). Fifth, and not more at small windows:
/// beside CUBIC that came first, 35% of the link instead of 15 (100 Mbit/s, four products).
const LONG_PATH: Duration = Duration::from_millis(200);
const LONG_ROOT: f64 = 0.2;
const LONG_SCALE: f64 = 12.0;
const LONG_WINDOW: f64 = 20_000.0;
/// Share of that target from which a queue is judged to be others'. Measured beside CUBIC that came first, medians of five seeds at 26 and
/// 65 ms: 0.75 leaves us 7% and 5% of the link, 0.65 leaves us 36% and 42%; from 0.55 down eight of us take each other for CUBIC.
const CROWD_TARGET: f64 = 0.65;
/// A queue of so many short ones has gone for as much as several of us let it go; the queue of flows that fill it does not. Only one that
/// has not gone for this many cycles is others': all of us drain once in each. Nor in this many round trips, in which the queue of one who
/// joins is gone again: at 200 ms eight who join every 2.5 s then share at a Jain index of 0.90 instead of 0.87 (sixteen seeds).
const GONE: f64 = 1.5;
const PATIENCE: f64 = 1.2;
const PATIENCE_ROUNDS: u32 = 20;
/// On slow paths a few packets are a delay of their own.
const QUEUE_PACKETS: u64 = 8;
/// But where we have been pushed down to a trickle, no more than this: eight packets at 0.1 Mbit/s would be a queue of a second, which
/// CUBIC beside us never makes. A link that has fallen to a hundredth, 1 Mbit/s, still has its eight packets.
const QUEUE_PACKETS_MAX: Duration = Duration::from_millis(100);
/// A queue above a half of the target means that the bottleneck never idled: what is delivered is its rate. Below a quarter
/// there is room.
const QUEUE_BUSY: u32 = 2;
const QUEUE_EMPTY: u32 = 4;
/// Rate per queue, both relative to the round trip. A loop that acts one round trip late is stable below pi/2 and calm below
/// half of that.
const QUEUE_GAIN: f64 = 0.5;
const CREEP_MAX: f64 = 0.03;
const TRIM_MAX: f64 = 0.25;
/// Share of what was delivered while the queue was short to begin a competition with: with one other a half is fair, and he grows too
/// while we come back.
const COMPETE_SHARE: f64 = 0.45;
/// What is left of the belief in an earlier rate when a competition is over.
const PROVEN_FADES: f64 = 0.7;
/// Share of the best delivery of late to resume at, and never to fall below behind a queue. Measured beside bursts that take all of
/// the link half of the time (`tests/golden/auto.txt`): without them we got 32% of what was left, with them 77%. The second is also the least
/// part of the path that a queue is aimed at for.
const RESUME: f64 = 0.9;
const FLOOR: f64 = 0.06;
/// With a collapse of losses, a delivery below this share of what is sent tells that the path is another one.
const COLLAPSE_DELIVERED: f64 = 0.7;
/// Window over the bandwidth-delay product: room for acks that come late and together. What others hold in the queue comes on top.
const WINDOW_GAIN: f64 = 2.0;
/// And while bursts of others may come, whose losses are what is on its way beyond the product. Always so little leaves us nothing beside
/// CUBIC that came first on long paths: 0.1% of the link at 1 Gbit/s and 65 ms with 1.5, 29% so (docs/experiments/cross-traffic.md).
const WINDOW_GAIN_BURSTS: f64 = 1.1;
/// What ends and acks add to the path's own delay: ack delay, scheduling (stalls of 2.6 ms in 0.1% of sleeps, measured).
/// Twice as much lets twice as much through a policer before the loss is seen (`tests/golden/auto.txt`).
const HOST_DELAY: Duration = Duration::from_millis(4);
/// Never slower: a few packets a second keep the feedback alive.
const RATE_MIN: Rate = Rate::bytes_per_second(10_000);

/// Its ways of sending, as changes name them: while it looks for the path's rate, and when it models the path; those of a competition
/// have the names of their laws.
const START: &str = "start";
const CRUISE: &str = "cruise";

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Train,
    /// So many rounds found the path willing.
    Ramp(usize),
    Drain,
    /// Phases since the drain.
    Cruise(u32),
    /// A train looks for a rise of the path's rate.
    Probe,
    /// As a flow that fills queues.
    Compete,
}

/// The default controller.
#[derive(Debug)]
pub struct Auto {
    priority: Priority,
    state: State,
    /// Since when the present phase has stood, and whether it measures already.
    since: Timestamp,
    measuring: bool,
    /// When we last drained, or a standing queue went by itself.
    drained: Timestamp,
    stands: bool,
    /// The path's own delay as it was known then.
    drained_of: Duration,
    packet_len: u64,
    /// What the path delivers when it is busy, as far as known.
    capacity: Rate,
    /// The newest delivery rate, and the time that it spans.
    newest: Rate,
    span: Duration,
    base: Base,
    min_rtt: Duration,
    latest_rtt: Duration,
    losses: Losses,
    queue: StandingQueue,
    crowd: Crowd,
    bursts: Bursts,
    rise: Rise,
    competition: Option<Compete>,
    /// What was delivered when the queue was last nearly empty, and the most that this was in a long time.
    proven: Rate,
    held: Best,
    /// The part of it that we reckon to have: less since somebody joined.
    expects: f64,
    /// The most that was delivered lately, and whether less is delivered now because of a queue that may pass.
    best: Best,
    gave_way: bool,
    /// This phase of the ramp began with what was resumed; how often in a row it ended with a queue of its own.
    resumed: bool,
    relapses: u32,
    /// Whether sending a little more than is delivered is of any use: not where it was lost.
    creeps: bool,
    /// Phases in a row with loss that chance does not explain.
    overloaded: u32,
    /// The rate before the present one: what arrives now may have left under it.
    previous: Rate,
    memory: Memory,
    /// Rate over capacity of a drain.
    drain_gain: f64,
    /// The start is over: the path's rate has been found, and what it was then.
    found: bool,
    first: Rate,
    /// It gave way to all and need not any more: a queue that stands now is not to be given way to once more.
    raised: bool,
    /// What may not be exceeded from then on.
    ceiling: Rate,
    log: ModeLog,
    pacing: Rate,
    window: u64,
}

impl Auto {
    /// A controller that knows nothing of the path, with packets of `packet_len` datagram bytes, and shares.
    pub fn new(packet_len: u16) -> Auto {
        Auto::with_priority(packet_len, Priority::Fair)
    }

    /// One that claims so much of a shared link.
    pub fn with_priority(packet_len: u16, priority: Priority) -> Auto {
        let packet_len = u64::from(packet_len).max(1);
        Auto {
            priority,
            state: State::Train,
            since: Timestamp::ZERO,
            measuring: false,
            drained: Timestamp::ZERO,
            stands: false,
            drained_of: Duration::ZERO,
            packet_len,
            capacity: RATE_MIN,
            newest: RATE_MIN,
            span: Duration::ZERO,
            base: Base::default(),
            min_rtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            losses: Losses::default(),
            queue: StandingQueue::default(),
            crowd: Crowd::default(),
            bursts: Bursts::default(),
            rise: Rise::default(),
            competition: None,
            proven: RATE_MIN,
            expects: 1.0,
            held: Best::over(HELD_SPAN),
            best: Best::over(BEST_SPAN),
            gave_way: false,
            resumed: false,
            relapses: 0,
            creeps: true,
            overloaded: 0,
            previous: TRAIN_RATE,
            memory: Memory::default(),
            drain_gain: 1.0,
            found: false,
            first: RATE_MIN,
            raised: false,
            ceiling: TRAIN_RATE,
            log: ModeLog::default(),
            pacing: TRAIN_RATE,
            window: TRAIN_PACKETS * packet_len,
        }
    }

    /// Whether what is delivered says nothing of the path, because there was not enough to send. Whoever loses by what he sends, behind a
    /// queue, has enough: even with all of an object on its way, which is so where a pace is far too fast, and would never be corrected.
    /// Without a queue it may be an outage, or the object's last packets.
    fn is_idle(&self, ack: &AckSample) -> bool {
        ack.app_limited && !(self.losses.beyond_chance() && self.queue_is_busy())
    }

    fn update_capacity(&mut self, ack: &AckSample) {
        if self.is_idle(ack) {
            return;
        }
        let busy = self.queue_is_busy() && self.queue.was_busy(ack.now, self.span);
        self.best.observe(ack.now, self.newest.min(self.pacing.max(self.previous)));
        if busy {
            self.capacity = self.newest.max(self.best.rate().scaled(FLOOR));
            self.gave_way = true;
        } else if self.overloaded > 0 && !(self.gave_way && self.bursts.expected()) {
            // But what was lost in a burst that has passed says nothing of what there is now.
            self.capacity = self.newest;
            self.gave_way = false;
        } else {
            // A window can be read as faster than it was sent.
            self.capacity = self.capacity.max(self.newest.min(self.pacing.max(self.previous)));
        }
    }

    /// The queue that we gave way to is gone: back to what was before it.
    fn resume(&mut self, ack: &AckSample) -> bool {
        let best = self.best.rate().scaled(RESUME);
        let resumes = self.gave_way && !ack.app_limited && self.queue_is_empty() && self.capacity < best;
        if resumes {
            self.gave_way = false;
            self.capacity = best;
            self.enter(State::Ramp(0), ack.now, 1.0);
            self.resumed = true;
        }
        resumes
    }

    fn end_cruise_phase(&mut self, ack: &AckSample, phase: u32) {
        if self.losses.beyond_chance() {
            self.overloaded += 1;
            self.creeps = false;
            self.rise.unsettle(ack.now);
        } else {
            self.overloaded = 0;
        }
        if !self.queue_is_busy() {
            self.proven = self.capacity;
            self.expects = 1.0;
            self.held.observe(ack.now, self.proven);
        }
        let joined = phase >= JOINED_PHASES
            && self.share() < self.expects * JOINED_SHARE
            && !self.bursts.expected()
            && self.queue_is_busy();
        if self.overloaded >= DRAIN_AFTER {
            self.enter_drain(ack.now);
        } else if joined && !ack.app_limited {
            // What we had is his now.
            self.gave_way = false;
            self.best = Best::over(BEST_SPAN);
            self.rise.unsettle(ack.now);
            self.enter_drain(ack.now);
            self.expects = self.share();
        } else if self.creeps && self.queue_is_empty() && phase > 1 && !ack.app_limited {
            // A whole phase of creeping has left the queue empty and lost nothing: go on as the ramp does.
            self.enter(State::Ramp(1), ack.now, RAMP_GAINS[0]);
        } else {
            self.enter(State::Cruise(phase + 1), ack.now, self.cruise_gain());
        }
    }

    /// Others fill the queue, and giving way would only make room for them.
    fn enter_compete(&mut self, ack: &AckSample, reason: ModeReason) {
        let held = self.proven.max(self.held.rate());
        let rate = match self.priority {
            Priority::Greedy => held,
            Priority::Scavenger | Priority::Fair => self.newest.max(held.scaled(COMPETE_SHARE)),
        };
        let competition = Compete::new(ack, rate, self.proven, self.priority);
        self.note(ack.now, CRUISE, competition.state(), reason);
        self.competition = Some(competition);
        self.crowd = Crowd::default();
        self.bursts.forget_trend();
        self.gave_way = false;
        self.raised = false;
        self.enter(State::Compete, ack.now, 1.0);
    }

    fn compete(&mut self, ack: &AckSample) {
        let (queue, target) = (self.queue.delay(), self.short_queue());
        let top = self.top();
        let Some(competition) = &mut self.competition else { return };
        // Who does not use the window does not let it grow (RFC 9438 section 4.2).
        let unused = ack.app_limited || self.pacing >= top;
        let ack = &AckSample { app_limited: unused, ..*ack };
        let before = competition.state();
        let verdict = competition.on_ack(ack, self.newest, queue, target, &self.losses);
        let (changed, now) = (competition.take_change(), competition.state());
        self.window = competition.window();
        self.pacing = competition.pacing(ack.now).max(RATE_MIN).min(top);
        self.capacity = self.newest;
        if self.bursts.expected() {
            self.best.observe(ack.now, self.newest);
        }
        if let Some(reason) = changed {
            self.note(ack.now, before, now, reason);
        }
        let over = match verdict {
            Verdict::GoesOn => None,
            Verdict::Over => Some(ModeReason::QueueGone { target }),
            Verdict::Longer => Some(ModeReason::PathLonger { rtt: ack.latest_rtt }),
        };
        if verdict == Verdict::Longer {
            self.base.forget(ack.now, ack.latest_rtt);
        }
        if let Some(reason) = over {
            self.note(ack.now, now, CRUISE, reason);
            self.competition = None;
            self.proven = self.proven.scaled(PROVEN_FADES).max(self.newest);
            self.held.observe(ack.now, self.proven);
            self.gave_way = verdict == Verdict::Over && self.bursts.expected();
            self.enter_drain(ack.now);
        }
    }

    /// Remembers why it does something else from now on.
    fn note(&mut self, at: Timestamp, from: &'static str, to: &'static str, reason: ModeReason) {
        let (queue, delivered) = (self.queue.delay(), self.newest);
        self.log.note(ModeChange { at, from, to, reason, queue, delivered });
    }

    /// Whether it is time to drain.
    fn drain_is_due(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Cruise(_)) && now - self.drained >= self.cycle_len()
    }

    /// The same for all who share the path: not of a round trip with a queue in it.
    fn cycle_len(&self) -> Duration {
        let phase = self.min_rtt * 5 / 4 + (self.min_rtt / 2).max(self.span).max(MEASURE_MIN);
        CYCLE_MIN.max(CYCLE_PHASES * phase)
    }

    /// By how much the path's own delay has fallen since the last drain.
    fn lowered(&self) -> Duration {
        self.drained_of.saturating_sub(self.min_rtt)
    }

    /// Whether what we took for the path's own delay had others' queue in it.
    fn was_deceived(&self) -> bool {
        self.lowered() > self.short_queue() / LOWER
    }

    fn end_drain(&mut self, now: Timestamp) {
        self.losses.learn();
        if self.was_deceived() {
            self.enter_drain(now);
        } else if !self.probes_after_drain(now) {
            self.enter(State::Cruise(1), now, self.cruise_gain());
        }
    }

    fn enter_drain(&mut self, now: Timestamp) {
        let mut hidden = 0.0;
        if self.was_deceived() {
            hidden = self.lowered().as_secs_f64() * DEEPER;
            self.rise.unsettle(now);
        }
        self.drained = now;
        self.drained_of = self.min_rtt;
        self.creeps = true;
        self.overloaded = 0;
        self.state = State::Drain;
        let phase = (self.wait_len() + self.measure_len()).as_secs_f64();
        // With a part of the link we can empty the queue of all only by so much more.
        let queue = (self.queue.delay().as_secs_f64() + hidden) / self.share().max(SHARE_MIN);
        self.drain_gain = 1.0 - (DRAIN_MARGIN + queue / phase).min(DRAIN_MAX);
        self.enter(State::Drain, now, self.drain_gain);
    }

    fn enter(&mut self, state: State, now: Timestamp, gain: f64) {
        if !self.found && !matches!(state, State::Train | State::Ramp(_)) {
            self.found = true;
            self.drained = now;
            self.drained_of = self.min_rtt;
            self.first = self.proven;
            self.held.observe(now, self.first);
            self.note(now, START, CRUISE, ModeReason::PathFound);
        }
        // There is nothing to look for above the ceiling.
        let tops = self.found && matches!(state, State::Ramp(_)) && self.capacity >= self.ceiling;
        self.state = if tops { State::Cruise(1) } else { state };
        self.previous = self.pacing;
        self.rise.probe = None;
        self.resumed = false;
        match self.state {
            State::Ramp(_) | State::Compete => self.rise.unsettle(now),
            _ => {}
        }
        self.begin_phase(now);
        self.set_rate(gain);
    }

    fn begin_phase(&mut self, now: Timestamp) {
        self.since = now;
        self.measuring = false;
    }

    fn cruise_gain(&self) -> f64 {
        let path = self.latest_rtt.max(self.span).max(MEASURE_MIN).as_secs_f64();
        let short_of = self.queue_target().as_secs_f64() - self.queue.delay().as_secs_f64();
        let creep = if self.creeps { CREEP_MAX } else { 0.0 };
        1.0 + (QUEUE_GAIN * short_of / path).clamp(-TRIM_MAX, creep)
    }

    fn set_rate(&mut self, gain: f64) {
        let top = self.top();
        self.capacity = self.capacity.max(RATE_MIN).min(top);
        // A drain makes up for nothing: it must stay below the path's rate to tell whose the losses are.
        let arrives = if self.state == State::Drain { 1.0 } else { 1.0 - self.losses.share() };
        self.pacing = self.capacity.scaled(gain / arrives).max(RATE_MIN).min(top);
        let gain = if self.bursts.may_stand() { WINDOW_GAIN_BURSTS } else { WINDOW_GAIN };
        let path = self.pacing.bytes_in(self.min_rtt) as f64 * gain;
        self.window = path as u64 + self.pacing.bytes_in(HOST_DELAY) + 16 * self.packet_len;
    }

    /// Never faster than this.
    fn top(&self) -> Rate {
        if self.found { self.ceiling } else { TRAIN_RATE }
    }

    /// The part of what the path gave us before that we have now.
    fn share(&self) -> f64 {
        (self.capacity.as_bytes() as f64 / self.proven.as_bytes().max(1) as f64).min(1.0)
    }

    /// A queue that is ours if we have the path for ourselves.
    fn short_queue(&self) -> Duration {
        let packets = self.proven.max(self.pacing).time_for(QUEUE_PACKETS * self.packet_len);
        (self.min_rtt / QUEUE_SHARE).max(QUEUE_MIN).max(packets)
    }

    fn queue_target(&self) -> Duration {
        let packets = QUEUE_PACKETS * self.packet_len;
        let longest = self.part().time_for(packets).max(QUEUE_PACKETS_MAX);
        self.scaled_target().max(self.pacing.time_for(packets).min(longest))
    }

    /// Our part of the path, for the queue to aim at. Not the least that one can be pushed down to: at that, any queue of others would be
    /// a short one, and we would never come back.
    fn part(&self) -> Rate {
        self.pacing.max(self.proven.scaled(FLOOR))
    }

    fn scaled_target(&self) -> Duration {
        let window = (self.part().bytes_in(self.min_rtt) as f64 / self.packet_len as f64).max(1.0);
        let length = (self.min_rtt.as_secs_f64() / LONG_PATH.as_secs_f64()).min(1.0);
        let long = length * LONG_SCALE * (window.powf(-LONG_ROOT) - LONG_WINDOW.powf(-LONG_ROOT));
        let scale = (QUEUE_WINDOW / window).sqrt().max(long).clamp(QUEUE_SCALE.0, QUEUE_SCALE.1);
        let scaled = (self.min_rtt / QUEUE_SHARE).mul_f64(scale);
        Duration::from_secs_f64(scaled.as_secs_f64().hypot(QUEUE_MIN.as_secs_f64()))
    }

    fn queue_is_busy(&self) -> bool {
        self.queue.delay() > self.queue_target() / QUEUE_BUSY
    }

    fn queue_is_empty(&self) -> bool {
        self.queue.delay() < self.queue_target() / QUEUE_EMPTY
    }

    /// News of a loss by time comes 9/8 round trips after the packet left (RFC 9002 section 6.1.2); the ramp looks at rates alone.
    fn wait_len(&self) -> Duration {
        if matches!(self.state, State::Ramp(_)) { self.latest_rtt } else { self.latest_rtt * 5 / 4 }
    }

    /// The ramp needs the sign of a change, cruising the size of a loss.
    fn measure_len(&self) -> Duration {
        let share = if matches!(self.state, State::Ramp(_)) { 4 } else { 2 };
        (self.latest_rtt / share).max(self.span).max(MEASURE_MIN)
    }

    /// Takes in what an ack says of the path.
    fn witness(&mut self, ack: &AckSample) {
        self.min_rtt = self.base.on_rtt(ack.now, ack.min_rtt);
        self.latest_rtt = ack.latest_rtt;
        let delay = ack.latest_rtt.saturating_sub(self.min_rtt);
        let window = (self.min_rtt / 8).max(MEASURE_MIN / 2);
        self.queue.on_delay(ack.now, delay, window, self.queue_target() / QUEUE_BUSY);
        let stands = self.queue_is_busy();
        if self.stands && !stands {
            self.drained = ack.now;
        }
        self.stands = stands;
        if self.queue.delay() <= self.short_queue().mul_f64(GONE) {
            self.crowd.on_gone(ack.now);
        }
        self.losses.on_acked(ack.acked_bytes as f64 / self.packet_len as f64);
        if let Some(sample) = ack.rate
            && (!self.is_idle(ack) || sample.rate > self.newest)
        {
            self.newest = sample.rate.min(TRAIN_RATE);
            self.span = sample.span;
        }
    }
}

impl Controller for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn on_sent(&mut self, sent: &BurstSent) {
        match self.state {
            State::Train => self.on_train_sent(sent),
            State::Probe => self.on_probe_sent(sent),
            _ => {}
        }
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.witness(ack);
        if self.state == State::Train {
            return self.on_train_ack(ack);
        }
        if self.state == State::Compete {
            return self.compete(ack);
        }
        if self.found && self.state != State::Probe {
            self.bursts.on_ack(ack, self.min_rtt, self.capacity);
        }
        let collapsed = self.losses.collapse(ack.now, self.latest_rtt.max(MEASURE_MIN));
        if collapsed && self.newest < self.pacing.scaled(COLLAPSE_DELIVERED) {
            self.capacity = self.newest;
            self.rise.unsettle(ack.now);
            self.enter_drain(ack.now);
        }
        let stood = ack.now - self.since;
        if !self.measuring && stood >= self.wait_len() {
            self.measuring = true;
            self.losses.begin_phase();
        }
        let over = stood >= self.wait_len() + self.measure_len();
        match self.state {
            State::Ramp(_) if self.jump_arrives() => self.end_jump(ack.now),
            State::Ramp(steps) if over || self.queue.delay() > RAMP_QUEUE * self.queue_target() => {
                self.end_ramp_phase(ack, steps)
            }
            State::Drain | State::Cruise(_) => {
                self.update_capacity(ack);
                if self.resume(ack) {
                    return;
                }
                // Not the target at the rate that we have fallen to: on a slow share a few packets are a long delay.
                let target = self.short_queue().max(self.scaled_target().mul_f64(CROWD_TARGET));
                // Who sends the least possible has nothing left to yield.
                let sends = self.pacing.as_bytes() as f64 / self.newest.as_bytes().max(1) as f64;
                let yields = if self.pacing > RATE_MIN { 1.0 - sends } else { 1.0 };
                let patience = self.cycle_len().mul_f64(PATIENCE).max(PATIENCE_ROUNDS * self.min_rtt);
                let crowded = self.crowd.on_ack(ack, self.queue.delay(), target, yields, patience);
                let raised = self.raised && self.queue_is_busy();
                if (crowded || raised) && self.priority != Priority::Scavenger {
                    let reason = match crowded {
                        true => ModeReason::QueueStays { target, yielded: self.crowd.yielded() },
                        false => ModeReason::ClaimRaised { to: self.priority },
                    };
                    return self.enter_compete(ack, reason);
                }
                if self.looks_for_rise(ack) {
                    return;
                }
                match self.state {
                    State::Cruise(_) if self.drain_is_due(ack.now) || self.was_deceived() => {
                        self.enter_drain(ack.now)
                    }
                    State::Cruise(phase) if over => self.end_cruise_phase(ack, phase),
                    State::Cruise(_) => self.set_rate(self.cruise_gain()),
                    _ if over => self.end_drain(ack.now),
                    _ => self.set_rate(self.drain_gain),
                }
            }
            State::Probe => self.on_probe_ack(ack),
            State::Train | State::Ramp(_) | State::Compete => {}
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if loss.cause != LossCause::LocalSend {
            self.losses.on_lost(loss.packets as f64);
            self.retreat();
            if let Some(competition) = &mut self.competition {
                competition.on_loss(loss);
            }
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        self.retreat();
        // The queue marks before it drops: give back now, once a round trip, and do not creep back at once.
        let waits = matches!(self.state, State::Train | State::Drain | State::Compete);
        if !waits && mark.now - self.drained >= self.latest_rtt.max(MEASURE_MIN) {
            self.capacity = self.capacity.min(self.newest);
            self.rise.unsettle(mark.now);
            self.enter_drain(mark.now);
            self.creeps = false;
        }
    }

    fn recall(&mut self, history: &PathHistory) {
        self.memory = Memory::of(history);
    }

    fn remember(&self, history: &mut PathHistory) {
        let best = self.best.rate();
        if best > RATE_MIN {
            history.link_rate = Some(best.as_bytes());
            history.round_trip = Some(self.min_rtt);
        }
    }

    fn as_adaptive(&mut self) -> Option<&mut dyn Adaptive> {
        Some(self)
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
            State::Ramp(_) => "ramp",
            State::Drain => "drain",
            State::Probe => "probe",
            State::Cruise(_) => "cruise",
            State::Compete => self.competition.as_ref().map_or("compete", Compete::state),
        }
    }
}

impl Adaptive for Auto {
    fn claim(&mut self, now: Timestamp, claim: Claim) {
        self.ceiling = claim.ceiling.unwrap_or(TRAIN_RATE).max(RATE_MIN).min(TRAIN_RATE);
        if claim.priority == self.priority {
            return;
        }
        self.raised = self.priority == Priority::Scavenger;
        if self.raised {
            // What it had while it gave way to all says nothing of what its part is.
            self.proven = self.proven.max(self.first);
        }
        self.priority = claim.priority;
        if let Some(competition) = self.competition.take() {
            // Whether others hold the queue is asked again under the new claim.
            self.note(now, competition.state(), CRUISE, ModeReason::ClaimChanged { to: claim.priority });
            self.enter_drain(now);
        }
    }

    fn poll_mode_change(&mut self) -> Option<ModeChange> {
        self.log.poll()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Acks, PACKET};
    use super::*;

    const RTT: Duration = Duration::from_millis(65);

    #[test]
    fn what_was_delivered_is_remembered_and_what_was_only_tried_is_not() {
        let mut auto = Auto::new(PACKET);
        let mut history = PathHistory::default();
        auto.remember(&mut history);
        assert_eq!(history, PathHistory::default());
        let (mut acks, rate) = (Acks::new(RTT), Rate::bits_per_second(500_000_000));
        for _ in 0..3000 {
            // What is sent beyond the link's rate waits in a queue.
            let sent = auto.pacing_rate().unwrap_or(rate);
            acks.rtt = if sent > rate { RTT + Duration::from_millis(8) } else { RTT };
            auto.on_ack(&acks.next(Duration::from_millis(1), sent.min(rate)));
        }
        auto.remember(&mut history);
        assert_eq!(history.round_trip, Some(RTT));
        let kept = history.link_rate.expect("a rate") as f64;
        assert!((kept / rate.as_bytes() as f64 - 1.0).abs() < 0.05, "{kept}");
    }

    /// As where a host's stall made the train look twenty times faster than the path: with all of the object on its way there is nothing more
    /// to send, and no delivery is the path's own.
    #[test]
    fn a_pace_that_is_far_too_fast_is_corrected_though_all_there_is_has_been_sent() {
        let (mut auto, mut acks) = (Auto::new(PACKET), Acks::new(RTT));
        let (link, train) = (Rate::bits_per_second(1_000_000_000), Rate::bits_per_second(20_000_000_000));
        auto.on_ack(&acks.next(Duration::from_millis(1), train));
        assert!(auto.pacing_rate() > Some(link.scaled(5.0)), "the train is believed");
        acks.rtt = 2 * RTT;
        for _ in 0..1000 {
            // The queue is full, and of 85 packets a millisecond six do not arrive.
            auto.on_loss(&acks.losses(6));
            let ack = acks.next(Duration::from_millis(1), link);
            auto.on_ack(&AckSample { app_limited: true, ..ack });
        }
        assert!(auto.pacing_rate() < Some(link.scaled(1.2)), "{:?}", auto.pacing_rate());
    }
}
