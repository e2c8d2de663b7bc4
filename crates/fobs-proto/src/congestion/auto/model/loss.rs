//! How many packets get lost, and which of the losses chance does not explain.

use super::super::params::Params;
use crate::Timestamp;
use std::time::Duration;

/// Packets acknowledged and lost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    acked: f64,
    lost: f64,
}

impl Count {
    fn all(self) -> f64 {
        self.acked + self.lost
    }

    /// Share of the packets that were lost, if there were any.
    fn share(self) -> Option<f64> {
        (self.all() >= 1.0).then(|| self.lost / self.all())
    }
}

/// How many packets get lost, and how many would without this flow.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    phase: Count,
    /// Of all phases since the last one that lost more than chance explains, or since a drain.
    lately: Count,
    turn: Count,
    turn_began: Timestamp,
    /// Of drains, in which the queue holds nothing of this flow: the newest, and those before it, of which
    /// each weighs half of the one after it.
    drained: Count,
    unhindered: Count,
}

impl Losses {
    /// Packets arrived.
    pub(crate) fn on_acked(&mut self, packets: f64) {
        self.phase.acked += packets;
        self.lately.acked += packets;
        self.turn.acked += packets;
    }

    /// Packets were lost.
    pub(crate) fn on_lost(&mut self, packets: f64) {
        self.phase.lost += packets;
        self.lately.lost += packets;
        self.turn.lost += packets;
    }

    /// Packets that were declared lost arrived: they were no loss, in this phase or in a drain before.
    pub(crate) fn on_found(&mut self, packets: f64) {
        self.turn.lost = (self.turn.lost - packets).max(0.0);
        self.lately.lost = (self.lately.lost - packets).max(0.0);
        let earlier = (packets - self.phase.lost).max(0.0);
        self.phase.lost = (self.phase.lost - packets).max(0.0);
        let before = (earlier - self.drained.lost).max(0.0);
        self.drained.lost = (self.drained.lost - earlier).max(0.0);
        self.unhindered.lost = (self.unhindered.lost - before).max(0.0);
    }

    /// Packets acknowledged in this phase.
    pub(crate) fn acked(&self) -> f64 {
        self.phase.acked
    }

    /// Packets lost in this phase.
    pub(crate) fn lost(&self) -> f64 {
        self.phase.lost
    }

    /// Another phase is measured.
    pub(crate) fn begin_phase(&mut self) {
        self.phase = Count::default();
    }

    /// The phase was a drain that left no queue: what was lost is the path's own loss.
    pub(crate) fn learn(&mut self) {
        self.unhindered.acked = self.unhindered.acked / 2.0 + self.drained.acked;
        self.unhindered.lost = self.unhindered.lost / 2.0 + self.drained.lost;
        self.drained = self.phase;
    }

    /// A drain is over: what phases lost lately counts anew.
    pub(crate) fn end_drain(&mut self) {
        self.lately = Count::default();
    }

    /// What was counted in this phase.
    pub(crate) fn phase(&self) -> Count {
        self.phase
    }

    /// Whether all phases since this was last so lost more than chance explains: a little in each of many
    /// phases is a lot.
    pub(crate) fn accumulate(&mut self, p: &Params) -> bool {
        let much = self.lately_beyond_chance(p);
        if much {
            self.lately = Count::default();
        }
        much
    }

    /// Whether all phases since then lost more than chance explains.
    pub(crate) fn lately_beyond_chance(&self, p: &Params) -> bool {
        self.exceeds(self.lately, p)
    }

    /// Share of packets that the path loses whatever is sent, at most `loss_share_max`. A path loses in every
    /// drain, a queue that other flows fill overflows in some: neither the newest drain nor those before it
    /// may contradict it by more than chance.
    pub(crate) fn share(&self, p: &Params) -> f64 {
        let (newest, before) = (self.drained, self.unhindered);
        let most = |count: Count| (count.lost + p.few_packets as f64) / count.all().max(1.0);
        let all = Count { acked: newest.acked + before.acked / 2.0, lost: newest.lost + before.lost / 2.0 };
        let share = all.share().unwrap_or(0.0).min(most(newest)).min(p.loss_share_max);
        if before.all() >= 1.0 { share.min(most(before)) } else { share }
    }

    /// Whether more was lost in this phase than chance explains.
    pub(crate) fn beyond_chance(&self, p: &Params) -> bool {
        self.exceeds(self.phase, p)
    }

    /// Whether these losses exceed what chance explains.
    pub(crate) fn exceeds(&self, count: Count, p: &Params) -> bool {
        let expected = p.margin * self.share(p) * count.all();
        count.lost > expected + p.sigmas * expected.sqrt() + p.few_packets as f64
    }

    /// Whether `lost` of `all` packets exceed what the path's own loss rate explains. A path that
    /// is not known to lose any explains none.
    pub(crate) fn beyond(&self, lost: f64, all: f64, p: &Params) -> bool {
        let expected = p.margin * self.share(p) * all;
        lost > expected + p.sigmas * expected.sqrt()
    }

    /// The next turn ends a round trip after `at`: until then losses of a flight before become known.
    pub(crate) fn begin_turn(&mut self, at: Timestamp) {
        self.turn = Count::default();
        self.turn_began = at;
    }

    /// Whether the losses of the last round trip leave nothing to measure; true at most
    /// once a round trip.
    pub(crate) fn collapse(&mut self, now: Timestamp, round_trip: Duration, p: &Params) -> bool {
        if now.saturating_since(self.turn_began) < round_trip {
            return false;
        }
        let turn = std::mem::take(&mut self.turn);
        self.turn_began = now;
        turn.lost >= p.train_packets as f64 && turn.lost > p.collapse_share * turn.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Timestamp {
        Timestamp::ZERO + MS * ms
    }

    #[test]
    fn only_loss_beyond_the_path_s_own_is_news() {
        let (mut losses, p) = (Losses::default(), Params::default());
        losses.on_acked(960.0);
        losses.on_lost(40.0);
        assert!(losses.beyond_chance(&p), "a path that is not known to lose");
        losses.learn();
        assert!(!losses.beyond_chance(&p));
        assert_eq!(losses.share(&p), 0.04);
        losses.begin_phase();
        losses.on_acked(920.0);
        losses.on_lost(80.0);
        assert!(losses.beyond_chance(&p), "twice what the path loses");
    }

    #[test]
    fn what_arrives_after_all_is_no_loss() {
        let (mut losses, p) = (Losses::default(), Params::default());
        losses.on_acked(900.0);
        losses.on_lost(100.0);
        losses.on_found(80.0);
        losses.learn();
        assert!((losses.share(&p) - 20.0 / 920.0).abs() < 1e-9);
        losses.begin_phase();
        losses.on_found(20.0);
        assert_eq!(losses.share(&p), 0.0, "nor what was learnt in a drain");
    }

    #[test]
    fn a_collapse_is_found_once_a_round_trip() {
        let (mut losses, p) = (Losses::default(), Params::default());
        losses.on_lost(100.0);
        losses.on_acked(100.0);
        assert!(!losses.collapse(at(5), 10 * MS, &p));
        assert!(losses.collapse(at(10), 10 * MS, &p));
        assert!(!losses.collapse(at(20), 10 * MS, &p));
    }
}
