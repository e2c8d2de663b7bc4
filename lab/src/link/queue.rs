//! The bottleneck: a policer, and a queue that a link empties at its rate.
//!
//! No clock: each call passes the time, and calls are in order of time.

use std::collections::VecDeque;

use super::clock::{Nanos, Pace};
use super::draw::Draw;
use super::outage::Outages;
use super::spec::{Discipline, Policer};
use crate::units::Rate;

/// Packet size for RED's idle time, bytes (Floyd and Jacobson 1993, section 4: packets that could have been
/// sent).
const RED_TYPICAL_BYTES: u32 = 1500;

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The queue is full.
    Full,
    /// Early drop of RED.
    Early,
}

/// A packet that the link has transmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served<T> {
    pub item: T,
    pub bytes: u32,
    /// Time at which its last bit was sent.
    pub at: Nanos,
    /// Waiting time before its first bit was sent.
    pub waited: Nanos,
}

/// A queue and its link. The packet on the link counts as queued until its last bit is sent.
#[derive(Debug)]
pub struct Bottleneck<T> {
    discipline: Discipline,
    pace: Pace,
    red: Red,
    waiting: VecDeque<Waiting<T>>,
    backlog: u64,
    /// Start and end of the present transmission; there is one while anything waits.
    head: Option<(Nanos, Nanos)>,
    /// Time that the link was busy, up to the last packet sent.
    busy: Nanos,
}

#[derive(Debug, Clone, Copy)]
struct Waiting<T> {
    item: T,
    bytes: u32,
    since: Nanos,
}

impl<T: Copy> Bottleneck<T> {
    pub fn new(discipline: Discipline, rate: Rate, draw: Draw) -> Bottleneck<T> {
        Bottleneck {
            discipline,
            pace: Pace::new(rate),
            red: Red::new(draw),
            waiting: VecDeque::with_capacity(4096),
            backlog: 0,
            head: None,
            busy: 0,
        }
    }

    /// Changes rate and discipline at `now`; queued packets stay, even beyond a smaller limit.
    pub fn reconfigure(&mut self, now: Nanos, discipline: Discipline, rate: Rate) {
        let old = self.pace.bits_per_second();
        if old != rate.bits_per_second() {
            self.pace = Pace::new(rate);
            if let Some((_, done)) = &mut self.head {
                let left = u128::from(done.saturating_sub(now)) * u128::from(old);
                let left = left / u128::from(rate.bits_per_second());
                *done = now.saturating_add(u64::try_from(left).unwrap_or(u64::MAX / 4));
            }
        }
        self.discipline = discipline;
    }

    /// Bytes queued, including the packet on the link.
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// End of the present transmission.
    pub fn next_done(&self) -> Option<Nanos> {
        self.head.map(|(_, done)| done)
    }

    /// Time that the link was busy since the last call.
    pub fn take_busy(&mut self) -> Nanos {
        std::mem::take(&mut self.busy)
    }

    /// Queues a packet that arrives at `now`. Everything due before must have been served.
    ///
    /// # Errors
    ///
    /// Why the packet is dropped.
    pub fn offer(&mut self, now: Nanos, bytes: u32, item: T, outages: &Outages) -> Result<(), Refusal> {
        if !self.has_room(bytes) {
            return Err(Refusal::Full);
        }
        if let Discipline::Red { min_bytes, max_bytes, probability, weight, .. } = self.discipline {
            let thresholds = Thresholds { min: min_bytes as f64, max: max_bytes as f64, probability, weight };
            if self.red.drops(now, self.backlog, &thresholds) {
                return Err(Refusal::Early);
            }
        }
        self.backlog += u64::from(bytes);
        self.waiting.push_back(Waiting { item, bytes, since: now });
        if self.head.is_none() {
            self.start(now, outages);
        }
        Ok(())
    }

