//! The probe timeout (RFC 9002 section 6.2), and what its expiry allows.

use crate::Timestamp;
use std::time::Duration;

/// Packets that a probe timeout admits beyond the window (RFC 9002 section 6.2.4).
const CREDIT: u32 = 2;
/// Doublings of the probe timeout at most: 64 times.
const BACKOFF_MAX: u32 = 6;
/// Probe timeouts without acks after which one expires although packets leave all the time, as those of
/// controllers without a window do; RFC 9002 counts only from the last packet sent.
const SILENCE: u32 = 3;
/// Time from probe to probe while nothing comes back: this part of the silence so far, so that the end of an
/// outage is seen within 3% of its length and all probes of it together are some hundred.
const PROBE_PART: u32 = 32;
/// Bounds of that, unless a round trip is longer. Three packets in each of the latter are 14 kB/s.
const PROBE_EVERY: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(250));
/// Probe timeouts without an ack of any large packet (one above the size that is fallen back to) after which
/// an answer to a small one shows that only large packets vanish (RFC 8899 section 4.3). Without that answer
/// it is an outage, whatever the size.
const BLACK_HOLE_AFTER: u32 = 3;
/// Such a timeout, and large packets that the local host refuses, count once in this time: on a path of
/// less than 1 ms three timeouts are shorter than a receiver's wait for its processor (28 ms with seven
/// competitors, measured), and a queue that is full for longer takes a packet now and then.
const LARGE_SILENT_EVERY: Duration = Duration::from_millis(100);

/// The consequence of an expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Nothing is in flight: a ping is all.
    Ping,
    /// The first in a row: the oldest packet is sent again.
    Resend,
    /// Nothing comes back: everything in flight is given up.
    GiveUp,
}

/// The probe timeout's state.
#[derive(Debug)]
pub(super) struct ProbeTimeout {
    last_sent: Timestamp,
    /// Since when packets have been in flight without any ack.
    silent_since: Timestamp,
    /// When the last ack came.
    answered: Timestamp,
    expired: u32,
    credit: u32,
    ping: bool,
    /// Timeouts and refusals counted since a large packet was acknowledged, and when the last was counted.
    large_silent: u32,
    large_silent_at: Option<Timestamp>,
    /// Whether one of them was a refusal.
    refused: bool,
}

impl ProbeTimeout {
    pub(super) fn new(now: Timestamp) -> ProbeTimeout {
        // A first ping: where the source is slow, the path is still seen to work.
        ProbeTimeout {
            last_sent: now,
            silent_since: now,
            answered: now,
            expired: 0,
            credit: 0,
            ping: true,
            large_silent: 0,
            large_silent_at: None,
            refused: false,
        }
    }

    /// A burst left; `first` if nothing else is in flight.
    pub(super) fn on_sent(&mut self, now: Timestamp, first: bool) {
        self.last_sent = now;
        if first {
            self.silent_since = now;
        }
    }

    /// Something sent was acknowledged.
    pub(super) fn on_ack(&mut self, now: Timestamp) {
        self.last_sent = now;
        self.silent_since = now;
        self.answered = now;
        self.expired = 0;
        self.credit = 0;
    }

    /// The peer is somewhere else: packets may leave there without waiting for the next expiry.
    pub(super) fn on_moved(&mut self, now: Timestamp) {
        self.on_ack(now);
        self.expired = 1;
        self.credit = CREDIT;
        self.ping = true;
    }

    /// Packets were acknowledged, among them a large one, a small probe (`ping`), or both. Whether that shows
    /// that only large packets vanish.
    pub(super) fn shows_black_hole(&mut self, large: bool, ping: bool) -> bool {
        let shows = !large && ping && self.large_silent >= BLACK_HOLE_AFTER;
        // Where it does, the next size down has to show the same anew.
        if large || shows {
            (self.large_silent, self.large_silent_at, self.refused) = (0, None, false);
        }
        shows
    }

    /// No large packet arrives; whether this counts.
    fn count_large_silent(&mut self, now: Timestamp) -> bool {
        let counts = self.large_silent_at.is_none_or(|at| now - at >= LARGE_SILENT_EVERY);
        if counts {
            self.large_silent_at = Some(now);
            self.large_silent = self.large_silent.saturating_add(1);
        }
        counts
    }

    /// The local host refused a large packet and did not say why. A small one goes first now and then, and
    /// shows whether that is a matter of size.
    pub(super) fn on_large_refused(&mut self, now: Timestamp) {
        if self.count_large_silent(now) {
            self.refused = true;
            self.ping = true;
        }
    }

    /// A ping that leaves before any data: while large packets are refused, data is always waiting.
    pub(super) fn take_first_ping(&mut self) -> bool {
        self.refused && self.take_ping()
    }

    /// Two in a row: nothing comes back, so only the packets that the timer admits leave.
    pub(super) fn is_backed_off(&self) -> bool {
        self.expired >= 2
    }

    pub(super) fn take_credit(&mut self) -> bool {
        let has = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        has
    }

    /// Whether the timer admits a packet now, whatever window and pacer allow.
    pub(super) fn admits_packet(&self) -> bool {
        self.expired > 0 && (self.credit > 0 || self.ping)
    }

    pub(super) fn take_ping(&mut self) -> bool {
        std::mem::take(&mut self.ping)
    }

    /// When it expires; `round_trip` is the smoothed one.
    pub(super) fn deadline(&self, timeout: Duration, round_trip: Duration) -> Timestamp {
        let timeout = match self.expired {
            0 => timeout,
            n => (timeout * (1 << n.min(BACKOFF_MAX))).min(self.probe_every(timeout, round_trip)),
        };
        (self.last_sent + timeout).min(self.silent_since + SILENCE * timeout)
    }

