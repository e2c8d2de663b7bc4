//! One controller for all lanes of a session that use one path: together they claim what one flow would.
//!
//! The controller sees the lanes as one sender: bytes in flight and delivery rates are sums, round trips
//! those of one lane. Its pacing rate is divided equally among the lanes that send, and each may fill what
//! the others leave of its window. The lanes' times must be comparable: at either end they have one clock.

use super::{
    AckSample, Adaptive, BurstSent, Claim, Controller, EcnMark, Fixed, FoundLosses, LossEpisode,
    LossEvidence, LossResponse, ModeChange, Outcome, PathHistory, Priority, RateSource,
};
use crate::recovery::RateSample;
use crate::{Rate, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a lane that sends nothing still counts as one that sends, beside two round trips: as long as it
/// may wait for its next chunk.
const ACTIVE_MIN: Duration = Duration::from_millis(100);
/// Full packets that each lane may have in flight, whatever the others have: what RFC 9002 section 7.2 grants
/// at least.
const WINDOW_MIN: u64 = 2;

/// The congestion state of a path. Clones are the same one.
#[derive(Debug, Clone)]
pub struct PathShare(Arc<Mutex<SharedPath>>);

#[derive(Debug)]
struct SharedPath {
    inner: Box<dyn Controller>,
    lanes: Vec<LaneLoad>,
    now: Timestamp,
    /// Lanes that send, and when their number changed.
    active: usize,
    changed: Timestamp,
    /// The lane whose round trips count, and when its last one began.
    round: (usize, Timestamp),
    packet_len: u64,
    is_recalled: bool,
}

/// What one lane adds.
#[derive(Debug, Clone, Copy, Default)]
struct LaneLoad {
    in_flight: u64,
    /// It counts as sending until then.
    active_until: Timestamp,
    rate: Option<(Timestamp, RateSample)>,
    /// When it was last answered.
    answered: Timestamp,
    /// Its packets have had no answer while those of another lane had: the path is not to blame, and it has
    /// no part of it until it is answered.
    is_silent: bool,
}

/// One lane's part of the controller.
#[derive(Debug)]
struct LaneShare {
    path: PathShare,
    lane: usize,
    is_adaptive: bool,
}

impl PathShare {
    /// The state of a path that this controller will model, with packets of `packet_len` datagram bytes at
    /// first.
    pub fn new(inner: Box<dyn Controller>, packet_len: u16) -> PathShare {
        PathShare(Arc::new(Mutex::new(SharedPath {
            inner,
            lanes: Vec::new(),
            now: Timestamp::ZERO,
            active: 0,
            changed: Timestamp::ZERO,
            round: (0, Timestamp::ZERO),
            packet_len: u64::from(packet_len),
            is_recalled: false,
        })))
    }

    /// The state of a path that a sender has used alone so far: `controller` becomes that of its first lane,
    /// which has `in_flight` bytes in flight.
    pub fn around(
        controller: &mut Box<dyn Controller>,
        now: Timestamp,
        (in_flight, packet_len): (u64, u16),
    ) -> PathShare {
        let nobody: Box<dyn Controller> = Box::new(Fixed::new(Rate::bytes_per_second(1)));
        let share = PathShare::new(std::mem::replace(controller, nobody), packet_len);
        *controller = share.lane();
        let mut path = share.lock();
        path.is_recalled = true;
        path.touch(now, 0, in_flight, Duration::ZERO);
        path.round = (0, now);
        drop(path);
        share
    }

    /// The controller of another lane.
    pub fn lane(&self) -> Box<dyn Controller> {
        let mut path = self.lock();
        path.lanes.push(LaneLoad::default());
        let lanes = u32::try_from(path.lanes.len()).unwrap_or(u32::MAX);
        path.inner.carried_by(lanes);
        let (lane, is_adaptive) = (path.lanes.len() - 1, path.inner.as_adaptive().is_some());
        drop(path);
        Box::new(LaneShare { path: self.clone(), lane, is_adaptive })
    }

    /// A lane that panicked has left the state as it was between two calls, or half an ack behind.
    fn lock(&self) -> MutexGuard<'_, SharedPath> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedPath {
    /// A lane has this in flight now, and counts as sending for a while.
    fn touch(&mut self, now: Timestamp, lane: usize, in_flight: u64, round_trip: Duration) {
        self.now = self.now.max(now);
        let load = &mut self.lanes[lane];
        load.in_flight = in_flight;
        if !load.is_silent {
            load.active_until = load.active_until.max(now + (2 * round_trip).max(ACTIVE_MIN));
        }
        self.recount();
    }

    fn recount(&mut self) {
        let active = self.lanes.iter().filter(|load| load.is_active(self.now)).count();
        if active != self.active {
            self.changed = self.now;
            self.active = active;
        }
    }

    /// A lane's flight is lost, and others are answered; whether that is news.
    fn falls_silent(&mut self, now: Timestamp, lane: usize) -> bool {
        self.now = self.now.max(now);
        let load = &mut self.lanes[lane];
        (load.rate, load.active_until) = (None, Timestamp::ZERO);
        let is_news = !std::mem::replace(&mut load.is_silent, true);
        self.recount();
        is_news
    }

    fn in_flight(&self) -> u64 {
        self.lanes.iter().map(|load| load.in_flight).sum()
    }

    /// The delivery rate of all lanes, where each has been measured since their number changed.
    fn rate(&self, newest: RateSample, round_trip: Duration) -> Option<RateSample> {
        let since = self.changed + round_trip;
        let mut sum = 0u64;
        for load in self.lanes.iter().filter(|load| load.is_active(self.now)) {
            match load.rate {
                Some((at, sample)) if at >= since || self.active == 1 => {
                    sum = sum.saturating_add(sample.rate.as_bytes());
                }
                Some(_) => return None,
                // It has not delivered anything yet.
                None => {}
            }
        }
        Some(RateSample { rate: Rate::bytes_per_second(sum), ..newest })
    }

    /// Whether a lane's round trip is the path's.
    fn begins_round(&mut self, lane: usize, ack: &AckSample) -> bool {
        let (leader, since) = self.round;
        let begins = ack.round_start && (lane == leader || ack.now - since > ack.latest_rtt * 3 / 2);
        if begins {
            self.round = (lane, ack.now);
        }
        begins
    }
}

impl LaneLoad {
    fn is_active(&self, now: Timestamp) -> bool {
        self.active_until > now
    }
}

impl Controller for LaneShare {
    fn name(&self) -> &'static str {
        self.path.lock().inner.name()
    }

    fn on_sent(&mut self, sent: &BurstSent) {
        let mut path = self.path.lock();
        path.touch(sent.now, self.lane, sent.bytes_in_flight, Duration::ZERO);
        let bytes_in_flight = path.in_flight();
        path.inner.on_sent(&BurstSent { bytes_in_flight, ..*sent });
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let mut path = self.path.lock();
        path.lanes[self.lane].is_silent = false;
        path.touch(ack.now, self.lane, ack.bytes_in_flight, ack.smoothed_rtt);
        path.packet_len = u64::from(ack.packet_len);
        let load = &mut path.lanes[self.lane];
        load.rate = ack.rate.map(|rate| (ack.now, rate)).or(load.rate);
        load.answered = ack.now;
        let sample = AckSample {
            bytes_in_flight: path.in_flight(),
            rate: ack.rate.and_then(|newest| path.rate(newest, ack.smoothed_rtt)),
            round_start: path.begins_round(self.lane, ack),
            ..*ack
        };
        path.inner.on_ack(&sample);
    }

    fn on_loss(&mut self, loss: &LossEpisode) {
        let mut path = self.path.lock();
        path.lanes[self.lane].in_flight = loss.bytes_in_flight;
        // Where another lane is answered, this one's silence is not the path's.
        let others_hear = path.lanes.iter().any(|load| load.answered > loss.sent.1);
        if others_hear && loss.evidence == LossEvidence::Silence && !path.falls_silent(loss.now, self.lane) {
            return;
        }
        let evidence = if others_hear { LossEvidence::Acks } else { loss.evidence };
        let bytes_in_flight = path.in_flight();
        path.inner.on_loss(&LossEpisode { bytes_in_flight, evidence, ..*loss });
    }

    fn on_found(&mut self, found: &FoundLosses) {
        self.path.lock().inner.on_found(found);
    }

    fn on_ecn(&mut self, mark: &EcnMark) {
        self.path.lock().inner.on_ecn(mark);
    }

    fn on_block(&mut self, block: &Outcome) {
        self.path.lock().inner.on_block(block);
    }

    fn on_chunk(&mut self, chunk: &Outcome) {
        self.path.lock().inner.on_chunk(chunk);
    }

    fn begin_again(&mut self) {
        self.path.lock().inner.begin_again();
    }

    fn recall(&mut self, history: &PathHistory) {
        let mut path = self.path.lock();
        if !std::mem::replace(&mut path.is_recalled, true) {
            path.inner.recall(history);
        }
    }

    fn remember(&self, history: &mut PathHistory) {
        self.path.lock().inner.remember(history);
    }

    fn congestion_window(&self) -> u64 {
        let path = self.path.lock();
        let others = path.in_flight().saturating_sub(path.lanes[self.lane].in_flight);
        path.inner.congestion_window().saturating_sub(others).max(WINDOW_MIN * path.packet_len)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let path = self.path.lock();
        let others = path.lanes.iter().enumerate();
        let others = others.filter(|(lane, load)| *lane != self.lane && load.is_active(path.now)).count();
        let share =
            |rate: Rate| Rate::bytes_per_second((rate.as_bytes() / (others as u64 + 1)).max(path.packet_len));
        path.inner.pacing_rate().map(share)
    }

    fn rate_window(&self) -> Duration {
        self.path.lock().inner.rate_window()
    }

    fn rate_source(&self) -> RateSource {
        self.path.lock().inner.rate_source()
    }

    fn loss_response(&self) -> LossResponse {
        self.path.lock().inner.loss_response()
    }

    fn as_adaptive(&mut self) -> Option<&mut dyn Adaptive> {
        if self.is_adaptive { Some(self) } else { None }
    }

    fn state(&self) -> &'static str {
        self.path.lock().inner.state()
    }
}

impl Adaptive for LaneShare {
    fn claim(&mut self, now: Timestamp, claim: Claim) {
        if let Some(adaptive) = self.path.lock().inner.as_adaptive() {
            adaptive.claim(now, claim);
        }
    }

    fn priority(&self) -> Priority {
        self.path.lock().inner.as_adaptive().map_or_else(Priority::default, |adaptive| adaptive.priority())
    }

    fn poll_mode_change(&mut self) -> Option<ModeChange> {
        self.path.lock().inner.as_adaptive()?.poll_mode_change()
    }
}

impl Drop for LaneShare {
    /// A lane that has ended has nothing in flight.
    fn drop(&mut self) {
        self.path.lock().lanes[self.lane] = LaneLoad::default();
    }
}

#[cfg(test)]
mod tests;
