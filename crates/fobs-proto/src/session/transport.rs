//! By which way packets leave (protocol 9.6): the sending side decides, at every heartbeat.
//!
//! ```text
//!   Asking     datagrams, not answered yet            -> Datagrams, Beside
//!   Datagrams  datagrams, answered                    -> Beside (silence), Trial (losses)
//!   Beside     both: datagrams are not answered       -> Frames (streams deliver), Datagrams (they deliver)
//!   Frames     streams only, datagrams probed         -> Trial (a probe is answered), Beside (no stream)
//!   Trial      both, for a few seconds, to compare    -> Datagrams, Frames, Beside
//! ```
//!
//! It never flaps: each trial doubles the time to the next one, and each silence of datagrams or streams the
//! time for which they must deliver before they are trusted alone.

mod seen;
mod trial;

pub use seen::{DatagramsSeen, StreamsOpen, TransportSeen};

use super::stream_count::{StreamCount, StreamTarget, StreamsSeen};
use crate::sender::Route;
use crate::{Rate, Timestamp};
use seen::LossWindows;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use trial::{Trial, TrialEnd, Trials};

/// Datagrams without an answer for this long at the start bring streams beside them: three times the longest
/// round trips of the Internet, and short beside a user's patience.
const ASKING: Duration = Duration::from_secs(1);
/// And in mid-transfer, at least this long and this many round trips: less is a reroute, or a full queue.
const SILENCE: Duration = Duration::from_secs(1);
const SILENCE_ROUND_TRIPS: u32 = 4;
/// Bytes that datagrams must deliver before they are trusted again: more than the first packets, which a
/// middlebox may let pass.
const DELIVERS: u64 = 256 << 10;
/// Streams that deliver nothing for this long carry nothing: longer than a TCP retransmission timeout and its
/// first doubling on long paths.
const STREAMS_SILENCE: Duration = Duration::from_secs(3);
/// Without a stream that is open or being opened for this long there is none.
const STREAMS_GONE: Duration = Duration::from_secs(1);
/// For how long a way must deliver after its second silence before it is trusted alone; doubles with each
/// further one.
const HOLD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A way that was not silent for this long is trusted as at first.
const FORGIVEN: Duration = Duration::from_secs(120);
/// A heartbeat this late was the host's own stall: nothing was listened to meanwhile.
const STALL: Duration = Duration::from_millis(600);
/// Changes that wait to be taken; beyond that the oldest is dropped.
const CHANGES_MAX: usize = 64;

/// What the user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransportChoice {
    /// Datagrams, and nothing else.
    Udp,
    /// Streams, and nothing else.
    Tcp {
        /// How many; `None` finds the number.
        count: Option<u32>,
    },
    /// What delivers.
    #[default]
    Auto,
}

/// What a [`TransportPolicy`] is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportConfig {
    /// When the session's data plane began.
    pub began: Timestamp,
    /// What the user chose.
    pub choice: TransportChoice,
    /// Whether the peer knows streams.
    pub peer_has_streams: bool,
    /// How many streams where they carry the data and the user did not say.
    pub streams: StreamTarget,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directive {
    /// By which way packets leave.
    pub route: Route,
    /// Streams to be open at once.
    pub streams: u32,
}

/// A change of the route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteChange {
    /// When.
    pub at: Timestamp,
    /// The new one.
    pub route: Route,
    /// Why.
    pub reason: RouteReason,
}

/// Why the route is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteReason {
    /// The user chose it.
    Chosen,
    /// No datagram was ever answered.
    UdpSilent,
    /// Datagrams were answered and no longer are.
    UdpDied,
    /// Datagrams are lost, so streams are tried beside them.
    UdpLossy,
    /// Datagrams deliver far less than streams, bytes per second.
    UdpThrottled {
        /// What datagrams deliver.
        udp: Rate,
        /// What streams deliver.
        tcp: Rate,
    },
    /// A probe was answered, so datagrams are tried beside the streams.
    UdpAnswers,
    /// Datagrams deliver.
    UdpHealed,
    /// Streams deliver no more than datagrams do.
    TcpNoFaster,
    /// No stream carries data.
    NoStreams,
}

