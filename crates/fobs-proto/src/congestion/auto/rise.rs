//! How `auto` follows a rise of the path's rate.
//!
//! A rise shows only as room: the queue that we keep is gone. To try a little more each round takes ten round trips to come to ten
//! times the rate. So a **probe** follows, as at the start: a train of packets, whose dispersion tells the rate of the path one
//! round trip later. The pause behind it makes up for it: where nothing has risen, the path carries no more than before. One is sent when
//! the queue goes much faster than what we send explains, and one after each drain, which leaves no queue that could go.
//!
//! What others leave us for a moment looks alike, and a train tells what the path carries with nobody else on it: several of us
//! would all take all of it. So only who is **alone** goes by it: who had about all that the probes before told of. And all of
//! this only in a **calm**, when nothing but our own drains has changed the queue for a while.

use super::super::{AckSample, BurstSent};
use super::start::RAMP_START;
use super::witness::Best;
use super::{Auto, MEASURE_MIN, QUEUE_BUSY, QUEUE_EMPTY, State, TRAIN_RATE};
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// For so long nothing but our own drains has changed the queue: round trips, and at least.
const CALM_ROUNDS: u32 = 10;
const CALM_MIN: Duration = Duration::from_secs(1);
/// A queue that stands is no longer than so many targets.
const CALM_QUEUE: u32 = 2;
/// Delay lost per time. Twice the rate makes more than a half of it, our own drains and those of others up to a fifth.
const SHARP: f64 = 0.25;
/// So much faster than what we have is a rise; less the ramp finds. Who is told so much more all the time is not alone.
const RISEN: f64 = 1.25;
/// For how long probes are remembered, at least: several of them, since those of several of us may meet on the path.
const TOLD_SPAN: Duration = Duration::from_secs(10);
/// Packets of the probe: an eighth of what is on its way, which a queue of a quarter of the product holds beside what stands in it; but as many as
/// make two reports, of which one is of the probe alone, and no more than make the stamps' 0.1 ms of noise small at 10 Gbit/s (0.6 ms).
const PROBE_SHARE: u64 = 8;
const PROBE_PACKETS: (u64, u64) = (96, 512);
/// And never more of what is on its way than this: on slower and shorter paths the ramp's rounds must do.
const PROBE_SHARE_MAX: u64 = 2;
/// A part of the probe that was so much faster than what came before it has seen more.
const LATER: f64 = 1.5;
/// So many packets of the probe must have told it: half of what one report leaves of the smallest.
const TOLD_PACKETS: u64 = 24;

/// Watches for a rise.
#[derive(Debug)]
pub(super) struct Rise {
    /// Since when, and whether a queue has been seen to stand since: on some paths none does.
    calm: Timestamp,
    queued: bool,
    /// The newest ack that found the queue standing, and how long it was.
    stood: Option<(Timestamp, Duration)>,
    /// What probes told of late.
    told: Best,
    /// Packets of a probe at most: half of one that the path has lost of.
    most: u64,
    pub(super) probe: Option<Probe>,
    /// When the last probe was sent.
    probed: Timestamp,
}

impl Default for Rise {
    fn default() -> Rise {
        Rise {
            calm: Timestamp::ZERO,
            queued: false,
            stood: None,
            told: Best::over(TOLD_SPAN),
            most: PROBE_PACKETS.1,
            probe: None,
            probed: Timestamp::ZERO,
        }
    }
}

/// What is under way to find one.
#[derive(Debug)]
pub(super) struct Probe {
    /// Bytes to send at once, those of them for which no pause makes up, and all that have been sent.
    train: u64,
    refill: u64,
    sent: u64,
    /// The rate before and after it.
    rate: Rate,
    /// Whether it is gone by.
    alone: bool,
    /// What it should have left of a queue has gone.
    again: bool,
    /// The first report that was faster, which may have begun before the train, and all others together.
    first: Option<Slope>,
    others: Slope,
}

/// What reports tell together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slope {
    packets: u64,
    bytes: u64,
    span: Duration,
}

impl Rise {
    /// Something has happened to the path.
    pub(super) fn unsettle(&mut self, now: Timestamp) {
        self.calm = now;
        self.queued = false;
        self.stood = None;
    }

    /// Whether a probe has told anything yet.
    fn knows(&self) -> bool {
        self.told.rate() > Rate::ZERO
    }

    fn is_calm(&self, now: Timestamp, round_trip: Duration) -> bool {
        self.queued && now - self.calm >= CALM_MIN.max(CALM_ROUNDS * round_trip)
    }

