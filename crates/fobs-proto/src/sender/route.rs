//! By which way packets leave: datagrams, frames on streams, or both (protocol 10.4).

use super::packet::{PacketOut, Transmit};
use super::schedule::{Origin, Slot};
use super::{Carrier, Sender};
use crate::Timestamp;
use crate::congestion::{LossCause, LossEpisode, LossEvidence};
use crate::recovery::SentKind;
use std::time::Duration;

/// Where only frames carry data, time to the first probe that shows whether datagrams pass again; later ones
/// double, up to the second. A path that heals is used again soon, and one that stays blocked costs a packet
/// of 48 bytes every 10 s.
const PROBE_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The ways that packets take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Route {
    /// Datagrams only.
    #[default]
    Datagrams,
    /// Datagrams and frames, each as fast as it can.
    Both,
    /// Frames only; a small probe now and then shows whether datagrams pass again.
    Frames,
}

impl Route {
    /// Whether frames may leave.
    pub fn has_frames(self) -> bool {
        self != Route::Datagrams
    }

    /// Whether data leaves in datagrams.
    pub fn has_datagrams(self) -> bool {
        self != Route::Frames
    }
}

/// When datagrams are probed while only frames carry data.
#[derive(Debug)]
pub(super) struct RouteProbe {
    at: Timestamp,
    interval: Duration,
}

impl RouteProbe {
    pub(super) fn new(now: Timestamp) -> RouteProbe {
        RouteProbe { at: now + PROBE_EVERY.0, interval: PROBE_EVERY.0 }
    }

    /// Whether one leaves now.
    fn take(&mut self, now: Timestamp) -> bool {
        if now < self.at {
            return false;
        }
        self.interval = (self.interval * 2).min(PROBE_EVERY.1);
        self.at = now + self.interval;
        true
    }
}

impl Sender {
    /// Whether something was sent that waits for its answer: data in flight in datagrams or frames.
    pub fn awaits_answer(&self) -> bool {
        self.frames_outstanding().frames > 0 || self.datagrams_await_answer()
    }

    /// Whether datagrams are to carry data and are in flight, or were refused by the local host.
    fn datagrams_await_answer(&self) -> bool {
        self.route().has_datagrams() && (self.bytes_in_flight() > 0 || self.refused)
    }

    /// Likewise, or were lost and wait for being sent again: small probes that are answered are no answer to
    /// those.
    pub fn datagrams_owe_data(&self) -> bool {
        self.datagrams_await_answer()
            || self.route().has_datagrams() && self.flight.supply.chunks.any_unanswered()
    }

    /// By which way packets leave.
    pub fn route(&self) -> Route {
        self.frames.route
    }

    /// From now on packets leave by this way. Frames that are outstanding stay so. Datagrams that are
    /// outstanding where only frames are wanted are given back to the schedule, and no controller takes them
    /// for lost; a controller whose datagrams are wanted again begins with care.
    pub fn set_route(&mut self, now: Timestamp, route: Route) {
        let before = std::mem::replace(&mut self.frames.route, route);
        if before == route {
            return;
        }
        if before == Route::Datagrams {
            self.pace.share(now);
        }
        if !route.has_datagrams() {
            self.abandon_datagrams();
            self.refused = false;
            self.frames.probe = RouteProbe::new(now);
        } else if !before.has_datagrams() {
            self.abandon_datagrams();
            self.controller.on_loss(&LossEpisode {
                now,
                packets: 0,
                bytes: 0,
                bytes_in_flight: 0,
                sent: (now, now),
                evidence: LossEvidence::Silence,
                cause: LossCause::Inconclusive,
            });
            self.handle_moved(now);
        }
    }

    /// What is in flight in datagrams goes back to the schedule.
    fn abandon_datagrams(&mut self) {
        let mut abandoned = Vec::new();
        self.flight.sent.abandon_all(|packet| abandoned.push(packet));
        for packet in abandoned {
            let SentKind::Data { chunk, index, attempt } = packet.sent.kind else { continue };
            let carrier = Carrier::datagram(packet.number);
            if self.flight.supply.chunks.needs_again(chunk, index, attempt, carrier) {
                self.flight.schedule.hand_over(Slot { chunk, index }, attempt, carrier, Origin::Lost);
                self.flight.stats.packets_abandoned += 1;
            }
        }
        self.rate.start_over(self.flight.sent.next_number());
    }

    /// Where only frames carry data, the probe that is due.
    pub(super) fn poll_route_probe(&mut self, now: Timestamp, out: &mut Vec<PacketOut>) -> Transmit {
        if self.frames.probe.take(now) {
            // Those before were not answered; they must not look like data that is.
            self.flight.sent.abandon_all(|_| {});
            out.push(self.flight.send_ping(now));
            return Transmit::Burst;
        }
        Transmit::WaitUntil(self.frames.probe.at)
    }
}
