//! How `auto` starts: a train of packets shows about what the path carries, a ramp finds out.

use super::super::AckSample;
use super::{Auto, MEASURE_MIN, RATE_MIN, State};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Packets of the first train. At 1 Gbit/s 64 packets of 1200 bytes last 0.6 ms, long against the ~0.1 ms that stamps jitter;
/// they are 77 kB, which a path of 10 Mbit/s drains in 60 ms.
pub(super) const TRAIN_PACKETS: u64 = 64;
/// The train is believed when this much of it has arrived,
const TRAIN_PACKETS_MIN: u64 = 48;
/// or when fewer packets have taken so long that no stall of a busy host (15 ms were seen on the laboratory's) explains it.
const TRAIN_SLOW: (u64, Duration) = (4, Duration::from_millis(30));
/// Rate of the train: as good as back to back, and the most that we ever send at.
pub(super) const TRAIN_RATE: Rate = Rate::bits_per_second(20_000_000_000);
/// The fastest that stamps can tell: a quicker train measures the hosts. Assumed where the train arrived as one.
const TRAIN_FASTEST: Rate = Rate::bits_per_second(1_000_000_000);
/// Share of the estimate to start with: stamps make trains look up to a tenth faster or slower than they are.
const RAMP_START: f64 = 0.95;
/// A start at what this path carried before: at this share of it, since others may use it now, and at most so many times what
/// the train found. A train that a stall has spoilt is several times too slow; one through a slower path is right. What was too
/// much ends with the round (the ramp's drain), as careful resume asks (draft-ietf-tsvwg-careful-resume).
const RECALLED: f64 = 0.75;
const RECALLED_MAX: f64 = 3.0;
/// Gains of the rounds of the ramp that found the path willing: small while the estimate may be nearly right, then larger at
/// once: a stall may have made the train look many times slower than it was.
pub(super) const RAMP_GAINS: [f64; 4] = [1.10, 1.25, 1.5, 2.0];
/// Where the ramp begins if the train only said that the path is fast, and if it said nothing.
const RAMP_FAST: usize = 1;
const RAMP_BLIND: usize = 3;
/// A standing queue of so many targets ends a phase of the ramp before its time: measured beside bursts of others, waste fell
/// from 20% to 15%.
pub(super) const RAMP_QUEUE: u32 = 2;
/// The path delivers what is sent, up to the noise of one window.
const DELIVERED_ALL: f64 = 0.95;
/// Packets by which a window can be wrong: one at each end.
const DELIVERED_NOISE: u64 = 2;
/// The train says what the link carries, but hosts can make it look faster: believed up to so many times what the ramp got of it.
const RAMP_PROVEN: f64 = 2.0;

impl Auto {
    pub(super) fn on_train_ack(&mut self, ack: &AckSample) {
        if self.since == Timestamp::ZERO {
            self.since = ack.now;
        }
        // All of the train is accounted for, or all of it that will be: then what there is must do.
        let waited = ack.now - self.since >= self.latest_rtt.max(MEASURE_MIN);
        let complete = waited || self.losses.acked() as u64 >= TRAIN_PACKETS || ack.bytes_in_flight == 0;
        let sample = ack.rate.filter(|s| {
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
        let recalled = self.recalled.map(|rate| rate.scaled(RECALLED).min(estimate.scaled(RECALLED_MAX)));
        self.capacity = estimate.scaled(RAMP_START).max(recalled.unwrap_or(RATE_MIN));
        self.proven = self.capacity;
        self.enter(State::Ramp(steps), ack.now, 1.0);
    }

    pub(super) fn end_ramp_phase(&mut self, ack: &AckSample, steps: usize) {
        let arrives = self.pacing.scaled(1.0 - self.losses.share());
        if ack.app_limited {
            // Not tried.
            self.hold(ack.now);
        } else if self.queue_is_empty() && self.delivers(arrives) {
            self.capacity = arrives;
            self.enter(State::Ramp(steps + 1), ack.now, RAMP_GAINS[steps.min(RAMP_GAINS.len() - 1)]);
        } else if self.queue_is_empty() && !self.losses.beyond_chance() {
            // What was not delivered and is neither in a queue nor lost was not sent in time: the host was busy, not the path.
            self.hold(ack.now);
        } else {
            self.capacity = self.newest;
            // What others left us of it at the moment may be less than what there is, but hardly less than half.
            self.proven = self.proven.min(self.newest.scaled(RAMP_PROVEN)).max(self.newest);
            self.enter_drain(ack.now);
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
    use super::super::super::{Controller, PathHistory};
    use super::*;

    const RTT: Duration = Duration::from_millis(65);

    /// Where a transfer starts after a train that found `train`, on a path that is remembered to carry `recalled`; Mbit/s.
    fn start(train: u64, recalled: Option<u64>) -> f64 {
        let mut auto = Auto::new(PACKET);
        let rate = |mbit: u64| Rate::bits_per_second(mbit * 1_000_000);
        auto.recall(&PathHistory {
            link_rate: recalled.map(|mbit| rate(mbit).as_bytes()),
            ..PathHistory::default()
        });
        let mut acks = Acks::new(RTT);
        for _ in 0..100 {
            auto.on_ack(&acks.next(Duration::from_millis(1), rate(train)));
            if auto.state != State::Train {
                break;
            }
        }
        auto.pacing_rate().map_or(0.0, |rate| rate.as_bytes() as f64 * 8.0 / 1e6)
    }

    #[test]
    fn a_remembered_path_starts_near_what_it_carried_but_not_far_above_what_the_train_found() {
        let near =
            |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 0.01, "{got} for {expected}");
        near(start(1000, None), 950.0);
        near(start(1000, Some(1000)), 950.0);
        near(start(400, Some(1000)), 750.0);
        near(start(100, Some(1000)), 300.0);
        near(start(1000, Some(100)), 950.0);
    }
}