impl fmt::Display for RouteReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteReason::Chosen => f.write_str("the only way that this copy uses"),
            RouteReason::UdpSilent => f.write_str("no answer over UDP"),
            RouteReason::UdpDied => f.write_str("UDP is no longer answered"),
            RouteReason::UdpLossy => f.write_str("UDP loses many packets"),
            RouteReason::UdpThrottled { udp, tcp } => write!(f, "UDP delivers {udp}, TCP {tcp}"),
            RouteReason::UdpAnswers => f.write_str("UDP is answered again"),
            RouteReason::UdpHealed => f.write_str("UDP delivers"),
            RouteReason::TcpNoFaster => f.write_str("TCP is not much faster than UDP"),
            RouteReason::NoStreams => f.write_str("no TCP stream carries data"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// The route is the user's, or the only one.
    Settled,
    Asking,
    Datagrams,
    Beside {
        reason: RouteReason,
        since: Timestamp,
        datagrams: u64,
        frames: u64,
    },
    /// `answers` were counted when it began.
    Frames {
        since: Timestamp,
        answers: u64,
    },
    Trial(Trial),
}

/// When something last moved, and how long it must deliver before it is trusted.
#[derive(Debug, Clone, Copy)]
struct Trust {
    total: u64,
    moved: Timestamp,
    failed: Option<Timestamp>,
    hold: Duration,
}

impl Trust {
    fn new(now: Timestamp) -> Trust {
        Trust { total: 0, moved: now, failed: None, hold: Duration::ZERO }
    }

    /// Takes the total delivered; while nothing is `due`, silence is no sign.
    fn observe(&mut self, now: Timestamp, total: u64, due: bool) {
        if total != self.total || !due {
            (self.total, self.moved) = (total, now);
        }
    }

    /// It failed once more.
    fn fail(&mut self, now: Timestamp) {
        self.hold = match self.failed {
            Some(before) if now - before < FORGIVEN => (self.hold * 2).clamp(HOLD.0, HOLD.1),
            _ => Duration::ZERO,
        };
        self.failed = Some(now);
    }
}

/// Policy of the route.
#[derive(Debug)]
pub struct TransportPolicy {
    config: TransportConfig,
    stage: Stage,
    route: Route,
    count: StreamCount,
    datagrams: Trust,
    /// When a datagram of the peer's came last, or none was due. Acks on streams can report datagrams that
    /// pass one way only.
    heard: Timestamp,
    streams: Trust,
    /// When a stream was last open.
    stream_open: Timestamp,
    seen_at: Timestamp,
    losses: LossWindows,
    trials: Trials,
    changes: VecDeque<RouteChange>,
}

impl TransportPolicy {
    /// The policy of a session whose data plane begins now.
    pub fn new(config: TransportConfig) -> TransportPolicy {
        let began = config.began;
        let target = match config.choice {
            TransportChoice::Tcp { count: Some(count) } => StreamTarget::Fixed(count),
            _ => config.streams,
        };
        let (stage, route) = match config.choice {
            TransportChoice::Tcp { .. } => (Stage::Settled, Route::Frames),
            TransportChoice::Auto if config.peer_has_streams => (Stage::Asking, Route::Datagrams),
            TransportChoice::Auto | TransportChoice::Udp => (Stage::Settled, Route::Datagrams),
        };
        let mut changes = VecDeque::new();
        if route != Route::Datagrams {
            changes.push_back(RouteChange { at: began, route, reason: RouteReason::Chosen });
        }
        TransportPolicy {
            config,
            stage,
            route,
            count: StreamCount::new(target),
            datagrams: Trust::new(began),
            heard: began,
            streams: Trust::new(began),
            stream_open: began,
            seen_at: began,
            losses: LossWindows::default(),
            trials: Trials::new(began),
            changes,
        }
    }

