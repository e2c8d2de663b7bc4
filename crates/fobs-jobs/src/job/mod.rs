//! What a job is: its command, its wishes, its phases, and how an attempt ended.

mod ending;
mod owner;
mod rate;
mod spec;
mod window;
mod word;

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use ending::{Ending, Outlook, RoomThere};
pub use owner::Owner;
pub use rate::RatePoint;
pub(crate) use spec::is_command;
pub use spec::{NAME_BYTES_MAX, PRIORITY_MAX, PRIORITY_MIN, RETRIES_MAX, Spec, SpecError};
pub use window::Window;
pub use word::Word;

/// A job's number: from 1, never given twice within one state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// For its turn, its time, its window or its next attempt.
    Waiting,
    /// An attempt runs.
    Running,
    /// Until it is resumed.
    Paused,
    /// It succeeded.
    Done,
    /// It did not, and is not tried again by itself.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Phase {
    /// All, in the order in which people look for them.
    pub const ALL: &[Phase] =
        &[Phase::Running, Phase::Waiting, Phase::Paused, Phase::Failed, Phase::Cancelled, Phase::Done];

    /// The word of it in the state file, in JSON and in lists.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Running => "running",
            Phase::Paused => "paused",
            Phase::Done => "done",
            Phase::Failed => "failed",
            Phase::Cancelled => "cancelled",
        }
    }

    /// The phase with this name.
    pub fn from_name(name: &str) -> Option<Phase> {
        Phase::ALL.iter().copied().find(|phase| phase.name() == name)
    }

    /// Whether nothing happens to the job any more unless a user wants it.
    pub fn is_final(self) -> bool {
        matches!(self, Phase::Done | Phase::Failed | Phase::Cancelled)
    }
}