    /// The next packet whose last bit is sent by `until`.
    pub fn serve(&mut self, until: Nanos, outages: &Outages) -> Option<Served<T>> {
        let (started, done) = self.head.filter(|(_, done)| *done <= until)?;
        let packet = self.waiting.pop_front()?;
        self.backlog -= u64::from(packet.bytes);
        self.busy += done - started;
        self.head = None;
        if self.waiting.is_empty() {
            self.red.idle(done, self.pace);
        } else {
            self.start(done, outages);
        }
        let waited = started.saturating_sub(packet.since);
        Some(Served { item: packet.item, bytes: packet.bytes, at: done, waited })
    }

    fn start(&mut self, now: Nanos, outages: &Outages) {
        if let Some(first) = self.waiting.front() {
            let takes = self.pace.take(first.bytes);
            self.head = Some((now, outages.held(now, takes)));
        }
    }

    fn has_room(&self, bytes: u32) -> bool {
        let after = self.backlog + u64::from(bytes);
        match self.discipline {
            Discipline::DropTailBytes(limit) | Discipline::Red { limit_bytes: limit, .. } => after <= limit,
            Discipline::DropTailPackets(limit) => (self.waiting.len() as u64) < limit,
        }
    }
}

/// Random early detection after Floyd and Jacobson 1993 (drops, no marks; thresholds in bytes).
#[derive(Debug)]
struct Red {
    draw: Draw,
    average: f64,
    /// Packets since the last early drop, while the average is between the thresholds.
    count: f64,
    idle_since: Option<(Nanos, Nanos)>,
}

struct Thresholds {
    min: f64,
    max: f64,
    probability: f64,
    weight: f64,
}

impl Red {
    fn new(draw: Draw) -> Red {
        Red { draw, average: 0.0, count: 0.0, idle_since: None }
    }

    /// The queue became empty at `now`: the average falls as if small packets had arrived at an empty queue.
    fn idle(&mut self, now: Nanos, mut pace: Pace) {
        self.idle_since = Some((now, pace.take(RED_TYPICAL_BYTES).max(1)));
    }

    fn drops(&mut self, now: Nanos, backlog: u64, limits: &Thresholds) -> bool {
        if let Some((since, packet)) = self.idle_since.take() {
            let packets = now.saturating_sub(since) as f64 / packet as f64;
            self.average *= (1.0 - limits.weight).powf(packets);
        }
        self.average += limits.weight * (backlog as f64 - self.average);
        if self.average < limits.min {
            self.count = 0.0;
            return false;
        }
        if self.average >= limits.max {
            self.count = 0.0;
            return true;
        }
        let base = limits.probability * (self.average - limits.min) / (limits.max - limits.min);
        // Uniform gaps between drops, not geometric ones (section 7).
        let chance = if self.count * base < 1.0 { base / (1.0 - self.count * base) } else { 1.0 };
        self.count += 1.0;
        let drops = self.draw.chance(chance);
        if drops {
            self.count = 0.0;
        }
        drops
    }
}

/// A token bucket; starts full.
#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    policer: Policer,
    /// Tokens in bits x 10^9, so that a nanosecond at any rate is a whole number.
    tokens: u128,
    filled_at: Nanos,
}

impl TokenBucket {
    pub fn new(policer: Policer, now: Nanos) -> TokenBucket {
        TokenBucket { policer, tokens: depth(policer), filled_at: now }
    }

    /// Whether a packet that arrives at `now` may pass.
    pub fn passes(&mut self, now: Nanos, bytes: u32) -> bool {
        let since = now.saturating_sub(self.filled_at);
        let earned = u128::from(since) * u128::from(self.policer.rate.bits_per_second());
        self.tokens = (self.tokens + earned).min(depth(self.policer));
        self.filled_at = now;
        let price = u128::from(bytes) * 8_000_000_000;
        let passes = self.tokens >= price;
        if passes {
            self.tokens -= price;
        }
        passes
    }
}

fn depth(policer: Policer) -> u128 {
    u128::from(policer.burst.bytes()) * 8_000_000_000
}

#[cfg(test)]
mod tests;
