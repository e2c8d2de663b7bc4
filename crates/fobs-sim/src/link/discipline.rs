//! Queue management: which packets a queue drops or marks before it is full.

use crate::rng::{Chance, Rng};
use crate::time::{MS, Nanos, time_for};

/// How a queue is managed. Every queue also drops what does not fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// Nothing until it is full.
    DropTail,
    /// Random early detection, the gentle kind (Floyd and Jacobson 1993; Floyd 2000): between the thresholds
    /// packets are dropped with a probability that grows to `probability_max`, and on to one at twice the
    /// upper threshold.
    Red {
        /// Lower threshold of the average queue, bytes.
        low: u64,
        /// Upper threshold, bytes.
        high: u64,
        /// Probability at the upper threshold.
        probability_max: f64,
    },
    /// CoDel (RFC 8289): drops at the head when packets have waited too long for too long.
    CoDel {
        /// Acceptable standing delay.
        target: Nanos,
        /// Time that it may be exceeded.
        interval: Nanos,
    },
    /// FQ-CoDel (RFC 8290): a queue with a CoDel for each flow, served in turns.
    FqCoDel {
        /// Acceptable standing delay of a flow's queue.
        target: Nanos,
        /// Time that it may be exceeded.
        interval: Nanos,
    },
    /// Marks every packet that meets more than this many bytes (a threshold as in data centres; RFC 8257).
    MarkAbove {
        /// Bytes.
        bytes: u64,
    },
}

impl Discipline {
    /// CoDel with RFC 8289's constants (section 4.4): 5 ms, 100 ms.
    pub const CODEL: Discipline = Discipline::CoDel { target: 5 * MS, interval: 100 * MS };
    /// FQ-CoDel with the same constants (RFC 8290 sections 5.2.1 and 5.2.2).
    pub const FQ_CODEL: Discipline = Discipline::FqCoDel { target: 5 * MS, interval: 100 * MS };
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Pass,
    /// Drop, or mark if it is capable of that and the link marks.
    Signal,
    /// Mark; never a reason to drop.
    Mark,
}

/// Weight of a new queue length in RED's average (Floyd and Jacobson 1993 section 6.1).
const RED_WEIGHT: f64 = 0.002;

#[derive(Debug)]
pub(super) struct Management {
    discipline: Discipline,
    average: f64,
    /// Packets since the last one that RED took.
    since_signal: f64,
    empty_since: Option<Nanos>,
    codel: CoDel,
}

/// The state of CoDel (RFC 8289 section 5.3).
#[derive(Debug, Default)]
pub(super) struct CoDel {
    first_above: Option<Nanos>,
    dropping: bool,
    drop_next: Nanos,
    count: u32,
    last_count: u32,
}

impl Management {
    pub(super) fn new(discipline: Discipline) -> Management {
        Management {
            discipline,
            average: 0.0,
            since_signal: 0.0,
            empty_since: Some(0),
            codel: CoDel::default(),
        }
    }

    /// A packet of `len` bytes meets a queue of `backlog` bytes at a link of `rate`.
    pub(super) fn on_enqueue(
        &mut self,
        now: Nanos,
        backlog: u64,
        len: u32,
        rate: u64,
        rng: &mut Rng,
    ) -> Admission {
        match self.discipline {
            Discipline::Red { low, high, probability_max } => {
                self.average_red(now, backlog, len, rate);
                self.red(low as f64, high as f64, probability_max, rng)
            }
            Discipline::MarkAbove { bytes } if backlog > bytes => Admission::Mark,
            _ => Admission::Pass,
        }
    }

    /// The queue has run empty.
    pub(super) fn on_empty(&mut self, now: Nanos) {
        self.empty_since = Some(now);
    }

    /// A packet that came at `since` is at the head; `backlog` bytes are behind it. For CoDel alone: while
    /// this signals, the packet is dropped and the next one is tried.
    pub(super) fn on_dequeue(&mut self, now: Nanos, since: Nanos, backlog: u64) -> Admission {
        match self.discipline {
            Discipline::CoDel { target, interval } => {
                self.codel.take(now, now - since, backlog, target, interval)
            }
            _ => Admission::Pass,
        }
    }

    fn average_red(&mut self, now: Nanos, backlog: u64, len: u32, rate: u64) {
        if let Some(since) = self.empty_since.take() {
            // While it was empty the average falls as if small packets had met an empty queue.
            let packets = (now - since) / time_for(u64::from(len), rate).max(1);
            self.average *= libm::pow(1.0 - RED_WEIGHT, packets as f64);
        }
        self.average += RED_WEIGHT * (backlog as f64 - self.average);
    }

    fn red(&mut self, low: f64, high: f64, probability_max: f64, rng: &mut Rng) -> Admission {
        let base = if self.average < low {
            self.since_signal = 0.0;
            return Admission::Pass;
        } else if self.average < high {
            probability_max * (self.average - low) / (high - low)
        } else {
            (probability_max + (1.0 - probability_max) * (self.average - high) / high).min(1.0)
        };
        // Spread evenly: the probability grows with the packets that have passed since the last one taken.
        let probability = base / (1.0 - (self.since_signal * base).min(1.0)).max(f64::MIN_POSITIVE);
        self.since_signal += 1.0;
        if rng.happens(Chance::of(probability)) {
            self.since_signal = 0.0;
            return Admission::Signal;
        }
        Admission::Pass
    }
}

impl CoDel {
    /// The head has waited so long, with `backlog` bytes behind it.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        waited: Nanos,
        backlog: u64,
        target: Nanos,
        interval: Nanos,
    ) -> Admission {
        // RFC 8289 section 5.5: nothing is wrong while the queue is short or what waits fits one packet.
        let above = waited >= target && backlog > 1500;
        let stands = match (above, self.first_above) {
            (false, _) => {
                self.first_above = None;
                false
            }
            (true, None) => {
                self.first_above = Some(now + interval);
                false
            }
            (true, Some(at)) => now >= at,
        };
        if self.dropping {
            if !stands {
                self.dropping = false;
            } else if now >= self.drop_next {
                self.count += 1;
                self.drop_next = self.law(self.drop_next, interval);
                return Admission::Signal;
            }
        } else if stands {
            self.dropping = true;
            // RFC 8289 section 5.4: where dropping ended a moment ago it goes on at about the old rate.
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now.saturating_sub(self.drop_next) < 16 * interval;
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = self.law(now, interval);
            return Admission::Signal;
        }
        Admission::Pass
    }

    fn law(&self, from: Nanos, interval: Nanos) -> Nanos {
        from + (interval as f64 / f64::from(self.count).sqrt()) as Nanos
    }
}
