//! Loss signature: the lost packets of a window, as runs of packet numbers (001 section 3.1).

use crate::PacketNumber;
use std::ops::Range;

/// Maximum number of runs of a window, 8 bytes each: 512 KiB. A window of 70,000 packets that loses every
/// second one has 35,000 runs; a window that would have more ends early.
pub const RUNS_MAX: usize = 1 << 16;
/// Maximum length of a window, packets; longer than any round: 10 Gbit/s for 60 s are 50 million packets.
pub const PACKETS_MAX: u32 = 1 << 27;

/// Consecutive lost packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossRun {
    /// Index of the first lost packet in its window.
    pub start: u32,
    /// Number of packets, at least 1.
    pub len: u32,
}

impl LossRun {
    /// Index of the first packet after the run.
    pub fn end(self) -> u32 {
        self.start + self.len
    }
}

/// A window of packets and the runs of lost ones.
///
/// Runs are in order and do not touch: at least one packet between two runs is received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    packets: u32,
    lost: u32,
    burst: u32,
    runs: Vec<LossRun>,
}

/// Why runs are not a valid signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The window is longer than [`PACKETS_MAX`].
    #[error("a window of {0} packets is longer than {PACKETS_MAX}: cut it")]
    TooLong(u64),
    /// More runs than [`RUNS_MAX`].
    #[error("a window with more than {RUNS_MAX} runs of lost packets: cut it")]
    TooManyRuns,
    /// A run ends beyond the window.
    #[error("lost packets reach {end}, but the window has {packets}: correct `n` or `rle`")]
    Outside {
        /// End of the run.
        end: u64,
        /// Length of the window, packets.
        packets: u32,
    },
}

impl Signature {
    /// A window of `packets` packets, sent `burst` back to back (1: evenly paced; 0 counts as 1), from pairs
    /// of a gap (packets received) and the number of packets lost after it. A pair with 0 losses extends the
    /// gap before the next; a pair with gap 0 extends the run before it.
    ///
    /// # Errors
    ///
    /// [`SignatureError`] if the window is too long, has too many runs, or a run ends beyond it.
    pub fn from_gaps(
        packets: u64,
        burst: u32,
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Signature, SignatureError> {
        let packets = u32::try_from(packets)
            .ok()
            .filter(|packets| *packets <= PACKETS_MAX)
            .ok_or(SignatureError::TooLong(packets))?;
        let mut signature = Signature { packets, lost: 0, burst: burst.max(1), runs: Vec::new() };
        let mut position = 0u64;
        for (gap, len) in pairs {
            let start = position.saturating_add(gap);
            let end = start.saturating_add(len);
            if end > u64::from(packets) {
                return Err(SignatureError::Outside { end, packets });
            }
            position = end;
            signature.push(start as u32..end as u32)?;
        }
        Ok(signature)
    }

    /// A window without loss, of at most [`PACKETS_MAX`] packets.
    pub fn clean(packets: u32) -> Signature {
        Signature { packets: packets.min(PACKETS_MAX), lost: 0, burst: 1, runs: Vec::new() }
    }

    /// Appends a run of losses after all others; the range lies inside the window.
    fn push(&mut self, range: Range<u32>) -> Result<(), SignatureError> {
        let len = range.end - range.start;
        if len == 0 {
            return Ok(());
        }
        let full = self.runs.len() == RUNS_MAX;
        match self.runs.last_mut() {
            Some(last) if last.end() == range.start => last.len += len,
            _ if full => return Err(SignatureError::TooManyRuns),
            _ => self.runs.push(LossRun { start: range.start, len }),
        }
        self.lost += len;
        Ok(())
    }

    /// Packets sent in the window.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Packets lost.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Packets sent back to back, at least 1: bursts change the signature.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// The runs, in order.
    pub fn runs(&self) -> &[LossRun] {
        &self.runs
    }

    /// Lost packets over packets sent; 0 for an empty window.
    pub fn loss_rate(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { f64::from(self.lost) / f64::from(self.packets) }
    }

    /// This window cut into windows of `packets` packets; an incomplete one at the end is dropped. A shorter
    /// window is returned unchanged, as is any for `packets` 0.
    pub fn slices(&self, packets: u32) -> Vec<Signature> {
        if packets == 0 || self.packets <= packets {
            return vec![self.clone()];
        }
        let mut rest = self.runs.as_slice();
        (0..self.packets / packets)
            .map(|index| {
                let (from, to) = (index * packets, (index + 1) * packets);
                let mut slice = Signature { packets, lost: 0, burst: self.burst, runs: Vec::new() };
                while let Some(run) = rest.first().filter(|run| run.start < to) {
                    let part = run.start.max(from) - from..run.end().min(to) - from;
                    slice.lost += part.end - part.start;
                    slice.runs.push(LossRun { start: part.start, len: part.end - part.start });
                    if run.end() > to {
                        break; // the next slice has the rest of this run
                    }
                    rest = &rest[1..];
                }
                slice
            })
            .collect()
    }
}

/// Builds a window's signature while packets are declared lost, in any order; packets declared lost too early
/// can be removed again.
///
/// Losses mostly come in order of packet number, which only touches the last run.
#[derive(Debug, Clone)]
pub struct SignatureBuilder {
    first: PacketNumber,
    /// In order; runs do not touch.
    runs: Vec<Range<PacketNumber>>,
}

/// Whether packets declared lost were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// They are in the window.
    Kept,
    /// The window is full: [`finish`](SignatureBuilder::finish) it before these packets and record them in
    /// the next.
    Full,
}

