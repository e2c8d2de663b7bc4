//! A transfer's streams between its two ends: by which way packets leave, frames and reports.

use super::streams::{StreamEvent, Streams};
use super::{CONTROL_DELAY, FobsConfig, FobsFlow, Identity};
use crate::flow::Role;
use crate::net::Net;
use crate::packet::Way;
use crate::rng::Rng;
use crate::time::{Nanos, stamp};
use fobs_proto::session::{RouteChange, StreamsOpen, TransportConfig, TransportPolicy};
use std::time::Duration;

/// Changes of the route that are kept; of more, the first.
const CHANGES_MAX: usize = 1024;

/// The streams, and the policy that wants them.
#[derive(Debug)]
pub(super) struct Framing {
    streams: Streams,
    policy: TransportPolicy,
    pub(super) changes: Vec<RouteChange>,
}

impl Framing {
    /// `None` for a transfer that knows no streams.
    pub(super) fn new(me: Identity, config: &FobsConfig, rng: Rng) -> Option<Box<Framing>> {
        let streams = config.streams.clone()?;
        let policy = TransportPolicy::new(TransportConfig {
            began: stamp(me.start),
            choice: streams.choice,
            peer_has_streams: true,
            streams: streams.target,
        });
        Some(Box::new(Framing { streams: Streams::new(streams, rng), policy, changes: Vec::new() }))
    }

    /// The same streams' next attempt.
    pub(super) fn again(&self, me: Identity, config: &FobsConfig, rng: Rng) -> Option<Box<Framing>> {
        let faults = self.streams.faults().clone();
        let mut next = Framing::new(me, config, rng)?;
        next.streams.set_faults(faults);
        next.changes = self.changes.clone();
        Some(next)
    }

    pub(super) fn clear(&mut self) {
        self.streams.clear();
    }

    pub(super) fn calm(&mut self) {
        self.streams.calm();
    }

    /// The best number of streams as far as it is known, and those that have ended by themselves.
    pub(super) fn figures(&self) -> (u32, u64) {
        (self.policy.streams_found().unwrap_or_default(), self.streams.ended)
    }
}

impl FobsFlow {
    /// The policy looks, at the start and at each heartbeat.
    pub(super) fn direct(&mut self, net: &mut Net) {
        let Some(framing) = &mut self.framing else { return };
        let round_trip = net.delay(self.me.id, Way::Data) + net.delay(self.me.id, Way::Acks);
        let (open, connecting) = framing.streams.open(net.now);
        let round_trip_length = Duration::from_nanos(round_trip);
        let brake = framing.streams.brake(net.now);
        let streams = StreamsOpen { open, connecting, round_trip: round_trip_length, brake };
        let directive = self.sending.direct(net, &mut framing.policy, streams);
        framing.streams.want(net.now, directive.streams, round_trip);
        while let Some(change) = framing.policy.poll_change() {
            if framing.changes.len() < CHANGES_MAX {
                framing.changes.push(change);
            }
        }
        self.on_streams(net);
    }

    /// Frames arrive, reports come back, streams end; those that are free take further frames.
    pub(super) fn on_streams(&mut self, net: &mut Net) {
        if self.alive() != (true, true) || !self.outcome.is_running() {
            return;
        }
        let Some(mut framing) = self.framing.take() else { return };
        let delays = (net.delay(self.me.id, Way::Data), net.delay(self.me.id, Way::Acks) + CONTROL_DELAY);
        while let Some(event) = framing.streams.pop(net.now) {
            match event {
                StreamEvent::Arrived(pipe, frame) => {
                    self.receiving.on_frame(net, &self.config, &self.cut, &frame);
                    let ack = self.receiving.newest_ack().map(|(ack, _)| Box::new(ack.clone()));
                    framing.streams.report(net.now + delays.1, pipe, Some(frame.id), ack);
                }
                StreamEvent::Reported(frame, ack) => self.sending.on_report(net, frame, ack.as_deref()),
                StreamEvent::Lost(frame) => self.sending.on_frame_lost(net, frame),
                StreamEvent::Late(frame) => self.sending.on_frame_late(net, frame),
            }
        }
        if let Some(pipe) = framing.streams.way_back(net.now)
            && let Some((ack, false)) = self.receiving.newest_ack()
        {
            framing.streams.report(net.now + delays.1, pipe, None, Some(Box::new(ack.clone())));
        }
        let mut next = framing.streams.next(net.now);
        while framing.streams.has_room(net.now) {
            match self.sending.poll_frame(net, &self.cut) {
                Ok(frame) => framing.streams.push(net.now, frame, delays),
                Err(wait) => {
                    next = [next, wait].into_iter().flatten().min();
                    break;
                }
            }
        }
        let next: Option<Nanos> = [next, framing.streams.next(net.now)].into_iter().flatten().min();
        net.agenda.set(self.me.slot(Role::Streams), next);
        self.framing = Some(framing);
    }
}
