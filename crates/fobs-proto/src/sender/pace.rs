//! Which of several rates applies, and when the next burst or frame may leave.

use super::limit::SendLimit;
use crate::pacing::{LimitShare, Pacer};
use crate::{Rate, Timestamp};

/// The user's cap, and the pacer.
#[derive(Debug)]
pub(super) struct Pace {
    cap: Option<Rate>,
    pacer: Pacer,
    /// Where packets leave by two ways, what both may send together at the user's rate.
    budget: Pacer,
    /// Where other senders share the user's cap, this one's access to it.
    others: Option<LimitShare>,
}

impl Pace {
    pub(super) fn new(now: Timestamp, cap: Option<Rate>) -> Pace {
        Pace { cap, pacer: Pacer::new(now), budget: Pacer::new(now), others: None }
    }

    /// The user's cap.
    pub(super) fn cap(&self) -> Option<Rate> {
        self.cap
    }

    /// From now on this is the user's cap; nothing waits for what an earlier one allows.
    pub(super) fn set_cap(&mut self, now: Timestamp, cap: Option<Rate>) {
        self.cap = cap;
        self.pacer.restart(now);
        self.budget.restart(now);
    }

    /// The path answers after a silence, or is another one: nothing waits for what left in the silence, which
    /// may be more than the rates of that time allow, because probes do not wait for them.
    pub(super) fn on_return(&mut self, now: Timestamp) {
        self.pacer.restart(now);
        self.budget.restart(now);
        if let Some(share) = &self.others {
            share.restart(now);
        }
    }

    /// The lowest of the cap, the controller's rate and the receiver's drain rate.
    pub(super) fn rate(&self, controller: Option<Rate>, drain: Option<Rate>) -> Option<Rate> {
        [controller, self.cap, drain].into_iter().flatten().min()
    }

    /// What sets the rate `least`; `ceiling` is the rate that a deadline needs.
    pub(super) fn limit(&self, least: Rate, drain: Option<Rate>, ceiling: Option<Rate>) -> SendLimit {
        match Some(least) {
            least if least == self.cap => SendLimit::Cap,
            least if least == drain => SendLimit::Drain,
            least if least == ceiling => SendLimit::Deadline,
            _ => SendLimit::Pacer,
        }
    }

    pub(super) fn next_departure(&self) -> Timestamp {
        self.pacer.next_departure()
    }

    /// Bytes after which a burst at `rate` ends.
    pub(super) fn quantum(rate: Rate) -> u64 {
        Pacer::quantum(rate)
    }

    /// A burst was due, and there was nothing that could leave.
    pub(super) fn on_idle(&mut self) {
        self.pacer.on_idle();
    }

    pub(super) fn on_sent(&mut self, now: Timestamp, bytes: u64, rate: Rate) {
        self.pacer.on_sent(now, bytes, rate);
    }

    /// The rate that the user set: as a cap, or as the controller's.
    pub(super) fn user_rate(&self, controller: Option<Rate>) -> Option<Rate> {
        [controller, self.cap].into_iter().flatten().min()
    }

    /// From now on packets leave by two ways.
    pub(super) fn share(&mut self, now: Timestamp) {
        self.budget = Pacer::new(now);
    }

    /// When the user's rate admits more, by whatever way.
    pub(super) fn budget(&self) -> Timestamp {
        self.budget.next_departure()
    }

    /// Bytes left at the user's rate, by whatever way.
    pub(super) fn spend(&mut self, now: Timestamp, bytes: u64, rate: Rate) {
        self.budget.on_sent(now, bytes, rate);
    }

    /// From now on other senders share the user's cap.
    pub(super) fn share_cap(&mut self, share: LimitShare) {
        self.others = Some(share);
    }

    /// Until when this sender leaves the user's cap to others.
    pub(super) fn others_wait(&self, now: Timestamp) -> Option<Timestamp> {
        self.others.as_ref()?.wait(now)
    }

    /// Bytes leave, which count against a cap that others share.
    pub(super) fn spend_shared(&self, now: Timestamp, bytes: u64) {
        if let Some(share) = &self.others {
            share.spend(now, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rate_applies_and_is_named() {
        let rate = |bytes| Some(Rate::bytes_per_second(bytes));
        let pace = Pace::new(Timestamp::ZERO, rate(5));
        for (controller, drain, ceiling, least, limit) in [
            (9, None, None, 5, SendLimit::Cap),
            (9, rate(4), None, 4, SendLimit::Drain),
            (3, rate(4), rate(3), 3, SendLimit::Deadline),
            (3, rate(4), None, 3, SendLimit::Pacer),
        ] {
            let lowest = pace.rate(rate(controller), drain).expect("there are rates");
            assert_eq!((Some(lowest), pace.limit(lowest, drain, ceiling)), (rate(least), limit));
        }
    }
}
