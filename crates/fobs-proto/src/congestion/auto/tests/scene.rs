//! A path whose moods change, as one flow of fluid: enough to lead a controller through all of its states,
//! and quick.

use super::super::super::testing::PACKET;
use super::super::super::{
    AckSample, BurstSent, Claim, Controller, EcnMark, LossCause, LossEpisode, LossEvidence,
};
use super::super::Priority;
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use proptest::prelude::*;
use std::time::Duration;

/// Time from ack to ack.
const STEP: Duration = Duration::from_millis(2);
/// Bytes that the host puts out at once.
const BURST: u64 = 20 * PACKET as u64;
/// Time that the rate is measured over.
const SPAN: Duration = Duration::from_millis(10);

/// What the path does for a while.
#[derive(Debug, Clone)]
pub struct Mood {
    pub lasts: Duration,
    pub link: Rate,
    pub base: Duration,
    /// Share of the link that others send at.
    pub others: f64,
    /// Least queue that competing traffic holds, round trips.
    pub held: f64,
    /// Queue that the path holds, in round trips; what is beyond is lost.
    pub limit: f64,
    /// Share of packets lost at random.
    pub loss: f64,
    pub cause: LossCause,
    /// Mark instead of losing, above a quarter of the queue.
    pub marks: bool,
    pub app_limited: bool,
    pub claim: Option<Claim>,
}

/// A simulated path.
pub struct Scene {
    now: Timestamp,
    began: Timestamp,
    queue: f64,
    least: Duration,
    acked: Vec<(Timestamp, f64)>,
    carry: f64,
    lost: f64,
}

impl Scene {
    pub fn new() -> Scene {
        let now = Timestamp::from_nanos(1_000_000);
        let least = Duration::MAX;
        Scene { now, began: now, queue: 0.0, least, acked: Vec::new(), carry: 0.0, lost: 0.0 }
    }

    /// Leads a controller through a mood.
    pub fn play<C: Controller>(&mut self, c: &mut C, mood: &Mood) {
        if let (Some(claim), Some(adaptive)) = (mood.claim, c.as_adaptive()) {
            adaptive.claim(self.now, claim);
        }
        let until = self.now + mood.lasts;
        while self.now < until {
            self.step(c, mood);
        }
    }

    fn step<C: Controller>(&mut self, c: &mut C, mood: &Mood) {
        self.now = self.now + STEP;
        let (dt, link) = (STEP.as_secs_f64(), mood.link.as_bytes() as f64);
        let rtt = mood.base.as_secs_f64() + self.queue / link;
        let window = c.congestion_window() as f64 / rtt;
        let pace = c.pacing_rate().map_or(window, |rate| rate.as_bytes() as f64).min(window);
        let sent = if mood.app_limited { pace.min(0.3 * link) } else { pace };
        self.send(c, sent * dt, sent * rtt);
        let others = mood.others * link;
        self.queue = (self.queue + (sent + others - link) * dt).max(mood.held * rtt * link).max(0.0);
        let limit = mood.limit * mood.base.as_secs_f64() * link;
        let over = (self.queue - limit).max(0.0);
        self.queue -= over;
        let part = sent / (sent + others).max(1.0);
        let arrives = if self.queue > 0.0 { (link * part).min(sent.max(0.05 * link * part)) } else { sent };
        self.lost += mood.loss * arrives * dt / f64::from(PACKET);
        if !mood.marks {
            self.lost += over * part / f64::from(PACKET);
        }
        self.news(c, mood, over);
        self.ack(c, mood, arrives * (1.0 - mood.loss) * dt, sent);
    }

    fn send<C: Controller>(&mut self, c: &mut C, bytes: f64, in_flight: f64) {
        self.carry += bytes;
        // A train leaves in several bursts.
        for _ in 0..8 {
            if self.carry < BURST as f64 {
                break;
            }
            self.carry -= BURST as f64;
            let bytes_in_flight = in_flight as u64 + BURST;
            c.on_sent(&BurstSent { now: self.now, packets: 20, bytes: BURST, bytes_in_flight });
        }
        self.carry = self.carry.min(BURST as f64);
    }

