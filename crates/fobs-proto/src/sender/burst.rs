//! A burst: as many packets as budget, window and GSO admit.

use super::config::BURST_BYTES_MAX;
use super::flight::Flight;
use super::limit::SendLimit;
use super::packet::PacketOut;
use super::rate::RateSampler;
use super::timers::ProbeTimeout;
use super::way_back::WayBack;
use super::{Sender, Transmit};
use crate::Timestamp;
use crate::recovery::FIRST_TRAIN_PACKETS;
use std::time::Duration;

/// Packets that leave before the path is probed for larger ones: the first train stays undisturbed.
const PROBE_AFTER_PACKETS: u64 = FIRST_TRAIN_PACKETS;

/// What one burst may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Budget {
    /// This many bytes, and the packet that reaches them.
    Bytes(u64),
    /// The packets that the probe timeout admits.
    TimerOnly,
}

/// What bursts are filled from, and within which limits.
pub(super) struct Filling<'a> {
    pub(super) flight: &'a mut Flight,
    pub(super) timer: &'a mut ProbeTimeout,
    pub(super) rate: &'a mut RateSampler,
    /// Most datagram bytes outstanding.
    pub(super) window: u64,
    /// Most packets of the burst.
    pub(super) packets_max: usize,
    /// What asks for rarer acks.
    pub(super) way_back: &'a mut WayBack,
    /// The smoothed round trip.
    pub(super) round_trip: Duration,
    /// How long after a packet its redundant copy may follow.
    pub(super) copy_delay: Duration,
}

/// Lengths of a burst's datagrams: equal, but for a shorter last one.
#[derive(Debug, Default)]
struct Lengths {
    first: usize,
    bytes: u64,
}

impl Lengths {
    fn is_within(&self, budget: u64) -> bool {
        (self.first == 0 || self.bytes < budget) && self.bytes + self.first as u64 <= BURST_BYTES_MAX
    }

    fn admits(&self, len: usize) -> bool {
        self.first == 0 || len <= self.first
    }

    /// Takes a datagram; whether it ends the burst.
    fn push(&mut self, len: usize) -> bool {
        self.bytes += len as u64;
        let shorter = self.first != 0 && len < self.first;
        self.first = len;
        shorter
    }
}

impl Filling<'_> {
    /// Fills `out`; what kept it from holding more packets, if that is a limit of the sender.
    pub(super) fn fill(
        &mut self,
        now: Timestamp,
        budget: Budget,
        out: &mut Vec<PacketOut>,
    ) -> Option<SendLimit> {
        if self.flight.is_full() {
            return Some(SendLimit::Window);
        }
        let may_probe = self.flight.sent.next_number() >= PROBE_AFTER_PACKETS
            && budget != Budget::TimerOnly
            && !self.timer.is_backed_off();
        if may_probe && self.way_back.is_due() {
            let request = self.flight.send_request(now, self.way_back.ratio());
            self.way_back.on_asked(now, request.number, self.round_trip);
            out.push(request);
            return None;
        }
        if may_probe && let Some(datagram) = self.flight.plpmtu.poll_probe(now) {
            out.push(self.flight.send_probe(now, datagram, self.way_back.ratio()));
            return None;
        }
        if self.timer.take_first_ping() {
            out.push(self.flight.send_ping(now));
            return None;
        }
        let limit = self.fill_with_data(now, budget, out);
        if out.is_empty() && self.timer.take_ping() {
            out.push(self.flight.send_ping(now));
        }
        limit
    }

    fn fill_with_data(
        &mut self,
        now: Timestamp,
        budget: Budget,
        out: &mut Vec<PacketOut>,
    ) -> Option<SendLimit> {
        let datagram = self.flight.datagram_len();
        let (timer_only, budget) = match budget {
            Budget::TimerOnly => (true, u64::MAX),
            Budget::Bytes(bytes) => (self.timer.is_backed_off(), bytes),
        };
        let mut lengths = Lengths::default();
        while out.len() < self.packets_max && lengths.is_within(budget) {
            let full = self.flight.sent.bytes() + datagram > self.window;
            if (full || timer_only) && !self.timer.take_credit() {
                return Some(if timer_only { SendLimit::Silence } else { SendLimit::Window });
            }
            let Some((slot, origin)) = self.flight.peek(now) else {
                if out.is_empty() {
                    self.rate.limit_by_app(self.flight.sent.next_number());
                }
                self.flight.begin_tail(now, self.copy_delay);
                return Some(self.flight.supply.limit_when_idle());
            };
            let packet = self.flight.describe(slot)?;
            let len = packet.datagram_len();
            if !lengths.admits(len) {
                return None;
            }
            let departed = self.flight.send(now, (slot, origin), &packet, self.copy_delay);
            self.rate.on_data(departed.number, now);
            if departed.filler {
                self.rate.limit_by_app(departed.number + 1);
            }
            out.push(packet);
            if lengths.push(len) {
                return None;
            }
        }
        None
    }
}

impl Sender {
    /// A burst was due and is empty: until when the sender waits for a reason to send.
    pub(super) fn idle(&mut self, now: Timestamp) -> Transmit {
        self.pace.on_idle();
        let copy_at = self.flight.schedule.tail_deadline().filter(|at| *at > now);
        copy_at.map_or(Transmit::Wait, Transmit::WaitUntil)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_ends_with_the_first_shorter_datagram() {
        let mut lengths = Lengths::default();
        assert!(!lengths.push(1200));
        assert!(!lengths.admits(1201) && lengths.admits(1200));
        assert!(!lengths.push(1200) && lengths.push(700));
    }

    #[test]
    fn a_burst_stays_within_budget_and_one_super_packet() {
        let mut lengths = Lengths::default();
        assert!(lengths.is_within(0), "one packet always leaves");
        lengths.push(1472);
        assert!(!lengths.is_within(1472) && lengths.is_within(1473));
        while lengths.is_within(u64::MAX) {
            lengths.push(1472);
        }
        assert!((BURST_BYTES_MAX - 1472..=BURST_BYTES_MAX).contains(&lengths.bytes), "{}", lengths.bytes);
    }
}
