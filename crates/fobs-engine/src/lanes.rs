//! Lanes of a session beside the first (protocol 13): what a job has of them, and how their chunks are
//! numbered.

mod late;
mod mix;
mod number;

pub use late::{LaneConfig, LateLanes};
pub(crate) use late::{LateCourse, at_port, name_of, out_of_turn};
pub(crate) use mix::{LaneAccount, LaneMix};
pub(crate) use number::{LaneNumber, NUMBER_LEN};

use crate::LinkSetup;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_proto::congestion::PathShare;
use fobs_proto::sender::SenderConfig;
use fobs_proto::session::LANES_MAX;

/// Least chunks of the credit of a lane: one arrives while another is verified, and one waits for its turn.
pub(crate) const CREDIT_MIN: u32 = 3;

/// A lane beside the first.
pub struct LaneSetup {
    /// Its socket and keys. It has the clock of the first lane.
    pub link: LinkSetup,
    /// What its path is called, in messages to the user.
    pub name: String,
}

/// The lanes of a session beside the first; none at all in most.
#[derive(Default)]
pub struct LanesSetup {
    /// Each of them.
    pub further: Vec<LaneSetup>,
    /// The path of each lane, the first included, numbered from 0 on.
    pub paths: Vec<u8>,
    /// What the path of the first lane is called.
    pub first: String,
    /// Chunks of the object that are sent at once, from the oldest unverified one on.
    pub window: u32,
}

impl LanesSetup {
    /// How many lanes there are, the first included.
    pub fn count(&self) -> usize {
        self.further.len() + 1
    }
}

/// Chunks of the object that a receiver with room for `chunks_max` lets several lanes have at once:
/// the other half of its room is the credit of the lanes.
pub fn lanes_window(chunks_max: u32) -> u32 {
    (chunks_max / 2).max(CREDIT_MIN)
}

/// The credit of each lane of a session with `lanes`, chunks; all of the room for one.
pub fn lane_credit(chunks_max: u32, lanes: usize) -> u32 {
    if lanes <= 1 {
        return chunks_max;
    }
    let lanes = u32::try_from(lanes.clamp(1, LANES_MAX)).unwrap_or(1);
    (chunks_max / 2 / lanes).max(CREDIT_MIN)
}

/// Configurations of all lanes, the first lane's first; `config` makes one with a controller of its own.
/// Lanes of one path share a controller. A cap on the rate is that of all lanes: the session shares it among
/// them.
///
/// # Errors
/// Those of `config`.
pub fn lane_configs(paths: &[u8], config: impl Fn() -> Result<SenderConfig>) -> Result<Vec<SenderConfig>> {
    let mut shares: Vec<(u8, PathShare)> = Vec::new();
    let mut configs = Vec::new();
    for path in paths {
        let made = config()?;
        if paths.iter().filter(|other| *other == path).count() == 1 {
            configs.push(made);
            continue;
        }
        let known = shares.iter().find(|(other, _)| other == path).map(|(_, share)| share.clone());
        let share = known.unwrap_or_else(|| {
            let datagram = made.payload_size.unwrap_or(fobs_proto::recovery::BASE_DATAGRAM);
            let share = PathShare::new(made.controller, datagram);
            shares.push((*path, share.clone()));
            share
        });
        configs.push(SenderConfig { controller: share.lane(), ..made });
    }
    Ok(configs)
}

/// The other end breaks a rule of lanes.
pub(crate) fn broken(what: &str) -> Error {
    let message = format!("{what}, which no lane may; use the same version of fobs on both sides");
    Error::new(ErrorKind::Protocol, message)
}

/// The other end names a lane that the session has not.
pub(crate) fn no_such_lane(lane: u8) -> Error {
    broken(&format!("the other side names lane {lane}, and there are fewer"))
}

/// For the user: nothing was ever heard by a path.
pub(crate) fn leads_nowhere(name: &str) -> String {
    format!("no datagram came by {name}: the other lanes carry the data; look at its route and its firewalls")
}

/// For the user: a lane has ended.
pub(crate) fn has_ended(name: &str, error: &Error) -> String {
    format!("{name} carries nothing more, and the other lanes go on: {}", error.message)
}

#[cfg(test)]
mod tests;
