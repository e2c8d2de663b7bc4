//! What the sending thread reports about losses: its machine's windows, merged to a few a second, and its
//! drain rate.

use crate::memory::lessons::Taken;
use fobs_model::cause::{LossVerdict, LossWindow, RUNS_MAX, Remedy, RemedyAction, RemedyResult};
use fobs_model::measured::Measured;
use fobs_model::mode::ModeChange;
use fobs_proto::Timestamp;
use fobs_proto::loss_cause::{Lesson, LossReport, Signature, Verdict};
use fobs_proto::sender::{Sender, SenderStats};

/// Windows since the last heartbeat, one of each verdict, and the drain rate as last reported.
#[derive(Debug, Default)]
pub(super) struct Causes {
    pending: Vec<LossWindow>,
    drained: Option<Drained>,
    taken: Taken,
    /// Windows of this peer in the model that judges; 0 for the shipped one.
    learned_from: u32,
    /// Packets of any program that the receiver's host dropped before its sockets had them.
    host_drops: u64,
}

/// The state when the receiver's drain rate became the pacing rate.
#[derive(Debug)]
struct Drained {
    bits_per_second: u64,
    drops_before: f64,
    stats: SenderStats,
}

impl Causes {
    /// For a model that learned from this many windows of this peer.
    pub(super) fn new(learned_from: u32) -> Causes {
        Causes { learned_from, ..Causes::default() }
    }

    /// Takes the windows that the machine has judged since the last call. On short paths those are hundreds a
    /// second: windows with the same verdict become one, with the pattern of the newest.
    pub(super) fn collect(&mut self, machine: &mut Sender, began: Timestamp) {
        while let Some(report) = machine.poll_loss_report() {
            let window = LossWindow { learned_from: self.learned_from, ..window_of(&report, began) };
            match self.pending.iter_mut().find(|pending| pending.verdict == window.verdict) {
                Some(pending) => *pending = merged(pending, window),
                None => self.pending.push(window),
            }
        }
        while let Some(lesson) = machine.poll_lesson() {
            self.taken.push(lesson);
        }
    }

    /// Windows of known cause, for the next transfers' model.
    pub(super) fn take_lessons(&mut self) -> Vec<Lesson> {
        let mut lessons = std::mem::take(&mut self.taken).into_lessons();
        if self.host_drops > 0 {
            // A loss that its sockets did not count may be the host's: it does not prove the network's.
            lessons.retain(|lesson| lesson.cause != Verdict::Network);
        }
        lessons
    }

    /// Another lane of the session has learned this.
    pub(super) fn learn(&mut self, lessons: Vec<Lesson>) {
        lessons.into_iter().for_each(|lesson| self.taken.push(lesson));
    }

    /// Sets the drops of the receiver's host, as its last sample has them.
    pub(super) fn hear_receiver(&mut self, host_drops: u64) {
        self.host_drops = host_drops;
    }

    /// The windows to report: at most one of each verdict.
    pub(super) fn take_windows(&mut self) -> Vec<LossWindow> {
        std::mem::take(&mut self.pending)
    }

    /// The drain rate as a remedy, if it began or ended since the last heartbeat.
    pub(super) fn take_drain(&mut self, machine: &Sender, seconds: f64) -> Option<Remedy> {
        let stats = machine.stats();
        match (machine.drain_rate(), self.drained.take()) {
            (Some(rate), None) => {
                let bits_per_second = rate.as_bytes().saturating_mul(8);
                let drops_before = share(&SenderStats::default(), &stats);
                self.drained = Some(Drained { bits_per_second, drops_before, stats });
                let action = RemedyAction::DrainRate { bits_per_second };
                Some(Remedy { seconds, action, result: RemedyResult::Applied })
            }
            (None, Some(Drained { bits_per_second, drops_before, stats: before })) => {
                let drops_after = share(&before, &stats);
                let action = RemedyAction::DrainRate { bits_per_second };
                Some(Remedy { seconds, action, result: RemedyResult::Effect { drops_before, drops_after } })
            }
            (_, drained) => {
                self.drained = drained;
                None
            }
        }
    }
}

