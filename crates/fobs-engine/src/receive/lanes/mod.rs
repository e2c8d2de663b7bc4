//! A receiving session of several lanes (protocol 13). The session's thread has the first lane and the desk
//! where all chunks come together; each further lane has a thread. They share nothing but letters, and what
//! each shows of itself.

mod berth;
mod desk;
mod session;
mod thread;

use crate::Clock;
use crate::lanes::{LanesSetup, lane_credit};
use crate::letters::{Post, ToReceiver};
use berth::{Berth, ToLaneReceiver};
use desk::Desk;
use fobs_channel::control::ControlWriter;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::Result;
use fobs_proto::Timestamp;
use fobs_proto::receiver::{ReceiverConfig, ReceiverStats};
use std::sync::PoisonError;
use std::time::Duration;
use thread::{LaneNeeds, LaneThread};

/// How long a lane may be unheard before the user is told that it leads nowhere.
const UNHEARD_MAX: Duration = Duration::from_secs(4);

/// What a lane has seen, as of its last heartbeat.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaneSeen {
    pub(super) stats: ReceiverStats,
    pub(super) heard: Option<Timestamp>,
    pub(super) rejected: u64,
    pub(super) socket_drops: u32,
    pub(super) dropped: Option<u32>,
    pub(super) backlog: u16,
}

/// See the module.
pub(super) struct LaneQuay {
    desk: Desk,
    /// That of the first lane.
    berth: Berth,
    threads: Vec<LaneThread>,
    first: String,
    told: Vec<usize>,
}

/// The configuration of each lane of a session with `lanes`: together they have half of the room.
pub(super) fn config_of_lane(config: ReceiverConfig, lanes: usize) -> ReceiverConfig {
    ReceiverConfig { chunks_max: lane_credit(config.chunks_max, lanes), ..config }
}

impl LaneQuay {
    /// Starts the threads of the lanes beside the first; `config` is that of each lane.
    pub(super) fn start(
        setup: LanesSetup,
        config: ReceiverConfig,
        (writer, session): (&ControlWriter, &Post<ToReceiver>),
        (budget, timeout): (&MemoryBudget, Duration),
        clock: Clock,
    ) -> Result<LaneQuay> {
        let LanesSetup { further, first, window, .. } = setup;
        let (desk, berth) = (Desk::new(window), Berth::default());
        let mut quay = LaneQuay { desk, berth, threads: Vec::new(), first, told: Vec::new() };
        let needs = LaneNeeds { clock, config, timeout, writer, session, budget };
        for (lane, setup) in (1..).zip(further) {
            quay.threads.push(thread::start(lane, setup, &needs)?);
        }
        Ok(quay)
    }

    fn seen(&self) -> impl Iterator<Item = LaneSeen> {
        let read = |thread: &LaneThread| *thread.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.threads.iter().map(read)
    }

    /// Says something to a lane beside the first. One that has ended needs nothing.
    fn tell(&self, lane: usize, letter: ToLaneReceiver) {
        if let Some(thread) = lane.checked_sub(1).and_then(|lane| self.threads.get(lane)) {
            thread.post.post(letter);
        }
    }

    /// When a lane beside the first was heard last.
    pub(super) fn last_heard(&self) -> Option<Timestamp> {
        self.seen().filter_map(|seen| seen.heard).max()
    }

    fn name(&self, lane: usize) -> &str {
        lane.checked_sub(1).and_then(|lane| self.threads.get(lane)).map_or(&self.first, |thread| &thread.name)
    }

    /// Lanes that have not been heard for so long that the user should know, each said once.
    fn unheard(&mut self, (now, began): (Timestamp, Timestamp), first: Option<Timestamp>) -> Vec<String> {
        let heard: Vec<_> = std::iter::once(first).chain(self.seen().map(|seen| seen.heard)).collect();
        if now - began < UNHEARD_MAX || heard.iter().all(Option::is_none) {
            return Vec::new();
        }
        let silent = heard.iter().enumerate().filter(|(_, heard)| heard.is_none());
        let silent: Vec<usize> =
            silent.map(|(lane, _)| lane).filter(|lane| !self.told.contains(lane)).collect();
        self.told.extend(&silent);
        silent.into_iter().map(|lane| crate::lanes::leads_nowhere(self.name(lane))).collect()
    }

    /// Ends the threads of the lanes; what they have seen is final then.
    pub(super) fn end(&mut self) {
        for thread in &self.threads {
            thread.post.post(ToLaneReceiver::End);
        }
        self.threads.iter_mut().for_each(LaneThread::await_end);
    }
}

impl Drop for LaneQuay {
    fn drop(&mut self) {
        self.end();
    }
}
