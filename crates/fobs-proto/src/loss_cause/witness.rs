//! Combines three sources: the receiver's drop counters, the signature, and how late the receiver read.
//!
//! The receiving kernel's drop count is nearly exact, so it splits the losses. But it comes from the
//! receiver, which may be wrong, or may lie to make the sender harm other flows: it counts only as far as the
//! signature does not contradict it. Disagreement is `inconclusive`, which is treated as network loss.

use super::{CONFIDENCE, Verdict};

/// Maximum share of the losses that the counter may miss; above it, the window is mixed. With merged
/// datagrams (GRO) the count is an estimate that must be right to 1% for mixed packet sizes
/// (`docs/classifier.md`).
pub const UNCOUNTED_SHARE_MAX: f64 = 0.01;
/// Minimum lag of a receiver that was late, in buffer-filling times: the largest lag in each of 178 recorded
/// windows of starved receivers was at least 0.40 (`docs/classifier.md`, the lag).
pub const LAG_MIN: f64 = 0.3;

/// The result of a classifier on a signature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pattern {
    /// Probability that the receiver lost all the packets.
    pub p_receiver: f64,
    /// Probability that both the receiver and the network lost packets; 0 with a method that does not
    /// estimate it.
    pub p_mixed: f64,
}

impl Pattern {
    /// Whether it excludes losses at the receiver.
    pub fn denies_receiver(&self) -> bool {
        1.0 - self.p_receiver - self.p_mixed >= CONFIDENCE
    }
}

/// The evidence on a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Packets lost.
    pub lost: u32,
    /// The classifier's result; `None` where none was computed.
    pub pattern: Option<Pattern>,
    /// Datagrams that the receiving host counted as dropped; `None` where its counters cannot be read.
    pub host_drops: Option<u32>,
    /// Lag, median over the gaps: the largest delay of reading before a gap, over the time in which the
    /// socket's buffer fills. `None` without arrival timestamps.
    pub lag: Option<f64>,
}

/// The attribution of a window's losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Loss cause of the window.
    pub verdict: Verdict,
    /// Losses passed to the congestion controller.
    pub network_lost: u32,
    /// Losses at the receiver, which call for a slower or better receiver, not for a lower rate on the path.
    pub receiver_lost: u32,
}

impl Evidence {
    /// Attributes the losses.
    pub fn judge(&self) -> Judgement {
        let verdict = match self.host_drops {
            Some(drops) => self.with_ledger(drops),
            None => self.without_ledger(),
        };
        let receiver_lost = match (verdict, self.host_drops) {
            (Verdict::Receiver, None) => self.lost,
            (Verdict::Receiver, Some(drops)) => drops.min(self.lost),
            // In a mixed window the counted losses are the receiver's, unless the signature excludes that.
            (Verdict::Inconclusive, Some(drops)) if !self.is_denied() => drops.min(self.lost),
            _ => 0,
        };
        Judgement { verdict, network_lost: self.lost - receiver_lost, receiver_lost }
    }

    /// Whether the receiver counts drops although the signature excludes losses at the receiver.
    pub fn contradicts(&self) -> bool {
        self.host_drops.is_some_and(|drops| drops > 0) && self.is_denied()
    }

    fn with_ledger(&self, drops: u32) -> Verdict {
        let uncounted = f64::from(self.lost.saturating_sub(drops));
        if self.lost == 0 || drops == 0 {
            return Verdict::Network;
        }
        let counted_all = uncounted <= UNCOUNTED_SHARE_MAX * f64::from(self.lost);
        if counted_all && !self.is_network() && !self.was_prompt() {
            Verdict::Receiver
        } else {
            Verdict::Inconclusive
        }
    }

    fn without_ledger(&self) -> Verdict {
        match self.pattern.map(|pattern| Verdict::from_probability(pattern.p_receiver)) {
            Some(Verdict::Receiver) if self.was_prompt() => Verdict::Inconclusive,
            Some(verdict) => verdict,
            None => Verdict::Inconclusive,
        }
    }

    fn is_denied(&self) -> bool {
        self.pattern.is_some_and(|pattern| pattern.denies_receiver())
    }

    /// Whether the signature shows that the network lost packets.
    fn is_network(&self) -> bool {
        self.pattern.map(|pattern| Verdict::from_probability(pattern.p_receiver)) == Some(Verdict::Network)
    }

    /// Whether the receiver read without delay up to the losses.
    fn was_prompt(&self) -> bool {
        self.lag.is_some_and(|lag| lag < LAG_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_signature_and_lag_are_combined() {
        use Verdict::{Inconclusive, Network, Receiver};
        // p_receiver, host drops of 1000 lost, lag; verdict, network losses
        for (p, drops, lag, verdict, network) in [
            (Some(0.99), Some(1000), Some(0.8), Receiver, 0),
            (Some(0.99), Some(1000), None, Receiver, 0),
            (None, Some(1000), None, Receiver, 0),
            (Some(0.5), Some(995), None, Receiver, 5),
            (Some(0.99), Some(2000), None, Receiver, 0),
            // The network lost some.
            (Some(0.99), Some(950), Some(0.8), Inconclusive, 50),
            (Some(0.5), Some(400), None, Inconclusive, 600),
            // A blackout looks like a receiver, but nothing was counted, or the receiver was not late.
            (Some(0.99), Some(0), None, Network, 1000),
            (Some(0.99), None, Some(0.01), Inconclusive, 1000),
            (Some(0.99), None, Some(0.8), Receiver, 0),
            (Some(0.99), None, None, Receiver, 0),
            // Counted losses with a signature of the network are not attributed to the receiver.
            (Some(0.01), Some(1000), Some(0.8), Inconclusive, 1000),
            (Some(0.01), None, None, Network, 1000),
            (Some(0.5), None, Some(0.8), Inconclusive, 1000),
            (None, None, None, Inconclusive, 1000),
        ] {
            let pattern = p.map(|p_receiver| Pattern { p_receiver, p_mixed: 0.0 });
            let evidence = Evidence { lost: 1000, pattern, host_drops: drops, lag };
            let judgement = evidence.judge();
            assert_eq!((judgement.verdict, judgement.network_lost), (verdict, network), "{evidence:?}");
            assert_eq!(judgement.network_lost + judgement.receiver_lost, 1000);
        }
    }

    #[test]
    fn a_mixed_pattern_denies_nothing() {
        let mixed = Pattern { p_receiver: 0.01, p_mixed: 0.9 };
        let evidence = Evidence { lost: 1000, pattern: Some(mixed), host_drops: Some(600), lag: None };
        let Judgement { verdict, network_lost, receiver_lost } = evidence.judge();
        assert_eq!((verdict, network_lost, receiver_lost), (Verdict::Inconclusive, 400, 600));
        assert!(!evidence.contradicts());
        let network = Pattern { p_receiver: 0.01, p_mixed: 0.0 };
        assert!(Evidence { pattern: Some(network), ..evidence }.contradicts());
        assert!(!Evidence { pattern: Some(network), host_drops: Some(0), ..evidence }.contradicts());
    }

    #[test]
    fn without_losses_no_drops_are_attributed() {
        let evidence = Evidence { lost: 0, pattern: None, host_drops: Some(7), lag: None };
        assert_eq!(evidence.judge().receiver_lost, 0);
    }
}
