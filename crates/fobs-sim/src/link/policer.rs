//! A token bucket that drops what exceeds its contract.

use crate::time::{Nanos, bytes_in, time_for};

/// A policer's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicerConfig {
    /// Bits per second.
    pub rate: u64,
    /// Bytes that may pass at once.
    pub depth: u64,
    /// Tokens come at multiples of this time; 0 for continuously.
    pub refill: Nanos,
}

#[derive(Debug)]
pub(super) struct Policer {
    config: PolicerConfig,
    tokens: u64,
    counted: Nanos,
}

impl Policer {
    pub(super) fn new(config: PolicerConfig) -> Policer {
        Policer { config, tokens: config.depth, counted: 0 }
    }

    /// Whether a packet of `len` bytes keeps the contract.
    pub(super) fn admits(&mut self, now: Nanos, len: u32) -> bool {
        let now = match self.config.refill {
            0 => now,
            refill => now - now % refill,
        };
        let fresh = bytes_in(now - self.counted, self.config.rate);
        if fresh > 0 {
            self.tokens = self.tokens.saturating_add(fresh).min(self.config.depth);
            // What is less than a byte waits for the next packet.
            self.counted += time_for(fresh, self.config.rate).min(now - self.counted);
        }
        let enough = self.tokens >= u64::from(len);
        self.tokens -= if enough { u64::from(len) } else { 0 };
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MS, SEC};

    #[test]
    fn the_contract_is_the_depth_and_then_the_rate() {
        let mut policer = Policer::new(PolicerConfig { rate: 8_000_000, depth: 10_000, refill: 0 });
        let passed: u32 = (0..1000).filter(|ms| policer.admits(ms * MS, 2_000)).count() as u32 * 2_000;
        assert!((1_008_000..=1_010_000).contains(&passed), "{passed} of 1,010,000 bytes");
        assert!(policer.admits(100 * SEC, 10_000), "a full bucket after a rest");
        assert!(!policer.admits(100 * SEC, 1), "and no fuller than full");
    }

    #[test]
    fn tokens_come_at_multiples_of_the_refill_time() {
        let mut policer = Policer::new(PolicerConfig { rate: 8_000_000, depth: 10_000, refill: 5 * MS });
        assert!(policer.admits(0, 10_000));
        assert!(!policer.admits(4 * MS, 1_000), "4000 bytes have not come yet");
        assert!(policer.admits(5 * MS, 5_000));
        assert!(!policer.admits(9 * MS, 1_000));
    }
}
