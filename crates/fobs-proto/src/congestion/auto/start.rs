//! How `auto` starts: a train of packets shows about what the path carries, a ramp finds out.
//!
//! On a path that is remembered, and whose round trip is what it was, the train is followed at once by a **jump**: for the round trip
//! until the train's answer, half of what the path carried before. That is the unvalidated phase of careful resume (RFC 9959), a
//! round trip sooner: there a first window must have come back before it; here the session's set-up has shown the round trip, and
//! the jump is no larger, half of a bandwidth-delay product, paced. From the train's answer on it is the start of any transfer: what
//! follows goes by what the train found.

use super::super::{AckSample, BurstSent, PathHistory};
use super::witness::{BEST_SPAN, Best};
use super::{Auto, MEASURE_MIN, Priority, RATE_MIN, State};
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Packets of the first train. At 1 Gbit/s 64 packets of 1200 bytes last 0.6 ms, long against the ~0.1 ms that stamps jitter;
/// they are 77 kB, which a path of 10 Mbit/s drains in 60 ms.
pub(super) const TRAIN_PACKETS: u64 = crate::recovery::FIRST_TRAIN_PACKETS;
/// The train is believed when this much of it has arrived,
const TRAIN_PACKETS_MIN: u64 = 48;
/// or when fewer packets have taken so long that no stall of a busy host (15 ms were seen on the laboratory's) explains it.
const TRAIN_SLOW: (u64, Duration) = (4, Duration::from_millis(30));
/// Rate of the train: as good as back to back, and the most that we ever send at.
pub(super) const TRAIN_RATE: Rate = Rate::bits_per_second(20_000_000_000);
/// The fastest that stamps can tell: a quicker train measures the hosts. Assumed where the train arrived as one.
const TRAIN_FASTEST: Rate = Rate::bits_per_second(1_000_000_000);
/// Share of the estimate to start with: stamps make trains look up to a tenth faster or slower than they are.
pub(super) const RAMP_START: f64 = 0.95;
/// A start at what this path carried before: at this share of it, since others may use it now, and at most so many times what
/// the train found. A train that a stall has spoilt is several times too slow; one through a slower path is right. What was too
/// much ends with the round (the ramp's drain).
const RECALLED: f64 = 0.75;
const RECALLED_MAX: f64 = 3.0;
/// Share of what the path carried before to jump to: the most that careful resume allows (RFC 9959), so that the other half
/// is there for who has come since.
const JUMP: f64 = 0.5;
/// Behind a jump memory, which was measured for longer, is believed before a train that found up to so many times as much, down to
/// the rate of the jump: hosts that send and receive at the time spoil trains in either direction (beside a jump in the laboratory
/// three traced trains found less than 0.8 and 1.35 times the link's rate, `docs/experiments/history.md`).
const BELIEVED: f64 = 1.4;
/// Gains of the rounds of the ramp that found the path willing: small while the estimate may be nearly right, then larger at
/// once: a stall may have made the train look many times slower than it was.
pub(super) const RAMP_GAINS: [f64; 4] = [1.10, 1.25, 1.5, 2.0];
/// Where the ramp begins if the train only said that the path is fast, and if it said nothing.
const RAMP_FAST: usize = 1;
const RAMP_BLIND: usize = 3;
/// A standing queue of so many targets ends a phase of the ramp before its time: measured beside bursts of others, waste fell
/// from 20% to 15%.
pub(super) const RAMP_QUEUE: u32 = 2;
/// Who resumes and finds his own queue so often in a row forgets what he resumed. With 1, 70% of what bursts leave at 100 Mbit/s is taken instead of 73; never, eight of us at 200 ms repeat 15% of
/// their packets instead of 6, and in one start of ten of eight at 24 ms some take each other for CUBIC for good.
const RELAPSES: u32 = 2;
/// The path delivers what is sent, up to the noise of one window.
const DELIVERED_ALL: f64 = 0.95;
/// Packets by which a window can be wrong: one at each end.
const DELIVERED_NOISE: u64 = 2;
/// The train says what the link carries, but hosts can make it look faster: believed up to so many times what the ramp got of it.
const RAMP_PROVEN: f64 = 2.0;

/// What earlier transfers left, and what is sent on the strength of it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// What the path carried.
    rate: Option<Rate>,
    /// Its round trip, where today's is near it.
    round_trip: Option<Duration>,
    /// The jump, until it is known what became of it.
    jump: Option<Jump>,
}

#[derive(Debug)]
struct Jump {
    rate: Rate,
    /// Packets of the train before it.
    train: u64,
    /// The slope over those of them that have arrived.
    slope: Option<RateSample>,
}

