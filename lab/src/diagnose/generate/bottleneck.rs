//! Where packets are queued or dropped.

use fobs_diagnose::Random;

/// Weight of a new packet in RED's average of the queue (S. Floyd, V. Jacobson 1993: 0.002).
const RED_WEIGHT: f64 = 0.002;

/// Who is dropped.
#[derive(Debug, Clone, Copy)]
pub enum Discipline {
    /// Whoever finds the buffer full.
    Tail,
    /// At random, the likelier the fuller: none below `low`, `p_max` at `high`, all above (shares of the buffer).
    Red {
        /// Where it begins.
        low: f64,
        /// Where all are dropped.
        high: f64,
        /// Probability just below `high`.
        p_max: f64,
    },
    /// Packets that find no token in the bucket; no packet waits.
    Police,
    /// Served, or given tokens, only every `tick` seconds; room or tokens are for 1 to `ticks` of them at least.
    Batch {
        /// Seconds.
        tick: f64,
        /// Ticks.
        ticks: f64,
    },
}

/// A link with a buffer, or a bucket of tokens that is as large.
#[derive(Debug, Clone)]
pub struct Bottleneck {
    discipline: Discipline,
    /// Bytes a second.
    capacity: f64,
    /// Bytes.
    buffer: f64,
    /// Bytes queued; for a policer, tokens taken.
    backlog: f64,
    /// RED's.
    average: f64,
    /// Seconds, of the last service.
    served: f64,
}

impl Bottleneck {
    /// A link of `capacity` bytes a second with room for `buffer` bytes.
    pub fn new(discipline: Discipline, capacity: f64, buffer: f64, random: &mut Random) -> Bottleneck {
        let buffer = match discipline {
            Discipline::Batch { tick, ticks } => buffer.max(capacity * tick * random.uniform(1.0, ticks)),
            _ => buffer,
        };
        Bottleneck { discipline, capacity, buffer, backlog: 0.0, average: 0.0, served: 0.0 }
    }

    /// Whether a packet of so many bytes that comes at `now` is taken. Time never runs backwards.
    pub fn offer(&mut self, now: f64, bytes: f64, random: &mut Random) -> bool {
        let until = match self.discipline {
            Discipline::Batch { tick, .. } => (now / tick).floor() * tick,
            _ => now,
        };
        if until > self.served {
            self.backlog = (self.backlog - (until - self.served) * self.capacity).max(0.0);
            self.served = until;
        }
        let taken = self.backlog + bytes <= self.buffer && !self.drops_early(random);
        if taken {
            self.backlog += bytes;
        }
        taken
    }

    fn drops_early(&mut self, random: &mut Random) -> bool {
        let Discipline::Red { low, high, p_max } = self.discipline else {
            return false;
        };
        self.average += RED_WEIGHT * (self.backlog / self.buffer - self.average);
        match (self.average - low) / (high - low) {
            depth if depth <= 0.0 => false,
            depth if depth >= 1.0 => true,
            depth => random.chance(depth * p_max),
        }
    }
}
