//! The states of `auto`, each with what is meaningful in it alone, and the one table of transitions between
//! them.

use super::competition::Competition;
use super::model::PhaseLen;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// What the controller is doing.
#[derive(Debug)]
pub(crate) enum State {
    /// The first flight is one short train, whose dispersion at arrival is the path's rate.
    Train(Train),
    /// Goes on faster each round trip while all is delivered and no queue grows.
    Ramp(Ramp),
    /// Sends less for a phase: shows the base delay and the path's own loss.
    Drain(Drain),
    /// Sends what is delivered, corrected by the distance of the standing queue from its target.
    Cruise(Cruise),
    /// Others hold the queue: sends as a flow that fills queues.
    Compete(Box<Competition>),
}

/// The first flight.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Train {
    /// When its first ack came.
    pub(crate) first_ack: Option<Timestamp>,
    /// The steepest slope that enough of its packets show.
    pub(crate) steepest: Option<Rate>,
}

/// A phase of the ramp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ramp {
    pub(crate) phase: Phase,
    /// Rounds that found the path willing.
    pub(crate) step: usize,
    pub(crate) origin: RampOrigin,
}

/// What the rate of a ramp's phase rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RampOrigin {
    /// An estimate, or the phase before.
    Measured,
    /// The best recent delivery, resumed after a queue had passed.
    Resumed,
    /// Half of this rate, which the path carried before a silence.
    Silenced(Rate),
}

/// A drain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drain {
    pub(crate) phase: Phase,
    /// Rate over capacity.
    pub(crate) gain: f64,
    /// The standing queue when it began.
    pub(crate) queue: Duration,
}

/// A phase of cruising.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cruise {
    pub(crate) phase: Phase,
    /// Phases since the drain, this one counted.
    pub(crate) index: u32,
}

/// A phase waits for what was sent under its own rate to arrive, then measures it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phase {
    pub(crate) since: Timestamp,
    pub(crate) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Waits,
    Measures,
}

/// How far a phase has come with an ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Goes,
    Over,
}

impl Phase {
    pub(crate) fn begin(now: Timestamp) -> Phase {
        Phase { since: now, stage: Stage::Waits }
    }

    pub(crate) fn progress(&self, now: Timestamp, len: PhaseLen) -> Progress {
        if now - self.since >= len.total() { Progress::Over } else { Progress::Goes }
    }
}

impl State {
    pub(crate) fn ramp(now: Timestamp, step: usize) -> State {
        State::Ramp(Ramp { phase: Phase::begin(now), step, origin: RampOrigin::Measured })
    }

    /// A ramp from a rate that was had before.
    pub(crate) fn resumed(now: Timestamp) -> State {
        State::Ramp(Ramp { phase: Phase::begin(now), step: 0, origin: RampOrigin::Resumed })
    }

    /// A ramp at half of a rate that was had before a silence.
    pub(crate) fn silenced(now: Timestamp, former: Rate) -> State {
        State::Ramp(Ramp { phase: Phase::begin(now), step: 0, origin: RampOrigin::Silenced(former) })
    }

    pub(crate) fn cruise(now: Timestamp, index: u32) -> State {
        State::Cruise(Cruise { phase: Phase::begin(now), index })
    }

    pub(crate) fn phase_mut(&mut self) -> Option<&mut Phase> {
        match self {
            State::Ramp(ramp) => Some(&mut ramp.phase),
            State::Drain(drain) => Some(&mut drain.phase),
            State::Cruise(cruise) => Some(&mut cruise.phase),
            State::Train(_) | State::Compete(_) => None,
        }
    }

    /// Waits and measures once more under the same rate.
    pub(crate) fn restart_phase(&mut self, now: Timestamp) {
        if let Some(phase) = self.phase_mut() {
            *phase = Phase::begin(now);
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            State::Train(_) => Kind::Train,
            State::Ramp(_) => Kind::Ramp,
            State::Drain(_) => Kind::Drain,
            State::Cruise(_) => Kind::Cruise,
            State::Compete(_) => Kind::Compete,
        }
    }

    /// In one word, for traces.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            State::Compete(competition) => competition.name(),
            other => other.kind().name(),
        }
    }
}

/// A state without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Train,
    Ramp,
    Drain,
    Cruise,
    Compete,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Train => "train",
            Kind::Ramp => "ramp",
            Kind::Drain => "drain",
            Kind::Cruise => "cruise",
            Kind::Compete => "compete",
        }
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// Why the state changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Why {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Why {
            /// As docs/controllers.md spells it.
            #[cfg(test)]
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Why::$name => $text,)+
                }
            }
        }
    };
}

