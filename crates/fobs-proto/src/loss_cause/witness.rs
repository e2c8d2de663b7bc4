//! The three witnesses together: what the receiver counted, what the pattern of losses says, and how late the
//! receiver read.
//!
//! What the receiving kernel counted as dropped is nearly exact, so it splits the losses. But it comes from the
//! receiver, who may be wrong, or may want to make the sender harm others: its word counts only as far as the
//! pattern does not contradict it. Disagreement is inconclusive, and inconclusive is the network.

use super::{CONFIDENCE, Verdict};

/// Share of the losses that may stay uncounted before a window is mixed. With merged datagrams (GRO) the counter is
/// scaled by their number; it is to be right to 1%, the bar for mixed sizes.
pub const UNCOUNTED_SHARE_MAX: f64 = 0.01;
/// From this lag on a receiver was late: the greatest in each of 178 recorded windows of starved receivers was at least 0.40
/// (`docs/classifier.md`, the lag).
pub const LAG_MIN: f64 = 0.3;

/// What the pattern of losses says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pattern {
    /// Probability that the receiver lost all of it.
    pub p_receiver: f64,
    /// Probability that both lost some; 0 from a method that does not know of it.
    pub p_mixed: f64,
}

impl Pattern {
    /// Whether it denies that the receiver lost anything.
    pub fn denies_receiver(&self) -> bool {
        1.0 - self.p_receiver - self.p_mixed >= CONFIDENCE
    }
}

/// What is known of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Packets lost.
    pub lost: u32,
    /// What the pattern says; `None` where it was not asked.
    pub pattern: Option<Pattern>,
    /// Datagrams the receiving host counted as dropped; `None` where its counters cannot be read.
    pub host_drops: Option<u32>,
    /// Median of: how late packets before a loss were read at worst, over the time in which the socket's buffer fills.
    /// `None` where arrivals are not stamped.
    pub lag: Option<f64>,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Where the window's losses happened.
    pub verdict: Verdict,
    /// Losses that congestion control must answer for.
    pub network_lost: u32,
    /// Losses that ask for a slower or better receiver, not for a slower path.
    pub receiver_lost: u32,
}

impl Evidence {
    /// Weighs it.
    pub fn judge(&self) -> Judgement {
        let verdict = match self.host_drops {
            Some(drops) => self.with_ledger(drops),
            None => self.without_ledger(),
        };
        let receiver_lost = match (verdict, self.host_drops) {
            (Verdict::Receiver, None) => self.lost,
            (Verdict::Receiver, Some(drops)) => drops.min(self.lost),
            // A mixed window: the counted share is the receiver's, unless the pattern denies that it has any.
            (Verdict::Inconclusive, Some(drops)) if !self.is_denied() => drops.min(self.lost),
            _ => 0,
        };
        Judgement { verdict, network_lost: self.lost - receiver_lost, receiver_lost }
    }

    /// Whether the receiver claims losses that look like the network's.
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

    /// Whether the pattern says that the network lost some of it.
    fn is_network(&self) -> bool {
        self.pattern.map(|pattern| Verdict::from_probability(pattern.p_receiver)) == Some(Verdict::Network)
    }

    /// The receiver read without delay right up to the losses.
    fn was_prompt(&self) -> bool {
        self.lag.is_some_and(|lag| lag < LAG_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_witnesses_are_weighed() {
        use Verdict::{Inconclusive, Network, Receiver};
        // p_receiver, host drops of 1000 lost, lag; verdict, the network's share
        for (p, drops, lag, verdict, network) in [
            (Some(0.99), Some(1000), Some(0.8), Receiver, 0),
            (Some(0.99), Some(1000), None, Receiver, 0),
            (None, Some(1000), None, Receiver, 0),
            (Some(0.5), Some(995), None, Receiver, 5),
            (Some(0.99), Some(2000), None, Receiver, 0),
            // The network had its share.
            (Some(0.99), Some(950), Some(0.8), Inconclusive, 50),
            (Some(0.5), Some(400), None, Inconclusive, 600),
            // A blackout looks like a receiver, but nothing was counted, or it was not late.
            (Some(0.99), Some(0), None, Network, 1000),
            (Some(0.99), None, Some(0.01), Inconclusive, 1000),
            (Some(0.99), None, Some(0.8), Receiver, 0),
            (Some(0.99), None, None, Receiver, 0),
            // A receiver that claims losses which look like the network's is not believed.
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
    fn nothing_lost_is_nobodys() {
        let evidence = Evidence { lost: 0, pattern: None, host_drops: Some(7), lag: None };
        assert_eq!(evidence.judge().receiver_lost, 0);
    }
}
