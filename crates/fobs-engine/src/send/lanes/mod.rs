//! A sending session of several lanes (protocol 13). The session's thread has the first lane, reads ahead and
//! reports; each further lane has a thread. They share a table of chunks with its schedule, and nothing else.

mod late;
mod news;
mod seat;
mod session;
mod shown;
mod table;
mod thread;

pub(super) use late::LateSending;
pub(super) use seat::Seat;
pub(super) use shown::{LaneShown, Spent};
pub(super) use table::LaneChunk;

use super::held::AboutChunk;
use crate::lanes::{LaneMix, LaneSetup, LanesSetup, no_such_lane};
use crate::letters::{Post, ToSender};
use crate::{Clock, Link};
use fobs_model::error::Result;
use fobs_model::measured::Measured;
use fobs_model::sample::SenderSample;
use fobs_proto::congestion::Priority;
use fobs_proto::loss_cause::Lesson;
use fobs_proto::object::CHUNK_DATA_MAX;
use fobs_proto::pacing::{LimitShare, SharedLimit};
use fobs_proto::sender::{Sender, SenderConfig, SenderStats};
use fobs_proto::session::{
    Holding, LaneCounts, LaneSeen, Silence, WaitTimes, first_chunk_data_max, round_trip_bytes,
};
use fobs_proto::{ChunkId, Rate, Timestamp};
use shown::TIMES;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use table::{Agreement, LaneCourse, LaneTable};
use thread::{LaneStart, LaneThread, ToLaneSender};

/// Chunks that are read before a lane asks for them, beside one for each lane: what a reader fills while
/// another is taken.
const READ_AHEAD: u32 = 2;
/// Most data in a chunk of a lane, bytes: less by a unit of the hash tree, so that its number has room.
const LANE_DATA_MAX: u32 = CHUNK_DATA_MAX - (64 << 10);
/// How long a lane may be unheard before the user is told that it leads nowhere.
const UNHEARD_MAX: Duration = Duration::from_secs(4);

/// See the module.
pub(super) struct LaneHub {
    table: Arc<LaneTable>,
    /// The first lane's part.
    pub(super) seat: Seat,
    first: String,
    threads: Vec<LaneThread>,
    ends: HubEnds,
    /// The user's cap on the rate.
    limit: SharedLimit,
    /// Chunks of the object that are not settled, in order: at most the window.
    about: VecDeque<(AboutChunk, Arc<LaneChunk>)>,
    settled: ChunkId,
    /// Settled chunks that a lane still holds.
    lent: Vec<Arc<LaneChunk>>,
    window: u32,
    granted: u32,
    grants: u64,
    began: Timestamp,
    /// Lanes of which the user was told that they lead nowhere.
    told: Vec<usize>,
    /// What all lanes spend their time on.
    mix: LaneMix<TIMES>,
}

/// What the threads of lanes are started with.
pub(super) struct HubEnds {
    clock: Clock,
    session: Post<ToSender>,
    /// How long packets may wait for an answer.
    timeout: Duration,
}

impl LaneHub {
    /// Starts the threads of the lanes beside the first, which has this link; `configs` are theirs.
    pub(super) fn start(
        setup: LanesSetup,
        configs: Vec<SenderConfig>,
        first_link: &Link,
        session: &Post<ToSender>,
        timeout: Duration,
    ) -> Result<LaneHub> {
        let LanesSetup { further, first, window, .. } = setup;
        let ends = HubEnds { clock: first_link.clock(), session: session.clone(), timeout };
        let limit = configs.iter().find_map(|config| config.rate_limit);
        let table = LaneTable::new(first_link.waker(), (0, window), Agreement::Made);
        let mut hub = LaneHub::of_first((first, table), (0, window), limit, ends);
        for (lane, config) in further.into_iter().zip(configs) {
            hub.add(lane, config)?;
        }
        Ok(hub)
    }

    /// With the first lane alone, whose first chunk is this one.
    fn of_first(
        (first, table): (String, Arc<LaneTable>),
        (from, window): (ChunkId, u32),
        limit: Option<Rate>,
        ends: HubEnds,
    ) -> LaneHub {
        let now = ends.clock.now();
        LaneHub {
            seat: Seat::new((0, from), table.clone()),
            table,
            first,
            threads: Vec::new(),
            ends,
            limit: SharedLimit::new(now, limit),
            about: VecDeque::new(),
            settled: from,
            lent: Vec::new(),
            window,
            granted: 0,
            grants: u64::from(from),
            began: now,
            told: Vec::new(),
            mix: LaneMix::new(now),
        }
    }