    fn news<C: Controller>(&mut self, c: &mut C, mood: &Mood, over: f64) {
        let quarter = 0.25 * mood.limit * mood.base.as_secs_f64() * mood.link.as_bytes() as f64;
        if mood.marks && (over > 0.0 || self.queue > quarter) {
            c.on_ecn(&EcnMark { now: self.now, packets: 1 });
        }
        let packets = self.lost as u64;
        self.lost -= packets as f64;
        if packets > 0 {
            c.on_loss(&LossEpisode {
                now: self.now,
                packets,
                bytes: packets * u64::from(PACKET),
                bytes_in_flight: BURST,
                sent: (self.now, self.now),
                evidence: LossEvidence::Acks,
                cause: mood.cause,
            });
        }
    }

    fn ack<C: Controller>(&mut self, c: &mut C, mood: &Mood, bytes: f64, sent: f64) {
        let rtt = mood.base + Duration::from_secs_f64(self.queue / mood.link.as_bytes() as f64);
        self.least = self.least.min(rtt);
        self.acked.push((self.now, bytes));
        let span = SPAN.max(rtt / 4);
        self.acked.retain(|(at, _)| self.now - *at < span);
        let over: f64 = self.acked.iter().map(|(_, bytes)| bytes).sum();
        let time = STEP * self.acked.len() as u32;
        let sample = |bytes: f64, span: Duration| {
            let rate = Rate::of(bytes as u64, span).unwrap_or(Rate::ZERO);
            Some(RateSample { rate, span, packets: bytes as u64 / u64::from(PACKET) })
        };
        let round_start = self.now - self.began >= rtt;
        if round_start {
            self.began = self.now;
        }
        c.on_ack(&AckSample {
            now: self.now,
            acked_bytes: bytes as u64,
            acked_packets: bytes as u64 / u64::from(PACKET),
            packet_len: PACKET,
            bytes_in_flight: (sent * rtt.as_secs_f64()) as u64 + 1,
            latest_rtt: rtt,
            one_way: rtt,
            smoothed_rtt: rtt,
            min_rtt: self.least.max(mood.base.min(self.least)),
            rate: sample(over, time),
            app_limited: mood.app_limited,
            round_start,
        });
    }
}

/// Any mood.
pub fn mood() -> impl Strategy<Value = Mood> {
    let often =
        |usual: f64, others: Vec<f64>| prop_oneof![3 => Just(usual), 1 => prop::sample::select(others)];
    let path = (
        prop::sample::select(vec![60, 150, 400, 1200, 3000, 6000]),
        prop_oneof![4 => Just(100u64), 2 => prop::sample::select(vec![1, 10, 50, 80, 200, 400, 1000, 5000])],
        prop_oneof![4 => Just(40u64), 2 => prop::sample::select(vec![2, 20, 30, 60, 150])],
        often(0.0, vec![0.2, 0.5, 0.9, 1.5]),
        often(0.0, vec![0.1, 0.3, 0.6]),
        often(1.0, vec![0.02, 0.2, 4.0]),
        often(0.0, vec![0.01, 0.05, 0.5]),
    );
    let cause =
        prop::sample::select(vec![LossCause::Inconclusive, LossCause::Receiver, LossCause::LocalSend]);
    let claim = (prop::sample::select(Priority::ALL.to_vec()), prop::option::of(1_000_000u64..20_000_000));
    let claim = claim
        .prop_map(|(priority, ceiling)| Claim { priority, ceiling: ceiling.map(Rate::bytes_per_second) });
    let rest =
        (cause, prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::option::weighted(0.15, claim));
    (path, rest).prop_map(
        |((ms, mbit, rtt, others, held, limit, loss), (cause, marks, app_limited, claim))| Mood {
            lasts: Duration::from_millis(ms),
            link: Rate::bits_per_second(mbit * 1_000_000),
            base: Duration::from_millis(rtt),
            others,
            held,
            limit,
            loss,
            cause,
            marks,
            app_limited,
            claim,
        },
    )
}
