//! Acks and losses for the unit tests of controllers. The path has one constant round trip by default.

use super::{AckSample, LossCause, LossEpisode, LossEvidence, Outcome};
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Datagram bytes of the tests' packets.
pub(super) const PACKET: u16 = 1472;

/// Makes acks in order of time.
#[derive(Debug)]
pub(super) struct Acks {
    now: Timestamp,
    pub(super) rtt: Duration,
    pub(super) base_rtt: Duration,
    round_began: Timestamp,
    /// Bytes of the packet that has not arrived whole.
    rest: u64,
}

impl Acks {
    pub(super) fn new(rtt: Duration) -> Acks {
        // Not at zero: so that "never" and "at the beginning" differ.
        let now = Timestamp::from_nanos(1);
        Acks { now, rtt, base_rtt: rtt, round_began: now, rest: 0 }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// An ack `after` the last one, of what `arriving` brought meanwhile.
    pub(super) fn next(&mut self, after: Duration, arriving: Rate) -> AckSample {
        self.ack(after, arriving.bytes_in(after), arriving)
    }

    /// An ack of a whole window, one round trip after the last.
    pub(super) fn round(&mut self, window: u64) -> AckSample {
        let rate = Rate::of(window, self.rtt).expect("a round trip");
        self.ack(self.rtt, window, rate)
    }

    fn ack(&mut self, after: Duration, bytes: u64, rate: Rate) -> AckSample {
        self.now = self.now + after;
        let round_start = self.now - self.round_began >= self.rtt;
        if round_start {
            self.round_began = self.now;
        }
        let (before, len) = (self.rest, u64::from(PACKET));
        self.rest = (before + bytes) % len;
        AckSample {
            now: self.now,
            acked_bytes: bytes,
            acked_packets: (before + bytes) / len,
            packet_len: PACKET,
            bytes_in_flight: rate.bytes_in(self.rtt),
            latest_rtt: self.rtt,
            one_way: self.rtt,
            smoothed_rtt: self.rtt,
            min_rtt: self.base_rtt,
            rate: Some(RateSample { rate, span: Duration::from_millis(10), packets: 64 }),
            app_limited: false,
            round_start,
        }
    }

    /// One packet sent just now is lost.
    pub(super) fn loss(&self) -> LossEpisode {
        self.losses(1)
    }

    /// This number of packets sent just now are lost.
    pub(super) fn losses(&self, packets: u64) -> LossEpisode {
        LossEpisode {
            now: self.now,
            packets,
            bytes: packets * u64::from(PACKET),
            bytes_in_flight: 0,
            sent: (self.now, self.now),
            evidence: LossEvidence::Acks,
            cause: LossCause::Inconclusive,
        }
    }

    /// A block or chunk of 10,000 transmissions that began `before` now and lost this share.
    pub(super) fn outcome(&self, before: Duration, loss: f64) -> Outcome {
        let began = self.now.saturating_sub(before);
        Outcome { now: self.now, began, packets: 10_000, lost: (loss * 1e4) as u32 }
    }
}
