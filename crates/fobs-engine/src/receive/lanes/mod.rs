//! A receiving session of several lanes (protocol 13). The session's thread has the first lane and the desk
//! where all chunks come together; each further lane has a thread. They share nothing but letters, and what
//! each shows of itself.

mod berth;
mod desk;
mod late;
mod session;
mod thread;

pub(super) use late::LateReceiving;
pub(super) use thread::LaneNeeds;

use crate::lanes::{LaneAccount, LaneMix, LaneSetup, LanesSetup, lane_credit};
use berth::{Berth, ToLaneReceiver};
use desk::Desk;
use fobs_model::cause::Remedy;
use fobs_model::error::Result;
use fobs_model::sample::{Cpu, ReceiverSample};
use fobs_proto::receiver::{Receiver, ReceiverConfig, ReceiverStats};
use fobs_proto::{ChunkId, Timestamp};
use std::sync::PoisonError;
use std::time::Duration;
use thread::LaneThread;

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
    /// When that was, and what its thread has spent its time on until then.
    pub(super) at: Timestamp,
    pub(super) wait_us: u64,
    pub(super) cpu: Cpu,
}

/// Times of a receiving thread: waiting for packets, on a CPU, ready for one.
const TIMES: usize = 3;

impl LaneSeen {
    fn account(&self) -> LaneAccount<TIMES> {
        let times_us = [self.wait_us, self.cpu.run_us, self.cpu.delay_us];
        LaneAccount { at: self.at, bytes: self.stats.bytes, times_us }
    }
}

/// See the module.
pub(super) struct LaneQuay {
    desk: Desk,
    /// That of the first lane.
    berth: Berth,
    threads: Vec<LaneThread>,
    /// What those of more lanes are started with; the room is that of all lanes together.
    needs: LaneNeeds,
    first: String,
    began: Timestamp,
    told: Vec<usize>,
    /// What all lanes spend their time on.
    mix: LaneMix<TIMES>,
}

/// The configuration of each lane of a session with `lanes`: together they have half of the room.
fn config_of_lane(config: ReceiverConfig, lanes: usize) -> ReceiverConfig {
    ReceiverConfig { chunks_max: lane_credit(config.chunks_max, lanes), ..config }
}

impl LaneQuay {
    /// Starts the threads of the lanes beside the first; with the configuration of each.
    pub(super) fn start(setup: LanesSetup, needs: &LaneNeeds) -> Result<(LaneQuay, ReceiverConfig)> {
        let config = config_of_lane(needs.config, setup.count());
        let LanesSetup { further, first, window, .. } = setup;
        let mut quay = LaneQuay::of_first((first, needs.clock.now()), (0, window), needs.clone());
        let of_lane = LaneNeeds { config, ..needs.clone() };
        for (lane, setup) in (1..).zip(further) {
            quay.threads.push(thread::start(lane, setup, &of_lane)?);
        }
        Ok((quay, config))
    }

    /// With the first lane alone, of a session that began then; its first chunk at the desk is `from`.
    fn of_first(
        (first, began): (String, Timestamp),
        (from, window): (ChunkId, u32),
        needs: LaneNeeds,
    ) -> LaneQuay {
        LaneQuay {
            desk: Desk::new((from, window)),
            berth: Berth::new(from),
            threads: Vec::new(),
            mix: LaneMix::new(needs.clock.now()),
            needs,
            first,
            began,
            told: Vec::new(),
        }
    }

    /// Starts the thread of one more lane.
    fn add(&mut self, setup: LaneSetup) -> Result<()> {
        let lane = self.count();
        let config = config_of_lane(self.needs.config, lane + 1);
        let needs = LaneNeeds { config, ..self.needs.clone() };
        self.threads.push(thread::start(lane, setup, &needs)?);
        Ok(())
    }

    /// Tells the lanes beside the first what room they have now: that of each lane.
    fn share_room(&self) -> u32 {
        let room = config_of_lane(self.needs.config, self.count()).chunks_max;
        (1..self.count()).for_each(|lane| self.tell(lane, ToLaneReceiver::Room(room)));
        room
    }

    /// How many lanes there are, the first included.
    fn count(&self) -> usize {
        self.threads.len() + 1
    }

    /// The room of a chunk of the first lane that is none of the desk's is free.
    pub(super) fn settle_first(&mut self, machine: &mut Receiver) {
        self.berth.settle(machine);
    }

    /// What lanes beside the first have done about losses since the last call.
    fn take_remedies(&self) -> Vec<Remedy> {
        let take = |thread: &LaneThread| {
            std::mem::take(&mut *thread.remedies.lock().unwrap_or_else(PoisonError::into_inner))
        };
        self.threads.iter().flat_map(take).collect()
    }

    fn seen(&self) -> impl Iterator<Item = LaneSeen> {
        let read = |thread: &LaneThread| *thread.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.threads.iter().map(read)
    }

    /// Adds what the lanes beside the first have counted to a sample of the first, taken at `now`; its times
    /// become those of all.
    fn add_to(&mut self, now: Timestamp, sample: &mut ReceiverSample) {
        let first = LaneSeen {
            stats: ReceiverStats { bytes: sample.bytes, ..ReceiverStats::default() },
            at: now,
            wait_us: sample.wait_us,
            cpu: sample.cpu,
            ..LaneSeen::default()
        };
        let others: Vec<LaneSeen> = self.seen().collect();
        let accounts: Vec<_> = std::iter::once(&first).chain(&others).map(LaneSeen::account).collect();
        let [wait_us, run_us, delay_us] = self.mix.add(now, &accounts);
        (sample.wait_us, sample.cpu) = (wait_us, Cpu { run_us, delay_us });
        for seen in others {
            sample.packets += seen.stats.packets;
            sample.bytes += seen.stats.bytes;
            sample.acks += seen.stats.acks;
            sample.reordered += seen.stats.reordered;
            sample.socket_drops += u64::from(seen.socket_drops);
            sample.backlog += u64::from(seen.backlog);
        }
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
    fn unheard(&mut self, now: Timestamp, first: Option<Timestamp>) -> Vec<String> {
        let heard: Vec<_> = std::iter::once(first).chain(self.seen().map(|seen| seen.heard)).collect();
        if heard.iter().all(Option::is_none) {
            return Vec::new();
        }
        let began = |lane: usize| {
            lane.checked_sub(1)
                .and_then(|lane| self.threads.get(lane))
                .map_or(self.began, |thread| thread.began)
        };
        let is_silent = |lane: usize| now - began(lane) >= UNHEARD_MAX;
        let silent = heard.iter().enumerate().filter(|(lane, heard)| heard.is_none() && is_silent(*lane));
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
