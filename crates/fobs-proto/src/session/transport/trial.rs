//! A comparison of both ways, bounded in time and rare.

use super::{RouteReason, TransportSeen};
use crate::sender::Route;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// Length of a trial: at least this, and this many round trips. The first half is for both ways to find their
/// rate.
const LEN: Duration = Duration::from_secs(2);
const ROUND_TRIPS: u32 = 20;
/// Longest wait for the first stream.
const OPENING: Duration = Duration::from_secs(5);
/// Time to the next trial, whatever this one shows; doubles, and begins anew after as long without one.
const PAUSE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(480));
/// Streams must deliver more than this many times what datagrams do.
const FASTER: f64 = 2.0;
/// Datagrams must deliver at least this part of what streams do.
const AS_FAST: f64 = 0.9;

/// When the next trial may begin, and what the streams delivered before it.
#[derive(Debug)]
pub(super) struct Trials {
    next: Timestamp,
    pause: Duration,
    /// Frames delivered since then.
    frames: Option<(Timestamp, u64)>,
}

impl Trials {
    pub(super) fn new(now: Timestamp) -> Trials {
        Trials { next: now, pause: PAUSE.0, frames: None }
    }

    pub(super) fn may_begin(&self, now: Timestamp) -> bool {
        now >= self.next
    }

    /// Whether streams have carried the data alone for long enough to know their rate; measured from the
    /// first call on.
    pub(super) fn frames_are_measured(&mut self, seen: &TransportSeen, since: Timestamp) -> bool {
        match self.frames {
            Some((began, _)) if began >= since => seen.now - began >= len(seen) / 2,
            _ => {
                self.frames = Some((seen.now, seen.frames_delivered));
                false
            }
        }
    }

    /// Datagrams lose much: streams are tried beside them. `rate` is what datagrams delivered alone.
    pub(super) fn begin_streams(&mut self, seen: &TransportSeen, rate: Rate) -> Trial {
        self.begin(seen.now);
        Trial { kind: Kind::Streams, began: seen.now, running: None, marks: None, alone: rate }
    }

    /// Datagrams are answered: they are tried beside the streams.
    pub(super) fn begin_datagrams(&mut self, seen: &TransportSeen) -> Trial {
        self.begin(seen.now);
        let alone = self.frames.take().and_then(|(began, frames)| {
            Rate::of(seen.frames_delivered.saturating_sub(frames), seen.now - began)
        });
        Trial {
            kind: Kind::Beside,
            began: seen.now,
            running: Some(seen.now),
            marks: None,
            alone: alone.unwrap_or_default(),
        }
    }

    fn begin(&mut self, now: Timestamp) {
        let rare = now - self.next >= PAUSE.1;
        let first = if rare { PAUSE.0 } else { self.pause };
        self.next = now + first;
        self.pause = (first * 2).min(PAUSE.1);
    }
}

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Streams beside datagrams.
    Streams,
    /// Datagrams beside streams: whether they get as much as one stream does.
    Beside,
    /// Datagrams alone, with the streams still open: whether they carry as much as those did alone.
    Alone,
}

/// A trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    kind: Kind,
    began: Timestamp,
    /// Since when both ways could deliver.
    running: Option<Timestamp>,
    /// The second half.
    marks: Option<Half>,
    /// What the way in use delivered alone before.
    alone: Rate,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Half {
    since: Timestamp,
    datagrams: u64,
    frames: u64,
    seen: u32,
    idle: u32,
}

/// Where a trial leads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TrialEnd {
    NotYet,
    Datagrams(RouteReason),
    Frames(RouteReason),
    Beside(RouteReason),
}

impl Trial {
    /// The route while it lasts.
    pub(super) fn route(&self) -> Route {
        if self.kind == Kind::Alone { Route::Datagrams } else { Route::Both }
    }

    /// Takes an observation; `silent` if datagrams are not answered.
    pub(super) fn observe(&mut self, seen: &TransportSeen, silent: bool) -> TrialEnd {
        if silent {
            return match self.kind {
                Kind::Streams => TrialEnd::Beside(RouteReason::UdpDied),
                Kind::Beside | Kind::Alone => TrialEnd::Frames(RouteReason::UdpDied),
            };
        }
        if seen.streams.open == 0 && self.kind != Kind::Alone {
            // Those that were there are gone, or none can be had.
            let waited = seen.now - self.running.unwrap_or(self.began);
            let hopeless = waited >= OPENING;
            return if hopeless { TrialEnd::Datagrams(RouteReason::NoStreams) } else { TrialEnd::NotYet };
        }
        let running = *self.running.get_or_insert(seen.now);
        if seen.now - running < len(seen) / 2 {
            return TrialEnd::NotYet;
        }
        let half = self.marks.get_or_insert(Half {
            since: seen.now,
            datagrams: seen.datagrams.delivered,
            frames: seen.frames_delivered,
            seen: 0,
            idle: 0,
        });
        half.seen += 1;
        half.idle += u32::from(seen.idle);
        if seen.now - half.since < len(seen) / 2 {
            return TrialEnd::NotYet;
        }
        let half = *half;
        self.judge(seen, &half)
    }

    fn judge(&mut self, seen: &TransportSeen, half: &Half) -> TrialEnd {
        let rate = |bytes: u64| Rate::of(bytes, seen.now - half.since).unwrap_or_default();
        let udp = rate(seen.datagrams.delivered.saturating_sub(half.datagrams));
        let tcp = rate(seen.frames_delivered.saturating_sub(half.frames));
        let all_there_is = 2 * half.idle > half.seen;
        match self.kind {
            Kind::Streams if tcp > udp.max(self.alone).scaled(FASTER) => {
                TrialEnd::Frames(RouteReason::UdpThrottled { udp: udp.max(self.alone), tcp })
            }
            Kind::Streams => TrialEnd::Datagrams(RouteReason::TcpNoFaster),
            Kind::Beside => {
                let one = tcp.scaled(AS_FAST / f64::from(seen.streams.open.max(1)));
                if udp < one || udp == Rate::ZERO {
                    return TrialEnd::Frames(RouteReason::UdpThrottled { udp, tcp });
                }
                (self.kind, self.running, self.marks) = (Kind::Alone, Some(seen.now), None);
                TrialEnd::NotYet
            }
            Kind::Alone if udp >= self.alone.scaled(AS_FAST) || all_there_is => {
                TrialEnd::Datagrams(RouteReason::UdpHealed)
            }
            Kind::Alone => TrialEnd::Frames(RouteReason::UdpThrottled { udp, tcp: self.alone }),
        }
    }
}

/// How long a trial lasts.
fn len(seen: &TransportSeen) -> Duration {
    LEN.max(ROUND_TRIPS * seen.datagrams.round_trip.max(seen.streams.round_trip))
}