    /// Starts the thread of one more lane.
    fn add(&mut self, lane: LaneSetup, config: SenderConfig) -> Result<()> {
        let start = LaneStart::new(lane, self.ends.clock, config);
        let Some(lane) = self.table.add(start.waker()) else { return Err(no_such_lane(u8::MAX)) };
        let (session, timeout) = (self.ends.session.clone(), self.ends.timeout);
        self.threads.push(start.run((lane, self.limit_share()), &self.table, session, timeout)?);
        Ok(())
    }

    /// How many lanes there are, the first included.
    fn count(&self) -> usize {
        self.threads.len() + 1
    }

    /// Whether the reader should get another buffer now, of which there are at most `grants_max`: most file
    /// data to read into it, bytes.
    pub(super) fn next_grant(&self, machine: &Sender, grants_max: u32) -> Option<u32> {
        let ahead = self.table.ready() + self.granted;
        let room = (self.about.len() as u32).saturating_add(self.granted) < self.window;
        let wanted = ahead < READ_AHEAD + self.threads.len() as u32 + 1;
        if !room || !wanted || self.granted >= grants_max {
            return None;
        }
        let others = self.others().map(|shown| shown.in_flight).fold(0, u64::saturating_add);
        let holding = Holding::for_bytes(round_trip_bytes(machine).saturating_add(others), self.window);
        Some(holding.data_max.min(first_chunk_data_max(self.grants)).min(LANE_DATA_MAX))
    }

    /// The reader has got a buffer.
    pub(super) fn handle_granted(&mut self) {
        self.granted += 1;
        self.grants += 1;
    }

    /// Chunks that are read and not settled.
    pub(super) fn held(&self) -> u32 {
        u32::try_from(self.about.len()).unwrap_or(u32::MAX)
    }

    /// The number of the next chunk.
    pub(super) fn next_number(&self) -> ChunkId {
        self.settled + self.about.len() as ChunkId
    }

    /// The reader has filled a buffer.
    pub(super) fn push(&mut self, about: AboutChunk, chunk: LaneChunk) {
        self.granted = self.granted.saturating_sub(1);
        let chunk = Arc::new(chunk);
        self.about.push_back((about, chunk.clone()));
        self.table.push(chunk);
    }

    /// Whether the reader has a buffer that it has not filled, and no lane can go on without it.
    pub(super) fn awaits_source(&self) -> bool {
        self.granted > 0 && self.table.ready() == 0
    }

    /// The oldest chunk that is verified and not settled; `All` of them once the session is complete.
    pub(super) fn pop_settled(&mut self, which: Settle) -> Option<AboutChunk> {
        if which == Settle::Verified && self.settled >= self.table.verified_below() {
            return None;
        }
        let (about, chunk) = self.about.pop_front()?;
        self.settled += 1;
        self.lent.push(chunk);
        Some(about)
    }

    /// A settled chunk that no lane holds any more.
    pub(super) fn pop_free(&mut self) -> Option<LaneChunk> {
        let place = self.lent.iter().position(|chunk| Arc::strong_count(chunk) == 1)?;
        Arc::into_inner(self.lent.swap_remove(place))
    }

    /// Whether any chunk has something of the object.
    pub(super) fn have_content(&self) -> bool {
        self.about.iter().any(|(about, _)| about.has_content)
    }

    /// What the first lane shows; to be called with each heartbeat.
    pub(super) fn show_first(&self, now: Timestamp, machine: &Sender, shown: LaneShown) {
        self.table.observe(now, 0, LaneSeen::of(machine), shown);
    }

    /// Whether a lane beside the first is answered, or waits for nothing.
    pub(super) fn others_answer(&self) -> bool {
        self.others().any(|shown| !shown.is_silent)
    }

    fn others(&self) -> impl Iterator<Item = LaneShown> {
        self.table.shown().into_iter().skip(1)
    }

    /// The sum of the counters of the lanes beside the first.
    pub(super) fn add_others(&self, stats: SenderStats) -> SenderStats {
        self.others().fold(stats, |sum, shown| shown::sum_of(sum, &shown.stats))
    }

    /// Adds what the lanes beside the first have counted to a sample of the first, taken at `now`; its times
    /// become those of all.
    pub(super) fn add_to(&mut self, now: Timestamp, waits: WaitTimes, sample: &mut SenderSample) {
        let first = shown::account_of(sample.bytes_acked, &Spent { at: now, waits, cpu: sample.cpu });
        let others: Vec<LaneShown> = self.others().collect();
        let accounts: Vec<_> = std::iter::once(first).chain(others.iter().map(LaneShown::account)).collect();
        shown::set_times(sample, self.mix.add(now, &accounts));
        for shown in others {
            shown.add_to(sample);
        }
        if let Some(limit) = self.limit.limit() {
            sample.pacing_bps = sample.pacing_bps.min(limit.as_bytes().saturating_mul(8));
        }
    }

