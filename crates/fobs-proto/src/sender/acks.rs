//! What an ack says, by which way it came, and what the controller hears of it.

use super::Sender;
use super::drain::Count;
use super::flight::Acknowledged;
use super::tally::Unit;
use crate::Timestamp;
use crate::congestion::{AckSample, EcnMark, LossResponse, Outcome};
use crate::recovery::Acked;
use crate::wire::Ack;
use std::time::Duration;

/// How an ack came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckWay {
    Datagram,
    Stream,
}

impl Sender {
    /// An ack of the receiver that came in a datagram. Packets and chunks in it that were never sent are
    /// ignored.
    pub fn handle_ack(&mut self, now: Timestamp, ack: &Ack) {
        self.take_ack(now, ack, AckWay::Datagram);
        self.datagram_acks_until = now + self.rtt.probe_timeout(self.ack_delay_max());
    }

    /// An ack that came on a stream: it may have waited there, so it shows no round trip. What it says of
    /// datagrams is left to the acks that come as datagrams while those come. Over a faster network the
    /// stream's would always be first, and no round trip would ever be measured.
    pub fn handle_stream_ack(&mut self, now: Timestamp, ack: &Ack) {
        if self.route().has_datagrams() && now < self.datagram_acks_until {
            self.flight.on_chunks(ack);
            self.report_outcomes(now);
        } else {
            self.take_ack(now, ack, AckWay::Stream);
        }
    }

    fn take_ack(&mut self, now: Timestamp, ack: &Ack, way: AckWay) {
        let news = self.flight.on_ack(ack, &mut self.attribution);
        let of_a_clock = |newest: Acked| self.delays.is_of_a_clock(newest.sent.at, ack.receive_time_us);
        let stamped = news.newest.is_some_and(of_a_clock);
        if let Some(newest) = news.newest {
            if self.probe_timeout.is_backed_off() {
                self.rate.start_over(self.flight.sent.next_number());
                self.pace.on_return(now);
            }
            self.probe_timeout.on_ack(now);
            if self.probe_timeout.shows_black_hole(news.large, news.ping) && self.give_up_size(now) {
                self.lose_all(now);
            }
            self.refused &= news.data_bytes == 0;
            self.greets = false;
            self.large_arrived |= news.large;
            if Some(newest.number) == ack.largest && way == AckWay::Datagram {
                let delay = Duration::from_micros(u64::from(ack.ack_delay_us)).min(self.ack_delay_max());
                self.rtt.on_sample(now, now - newest.sent.at, delay);
                if stamped {
                    self.delays.on_ack(now, newest.sent.at, ack.receive_time_us);
                    self.way_back.on_ack(now, ack, &self.rtt);
                }
            }
        }
        self.undo_losses(now, news.found);
        self.attribution.on_report(ack);
        self.detect_losses(now);
        let marks = self.flight.take_marks(ack);
        if marks > 0 {
            self.attribution.on_mark();
        }
        self.settle_losses(now);
        self.report_outcomes(now);
        if marks > 0 {
            self.controller.on_ecn(&EcnMark { now, packets: marks });
        }
        // The answer to a ping that left before any data says nothing of the first train.
        if self.flight.stats.packets_sent > 0
            && let Some(newest) = news.newest
        {
            self.report_ack(now, &news, &newest, stamped.then_some(ack));
        }
    }

    /// Reports blocks and chunks that have arrived.
    pub(super) fn report_outcomes(&mut self, now: Timestamp) {
        for (unit, tally) in self.flight.supply.chunks.take_outcomes() {
            let outcome = Outcome { now, began: tally.began, packets: tally.sent, lost: tally.lost };
            match unit {
                Unit::Block => self.controller.on_block(&outcome),
                Unit::Chunk => self.controller.on_chunk(&outcome),
            }
        }
    }

