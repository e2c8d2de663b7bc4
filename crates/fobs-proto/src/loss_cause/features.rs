//! Features of a loss signature, the input of a mixture model, read from the runs of a window in one pass.
//!
//! A receiver that does not get its CPU loses solid blocks: its buffer is full until it reads again. A
//! receiver that is slightly too slow leaves a lattice: Linux frees buffer space only after a quarter of it
//! was read, so the number of packets received between two losses is constant or a multiple of that constant.
//! It is 114 with a buffer of 1 MiB and datagrams of 1472 bytes, which take 2304 bytes of it each. A queue
//! drops packets while it drains: short runs, or long porous ones, at varying gaps.

use super::{Beat, LossRun, Signature};
use crate::math;

/// Number of features.
pub const FEATURES: usize = 6;
/// Number of covariates, in which a model's expected feature values are linear: 1, log2(lost), log2(burst).
pub const COVARIATES: usize = 3;

/// Names of the features, in the order of [`Features::values`]; the keys of model files.
pub const FEATURE_NAMES: [&str; FEATURES] =
    ["adjacency", "median_run", "longest_run", "runs", "solidity", "close_gap"];

/// Longest gap that belongs to a porous block, packets. Gaps between a receiver's blocks are longer: at least
/// the space that is freed at once, which is 23 packets with the smallest default buffer of Linux.
const POROUS_GAP_MAX: u32 = 32;
/// Upper bound of solidity: log2 of lost packets for each one received in a porous block. Above it, solidity
/// would only measure the number of losses.
const SOLIDITY_MAX: f64 = 4.0;
/// Upper bound of gaps, packets; longer gaps count as this long.
const CLOSE_GAP_MAX: u32 = 4095;
/// The close gap is the quantile of 1 in this many gaps.
const CLOSE_GAP_RANK: u32 = 10;

/// Shortest gap of a lattice, packets: below the smallest space that is freed at once, and above the gaps of
/// dense random loss, which would otherwise match a lattice of step 1.
const LATTICE_MIN: usize = 16;
/// Run lengths that are counted in a table; longer runs take at most 1/64 of the packets and are sorted.
const SHORT_RUNS: usize = 64;
/// Gap lengths that are counted in a table.
const GAPS: usize = CLOSE_GAP_MAX as usize + 1;

/// Features of a window with losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features {
    /// Packets lost.
    pub lost: u32,
    /// Packets sent back to back.
    pub burst: u32,
    /// Share of the losses that directly follow another loss: 1 for one block, 0 for isolated losses. The
    /// paper's success proportion (001 section 3.1.5, "the proportion of 0s that are contiguous"), read as
    /// pairs of lost neighbours over lost packets less one.
    pub success_proportion: f64,
    /// Median run length, weighted by losses: half of the lost packets lie in runs of at least this length.
    pub median_run: u32,
    /// Length of the longest run, packets.
    pub longest_run: u32,
    /// Number of runs.
    pub runs: u32,
    /// Packets received in gaps of at most 32 packets between runs.
    pub porous: u32,
    /// Number of such gaps.
    pub pores: u32,
    /// Length that a tenth of the gaps between runs do not exceed, packets; 4095 for longer ones or without
    /// gaps.
    pub close_gap: u32,
    /// Number of gaps that are multiples of the commonest gap of 16 to 4095 packets; 0 if none occurs twice.
    pub on_lattice: u32,
    /// Packets lost in runs below 8 packets that have no gap of the lattice beside them, as left by queues
    /// and random loss.
    pub stray: u32,
    /// Periodicity of the runs. Default if half of the losses lie in short runs: then no model blames the
    /// receiver.
    pub beat: Beat,
}

/// Runs below this many packets are short: they hold 0.3% of receivers' losses and 78% of queues' (measured,
/// `docs/classifier.md`).
pub const SHORT_RUN: u32 = 8;

