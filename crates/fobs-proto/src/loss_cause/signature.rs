//! Which packets of a window were lost: runs over packet numbers (001 section 3.1).

use crate::PacketNumber;
use std::ops::Range;

/// Most runs of a window. A window of 70,000 packets of which every second is lost has 35,000; one that would have
/// more ends early and the next begins (64 KiB of runs are 8 bytes each: 512 KiB).
pub const RUNS_MAX: usize = 1 << 16;
/// Most packets of a window; above the longest round that anyone sends (10 Gbit/s for 60 s are 50 million).
pub const PACKETS_MAX: u32 = 1 << 27;

/// Packets lost one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossRun {
    /// Packets of the window before the first.
    pub start: u32,
    /// How many; at least 1.
    pub len: u32,
}

impl LossRun {
    /// Packets of the window before the first that is not lost any more.
    pub fn end(self) -> u32 {
        self.start + self.len
    }
}

/// A window of packets and which of them were lost.
///
/// Runs are in order and do not touch: between two is at least one packet received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    packets: u32,
    lost: u32,
    burst: u32,
    runs: Vec<LossRun>,
}

/// Why runs make no signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Longer than [`PACKETS_MAX`].
    #[error("a window of {0} packets is longer than {PACKETS_MAX}: cut it")]
    TooLong(u64),
    /// More runs than [`RUNS_MAX`].
    #[error("a window with more than {RUNS_MAX} runs of lost packets: cut it")]
    TooManyRuns,
    /// A run that ends beyond the window.
    #[error("lost packets reach {end}, but the window has {packets}: correct `n` or `rle`")]
    Outside {
        /// End of the run.
        end: u64,
        /// Packets of the window.
        packets: u32,
    },
}

impl Signature {
    /// The window of `packets` packets, sent `burst` back to back (1: evenly paced; 0 counts as 1), from pairs of a
    /// gap (packets received) and a length (packets lost after it). A pair without length is a longer gap before the
    /// next, one without gap lengthens the run before it.
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

    /// A window of up to [`PACKETS_MAX`] packets of which none was lost.
    pub fn clean(packets: u32) -> Signature {
        Signature { packets: packets.min(PACKETS_MAX), lost: 0, burst: 1, runs: Vec::new() }
    }

    /// Adds what was lost after everything else; the range is inside the window.
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

    /// How many of them were lost.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Packets put out back to back, at least 1: bursts change the pattern.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// The runs, in order.
    pub fn runs(&self) -> &[LossRun] {
        &self.runs
    }

    /// Share of the packets that was lost; 0 for an empty window.
    pub fn loss_rate(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { f64::from(self.lost) / f64::from(self.packets) }
    }

    /// Whole windows of `packets` packets cut out of this one; what is left at its end is dropped. A shorter one is
    /// returned as it is, as is any for `packets` 0.
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
                        break; // the rest of it belongs to the next slice
                    }
                    rest = &rest[1..];
                }
                slice
            })
            .collect()
    }
}

/// Grows the signature of a window while packets of it are declared lost, in any order, and some of them turn up
/// after all.
///
/// Sending order is packet numbers: losses mostly come with growing numbers, which costs nothing but the last run.
#[derive(Debug, Clone)]
pub struct SignatureBuilder {
    first: PacketNumber,
    /// Sorted, apart from each other.
    runs: Vec<Range<PacketNumber>>,
}

/// What became of packets declared lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// They are in the window.
    Kept,
    /// The window can take no more: [`SignatureBuilder::finish`] it at these packets, and tell the next.
    Full,
}

impl SignatureBuilder {
    /// A window that begins with packet `first`.
    pub fn new(first: PacketNumber) -> SignatureBuilder {
        SignatureBuilder { first, runs: Vec::new() }
    }

    /// The packet that the window begins with.
    pub fn first(&self) -> PacketNumber {
        self.first
    }

    /// These were declared lost. What lies before the window is left out: its own window is finished.
    pub fn lost(&mut self, packets: Range<PacketNumber>) -> Recorded {
        let mut new = packets.start.max(self.first)..packets.end;
        if new.is_empty() {
            return Recorded::Kept;
        }
        if new.end - self.first > u64::from(PACKETS_MAX) {
            return Recorded::Full;
        }
        // The runs that `new` overlaps or touches become one with it.
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

    /// This one was declared lost too early and has arrived. (In a window that is full to the last run it stays
    /// lost if taking it out would split a run.)
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

    /// Where a window would have to begin for the newest `lost` losses; not before `earliest`.
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

    /// The window from packet `from` to before packet `end`, which goes on growing. It has [`PACKETS_MAX`] packets at
    /// most.
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

    /// Ends the window before packet `end` and begins the next there, with the losses that are already known of it.
    /// An `end` beyond [`PACKETS_MAX`] packets is moved there.
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
    fn a_window_is_what_finishing_would_give_and_leaves_all_as_it_is() {
        let mut builder = SignatureBuilder::new(100);
        for range in [110..113, 120..140, 150..151] {
            assert_eq!(builder.lost(range), Recorded::Kept);
        }
        let window = builder.window(112, 130, 3);
        assert_eq!(window.runs(), [LossRun { start: 0, len: 1 }, LossRun { start: 8, len: 10 }]);
        assert_eq!((window.packets(), window.lost(), window.burst()), (18, 11, 3));
        assert_eq!(builder.window(0, 200, 1), builder.clone().finish(200, 1));
        // The newest so many losses begin with a run, or where the window may begin at the earliest.
        let starts = [1, 2, 21, 22, 1000].map(|lost| builder.start_of(lost, 100));
        assert_eq!(starts, [150, 120, 120, 110, 100]);
        assert_eq!(builder.start_of(1000, 125), 125);
    }

    #[test]
    fn bad_windows_are_refused_and_say_why() {
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
    fn a_full_builder_says_so_and_goes_on() {
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
        /// However losses are declared, taken back and cut into windows, the windows say what was lost.
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

        /// Slices are the window, cut.
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