    /// Takes the delay in the queue; whether the queue has gone as it does when the path's rate rises.
    fn on_delay(&mut self, now: Timestamp, delay: Duration, target: Duration) -> bool {
        if delay > target / QUEUE_BUSY {
            self.stood = Some((now, delay));
            self.queued = true;
            return false;
        }
        let Some((at, before)) = self.stood.take_if(|_| delay < target / QUEUE_EMPTY) else { return false };
        let slope = before.saturating_sub(delay).as_secs_f64() / (now - at).as_secs_f64();
        slope >= SHARP
    }
}

impl Auto {
    /// Looks for a rise in what the queue does; true if a probe has begun.
    pub(super) fn looks_for_rise(&mut self, ack: &AckSample) -> bool {
        let target = self.queue_target();
        if self.queue.delay() > CALM_QUEUE * target {
            self.rise.unsettle(ack.now);
        }
        let delay = ack.latest_rtt.saturating_sub(self.min_rtt);
        let gone = self.rise.on_delay(ack.now, delay, target) && self.is_alone();
        (gone || !self.rise.knows()) && !ack.app_limited && self.probes(ack.now, 0)
    }

    /// Looks for a rise where there is no queue that could go; true if a probe has begun. Who is alone leaves the queue behind that he keeps;
    /// who is not only learns by it, seldom, whether that is still so.
    pub(super) fn probes_after_drain(&mut self, now: Timestamp) -> bool {
        let alone = self.is_alone();
        if !alone && self.rise.knows() && now - self.rise.probed < TOLD_SPAN {
            return false;
        }
        let refill = if alone { self.capacity.bytes_in(self.queue_target()) } else { 0 };
        self.probes(now, refill)
    }

    /// Whether nobody else has a part of the path worth the name.
    fn is_alone(&self) -> bool {
        self.rise.knows() && self.rise.told.rate() < self.capacity.scaled(RISEN)
    }

    /// Sends a probe that leaves so many bytes behind in the queue, if the path is one for it; true if it has begun.
    fn probes(&mut self, now: Timestamp, refill: u64) -> bool {
        let window = self.pacing.bytes_in(self.min_rtt) / self.packet_len;
        let packets = (window / PROBE_SHARE).min(self.rise.most).max(PROBE_PACKETS.0);
        let probes = self.rise.is_calm(now, self.min_rtt)
            && self.min_rtt >= MEASURE_MIN
            && packets <= (window / PROBE_SHARE_MAX).min(self.rise.most)
            && self.capacity < self.ceiling;
        if probes {
            let (alone, train) = (self.is_alone(), (packets * self.packet_len).max(refill));
            self.enter(State::Probe, now, 1.0);
            self.measuring = true;
            self.losses.begin_phase();
            // The train's own queue is nobody's burst.
            self.bursts.forget_trend();
            self.rise.probed = now;
            self.rise.probe = Some(Probe {
                train,
                refill,
                sent: 0,
                rate: self.pacing,
                alone,
                again: false,
                first: None,
                others: Slope::default(),
            });
            self.pacing = TRAIN_RATE.min(self.top());
        }
        probes
    }

    /// Behind the train, nothing leaves for as long as it would have taken at our rate.
    pub(super) fn on_probe_sent(&mut self, sent: &BurstSent) {
        let Some(probe) = &mut self.rise.probe else { return };
        let over = probe.sent >= probe.train;
        probe.sent += sent.bytes;
        if over {
            self.pacing = probe.rate;
        } else if probe.sent >= probe.train {
            let owed = probe.sent.saturating_sub(probe.refill).max(1);
            self.pacing = probe.rate.scaled(sent.bytes as f64 / owed as f64);
        }
    }

    /// Takes an ack while a probe is on its way.
    pub(super) fn on_probe_ack(&mut self, ack: &AckSample) {
        if self.queue.delay() > CALM_QUEUE * self.queue_target() {
            // Not the probe's, which is gone by the time that a queue is seen to stand.
            self.rise.unsettle(ack.now);
            return self.enter(State::Cruise(1), ack.now, 1.0);
        }
        let delay = ack.latest_rtt.saturating_sub(self.min_rtt);
        let gone = self.rise.on_delay(ack.now, delay, self.queue_target());
        let Some(probe) = &mut self.rise.probe else { return };
        probe.again |= gone && probe.refill > 0;
        let faster = self.capacity.scaled(RISEN);
        let stood = ack.now - self.since;
        let step = ack.step.filter(|_| stood >= self.min_rtt);
        if let Some(step) = step.filter(|step| step.rate > faster) {
            probe.hears(step);
        }
        let passed = step.is_some_and(|step| step.rate <= faster) && probe.others.packets >= TOLD_PACKETS;
        // The train, the pause behind it, news of its losses, and a report that waits.
        let longest = self.latest_rtt * 5 / 4 + probe.rate.time_for(probe.train) + MEASURE_MIN;
        if passed || probe.heard() >= probe.train || stood >= longest {
            self.end_probe(ack.now);
        }
    }

