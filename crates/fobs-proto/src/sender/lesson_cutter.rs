//! Windows of losses whose cause the receiver's counters show, cut from the trail of losses: training data
//! for a model.
//!
//! No packet is in two of them, and each is as long as the windows that patterns are judged by. Where the
//! counters cover some of the losses and not others, a window teaches nothing and is left out.

use crate::PacketNumber;
use crate::loss_cause::mixture::LOST_MIN;
use crate::loss_cause::report::Lesson;
use crate::loss_cause::witness::UNCOUNTED_SHARE_MAX;
use crate::loss_cause::{Signature, Verdict};
use std::collections::VecDeque;

/// Packets of a window at least, the shorter of the models' two lengths.
const WINDOW_PACKETS: u64 = 10_000;
/// Length of the longer window, packets: one with fewer than eight losses in it is dropped.
const WINDOW_LONG: u64 = 70_000;
/// Windows that wait to be taken; beyond that the oldest is dropped.
const LESSONS_MAX: usize = 64;

/// The window that is growing, and those that wait.
#[derive(Debug, Default)]
pub(super) struct LessonCutter {
    /// Its first packet.
    from: PacketNumber,
    /// The first packet that no round has settled.
    settled: PacketNumber,
    lost: u64,
    covered: u64,
    /// The path marked packets: the network was congested.
    marked: bool,
    waiting: VecDeque<Lesson>,
}

/// A round's addition to the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settled {
    /// The first packet after the round.
    pub(super) end: PacketNumber,
    /// Packets lost, and those of them that the receiver's counters cover.
    pub(super) lost: u32,
    pub(super) covered: u32,
    pub(super) marked: bool,
}

impl LessonCutter {
    /// A round with losses is over. `cut` cuts a window out of the trail.
    pub(super) fn on_round(
        &mut self,
        round: Settled,
        cut: impl FnOnce(PacketNumber, PacketNumber) -> Signature,
    ) {
        if round.end.saturating_sub(self.from) > WINDOW_LONG {
            self.begin(self.settled.max(round.end.saturating_sub(WINDOW_LONG)));
        }
        self.lost += u64::from(round.lost);
        self.covered += u64::from(round.covered.min(round.lost));
        self.marked |= round.marked;
        self.settled = round.end;
        let full = round.end.saturating_sub(self.from) >= WINDOW_PACKETS;
        if !full || self.lost < u64::from(LOST_MIN) {
            return;
        }
        if let Some(cause) = self.cause() {
            let signature = cut(self.from, round.end);
            // Some may have arrived since.
            if signature.lost() >= LOST_MIN {
                if self.waiting.len() == LESSONS_MAX {
                    self.waiting.pop_front();
                }
                let host_drops = (self.covered as u32).min(signature.lost());
                self.waiting.push_back(Lesson { signature, cause, host_drops });
            }
        }
        self.begin(round.end);
    }

    /// The next window begins with this packet.
    pub(super) fn begin(&mut self, from: PacketNumber) {
        *self = LessonCutter {
            from,
            settled: from,
            waiting: std::mem::take(&mut self.waiting),
            ..LessonCutter::default()
        };
    }

    /// The oldest that waits.
    pub(super) fn take(&mut self) -> Option<Lesson> {
        self.waiting.pop_front()
    }

    fn cause(&self) -> Option<Verdict> {
        let uncounted = self.lost - self.covered;
        if self.covered == 0 {
            Some(Verdict::Network)
        } else if uncounted as f64 <= UNCOUNTED_SHARE_MAX * self.lost as f64 && !self.marked {
            Some(Verdict::Receiver)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends a round that lost the packets before `end`.
    fn round(cutter: &mut LessonCutter, end: PacketNumber, lost: u32, covered: u32, marked: bool) {
        cutter.on_round(Settled { end, lost, covered, marked }, |from, to| {
            let (packets, lost) = (to - from, u64::from(lost));
            Signature::from_gaps(packets, 1, [(packets - lost, lost)]).expect("good")
        });
    }

    fn taken(cutter: &mut LessonCutter) -> Vec<(u32, Verdict, u32)> {
        let all = std::iter::from_fn(|| cutter.take());
        all.map(|lesson| (lesson.signature.packets(), lesson.cause, lesson.host_drops)).collect()
    }

    #[test]
    fn windows_grow_until_they_are_long_enough_and_lost_enough() {
        let mut cutter = LessonCutter::default();
        round(&mut cutter, 6_000, 20, 20, false);
        assert_eq!(taken(&mut cutter), [], "too short");
        round(&mut cutter, 12_000, 30, 30, false);
        round(&mut cutter, 30_000, 3, 0, false);
        assert_eq!(taken(&mut cutter), [(12_000, Verdict::Receiver, 30)], "the second has lost too few");
        round(&mut cutter, 40_000, 9, 0, false);
        assert_eq!(taken(&mut cutter), [(28_000, Verdict::Network, 0)]);
    }

    #[test]
    fn what_both_lost_and_what_was_marked_teaches_nothing() {
        let mut cutter = LessonCutter::default();
        round(&mut cutter, 12_000, 100, 90, false);
        round(&mut cutter, 24_000, 100, 100, true);
        assert_eq!(taken(&mut cutter), []);
        round(&mut cutter, 36_000, 100, 99, false);
        round(&mut cutter, 48_000, 100, 0, true);
        assert_eq!(taken(&mut cutter), [(12_000, Verdict::Receiver, 99), (12_000, Verdict::Network, 0)]);
    }

    #[test]
    fn a_window_does_not_reach_back_over_long_silence() {
        let mut cutter = LessonCutter::default();
        round(&mut cutter, 5_000, 50, 50, false);
        round(&mut cutter, 500_000, 50, 0, false);
        assert_eq!(taken(&mut cutter), [(70_000, Verdict::Network, 0)], "the first round is not in it");
        cutter.begin(600_000);
        round(&mut cutter, 612_000, 50, 50, false);
        assert_eq!(taken(&mut cutter), [(12_000, Verdict::Receiver, 50)]);
    }

    #[test]
    fn windows_that_nobody_takes_are_bounded() {
        let mut cutter = LessonCutter::default();
        (1..=100).for_each(|i| round(&mut cutter, i * 10_000, 9, 9, false));
        assert_eq!(taken(&mut cutter).len(), LESSONS_MAX);
    }
}
