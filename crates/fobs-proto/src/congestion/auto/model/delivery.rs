//! What the path delivers, and how far that can be trusted.

use super::super::super::AckSample;
use super::super::findings::{Bursts, Overload};
use super::{Model, QueueLevel};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Why the capacity may be below what the path carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortfall {
    /// No reason known.
    None,
    /// The flow yielded to a queue that may pass.
    Yielded,
}

/// The most that was delivered in the last one to two spans.
#[derive(Debug)]
pub(crate) struct Best {
    span: Duration,
    now: Option<Rate>,
    before: Option<Rate>,
    began: Timestamp,
}

impl Best {
    /// A maximum over at least `span`.
    pub(crate) fn over(span: Duration) -> Best {
        Best { span, now: None, before: None, began: Timestamp::ZERO }
    }

    /// Adds a sample of the delivery rate.
    pub(crate) fn observe(&mut self, now: Timestamp, rate: Rate) {
        if now - self.began >= self.span {
            self.before = self.now.take();
            self.began = now;
        }
        self.now = self.now.max(Some(rate));
    }

    /// The best of at least its span, 0 if there is none.
    pub(crate) fn rate(&self) -> Rate {
        self.now.max(self.before).unwrap_or(Rate::ZERO)
    }
}

impl Model {
    /// Corrects the capacity by the newest delivery, while cruising or draining.
    pub(crate) fn estimate(&mut self, ack: &AckSample, overload: Overload, bursts: Bursts) {
        if self.is_idle(ack) {
            return;
        }
        let busy = self.level() == QueueLevel::Busy && self.queue.was_busy(ack.now, self.span);
        let sent = self.newest.min(self.sent_at());
        self.best.observe(ack.now, sent);
        // What was lost in a burst that has passed says nothing of what there is now.
        let burst_loss = self.shortfall == Shortfall::Yielded && bursts == Bursts::Expected;
        if busy {
            self.capacity = self.newest.max(self.best.rate().scaled(self.params.floor_share()));
            self.shortfall = Shortfall::Yielded;
        } else if overload != Overload::None && !burst_loss {
            self.capacity = self.newest;
            self.shortfall = Shortfall::None;
        } else {
            self.capacity = self.capacity.max(sent);
        }
    }

    /// Forgets the best delivery, so that it is not resumed.
    pub(crate) fn forget_best(&mut self) {
        self.best = Best::over(self.params.drain_cycle_min);
    }

    /// Whether the path delivers `rate`. A window can be wrong by the error of rates, or by a packet and the
    /// path's noise at each end.
    pub(crate) fn delivers(&self, rate: Rate) -> bool {
        let p = &self.params;
        let late = rate.bytes_in(2 * self.noise.of(p.noise_deviations));
        let ends = 2 * self.packet_len + late;
        let error = Rate::of(ends, self.span).unwrap_or(Rate::ZERO);
        let error = error.max(rate.scaled(p.noise));
        self.newest.as_bytes() + error.as_bytes() >= rate.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_best_is_remembered_for_a_while() {
        let (slow, fast) = (Rate::bits_per_second(1_000_000), Rate::bits_per_second(9_000_000));
        let mut best = Best::over(Duration::from_secs(2));
        assert_eq!(best.rate().as_bytes(), 0);
        best.observe(at(1), fast);
        for ms in (2..2_000).step_by(10) {
            best.observe(at(ms), slow);
        }
        assert_eq!(best.rate(), fast, "younger than the span");
        for ms in (2_000..4_100).step_by(10) {
            best.observe(at(ms), slow);
        }
        assert_eq!(best.rate(), slow, "older than twice the span");
    }
}