/// What a machine has judged and changed since the last heartbeat, in a session that began at `began`.
pub(super) fn news_of(
    now: Timestamp,
    began: Timestamp,
    causes: &mut Causes,
    machine: &mut Sender,
) -> Vec<Measured> {
    let mut news = Vec::new();
    while let Some(change) = machine.poll_mode_change() {
        news.push(Measured::Mode(ModeChange::of(&change, began)));
    }
    news.extend(causes.take_windows().into_iter().map(Measured::Loss));
    let seconds = (now - began).as_secs_f64();
    news.extend(causes.take_drain(machine, seconds).map(Measured::Remedy));
    news
}

/// Share of the packets sent between two readings that the receiver lost.
fn share(before: &SenderStats, now: &SenderStats) -> f64 {
    let sent = now.packets_sent.saturating_sub(before.packets_sent);
    now.packets_spared.saturating_sub(before.packets_spared) as f64 / sent.max(1) as f64
}

fn window_of(report: &LossReport, began: Timestamp) -> LossWindow {
    LossWindow {
        seconds: (report.at - began).as_secs_f64(),
        packets: report.signature.packets(),
        lost: report.signature.lost(),
        network_lost: report.network_lost,
        receiver_lost: report.receiver_lost,
        verdict: match report.verdict {
            Verdict::Receiver => LossVerdict::Receiver,
            Verdict::Network => LossVerdict::Network,
            Verdict::Inconclusive => LossVerdict::Inconclusive,
        },
        p_receiver: report.evidence.pattern.map(|pattern| pattern.p_receiver),
        p_mixed: report.evidence.pattern.map(|pattern| pattern.p_mixed),
        host_drops: report.evidence.host_drops,
        lag: report.evidence.lag,
        learned_from: 0,
        runs: pairs_of(&report.signature),
    }
}

/// Pairs of a gap and a length.
fn pairs_of(signature: &Signature) -> Vec<(u32, u32)> {
    let mut end = 0;
    let runs = signature.runs().iter().take(RUNS_MAX);
    runs.map(|run| {
        let gap = run.start - end;
        end = run.end();
        (gap, run.len)
    })
    .collect()
}

/// The newer window with the counts of both.
fn merged(old: &LossWindow, new: LossWindow) -> LossWindow {
    LossWindow {
        network_lost: old.network_lost.saturating_add(new.network_lost),
        receiver_lost: old.receiver_lost.saturating_add(new.receiver_lost),
        host_drops: old.host_drops.zip(new.host_drops).map(|(a, b)| a.saturating_add(b)),
        p_receiver: new.p_receiver.or(old.p_receiver),
        p_mixed: new.p_mixed.or(old.p_mixed),
        lag: new.lag.or(old.lag),
        ..new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_proto::loss_cause::witness::Evidence;

    #[test]
    fn a_dropping_host_gives_no_network_lessons() {
        for (host_drops, left) in [(0, 2), (1, 1)] {
            let mut causes = Causes::default();
            for cause in [Verdict::Receiver, Verdict::Network] {
                causes.taken.push(Lesson { signature: Signature::clean(1), cause, host_drops: 0 });
            }
            causes.hear_receiver(host_drops);
            assert_eq!(causes.take_lessons().len(), left);
        }
    }

    fn report(at_ms: u64, verdict: Verdict, lost: u32) -> LossReport {
        LossReport {
            at: Timestamp::from_nanos(at_ms * 1_000_000),
            first: 0,
            network_lost: 1,
            receiver_lost: lost - 1,
            verdict,
            evidence: Evidence { lost, pattern: None, host_drops: Some(lost - 1), lag: None },
            signature: Signature::from_gaps(1000, 1, [(5, u64::from(lost)), (7, 2)]).expect("good"),
        }
    }

    #[test]
    fn windows_keep_the_reports_figures_and_merge_by_adding() {
        let began = Timestamp::from_nanos(1_000_000_000);
        let a = window_of(&report(1500, Verdict::Receiver, 10), began);
        assert_eq!((a.seconds, a.packets, a.lost), (0.5, 1000, 12));
        assert_eq!(a.runs, [(5, 10), (7, 2)]);
        let b = merged(&a, window_of(&report(2500, Verdict::Receiver, 20), began));
        assert_eq!((b.seconds, b.network_lost, b.receiver_lost, b.host_drops), (1.5, 2, 28, Some(28)));
        assert_eq!(b.runs[0], (5, 20), "the newest pattern");
    }
}
