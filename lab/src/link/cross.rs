//! Virtual cross traffic: packets that occupy the bottleneck and are not delivered.

use super::clock::{Nanos, Pace};
use super::draw::Draw;
use super::spec::{Cross, OnOffTimes};

/// A source of virtual packets.
#[derive(Debug, Clone)]
pub struct Source {
    kind: Cross,
    pace: Pace,
    draw: Draw,
    next: Nanos,
    /// End of the on-time that contains `next`; unused by other kinds.
    on_until: Nanos,
}

impl Source {
    /// A source that begins at `now`.
    pub fn new(kind: Cross, draw: Draw, now: Nanos) -> Source {
        let mut source = Source { kind, pace: Pace::new(kind.rate()), draw, next: now, on_until: now };
        source.step();
        source
    }

    /// When the next packet arrives at the bottleneck.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Bytes of the packet at [`Source::next`]; advances to the next packet.
    pub fn take(&mut self) -> u32 {
        self.step();
        self.kind.packet()
    }

    fn step(&mut self) {
        let distance = self.pace.take(self.kind.packet());
        match self.kind {
            Cross::Paced { .. } => self.next += distance,
            Cross::Poisson { .. } => self.next += self.draw.exponential(distance as f64),
            Cross::OnOff { on, off, distribution, .. } => {
                self.next += distance;
                // The remainder of a gap at the end of an on-time continues in the next one, so that the mean
                // is exact. Few iterations: the spec check ensures on-times of at least one packet on
                // average.
                while self.next >= self.on_until {
                    let off = self.span(off.nanos(), distribution);
                    self.next += off;
                    self.on_until += off + self.span(on.nanos(), distribution);
                }
            }
        }
    }

    fn span(&mut self, mean: Nanos, distribution: OnOffTimes) -> Nanos {
        match distribution {
            OnOffTimes::Constant => mean,
            OnOffTimes::Exponential => self.draw.exponential(mean as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::draw::Purpose;
    use crate::link::spec::Way;

    const SECOND: Nanos = 1_000_000_000;

    fn arrivals(kind: &str, seconds: u64) -> Vec<Nanos> {
        let kind: Cross = serde_json::from_str(kind).expect("cross traffic");
        let mut source = Source::new(kind, Draw::new(1, Way::Forward, Purpose::Cross(0)), 0);
        let mut arrivals = Vec::new();
        while source.next() < seconds * SECOND {
            arrivals.push(source.next());
            assert_eq!(source.take(), 1500);
        }
        arrivals
    }

    /// Variance over mean of counts in windows of 10 ms: 1 for a Poisson process, 0 for a paced one.
    fn dispersion(arrivals: &[Nanos], seconds: u64) -> f64 {
        let mut counts = vec![0.0; seconds as usize * 100];
        arrivals.iter().for_each(|at| counts[(at / 10_000_000) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64 / mean
    }

    #[test]
    fn paced_packets_come_at_equal_distances() {
        let arrivals = arrivals(r#"{"kind": "paced", "rate": "12Mbit"}"#, 10);
        assert!(arrivals.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
    }

    #[test]
    fn poisson_packets_come_at_their_rate_and_independently() {
        let arrivals = arrivals(r#"{"kind": "poisson", "rate": "12Mbit"}"#, 100);
        // 100,000, standard deviation 316.
        assert!((98_700..101_300).contains(&arrivals.len()), "{}", arrivals.len());
        let dispersion = dispersion(&arrivals, 100);
        assert!((0.93..1.07).contains(&dispersion), "{dispersion}");
    }

    #[test]
    fn on_off_traffic_has_its_mean_rate_in_bursts() {
        let constant = arrivals(
            r#"{"kind":"on_off","rate":"12Mbit","on":"100ms","off":"300ms","distribution":"constant"}"#,
            100,
        );
        assert!((24_700..25_300).contains(&constant.len()), "{}", constant.len());
        assert!(constant[0] >= 300_000_000, "it starts off");
        let exponential = arrivals(r#"{"kind":"on_off","rate":"12Mbit","on":"10ms","off":"10ms"}"#, 100);
        // 5000 cycles: half of 100,000 within a few percent.
        assert!((47_500..52_500).contains(&exponential.len()), "{}", exponential.len());
        assert!(dispersion(&exponential, 100) > 2.0);
    }
}
