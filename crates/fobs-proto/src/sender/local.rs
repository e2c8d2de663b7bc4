//! The local limit: the rate at which this host's own queue takes packets, as a limit beside congestion
//! control. What the host refuses never entered the path, so no controller slows down for it (protocol 5.10);
//! without a limit of its own a sender would offer the same packets again and again.

use super::Sender;
use crate::congestion::{LossCause, LossEvidence};
use crate::recovery::SentKind;
use crate::{PacketNumber, Rate, Timestamp};
use std::time::Duration;

/// Shortest time that a rate is taken over, and from cut to cut: a queue of 1000 full packets at 100 Mbit/s
/// empties in 120 ms.
const PERIOD: Duration = Duration::from_millis(100);
/// Share of what the host took to go on with: its queue empties by a tenth of a period's worth.
const CUT: f64 = 0.9;
/// Growth per period without a refusal: back at the host's rate after five, so that one period in six offers
/// too much, by 2%.
const GROWTH: f64 = 1.02;
/// Growth per period after the host took next to nothing, as one whose device went down or whose tunnel has
/// lost its other end: that shows no rate. From the lowest limit to 1 Gbit/s in 1.4 s.
const GROWTH_AFTER_STALL: f64 = 2.0;
/// The limit is lifted from this multiple of the controller's rate on.
const GONE_FROM: f64 = 2.0;
/// Lowest limit: one full packet in two periods keeps the feedback alive.
const LOWEST: Rate = Rate::bytes_per_second(10_000);

/// Why the local host refused a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its size.
    Size,
    /// Its queue or memory is full, or so it says: a device whose other end takes less says the same of what
    /// is too large for that.
    Room,
}

/// The limit.
#[derive(Debug)]
pub(super) struct LocalLimit {
    limit: Option<Rate>,
    began: Timestamp,
    /// Datagram bytes that left in this period, less those refused.
    taken: u64,
    /// The rate of the period before.
    before: Option<Rate>,
    refused: bool,
    cut: Option<Timestamp>,
    advance: Advance,
}

/// How the limit grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advance {
    /// About the rate that the host takes.
    Probing,
    /// The last cut found next to nothing taken: to a rate that is not known.
    Seeking,
}

impl LocalLimit {
    pub(super) fn new(now: Timestamp) -> LocalLimit {
        LocalLimit {
            limit: None,
            began: now,
            taken: 0,
            before: None,
            refused: false,
            cut: None,
            advance: Advance::Probing,
        }
    }

    pub(super) fn rate(&self) -> Option<Rate> {
        self.limit
    }

    /// A burst is handed to the host; `wanted` is the controller's rate.
    pub(super) fn on_sent(&mut self, now: Timestamp, bytes: u64, wanted: Option<Rate>) {
        let passed = now - self.began;
        if passed >= PERIOD {
            self.before = Rate::of(self.taken, passed);
            if !self.refused {
                self.grow(wanted);
            }
            (self.began, self.taken, self.refused) = (now, 0, false);
        }
        self.taken = self.taken.saturating_add(bytes);
    }

    /// The host refused bytes of a burst just handed to it.
    pub(super) fn on_refused(&mut self, now: Timestamp, bytes: u64) {
        self.taken = self.taken.saturating_sub(bytes);
        self.refused = true;
        if self.cut.is_some_and(|at| now - at < PERIOD) {
            return;
        }
        // A period that has just begun shows less than the one before; the first one shows too much, because
        // what it filled the queue with counts, and the next cut corrects it.
        let passed = now - self.began;
        let present = || Rate::of(self.taken, passed.max(PERIOD / 2));
        let taken = if passed < PERIOD / 2 { self.before.or_else(present) } else { present() };
        let Some(taken) = taken else { return };
        let least = taken.scaled(CUT).max(LOWEST);
        self.advance = if least == LOWEST { Advance::Seeking } else { Advance::Probing };
        self.limit = Some(self.limit.map_or(least, |limit| limit.min(least)));
        self.cut = Some(now);
    }

    fn grow(&mut self, wanted: Option<Rate>) {
        let Some(limit) = self.limit else { return };
        let grown = limit.scaled(match self.advance {
            Advance::Probing => GROWTH,
            Advance::Seeking => GROWTH_AFTER_STALL,
        });
        let gone = wanted.is_some_and(|wanted| grown >= wanted.scaled(GONE_FROM));
        self.limit = (!gone).then_some(grown);
    }
}

