//! Packets in flight, by packet number: which were acknowledged, which are lost.
//!
//! On a path that keeps the order a packet is lost once three later ones are acknowledged (RFC 9002 section
//! 6.1.1). On one that was seen to reorder only time counts, as in RFC 8985 (RACK): a packet is lost once one
//! is acknowledged that was sent later by more than the path reorders.

use super::reordering::Reordering;
use crate::{ChunkId, PacketNumber, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Most packets that are remembered. 262,144 full packets are 380 MB in flight: 30 Gbit/s at 100 ms. A sender
/// waits when all of them are outstanding ([`InFlight::is_full`]); one that does not forgets the oldest.
const ENTRIES_MAX: usize = 1 << 18;
/// RFC 9002 section 6.1.1.
const PACKET_THRESHOLD: u64 = 3;
/// Numbers below the largest acknowledged for which a late ack is still recognised as such, however long ago
/// they were sent.
const LATE_ACK_SPAN: u64 = 1024;
/// Loss delays after sending for which a late ack is recognised: what was declared lost wrongly comes within
/// a reordering window more.
const LATE_ACK_DELAYS: u32 = 3;

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentKind {
    /// A piece of a chunk.
    Data {
        /// Chunk of the object.
        chunk: ChunkId,
        /// Packet of the chunk.
        index: u16,
        /// Layout it belonged to.
        attempt: u8,
    },
    /// A probe of the path or the peer.
    Probe,
}

/// One transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Its content.
    pub kind: SentKind,
    /// When.
    pub at: Timestamp,
    /// Datagram bytes.
    pub len: u16,
}

/// A transmission that was acknowledged for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acked {
    /// Its number.
    pub number: PacketNumber,
    /// The transmission.
    pub sent: Sent,
    /// It had been declared lost: the path reordered.
    pub was_lost: bool,
}

/// A transmission that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Its number.
    pub number: PacketNumber,
    /// The transmission.
    pub sent: Sent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketState {
    Outstanding,
    Acked,
    Lost,
    /// Given up without being lost: that it arrives after all shows no reordering.
    Abandoned,
}

/// The ring of transmissions, indexed by packet number less the oldest.
#[derive(Debug)]
pub struct InFlight {
    oldest: PacketNumber,
    entries: VecDeque<(Sent, PacketState)>,
    bytes: u64,
    largest_acked: Option<PacketNumber>,
    /// No packet below is outstanding.
    outstanding_from: PacketNumber,
    /// When the largest acknowledged was sent.
    largest_sent_at: Timestamp,
    reordering: Reordering,
}

impl Default for InFlight {
    fn default() -> Self {
        InFlight {
            oldest: 0,
            entries: VecDeque::new(),
            bytes: 0,
            largest_acked: None,
            outstanding_from: 0,
            largest_sent_at: Timestamp::ZERO,
            reordering: Reordering::default(),
        }
    }
}

impl InFlight {
    /// Whether another transmission would push out one that is still outstanding.
    pub fn is_full(&self) -> bool {
        self.entries.len() == ENTRIES_MAX
            && self.entries.front().is_some_and(|(_, state)| *state == PacketState::Outstanding)
    }

    /// The number that the next transmission will have.
    pub fn next_number(&self) -> PacketNumber {
        self.oldest + self.entries.len() as u64
    }

    /// Datagram bytes outstanding.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The largest number acknowledged.
    pub fn largest_acked(&self) -> Option<PacketNumber> {
        self.largest_acked
    }

    /// Records a transmission and gives it its number.
    pub fn on_sent(&mut self, sent: Sent) -> PacketNumber {
        if self.entries.len() == ENTRIES_MAX {
            let (forgotten, state) = self.entries.pop_front().expect("the ring is full");
            if state == PacketState::Outstanding {
                self.bytes -= u64::from(forgotten.len);
            }
            self.oldest += 1;
        }
        let number = self.next_number();
        self.bytes += u64::from(sent.len);
        self.entries.push_back((sent, PacketState::Outstanding));
        number
    }