impl Features {
    /// Computes the features; `None` for a window without loss.
    pub fn of(signature: &Signature) -> Option<Features> {
        let runs = signature.runs();
        let first = runs.first()?;
        let mut lengths = [0u32; SHORT_RUNS];
        let mut long = Vec::new();
        let mut gaps = Gaps { count: [0; GAPS], longer: 0 };
        let mut position = first.end();
        for (index, run) in runs.iter().enumerate() {
            match lengths.get_mut(run.len as usize) {
                Some(count) => *count += 1,
                None => long.push(run.len),
            }
            if index > 0 {
                gaps.add(run.start - position);
                position = run.end();
            }
        }
        long.sort_unstable();
        let (lost, count) = (signature.lost(), runs.len() as u32);
        let longest_short = (0..SHORT_RUNS).rfind(|len| lengths[*len] > 0).unwrap_or(0) as u32;
        let lattice = gaps.lattice();
        let (porous, pores) = gaps.porous();
        let median_run = median_run(&lengths, &long, lost);
        let in_short_runs = (1..SHORT_RUN).map(|len| len * lengths[len as usize]).sum();
        Some(Features {
            lost,
            burst: signature.burst(),
            success_proportion: if lost > 1 { f64::from(lost - count) / f64::from(lost - 1) } else { 0.0 },
            median_run,
            longest_run: long.last().copied().unwrap_or(longest_short),
            runs: count,
            porous,
            pores,
            close_gap: gaps.close(count - 1),
            on_lattice: lattice.on,
            stray: if lattice.step == 0 { in_short_runs } else { stray(runs, lattice.step) },
            beat: if median_run < SHORT_RUN { Beat::default() } else { Beat::of(runs) },
        })
    }

    /// Feature values for a model: logarithms to base 2, in the order of [`FEATURE_NAMES`].
    pub fn values(&self) -> [f64; FEATURES] {
        let (lost, runs) = (f64::from(self.lost), f64::from(self.runs));
        [
            math::log2((lost - runs + 0.5) / (runs + 0.5)),
            math::log2(f64::from(self.median_run)),
            math::log2(f64::from(self.longest_run)),
            math::log2(runs),
            math::log2((lost + 0.5) / (f64::from(self.porous) + 0.5)).min(SOLIDITY_MAX),
            math::log2(f64::from(self.close_gap) + 1.0),
        ]
    }

    /// Covariates of the expected [`values`](Self::values): 1, log2 of losses, log2 of burst.
    pub fn covariates(&self) -> [f64; COVARIATES] {
        [1.0, math::log2(f64::from(self.lost)), math::log2(f64::from(self.burst))]
    }
}

fn median_run(short: &[u32; SHORT_RUNS], long: &[u32], lost: u32) -> u32 {
    let half = lost.div_ceil(2);
    let mut below = 0;
    for (len, count) in short.iter().enumerate() {
        below += len as u32 * count;
        if below >= half {
            return len as u32;
        }
    }
    for len in long {
        below += len;
        if below >= half {
            return *len;
        }
    }
    0 // nothing was lost
}

/// Number of gaps between runs, by length.
struct Gaps {
    count: [u16; GAPS],
    /// Number of longer gaps.
    longer: u32,
}

/// The gaps that are multiples of the commonest gap.
struct Lattice {
    /// The commonest gap (of several, the shortest), packets; 0 if none occurs twice.
    step: u32,
    /// Number of gaps that are multiples of it.
    on: u32,
}

impl Gaps {
    fn add(&mut self, gap: u32) {
        match self.count.get_mut(gap as usize) {
            // At most 65,536 runs, so 65,535 gaps.
            Some(count) => *count += 1,
            None => self.longer += 1,
        }
    }

    /// Packets received in gaps of a porous block, and the number of such gaps.
    fn porous(&self) -> (u32, u32) {
        let short = (0..).zip(&self.count[..=POROUS_GAP_MAX as usize]);
        short.fold((0, 0), |(packets, pores), (gap, count)| {
            let count = u32::from(*count);
            (packets + gap * count, pores + count)
        })
    }

    /// The gap at rank `total` / [`CLOSE_GAP_RANK`], packets.
    fn close(&self, total: u32) -> u32 {
        if total == self.longer {
            return CLOSE_GAP_MAX; // or there is no gap
        }
        let rank = (total - 1) / CLOSE_GAP_RANK;
        let mut below = 0;
        for (gap, count) in (0..).zip(&self.count) {
            below += u32::from(*count);
            if below > rank {
                return gap;
            }
        }
        CLOSE_GAP_MAX
    }

    fn lattice(&self) -> Lattice {
        let most = self.count[LATTICE_MIN..].iter().copied().max().unwrap_or(0);
        let commonest = self.count[LATTICE_MIN..].iter().position(|count| *count == most);
        match commonest.filter(|_| most > 1) {
            None => Lattice { step: 0, on: 0 },
            Some(index) => {
                let step = index + LATTICE_MIN;
                let on = self.count[step..].iter().step_by(step).map(|count| u32::from(*count)).sum();
                Lattice { step: step as u32, on }
            }
        }
    }
}

