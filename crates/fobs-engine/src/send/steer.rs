//! A sending session that is changed while it runs.

use super::Sending;
use crate::steering::Steering;
use crate::{Link, Throttle};
use fobs_model::error::Result;
use fobs_model::steer::Wanted;
use fobs_proto::session::Wait;
use fobs_proto::{Rate, Timestamp};
use fobs_sys::Interest;

/// What the user or the peer has changed.
pub(super) struct Steered {
    steering: Steering,
    /// The version that is applied.
    seen: u64,
    paused: bool,
    /// The rate that no user of the peer may raise: that of its key.
    most: Option<Rate>,
}

impl Steered {
    pub(super) fn start(steering: Steering, link: &Link, throttle: &Throttle) -> Steered {
        steering.attach(link.waker());
        Steered { steering, seen: 0, paused: false, most: throttle.cap(None).map(Rate::bits_per_second) }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// The peer's user wants this.
    pub(super) fn take(&self, wanted: Wanted) {
        self.steering.replace(wanted);
    }
}

impl Sending {
    /// Applies what was changed.
    pub(super) fn steer(&mut self, now: Timestamp) {
        let Some(wanted) = self.steered.steering.news(&mut self.steered.seen) else { return };
        if let Some(bits) = wanted.limit_bps {
            let chosen = (bits > 0).then(|| Rate::bits_per_second(bits));
            let limit = self.steered.most.into_iter().chain(chosen).min();
            self.lanes.iter().for_each(|lanes| lanes.set_rate_limit(now, limit));
            self.machine.set_rate_limit(now, limit);
            self.telemetry.meter.set_cap(limit.map_or(0, |rate| rate.as_bytes().saturating_mul(8)));
        }
        if let Some(priority) = wanted.known_priority() {
            self.machine.set_priority(now, priority);
            self.lanes.iter().for_each(|lanes| lanes.set_priority(priority));
        }
        if let (true, Some(floor)) = (self.steered.paused && !wanted.paused, &mut self.floor) {
            floor.restart();
        }
        self.steered.paused = wanted.paused;
        self.lanes.iter().for_each(|lanes| lanes.set_paused(wanted.paused));
    }

    /// Sends nothing for now; acks, timers and messages go on.
    pub(super) fn wait_paused(&mut self, until: Timestamp) -> Result<()> {
        let began = self.link.clock().now();
        self.link.wait(until - began, Interest::Readable)?;
        self.telemetry.meter.waited(Wait::Cap, until - began, self.link.clock().now() - began);
        Ok(())
    }

    /// Ends a transfer that is slower than its user accepts, unless the user has paused it.
    pub(super) fn check_floor(&mut self, now: Timestamp) -> Result<()> {
        match &mut self.floor {
            Some(floor) if !self.steered.paused => floor.check(now, &self.reporter),
            _ => Ok(()),
        }
    }
}
