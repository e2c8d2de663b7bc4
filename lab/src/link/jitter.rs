//! Jitter: a delay that varies continuously.
//!
//! Independent delays for each packet, with the order kept, would leave little jitter on a fast path: each
//! packet waits for the slowest before it. So the extra delay is a function of time: every few milliseconds a
//! new value is drawn and reached along a straight line. The slope is limited to a fall of a quarter of a
//! second per second: packets keep their order and arrive at most a third faster than sent.

use super::clock::Nanos;
use super::draw::Draw;

/// Time between drawn values, in multiples of the jitter.
const KNOT_DISTANCE: u64 = 4;
/// Minimum of this time, ns: shorter ones would be within the emulator's own lateness.
const KNOT_DISTANCE_MIN: Nanos = 1_000_000;
/// After a gap of this many knots, the state restarts.
const KNOTS_MAX: u64 = 1000;

/// An extra delay between 0 and `most`, uniformly distributed at the knots.
#[derive(Debug, Clone)]
pub struct Wander {
    most: Nanos,
    draw: Draw,
    distance: Nanos,
    /// The line goes from `from` at `begin` to `to` at `begin + distance`.
    begin: Nanos,
    from: Nanos,
    to: Nanos,
}

impl Wander {
    pub fn new(most: Nanos, mut draw: Draw, now: Nanos) -> Wander {
        let distance = (most * KNOT_DISTANCE).max(KNOT_DISTANCE_MIN);
        let (from, to) = (value(&mut draw, most), value(&mut draw, most));
        Wander { most, draw, distance, begin: now, from, to }
    }

    /// The extra delay at `now`; calls must be in order of time.
    pub fn at(&mut self, now: Nanos) -> Nanos {
        if self.most == 0 {
            return 0;
        }
        let passed = now.saturating_sub(self.begin) / self.distance;
        if passed > KNOTS_MAX {
            self.begin += (passed - 1) * self.distance;
        }
        while now >= self.begin + self.distance {
            self.begin += self.distance;
            self.from = self.to;
            self.to = value(&mut self.draw, self.most);
        }
        let part = now.saturating_sub(self.begin) as f64 / self.distance as f64;
        (self.from as f64 + (self.to as f64 - self.from as f64) * part) as Nanos
    }
}

fn value(draw: &mut Draw, most: Nanos) -> Nanos {
    (draw.fraction() * most as f64) as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::draw::Purpose;
    use crate::link::spec::Way;

    const MS: Nanos = 1_000_000;

    #[test]
    fn the_delay_wanders_over_its_range_and_keeps_the_order() {
        let mut wander = Wander::new(2 * MS, Draw::new(1, Way::Forward, Purpose::Jitter), 0);
        let step = 12_000;
        let values: Vec<Nanos> = (0..1_000_000).map(|n| wander.at(n * step)).collect();
        let (low, high) = (values.iter().min().expect("values"), values.iter().max().expect("values"));
        assert!(*low < MS / 20 && *high > 2 * MS - MS / 20 && *high <= 2 * MS, "{low} to {high}");
        let mean = values.iter().sum::<Nanos>() / values.len() as u64;
        assert!((MS * 95 / 100..MS * 105 / 100).contains(&mean), "{mean}");
        // A packet sent later arrives later, and the distance shrinks to three quarters at the least.
        assert!(values.windows(2).all(|pair| pair[1] + step >= pair[0] + step * 3 / 4 - 2));
    }

    #[test]
    fn a_long_gap_is_cheap_and_zero_jitter_adds_no_delay() {
        let mut wander = Wander::new(MS, Draw::new(1, Way::Forward, Purpose::Jitter), 0);
        assert!(wander.at(u64::MAX / 2) <= MS);
        let mut none = Wander::new(0, Draw::new(1, Way::Forward, Purpose::Jitter), 0);
        assert_eq!(none.at(5 * MS), 0);
    }
}