    /// Time to the next probe at most, once one was not answered: not before the answer can have come.
    fn probe_every(&self, timeout: Duration, round_trip: Duration) -> Duration {
        let (least, most) = PROBE_EVERY;
        // The first of them decide whether it is an outage at all.
        let part = if self.is_backed_off() { (self.last_sent - self.answered) / PROBE_PART } else { most };
        part.max(least).max(timeout).min(most).max(round_trip)
    }

    /// It expires; `unanswered` if packets are in flight.
    pub(super) fn on_expiry(&mut self, now: Timestamp, unanswered: bool) -> Expiry {
        self.last_sent = now;
        self.silent_since = now;
        self.expired = if unanswered { self.expired + 1 } else { 0 };
        if unanswered {
            self.count_large_silent(now);
        }
        self.credit = CREDIT;
        self.ping = true;
        match self.expired {
            0 => Expiry::Ping,
            1 => Expiry::Resend,
            _ => Expiry::GiveUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_escalate_until_an_ack_comes() {
        let start = Timestamp::ZERO;
        let mut timer = ProbeTimeout::new(start);
        let expiries = [(); 3].map(|()| timer.on_expiry(start, true));
        assert_eq!(expiries, [Expiry::Resend, Expiry::GiveUp, Expiry::GiveUp]);
        assert!(timer.is_backed_off() && timer.admits_packet());
        timer.on_ack(start);
        assert!(!timer.is_backed_off());
        assert_eq!(timer.on_expiry(start, false), Expiry::Ping);
    }

    #[test]
    fn probes_leave_at_a_part_of_the_silence() {
        const MS: Duration = Duration::from_millis(1);
        let start = Timestamp::ZERO;
        let mut timer = ProbeTimeout::new(start);
        assert_eq!(timer.deadline(600 * MS, 100 * MS), start + 600 * MS);
        timer.on_expiry(start, true);
        assert_eq!(timer.deadline(20 * MS, 10 * MS), start + 40 * MS);
        assert_eq!(timer.deadline(600 * MS, 10 * MS), start + 250 * MS);
        timer.on_expiry(start, true);
        assert_eq!(timer.deadline(60 * MS, 10 * MS), start + 60 * MS, "an answer may come until then");
        for (silence, round_trip, every) in
            [(100, 10, 25), (3_200, 10, 100), (60_000, 10, 250), (60_000, 400, 400)]
        {
            let now = start + MS * silence;
            timer.on_expiry(now, true);
            assert_eq!(timer.deadline(20 * MS, MS * round_trip) - now, MS * every, "{silence} ms");
        }
    }

    #[test]
    fn the_probes_of_a_long_outage_are_bounded() {
        let (mut timer, mut now, mut probes) = (ProbeTimeout::new(Timestamp::ZERO), Timestamp::ZERO, 0);
        while now < Timestamp::ZERO + Duration::from_secs(8) {
            now = timer.deadline(Duration::from_millis(20), Duration::from_millis(5));
            timer.on_expiry(now, true);
            probes += 1;
        }
        assert!(probes < 130, "{probes}");
    }

    #[test]
    fn a_peer_that_has_moved_gets_packets_at_once() {
        let start = Timestamp::ZERO;
        let mut timer = ProbeTimeout::new(start);
        for _ in 0..4 {
            timer.on_expiry(start, true);
        }
        while timer.take_credit() {}
        timer.on_moved(start);
        assert!(!timer.is_backed_off() && timer.admits_packet() && timer.take_ping());
    }

    #[test]
    fn only_an_answer_to_a_ping_shows_a_black_hole() {
        let silent = || {
            let mut timer = ProbeTimeout::new(Timestamp::ZERO);
            for n in 0..BLACK_HOLE_AFTER {
                timer.on_expiry(Timestamp::ZERO + n * LARGE_SILENT_EVERY, true);
            }
            timer
        };
        assert!(!silent().shows_black_hole(false, false));
        assert!(silent().shows_black_hole(false, true));
        assert!(!silent().shows_black_hole(true, true), "a large packet was acknowledged too");
    }

    /// A receiver of the same host that waits for its processor: the timeouts are as short as they may be.
    #[test]
    fn a_receiver_that_waits_for_its_processor_is_no_black_hole() {
        let (mut timer, mut now) = (ProbeTimeout::new(Timestamp::ZERO), Timestamp::ZERO);
        let mut expiries = 0;
        while now < Timestamp::ZERO + Duration::from_millis(150) {
            timer.on_expiry(now, true);
            expiries += 1;
            assert!(!timer.shows_black_hole(false, true), "after {expiries} timeouts");
            now = timer.deadline(Duration::from_millis(2), Duration::from_micros(100));
        }
        assert!(expiries > BLACK_HOLE_AFTER);
    }

    #[test]
    fn a_refusal_asks_for_a_small_packet_once_in_a_while() {
        let mut timer = ProbeTimeout::new(Timestamp::ZERO);
        timer.take_ping();
        timer.on_large_refused(Timestamp::ZERO);
        assert!(timer.take_first_ping());
        timer.on_large_refused(Timestamp::ZERO + LARGE_SILENT_EVERY / 2);
        assert!(!timer.take_first_ping());
        timer.on_large_refused(Timestamp::ZERO + LARGE_SILENT_EVERY);
        assert!(timer.take_first_ping());
    }
}
