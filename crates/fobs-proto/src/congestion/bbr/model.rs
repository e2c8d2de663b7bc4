//! BBR's model of the path (draft-ietf-ccwg-bbr section 5.5): bandwidth, round trip, ack aggregation, and
//! the bytes in flight beyond which too much is lost.

use crate::congestion::{AckSample, LossEpisode};
use crate::recovery::DeliveryRate;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// LossThresh, Beta and Headroom: the share that a round trip may lose, the decrease on loss, the room left
/// for others.
pub(super) const LOSS_THRESH: f64 = 0.02;
pub(super) const BETA: f64 = 0.7;
pub(super) const HEADROOM: f64 = 0.15;
/// MinPipeCwnd: packets that keep acks coming.
pub(super) const MIN_PIPE_PACKETS: u64 = 4;
/// MinRTTFilterLen and ProbeRTTInterval: the span of the least round trip, and how often it is probed.
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// A sample of the bandwidth spans a round trip (draft-ietf-ccwg-bbr section 4.1), and on short paths this:
/// acks come every 64 packets or 5 ms.
const SAMPLE_MIN: Duration = Duration::from_millis(10);
/// ExtraAckedFilterLen: round trips over which ack aggregation is remembered.
const EXTRA_ACKED_ROUNDS: u32 = 10;

/// Signals of one round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    /// Fastest delivery, and bytes that it puts into a round trip.
    pub(super) bw_latest: Rate,
    pub(super) inflight_latest: u64,
    /// Bytes lost, and reports of it.
    pub(super) lost: u64,
    pub(super) loss_reports: u32,
    /// Most bytes in flight.
    in_flight_max: u64,
}

/// The model.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) packet_len: u64,
    delivery: DeliveryRate,
    delivered: (u64, u64),
    /// Fastest delivery of the present and of the last probing cycle (section 5.5.5).
    bw: [Rate; 2],
    pub(super) bw_shortterm: Option<Rate>,
    pub(super) inflight_shortterm: Option<u64>,
    pub(super) inflight_longterm: Option<u64>,
    pub(super) min_rtt: Option<Duration>,
    min_rtt_at: Timestamp,
    probe_rtt_min: Option<Duration>,
    pub(super) probe_rtt_min_at: Timestamp,
    /// When the present round began; it ends when what was sent then is acknowledged.
    round_began: Timestamp,
    pub(super) round_start: bool,
    pub(super) rounds: u64,
    pub(super) round: Round,
    /// Most bytes in flight in the round before, when what is reported lost now was sent.
    sent_in_flight: u64,
    extra: [u64; 2],
    extra_rounds: u32,
    clump_began: Timestamp,
    clump_bytes: u64,
}

impl Model {
    pub(super) fn new(packet_len: u16) -> Model {
        Model {
            packet_len: u64::from(packet_len).max(1200),
            delivery: DeliveryRate::default(),
            delivered: (0, 0),
            bw: [Rate::ZERO; 2],
            bw_shortterm: None,
            inflight_shortterm: None,
            inflight_longterm: None,
            min_rtt: None,
            min_rtt_at: Timestamp::ZERO,
            probe_rtt_min: None,
            probe_rtt_min_at: Timestamp::ZERO,
            round_began: Timestamp::ZERO,
            round_start: false,
            rounds: 0,
            round: Round::default(),
            sent_in_flight: 0,
            extra: [0; 2],
            extra_rounds: 0,
            clump_began: Timestamp::ZERO,
            clump_bytes: 0,
        }
    }

    /// Takes a bandwidth and a least round trip as measured just now.
    pub(super) fn believe(&mut self, now: Timestamp, bw: Rate, min_rtt: Duration) {
        self.set_bw(bw);
        (self.min_rtt, self.min_rtt_at) = (Some(min_rtt), now);
        (self.probe_rtt_min, self.probe_rtt_min_at) = (Some(min_rtt), now);
        self.start_round(now);
    }

    /// As if nothing faster had ever been delivered.
    pub(super) fn set_bw(&mut self, bw: Rate) {
        self.bw = [bw; 2];
    }

    /// Takes an ack. `sent` is the highest recent sending rate: no sample counts as faster (section 4.1).
    pub(super) fn on_ack(&mut self, ack: &AckSample, sent: Rate) {
        self.packet_len = u64::from(ack.packet_len).max(1200);
        // A round: the newest packet acknowledged was sent after the round began (section 5.5.1).
        self.round_start = ack.now.saturating_sub(ack.latest_rtt) >= self.round_began;
        if self.round_start {
            self.start_round(ack.now);
            self.rounds += 1;
        }
        self.round.in_flight_max = self.round.in_flight_max.max(ack.bytes_in_flight);
        self.update_min_rtt(ack);
        if let Some(rate) = self.delivery_rate(ack) {
            let rate = rate.min(sent);
            self.round.bw_latest = self.round.bw_latest.max(rate);
            // A round trip delivers what was in flight at its beginning, less what was lost (section 5.5.10).
            let delivered = self.in_flight_then().saturating_sub(self.round.lost);
            self.round.inflight_latest = self.round.inflight_latest.max(delivered);
            if rate >= self.max_bw() || !ack.app_limited {
                self.bw[0] = self.bw[0].max(rate);
            }
        }
        self.update_clump(ack);
    }

    /// Begins a round; its signals stay until the caller has used them.
    pub(super) fn start_round(&mut self, now: Timestamp) {
        self.round_began = now;
    }

    /// Signals of the round that is over are used up.
    pub(super) fn reset_round(&mut self) {
        self.sent_in_flight = self.round.in_flight_max;
        self.round = Round::default();
    }

