//! How long packets and their acks take, in stretches of time: what tells a queue from jitter, and the way
//! there from the way back.

use crate::Timestamp;
use std::time::Duration;

/// Length of a stretch: the distance of the samples of `--explain`.
const STRETCH: Duration = Duration::from_millis(100);

/// Smallest and largest of the times in a stretch, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spread {
    /// Smallest.
    pub low_us: u64,
    /// Largest.
    pub high_us: u64,
}

impl Spread {
    fn of(us: u64) -> Spread {
        Spread { low_us: us, high_us: us }
    }

    fn with(self, other: Spread) -> Spread {
        Spread { low_us: self.low_us.min(other.low_us), high_us: self.high_us.max(other.high_us) }
    }
}

/// What one stretch showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    began: Timestamp,
    rtt: Spread,
    forward: Spread,
}

/// Round-trip times, and one-way delays of the data beyond the smallest so far.
#[derive(Debug, Clone, Default)]
pub struct Delays {
    before: Option<Stretch>,
    present: Option<Stretch>,
    /// Smallest difference of the receiver's stamp and the sender's: its clock may be anything.
    offset_us: Option<i64>,
    /// The first such difference, and the newest.
    first_us: Option<i64>,
    newest_us: i64,
    /// Such a difference of any ack, whether it counts or not.
    checked_us: Option<i128>,
}

/// What a one-way time is given beyond, so that those below the first can be told.
const ONE_WAY_BEYOND: Duration = Duration::from_secs(3600);
/// Two times on the way in a row that differ by more are not of one clock, or an outage was between them. As
/// long a stamp that lies can hold measurements back.
const APART_MAX: Duration = Duration::from_secs(10);

impl Delays {
    /// Whether an ack's stamp, with the one before, can be of one clock. Otherwise nothing is measured by it.
    pub fn is_of_a_clock(&mut self, sent: Timestamp, received_us: u64) -> bool {
        let apart = i128::from(received_us) - i128::from(sent.as_micros());
        let before = self.checked_us.replace(apart).unwrap_or(apart);
        (apart - before).unsigned_abs() <= APART_MAX.as_micros()
    }

    /// An ack whose newest packet was sent at `sent`, and had arrived at `received_us` of the receiver's
    /// clock.
    pub fn on_ack(&mut self, now: Timestamp, sent: Timestamp, received_us: u64) {
        let rtt = Spread::of(u64::try_from((now - sent).as_micros()).unwrap_or(u64::MAX));
        // A peer's clock may be anything: the difference wraps, and only differences of it count.
        let apart = received_us.wrapping_sub(sent.as_micros()) as i64;
        self.first_us.get_or_insert(apart);
        self.newest_us = apart;
        let offset = self.offset_us.map_or(apart, |least| least.min(apart));
        self.offset_us = Some(offset);
        let forward = Spread::of(apart.saturating_sub(offset).unsigned_abs());
        match &mut self.present {
            Some(present) if now - present.began < STRETCH => {
                present.rtt = present.rtt.with(rtt);
                present.forward = present.forward.with(forward);
            }
            present => {
                self.before = *present;
                *present = Some(Stretch { began: now, rtt, forward });
            }
        }
    }

    /// Time from sending to arrival of the newest packet, beyond a constant.
    pub fn one_way(&self) -> Duration {
        let later = self.newest_us.saturating_sub(self.first_us.unwrap_or_default());
        let apart = Duration::from_micros(later.unsigned_abs());
        if later < 0 { ONE_WAY_BEYOND.saturating_sub(apart) } else { ONE_WAY_BEYOND.saturating_add(apart) }
    }

    /// Round-trip times of about the last 0.1 to 0.2 s; `None` without an ack in that time.
    pub fn rtt(&self, now: Timestamp) -> Option<Spread> {
        self.recent(now, |stretch| stretch.rtt)
    }

    /// Delays on the way there beyond the smallest so far, likewise.
    pub fn forward(&self, now: Timestamp) -> Option<Spread> {
        self.recent(now, |stretch| stretch.forward)
    }

    fn recent(&self, now: Timestamp, of: impl Fn(&Stretch) -> Spread) -> Option<Spread> {
        let recent = |stretch: &&Stretch| now - stretch.began < 2 * STRETCH;
        let spreads = [self.before.as_ref(), self.present.as_ref()].into_iter().flatten().filter(recent);
        spreads.map(of).reduce(Spread::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn a_stamp_that_jumps_is_of_no_clock() {
        let mut delays = Delays::default();
        let mut check = |received_us| delays.is_of_a_clock(at(5_000_000), received_us);
        assert!(check(40_000) && check(9_000_000), "a queue of nine seconds");
        for lie in [u64::MAX, 1 << 40, 30_000_000] {
            assert!(check(50_000) && !check(lie) && !check(50_000), "to {lie} and back");
        }
    }

    #[test]
    fn a_queue_on_the_way_back_is_none_on_the_way_there() {
        let mut delays = Delays::default();
        // The receiver's clock is 5 s behind. Way there 10 ms, way back 10 ms and later 60 ms.
        for (step, back) in [10_000, 10_000, 60_000, 60_000].into_iter().enumerate() {
            let sent = 6_000_000 + step as u64 * 1_000;
            delays.on_ack(at(sent + 10_000 + back), at(sent), sent + 10_000 - 5_000_000);
        }
        let now = at(6_073_000);
        assert_eq!(delays.rtt(now), Some(Spread { low_us: 20_000, high_us: 70_000 }));
        assert_eq!(delays.forward(now), Some(Spread { low_us: 0, high_us: 0 }));
        assert_eq!(delays.rtt(at(6_900_000)), None, "nothing came lately");
    }

    #[test]
    fn any_clock_of_a_peer_gives_figures() {
        let mut delays = Delays::default();
        for received in [0, u64::MAX, 1 << 63, 7] {
            delays.on_ack(at(20), at(10), received);
        }
        assert!(delays.forward(at(20)).is_some());
    }
}
