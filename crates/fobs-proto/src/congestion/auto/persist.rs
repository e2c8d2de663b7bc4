//! Beside flows that do not answer losses, as BBR version 1 does not (Cardwell and others 2016, draft-cardwell-iccrg-bbr-congestion-control-00):
//! whoever answers them there is left with nothing. It does as they do: sends the most that was delivered lately and now and
//! then tries more. It tries less than BBR's quarter more, and keeps less on its way: two flows of BBR on a queue of one
//! bandwidth-delay product lose a fifth of what they send (measured in the simulator).

use super::super::AckSample;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Gains of a cycle, a round trip each: the draft's section 4.3.4.2, gentler.
const CYCLE: [f64; 8] = [1.1, 0.95, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Round trips for which a delivery counts (section 4.1.1.3): more than a cycle.
const ROUNDS: usize = 10;
/// Window over what the rate needs: room for acks that come late and together.
const WINDOW_GAIN: f64 = 1.25;

/// The law.
#[derive(Debug)]
pub(super) struct Persist {
    /// The most that was delivered in each of the last round trips; the first is the present one.
    rounds: [Rate; ROUNDS],
    phase: usize,
    since: Timestamp,
}

impl Persist {
    /// Begins with a rate that is taken for granted for as long as a delivery counts.
    pub(super) fn new(now: Timestamp, rate: Rate) -> Persist {
        Persist { rounds: [rate; ROUNDS], phase: 2, since: now }
    }

    /// Takes an ack and what is delivered.
    pub(super) fn on_ack(&mut self, ack: &AckSample, delivered: Rate) {
        if ack.round_start {
            self.rounds.rotate_right(1);
            self.rounds[0] = Rate::ZERO;
        }
        if !ack.app_limited || delivered > self.bandwidth() {
            self.rounds[0] = self.rounds[0].max(delivered);
        }
        if ack.now - self.since >= ack.latest_rtt {
            self.phase = (self.phase + 1) % CYCLE.len();
            self.since = ack.now;
        }
    }

    /// The most that was delivered lately.
    fn bandwidth(&self) -> Rate {
        self.rounds.iter().copied().max().unwrap_or(Rate::ZERO)
    }

    /// The rate of departures.
    pub(super) fn pacing(&self) -> Rate {
        self.bandwidth().scaled(CYCLE[self.phase])
    }

    /// The window, bytes, for a round trip of so long.
    pub(super) fn window(&self, rtt: Duration) -> u64 {
        (self.bandwidth().bytes_in(rtt) as f64 * WINDOW_GAIN) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::Acks;
    use super::*;

    #[test]
    fn it_holds_what_was_delivered_and_forgets_it_after_ten_rounds() {
        let (mut acks, slow) = (Acks::new(Duration::from_millis(40)), Rate::bits_per_second(10_000_000));
        let fast = Rate::bits_per_second(30_000_000);
        let mut law = Persist::new(acks.now(), fast);
        for _ in 0..ROUNDS - 1 {
            law.on_ack(&acks.round(1), slow);
            assert!(law.pacing() >= fast.scaled(0.94), "{}", law.pacing());
        }
        law.on_ack(&acks.round(1), slow);
        assert!(law.pacing() <= slow.scaled(1.11), "{}", law.pacing());
    }
}
