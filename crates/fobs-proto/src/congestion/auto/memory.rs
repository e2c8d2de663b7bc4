//! What earlier transfers learnt of the path, and the jump that rests on it.
//!
//! On a path that is remembered, and whose round trip is what it was, the train is followed at once by a
//! **jump**: until the train's first ack, half of what the path carried before. It is the unvalidated phase
//! of careful resume (RFC 9959) one round trip sooner: there a first window must be acknowledged before it;
//! here the session's set-up has shown the round trip, and the jump is no larger, half of a bandwidth-delay
//! product, paced. From the train's first ack on the start is that of any transfer.

use super::super::PathHistory;
use super::params::Params;
use crate::Rate;
use crate::recovery::RateSample;
use std::time::Duration;

/// What earlier transfers left, and what is sent on the strength of it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What the path carried, and its round trip, which today's is near. Without that nothing confirms that
    /// it is the same path: another one had its name, or a killed transfer has taken it and left nothing.
    path: Option<(Rate, Duration)>,
    /// The jump, until it is known what became of it.
    jump: Option<Jump>,
}

#[derive(Debug)]
struct Jump {
    rate: Rate,
    /// Packets of the train before it.
    train: u64,
    /// The slope over those of them that have arrived.
    slope: Option<RateSample>,
}

impl Memory {
    pub(crate) fn of(history: &PathHistory) -> Memory {
        Memory { path: history.link_rate.map(Rate::bytes_per_second).zip(history.round_trip), jump: None }
    }

    pub(crate) fn forget(&mut self) {
        *self = Memory::default();
    }

    /// The rate of the running jump.
    pub(crate) fn jump_rate(&self) -> Option<Rate> {
        self.jump.as_ref().map(|jump| jump.rate)
    }

    /// Rate and window of a jump on this path.
    pub(crate) fn jump(&self, share: f64, ceiling: Rate) -> Option<(Rate, u64)> {
        let (rate, round_trip) = self.path?;
        let rate = rate.scaled(share).min(ceiling);
        Some((rate, rate.bytes_in(round_trip)))
    }

    pub(crate) fn begin_jump(&mut self, rate: Rate, train: u64) {
        self.jump = Some(Jump { rate, train, slope: None });
    }

    pub(crate) fn end_jump(&mut self) {
        self.jump = None;
    }

    /// A train that found at least the jump's rate agrees with it.
    pub(crate) fn end_jump_below(&mut self, estimate: Rate) {
        self.jump.take_if(|jump| estimate >= jump.rate);
    }

    /// The slope over the train alone, and whether later packets have arrived too: their distances are the
    /// sender's, not the path's.
    pub(crate) fn of_train(
        &mut self,
        acked: u64,
        slope: Option<RateSample>,
        p: &Params,
    ) -> (Option<RateSample>, bool) {
        let Some(jump) = &mut self.jump else { return (slope, false) };
        if acked <= jump.train {
            jump.slope = slope.or(jump.slope);
            return (slope, false);
        }
        let enough = jump.slope.filter(|slope| slope.packets >= p.train_packets / 2);
        (enough.or(slope), true)
    }

    /// The rate to start with after a train that found `estimate`.
    pub(crate) fn start(&self, estimate: Rate, p: &Params) -> Rate {
        let (rate, found) = (self.rate(), estimate.scaled(1.0 - p.noise));
        let near = rate.scaled(1.0 / p.believed_ratio)..=rate.scaled(p.believed_ratio);
        match &self.jump {
            Some(jump) if estimate >= jump.rate && near.contains(&estimate) => rate.scaled(1.0 - p.noise),
            // A path that nothing confirms, a faster or a slower one, or a train that was distorted worse,
            // which the arrival of the jump will show.
            _ => found,
        }
    }

    /// The rate to go on with where the jump arrived as it was sent, although the train had found less.
    pub(crate) fn arrived(&self, p: &Params) -> Rate {
        self.rate().scaled(p.resume_share)
    }

    fn rate(&self) -> Rate {
        self.path.map_or(Rate::ZERO, |(rate, _)| rate)
    }
}
