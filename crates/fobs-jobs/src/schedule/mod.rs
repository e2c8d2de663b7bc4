//! Which job runs when: a machine without a clock and without I/O.
//!
//! Callers give it jobs, the time and what happened; [`Schedule::tick`] answers with what to begin and what
//! to stop. The order is: the user that has had the least, where there are several; of that user's jobs
//! priority (which grows while nothing of it begins), then the label that has had the least, then the number.
//! A job that does not fit its host's or its source's limit, or the room where it writes, holds up no other
//! one.

mod backoff;
mod entry;
mod inquiry;
mod level;
mod limits;
mod reason;
mod room;
mod share;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::job::{Ending, JobId, Outlook, Phase, Spec};
use backoff::pause_ms;
use entry::{Entry, Stand};
use share::Shares;

pub use backoff::{PAUSE_MS_MAX, PAUSE_MS_MIN};
pub use entry::{Begin, Halt};
pub use inquiry::{Inquiry, Told};
pub use level::AGING_MS;
pub use limits::{LIMIT_MAX, Limits};
pub use reason::Reason;
pub use room::Measured;

use level::Levels;
use limits::Places;
use room::Rooms;

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub ms: u64,
    /// Seconds since local midnight.
    pub day_second: u32,
}

/// What the schedule wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Begin an attempt: the job counts as running from here on.
    Start(JobId),
    /// End its attempt; [`Schedule::ended`] hears of it later.
    Stop(JobId, Halt),
    /// It is over without another attempt, and forgotten here.
    End(JobId, Over),
    /// The run of a repeated job that would begin now is left out: the last one still runs.
    Skip(JobId),
}

/// Why a job ends without an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Its deadline has passed.
    Deadline,
    /// A job that it waits for did not succeed.
    Predecessor(JobId),
}

/// What becomes of a job after an attempt or an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It succeeded, and is forgotten here.
    Done,
    /// It failed for good, and is forgotten here.
    Failed,
    /// It was cancelled, and is forgotten here.
    Cancelled,
    /// It waits until it is resumed.
    Paused,
    /// It waits for its next attempt or its window.
    Waiting,
    /// It waits for its next run; the last one succeeded or not.
    Repeats(Outlook),
    /// Its attempt is to be ended first.
    Stopping(Halt),
}

/// The jobs that are not over, and what they hold.
#[derive(Debug, Default)]
pub struct Schedule {
    limits: Limits,
    entries: BTreeMap<JobId, Entry>,
    places: Places,
    users: Shares,
    shares: Shares,
    rooms: Rooms,
    levels: BTreeMap<Option<u32>, Levels>,
}

impl Schedule {
    /// An empty one with these limits.
    pub fn new(limits: Limits) -> Schedule {
        Schedule { limits, ..Schedule::default() }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Other limits from now on; what runs goes on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// How many jobs are not over.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether all are over.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many run.
    pub fn running(&self) -> u32 {
        self.places.total()
    }

    /// Takes a job, as new or as it stood when a keeper ended.
    pub fn add(&mut self, id: JobId, spec: &Spec, begin: Begin) {
        self.add_of(id, spec, None, begin);
    }

    /// Likewise, of one of several users.
    pub fn add_of(&mut self, id: JobId, spec: &Spec, user: Option<u32>, begin: Begin) {
        let entry = Entry::new(spec, user, begin);
        self.shares.join(entry.label());
        if let Some(user) = entry.user_key() {
            self.users.join(&user);
        }
        if entry.is_running() {
            self.places.take(&entry);
            self.shares.charge(entry.label());
            if let Some(user) = entry.user_key() {
                self.users.charge(&user);
            }
        }
        self.entries.insert(id, entry);
    }

    /// Where a job stands, for the state file.
    pub fn begin_of(&self, id: JobId) -> Option<Begin> {
        self.entries.get(&id).map(Entry::begin)
    }

    /// What is due: ends, stops and skipped runs first, then what begins.
    pub fn tick(&mut self, now: Moment) -> Vec<Action> {
        let mut actions = Vec::new();
        let due: Vec<(JobId, Action)> =
            self.entries.iter_mut().filter_map(|(id, entry)| Some((*id, entry.due(*id, now)?))).collect();
        for (id, action) in due {
            actions.push(action);
            if matches!(action, Action::End(..)) {
                actions.extend(self.forget(id, Phase::Failed));
            }
        }
        while self.places.total() < self.limits.total {
            let Some(id) = self.next(now) else { break };
            let Some(entry) = self.entries.get_mut(&id) else { break };
            entry.start(now);
            self.levels.entry(entry.user()).or_default().began(entry.priority(), now);
            self.places.take(entry);
            self.shares.charge(entry.label());
            if let Some(user) = entry.user_key() {
                self.users.charge(&user);
            }
            actions.push(Action::Start(id));
        }
        actions
    }

    /// The job that begins next, if any may.
    fn next(&self, now: Moment) -> Option<JobId> {
        let unheld = self.rooms.unheld(self.entries.values());
        let may = |(_, entry): &(&JobId, &Entry)| {
            entry.holds_back(now).is_none()
                && self.places.full(entry, self.limits).is_none()
                && room::lacking(entry, &unheld, now).is_none()
        };
        let may_run = || self.entries.iter().filter(may);
        let least = |one: &Option<u32>, other: &Option<u32>| {
            let had = |user: &Option<u32>| user.map_or(0.0, |user| self.users.of(&user.to_string()));
            had(one).total_cmp(&had(other)).then(one.cmp(other))
        };
        let user = may_run().map(|(_, entry)| entry.user()).min_by(least)?;
        let jobs = may_run().filter(|(_, entry)| entry.user() == user);
        let usual = Levels::default();
        let levels = self.levels.get(&user).unwrap_or(&usual);
        levels.next(jobs.map(|(id, entry)| (*id, entry, self.shares.of(entry.label()))), now)
    }

    /// An attempt has ended, or could not begin. Of other jobs it says which are over with it.
    pub fn ended(&mut self, id: JobId, ending: &Ending, now: Moment) -> (After, Vec<Action>) {
        let Some(entry) = self.entries.get_mut(&id) else { return (After::Failed, Vec::new()) };
        if let Some(since_ms) = entry.running_since() {
            self.places.free(entry);
            self.rooms.spend(entry, now);
            let took_ms = now.ms.saturating_sub(since_ms);
            self.shares.settle(entry.label(), took_ms);
            if let Some(user) = entry.user_key() {
                self.users.settle(&user, took_ms);
            }
        }
        let outlook = ending.outlook();
        let after = match (outlook, entry.halt()) {
            (Outlook::Done, _) => entry.repeat_or(After::Done, outlook, now),
            (_, Some(Halt::Cancelled)) => After::Cancelled,
            (_, Some(Halt::Paused)) => entry.pause(),
            (_, Some(Halt::Window)) => entry.wait(now.ms),
            (_, Some(Halt::Deadline)) => After::Failed,
            (Outlook::Again, None) if entry.may_retry() => {
                let pause = pause_ms(id, entry.fail());
                entry.wait(now.ms.saturating_add(pause))
            }
            (Outlook::Again | Outlook::Never, None) => entry.repeat_or(After::Failed, outlook, now),
        };
        let actions = match after {
            After::Done => self.forget(id, Phase::Done),
            After::Failed => self.forget(id, Phase::Failed),
            After::Cancelled => self.forget(id, Phase::Cancelled),
            _ => Vec::new(),
        };
        (after, actions)
    }

    /// An attempt could not be made, through no fault of the job: it waits until then, and no failure counts.
    pub fn postpone(&mut self, id: JobId, now: Moment, until_ms: u64) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if let Some(since_ms) = entry.running_since() {
            self.places.free(entry);
            self.rooms.spend(entry, now);
            let took_ms = now.ms.saturating_sub(since_ms);
            self.shares.settle(entry.label(), took_ms);
            if let Some(user) = entry.user_key() {
                self.users.settle(&user, took_ms);
            }
        }
        if entry.halt() == Some(Halt::Paused) {
            entry.pause();
        } else {
            entry.wait(until_ms);
        }
    }

