//! What a side concludes from hearing nothing on UDP.

use super::limits::{ANSWER_WAIT_MAX, SERVER_EXTRA_WAIT, UDP_SILENCE_MAX};
use crate::Timestamp;
use std::time::Duration;

/// Which side of the session this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It called.
    Client,
    /// It was called.
    Server,
}

impl Side {
    /// How long the peer may be silent on UDP at the start.
    pub fn silence_max(self) -> Duration {
        match self {
            Side::Client => UDP_SILENCE_MAX,
            Side::Server => UDP_SILENCE_MAX + SERVER_EXTRA_WAIT,
        }
    }
}

/// The state of a session whose peer is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Within the limits.
    Short,
    /// No authenticated datagram has come since the start, for this long: UDP is blocked.
    Blocked(Duration),
    /// No answer for [`ANSWER_WAIT_MAX`]: the path is down.
    Dead,
}

impl Silence {
    /// Before the first datagram.
    pub(super) fn at_start(now: Timestamp, began: Timestamp, side: Side) -> Silence {
        match now - began {
            waited if waited >= side.silence_max() => Silence::Blocked(waited),
            _ => Silence::Short,
        }
    }

    /// After the first datagram; `last_sign` is the peer's last sign of life.
    pub(super) fn since(now: Timestamp, last_sign: Timestamp) -> Silence {
        if now - last_sign >= ANSWER_WAIT_MAX { Silence::Dead } else { Silence::Short }
    }
}