impl SignatureBuilder {
    /// A builder for a window that begins with packet `first`.
    pub fn new(first: PacketNumber) -> SignatureBuilder {
        SignatureBuilder { first, runs: Vec::new() }
    }

    /// First packet of the window.
    pub fn first(&self) -> PacketNumber {
        self.first
    }

    /// Records packets declared lost. Packets before the window are ignored: their window is finished.
    pub fn lost(&mut self, packets: Range<PacketNumber>) -> Recorded {
        let mut new = packets.start.max(self.first)..packets.end;
        if new.is_empty() {
            return Recorded::Kept;
        }
        if new.end - self.first > u64::from(PACKETS_MAX) {
            return Recorded::Full;
        }
        // Merges `new` with the runs that it overlaps or touches.
        let from = self.runs.partition_point(|run| run.end < new.start);
        let to = from + self.runs[from..].partition_point(|run| run.start <= new.end);
        if from == to && self.runs.len() == RUNS_MAX {
            return Recorded::Full;
        }
        if from < to {
            new.start = new.start.min(self.runs[from].start);
            new.end = new.end.max(self.runs[to - 1].end);
        }
        self.runs.splice(from..to, [new]);
        Recorded::Kept
    }

    /// Removes a packet that was declared lost too early. It stays if this would split a run and the window
    /// has [`RUNS_MAX`] runs.
    pub fn found(&mut self, packet: PacketNumber) {
        let index = self.runs.partition_point(|run| run.end <= packet);
        let Some(run) = self.runs.get_mut(index).filter(|run| run.start <= packet) else {
            return;
        };
        let (before, after) = (run.start..packet, packet + 1..run.end);
        match (before.is_empty(), after.is_empty()) {
            (true, true) => {
                self.runs.remove(index);
            }
            (true, false) => *run = after,
            (false, true) => *run = before,
            (false, false) if self.runs.len() < RUNS_MAX => {
                self.runs.splice(index..=index, [before, after]);
            }
            (false, false) => {}
        }
    }