    /// Removes a job that is over, and says which others are over with it: those that waited for its success.
    fn forget(&mut self, id: JobId, phase: Phase) -> Vec<Action> {
        self.remove(id);
        let mut actions = Vec::new();
        // Each job is removed once, so this ends.
        let mut over = vec![(id, phase)];
        while let Some((id, phase)) = over.pop() {
            if phase == Phase::Done {
                self.entries.values_mut().for_each(|entry| entry.no_longer_after(id));
                continue;
            }
            let waited: Vec<JobId> = self
                .entries
                .iter()
                .filter(|(_, entry)| entry.waits_for(id) && !entry.is_running())
                .map(|(waited, _)| *waited)
                .collect();
            for waited in waited {
                self.remove(waited);
                actions.push(Action::End(waited, Over::Predecessor(id)));
                over.push((waited, Phase::Failed));
            }
        }
        actions
    }

    fn remove(&mut self, id: JobId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.shares.leave(entry.label());
            if let Some(user) = entry.user_key() {
                self.users.leave(&user);
                if !self.users.knows(&user) {
                    self.levels.remove(&entry.user());
                }
            }
        }
    }

    /// A user cancels a job; none where it is over by now.
    pub fn cancel(&mut self, id: JobId) -> Option<(After, Vec<Action>)> {
        let entry = self.entries.get_mut(&id)?;
        if entry.halt_by(Halt::Cancelled) {
            return Some((After::Stopping(Halt::Cancelled), Vec::new()));
        }
        Some((After::Cancelled, self.forget(id, Phase::Cancelled)))
    }

    /// A user pauses a job; none where it is over by now.
    pub fn pause(&mut self, id: JobId) -> Option<After> {
        let entry = self.entries.get_mut(&id)?;
        if entry.halt_by(Halt::Paused) {
            return Some(After::Stopping(Halt::Paused));
        }
        Some(entry.pause())
    }

    /// A user lets a job go on, at once where it waits for its next attempt; none where it is over by now.
    pub fn resume(&mut self, id: JobId, now: Moment) -> Option<After> {
        let entry = self.entries.get_mut(&id)?;
        entry.resume(now);
        Some(After::Waiting)
    }

    /// Why a job does not run, and what would let it; none where it runs or is over.
    pub fn why(&self, id: JobId, now: Moment) -> Option<Reason> {
        let entry = self.entries.get(&id)?;
        if entry.is_running() {
            return None;
        }
        let lacking = || room::lacking(entry, &self.rooms.unheld(self.entries.values()), now);
        let held = entry.holds_back(now).or_else(|| self.places.full(entry, self.limits)).or_else(lacking);
        Some(held.unwrap_or(Reason::Turn))
    }

    /// When something may change by itself: to be asked again by then, ms since 1970.
    pub fn wake_ms(&self, now: Moment) -> Option<u64> {
        self.entries.values().filter_map(|entry| entry.wake_ms(now)).min()
    }
}

impl Entry {
    /// What a job waits for alone, whatever the others do.
    fn holds_back(&self, now: Moment) -> Option<Reason> {
        match self.stand() {
            Stand::Running { .. } => return Some(Reason::Turn),
            Stand::Paused => return Some(Reason::Paused),
            Stand::Waiting => {}
        }
        if let Some(after) = self.after() {
            return Some(Reason::After { jobs: after });
        }
        self.not_yet(now)
    }
}