    /// Takes an acknowledged range (inclusive); calls `acked` with each packet that is acknowledged for the
    /// first time, from the lowest. Numbers that were never sent are ignored: a peer cannot acknowledge the
    /// future.
    pub fn on_ack(&mut self, low: PacketNumber, high: PacketNumber, mut acked: impl FnMut(Acked)) {
        let Some(high) = self.next_number().checked_sub(1).map(|last| last.min(high)) else { return };
        if low > high {
            return;
        }
        let from = low.max(self.oldest);
        // One past the last, so that a range of forgotten numbers is empty.
        let end = (high + 1).max(from);
        let places = (from - self.oldest) as usize..(end - self.oldest) as usize;
        for (number, (sent, state)) in (from..).zip(self.entries.range_mut(places)) {
            let was_lost = *state == PacketState::Lost;
            match *state {
                PacketState::Acked => continue,
                PacketState::Outstanding => self.bytes -= u64::from(sent.len),
                PacketState::Lost | PacketState::Abandoned => {}
            }
            // What the packet threshold does not mistake for a loss needs no window.
            let overtaken = self.largest_acked.is_some_and(|largest| number + PACKET_THRESHOLD <= largest);
            if overtaken && *state != PacketState::Abandoned {
                self.reordering.on_overtaken(self.largest_sent_at.saturating_since(sent.at));
            }
            *state = PacketState::Acked;
            acked(Acked { number, sent: *sent, was_lost });
        }
        if self.largest_acked.is_none_or(|largest| high > largest) {
            self.largest_acked = Some(high);
            let newest = high.checked_sub(self.oldest).and_then(|place| self.entries.get(place as usize));
            self.largest_sent_at = newest.map_or(self.largest_sent_at, |(sent, _)| sent.at);
        }
    }

    /// By how much packets overtake each other on this path, in time of sending, with some more; `None` while
    /// it keeps their order. `round_trip` bounds it.
    pub fn reordering_window(&self, round_trip: Duration) -> Option<Duration> {
        self.reordering.window(round_trip)
    }

    /// A round trip has passed: what was seen long ago is forgotten.
    pub fn on_round_trip(&mut self) {
        self.reordering.on_round_trip();
    }

    /// Declares packets lost, from the lowest: those that later ones have overtaken by more than this path
    /// reorders, and those unanswered for `loss_delay`.
    pub fn detect_losses(
        &mut self,
        now: Timestamp,
        round_trip: Duration,
        loss_delay: Duration,
        mut lost: impl FnMut(Lost),
    ) {
        let Some(largest) = self.largest_acked else { return };
        let window = self.reordering_window(round_trip);
        self.skip_resolved();
        while self.outstanding_from < largest {
            let number = self.outstanding_from;
            let (sent, state) = &mut self.entries[(number - self.oldest) as usize];
            if *state == PacketState::Outstanding {
                let overtaken = match window {
                    None => number + PACKET_THRESHOLD <= largest,
                    Some(window) => sent.at + window <= self.largest_sent_at,
                };
                if !overtaken && sent.at + loss_delay > now {
                    break;
                }
                *state = PacketState::Lost;
                self.bytes -= u64::from(sent.len);
                lost(Lost { number, sent: *sent });
            }
            self.outstanding_from += 1;
        }
        self.forget_resolved(now, loss_delay);
    }

    /// Declares everything outstanding lost (two probe timeouts in a row: nothing comes back), from the
    /// lowest.
    pub fn lose_all(&mut self, lost: impl FnMut(Lost)) {
        self.give_up_all(PacketState::Lost, lost);
    }

    /// Gives up everything outstanding that another way shall carry, from the lowest. It is not lost: what of
    /// it is acknowledged later counts as any other.
    pub fn abandon_all(&mut self, abandoned: impl FnMut(Lost)) {
        self.give_up_all(PacketState::Abandoned, abandoned);
    }

    fn give_up_all(&mut self, becomes: PacketState, mut given_up: impl FnMut(Lost)) {
        self.skip_resolved();
        for (i, (sent, state)) in self.entries.iter_mut().enumerate() {
            if *state == PacketState::Outstanding {
                *state = becomes;
                self.bytes -= u64::from(sent.len);
                given_up(Lost { number: self.oldest + i as u64, sent: *sent });
            }
        }
        self.outstanding_from = self.next_number();
    }

