//! A paced TCP-like window, shared by the window-based controllers. How it grows in congestion avoidance
//! and how far it falls is up to them.

use super::rate::bounded;
use super::slow_start::{HyStart, SlowStart};
use super::{AckSample, EcnMark, FoundLosses, LossEpisode, LossEvidence};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// RFC 6928 and RFC 9002 section 7.2.
const INITIAL_PACKETS: f64 = 10.0;
/// RFC 9002 section 7.2.
const MIN_PACKETS: f64 = 2.0;
/// Four times what can be in flight (`recovery::in_flight`): bounds growth on a path that never loses.
const MAX_PACKETS: f64 = 1_048_576.0;
/// Pacing over window per round trip: RFC 9002 section 7.7 for avoidance; in slow start the window doubles
/// in a round trip.
const AVOIDANCE_GAIN: f64 = 1.25;
const SLOW_START_GAIN: f64 = 2.0;
/// The first flight is paced over this time, before any round trip is known.
const FIRST_FLIGHT: Duration = Duration::from_millis(10);

/// How to respond to a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Part of an episode that was answered already, or not caused by the path.
    None,
    /// A congestion event (RFC 9002 section 7.3.2).
    Reduce,
    /// No feedback: begin anew (RFC 9002 section 7.6).
    Collapse,
}

/// The window, in packets so that the published formulas apply as they stand.
#[derive(Debug)]
pub(super) struct Window {
    packets: f64,
    ssthresh: f64,
    packet_len: u64,
    smoothed_rtt: Duration,
    slow_start: HyStart,
    /// When the last congestion event was answered; packets sent earlier are part of it.
    recovery_began: Option<Timestamp>,
    /// What the last congestion event reduced, as long as its losses may turn out to be none.
    before: Option<Before>,
}

/// The window before a reduction (RFC 9438 section 4.9.1).
#[derive(Debug, Clone, Copy)]
struct Before {
    packets: f64,
    ssthresh: f64,
    /// Losses of the event that have not arrived after all.
    lost: u64,
}

impl Window {
    pub(super) fn new(packet_len: u16) -> Window {
        Window {
            packets: INITIAL_PACKETS,
            ssthresh: MAX_PACKETS,
            packet_len: u64::from(packet_len).max(1200),
            smoothed_rtt: Duration::ZERO,
            slow_start: HyStart::new(),
            recovery_began: None,
            before: None,
        }
    }

    /// Takes an ack, and grows in slow start. Returns the packets that congestion avoidance accounts for:
    /// none in slow start, during recovery, or while the window is not the limit.
    pub(super) fn on_ack(&mut self, ack: &AckSample) -> f64 {
        let len = u64::from(ack.packet_len).max(1200);
        // Bytes, not packets, are what the path was found to carry.
        let larger = len as f64 / self.packet_len as f64;
        (self.packets, self.ssthresh) = ((self.packets / larger).max(MIN_PACKETS), self.ssthresh / larger);
        self.packet_len = len;
        self.smoothed_rtt = ack.smoothed_rtt;
        let recovering = self.recovery_began.is_some_and(|at| ack.now.saturating_sub(ack.latest_rtt) <= at);
        // Linux's rule of slow start: at least half of the window is in use.
        let used = 2 * ack.bytes_in_flight.saturating_add(ack.acked_bytes) as u128 >= self.bytes() as u128;
        if recovering || !used {
            return 0.0;
        }
        let acked = ack.acked_packets as f64;
        if !self.in_slow_start() {
            return acked;
        }
        match self.slow_start.on_ack(ack) {
            SlowStart::Grow(factor) => self.set(self.packets + factor * acked),
            SlowStart::Over => self.ssthresh = self.packets,
        }
        0.0
    }

    /// How to respond to a loss; each congestion event counts once.
    pub(super) fn on_loss(&mut self, loss: &LossEpisode) -> Reaction {
        if loss.cause.spares_rate() {
            return Reaction::None;
        }
        if self.recovery_began.is_some_and(|at| loss.sent.1 <= at) {
            if let Some(before) = &mut self.before {
                before.lost = before.lost.saturating_add(loss.packets);
            }
            return Reaction::None;
        }
        self.recovery_began = Some(loss.now);
        self.before = Some(Before { packets: self.packets, ssthresh: self.ssthresh, lost: loss.packets });
        match loss.evidence {
            LossEvidence::Acks => Reaction::Reduce,
            LossEvidence::Silence => Reaction::Collapse,
        }
    }

    /// Packets declared lost have arrived. Whether that was all of the last congestion event, so that there
    /// was none: the window is what it was before (RFC 9438 section 4.9.2).
    pub(super) fn on_found(&mut self, found: &FoundLosses) -> bool {
        let Some(before) = &mut self.before else { return false };
        before.lost = before.lost.saturating_sub(found.packets);
        if before.lost > 0 {
            return false;
        }
        self.packets = self.packets.max(before.packets);
        self.ssthresh = self.ssthresh.max(before.ssthresh);
        (self.recovery_began, self.before) = (None, None);
        true
    }

    /// Whether a mark is a congestion event: at most once a round trip (RFC 9002 section 7.3.2).
    pub(super) fn on_ecn(&mut self, mark: &EcnMark) -> bool {
        let news = self.recovery_began.is_none_or(|at| mark.now - at > self.smoothed_rtt);
        if news {
            self.recovery_began = Some(mark.now);
            // A mark is certain.
            self.before = None;
        }
        news
    }

