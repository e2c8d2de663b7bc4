//! The end of slow start: HyStart++ (RFC 9406). A round trip that is longer than the last round's ends the
//! doubling before the queue overflows.

use super::AckSample;
use std::time::Duration;

/// RFC 9406 section 4.3, with its names.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;
/// RFC 9406 has 8 samples of one ack each; a FOBS ack stands for up to 64 packets.
const N_RTT_SAMPLE: u32 = 3;

/// Phases of slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Doubling,
    /// Conservative slow start: its baseline, and rounds that it has lasted.
    Careful(Duration, u32),
}

/// The detector.
#[derive(Debug)]
pub(super) struct HyStart {
    phase: Phase,
    /// Least RTT of the last and of the present round.
    last: Option<Duration>,
    now: Option<Duration>,
    samples: u32,
}

/// How slow start responds to an ack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SlowStart {
    /// The window grows by this factor of what was acknowledged.
    Grow(f64),
    /// It is over: congestion avoidance begins.
    Over,
}

impl HyStart {
    pub(super) fn new() -> HyStart {
        HyStart { phase: Phase::Doubling, last: None, now: None, samples: 0 }
    }

    pub(super) fn on_ack(&mut self, ack: &AckSample) -> SlowStart {
        if ack.round_start {
            self.last = self.now.take();
            self.samples = 0;
            if let Phase::Careful(_, rounds) = &mut self.phase {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    return SlowStart::Over;
                }
            }
        }
        self.samples += 1;
        let now = self.now.map_or(ack.latest_rtt, |now| now.min(ack.latest_rtt));
        self.now = Some(now);
        if self.samples >= N_RTT_SAMPLE
            && let Some(last) = self.last
        {
            let thresh = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
            match self.phase {
                Phase::Doubling if now >= last.saturating_add(thresh) => self.phase = Phase::Careful(now, 0),
                // The delay was transient.
                Phase::Careful(baseline, _) if now < baseline => self.phase = Phase::Doubling,
                _ => {}
            }
        }
        match self.phase {
            Phase::Doubling => SlowStart::Grow(1.0),
            Phase::Careful(..) => SlowStart::Grow(1.0 / CSS_GROWTH_DIVISOR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Acks;
    use super::*;
    use crate::Rate;

    const MS: Duration = Duration::from_millis(1);

    /// Rounds of ten acks; what the detector says at each round's end.
    fn rounds(detector: &mut HyStart, rtts: &[u32]) -> Vec<SlowStart> {
        let mut acks = Acks::new(40 * MS);
        let says = |detector: &mut HyStart, acks: &mut Acks, i: u32| {
            let mut ack = acks.next(MS, Rate::bits_per_second(1_000_000_000));
            ack.round_start = i == 0;
            detector.on_ack(&ack)
        };
        rtts.iter()
            .map(|ms| {
                acks.rtt = *ms * MS;
                (0..10).map(|i| says(detector, &mut acks, i)).last().expect("ten acks")
            })
            .collect()
    }

    #[test]
    fn a_growing_queue_ends_it_after_five_careful_rounds() {
        let grow = SlowStart::Grow;
        let mut detector = HyStart::new();
        let said = rounds(&mut detector, &[40, 41, 44, 50, 51, 52, 53, 54]);
        // 44 + 44/8 is 49.5: 50 is the first round that waits too long.
        assert_eq!(said[..4], [grow(1.0), grow(1.0), grow(1.0), grow(0.25)]);
        assert_eq!(said[7], grow(0.25));
        let mut ack = Acks::new(55 * MS).next(MS, Rate::bits_per_second(1));
        ack.round_start = true;
        assert_eq!(detector.on_ack(&ack), SlowStart::Over, "the fifth careful round is over");
    }

    #[test]
    fn a_passing_delay_does_not_end_it() {
        let said = rounds(&mut HyStart::new(), &[40, 60, 41, 41]);
        assert_eq!(said[1..], [SlowStart::Grow(0.25), SlowStart::Grow(1.0), SlowStart::Grow(1.0)]);
    }
}