    /// What lanes beside the first have judged and changed since the last call.
    pub(super) fn take_news(&self) -> Vec<Measured> {
        self.table.take_news()
    }

    /// Windows of losses of known cause of lanes that have ended.
    pub(super) fn take_lessons(&self) -> Vec<Lesson> {
        self.table.take_lessons()
    }

    /// Datagrams that lanes beside the first have dropped.
    pub(super) fn rejected(&self) -> u64 {
        self.others().map(|shown| shown.rejected).sum()
    }

    /// A chunk of a lane did not verify. False if there is no such lane.
    pub(super) fn reject(&self, lane: u8, chunk: ChunkId, attempt: u8) -> bool {
        let thread = usize::from(lane).checked_sub(1).and_then(|lane| self.threads.get(lane));
        // A lane that has ended sends nothing again; its chunks have gone to others.
        thread.map(|thread| thread.post.post(ToLaneSender::Rejected { chunk, attempt })).is_some()
    }

    /// A lane's access to the user's cap on the rate.
    pub(super) fn limit_share(&self) -> LimitShare {
        self.limit.share(self.began)
    }

    /// The user's cap on the rate of the session, which all lanes share.
    pub(super) fn set_rate_limit(&self, now: Timestamp, limit: Option<Rate>) {
        self.limit.set(now, limit);
        for thread in &self.threads {
            thread.post.post(ToLaneSender::RateLimit(limit));
        }
    }

    pub(super) fn set_priority(&self, priority: Priority) {
        for thread in &self.threads {
            thread.post.post(ToLaneSender::Priority(priority));
        }
    }

    pub(super) fn set_paused(&self, paused: bool) {
        self.table.set_course(if paused { LaneCourse::Paused } else { LaneCourse::On });
    }

    /// What a path of a lane is called.
    pub(super) fn name(&self, lane: usize) -> &str {
        lane.checked_sub(1).and_then(|lane| self.threads.get(lane)).map_or(&self.first, |thread| &thread.name)
    }

    /// When a lane began.
    fn began_of(&self, lane: usize) -> Timestamp {
        lane.checked_sub(1).and_then(|lane| self.threads.get(lane)).map_or(self.began, |thread| thread.began)
    }

    /// Lanes that have not been heard for so long that the user should know, each said once.
    pub(super) fn unheard(&mut self, now: Timestamp) -> Vec<String> {
        let shown = self.table.shown();
        if shown.iter().all(|lane| lane.heard.is_none()) {
            // The session says that UDP is blocked.
            return Vec::new();
        }
        let is_unheard = |lane: usize, shown: &LaneShown| {
            shown.heard.is_none() && now - self.began_of(lane) >= UNHEARD_MAX
        };
        let silent = shown.iter().enumerate().filter(|(lane, shown)| is_unheard(*lane, shown));
        let silent: Vec<usize> =
            silent.map(|(lane, _)| lane).filter(|lane| !self.told.contains(lane)).collect();
        self.told.extend(&silent);
        silent.into_iter().map(|lane| crate::lanes::leads_nowhere(self.name(lane))).collect()
    }

    /// A sentence about each lane, for those who ask why a copy was slow.
    pub(super) fn account(&self) -> Vec<String> {
        let shown = self.table.shown();
        let sum: u64 = shown.iter().map(|lane| lane.stats.data_bytes_acked).sum();
        let lanes = shown.iter().enumerate();
        let mut said: Vec<_> = lanes
            .map(|(lane, shown)| shown.sentence(lane, self.name(lane), sum, self.began_of(lane)))
            .collect();
        let LaneCounts { taken_over, given_up, bytes_twice, .. } = self.table.counts();
        if bytes_twice > 0 {
            let mb = bytes_twice as f64 / 1e6;
            said.push(format!(
                "{given_up} chunks of silent lanes and {taken_over} of slower ones went to others: {mb:.1} MB were \
                 given to two"
            ));
        }
        said
    }

    /// Ends the threads of the lanes; their figures are the last then.
    pub(super) fn end(&mut self) {
        self.table.set_course(LaneCourse::Ends);
        self.threads.iter_mut().for_each(LaneThread::await_end);
    }
}

impl Drop for LaneHub {
    fn drop(&mut self) {
        self.end();
    }
}

/// See [`LaneHub::pop_settled`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settle {
    Verified,
    All,
}

/// Whether a lane waits in vain.
pub(super) fn is_silent(silence: Silence) -> bool {
    matches!(silence, Silence::Blocked(_) | Silence::Dead(_))
}