    pub(super) fn on_sent(&mut self, bytes_in_flight: u64) {
        self.round.in_flight_max = self.round.in_flight_max.max(bytes_in_flight);
    }

    pub(super) fn on_loss(&mut self, loss: &LossEpisode) {
        self.round.lost = self.round.lost.saturating_add(loss.bytes);
        self.round.loss_reports = self.round.loss_reports.saturating_add(1);
    }

    /// Bytes in flight when the packets that are acknowledged or lost now were sent. The draft notes it
    /// with each packet; here it is that of the round.
    pub(super) fn in_flight_then(&self) -> u64 {
        if self.sent_in_flight > 0 { self.sent_in_flight } else { self.round.in_flight_max }
    }

    /// Whether the round trip lost more than is tolerated (section 5.5.10).
    pub(super) fn is_inflight_too_high(&self) -> bool {
        self.round.lost as f64 > LOSS_THRESH * self.in_flight_then() as f64
    }

    pub(super) fn max_bw(&self) -> Rate {
        self.bw[0].max(self.bw[1])
    }

    /// A probing cycle is over: the one before it is forgotten.
    pub(super) fn advance_bw_filter(&mut self) {
        self.bw = [Rate::ZERO, if self.bw[0] == Rate::ZERO { self.bw[1] } else { self.bw[0] }];
    }

    /// The bandwidth in force.
    pub(super) fn bw(&self) -> Rate {
        self.bw_shortterm.map_or(self.max_bw(), |shortterm| shortterm.min(self.max_bw()))
    }

    /// Bandwidth-delay product at the least round trip, times a gain.
    pub(super) fn bdp(&self, bw: Rate, gain: f64) -> u64 {
        match self.min_rtt {
            Some(min_rtt) => (bw.bytes_in(min_rtt) as f64 * gain) as u64,
            None => 10 * self.packet_len,
        }
    }

    pub(super) fn min_pipe(&self) -> u64 {
        MIN_PIPE_PACKETS * self.packet_len
    }

    /// Bytes beyond the model that ack aggregation needs (section 5.5.9).
    pub(super) fn extra_acked(&self) -> u64 {
        self.extra[0].max(self.extra[1])
    }

    /// The long-term bound less the room for others.
    pub(super) fn inflight_with_headroom(&self) -> Option<u64> {
        let bound = self.inflight_longterm?;
        let room = ((HEADROOM * bound as f64) as u64).max(self.packet_len);
        Some(bound.saturating_sub(room).max(self.min_pipe()))
    }

    /// Section 5.5.10: outside of probing, losses of a round trip bound bandwidth and bytes in flight.
    pub(super) fn adapt_lower_bounds(&mut self, window: u64) {
        if self.round.lost == 0 {
            return;
        }
        let bw = self.bw_shortterm.unwrap_or(self.max_bw());
        self.bw_shortterm = Some(self.round.bw_latest.max(bw.scaled(BETA)));
        let inflight = self.inflight_shortterm.unwrap_or(window);
        self.inflight_shortterm = Some(self.round.inflight_latest.max((inflight as f64 * BETA) as u64));
    }

    pub(super) fn reset_lower_bounds(&mut self) {
        self.bw_shortterm = None;
        self.inflight_shortterm = None;
    }

    /// Whether a probe of the least round trip is due.
    pub(super) fn probe_rtt_is_due(&self, now: Timestamp) -> bool {
        self.probe_rtt_min.is_some() && now - self.probe_rtt_min_at > PROBE_RTT_INTERVAL
    }

    fn delivery_rate(&mut self, ack: &AckSample) -> Option<Rate> {
        let (bytes, packets) = self.delivered;
        self.delivered = (bytes.saturating_add(ack.acked_bytes), packets.saturating_add(ack.acked_packets));
        let span = self.min_rtt?.max(SAMPLE_MIN);
        let sample = self.delivery.on_ack(ack.now.as_micros(), self.delivered.0, self.delivered.1, span)?;
        (sample.span >= span).then_some(sample.rate)
    }

    fn update_min_rtt(&mut self, ack: &AckSample) {
        // Checked before this sample counts: see the caller's order.
        let expired = self.probe_rtt_is_due(ack.now);
        if expired || self.probe_rtt_min.is_none_or(|min| ack.latest_rtt < min) {
            self.probe_rtt_min = Some(ack.latest_rtt);
            if !expired {
                self.probe_rtt_min_at = ack.now;
            }
        }
        let min_rtt_expired = ack.now - self.min_rtt_at > MIN_RTT_FILTER;
        if let Some(found) = self.probe_rtt_min
            && (min_rtt_expired || self.min_rtt.is_none_or(|min| found < min))
        {
            self.min_rtt = Some(found);
            self.min_rtt_at = ack.now;
        }
    }

    fn update_clump(&mut self, ack: &AckSample) {
        let expected = self.bw().bytes_in(ack.now - self.clump_began);
        if self.clump_bytes <= expected {
            self.clump_began = ack.now;
            self.clump_bytes = 0;
        }
        let expected = self.bw().bytes_in(ack.now - self.clump_began);
        self.clump_bytes = self.clump_bytes.saturating_add(ack.acked_bytes);
        if self.round_start {
            self.extra_rounds += 1;
            if self.extra_rounds >= EXTRA_ACKED_ROUNDS / 2 {
                self.extra_rounds = 0;
                self.extra = [0, self.extra[0]];
            }
        }
        let most = self.bdp(self.bw(), 1.0).max(self.min_pipe());
        self.extra[0] = self.extra[0].max(self.clump_bytes.saturating_sub(expected).min(most));
    }
}