impl Memory {
    pub(super) fn of(history: &PathHistory) -> Memory {
        let rate = history.link_rate.map(Rate::bytes_per_second);
        Memory { rate, round_trip: history.round_trip, jump: None }
    }

    /// The slope over the train alone, and whether later packets have arrived too: their distances are ours, not the path's.
    fn of_train(&mut self, acked: u64, slope: Option<RateSample>) -> (Option<RateSample>, bool) {
        let Some(jump) = &mut self.jump else { return (slope, false) };
        if acked <= jump.train {
            jump.slope = slope.or(jump.slope);
            return (slope, false);
        }
        let enough = jump.slope.filter(|slope| slope.packets >= TRAIN_PACKETS / 2);
        (enough.or(slope), true)
    }

    /// The rate to start with after a train that found `estimate`.
    fn start(&self, estimate: Rate) -> Rate {
        let (rate, found) = (self.rate.unwrap_or(Rate::ZERO), estimate.scaled(RAMP_START));
        match &self.jump {
            None => found.max(rate.scaled(RECALLED).min(estimate.scaled(RECALLED_MAX))),
            // At least half of what is remembered: too much would again be half of a bandwidth-delay product at most.
            Some(jump) if estimate >= jump.rate && estimate <= rate.scaled(BELIEVED) => {
                rate.scaled(RAMP_START).min(estimate.scaled(1.0 / JUMP))
            }
            // A faster path, a slower one, or a train that was spoilt worse, which the arrival of the jump will tell.
            Some(_) => found,
        }
    }
}

impl Auto {
    /// Goes on behind the train if there is reason to: not who gives way to all, since others may have the path by now.
    pub(super) fn on_train_sent(&mut self, sent: &BurstSent) {
        if let Some(jump) = &self.memory.jump {
            self.pacing = jump.rate;
            return;
        }
        let (Some(rate), Some(round_trip)) = (self.memory.rate, self.memory.round_trip) else { return };
        let whole = sent.bytes_in_flight + self.packet_len > self.window;
        if !whole || self.priority == Priority::Scavenger {
            return;
        }
        let rate = rate.scaled(JUMP).min(self.ceiling);
        // Of the train's size or less, as on a short path, it is not worth a wait less.
        let window = rate.bytes_in(round_trip);
        if window > self.window {
            let train = sent.bytes_in_flight / self.packet_len;
            self.memory.jump = Some(Jump { rate, train, slope: None });
            self.window = window;
            // All that has left counts at the rate of the jump: the train's last burst is followed by a pause for all of the train, so
            // that it arrives by itself.
            self.pacing = rate.scaled(sent.bytes as f64 / sent.bytes_in_flight.max(1) as f64);
        }
    }

    /// Something was lost before the train has come back: memory counts no more, and nothing leaves until then.
    pub(super) fn retreat(&mut self) {
        if self.state == State::Train && self.memory.jump.is_some() {
            self.memory = Memory::default();
            self.window = TRAIN_PACKETS * self.packet_len;
        }
    }

    /// Whether the path delivers the jump that the train had contradicted.
    pub(super) fn jump_arrives(&self) -> bool {
        let Some(jump) = &self.memory.jump else { return false };
        let delivered = self.newest >= jump.rate.scaled(DELIVERED_ALL) && self.span >= MEASURE_MIN;
        delivered && self.queue_is_empty() && !self.losses.beyond_chance()
    }

    /// It was the train that was spoilt.
    pub(super) fn end_jump(&mut self, now: Timestamp) {
        self.memory.jump = None;
        self.capacity = self.capacity.max(self.memory.start(self.newest));
        self.proven = self.capacity;
        self.enter(State::Ramp(0), now, 1.0);
    }

    pub(super) fn on_train_ack(&mut self, ack: &AckSample) {
        if self.since == Timestamp::ZERO {
            self.since = ack.now;
        }
        // All of the train is accounted for, or all of it that will be: then what there is must do.
        let waited = ack.now - self.since >= self.latest_rtt.max(MEASURE_MIN);
        let acked = self.losses.acked() as u64;
        let (slope, passed) = self.memory.of_train(acked, ack.rate);
        let complete = waited || passed || acked >= TRAIN_PACKETS || ack.bytes_in_flight == 0;
        let sample = slope.filter(|s| {
            let slow = s.packets >= TRAIN_SLOW.0 && s.span >= TRAIN_SLOW.1;
            complete || slow || s.packets >= TRAIN_PACKETS_MIN
        });
        // On a short path a ramp that goes too far is over in 10 ms.
        let (estimate, steps) = match sample {
            Some(sample) if sample.rate > TRAIN_FASTEST && self.min_rtt < MEASURE_MIN => {
                (sample.rate, RAMP_FAST)
            }
            Some(sample) => (sample.rate, 0),
            None if complete => (TRAIN_FASTEST, RAMP_BLIND),
            None => return,
        };
        self.capacity = self.memory.start(estimate).max(RATE_MIN);
        self.memory.jump.take_if(|jump| estimate >= jump.rate);
        self.proven = self.capacity;
        self.enter(State::Ramp(steps), ack.now, 1.0);
    }

