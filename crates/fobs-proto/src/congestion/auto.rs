//! `auto`, ours: a model of the path (delivery rate, round-trip time), not a reaction to single losses.
//!
//! 1. **Train**: the first flight is one short train; the receiver's arrival stamps give its dispersion, and so the
//!    bottleneck's rate, within one round trip.
//! 2. **Ramp**: starts a little below that estimate, and goes on faster each round while the path delivers what is sent and
//!    no queue grows. A wrong estimate costs one round in either direction.
//! 3. **Cruise**: paces at the largest delivery rate of the last rounds, less whatever a standing queue asks for; every eighth
//!    phase asks for more, the next gives it back.
//!
//! Random loss does not move it: the model sees what arrives. Loss in excess of what any wireless path shows, together with
//! a delivery rate below the sending rate, is overload: then the model is made anew from what arrives.

use super::max_filter::MaxFilter;
use super::{AckSample, Controller, EcnMark, LossCause, LossEpisode};
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Packets of the first train. At 1 Gbit/s 64 packets of 1200 bytes last 0.6 ms, long against the ~0.1 ms that stamps jitter;
/// they are 77 kB, which a path of 10 Mbit/s drains in 60 ms.
const TRAIN_PACKETS: u64 = 64;
/// Packets that must have arrived before the train is believed.
const TRAIN_PACKETS_MIN: u64 = 24;
/// Rate of the train: as good as back to back, and the most that it can measure.
const TRAIN_RATE: Rate = Rate::bits_per_second(20_000_000_000);
/// What is assumed where the train says nothing (it arrived as one: faster than stamps can tell).
const TRAIN_FALLBACK: Rate = Rate::bits_per_second(1_000_000_000);
/// Share of the estimate to start with: trains overestimate where a token bucket or a merging receiver hides the link.
const RAMP_START: f64 = 0.85;
/// Gains of the rounds of the ramp that found the path willing.
const RAMP_GAINS: [f64; 4] = [1.15, 1.25, 1.5, 2.0];
/// The path delivers what is sent, up to the noise of one window.
const DELIVERED_ALL: f64 = 0.93;
/// Gains of the phases of cruising: ask, give back, then hold.
const PROBE_GAIN: f64 = 1.10;
/// A probe counts as delivered from this share on: the noise of one window.
const PROBE_DELIVERED: f64 = 0.97;
const GIVE_BACK_GAIN: f64 = 0.88;
const CRUISE_PHASES: u8 = 8;
/// A phase is a round trip, but not shorter than this: windows of the delivery rate must fit.
const PHASE_MIN: Duration = Duration::from_millis(10);
/// Rounds for which the largest delivery rate stands: longer than one cycle of phases, so that a probe is remembered.
const RATE_WINDOW_ROUNDS: u64 = 10;
/// Rounds for which a rate asked may still show in samples: it arrives one round later and fills a window for another.
const ASKED_WINDOW_ROUNDS: u64 = 3;
/// Window over the bandwidth-delay product: room for acks that come late and together.
const WINDOW_GAIN: f64 = 2.0;
/// What ends and acks may add to the path's own delay: ack delay and scheduling of two hosts (stalls of up to 2.6 ms in 0.1% of sleeps, measured).
const HOST_DELAY: Duration = Duration::from_millis(4);
/// Loss per round above which a delivery rate below the sending rate means overload. Paths with 5% random loss exist.
const OVERLOAD_LOSS: f64 = 0.10;
/// Standing queue that is left alone: a twentieth of the path, and the noise of two hosts.
const QUEUE_TARGET_SHARE: u32 = 20;
const QUEUE_TARGET_MIN: Duration = Duration::from_millis(2);
/// Most that a standing queue takes off the rate.
const QUEUE_TRIM_MAX: f64 = 0.10;
/// Never slower: a few packets a second keep the feedback alive.
const RATE_MIN: Rate = Rate::bytes_per_second(10_000);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Train,
    Ramp { rounds: usize, since: Timestamp },
    Cruise { phase: u8, since: Timestamp },
}