    /// What is to be done at present.
    pub fn directive(&self) -> Directive {
        let streams = match self.stage {
            Stage::Settled if self.route == Route::Datagrams => 0,
            Stage::Asking | Stage::Datagrams => 0,
            Stage::Beside { reason: RouteReason::UdpSilent | RouteReason::UdpDied, .. } => 1,
            Stage::Settled | Stage::Beside { .. } | Stage::Frames { .. } | Stage::Trial(_) => {
                self.count.wanted()
            }
        };
        Directive { route: self.route, streams }
    }

    /// The oldest change of the route that was not taken yet.
    pub fn poll_change(&mut self) -> Option<RouteChange> {
        self.changes.pop_front()
    }

    /// The best number of streams, if one was found: for a later transfer to this peer.
    pub fn streams_found(&self) -> Option<u32> {
        self.count.found()
    }

    /// To be called with every heartbeat; what is to be done.
    pub fn observe(&mut self, seen: &TransportSeen) -> Directive {
        self.listen(seen);
        self.stage = match self.stage {
            Stage::Settled => Stage::Settled,
            Stage::Asking => self.ask(seen),
            Stage::Datagrams => self.watch_datagrams(seen),
            Stage::Beside { .. } => self.compare_silences(seen),
            Stage::Frames { since, answers } => self.watch_frames(seen, since, answers),
            Stage::Trial(trial) => self.go_on_trying(seen, trial),
        };
        let adapts =
            matches!(self.stage, Stage::Settled | Stage::Frames { .. }) && self.route == Route::Frames;
        if adapts {
            self.count.observe(&StreamsSeen {
                now: seen.now,
                delivered: seen.frames_delivered,
                open: seen.streams.open,
                round_trip: seen.streams.round_trip,
                brake: seen.streams.brake,
                idle: seen.idle,
            });
        } else {
            self.count.pause();
        }
        self.directive()
    }

    fn listen(&mut self, seen: &TransportSeen) {
        let now = seen.now;
        let stalled = now - self.seen_at > STALL;
        self.seen_at = now;
        let due = seen.datagrams.waiting && !stalled;
        self.datagrams.observe(now, seen.datagrams.delivered, due);
        let heard = seen.datagrams.heard.unwrap_or(Timestamp::ZERO);
        self.heard = if due { self.heard.max(heard) } else { now };
        self.streams.observe(now, seen.frames_delivered, seen.frames_waiting && !stalled);
        if seen.streams.open > 0 {
            self.stream_open = now;
        }
        self.losses.observe(now, &seen.datagrams);
    }

    /// For how long datagrams may be silent.
    fn silence(seen: &TransportSeen) -> Duration {
        SILENCE.max(SILENCE_ROUND_TRIPS * seen.datagrams.round_trip)
    }

    fn datagrams_silent(&self, seen: &TransportSeen) -> bool {
        seen.now - self.datagrams.moved.min(self.heard) >= Self::silence(seen)
    }

    fn ask(&mut self, seen: &TransportSeen) -> Stage {
        if seen.datagrams.heard.is_some() {
            return Stage::Datagrams;
        }
        if seen.now - self.config.began >= ASKING {
            return self.go_beside(seen, RouteReason::UdpSilent);
        }
        Stage::Asking
    }

    fn watch_datagrams(&mut self, seen: &TransportSeen) -> Stage {
        if self.datagrams_silent(seen) {
            self.datagrams.fail(seen.now);
            return self.go_beside(seen, RouteReason::UdpDied);
        }
        if self.losses.are_heavy() && self.trials.may_begin(seen.now) {
            self.turn(seen.now, Route::Both, RouteReason::UdpLossy);
            return Stage::Trial(self.trials.begin_streams(seen, self.losses.rate()));
        }
        Stage::Datagrams
    }

