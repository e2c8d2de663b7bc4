//! The sender's timers: loss by time, and the probe timeout (RFC 9002 section 6).

use super::Sender;
use super::schedule::{Origin, Slot};
use crate::Timestamp;
use crate::congestion::LossEvidence;
use crate::recovery::DeliveryRate;
use std::time::Duration;

/// Packets that a probe timeout lets out beyond the window (RFC 9002 section 6.2.4).
const CREDIT: u32 = 2;
/// Doublings of the probe timeout at most: 64 times.
const BACKOFF_MAX: u32 = 6;
/// Probe timeouts of silence after which one expires although packets leave all the time, as those of controllers without a
/// window do; RFC 9002 counts from the last packet sent alone.
const SILENCE: u32 = 3;
/// Longest probe timeout: after an outage the transfer goes on within this time.
const TIMEOUT_MAX: Duration = Duration::from_secs(2);
/// Probe timeouts without news of any packet above the base size after which an answer to a small one tells that only those
/// vanish (RFC 8899 section 4.3). Without that answer it is an outage, and the size is innocent.
const BLACK_HOLE_AFTER: u32 = 3;

/// The probe timeout's state.
#[derive(Debug)]
pub(super) struct ProbeTimeout {
    last_sent: Timestamp,
    /// Since when packets have been on their way without any news of them.
    silent_since: Timestamp,
    expired: u32,
    credit: u32,
    ping: bool,
    /// Timeouts since a packet above the base size was acknowledged.
    large_silent: u32,
}

impl ProbeTimeout {
    pub(super) fn new(now: Timestamp) -> ProbeTimeout {
        // A first ping: where the data is slow to come, the path is still seen to work.
        ProbeTimeout { last_sent: now, silent_since: now, expired: 0, credit: 0, ping: true, large_silent: 0 }
    }

    /// A burst left; `first` if nothing else is on its way.
    pub(super) fn on_sent(&mut self, now: Timestamp, first: bool) {
        self.last_sent = now;
        if first {
            self.silent_since = now;
        }
    }

    /// Something sent was acknowledged.
    pub(super) fn on_news(&mut self, now: Timestamp) {
        self.last_sent = now;
        self.silent_since = now;
        self.expired = 0;
        self.credit = 0;
    }

    /// Packets were acknowledged, among them one above the base size (`large`), a small probe (`ping`), or both. Whether only large
    /// ones vanish.
    pub(super) fn tells_black_hole(&mut self, large: bool, ping: bool) -> bool {
        if large {
            self.large_silent = 0;
        }
        ping && self.large_silent >= BLACK_HOLE_AFTER
    }

    /// Two in a row: nothing comes back, so only what the timer lets out leaves.
    pub(super) fn is_backed_off(&self) -> bool {
        self.expired >= 2
    }

    pub(super) fn take_credit(&mut self) -> bool {
        let has = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        has
    }

    /// Whether the timer lets something out now, whatever window and pacer say.
    pub(super) fn lets_out(&self) -> bool {
        self.expired > 0 && (self.credit > 0 || self.ping)
    }

    pub(super) fn take_ping(&mut self) -> bool {
        std::mem::take(&mut self.ping)
    }

    fn deadline(&self, timeout: Duration) -> Timestamp {
        let timeout = (timeout * (1 << self.expired.min(BACKOFF_MAX))).min(TIMEOUT_MAX.max(timeout));
        (self.last_sent + timeout).min(self.silent_since + SILENCE * timeout)
    }
}

impl Sender {
    /// When [`handle_timeout`](Self::handle_timeout) must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let loss = self.in_flight.loss_deadline(self.rtt.loss_delay());
        [loss, self.probe_deadline()].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.in_flight.loss_deadline(self.rtt.loss_delay()).is_some_and(|at| at <= now) {
            self.detect_losses(now);
        }
        if self.probe_deadline().is_some_and(|at| at <= now) {
            self.on_probe_timeout(now);
        }
    }

    fn probe_deadline(&self) -> Option<Timestamp> {
        // Also while nothing is on its way but chunks wait for their verdict or for credit: the report may have been lost.
        let no_credit = !self.object_complete && self.chunks.end() >= self.chunk_limit;
        let waiting = self.in_flight.bytes() > 0 || self.chunks.count() > 0 || no_credit;
        waiting.then(|| self.probe_timeout.deadline(self.rtt.probe_timeout(self.ack_delay_max)))
    }

    fn on_probe_timeout(&mut self, now: Timestamp) {
        let timer = &mut self.probe_timeout;
        timer.last_sent = now;
        timer.silent_since = now;
        let unanswered = self.in_flight.bytes() > 0;
        timer.expired = if unanswered { timer.expired + 1 } else { 0 };
        timer.large_silent += u32::from(unanswered);
        timer.credit = CREDIT;
        timer.ping = true;
        if timer.expired >= 2 {
            self.lose_all(now);
        } else if unanswered {
            self.resend_oldest();
        }
    }

    /// Gives up on everything that is on its way, and on what the rate was before: what comes back will tell.
    pub(super) fn lose_all(&mut self, now: Timestamp) {
        let mut lost = Vec::new();
        self.in_flight.lose_all(|packet| lost.push(packet));
        self.account_losses(now, &lost, LossEvidence::Silence);
        self.delivery = DeliveryRate::default();
        self.app_limited_until = self.in_flight.next_number();
    }

    /// Queues the oldest unacknowledged packet: the one that the receiver, storing in order, waits for.
    fn resend_oldest(&mut self) {
        let oldest = self.chunks.iter().find_map(|(id, chunk)| {
            let index = chunk.layout()?.next_unacked_sent(0)?;
            Some((Slot { chunk: id, index }, chunk.attempt(), chunk.layout()?.newest(index)))
        });
        if let Some((slot, attempt, number)) = oldest {
            self.schedule.on_again(slot, attempt, number, Origin::Repeat);
        }
    }
}