    pub(super) fn end_ramp_phase(&mut self, ack: &AckSample, steps: usize) {
        self.memory.jump = None;
        let arrives = self.pacing.scaled(1.0 - self.losses.share());
        if self.is_idle(ack) {
            // Not tried.
            self.hold(ack.now);
        } else if self.queue_is_empty() && self.delivers(arrives) {
            self.relapses = 0;
            self.capacity = arrives;
            self.enter(State::Ramp(steps + 1), ack.now, RAMP_GAINS[steps.min(RAMP_GAINS.len() - 1)]);
        } else if self.queue_is_empty() && !self.losses.beyond_chance() {
            // What was not delivered and is neither in a queue nor lost was not sent in time: the host was busy, not the path.
            self.hold(ack.now);
        } else {
            self.judge_resumption();
            self.capacity = self.newest;
            // What others left us of it at the moment may be less than what there is, but hardly less than half.
            self.proven = self.proven.min(self.newest.scaled(RAMP_PROVEN)).max(self.newest);
            self.enter_drain(ack.now);
        }
    }

    /// What was resumed met a queue. A burst comes at any time; one that comes just when ours has come back is ours, and that of others of us who
    /// resume too. Then it was no burst that had passed.
    fn judge_resumption(&mut self) {
        if self.resumed {
            self.relapses = if self.measuring { self.relapses + 1 } else { 0 };
            if self.relapses >= RELAPSES {
                self.relapses = 0;
                self.best = Best::over(BEST_SPAN);
                self.bursts.forget_trend();
            }
        }
    }

    /// Nothing was learnt: holds this rate to look again after another phase, unless it is more than may be claimed.
    fn hold(&mut self, now: Timestamp) {
        match self.pacing >= self.ceiling {
            true => self.enter(State::Cruise(1), now, self.cruise_gain()),
            false => self.begin_phase(now),
        }
    }

