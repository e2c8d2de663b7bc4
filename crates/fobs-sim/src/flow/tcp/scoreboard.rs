//! Transmissions in flight, and what acknowledgements show of them: losses and delivery rate.

use crate::time::{Nanos, SEC};
use std::collections::VecDeque;

/// Transmissions that must arrive after one before it counts as lost, unless its time runs out first (RFC
/// 8985 keeps RFC 6675's three).
const REORDERING: u64 = 3;

#[derive(Debug, Clone, Copy)]
struct Transmission {
    place: u64,
    sent_at: Nanos,
    /// Packets delivered, and when the last of them was, as of the sending (draft-cheng-iccrg-delivery-rate).
    delivered: u64,
    delivered_at: Nanos,
    open: bool,
}

/// What an acknowledgement brought.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AckNews {
    pub(super) newly_acked: u64,
    /// The newest transmission acknowledged for the first time, and when it was sent.
    pub(super) newest: Option<u64>,
    pub(super) newest_sent_at: Option<Nanos>,
    /// Delivery rate, packets per second.
    pub(super) rate: Option<f64>,
    /// Round trips so far.
    pub(super) round: u64,
}

#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    oldest: u64,
    ring: VecDeque<Transmission>,
    in_flight: u64,
    delivered: u64,
    delivered_at: Nanos,
    largest: Option<u64>,
    largest_sent_at: Nanos,
    round: u64,
    round_end: u64,
}

impl Scoreboard {
    /// The number that the next transmission will have.
    pub(super) fn next(&self) -> u64 {
        self.oldest + self.ring.len() as u64
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn on_sent(&mut self, now: Nanos, place: u64) -> u64 {
        if self.in_flight == 0 {
            // After a rest the rate is counted from now.
            self.delivered_at = now;
        }
        let (delivered, delivered_at) = (self.delivered, self.delivered_at);
        self.ring.push_back(Transmission { place, sent_at: now, delivered, delivered_at, open: true });
        self.in_flight += 1;
        self.next() - 1
    }

    pub(super) fn on_ack(&mut self, now: Nanos, ranges: &[(u64, u64)]) -> AckNews {
        let mut news = AckNews::default();
        let mut newest = None;
        for &(low, high) in ranges.iter().rev() {
            let from = low.max(self.oldest) - self.oldest;
            let until = (high + 1).clamp(self.oldest, self.next()) - self.oldest;
            for index in from..until {
                let transmission = &mut self.ring[index as usize];
                if std::mem::take(&mut transmission.open) {
                    self.in_flight -= 1;
                    news.newly_acked += 1;
                    newest = Some((self.oldest + index, *transmission));
                }
            }
        }
        self.delivered += news.newly_acked;
        if let Some((number, transmission)) = newest {
            self.delivered_at = now;
            news.newest = Some(number);
            news.newest_sent_at = Some(transmission.sent_at);
            if self.largest.is_none_or(|largest| number > largest) {
                self.largest = Some(number);
                self.largest_sent_at = transmission.sent_at;
            }
            let time = now - transmission.delivered_at;
            let packets = self.delivered - transmission.delivered;
            news.rate = (time > 0).then(|| packets as f64 * SEC as f64 / time as f64);
            if transmission.delivered >= self.round_end {
                self.round_end = self.delivered;
                self.round += 1;
            }
        }
        news.round = self.round;
        news
    }

    /// The places of transmissions that later ones have overtaken by too much.
    pub(super) fn detect_losses(&mut self, patience: Nanos, mut lost: impl FnMut(u64)) {
        let Some(largest) = self.largest else { return };
        while let Some(first) = self.ring.front().copied().filter(|_| self.oldest < largest) {
            if first.open {
                let overtaken = largest - self.oldest >= REORDERING;
                if !overtaken && first.sent_at + patience > self.largest_sent_at {
                    break;
                }
                self.in_flight -= 1;
                lost(first.place);
            }
            self.ring.pop_front();
            self.oldest += 1;
        }
    }

    /// Gives up on everything; how much that was.
    pub(super) fn lose_all(&mut self, mut lost: impl FnMut(u64)) -> u64 {
        let count = self.in_flight;
        self.oldest = self.next();
        self.ring.drain(..).filter(|t| t.open).for_each(|t| lost(t.place));
        self.in_flight = 0;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MS;

    #[test]
    fn three_later_arrivals_or_time_tell_a_loss() {
        let mut board = Scoreboard::default();
        for n in 0..6 {
            assert_eq!(board.on_sent(n * MS, 100 + n), n);
        }
        let news = board.on_ack(50 * MS, &[(1, 2)]);
        assert_eq!((news.newly_acked, news.newest, board.in_flight()), (2, Some(2), 4));
        let mut lost = Vec::new();
        board.detect_losses(10 * MS, |place| lost.push(place));
        assert!(lost.is_empty(), "two later ones are not three");
        board.on_ack(51 * MS, &[(3, 3)]);
        board.detect_losses(10 * MS, |place| lost.push(place));
        assert_eq!((lost.as_slice(), board.in_flight()), ([100].as_slice(), 2));
        board.on_ack(52 * MS, &[(5, 5)]);
        board.detect_losses(MS, |place| lost.push(place));
        assert_eq!(lost, [100, 104], "1 ms after it another one was sent and has arrived");
        board.on_sent(60 * MS, 7);
        assert_eq!(board.lose_all(|place| lost.push(place)), 1);
        assert_eq!((lost.last(), board.in_flight(), board.next()), (Some(&7), 0, 7));
    }

    #[test]
    fn the_delivery_rate_is_that_of_the_acks() {
        let mut board = Scoreboard::default();
        for n in 0..100 {
            board.on_sent(n * MS, n);
        }
        let mut rate = None;
        for n in 0..100 {
            rate = board.on_ack((50 + 2 * n) * MS, &[(n, n)]).rate;
            board.on_sent((50 + 2 * n) * MS, 100 + n);
        }
        assert!(
            rate.is_some_and(|rate| (350.0..650.0).contains(&rate)),
            "{rate:?} instead of 500 packets a second"
        );
    }
}