    /// Measures the rate by an ack with a stamp, counts round trips, and reports to the controller.
    fn report_ack(&mut self, now: Timestamp, news: &Acknowledged, newest: &Acked, stamped: Option<&Ack>) {
        let (Some(latest_rtt), Some(min_rtt)) = (self.rtt.latest(), self.rtt.min()) else { return };
        let ack_time = self.pacing_rate().map_or(Duration::ZERO, |rate| rate.time_for(self.ack_bytes()));
        let least = ack_time.max(self.controller.rate_window());
        let rate = stamped.and_then(|ack| self.rate.on_ack(ack, newest, min_rtt, least));
        let round_start = self.rounds.on_ack(newest.number, self.flight.sent.next_number());
        if round_start {
            self.on_round(now);
        }
        // A rate that a host limits shows nothing of the path.
        let drained = self.host_rate().is_some_and(|rate| Some(rate) == self.pacing_rate());
        self.controller.on_ack(&AckSample {
            now,
            acked_bytes: news.bytes,
            acked_packets: news.packets,
            packet_len: self.flight.plpmtu.datagram(),
            bytes_in_flight: self.flight.sent.bytes(),
            latest_rtt,
            one_way: self.delays.one_way(),
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt,
            rate,
            app_limited: drained || self.rate.is_app_limited(newest),
            round_start,
        });
    }