/// The default controller.
#[derive(Debug)]
pub struct Auto {
    state: State,
    packet_len: u64,
    delivery: MaxFilter<Rate>,
    /// What was asked of the path: no delivery rate beyond it is believed.
    asked: MaxFilter<Rate>,
    probed: Rate,
    newest: Rate,
    min_rtt: Duration,
    queue: Duration,
    gain: f64,
    round: u64,
    round_began: Timestamp,
    round_acked: u64,
    round_lost: u64,
    pacing: Rate,
    window: u64,
}

impl Auto {
    /// A controller that knows nothing of the path, with packets of `packet_len` datagram bytes.
    pub fn new(packet_len: u16) -> Auto {
        let packet_len = u64::from(packet_len);
        Auto {
            state: State::Train,
            packet_len,
            delivery: MaxFilter::new(RATE_WINDOW_ROUNDS),
            asked: MaxFilter::new(ASKED_WINDOW_ROUNDS),
            probed: Rate::ZERO,
            newest: Rate::ZERO,
            min_rtt: Duration::ZERO,
            queue: Duration::ZERO,
            gain: 1.0,
            round: 0,
            round_began: Timestamp::ZERO,
            round_acked: 0,
            round_lost: 0,
            pacing: TRAIN_RATE,
            window: TRAIN_PACKETS * packet_len,
        }
    }

    fn on_train_ack(&mut self, ack: &AckSample) {
        let arrived = ack.rate.filter(|sample| sample.packets >= TRAIN_PACKETS_MIN);
        let estimate = match arrived {
            Some(sample) => sample.rate,
            // The whole train is accounted for and still gave no slope.
            None if ack.bytes_in_flight == 0 || ack.round_start && self.round_acked > self.window / 2 => {
                ack.rate.map_or(TRAIN_FALLBACK, |sample| sample.rate)
            }
            None => return,
        };
        let start = estimate.min(TRAIN_RATE).scaled(RAMP_START).max(RATE_MIN);
        self.begin_round(ack.now);
        self.state = State::Ramp { rounds: 0, since: ack.now };
        self.set_rate(start, 1.0);
    }

    fn on_ramp_ack(&mut self, ack: &AckSample, rounds: usize, since: Timestamp) {
        // The first sample that is wholly of this round comes a round trip and a window after its start.
        if ack.now - since < self.phase_len() + self.min_rtt {
            return;
        }
        let delivers_all = self.newest >= self.pacing.scaled(DELIVERED_ALL);
        let overfull = self.queue > self.queue_target() + self.min_rtt / 4;
        if ack.app_limited {
            // Not tried: hold this rate and look again after another round.
            self.state = State::Ramp { rounds, since: ack.now };
        } else if delivers_all && !overfull && self.loss_share() < OVERLOAD_LOSS {
            let gain = RAMP_GAINS[rounds.min(RAMP_GAINS.len() - 1)];
            self.state = State::Ramp { rounds: rounds + 1, since: ack.now };
            let base = self.newest.min(self.pacing);
            self.set_rate(base, gain);
            self.begin_round(ack.now);
        } else {
            let model = if rounds == 0 { self.newest } else { self.model() };
            self.delivery.reset(self.round, model.max(RATE_MIN));
            self.enter_phase(1, ack.now);
        }
    }

    fn on_cruise_ack(&mut self, ack: &AckSample, phase: u8, since: Timestamp) {
        if self.loss_share() > OVERLOAD_LOSS && ack.now - self.round_began >= self.phase_len() {
            let enough = self.round_acked.saturating_add(self.round_lost) > 32 * self.packet_len;
            self.begin_round(ack.now);
            if enough && self.newest < self.pacing.scaled(DELIVERED_ALL) {
                self.delivery.reset(self.round, self.newest.max(RATE_MIN));
                self.enter_phase(1, ack.now);
                return;
            }
        }
        if ack.now - since < self.phase_len() {
            self.set_rate(self.model(), self.gain);
            return;
        }
        // A probe that was delivered in full found new room: go on as the ramp does.
        let delivered = self.newest >= self.probed.scaled(PROBE_DELIVERED);
        if phase == 1 && !ack.app_limited && delivered && self.queue <= self.queue_target() {
            self.state = State::Ramp { rounds: 1, since: ack.now };
            self.set_rate(self.newest, RAMP_GAINS[1]);
            self.begin_round(ack.now);
            return;
        }
        let next = (phase + 1) % CRUISE_PHASES;
        if next == 0 && ack.app_limited {
            self.enter_phase(2, ack.now);
        } else {
            self.enter_phase(next, ack.now);
        }
    }

