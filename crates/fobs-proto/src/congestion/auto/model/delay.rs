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
    acks: u32,
    idle_at: Timestamp,
}

/// Over what a least delay is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// At least this long, and at least `acks`, which need not last longer than `longest`.
    pub(crate) length: Duration,
    pub(crate) acks: u32,
    pub(crate) longest: Duration,
}

impl Window {
    fn is_over(self, lasted: Duration, acks: u32) -> bool {
        lasted >= self.length && (acks >= self.acks || lasted >= self.longest)
    }
}

impl StandingQueue {
    /// Takes a queueing delay; its least is taken over `window`, and `idle` is the delay at which the
    /// bottleneck may have idled.
    pub(crate) fn on_delay(&mut self, now: Timestamp, delay: Duration, window: Window, idle: Duration) {
        if window.is_over(now - self.began, self.acks) {
            self.before = self.now;
            self.now = delay;
            self.began = now;
            self.acks = 0;
        }
        self.acks += 1;
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

/// The base delay: the least round trip of one to two spans that two windows in a row have seen. What one
/// window saw alone says nothing: a link that holds packets up, as wireless ones do, lets the first packet
/// after a pause pass at once, and no other. The span is longer than that of [`AckSample::min_rtt`], because
/// CUBIC takes up to 15 s from loss to loss and its queue only grows meanwhile.
///
/// [`AckSample::min_rtt`]: crate::congestion::AckSample::min_rtt
#[derive(Debug)]
pub(crate) struct Base {
    /// The least of the present window, and of the one before.
    window: Duration,
    window_before: Duration,
    window_began: Timestamp,
    /// The least of the present span, and of the one before.
    now: Duration,
    before: Duration,
    began: Timestamp,
}

impl Default for Base {
    fn default() -> Base {
        let (none, began) = (Duration::MAX, Timestamp::ZERO);
        Base { window: none, window_before: none, window_began: began, now: none, before: none, began }
    }
}

impl Base {
    /// Takes a round trip and gives the base delay.
    pub(crate) fn on_rtt(
        &mut self,
        now: Timestamp,
        rtt: Duration,
        window: Duration,
        span: Duration,
    ) -> Duration {
        if now - self.window_began >= window {
            self.add(now, self.window.max(self.window_before), span);
            self.window_before = std::mem::replace(&mut self.window, rtt);
            self.window_began = now;
        }
        self.window = self.window.min(rtt);
        let known = self.now.min(self.before);
        // At first the least there is must do.
        if known == Duration::MAX { self.window.min(self.window_before) } else { known }
    }

    fn add(&mut self, now: Timestamp, stood: Duration, span: Duration) {
        if now - self.began >= span {
            self.before = std::mem::replace(&mut self.now, stood);
            self.began = now;
        }
        self.now = self.now.min(stood);
    }

    /// The path has another delay now.
    pub(crate) fn forget(&mut self, now: Timestamp, rtt: Duration) {
        let (before, began) = (rtt, now);
        *self = Base { window: rtt, window_before: rtt, window_began: now, now: rtt, before, began };
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
        let window = Window { length: 10 * MS, acks: 1, longest: 10 * MS };
        for ms in 0..40 {
            queue.on_delay(at(ms), if ms % 5 == 0 { MS } else { 9 * MS }, window, 2 * MS);
        }
        assert_eq!(queue.delay(), MS);
        assert!(!queue.was_busy(at(40), 10 * MS));
        for ms in 40..60 {
            queue.on_delay(at(ms), 9 * MS, window, 2 * MS);
        }
        assert_eq!(queue.delay(), 9 * MS);
        assert!(queue.was_busy(at(60), 20 * MS));
    }

    /// The base delay after these round trips (ms), one per millisecond from `from` on.
    fn after(base: &mut Base, from: u32, rtts: &[u32]) -> Duration {
        let each = rtts.iter().zip(from..);
        each.map(|(rtt, ms)| base.on_rtt(at(ms), MS * *rtt, 10 * MS, 100 * MS)).last().expect("some")
    }

    #[test]
    fn the_base_delay_is_that_of_one_to_two_spans() {
        let mut base = Base::default();
        assert_eq!(after(&mut base, 0, &[20; 30]), 20 * MS);
        assert_eq!(after(&mut base, 30, &[30; 100]), 20 * MS);
        assert_eq!(after(&mut base, 130, &[30; 150]), 30 * MS);
        base.forget(at(281), 40 * MS);
        assert_eq!(after(&mut base, 282, &[50; 30]), 40 * MS);
    }

    #[test]
    fn a_delay_that_one_window_alone_has_seen_is_not_the_base() {
        let mut base = Base::default();
        let jitter = |first: u32| -> Vec<u32> { [vec![first], vec![25; 49]].concat() };
        assert_eq!(after(&mut base, 0, &[20]), 20 * MS, "there is no other yet");
        assert_eq!(after(&mut base, 1, &jitter(20)), 25 * MS);
        assert_eq!(after(&mut base, 51, &jitter(20)), 25 * MS, "the first after a pause");
        assert_eq!(after(&mut base, 101, &[21; 40]), 21 * MS);
    }
}