reasons! {
    /// The train has arrived, or all of it that will.
    TrainMeasured => "the train has arrived",
    /// The jump arrived at its own rate although the train had contradicted it.
    JumpArrived => "the jump arrives as it was sent",
    /// The path delivered a phase of the ramp without a queue.
    Delivered => "all was delivered, no queue",
    /// A phase of the ramp met a queue or loss.
    NotDelivered => "a queue or loss",
    /// The rate may not exceed the claim's ceiling.
    Ceiling => "the claim's ceiling is reached",
    /// A third of a round trip was lost and little is delivered.
    Collapse => "losses collapse the delivery",
    /// A congestion mark (RFC 3168).
    Marked => "a congestion mark",
    /// The drain is over.
    Drained => "the drain is over",
    /// The base delay fell: it had held others' queue.
    BaseFell => "the base delay fell",
    /// The queue that the flow yielded to has passed.
    QueuePassed => "the queue yielded to has passed",
    /// Others hold the queue.
    Crowded => "others hold the queue",
    /// The flow need not yield to all any more, and a queue stands.
    ClaimRaised => "the claim was raised, a queue stands",
    /// A phase of cruising is over.
    NextPhase => "the phase is over",
    /// A drain cycle is over.
    DrainDue => "a drain is due",
    /// Phases in a row with unexplained loss.
    Overloaded => "unexplained loss persists",
    /// Another flow joined.
    Joined => "another flow joined",
    /// A whole phase of creeping left the queue empty.
    StillRoom => "creeping left the queue empty",
    /// The queue was self-induced, or is gone.
    QueueOurs => "the queue is gone or self-induced",
    /// There is no queue: the path is longer than it was.
    PathLonger => "the path is longer",
    /// An answer came after a silence.
    SilenceOver => "an answer after silence",
    /// The claim changed during a competition.
    ClaimChanged => "the claim changed",
}

/// All legal transitions, with their reasons.
pub(crate) const TRANSITIONS: &[(Kind, Kind, Why)] = &[
    (Kind::Train, Kind::Ramp, Why::TrainMeasured),
    (Kind::Ramp, Kind::Ramp, Why::JumpArrived),
    (Kind::Ramp, Kind::Ramp, Why::Delivered),
    (Kind::Ramp, Kind::Cruise, Why::Ceiling),
    (Kind::Ramp, Kind::Drain, Why::NotDelivered),
    (Kind::Ramp, Kind::Drain, Why::Collapse),
    (Kind::Ramp, Kind::Drain, Why::Marked),
    (Kind::Drain, Kind::Cruise, Why::Drained),
    (Kind::Drain, Kind::Drain, Why::BaseFell),
    (Kind::Drain, Kind::Drain, Why::Collapse),
    (Kind::Drain, Kind::Ramp, Why::QueuePassed),
    (Kind::Drain, Kind::Ramp, Why::PathLonger),
    (Kind::Drain, Kind::Cruise, Why::Ceiling),
    (Kind::Drain, Kind::Compete, Why::Crowded),
    (Kind::Drain, Kind::Compete, Why::ClaimRaised),
    (Kind::Cruise, Kind::Cruise, Why::NextPhase),
    (Kind::Cruise, Kind::Cruise, Why::Ceiling),
    (Kind::Cruise, Kind::Drain, Why::DrainDue),
    (Kind::Cruise, Kind::Drain, Why::BaseFell),
    (Kind::Cruise, Kind::Drain, Why::Overloaded),
    (Kind::Cruise, Kind::Drain, Why::Joined),
    (Kind::Cruise, Kind::Drain, Why::Collapse),
    (Kind::Cruise, Kind::Drain, Why::Marked),
    (Kind::Cruise, Kind::Ramp, Why::StillRoom),
    (Kind::Cruise, Kind::Ramp, Why::QueuePassed),
    (Kind::Cruise, Kind::Ramp, Why::PathLonger),
    (Kind::Cruise, Kind::Compete, Why::Crowded),
    (Kind::Cruise, Kind::Compete, Why::ClaimRaised),
    (Kind::Compete, Kind::Drain, Why::QueueOurs),
    (Kind::Compete, Kind::Drain, Why::PathLonger),
    (Kind::Compete, Kind::Drain, Why::ClaimChanged),
    (Kind::Ramp, Kind::Ramp, Why::SilenceOver),
    (Kind::Drain, Kind::Ramp, Why::SilenceOver),
    (Kind::Cruise, Kind::Ramp, Why::SilenceOver),
    (Kind::Compete, Kind::Ramp, Why::SilenceOver),
    (Kind::Compete, Kind::Cruise, Why::Ceiling),
];

/// Whether the table has this transition.
pub(crate) fn is_legal(from: Kind, to: Kind, why: Why) -> bool {
    TRANSITIONS.contains(&(from, to, why))
}
