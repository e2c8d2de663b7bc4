//! Periodic losses, as from a queue or a token bucket that is served in ticks.
//!
//! Such a queue has room again at every tick and fills at the same point of each period, so its loss runs
//! have equal lengths and *end* one period apart. A slow receiver produces a similar pattern, but its period
//! is a number of packets: Linux frees buffer space after a fixed number of reads ([`super::features`]), so
//! the number of packets received between two runs is constant, or a multiple. A tick is not a whole number
//! of packets: the number varies by one.
//!
//! Runs of another cause in between do not disturb the test, so a network's share of a mixed window shows,
//! too.

use super::LossRun;

/// Tolerance for equal distances and lengths, packets: a tick is rounded to whole packets at both ends.
const ALIKE: u32 = 1;
/// Longest period, packets. In a window of few runs, two long distances are equal by chance.
const PERIOD_MAX: u32 = 4095;

/// Minimum number of runs that end one period after the previous one. Fewer may be chance, or a receiver that
/// runs at its host's scheduler ticks. This and the next three constants were chosen on the windows of
/// docs/classifier.md and measured on others; 5 to 7, 0.5 to 0.67 and 1 to 3 differ by two windows in 1000.
const ON_MIN: u32 = 6;
/// Minimum share of the runs of the commonest length that end one period after the previous one.
const ON_SHARE_MIN: f64 = 0.6;
/// Minimum number of gaps that differ from the commonest gap; fewer mean a receiver's lattice.
const UNEVEN_MIN: u32 = 2;
/// If at least this share of all runs is periodic, few runs and equal gaps suffice: no recorded receiver
/// loses packets only periodically.
const ALL_SHARE_MIN: f64 = 0.75;
/// Minimum number of periodic runs in that case: a single distance is no period.
const ALL_MIN: u32 = 2;

/// Periodicity of the runs of the commonest length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beat {
    /// Number of runs of the commonest length, within one packet.
    pub alike: u32,
    /// Number of these runs that end one period after the previous one. The period is their commonest
    /// distance.
    pub on: u32,
    /// Number of periodic runs whose gap before them differs from the commonest such gap.
    pub uneven: u32,
}

impl Beat {
    /// Measures the periodicity of `runs`.
    pub fn of(runs: &[LossRun]) -> Beat {
        let length = Around::commonest(runs.iter().map(|run| run.len).collect());
        let like = || runs.iter().filter(|run| length.has(run.len));
        let pairs = || like().zip(like().skip(1));
        let distance = |(last, next): &(&LossRun, &LossRun)| next.end() - last.end();
        let period =
            Around::commonest(pairs().map(|pair| distance(&pair)).filter(|len| *len <= PERIOD_MAX).collect());
        let mut gaps: Vec<u32> = pairs()
            .filter(|pair| period.has(distance(pair)))
            .map(|(last, next)| next.start - last.end())
            .collect();
        gaps.sort_unstable();
        let even = gaps.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
        Beat { alike: like().count() as u32, on: gaps.len() as u32, uneven: (gaps.len() - even) as u32 }
    }

    /// Whether the losses are periodic in time, which excludes a receiver. `runs` is the number of all runs.
    pub fn is_clocked(self, runs: u32) -> bool {
        let share = |of: u32| f64::from(self.on) / f64::from(of.max(2) - 1);
        let mostly = self.on >= ON_MIN && share(self.alike) >= ON_SHARE_MIN && self.uneven >= UNEVEN_MIN;
        mostly || (self.on >= ALL_MIN && share(runs) >= ALL_SHARE_MIN)
    }
}

/// A range of values that count as equal, from its least value.
struct Around {
    least: u32,
}

impl Around {
    /// The range that contains most of `values`; of several, the one with the smallest values.
    fn commonest(mut values: Vec<u32>) -> Around {
        values.sort_unstable();
        let mut most = (0, 0);
        let mut end = 0;
        for (index, least) in values.iter().enumerate() {
            end += values[end..].iter().take_while(|value| **value - least <= 2 * ALIKE).count();
            if end - index > most.0 {
                most = (end - index, *least);
            }
        }
        Around { least: most.1 }
    }

    fn has(&self, value: u32) -> bool {
        (self.least..=self.least + 2 * ALIKE).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Signature;
    use super::*;

    fn beat(pairs: &[(u64, u64)]) -> (Beat, bool) {
        let packets = pairs.iter().map(|(gap, len)| gap + len).sum::<u64>() + 100;
        let signature = Signature::from_gaps(packets, 1, pairs.iter().copied()).expect("good");
        let beat = Beat::of(signature.runs());
        (beat, beat.is_clocked(signature.runs().len() as u32))
    }

    /// Losses of a queue with a period of 440.25 packets, of which the last 40 are lost.
    const TICKS: &[(u64, u64)] =
        &[(900, 40), (400, 40), (400, 40), (401, 40), (400, 40), (400, 40), (400, 40), (401, 40)];

    #[test]
    fn periodic_runs_are_found_alone_and_among_other_blocks() {
        assert_eq!(beat(TICKS), (Beat { alike: 8, on: 7, uneven: 2 }, true));
        assert!(beat(&TICKS[..3]).1, "few runs, and nothing else");
        // The same with a receiver's blocks between the ticks.
        let mixed = [
            (900, 40),
            (150, 60),
            (190, 40),
            (120, 93),
            (187, 40),
            (201, 77),
            (123, 40),
            (10, 140),
            (250, 40),
            (90, 51),
            (259, 40),
            (130, 115),
            (155, 40),
            (100, 88),
            (213, 40),
        ];
        assert_eq!(beat(&mixed), (Beat { alike: 8, on: 7, uneven: 2 }, true));
    }

    #[test]
    fn a_receivers_lattice_is_not_periodic_in_time() {
        // From a recorded window: gaps of 184 packets, at times twice that, and some longer blocks.
        let lattice =
            [(300, 36), (184, 36), (184, 36), (404, 36), (184, 36), (184, 256), (184, 80), (624, 36)];
        let twice: Vec<(u64, u64)> = lattice.iter().chain(&lattice[1..]).copied().collect();
        let (beat, clocked) = beat(&twice);
        assert_eq!((beat.uneven, clocked), (0, false), "{beat:?}");
        assert!(beat.on >= ON_MIN, "{beat:?}");
    }

    #[test]
    fn blocks_at_random_distances_are_not_periodic() {
        let stalls = [(5000, 300), (4100, 280), (9000, 310), (700, 301), (3300, 299), (800, 41), (1200, 300)];
        assert!(!beat(&stalls).1);
        assert!(!beat(&stalls[..1]).1);
        assert!(!beat(&[]).1);
        // Two equal distances, but longer than the longest period.
        assert!(!beat(&[(500, 146), (21_000, 146), (21_000, 146)]).1);
    }
}
