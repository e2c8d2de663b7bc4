//! Losses that come by a clock, as those of a queue or a bucket of tokens do that is served in ticks.
//!
//! Such a server has room again at every tick, and what comes fills it at the same point of each: runs are alike and
//! *end* one tick apart. A receiver that is merely slow looks much the same, but its distances are counted in packets:
//! it gives room back when exactly so many were read ([`super::features`]), so the packets received between two
//! runs are the same to one, or a multiple. A tick is no whole number of packets: now and then it is one more or less.
//!
//! Another cause's runs between them do not matter, so a network's share in a mixed window shows, too.

use super::LossRun;

/// Distances and lengths within this of each other are the same, packets: a tick is cut to whole packets at both ends.
const ALIKE: u32 = 1;
/// Longer periods are no clock's, packets: chance finds two distances alike among long ones in a window of few runs.
const PERIOD_MAX: u32 = 4095;

/// Fewer ends a period apart may be chance, or the ticks by which a host's scheduler lets a receiver run.
/// This and the next three were chosen on the windows of docs/classifier.md (any of 5 to 7, a half to two thirds and 1 to 3
/// does as well, to two windows in a thousand), and are measured there on others.
const ON_MIN: u32 = 6;
/// Share of the runs of one length that must end a period after the last.
const ON_SHARE_MIN: f64 = 0.6;
/// So many distances must differ from the commonest, or it is a receiver's lattice.
const UNEVEN_MIN: u32 = 2;
/// Where nearly all runs end a period after the last, even a few are enough, and even distances: no receiver that was
/// recorded loses by a clock and nothing else.
const ALL_SHARE_MIN: f64 = 0.75;
/// How few: with one distance there is no period.
const ALL_MIN: u32 = 2;

/// How regularly the runs of the commonest length come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beat {
    /// Runs of that length.
    pub alike: u32,
    /// Those that end one period after the last; the period is their commonest distance.
    pub on: u32,
    /// Those of them before which another number of packets was received than before most.
    pub uneven: u32,
}

impl Beat {
    /// Looks for it.
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

    /// Whether a clock that is no receiver's explains it, of `runs` in all.
    pub fn is_clocked(self, runs: u32) -> bool {
        let share = |of: u32| f64::from(self.on) / f64::from(of.max(2) - 1);
        let mostly = self.on >= ON_MIN && share(self.alike) >= ON_SHARE_MIN && self.uneven >= UNEVEN_MIN;
        mostly || (self.on >= ALL_MIN && share(runs) >= ALL_SHARE_MIN)
    }
}

/// Values that are alike, from the least of them.
struct Around {
    least: u32,
}

impl Around {
    /// The most that are; the smallest of several.
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

    /// A tick of 440.25 packets whose last 40 are lost.
    const TICKS: [(u64, u64); 8] =
        [(900, 40), (400, 40), (400, 40), (401, 40), (400, 40), (400, 40), (400, 40), (401, 40)];

    #[test]
    fn a_server_of_ticks_shows_itself_alone_and_among_a_receivers_blocks() {
        assert_eq!(beat(&TICKS), (Beat { alike: 8, on: 7, uneven: 2 }, true));
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
    fn a_receivers_lattice_is_even() {
        // Of a window that was recorded: portions of 184 packets, now and then two of them, or a longer block.
        let lattice =
            [(300, 36), (184, 36), (184, 36), (404, 36), (184, 36), (184, 256), (184, 80), (624, 36)];
        let twice: Vec<(u64, u64)> = lattice.iter().chain(&lattice[1..]).copied().collect();
        let (beat, clocked) = beat(&twice);
        assert_eq!((beat.uneven, clocked), (0, false), "{beat:?}");
        assert!(beat.on >= ON_MIN, "{beat:?}");
    }

    #[test]
    fn blocks_at_any_distance_have_no_clock() {
        let stalls = [(5000, 300), (4100, 280), (9000, 310), (700, 301), (3300, 299), (800, 41), (1200, 300)];
        assert!(!beat(&stalls).1);
        assert!(!beat(&stalls[..1]).1);
        assert!(!beat(&[]).1);
        // Two distances alike, but longer than any tick.
        assert!(!beat(&[(500, 146), (21_000, 146), (21_000, 146)]).1);
    }
}