    /// Falls to `packets` and goes on in congestion avoidance.
    pub(super) fn reduce(&mut self, packets: f64) {
        self.set(packets);
        self.ssthresh = self.packets;
    }

    /// Falls to the least and comes back in slow start up to `ssthresh` packets.
    pub(super) fn collapse(&mut self, ssthresh: f64) {
        self.set(0.0);
        self.ssthresh = ssthresh.max(MIN_PACKETS);
        self.slow_start = HyStart::new();
    }

    /// Sets the window; congestion avoidance stays congestion avoidance.
    pub(super) fn set(&mut self, packets: f64) {
        let avoids = !self.in_slow_start();
        self.packets = if packets.is_nan() { MIN_PACKETS } else { packets.clamp(MIN_PACKETS, MAX_PACKETS) };
        if avoids {
            self.ssthresh = self.ssthresh.min(self.packets);
        }
    }

    pub(super) fn packets(&self) -> f64 {
        self.packets
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.packets < self.ssthresh
    }

    /// The window, bytes.
    pub(super) fn bytes(&self) -> u64 {
        (self.packets * self.packet_len as f64) as u64
    }

    /// The rate that spreads the window over the round trip, with room for ack delay.
    pub(super) fn pacing_rate(&self) -> Rate {
        let gain = if self.in_slow_start() { SLOW_START_GAIN } else { AVOIDANCE_GAIN };
        let over = if self.smoothed_rtt.is_zero() { FIRST_FLIGHT } else { self.smoothed_rtt };
        Rate::of(self.bytes(), over).map_or(bounded(0.0), |rate| bounded(rate.as_bytes() as f64 * gain))
    }

    /// The state in one word.
    pub(super) fn state(&self) -> &'static str {
        if self.in_slow_start() { "slow start" } else { "avoidance" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Acks, PACKET};
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    #[test]
    fn slow_start_doubles_and_avoidance_gets_the_acked_packets() {
        let mut window = Window::new(PACKET);
        let mut acks = Acks::new(RTT);
        for round in 1..=6 {
            assert_eq!(window.on_ack(&acks.round(window.bytes())), 0.0);
            assert_eq!(window.packets(), 10.0 * f64::from(1 << round));
        }
        assert_eq!(window.on_loss(&acks.loss()), Reaction::Reduce);
        window.reduce(320.0);
        assert_eq!(window.on_ack(&acks.round(window.bytes())), 0.0, "still what left before the loss");
        assert_eq!(window.on_ack(&acks.round(window.bytes())), 320.0);
        let rate = window.pacing_rate().as_bytes() as f64;
        let window_per_rtt = window.bytes() as f64 / RTT.as_secs_f64();
        assert!((rate / window_per_rtt - AVOIDANCE_GAIN).abs() < 1e-6);
    }

    #[test]
    fn losses_of_one_round_trip_are_one_event() {
        let mut window = Window::new(PACKET);
        let mut acks = Acks::new(RTT);
        let first = acks.loss();
        acks.round(0);
        assert_eq!(window.on_loss(&LossEpisode { now: acks.now(), ..first }), Reaction::Reduce);
        assert_eq!(window.on_loss(&LossEpisode { now: acks.now(), ..first }), Reaction::None);
        let mark = EcnMark { now: acks.now(), packets: 1 };
        assert!(!window.on_ecn(&mark), "the mark is of the same event");
        acks.round(0);
        assert_eq!(window.on_loss(&acks.loss()), Reaction::Reduce);
        acks.round(0);
        let silence = LossEpisode { evidence: LossEvidence::Silence, ..acks.loss() };
        assert_eq!(window.on_loss(&silence), Reaction::Collapse);
    }

    #[test]
    fn a_reduction_is_undone_once_all_its_losses_arrive() {
        let (mut window, acks) = (Window::new(PACKET), Acks::new(RTT));
        let before = window.packets();
        let first = acks.losses(3);
        assert_eq!(window.on_loss(&first), Reaction::Reduce);
        window.reduce(before / 2.0);
        assert_eq!(window.on_loss(&first), Reaction::None);
        let found = FoundLosses { now: acks.now(), packets: 5 };
        assert!(!window.on_found(&found), "one is still missing");
        assert!(window.on_found(&FoundLosses { packets: 1, ..found }));
        assert_eq!(window.packets(), before);
        assert!(window.in_slow_start());
        assert!(!window.on_found(&found), "there is nothing to undo");
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut window = Window::new(PACKET);
        let mut acks = Acks::new(RTT);
        let ack = AckSample { bytes_in_flight: 0, ..acks.round(u64::from(PACKET)) };
        assert_eq!(window.on_ack(&ack), 0.0);
        assert_eq!(window.packets(), INITIAL_PACKETS);
    }

    #[test]
    fn larger_packets_leave_the_bytes_as_they_are() {
        let mut window = Window::new(1200);
        let mut acks = Acks::new(RTT);
        let before = window.bytes();
        let ack = AckSample { acked_packets: 0, bytes_in_flight: before, ..acks.round(0) };
        window.on_ack(&ack);
        assert!(window.bytes().abs_diff(before) <= 1);
    }
}
