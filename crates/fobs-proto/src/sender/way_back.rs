//! The way back: acks that wait for each other there are asked for less often (protocol 5.13).
//!
//! Acks may need more than a narrow way back carries. They then wait in its queue, the transfer with them,
//! and the last answers behind all of them. TCP halves the number of its acks for the same reason (RFC 5690).

use super::Sender;
use crate::receiver::ACK_EVERY;
use crate::recovery::Rtt;
use crate::wire::{Ack, AckRatio};
use crate::{PacketNumber, Timestamp};
use std::time::Duration;

/// A queue of acks shorter than this is left alone: twice the time that an ack may wait for packets.
const QUEUE_MIN: Duration = Duration::from_millis(10);
/// And one shorter than this share of the shortest round trip: the transfer does not feel it.
const QUEUE_SHARE: u32 = 4;
/// Acks that a measurement needs: stamps and batches of the hosts move single ones.
const ACKS_MEASURED: u32 = 5;
/// Most that acks shall take of the way back: the queue empties, and the last answers have room.
const LOAD: f64 = 0.5;
/// Acks that come faster than this beside how they left show a queue that empties by itself.
const EMPTIES: f64 = 0.9;
/// Acks are at most a round trip divided by this apart, so that a window has some.
const ACKS_PER_ROUND: u32 = 2;
/// Round trips after which a request without an answer is made again.
const ROUNDS_UNANSWERED: u32 = 2;
/// Time without a queue after which more acks are tried, and round trips if they are longer: a try that
/// fails costs a queue of some round trips.
const CALM: (Duration, u32) = (Duration::from_secs(10), 30);
/// Acks per window from which it flows evenly: it then needs no room for packets whose report is held
/// back.
const ACKS_PER_WINDOW: u64 = 4;
/// The least delay is that of the last one to two of these times: clocks drift apart by 50 us a second. As
/// long a longer route looks like a queue, and acks are rarer than they need be.
const LEAST_SPAN: Duration = Duration::from_secs(15);

/// Whether the receiver knows what is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Known,
    Due,
    /// With this packet; to be asked again from this time on.
    Sent(PacketNumber, Timestamp),
}

/// Acks in a row.
#[derive(Debug, Clone, Copy)]
struct Span {
    acks: u32,
    /// When the first one left by the receiver's clock, microseconds, and when it came.
    first: (u64, Timestamp),
    /// The same of the last one.
    last: (u64, Timestamp),
    /// The shortest time on the way, by two clocks.
    least_us: i64,
}

impl Span {
    /// Time from the departure of the first to that of the last.
    fn leaving(&self) -> Duration {
        Duration::from_micros(self.last.0.saturating_sub(self.first.0))
    }

    /// How much slower they came than they left.
    fn slower(&self) -> f64 {
        self.coming().as_secs_f64() / self.leaving().as_secs_f64()
    }

    /// Time from the arrival of the first to that of the last.
    fn coming(&self) -> Duration {
        self.last.1 - self.first.1
    }
}

/// What the way back does to acks.
#[derive(Debug)]
pub(super) struct WayBack {
    /// Longest time that an ack waits where they are as often as usual.
    usual: Duration,
    ratio: AckRatio,
    /// The ratio before, as long as the receiver may still follow that.
    before: AckRatio,
    asking: Asking,
    span: Option<Span>,
    /// Shortest times on the way, of the present stretch and of the one before.
    least_us: i64,
    least_before_us: i64,
    least_began: Timestamp,
    calm_since: Timestamp,
}

impl WayBack {
    pub(super) fn new(now: Timestamp, usual: Duration) -> WayBack {
        WayBack {
            usual,
            ratio: AckRatio::USUAL,
            before: AckRatio::USUAL,
            asking: Asking::Known,
            span: None,
            least_us: i64::MAX,
            least_before_us: i64::MAX,
            least_began: now,
            calm_since: now,
        }
    }

    /// The ratio that probes ask for.
    pub(super) fn ratio(&self) -> AckRatio {
        self.ratio
    }

    /// The rarest acks that may come.
    pub(super) fn rarest(&self) -> AckRatio {
        self.ratio.max(self.before)
    }

    /// Whether a probe should leave to ask.
    pub(super) fn is_due(&self) -> bool {
        self.asking == Asking::Due
    }

    /// A probe left that asks.
    pub(super) fn on_asked(&mut self, now: Timestamp, number: PacketNumber, round_trip: Duration) {
        self.asking = Asking::Sent(number, now + ROUNDS_UNANSWERED * round_trip);
    }

