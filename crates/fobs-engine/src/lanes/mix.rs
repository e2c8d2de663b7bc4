//! What the threads of several lanes spend their time on, as the session's sample has it: each lane counts by
//! its part of the bytes, so that one that carries nothing limits nothing.

use fobs_proto::Timestamp;
use std::time::Duration;

/// A lane that has shown nothing for this long carries nothing: five heartbeats.
const STALE: Duration = Duration::from_secs(1);

/// What a lane's thread has counted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneAccount<const N: usize> {
    /// When it was read.
    pub(crate) at: Timestamp,
    /// Bytes that the lane has carried.
    pub(crate) bytes: u64,
    /// Times by what they were spent on, which exclude each other, microseconds.
    pub(crate) times_us: [u64; N],
}

/// What a lane was like between its last two accounts.
#[derive(Debug)]
struct Stretch<const N: usize> {
    last: LaneAccount<N>,
    /// Parts of the time.
    parts: [f64; N],
    /// Bytes a second.
    rate: f64,
}

/// See the module. Its sums never decrease, and all together they grow no faster than time.
#[derive(Debug)]
pub(crate) struct LaneMix<const N: usize> {
    at: Timestamp,
    lanes: Vec<Stretch<N>>,
    sums_us: [f64; N],
}

impl<const N: usize> LaneMix<N> {
    pub(crate) fn new(began: Timestamp) -> LaneMix<N> {
        LaneMix { at: began, lanes: Vec::new(), sums_us: [0.0; N] }
    }

    /// Takes the accounts of all lanes, always in the same order; the session's times so far, microseconds.
    pub(crate) fn add(&mut self, now: Timestamp, accounts: &[LaneAccount<N>]) -> [u64; N] {
        if let (true, Some(first)) = (self.lanes.is_empty(), accounts.first()) {
            // It has been the only one until now.
            self.sums_us = first.times_us.map(|us| us as f64);
        }
        for (lane, account) in accounts.iter().enumerate() {
            match self.lanes.get_mut(lane) {
                Some(stretch) => stretch.extend(account),
                None => self.lanes.push(Stretch { last: *account, parts: [0.0; N], rate: 0.0 }),
            }
        }
        let passed_us = (now - self.at).as_secs_f64() * 1e6;
        self.at = now;
        let carries = |lane: &Stretch<N>| if now - lane.last.at < STALE { lane.rate } else { 0.0 };
        let all: f64 = self.lanes.iter().map(carries).sum();
        for lane in &self.lanes {
            let weight = if all > 0.0 { carries(lane) / all } else { 1.0 / self.lanes.len() as f64 };
            for (sum, part) in self.sums_us.iter_mut().zip(lane.parts) {
                *sum += passed_us * weight * part;
            }
        }
        self.sums_us.map(|us| us as u64)
    }
}

impl<const N: usize> Stretch<N> {
    fn extend(&mut self, account: &LaneAccount<N>) {
        let seconds = (account.at - self.last.at).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        self.rate = account.bytes.saturating_sub(self.last.bytes) as f64 / seconds;
        let since = |place: usize| account.times_us[place].saturating_sub(self.last.times_us[place]);
        let spent: [f64; N] = std::array::from_fn(|place| since(place) as f64 / (seconds * 1e6));
        // What was measured between two readings of the clock may be a little more than between the others.
        let most = spent.iter().sum::<f64>().max(1.0);
        self.parts = spent.map(|part| part / most);
        self.last = *account;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_rng::Rng;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_lane_that_carries_the_bytes_decides() {
        let mut mix = LaneMix::<2>::new(at(0));
        let lanes = |ms: u64| {
            // One carries nine parts of ten and waits for the first; the other waits for the second.
            [(900, [1000, 0]), (100, [0, 1000])].map(|(rate, times)| LaneAccount {
                at: at(ms),
                bytes: rate * ms,
                times_us: times.map(|us| us * ms),
            })
        };
        mix.add(at(0), &lanes(0));
        assert_eq!(mix.add(at(1000), &lanes(1000)), [900_000, 100_000]);
        // Nothing is shown any more: they count alike, by what they did last.
        assert_eq!(mix.add(at(3000), &lanes(1000)), [1_900_000, 1_100_000]);
    }

    #[test]
    fn lanes_that_come_late_go_on_from_what_the_first_has_counted() {
        let mut mix = LaneMix::<1>::new(at(5000));
        let account =
            |ms: u64, from: u64| LaneAccount { at: at(ms), bytes: ms - from, times_us: [(ms - from) * 1000] };
        assert_eq!(mix.add(at(5000), &[account(5000, 0)]), [5_000_000]);
        assert_eq!(mix.add(at(5500), &[account(5500, 0), account(5500, 5500)]), [5_500_000]);
        let sums = mix.add(at(6000), &[account(6000, 0), account(6000, 5500)]);
        assert_eq!(sums, [6_000_000], "both were busy all the time");
    }

    #[test]
    fn sums_never_decrease_and_never_outgrow_time() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let count = rng.range(1, 16) as usize;
            let mut mix = LaneMix::<3>::new(at(0));
            let empty = LaneAccount { at: at(0), bytes: 0, times_us: [0; 3] };
            let (mut accounts, mut before, mut now) = (vec![empty; count], [0; 3], 0);
            for _ in 0..100 {
                let passed = rng.range(1, 300);
                now += passed;
                for account in &mut accounts {
                    // Some lanes show nothing this time, and some are at an end.
                    if rng.range(0, 2) == 0 {
                        continue;
                    }
                    let mut left = (now * 1000).saturating_sub(account.at.as_micros());
                    for time in &mut account.times_us {
                        let part = rng.range(0, left);
                        *time += part;
                        left -= part;
                    }
                    account.at = at(now);
                    account.bytes += rng.range(0, 1 << 30);
                }
                let sums = mix.add(at(now), &accounts);
                assert!(sums.iter().zip(before).all(|(sum, before)| *sum >= before), "seed {seed}: {sums:?}");
                let all: u64 = sums.iter().sum();
                assert!(all <= now * 1000 + 3, "seed {seed}: {all} us of {now} ms");
                before = sums;
            }
        }
    }
}
