//! Lanes that a session may get while it runs (protocol 13.7): how many this host offers, and what both sides
//! keep for them.

use crate::session::udp_options;
use fobs_channel::secure::datagram::Direction;
use fobs_channel::secure::schedule::DatagramKeys;
use fobs_engine::{LateLanes, lanes_window};
use fobs_model::message::{Hello, KEYS2, LateLanesOffer, Open};
use fobs_proto::session::{GrowthRule, LANES_UNCHOSEN_MAX, PacketThreads};
use std::time::Duration;

/// How many lanes a session of this program is to come to, whatever its threads do: for tests of a build with
/// debug assertions.
const FORCED_VARIABLE: &str = "FOBS_TEST_LATE_LANES";
/// From one of them to the next.
const FORCED_STRETCH: Duration = Duration::from_millis(200);

/// When a client asks for a lane.
fn rule_here() -> GrowthRule {
    let forced = if cfg!(debug_assertions) { std::env::var(FORCED_VARIABLE).ok() } else { None };
    match forced.and_then(|lanes| lanes.parse().ok()) {
        Some(lanes) => GrowthRule::Always { stretch: FORCED_STRETCH, lanes },
        None => GrowthRule::Threads { cores: u32::try_from(fobs_sys::cores()).unwrap_or(u32::MAX) },
    }
}

/// Lanes beside the first that this host has cores for.
fn most_here() -> u8 {
    most_of(rule_here())
}

fn most_of(rule: GrowthRule) -> u8 {
    let most = match rule {
        GrowthRule::Always { lanes, .. } => lanes,
        // As if their threads had no rest.
        GrowthRule::Threads { cores } => {
            PacketThreads { lanes: LANES_UNCHOSEN_MAX, busy: 1.0, short: 0.0, cores }.lanes_next()
        }
    };
    most.clamp(1, LANES_UNCHOSEN_MAX) - 1
}

/// What a client asks for that leaves the number of its lanes to this program, and holds this number of
/// chunks.
pub(crate) fn offer(chunks_max: u32) -> Option<LateLanesOffer> {
    let most = most_here();
    (most > 0).then(|| LateLanesOffer { most, window: lanes_window(chunks_max) })
}

/// What a server that holds this number of chunks gives a client of a session with one lane, and how many
/// lanes that is.
pub(crate) fn grant(open: &Open, hello: &Hello, chunks_max: u32) -> Option<(LateLanesOffer, usize)> {
    let asked = open.late_lanes.filter(|_| hello.has(KEYS2) && open.lanes.is_none())?;
    let most = asked.most.min(most_here());
    let offer = LateLanesOffer { most, window: lanes_window(chunks_max) };
    (most > 0).then(|| (offer, usize::from(most)))
}

/// What a client keeps, whose server gives this; `ours` is what it asked for.
pub(crate) fn of_client(
    keys: Vec<DatagramKeys>,
    (ours, theirs): (LateLanesOffer, LateLanesOffer),
    (direction, cc): (Direction, Option<&str>),
) -> LateLanes {
    let window = window_of(direction, ours.window, theirs.window);
    LateLanes { keys: keys.into(), options: udp_options(cc), ports: None, window, rule: Some(rule_here()) }
}

/// What a server keeps for lanes with these keys, if there are any.
pub(crate) fn of_server(
    keys: Vec<DatagramKeys>,
    open: &Open,
    (direction, cc): (Direction, Option<&str>),
    (ports, chunks_max): ((u16, u16), u32),
) -> Option<LateLanes> {
    let asked = open.late_lanes.filter(|_| !keys.is_empty())?;
    let window = window_of(direction, lanes_window(chunks_max), asked.window);
    Some(LateLanes { keys: keys.into(), options: udp_options(cc), ports: Some(ports), window, rule: None })
}

/// Chunks that are sent at once: as many as the end that receives holds.
fn window_of(direction: Direction, ours: u32, theirs: u32) -> u32 {
    match direction {
        Direction::Sender => theirs.min(ours).max(1),
        Direction::Receiver => ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_further_lane_has_two_cores() {
        let most = [1, 2, 3, 4, 8, 16, 64, u32::MAX].map(|cores| most_of(GrowthRule::Threads { cores }));
        assert_eq!(most, [0, 0, 0, 1, 3, 7, 7, 7]);
        let forced = |lanes| most_of(GrowthRule::Always { stretch: FORCED_STRETCH, lanes });
        assert_eq!([0, 1, 3, 200].map(forced), [0, 0, 2, 7]);
    }

    #[test]
    fn no_more_is_in_flight_than_the_receiver_holds() {
        for (direction, window) in [(Direction::Sender, 5), (Direction::Receiver, 9)] {
            assert_eq!(window_of(direction, 9, 5), window);
        }
        assert_eq!(window_of(Direction::Sender, 9, 0), 1, "a receiver that names none has room for one");
    }
}