impl Sender {
    /// The lower of the rates that the receiving host and this one take.
    pub(super) fn host_rate(&self) -> Option<Rate> {
        [self.attribution.drain_rate(), self.local.rate()].into_iter().flatten().min()
    }

    /// The local host refused to send this packet.
    pub fn handle_refused(&mut self, now: Timestamp, number: PacketNumber, why: Refusal) {
        let Some(lost) = self.flight.on_refused(now, number, why) else { return };
        let (len, plpmtu) = (lost.sent.len, &self.flight.plpmtu);
        let is_large = plpmtu.next_lower().is_some_and(|lower| len > lower);
        match why {
            // Of a size that was given up by the packet before.
            Refusal::Size if len > plpmtu.datagram() => {}
            Refusal::Size if is_large => drop(self.give_up_size(now)),
            Refusal::Room if is_large => {
                self.probe_timeout.on_large_refused(now);
                self.local.on_refused(now, u64::from(len));
            }
            Refusal::Size | Refusal::Room => self.local.on_refused(now, u64::from(len)),
        }
        self.refused |= matches!(lost.sent.kind, SentKind::Data { .. });
        self.report_losses(now, &[lost], LossEvidence::Acks, LossCause::LocalSend);
    }

    /// Packets of the present size no longer pass: whether there is a smaller one, in which what is open is
    /// sent anew.
    pub(super) fn give_up_size(&mut self, now: Timestamp) -> bool {
        let falls = self.flight.plpmtu.on_black_hole(now);
        if falls {
            self.flight.start_over_large();
            if !self.large_arrived {
                self.controller.begin_again();
            }
            // What the host refused for its size says nothing of its queue.
            self.local = LocalLimit::new(now);
        }
        falls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 125_000;

    /// A host whose queue takes `host` bytes a second, offered what the limit admits of `wanted`, for 10 s:
    /// bytes refused over bytes taken in the last 5 s, and the share of the host's rate that was used.
    fn offered(wanted: u64, host: u64) -> (f64, f64) {
        let step = Duration::from_millis(1);
        let (mut now, mut limit) = (Timestamp::ZERO, LocalLimit::new(Timestamp::ZERO));
        let (mut queue, mut taken, mut refused) = (0u64, 0u64, 0u64);
        for ms in 0..10_000 {
            now = now + step;
            queue = queue.saturating_sub(host / 1000);
            let rate = limit.rate().map_or(wanted, |rate| rate.as_bytes().min(wanted));
            let bytes = rate / 1000;
            limit.on_sent(now, bytes, Some(Rate::bytes_per_second(wanted)));
            let fits = bytes.min(1_500_000 - queue.min(1_500_000));
            queue += fits;
            if fits < bytes {
                limit.on_refused(now, bytes - fits);
            }
            if ms >= 5000 {
                taken += fits;
                refused += bytes - fits;
            }
        }
        (refused as f64 / taken as f64, taken as f64 / (host * 5) as f64)
    }

    #[test]
    fn a_host_that_refuses_is_offered_what_it_takes() {
        let (refused, used) = offered(1000 * MBIT, 100 * MBIT);
        assert!(refused < 0.02 && used > 0.97, "{refused} refused, {used} used");
    }

    #[test]
    fn a_host_that_took_nothing_for_a_while_is_soon_offered_all_again() {
        let (ms, wanted) = (Duration::from_millis(1), 1000 * MBIT);
        let (mut now, mut limit) = (Timestamp::ZERO, LocalLimit::new(Timestamp::ZERO));
        // Since when it takes packets again, and when the limit was gone.
        let (stalls, mut gone) = (500..3500, None);
        for at in 0..7000 {
            now = now + ms;
            let bytes = limit.rate().map_or(wanted, |rate| rate.as_bytes().min(wanted)) / 1000;
            limit.on_sent(now, bytes, Some(Rate::bytes_per_second(wanted)));
            if stalls.contains(&at) {
                limit.on_refused(now, bytes);
                assert!(at < 1000 || limit.rate() == Some(LOWEST), "{:?} after {at} ms", limit.rate());
            } else if at > 500 && limit.rate().is_none() && gone.is_none() {
                gone = Some(at - stalls.end);
            }
        }
        assert!(gone.is_some_and(|after| after <= 2000), "{gone:?} ms until nothing limits it");
    }

    #[test]
    fn a_host_that_takes_everything_sets_no_limit() {
        assert_eq!(offered(90 * MBIT, 100 * MBIT).0, 0.0);
    }
}