/// Packets lost in short runs that have no gap of the lattice beside them.
fn stray(runs: &[LossRun], step: u32) -> u32 {
    let mut multiple = [false; GAPS + 1];
    multiple[step as usize..GAPS].iter_mut().step_by(step as usize).for_each(|on| *on = true);
    let on_lattice = |gap: u32| multiple[(gap as usize).min(GAPS)];
    let mut stray = 0;
    let mut before = false;
    for pair in runs.windows(2) {
        let after = on_lattice(pair[1].start - pair[0].end());
        stray += pair[0].len * u32::from(pair[0].len < SHORT_RUN && !before && !after);
        before = after;
    }
    let last = runs.last().map_or(0, |run| run.len);
    stray + last * u32::from(last < SHORT_RUN && !before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn features(pairs: &[(u64, u64)]) -> Features {
        let packets = pairs.iter().map(|(gap, len)| gap + len).sum::<u64>() + 100;
        let signature = Signature::from_gaps(packets, 1, pairs.iter().copied()).expect("good");
        Features::of(&signature).expect("something was lost")
    }

    #[test]
    fn nothing_lost_has_no_features() {
        let clean = Signature::from_gaps(1000, 1, []).expect("good");
        assert_eq!(Features::of(&clean), None);
    }

    #[test]
    fn blocks_and_single_losses_have_known_features() {
        let block = features(&[(1000, 200)]);
        assert_eq!((block.success_proportion, block.median_run, block.longest_run), (1.0, 200, 200));
        assert_eq!((block.runs, block.porous, block.close_gap), (1, 0, CLOSE_GAP_MAX));
        let single = features(&[(50, 1); 40]);
        assert_eq!((single.success_proportion, single.median_run, single.longest_run), (0.0, 1, 1));
        assert_eq!((single.porous, single.close_gap, single.stray), (0, 50, 0), "evenly spaced: a lattice");
        let uneven: Vec<(u64, u64)> = (0..40).map(|i| (50 + i, 1)).collect();
        assert_eq!(features(&uneven).stray, 40);
        let porous = features(&[(90, 20), (1, 30), (2, 9), (500, 3)]);
        assert_eq!((porous.porous, porous.pores, porous.close_gap, porous.longest_run), (3, 2, 1, 30));
        assert_eq!(porous.stray, 3);
    }

    #[test]
    fn a_slow_receiver_leaves_a_lattice() {
        let slow = features(&[(40, 5), (114, 7), (228, 30), (114, 2), (342, 9), (9000, 4), (77, 3)]);
        // Of the short runs, only the last, of 3 packets, has no such gap beside it.
        assert_eq!((slow.on_lattice, slow.stray), (4, 4 + 3));
        let random = features(&[(40, 1), (113, 1), (201, 1), (15, 1), (15, 1), (15, 1)]);
        assert_eq!((random.on_lattice, random.stray), (0, 6));
    }

    proptest! {
        /// Compares with sorting all packets and gaps; every value is finite.
        #[test]
        fn features_agree_with_a_naive_computation(pairs in prop::collection::vec((1u64..5000, 1u64..300), 1..80)) {
            let features = features(&pairs);
            let mut each: Vec<u64> = pairs.iter().flat_map(|(_, len)| std::iter::repeat_n(*len, *len as usize)).collect();
            each.sort_unstable();
            prop_assert_eq!(u64::from(features.median_run), each[(each.len() - 1) / 2]);
            prop_assert_eq!(u64::from(features.longest_run), each[each.len() - 1]);
            let mut gaps: Vec<u64> = pairs[1..].iter().map(|(gap, _)| (*gap).min(4095)).collect();
            gaps.sort_unstable();
            let close = gaps.get(gaps.len().saturating_sub(1) / 10).copied().unwrap_or(4095);
            prop_assert_eq!(u64::from(features.close_gap), close);
            prop_assert_eq!(u64::from(features.porous), gaps.iter().filter(|gap| **gap <= 32).sum::<u64>());
            prop_assert!(features.values().iter().chain(&features.covariates()).all(|value| value.is_finite()));
        }
    }
}