    fn end_probe(&mut self, now: Timestamp) {
        let Some(probe) = self.rise.probe.take() else { return };
        if self.losses.beyond_chance() {
            // What has come of it tells nothing.
            self.rise.most = self.rise.most.min(probe.train / self.packet_len) / 2;
            self.rise.unsettle(now);
            return self.enter(State::Cruise(1), now, self.cruise_gain());
        }
        let told = probe.told().filter(|rate| *rate > self.capacity.scaled(RISEN));
        self.rise.told.observe(now, told.unwrap_or(self.capacity));
        let risen = told.filter(|_| probe.alone);
        // It came too early: much of it was not faster, or all of it.
        let midway = probe.heard() < probe.train / 2;
        let early = match risen {
            Some(rate) => midway && rate > self.capacity.scaled(LATER),
            None => probe.again,
        };
        if let Some(rate) = risen {
            self.rise.most = PROBE_PACKETS.1;
            self.capacity = rate.scaled(RAMP_START);
            self.proven = self.capacity;
        }
        match early && self.probes(now, 0) {
            true => {}
            false if risen.is_some() => self.enter(State::Ramp(0), now, 1.0),
            false => self.enter(State::Cruise(1), now, self.cruise_gain()),
        }
    }
}

impl Probe {
    fn hears(&mut self, step: RateSample) {
        // The rate has risen while the probe was on its way.
        let before = Rate::of(self.others.bytes, self.others.span);
        if before.is_some_and(|rate| step.rate > rate.scaled(LATER)) && step.packets >= TOLD_PACKETS {
            self.others = Slope::default();
        }
        let slope = Slope { packets: step.packets, bytes: step.rate.bytes_in(step.span), span: step.span };
        match self.first {
            None => self.first = Some(slope),
            Some(_) => self.others.add(slope),
        }
    }

    /// Bytes that came faster.
    fn heard(&self) -> u64 {
        self.first.map_or(0, |first| first.bytes).saturating_add(self.others.bytes)
    }

    /// The rate of the train, if enough of it has been heard of.
    fn told(&self) -> Option<Rate> {
        let slopes = [Some(self.others), self.first];
        let told = slopes.into_iter().flatten().find(|slope| slope.packets >= TOLD_PACKETS)?;
        Rate::of(told.bytes, told.span)
    }
}

impl Slope {
    fn add(&mut self, other: Slope) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.span = self.span.saturating_add(other.span);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Controller;
    use super::super::super::testing::{Acks, PACKET};
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(65);
    const TARGET: Duration = Duration::from_millis(4);

    fn at(ms: u32) -> Timestamp {
        Timestamp::ZERO + MS * ms
    }

    fn mbit(mbit: u64) -> Rate {
        Rate::bits_per_second(mbit * 1_000_000)
    }

    /// A report of so many packets that came at so many Mbit/s.
    fn step(rate: u64, packets: u64) -> RateSample {
        let bytes = packets * u64::from(PACKET);
        RateSample { rate: mbit(rate), span: mbit(rate).time_for(bytes), packets }
    }

    /// One that has had 100 Mbit/s in a long calm, and whose last probe told so much.
    fn calm(told: u64) -> Auto {
        let mut auto = Auto::new(PACKET);
        (auto.min_rtt, auto.latest_rtt) = (RTT, RTT);
        (auto.capacity, auto.pacing) = (mbit(100), mbit(100));
        auto.found = true;
        auto.rise.queued = true;
        auto.rise.told.observe(at(1000), mbit(told));
        auto
    }

    /// Sends the train in bursts of 20 packets; its bytes, and how long nothing leaves behind it.
    fn send_train(auto: &mut Auto, now: Timestamp) -> (u64, Duration) {
        let (mut sent, bytes) = (0, 20 * u64::from(PACKET));
        while auto.pacing == TRAIN_RATE {
            auto.on_sent(&BurstSent { now, packets: 20, bytes, bytes_in_flight: 0 });
            sent += bytes;
        }
        (sent, auto.pacing.time_for(bytes))
    }

    /// The acks of a probe whose reports tell these rates and packets.
    fn hear(auto: &mut Auto, now: Timestamp, reports: &[RateSample]) {
        let mut acks = Acks::new(RTT);
        let ack = acks.next(now + RTT - acks.now(), mbit(100));
        for report in reports {
            auto.on_ack(&AckSample { step: Some(*report), ..ack });
        }
    }