    /// Whether the path delivers so much. On a slow path a packet more or less in one window is no shortfall.
    fn delivers(&self, arrives: Rate) -> bool {
        let noise = Rate::of(DELIVERED_NOISE * self.packet_len, self.span).unwrap_or(Rate::ZERO);
        self.newest.as_bytes() + noise.as_bytes() >= arrives.scaled(DELIVERED_ALL).as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{Acks, PACKET};
    use super::super::super::{Adaptive, Claim, Controller};
    use super::*;

    const RTT: Duration = Duration::from_millis(65);
    /// What an ack covers at 1 Gbit/s: 8.5 packets.
    const STEP: Duration = Duration::from_micros(100);

    fn rate(mbit: u64) -> Rate {
        Rate::bits_per_second(mbit * 1_000_000)
    }

    /// What an earlier transfer left of a path.
    fn history(mbit: u64, round_trip: Option<Duration>) -> PathHistory {
        PathHistory { link_rate: Some(rate(mbit).as_bytes()), round_trip, ..PathHistory::default() }
    }

    fn auto(history: PathHistory) -> Auto {
        let mut auto = Auto::new(PACKET);
        auto.recall(&history);
        auto
    }

    /// One whose train has left.
    fn under_way(mut auto: Auto) -> Auto {
        for packets in [44, 64, 76] {
            let bytes_in_flight = packets * u64::from(PACKET);
            let bytes = bytes_in_flight.min(20 * u64::from(PACKET));
            auto.on_sent(&BurstSent { now: Timestamp::ZERO, packets: 20, bytes, bytes_in_flight });
        }
        auto
    }

    fn mbit(auto: &Auto) -> f64 {
        auto.pacing_rate().map_or(0.0, |rate| rate.as_bytes() as f64 * 8.0 / 1e6)
    }

    fn near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 0.01, "{got} for {expected}");
    }

    /// Where a transfer starts after a train that found `train`, on a path that is remembered to carry `recalled`; Mbit/s.
    fn start(train: u64, recalled: Option<u64>) -> f64 {
        let mut auto = auto(recalled.map_or_else(PathHistory::default, |mbit| history(mbit, None)));
        let mut acks = Acks::new(RTT);
        for _ in 0..100 {
            auto.on_ack(&acks.next(Duration::from_millis(1), rate(train)));
            if auto.state != State::Train {
                break;
            }
        }
        mbit(&auto)
    }

    #[test]
    fn a_remembered_path_starts_near_what_it_carried_but_not_far_above_what_the_train_found() {
        near(start(1000, None), 950.0);
        near(start(1000, Some(1000)), 950.0);
        near(start(400, Some(1000)), 750.0);
        near(start(100, Some(1000)), 300.0);
        near(start(1000, Some(100)), 950.0);
    }

    #[test]
    fn a_path_with_its_round_trip_of_then_is_sent_half_of_what_it_carried_behind_the_train() {
        let fresh = Auto::new(PACKET);
        let jumps = |history: PathHistory| under_way(auto(history));
        let known = jumps(history(1000, Some(RTT)));
        near(mbit(&known), 500.0);
        near(known.congestion_window() as f64, rate(500).bytes_in(RTT) as f64);
        // Another path, nothing known of the round trip, a path so short that the train is all of it.
        for history in [PathHistory::default(), history(1000, None), history(1000, Some(RTT / 100))] {
            let other = jumps(history);
            assert_eq!(other.congestion_window(), fresh.congestion_window());
            assert_eq!(other.pacing_rate(), fresh.pacing_rate());
        }
    }

    #[test]
    fn a_jump_keeps_to_its_claim() {
        let claims = |priority, ceiling: Option<u64>| {
            let mut auto = auto(history(1000, Some(RTT)));
            auto.claim(Timestamp::ZERO, Claim { priority, ceiling: ceiling.map(rate) });
            let auto = under_way(auto);
            (mbit(&auto), auto.congestion_window())
        };
        near(claims(Priority::Greedy, None).0, 500.0);
        near(claims(Priority::Fair, Some(200)).0, 200.0);
        near(claims(Priority::Fair, Some(200)).1 as f64, rate(200).bytes_in(RTT) as f64);
        assert_eq!(claims(Priority::Scavenger, None).1, TRAIN_PACKETS * u64::from(PACKET));
    }

    #[test]
    fn the_train_is_not_measured_by_what_follows_it() {
        let mut auto = under_way(auto(history(1000, Some(RTT))));
        let mut acks = Acks::new(RTT);
        // Half of the train's packets, one batch, which is too few to go by; then the rest and the jump's first in another.
        let slow = |ack: AckSample, mbit, packets| {
            let span = Duration::from_millis(1);
            AckSample { rate: Some(RateSample { rate: rate(mbit), span, packets }), ..ack }
        };
        auto.on_ack(&slow(acks.next(STEP * 4, rate(1000)), 2000, 33));
        assert_eq!(auto.state, State::Train);
        auto.on_ack(&slow(acks.next(STEP * 16, rate(1000)), 600, 170));
        assert_eq!(auto.state, State::Ramp(0));
        near(mbit(&auto), 1900.0);
    }

    #[test]
    fn behind_a_jump_memory_is_believed_before_a_train_that_is_not_far_from_it() {
        for (train, expected) in [(600, 950.0), (1000, 950.0), (1300, 950.0), (2000, 1900.0)] {
            let mut auto = under_way(auto(history(1000, Some(RTT))));
            let mut acks = Acks::new(RTT);
            while auto.state == State::Train {
                auto.on_ack(&acks.next(STEP, rate(train)));
            }
            near(mbit(&auto), expected);
        }
    }

    #[test]
    fn a_jump_that_loses_is_over_at_once_and_so_is_memory() {
        let mut auto = under_way(auto(history(1000, Some(RTT))));
        let mut acks = Acks::new(RTT);
        auto.on_loss(&acks.loss());
        assert_eq!(auto.congestion_window(), TRAIN_PACKETS * u64::from(PACKET), "nothing leaves");
        for _ in 0..8 {
            auto.on_ack(&acks.next(STEP * 10, rate(100)));
        }
        near(mbit(&auto), 95.0);
    }

    #[test]
    fn a_train_slower_than_the_jump_is_believed_until_the_jump_arrives() {
        let slow_train = || {
            let mut auto = under_way(auto(history(1000, Some(RTT))));
            let mut acks = Acks::new(RTT);
            while auto.state == State::Train {
                auto.on_ack(&acks.next(STEP * 10, rate(100)));
            }
            near(mbit(&auto), 95.0);
            (auto, acks)
        };
        // A host had stalled: the jump arrives as it was sent.
        let (mut auto, mut acks) = slow_train();
        auto.on_ack(&acks.next(STEP * 10, rate(500)));
        near(mbit(&auto), 750.0);
        // The path is slower now: the jump waits in a queue.
        let (mut auto, mut acks) = slow_train();
        for n in 0..400 {
            acks.rtt = RTT + Duration::from_millis(1) * n.min(300);
            auto.on_ack(&acks.next(Duration::from_millis(1), rate(100)));
            assert!(mbit(&auto) < 110.0, "{auto:?}");
        }
    }
}