    /// A round trip has passed.
    fn on_round(&mut self, now: Timestamp) {
        self.attribution.on_round_trip();
        self.flight.sent.on_round_trip();
        let measured = self.rate.newest();
        if self.controller.loss_response() == LossResponse::Slows
            && let Some(rate) = self.pacing_rate().or(measured)
            && let Some(wanted) = self.controller.pacing_rate().or(measured)
        {
            let stats = &self.flight.stats;
            let count = Count { sent: stats.packets_sent, spared: stats.packets_spared };
            self.attribution.adapt_drain(now, self.rtt.smoothed(), count, (rate, wanted));
        }
        self.look_at_deadline(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Refusal, Route, Sender, SenderConfig, Transmit};
    use crate::congestion::Auto;
    use crate::wire::Ack;
    use crate::{Rate, Timestamp};
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(40);

    fn sender(route: Route) -> Sender {
        let mut sender = Sender::new(Timestamp::ZERO, SenderConfig::plain(Box::new(Auto::new(1200)), 8));
        sender.set_route(Timestamp::ZERO, route);
        sender.push_chunk(4_000_000, false);
        sender
    }

    /// Sends what may leave now; the number after the last packet that ever left.
    fn leave(sender: &mut Sender, now: Timestamp) -> u64 {
        let mut packets = Vec::new();
        while sender.poll_transmit(now, &mut packets) == Transmit::Burst {}
        sender.flight.sent.next_number()
    }

    /// All packets below `end` have arrived.
    fn ack(end: u64) -> Ack {
        let ranges = if end > 0 { vec![(0, end - 1)] } else { Vec::new() };
        Ack { largest: end.checked_sub(1), ranges, chunk_limit: 8, ..Ack::default() }
    }

    #[test]
    fn acks_of_a_faster_network_hide_no_round_trip() {
        for route in [Route::Datagrams, Route::Both] {
            for lead in [0, 1, 20, 39, 200] {
                let (mut sender, mut now) = (sender(route), Timestamp::ZERO);
                for _ in 0..5 {
                    let end = leave(&mut sender, now);
                    let (by_stream, by_datagram) = (now + RTT.saturating_sub(lead * MS), now + RTT);
                    sender.handle_stream_ack(by_stream, &ack(end));
                    sender.handle_ack(by_datagram, &ack(end));
                    now = by_datagram;
                }
                assert_eq!(sender.rtt().latest(), Some(RTT), "{route:?}, {lead} ms before");
                assert_ne!(sender.controller().state(), "train", "{route:?}, {lead} ms before");
            }
        }
    }

    #[test]
    fn acks_on_streams_count_where_none_comes_as_a_datagram() {
        let (mut sender, now) = (sender(Route::Both), Timestamp::ZERO);
        let end = leave(&mut sender, now);
        let in_flight = sender.bytes_in_flight();
        sender.handle_stream_ack(now + RTT, &ack(end));
        assert_eq!(sender.bytes_in_flight(), in_flight, "a datagram may follow");
        sender.handle_stream_ack(now + Duration::from_secs(3), &ack(end));
        assert_eq!(sender.bytes_in_flight(), 0);
        // They come again, and cease again.
        let now = now + Duration::from_secs(4);
        let end = leave(&mut sender, now);
        sender.handle_ack(now + RTT, &ack(end));
        let now = now + 2 * RTT;
        let end = leave(&mut sender, now);
        assert!(sender.bytes_in_flight() > 0);
        sender.handle_stream_ack(now + MS, &ack(end));
        assert!(sender.bytes_in_flight() > 0);
        sender.handle_stream_ack(now + Duration::from_secs(3), &ack(end));
        assert_eq!(sender.bytes_in_flight(), 0);
    }

    #[test]
    fn what_a_stream_s_ack_says_of_chunks_counts_at_once() {
        let (mut sender, now) = (sender(Route::Both), Timestamp::ZERO);
        let end = leave(&mut sender, now);
        let verdict = Ack { verified_below: 1, ..ack(end) };
        sender.handle_stream_ack(now + MS, &verdict);
        assert_eq!(sender.poll_freed(), Some(0));
        assert!(sender.bytes_in_flight() > 0);
    }

    #[test]
    fn where_frames_alone_carry_data_a_stream_s_ack_is_whole() {
        let (mut sender, now) = (sender(Route::Datagrams), Timestamp::ZERO);
        leave(&mut sender, now);
        sender.set_route(now, Route::Frames);
        let end = leave(&mut sender, now + Duration::from_secs(1));
        assert!(sender.bytes_in_flight() > 0, "the probe");
        sender.handle_stream_ack(now + Duration::from_secs(1) + MS, &ack(end));
        assert_eq!(sender.bytes_in_flight(), 0);
    }

    /// How an outage ends.
    #[derive(Debug, Clone, Copy)]
    enum Return {
        Answer,
        OtherAddress,
    }

    /// As of a device that goes down: its host refuses packets for a while, and then they are dropped.
    #[test]
    fn what_left_in_an_outage_holds_nothing_up_after_it() {
        for (refused, cap) in [(0, None), (300, None), (0, Some(12_500)), (300, Some(12_500))] {
            for returns in [Return::Answer, Return::OtherAddress] {
                let config = SenderConfig {
                    rate_limit: cap.map(Rate::bytes_per_second),
                    ..SenderConfig::plain(Box::new(Auto::new(1200)), 8)
                };
                let (mut sender, mut now) = (Sender::new(Timestamp::ZERO, config), Timestamp::ZERO);
                for _ in 0..3 {
                    sender.push_chunk(4_000_000, false);
                }
                for _ in 0..3 {
                    let end = leave(&mut sender, now);
                    now = now + RTT;
                    sender.handle_ack(now, &ack(end));
                }
                let mut packets = Vec::new();
                for ms in 0..2300 {
                    now = now + MS;
                    if sender.poll_timeout().is_some_and(|at| at <= now) {
                        sender.handle_timeout(now);
                    }
                    while sender.poll_transmit(now, &mut packets) == Transmit::Burst {
                        if ms < refused {
                            packets.iter().for_each(|p| sender.handle_refused(now, p.number, Refusal::Room));
                            break;
                        }
                    }
                }
                let end = sender.flight.sent.next_number();
                match returns {
                    Return::Answer => sender.handle_ack(now, &ack(end)),
                    Return::OtherAddress => sender.handle_moved(now),
                }
                let waits = sender.pace.next_departure().saturating_since(now);
                assert!(waits.is_zero(), "{returns:?}, {refused} ms refused, {cap:?}: {waits:?} until data");
                assert!(
                    leave(&mut sender, now) > end,
                    "{returns:?}, {refused} ms refused, {cap:?}: nothing left"
                );
            }
        }
    }
}
