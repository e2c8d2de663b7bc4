//! The law beside flows that do not back off at losses, as BBR version 1 does not (Cardwell and others
//! 2016, draft-cardwell-iccrg-bbr-congestion-control-00); a flow that backs off there starves. It sends the
//! most that was delivered lately and now and then probes for more, less than BBR's quarter and with fewer
//! bytes in flight: two BBR flows on a queue of one bandwidth-delay product lose a fifth of what they send
//! (measured in the simulator).

use super::super::AckSample;
use super::params::{PERSIST_CYCLE, PERSIST_ROUNDS as ROUNDS, Params};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// The law.
#[derive(Debug)]
pub(crate) struct Persist {
    /// The most that was delivered in each of the last round trips; the first is the present one.
    rounds: [Rate; ROUNDS],
    /// Gains of a cycle, and the window over what the rate needs.
    gains: [f64; PERSIST_CYCLE],
    window_gain: f64,
    phase: usize,
    since: Timestamp,
}

impl Persist {
    /// Begins with a rate that is taken for granted for as long as a delivery counts.
    pub(crate) fn new(now: Timestamp, rate: Rate, p: &Params) -> Persist {
        let (gains, window_gain) = (p.persist_cycle(), p.margin);
        Persist { rounds: [rate; ROUNDS], gains, window_gain, phase: 2, since: now }
    }

    /// Takes an ack and what is delivered.
    pub(crate) fn on_ack(&mut self, ack: &AckSample, delivered: Rate) {
        if ack.round_start {
            self.rounds.rotate_right(1);
            self.rounds[0] = Rate::ZERO;
        }
        if !ack.app_limited || delivered > self.bandwidth() {
            self.rounds[0] = self.rounds[0].max(delivered);
        }
        if ack.now - self.since >= ack.latest_rtt {
            self.phase = (self.phase + 1) % PERSIST_CYCLE;
            self.since = ack.now;
        }
    }

    /// The most that was delivered lately.
    fn bandwidth(&self) -> Rate {
        self.rounds.iter().copied().max().unwrap_or(Rate::ZERO)
    }

    /// The rate of departures.
    pub(crate) fn pacing(&self) -> Rate {
        self.bandwidth().scaled(self.gains[self.phase])
    }

    /// The window for a round trip of `rtt`, bytes.
    pub(crate) fn window(&self, rtt: Duration) -> u64 {
        (self.bandwidth().bytes_in(rtt) as f64 * self.window_gain) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::Acks;
    use super::*;

    #[test]
    fn a_delivery_rate_counts_for_ten_round_trips() {
        let (mut acks, slow) = (Acks::new(Duration::from_millis(40)), Rate::bits_per_second(10_000_000));
        let fast = Rate::bits_per_second(30_000_000);
        let mut law = Persist::new(acks.now(), fast, &Params::default());
        for _ in 0..ROUNDS - 1 {
            law.on_ack(&acks.round(1), slow);
            assert!(law.pacing() >= fast.scaled(0.94), "{}", law.pacing());
        }
        law.on_ack(&acks.round(1), slow);
        assert!(law.pacing() <= slow.scaled(1.11), "{}", law.pacing());
    }
}