    /// Declares one packet lost that the local host refused to send. Whether it was outstanding.
    pub fn lose(&mut self, number: PacketNumber) -> Option<Lost> {
        let index = usize::try_from(number.checked_sub(self.oldest)?).ok()?;
        let (sent, state) = self.entries.get_mut(index)?;
        if *state != PacketState::Outstanding {
            return None;
        }
        *state = PacketState::Lost;
        self.bytes -= u64::from(sent.len);
        Some(Lost { number, sent: *sent })
    }

    /// When the oldest packet below the largest acknowledged becomes lost by time.
    pub fn loss_deadline(&self, loss_delay: Duration) -> Option<Timestamp> {
        let from = self.outstanding_from.max(self.oldest);
        if from >= self.largest_acked? {
            return None;
        }
        let index = (from - self.oldest) as usize;
        self.entries.get(index).map(|(sent, _)| sent.at + loss_delay)
    }

    /// The packets outstanding, from the newest.
    pub fn outstanding_newest_first(&self) -> impl Iterator<Item = &Sent> {
        self.entries
            .iter()
            .rev()
            .filter(|(_, state)| *state == PacketState::Outstanding)
            .map(|(sent, _)| sent)
    }

    fn skip_resolved(&mut self) {
        self.outstanding_from = self.outstanding_from.max(self.oldest);
        while let Some((_, state)) = self.entries.get((self.outstanding_from - self.oldest) as usize)
            && *state != PacketState::Outstanding
        {
            self.outstanding_from += 1;
        }
    }

