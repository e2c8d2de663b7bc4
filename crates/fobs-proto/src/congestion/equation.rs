//! Equation-based control (RFC 5348 section 4): a response function maps the loss-event rate to
//! the window of one round trip. TFRC and HSTFRC differ in the function and in how they send that window.

use super::loss_history::LossHistory;
use super::rate::bounded;
use super::response::loss_for;
use super::{AckSample, FoundLosses, LossEpisode, LossEvidence};
use crate::Rate;
use std::time::Duration;

/// RFC 5348 section 4.2: the first window, packets of at most 1460 bytes.
const INITIAL_PACKETS: f64 = 4.0;
/// The round trip assumed before the first sample.
const FIRST_RTT: Duration = Duration::from_millis(100);
/// RFC 5348 section 4.3: at most twice the receive rate.
const RECEIVE_LIMIT: f64 = 2.0;
/// Round trips over which the receive rate's maximum is taken (RFC 5348 section 4.3 keeps two reports).
const RECEIVE_ROUNDS: usize = 2;

/// Window in packets from the window before and the loss-event rate.
pub(super) type Response = fn(f64, f64) -> f64;

/// The sender's side of RFC 5348.
#[derive(Debug)]
pub(super) struct Equation {
    response: Response,
    history: LossHistory,
    packet_len: f64,
    rtt: Duration,
    /// Packets in a round trip.
    window: f64,
    /// Largest receive rate of the present round trip and of the ones before.
    received: [Rate; RECEIVE_ROUNDS],
    slow_start: bool,
}

impl Equation {
    pub(super) fn new(packet_len: u16, response: Response) -> Equation {
        Equation {
            response,
            history: LossHistory::default(),
            packet_len: f64::from(packet_len.max(1200)),
            rtt: FIRST_RTT,
            window: INITIAL_PACKETS,
            received: [Rate::ZERO; RECEIVE_ROUNDS],
            slow_start: true,
        }
    }

    /// Takes an ack, which may lower the loss-event rate.
    pub(super) fn on_ack(&mut self, ack: &AckSample) {
        self.packet_len = f64::from(ack.packet_len.max(1200));
        self.rtt = ack.smoothed_rtt.max(Duration::from_micros(1));
        self.history.on_packets(ack.acked_packets);
        if let Some(sample) = ack.rate {
            self.received[0] = self.received[0].max(sample.rate);
        }
        if self.slow_start {
            if ack.round_start && !ack.app_limited {
                self.window = (2.0 * self.window).min(self.receive_limit()).max(INITIAL_PACKETS);
            }
        } else {
            self.follow();
        }
        if ack.round_start {
            self.received.rotate_right(1);
            self.received[0] = ack.rate.map_or(Rate::ZERO, |sample| sample.rate);
        }
    }

    /// Takes a loss; true if it began an event.
    pub(super) fn on_loss(&mut self, loss: &LossEpisode) -> bool {
        if loss.cause.spares_rate() {
            return false;
        }
        let event = self.history.on_loss(loss, self.rtt);
        self.history.on_packets(loss.packets);
        if event {
            if self.slow_start {
                // RFC 5348 section 6.3.1: the first interval is the one that gives the receive rate.
                self.slow_start = false;
                let arrived = self.receive_limit() / RECEIVE_LIMIT;
                let target = if arrived > 0.0 { arrived.min(self.window) } else { self.window / 2.0 };
                self.window = target;
                let response = self.response;
                self.history.set_first_interval(1.0 / loss_for(target, |p| response(target, p)));
            }
            self.follow();
        }
        if loss.evidence == LossEvidence::Silence {
            // RFC 5348 section 4.4: without feedback the receive rate is halved, and with it the limit.
            self.received = self.received.map(|rate| rate.scaled(0.5));
            self.window = (self.window / 2.0).max(1.0);
        }
        event
    }

    /// Packets declared lost have arrived.
    pub(super) fn on_found(&mut self, found: &FoundLosses) {
        self.history.on_found(found);
    }

    fn follow(&mut self) {
        let allowed = (self.response)(self.window, self.history.event_rate());
        let limit = self.receive_limit();
        self.window = if limit > 0.0 { allowed.min(limit) } else { allowed };
    }

    /// Twice the receive rate, packets in a round trip; 0 while unknown.
    fn receive_limit(&self) -> f64 {
        let best = self.received.iter().max().map_or(0, |rate| rate.as_bytes());
        RECEIVE_LIMIT * best as f64 * self.rtt.as_secs_f64() / self.packet_len
    }

    /// Datagram bytes of a packet.
    pub(super) fn packet_len(&self) -> u64 {
        self.packet_len as u64
    }

    /// The window in bytes.
    pub(super) fn window_bytes(&self) -> u64 {
        (self.window * self.packet_len) as u64
    }

    /// The same as a rate.
    pub(super) fn rate(&self) -> Rate {
        bounded(self.window * self.packet_len / self.rtt.as_secs_f64())
    }

    /// Rate of loss events.
    pub(super) fn event_rate(&self) -> f64 {
        self.history.event_rate()
    }

    /// The state in one word.
    pub(super) fn state(&self) -> &'static str {
        if self.slow_start { "slow start" } else { "equation" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::response::tfrc_window;
    use super::super::testing::{Acks, PACKET};
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn equation() -> Equation {
        Equation::new(PACKET, |_, p| tfrc_window(p))
    }

    /// Rounds in which everything sent arrives.
    fn rounds(equation: &mut Equation, acks: &mut Acks, count: u32) {
        for _ in 0..count {
            equation.on_ack(&acks.round(equation.window_bytes()));
        }
    }

    #[test]
    fn slow_start_doubles_and_the_first_loss_keeps_what_arrived() {
        let (mut equation, mut acks) = (equation(), Acks::new(RTT));
        rounds(&mut equation, &mut acks, 8);
        let window = equation.window;
        assert!(window >= 4.0 * 128.0, "{window}");
        assert!(equation.on_loss(&acks.loss()));
        assert_eq!(equation.state(), "equation");
        assert!((equation.window / window - 0.5).abs() < 0.01, "{} of {window}", equation.window);
    }

    #[test]
    fn it_never_sends_twice_what_arrives() {
        let (mut equation, mut acks) = (equation(), Acks::new(RTT));
        let link = Rate::bits_per_second(10_000_000);
        for _ in 0..20 {
            let arrives = equation.rate().min(link);
            equation.on_ack(&acks.next(RTT, arrives));
        }
        assert!(equation.rate() <= link.scaled(2.01), "{}", equation.rate());
    }

    #[test]
    fn the_window_is_the_response_to_the_mean_interval() {
        let (mut equation, mut acks) = (equation(), Acks::new(RTT));
        rounds(&mut equation, &mut acks, 8);
        // One event in 400 packets, until the slow start is forgotten.
        for _ in 0..40 {
            equation.on_loss(&acks.loss());
            for _ in 0..4 {
                let ack = acks.round(100 * u64::from(PACKET));
                equation.on_ack(&ack);
            }
        }
        let (got, expected) = (equation.window, tfrc_window(1.0 / 401.0));
        assert!((got / expected - 1.0).abs() < 0.01, "{got} for {expected}");
    }
}
