//! The states of `auto`, each with what is meaningful in it alone, and the one table of transitions between
//! them.

use super::competition::Competition;
use super::model::PhaseLen;
use crate::{Rate, Timestamp};
use std::time::Duration;

/// What the controller is doing.
#[derive(Debug)]
pub(crate) enum State {
    /// Looks for the path's rate: at first, after silence, and where there may be more than was known.
    Start(Start),
    /// Sends what is delivered and keeps a short queue.
    Cruise(Cruise),
    /// Others hold the queue: sends as a flow that fills queues.
    Compete(Box<Competition>),
}

/// A phase of the start.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    /// The first flight is one short train, whose dispersion at arrival is the path's rate.
    Train(Train),
    /// Goes on faster each round trip while all is delivered and no queue grows.
    Ramp(Ramp),
}

/// A phase of the cruise.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cruise {
    /// Sends what is delivered, corrected by the distance of the standing queue from its target.
    Level(Level),
    /// Sends less: shows the base delay and the path's own loss.
    Drain(Drain),
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
    /// Phases in a row, before this one, of the same rate.
    pub(crate) holds: u32,
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

/// A phase of cruising between drains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
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
        State::ramp_from(now, step, RampOrigin::Measured)
    }

    fn ramp_from(now: Timestamp, step: usize, origin: RampOrigin) -> State {
        State::Start(Start::Ramp(Ramp { phase: Phase::begin(now), step, holds: 0, origin }))
    }

    /// A ramp from a rate that was had before.
    pub(crate) fn resumed(now: Timestamp) -> State {
        State::ramp_from(now, 0, RampOrigin::Resumed)
    }

    /// A ramp at half of a rate that was had before a silence.
    pub(crate) fn silenced(now: Timestamp, former: Rate) -> State {
        State::ramp_from(now, 0, RampOrigin::Silenced(former))
    }

    pub(crate) fn cruise(now: Timestamp, index: u32) -> State {
        State::Cruise(Cruise::Level(Level { phase: Phase::begin(now), index }))
    }

    pub(crate) fn phase_mut(&mut self) -> Option<&mut Phase> {
        match self {
            State::Start(Start::Ramp(ramp)) => Some(&mut ramp.phase),
            State::Cruise(Cruise::Level(level)) => Some(&mut level.phase),
            State::Cruise(Cruise::Drain(drain)) => Some(&mut drain.phase),
            State::Start(Start::Train(_)) | State::Compete(_) => None,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            State::Start(_) => Kind::Start,
            State::Cruise(_) => Kind::Cruise,
            State::Compete(_) => Kind::Compete,
        }
    }

    /// The phase in one word, for traces.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            State::Start(Start::Train(_)) => "train",
            State::Start(Start::Ramp(_)) => "ramp",
            State::Cruise(Cruise::Level(_)) => "cruise",
            State::Cruise(Cruise::Drain(_)) => "drain",
            State::Compete(competition) => competition.name(),
        }
    }
}

/// A state without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Start,
    Cruise,
    Compete,
}

impl Kind {
    #[cfg(test)]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Start => "start",
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

/// All legal changes of state, with their reasons.
pub(crate) const TRANSITIONS: &[(Kind, Kind, Why)] = &[
    (Kind::Start, Kind::Cruise, Why::Ceiling),
    (Kind::Start, Kind::Cruise, Why::NotDelivered),
    (Kind::Start, Kind::Cruise, Why::Collapse),
    (Kind::Start, Kind::Cruise, Why::Marked),
    (Kind::Cruise, Kind::Start, Why::QueuePassed),
    (Kind::Cruise, Kind::Start, Why::StillRoom),
    (Kind::Cruise, Kind::Start, Why::PathLonger),
    (Kind::Cruise, Kind::Start, Why::SilenceOver),
    (Kind::Cruise, Kind::Compete, Why::Crowded),
    (Kind::Cruise, Kind::Compete, Why::ClaimRaised),
    (Kind::Compete, Kind::Cruise, Why::QueueOurs),
    (Kind::Compete, Kind::Cruise, Why::PathLonger),
    (Kind::Compete, Kind::Cruise, Why::ClaimChanged),
    (Kind::Compete, Kind::Cruise, Why::Ceiling),
    (Kind::Compete, Kind::Start, Why::SilenceOver),
];

/// What begins another phase of the same state.
pub(crate) const PHASES: &[(Kind, Why)] = &[
    (Kind::Start, Why::TrainMeasured),
    (Kind::Start, Why::JumpArrived),
    (Kind::Start, Why::Delivered),
    (Kind::Start, Why::SilenceOver),
    (Kind::Cruise, Why::NextPhase),
    (Kind::Cruise, Why::Ceiling),
    (Kind::Cruise, Why::Drained),
    (Kind::Cruise, Why::DrainDue),
    (Kind::Cruise, Why::BaseFell),
    (Kind::Cruise, Why::Overloaded),
    (Kind::Cruise, Why::Joined),
    (Kind::Cruise, Why::Collapse),
    (Kind::Cruise, Why::Marked),
];

/// Whether the tables have this change.
pub(crate) fn is_legal(from: Kind, to: Kind, why: Why) -> bool {
    if from == to { PHASES.contains(&(to, why)) } else { TRANSITIONS.contains(&(from, to, why)) }
}