    /// Forgets what is resolved and of which no late ack is expected any more.
    fn forget_resolved(&mut self, now: Timestamp, loss_delay: Duration) {
        let keep_from =
            self.largest_acked.unwrap_or(0).saturating_sub(LATE_ACK_SPAN).min(self.outstanding_from);
        while self.oldest < keep_from
            && self.entries.front().is_some_and(|(sent, _)| sent.at + LATE_ACK_DELAYS * loss_delay < now)
        {
            self.entries.pop_front();
            self.oldest += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn sent(at: u64) -> Sent {
        Sent { kind: SentKind::Probe, at: Timestamp::from_nanos(at), len: 1000 }
    }

    /// The naive model: every packet ever sent, and RFC 9002's rule applied to each in turn.
    #[derive(Default)]
    struct Model {
        packets: BTreeMap<u64, (Sent, PacketState)>,
        largest: Option<u64>,
    }

    impl Model {
        fn losses(&mut self, now: Timestamp, delay: Duration, window: Option<Duration>) -> Vec<u64> {
            let Some(largest) = self.largest else { return vec![] };
            let newest = self.packets[&largest].0.at;
            let mut lost = vec![];
            for (&n, (sent, state)) in self.packets.range_mut(..largest) {
                let overtaken = match window {
                    None => n + PACKET_THRESHOLD <= largest,
                    Some(window) => sent.at + window <= newest,
                };
                if *state == PacketState::Outstanding && (overtaken || sent.at + delay <= now) {
                    *state = PacketState::Lost;
                    lost.push(n);
                }
            }
            lost
        }

        fn bytes(&self) -> u64 {
            self.packets
                .values()
                .filter(|p| p.1 == PacketState::Outstanding)
                .map(|p| u64::from(p.0.len))
                .sum()
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_model(ops in prop::collection::vec((0u8..3, 0u64..60, 0u64..12), 0..200)) {
            let (mut ring, mut model, mut now) = (InFlight::default(), Model::default(), 0u64);
            let delay = Duration::from_nanos(40);
            for (op, a, b) in ops {
                now += 1;
                match op {
                    0 => for _ in 0..b {
                        let number = ring.on_sent(sent(now));
                        model.packets.insert(number, (sent(now), PacketState::Outstanding));
                    },
                    1 => {
                        let top = ring.next_number();
                        let low = top.saturating_sub(a);
                        let high = low + b;
                        let mut acked = vec![];
                        ring.on_ack(low, high, |p| acked.push(p.number));
                        let mut expected = vec![];
                        for (&n, p) in model.packets.range_mut(low..=high) {
                            if p.1 != PacketState::Acked {
                                p.1 = PacketState::Acked;
                                expected.push(n);
                            }
                        }
                        if top > 0 && low <= high.min(top - 1) {
                            model.largest = model.largest.max(Some(high.min(top - 1)));
                        }
                        prop_assert_eq!(acked, expected);
                    }
                    _ => {
                        let mut lost = vec![];
                        let round_trip = Duration::from_nanos(30);
                        let (window, at) = (ring.reordering_window(round_trip), Timestamp::from_nanos(now));
                        ring.detect_losses(at, round_trip, delay, |p| lost.push(p.number));
                        prop_assert_eq!(lost, model.losses(at, delay, window));
                    }
                }
                prop_assert_eq!(ring.bytes(), model.bytes());
                prop_assert_eq!(ring.largest_acked(), model.largest);
            }
        }
    }

    #[test]
    fn losses_follow_the_packet_threshold_and_the_clock() {
        let mut ring = InFlight::default();
        for _ in 0..4 {
            ring.on_sent(sent(0));
        }
        ring.on_ack(2, 2, |_| {});
        let delay = Duration::from_nanos(100);
        let mut lost = vec![];
        ring.detect_losses(Timestamp::from_nanos(10), delay, delay, |p| lost.push(p.number));
        assert!(lost.is_empty(), "2 is not 3 past 0");
        assert_eq!(ring.loss_deadline(delay), Some(Timestamp::from_nanos(100)));
        ring.on_ack(3, 3, |_| {});
        ring.detect_losses(Timestamp::from_nanos(10), delay, delay, |p| lost.push(p.number));
        assert_eq!(lost, [0]);
        ring.detect_losses(Timestamp::from_nanos(100), delay, delay, |p| lost.push(p.number));
        assert_eq!(lost, [0, 1]);
        let mut late = vec![];
        ring.on_ack(0, 1, |p| late.push(p.was_lost));
        assert_eq!(late, [true, true]);
    }

    #[test]
    fn a_path_that_reorders_loses_by_time_alone() {
        const MS: Duration = Duration::from_millis(1);
        let mut ring = InFlight::default();
        // A packet every millisecond; the first comes 10 ms late.
        for ms in 0..40 {
            ring.on_sent(sent(ms * 1_000_000));
        }
        ring.on_ack(1, 10, |_| {});
        ring.on_ack(0, 0, |_| {});
        assert_eq!(ring.reordering_window(20 * MS), Some(10 * MS * 5 / 4));
        let mut lost = vec![];
        let at = Timestamp::from_nanos(41_000_000);
        ring.on_ack(20, 23, |_| {});
        ring.detect_losses(at, 20 * MS, 100 * MS, |p| lost.push(p.number));
        assert_eq!(lost, [] as [u64; 0], "12 ms later than number 11 is within the window");
        ring.on_ack(24, 24, |_| {});
        ring.detect_losses(at, 20 * MS, 100 * MS, |p| lost.push(p.number));
        assert_eq!(lost, [11], "13 ms are not");
    }

    #[test]
    fn what_is_abandoned_is_neither_lost_nor_reordered() {
        let mut ring = InFlight::default();
        for _ in 0..8 {
            ring.on_sent(sent(0));
        }
        let mut given_up = vec![];
        ring.abandon_all(|p| given_up.push(p.number));
        assert_eq!((given_up.len(), ring.bytes()), (8, 0));
        ring.on_sent(sent(0));
        ring.on_ack(8, 8, |_| {});
        ring.detect_losses(Timestamp::from_nanos(1000), Duration::ZERO, Duration::ZERO, |_| {
            panic!("nothing is lost")
        });
        let mut late = vec![];
        ring.on_ack(0, 3, |p| late.push(p.was_lost));
        assert_eq!(late, [false; 4]);
        assert_eq!((ring.reordering_window(Duration::ZERO), ring.bytes()), (None, 0));
    }

    #[test]
    fn the_ring_is_bounded_and_its_account_balances() {
        let mut ring = InFlight::default();
        for _ in 0..ENTRIES_MAX + 10 {
            ring.on_sent(sent(0));
        }
        assert_eq!(ring.entries.len(), ENTRIES_MAX);
        assert_eq!(ring.bytes(), ENTRIES_MAX as u64 * 1000);
        ring.on_ack(0, u64::MAX, |_| {});
        assert_eq!(ring.bytes(), 0);
        ring.detect_losses(Timestamp::ZERO, Duration::ZERO, Duration::ZERO, |_| panic!("nothing is lost"));
    }
}