    fn go_beside(&mut self, seen: &TransportSeen, reason: RouteReason) -> Stage {
        self.turn(seen.now, Route::Both, reason);
        let (datagrams, frames) = (seen.datagrams.delivered, seen.frames_delivered);
        Stage::Beside { reason, since: seen.now, datagrams, frames }
    }

    /// Both ways are open: the one that delivers while the other is silent carries on alone.
    fn compare_silences(&mut self, seen: &TransportSeen) -> Stage {
        let Stage::Beside { reason, mut since, mut datagrams, frames } = self.stage else {
            return self.stage;
        };
        let now = seen.now;
        let streams_deliver = seen.frames_delivered > frames && seen.streams.open > 0;
        let udp_silent = match reason {
            // No datagram was ever answered; that was waited for.
            RouteReason::UdpSilent if seen.datagrams.delivered == datagrams => true,
            _ => self.datagrams_silent(seen),
        };
        if udp_silent {
            (since, datagrams) = (now, seen.datagrams.delivered);
            let held = now - self.streams.failed.unwrap_or(Timestamp::ZERO) >= self.streams.hold;
            if streams_deliver && held {
                self.turn(now, Route::Frames, reason);
                return self.rely_on_frames(seen);
            }
        }
        let delivered = seen.datagrams.delivered - datagrams >= DELIVERS;
        if delivered && now - since >= self.datagrams.hold {
            self.turn(now, Route::Datagrams, RouteReason::UdpHealed);
            self.losses = LossWindows::default();
            return Stage::Datagrams;
        }
        Stage::Beside { reason, since, datagrams, frames }
    }

    fn rely_on_frames(&mut self, seen: &TransportSeen) -> Stage {
        self.streams.moved = seen.now;
        self.stream_open = seen.now;
        Stage::Frames { since: seen.now, answers: seen.answers() }
    }

    fn watch_frames(&mut self, seen: &TransportSeen, since: Timestamp, answers: u64) -> Stage {
        let patience = STREAMS_SILENCE.max(8 * seen.streams.round_trip);
        let opening = if seen.streams.connecting > 0 { patience } else { STREAMS_GONE };
        let gone = seen.now - self.stream_open >= opening;
        let stuck = seen.now - self.streams.moved >= patience;
        if gone || stuck {
            self.streams.fail(seen.now);
            return self.go_beside(seen, RouteReason::NoStreams);
        }
        let heard = seen.datagrams.heard.is_some_and(|at| at > since);
        let answered = heard && seen.answers() > answers;
        if answered && self.trials.may_begin(seen.now) && self.trials.frames_are_measured(seen, since) {
            self.turn(seen.now, Route::Both, RouteReason::UdpAnswers);
            return Stage::Trial(self.trials.begin_datagrams(seen));
        }
        Stage::Frames { since, answers }
    }

    fn go_on_trying(&mut self, seen: &TransportSeen, mut trial: Trial) -> Stage {
        match trial.observe(seen, self.datagrams_silent(seen)) {
            TrialEnd::NotYet => {
                let route = trial.route();
                if route != self.route {
                    self.turn(seen.now, route, RouteReason::UdpAnswers);
                }
                Stage::Trial(trial)
            }
            TrialEnd::Datagrams(reason) => {
                self.turn(seen.now, Route::Datagrams, reason);
                self.losses = LossWindows::default();
                Stage::Datagrams
            }
            TrialEnd::Frames(reason) => {
                self.turn(seen.now, Route::Frames, reason);
                self.rely_on_frames(seen)
            }
            TrialEnd::Beside(reason) => {
                self.datagrams.fail(seen.now);
                self.go_beside(seen, reason)
            }
        }
    }

    fn turn(&mut self, now: Timestamp, route: Route, reason: RouteReason) {
        if route == self.route {
            return;
        }
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(RouteChange { at: now, route, reason });
        self.route = route;
    }
}

#[cfg(test)]
mod tests;