    /// An ack came in a datagram and acknowledges something new.
    pub(super) fn on_ack(&mut self, now: Timestamp, ack: &Ack, rtt: &Rtt) {
        let left_us = ack.receive_time_us.wrapping_add(u64::from(ack.ack_delay_us));
        // The peer's clock may be anything: only differences of this time count.
        let took_us = now.as_micros().wrapping_sub(left_us) as i64;
        self.remember(now, took_us);
        if !self.is_known(now, ack) {
            return;
        }
        let (this, least_us) = ((left_us, now), took_us);
        let before = self.span.unwrap_or(Span { acks: 0, first: this, last: this, least_us });
        let least_us = before.least_us.min(least_us);
        let span = Span { acks: before.acks + 1, last: this, least_us, ..before };
        self.span = Some(span);
        let tolerated = rtt.min_ever().unwrap_or_default() / QUEUE_SHARE;
        if span.acks >= ACKS_MEASURED && span.leaving() >= tolerated.max(Duration::from_micros(1)) {
            self.span = None;
            if self.queue(span.least_us) > tolerated.max(QUEUE_MIN) {
                self.on_queue(now, &span, rtt.smoothed());
            } else {
                self.on_calm(now, rtt.smoothed());
            }
        }
    }

    /// All acks of this span waited.
    fn on_queue(&mut self, now: Timestamp, span: &Span, round_trip: Duration) {
        self.calm_since = now;
        if span.slower() > EMPTIES {
            // The way back takes this long for each.
            let service = span.coming() / (span.acks - 1);
            let wait = |n: u8| AckRatio::new(n).delay(self.usual);
            let next = self.ratio.exponent() + 1;
            let rarest = AckRatio::RAREST.exponent();
            let wanted = (next..=rarest).find(|n| wait(*n) >= service.div_f64(LOAD)).unwrap_or(rarest);
            let most = (0..=wanted).rev().find(|n| wait(*n) <= round_trip / ACKS_PER_ROUND).unwrap_or(0);
            self.ask(self.ratio.max(AckRatio::new(most)));
        }
    }

    fn on_calm(&mut self, now: Timestamp, round_trip: Duration) {
        let exponent = self.ratio.exponent();
        if exponent > 0 && now - self.calm_since >= CALM.0.max(round_trip * CALM.1) {
            self.calm_since = now;
            self.ask(AckRatio::new(exponent - 1));
        }
    }

    fn ask(&mut self, ratio: AckRatio) {
        if ratio != self.ratio {
            self.before = self.ratio;
            self.ratio = ratio;
            self.asking = Asking::Due;
        }
    }

    /// Whether the receiver made this ack and later ones by the present ratio.
    fn is_known(&mut self, now: Timestamp, ack: &Ack) -> bool {
        if let Asking::Sent(number, again) = self.asking {
            if ack.ranges.iter().any(|(low, high)| (*low..=*high).contains(&number)) {
                self.asking = Asking::Known;
                self.before = self.ratio;
            } else if now >= again {
                self.asking = Asking::Due;
            }
        }
        self.asking == Asking::Known
    }

    fn remember(&mut self, now: Timestamp, took_us: i64) {
        if now - self.least_began >= LEAST_SPAN {
            self.least_before_us = self.least_us;
            self.least_us = i64::MAX;
            self.least_began = now;
        }
        self.least_us = self.least_us.min(took_us);
    }

    fn queue(&self, took_us: i64) -> Duration {
        let least = self.least_us.min(self.least_before_us);
        Duration::from_micros(took_us.saturating_sub(least).unsigned_abs())
    }
}

impl Sender {
    /// Longest time that the receiver may hold an ack back.
    pub(super) fn ack_delay_max(&self) -> Duration {
        self.way_back.rarest().delay(self.way_back.usual)
    }

    /// Datagram bytes of the packets that one ack covers where none is due earlier (protocol 5.3).
    pub(super) fn ack_bytes(&self) -> u64 {
        u64::from(self.way_back.rarest().packets(ACK_EVERY)) * self.flight.datagram_len()
    }

    /// Most datagram bytes outstanding: the controller's window, and on a path shorter than the ack delay
    /// also the packets that have arrived and whose ack is held back. A controller's round trips, and so its
    /// window, are without that delay; the window alone would leave only once in every
    /// [`ack_delay_max`](super::SenderConfig::ack_delay_max).
    pub(super) fn window(&self) -> u64 {
        let window = self.controller.congestion_window();
        let (Some(rate), Some(round_trip)) = (self.rate.newest(), self.rtt.min()) else { return window };
        let held_back = self.ack_delay_max().saturating_sub(round_trip);
        let unreported = rate.bytes_in(held_back).min(self.ack_bytes());
        window.saturating_add(unreported.saturating_sub(window / ACKS_PER_WINDOW))
    }
}

#[cfg(test)]
mod tests;
