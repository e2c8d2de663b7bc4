//! Connections that have not authenticated and are being answered. Their places are bounded; one that gets
//! on keeps its place, and a client with a known key leaves it within its handshake.

use super::places::{Place, Places, Yields};
use std::time::Duration;

/// Most of them at once: each holds a thread.
pub(super) const STRANGERS_MAX: usize = 128;
/// How long a peer may say nothing where others wait for its place: a round trip over a satellite, on a host
/// with a busy CPU.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// How long a handshake may take where others wait for its place, whatever the peer says meanwhile.
const AGE_MAX: Duration = Duration::from_secs(4);

/// A place among them. Dropping it frees the place.
pub(super) type Stranger = Place;

/// The places.
pub(super) fn strangers() -> Places {
    Places::new(STRANGERS_MAX, Yields::TheIdle { quiet: QUIET_MAX, age: AGE_MAX })
}
