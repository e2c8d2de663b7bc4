//! The base delay of a path and the part of the queueing delay that stands.

use crate::Timestamp;
use std::time::Duration;

/// The standing queue: the least queueing delay of a window, so that noise of hosts and bursts does not
/// count.
#[derive(Debug, Default)]
pub(crate) struct StandingQueue {
    now: Duration,
    before: Duration,
    began: Timestamp,
    idle_at: Timestamp,
}

impl StandingQueue {
    /// Takes a queueing delay; its least is taken over `window`, and `idle` is the delay at which the
    /// bottleneck may have idled.
    pub(crate) fn on_delay(&mut self, now: Timestamp, delay: Duration, window: Duration, idle: Duration) {
        if now - self.began >= window {
            self.before = self.now;
            self.now = delay;
            self.began = now;
        }
        self.now = self.now.min(delay);
        if delay <= idle {
            self.idle_at = now;
        }
    }

    /// The standing delay.
    pub(crate) fn delay(&self) -> Duration {
        self.now.min(self.before)
    }

    /// Whether the bottleneck cannot have idled for all of `span`.
    pub(crate) fn was_busy(&self, now: Timestamp, span: Duration) -> bool {
        now - self.idle_at >= span
    }
}

/// The base delay: the least round trip of one to two spans. The span is longer than that of
/// [`AckSample::min_rtt`], because CUBIC takes up to 15 s from loss to loss and its queue only grows
/// meanwhile.
///
/// [`AckSample::min_rtt`]: crate::congestion::AckSample::min_rtt
#[derive(Debug)]
pub(crate) struct Base {
    now: Duration,
    before: Duration,
    began: Timestamp,
}

impl Default for Base {
    fn default() -> Base {
        Base { now: Duration::MAX, before: Duration::MAX, began: Timestamp::ZERO }
    }
}

impl Base {
    /// Takes a round trip and gives the least.
    pub(crate) fn on_rtt(&mut self, now: Timestamp, rtt: Duration, span: Duration) -> Duration {
        if now - self.began >= span {
            self.before = self.now;
            self.now = rtt;
            self.began = now;
        }
        self.now = self.now.min(rtt);
        self.now.min(self.before)
    }

    /// The path has another delay now.
    pub(crate) fn forget(&mut self, now: Timestamp, rtt: Duration) {
        *self = Base { now: rtt, before: rtt, began: now };
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
    fn a_queue_that_comes_and_goes_does_not_stand() {
        let mut queue = StandingQueue::default();
        for ms in 0..40 {
            queue.on_delay(at(ms), if ms % 5 == 0 { MS } else { 9 * MS }, 10 * MS, 2 * MS);
        }
        assert_eq!(queue.delay(), MS);
        assert!(!queue.was_busy(at(40), 10 * MS));
        for ms in 40..60 {
            queue.on_delay(at(ms), 9 * MS, 10 * MS, 2 * MS);
        }
        assert_eq!(queue.delay(), 9 * MS);
        assert!(queue.was_busy(at(60), 20 * MS));
    }

    #[test]
    fn the_base_delay_is_that_of_one_to_two_spans() {
        let mut base = Base::default();
        assert_eq!(base.on_rtt(at(0), 20 * MS, 100 * MS), 20 * MS);
        assert_eq!(base.on_rtt(at(150), 30 * MS, 100 * MS), 20 * MS);
        assert_eq!(base.on_rtt(at(260), 30 * MS, 100 * MS), 30 * MS);
        base.forget(at(261), 40 * MS);
        assert_eq!(base.on_rtt(at(262), 50 * MS, 100 * MS), 40 * MS);
    }
}