    fn near(got: Rate, expected: Rate) {
        assert!(
            (got.as_bytes() as f64 / expected.as_bytes() as f64 - 1.0).abs() < 0.01,
            "{got} for {expected}"
        );
    }

    #[test]
    fn a_queue_that_goes_at_once_is_news_and_one_that_is_drained_is_not() {
        let mut rise = Rise::default();
        let mut delays = |delays: &[(u32, u32)]| {
            let seen: Vec<_> =
                delays.iter().map(|(ms, delay)| rise.on_delay(at(*ms), MS * *delay, TARGET)).collect();
            seen
        };
        assert_eq!(delays(&[(0, 4), (5, 0), (10, 0)]), [false, true, false]);
        assert_eq!(delays(&[(20, 4), (27, 2), (35, 0)]), [false, false, true]);
        assert_eq!(delays(&[(40, 4), (60, 2), (80, 0)]), [false, false, false]);
    }

    #[test]
    fn a_probe_is_sent_in_a_calm_alone() {
        assert!(calm(100).probes(at(2000), 0));
        assert!(!calm(100).probes(at(900), 0), "it has not been calm for long enough");
        let mut auto = calm(100);
        auto.rise.unsettle(at(1500));
        assert!(!auto.probes(at(3000), 0), "no queue has been seen since");
        let mut auto = calm(100);
        (auto.capacity, auto.pacing) = (mbit(10), mbit(10));
        assert!(!auto.probes(at(2000), 0), "it would be most of what is on its way");
        let mut auto = calm(100);
        auto.ceiling = mbit(100);
        assert!(!auto.probes(at(2000), 0), "there is nothing to look for");
    }

    #[test]
    fn a_pause_makes_up_for_the_train_but_for_the_queue_that_it_leaves() {
        for refill in [0, 40_000] {
            let mut auto = calm(100);
            assert!(auto.probes(at(2000), refill));
            let (sent, pause) = send_train(&mut auto, at(2000));
            assert!(sent >= 96 * u64::from(PACKET) && sent < 120 * u64::from(PACKET), "{sent} bytes");
            let owed = mbit(100).time_for(sent - refill);
            assert!(pause.abs_diff(owed) < MS / 10, "{pause:?} for {owed:?}");
            auto.on_sent(&BurstSent { now: at(2020), packets: 1, bytes: 1472, bytes_in_flight: 0 });
            assert_eq!(auto.pacing_rate(), Some(mbit(100)));
        }
    }

    #[test]
    fn what_the_train_tells_is_followed_by_who_is_alone() {
        // The first report began before the train.
        let reports = [step(150, 64), step(400, 40)];
        for (told, expected) in [(100, 380), (400, 100)] {
            let mut auto = calm(told);
            assert!(auto.probes(at(2000), 0));
            send_train(&mut auto, at(2000));
            hear(&mut auto, at(2000), &reports);
            near(auto.capacity, mbit(expected));
        }
    }

    #[test]
    fn a_train_that_finds_the_rate_as_it_was_changes_nothing() {
        let mut auto = calm(100);
        assert!(auto.probes(at(2000), 0));
        send_train(&mut auto, at(2000));
        hear(&mut auto, at(2000), &[step(100, 64), step(100, 40)]);
        assert_eq!(auto.state, State::Probe, "more may come");
        hear(&mut auto, at(2100), &[step(100, 40)]);
        assert_eq!((auto.state, auto.capacity), (State::Cruise(1), mbit(100)));
        assert!(auto.is_alone());
    }

    #[test]
    fn a_lost_train_tells_nothing_and_the_next_is_half_as_long() {
        let mut auto = calm(100);
        assert!(auto.probes(at(2000), 0));
        send_train(&mut auto, at(2000));
        auto.on_loss(&Acks::new(RTT).losses(30));
        hear(&mut auto, at(2000), &[step(150, 64), step(400, 40)]);
        assert_eq!((auto.state, auto.capacity), (State::Cruise(1), mbit(100)));
        assert_eq!(auto.rise.most, PROBE_PACKETS.0 / 2);
        assert!(!auto.probes(at(2500), 0), "it is not calm");
    }

    #[test]
    fn a_rise_midway_is_told_by_what_came_after_it() {
        let mut probe = Probe {
            train: 512 * u64::from(PACKET),
            refill: 0,
            sent: 0,
            rate: mbit(100),
            alone: true,
            again: false,
            first: None,
            others: Slope::default(),
        };
        assert_eq!(probe.told(), None);
        probe.hears(step(150, 12));
        assert_eq!(probe.told(), None, "too little");
        probe.hears(step(200, 64));
        near(probe.told().expect("enough"), mbit(200));
        probe.hears(step(800, 64));
        near(probe.told().expect("enough"), mbit(800));
    }
}