    fn enter_phase(&mut self, phase: u8, now: Timestamp) {
        self.state = State::Cruise { phase, since: now };
        self.gain = match phase {
            0 => PROBE_GAIN,
            1 => GIVE_BACK_GAIN,
            _ => 1.0,
        };
        self.set_rate(self.model(), self.gain);
        if phase == 0 {
            self.probed = self.pacing;
        }
    }

    fn set_rate(&mut self, base: Rate, gain: f64) {
        self.gain = gain;
        let trim = if matches!(self.state, State::Cruise { .. }) && gain <= 1.0 { self.queue_trim() } else { 0.0 };
        self.pacing = base.scaled(gain - trim).max(RATE_MIN);
        self.asked.update(self.round, self.pacing);
        let path = base.bytes_in(self.min_rtt) as f64 * WINDOW_GAIN.max(gain);
        self.window = path as u64 + base.bytes_in(HOST_DELAY) + 16 * self.packet_len;
    }

    /// Rate to take off for the queue that stands in the path, as a share.
    fn queue_trim(&self) -> f64 {
        let excess = self.queue.saturating_sub(self.queue_target()).as_secs_f64();
        let path = self.min_rtt.max(PHASE_MIN).as_secs_f64();
        (excess / path).min(1.0) * QUEUE_TRIM_MAX
    }

    fn queue_target(&self) -> Duration {
        (self.min_rtt / QUEUE_TARGET_SHARE).max(QUEUE_TARGET_MIN)
    }

    fn model(&self) -> Rate {
        self.delivery.max().unwrap_or(self.pacing).max(RATE_MIN)
    }

    fn phase_len(&self) -> Duration {
        self.min_rtt.max(PHASE_MIN)
    }

    fn loss_share(&self) -> f64 {
        let all = self.round_acked.saturating_add(self.round_lost);
        if all == 0 { 0.0 } else { self.round_lost as f64 / all as f64 }
    }

    fn begin_round(&mut self, now: Timestamp) {
        self.round_began = now;
        self.round_acked = 0;
        self.round_lost = 0;
    }
}

impl Controller for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.min_rtt = ack.min_rtt;
        self.queue = ack.latest_rtt.saturating_sub(ack.min_rtt);
        self.round_acked = self.round_acked.saturating_add(ack.acked_bytes);
        if ack.now - self.round_began >= self.phase_len() {
            self.round += 1;
            if self.loss_share() <= OVERLOAD_LOSS {
                self.begin_round(ack.now);
            }
        }
        if let Some(sample) = ack.rate
            && self.state != State::Train
        {
            let rate = sample.rate.min(TRAIN_RATE);
            if !ack.app_limited || rate > self.model() {
                self.newest = rate;
                // A window can be read as faster than it was sent; the model never exceeds what was asked.
                let believable = rate.min(self.asked.max().unwrap_or(self.pacing));
                self.delivery.update(self.round, believable);
            }
        }
        match self.state {
            State::Train => self.on_train_ack(ack),
            State::Ramp { rounds, since } => self.on_ramp_ack(ack, rounds, since),
            State::Cruise { phase, since } => self.on_cruise_ack(ack, phase, since),
        }
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        if loss.cause != LossCause::LocalSend {
            self.round_lost = self.round_lost.saturating_add(loss.bytes);
        }
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        // The queue marks before it drops: give back now instead of at the end of the phase.
        if let State::Cruise { phase: 0 | 2.., .. } | State::Ramp { .. } = self.state {
            let model = self.model();
            self.delivery.reset(self.round, model.scaled(0.95).max(RATE_MIN));
            self.enter_phase(1, mark.now);
        }
    }

    fn congestion_window(&self) -> u64 {
        self.window.max(4 * self.packet_len)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing)
    }

    fn state(&self) -> &'static str {
        match self.state {
            State::Train => "train",
            State::Ramp { .. } => "ramp",
            State::Cruise { phase: 0, .. } => "probe",
            State::Cruise { phase: 1, .. } => "give-back",
            State::Cruise { .. } => "cruise",
        }
    }
}