    /// Packets lost so far.
    pub fn lost_count(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// First packet of a window with the newest `lost` losses; not before `earliest`.
    pub fn start_of(&self, lost: u64, earliest: PacketNumber) -> PacketNumber {
        let mut counted = 0;
        for run in self.runs.iter().rev() {
            counted += run.end - run.start;
            if counted >= lost || run.start <= earliest {
                return run.start.max(earliest);
            }
        }
        earliest.max(self.first)
    }

    /// The window of packets `from` to `end` (exclusive), at most [`PACKETS_MAX`] of them. The builder is
    /// unchanged.
    pub fn window(&self, from: PacketNumber, end: PacketNumber, burst: u32) -> Signature {
        let from = from.max(self.first);
        let end = end.clamp(from, from.saturating_add(u64::from(PACKETS_MAX)));
        let mut signature =
            Signature { packets: (end - from) as u32, lost: 0, burst: burst.max(1), runs: Vec::new() };
        let begin = self.runs.partition_point(|run| run.end <= from);
        for run in self.runs[begin..].iter().take_while(|run| run.start < end) {
            let start = run.start.max(from);
            let len = (run.end.min(end) - start) as u32;
            signature.lost += len;
            signature.runs.push(LossRun { start: (start - from) as u32, len });
        }
        signature
    }

    /// Ends the window before packet `end`, which is moved to at most [`PACKETS_MAX`] packets, and begins the
    /// next there, with the losses already recorded for it.
    pub fn finish(&mut self, end: PacketNumber, burst: u32) -> Signature {
        let end = end.clamp(self.first, self.first.saturating_add(u64::from(PACKETS_MAX)));
        let mut signature =
            Signature { packets: (end - self.first) as u32, lost: 0, burst: burst.max(1), runs: Vec::new() };
        let done = self.runs.partition_point(|run| run.start < end);
        let tail = self.runs.split_off(done);
        for run in &self.runs {
            let run = LossRun {
                start: (run.start - self.first) as u32,
                len: (run.end.min(end) - run.start) as u32,
            };
            signature.lost += run.len;
            signature.runs.push(run);
        }
        let cut = self.runs.last().filter(|run| run.end > end).map(|run| end..run.end);
        self.runs = cut.into_iter().chain(tail).collect();
        self.first = end;
        signature
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signature(packets: u64, pairs: &[(u64, u64)]) -> Signature {
        Signature::from_gaps(packets, 1, pairs.iter().copied()).expect("a good window")
    }

    fn bits(signature: &Signature) -> Vec<bool> {
        let mut lost = vec![false; signature.packets() as usize];
        for run in signature.runs() {
            lost[run.start as usize..run.end() as usize].fill(true);
        }
        lost
    }

    #[test]
    fn pairs_without_gap_or_length_join() {
        let joined = signature(20, &[(2, 0), (1, 3), (0, 2), (4, 1)]);
        assert_eq!(joined.runs(), [LossRun { start: 3, len: 5 }, LossRun { start: 12, len: 1 }]);
        assert_eq!((joined.lost(), joined.burst()), (6, 1));
    }

    #[test]
    fn a_window_equals_the_finished_one_and_leaves_the_builder() {
        let mut builder = SignatureBuilder::new(100);
        for range in [110..113, 120..140, 150..151] {
            assert_eq!(builder.lost(range), Recorded::Kept);
        }
        let window = builder.window(112, 130, 3);
        assert_eq!(window.runs(), [LossRun { start: 0, len: 1 }, LossRun { start: 8, len: 10 }]);
        assert_eq!((window.packets(), window.lost(), window.burst()), (18, 11, 3));
        assert_eq!(builder.window(0, 200, 1), builder.clone().finish(200, 1));
        // The newest losses begin with a run, or at the earliest start.
        let starts = [1, 2, 21, 22, 1000].map(|lost| builder.start_of(lost, 100));
        assert_eq!(starts, [150, 120, 120, 110, 100]);
        assert_eq!(builder.start_of(1000, 125), 125);
    }

    #[test]
    fn bad_windows_are_refused_with_a_reason() {
        let pairs = [(5, 6)];
        let outside = Signature::from_gaps(10, 1, pairs).expect_err("beyond the window");
        assert!(outside.to_string().contains("reach 11"), "{outside}");
        let long = Signature::from_gaps(1 << 40, 1, []).expect_err("too long");
        assert!(long.to_string().contains("cut it"), "{long}");
        let many = Signature::from_gaps(1 << 20, 1, std::iter::repeat_n((1, 1), RUNS_MAX + 1));
        assert_eq!(many, Err(SignatureError::TooManyRuns));
        let overflow = Signature::from_gaps(10, 1, [(u64::MAX, u64::MAX)]);
        assert!(matches!(overflow, Err(SignatureError::Outside { .. })), "{overflow:?}");
    }

    #[test]
    fn a_full_builder_reports_it_and_the_next_window_works() {
        let mut builder = SignatureBuilder::new(100);
        for i in 0..RUNS_MAX as u64 {
            assert_eq!(builder.lost(100 + 2 * i..101 + 2 * i), Recorded::Kept);
        }
        let next = 100 + 2 * RUNS_MAX as u64;
        assert_eq!(builder.lost(next..next + 1), Recorded::Full);
        let signature = builder.finish(next, 1);
        assert_eq!(signature.lost() as usize, RUNS_MAX);
        assert_eq!(builder.lost(next..next + 1), Recorded::Kept);
        assert_eq!(builder.lost(next..next + u64::from(PACKETS_MAX) + 1), Recorded::Full);
    }

    proptest! {
        /// Losses that are recorded, removed and cut into windows agree with a model.
        #[test]
        fn windows_hold_what_was_lost(
            ops in prop::collection::vec((0u64..300, 1u64..20, prop::bool::weighted(0.8)), 0..60),
            ends in prop::collection::vec(0u64..120, 1..5),
        ) {
            let mut builder = SignatureBuilder::new(0);
            let mut model = [false; 400];
            for &(at, len, lost) in &ops {
                if lost {
                    prop_assert_eq!(builder.lost(at..at + len), Recorded::Kept);
                    model[at as usize..(at + len) as usize].fill(true);
                } else {
                    builder.found(at);
                    model[at as usize] = false;
                }
            }
            let mut end = 0;
            for step in ends {
                let start = end;
                end = (end + step).min(400);
                let window = builder.finish(end, 2);
                prop_assert_eq!(&bits(&window)[..], &model[start as usize..end as usize]);
                prop_assert_eq!(window.lost() as usize, bits(&window).iter().filter(|lost| **lost).count());
                prop_assert!(window.runs().windows(2).all(|pair| pair[0].end() < pair[1].start));
            }
            prop_assert_eq!(builder.lost_count() as usize, model[end as usize..].iter().filter(|lost| **lost).count());
        }

        /// The slices together are the window.
        #[test]
        fn slices_are_the_window_cut(
            pairs in prop::collection::vec((0u64..40, 0u64..30), 0..40),
            rest in 0u64..50,
            len in 1u32..90,
        ) {
            let packets = pairs.iter().map(|(gap, len)| gap + len).sum::<u64>() + rest;
            let whole = signature(packets, &pairs);
            let all: Vec<bool> = whole.slices(len).iter().flat_map(bits).collect();
            let kept = if whole.packets() <= len { whole.packets() } else { whole.packets() / len * len };
            prop_assert_eq!(&all[..], &bits(&whole)[..kept as usize]);
        }
    }
}
