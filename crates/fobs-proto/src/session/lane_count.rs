//! How many lanes a path needs so that no thread is its limit.

/// Most lanes that nobody chose: each has a socket and a thread at both ends.
pub const LANES_UNCHOSEN_MAX: u8 = 8;
/// Cores for a lane: one seals or opens its packets, and another reads, hashes or writes what it carries.
const CORES_OF_A_LANE: u32 = 2;
/// Part of the time from which on a thread is the limit: the rest is waiting for the next ack or chunk.
const BUSY_MIN: f64 = 0.85;
/// How busy the thread of a lane is to be, which leaves room for what the path's rate changes by.
const BUSY_AIM: f64 = 0.6;
/// Fewer lanes are tried where each of them would still be less busy than this.
const BUSY_FEWER: f64 = 0.5;
/// Part of the time for which threads may wait for a core before no core counts as idle.
const SHORT_MAX: f64 = 0.1;

/// What the threads did that seal and open the packets of a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketThreads {
    /// Lanes that it had on the path.
    pub lanes: u8,
    /// Part of the time for which the thread of a lane was on a core, at the busier end, 0 to 1.
    pub busy: f64,
    /// Part of the time for which it waited for one, at the end that is shorter of them, 0 to 1.
    pub short: f64,
    /// Cores of this end.
    pub cores: u32,
}

impl PacketThreads {
    /// Lanes that the next transfer over the path should have: more where a thread was the limit and cores
    /// were idle, fewer where fewer do.
    pub fn lanes_next(&self) -> u8 {
        let PacketThreads { lanes, busy, short, cores } = *self;
        let lanes = lanes.max(1);
        let most = (cores / CORES_OF_A_LANE).clamp(1, u32::from(LANES_UNCHOSEN_MAX)) as u8;
        let work = f64::from(lanes) * busy.clamp(0.0, 1.0);
        // At most a few lanes' work.
        let needed = (work / BUSY_AIM).ceil().clamp(1.0, f64::from(LANES_UNCHOSEN_MAX)) as u8;
        let next = if short > SHORT_MAX {
            needed.min(lanes)
        } else if busy >= BUSY_MIN {
            needed.max(lanes)
        } else if work < f64::from(lanes - 1) * BUSY_FEWER {
            needed.min(lanes)
        } else {
            lanes
        };
        next.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_follow_what_their_threads_did() {
        // Lanes, busy, short, cores: lanes of the next transfer.
        for (lanes, busy, short, cores, next) in [
            // One thread is the limit, and cores are idle.
            (1, 0.97, 0.0, 8, 2),
            (1, 0.85, 0.05, 16, 2),
            (2, 1.0, 0.0, 16, 4),
            (4, 0.95, 0.0, 32, 7),
            (8, 1.0, 0.0, 64, 8),
            // It is not.
            (1, 0.84, 0.0, 8, 1),
            (1, 0.2, 0.0, 64, 1),
            (1, 0.0, 0.0, 1, 1),
            // No core is idle: one more thread would take it from another.
            (1, 0.97, 0.0, 2, 1),
            (1, 0.97, 0.0, 3, 1),
            (1, 0.97, 0.2, 16, 1),
            (4, 0.5, 0.3, 16, 4),
            (4, 0.3, 0.3, 16, 2),
            (4, 1.0, 0.0, 4, 2),
            // As many as are needed stay, and no more.
            (2, 0.6, 0.0, 8, 2),
            (2, 0.26, 0.0, 8, 2),
            (2, 0.2, 0.0, 8, 1),
            (4, 0.3, 0.0, 16, 2),
            (8, 0.4, 0.0, 64, 6),
            // Not what any host has.
            (0, f64::NAN, f64::NAN, 0, 1),
            (1, 7.0, -1.0, u32::MAX, 2),
        ] {
            let threads = PacketThreads { lanes, busy, short, cores };
            assert_eq!(threads.lanes_next(), next, "{threads:?}");
        }
    }

    #[test]
    fn lanes_come_to_rest() {
        // A path that keeps `work` threads busy, on hosts with cores enough.
        for tenths in 1..=48 {
            let work = f64::from(tenths) / 10.0;
            let mut lanes = 1;
            let mut seen = Vec::new();
            for _ in 0..10 {
                let busy = (work / f64::from(lanes)).min(1.0);
                lanes = PacketThreads { lanes, busy, short: 0.0, cores: 64 }.lanes_next();
                seen.push(lanes);
            }
            assert_eq!(seen[8], seen[9], "{work}: {seen:?}");
            assert!(f64::from(lanes) * BUSY_MIN > work.min(6.8) - 1e-9 || lanes == 8, "{work}: {seen:?}");
        }
    }
}
