//! What users ask of a keeper and have it do.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use super::core::Core;
use super::{JobView, Keeper, notify, now};
use crate::job::{JobId, Phase, Spec, SpecError};
use crate::schedule::{After, Begin, Limits, Moment};
use crate::store::{Keep, Line, Record, Standing, StoreError, Submitted};

/// Why an order is not followed.
#[derive(Debug, Error)]
pub enum OrderError {
    /// The job cannot be one.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The state says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job's phase does not fit.
    #[error("job {id} is {}: {hint}", phase.name())]
    Phase {
        /// The job.
        id: JobId,
        /// Where it stands.
        phase: Phase,
        /// What to do instead.
        hint: &'static str,
    },
    /// A value is out of its bounds.
    #[error("{0}")]
    Value(String),
    /// It is the operator's to do.
    #[error(
        "only root may do this at the keeper of this host; a keeper of your own (fobs jobs serve) does it for you"
    )]
    Denied,
    /// A keeper of the host has none of it.
    #[error("the keeper of this host has no tokens and no page; a keeper of your own (fobs jobs serve) has")]
    NotOfHost,
    /// The keeper ends: what it took now, nothing would run.
    #[error("the keeper of jobs is ending; ask the next one")]
    Ending,
}

/// A change that a user makes to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It ends.
    Cancel,
    /// It rests until it is resumed.
    Pause,
    /// It goes on.
    Resume,
    /// One that is over begins again; one that waits for its next attempt begins at once.
    Retry,
}

impl Keeper {
    /// Takes a job.
    ///
    /// # Errors
    /// Where it cannot be one, where the queue is full, or the state cannot be written.
    pub fn submit(&self, mut spec: Spec) -> Result<Submitted, OrderError> {
        spec.check()?;
        notify::check(&spec.notify).map_err(OrderError::Value)?;
        self.complete(&mut spec)?;
        let now = now();
        if spec.deadline_ms.is_some_and(|deadline| deadline <= now.ms) {
            return Err(OrderError::Value("its deadline has passed".to_owned()));
        }
        let mut core = self.core();
        // It decides to end with the lock held: so no job is taken by a keeper that does not run it.
        if self.has_ended() {
            return Err(OrderError::Ending);
        }
        let mut begin = Begin::new(&spec, now.ms);
        // The job that has its key may be older than what it waits for is kept.
        for &id in &spec.after {
            match self.own(&core, id) {
                Ok(before) if before.standing.phase == Phase::Done => {
                    begin.after.remove(&id);
                }
                Ok(Record { standing: Standing { phase, .. }, .. }) if phase.is_final() => {
                    return Err(OrderError::Phase { id, phase, hint: "no job can come after it" });
                }
                Ok(before) if before.spec.every_ms.is_some() => {
                    let why = format!("job {id} repeats and never ends: no job can come after it");
                    return Err(OrderError::Value(why));
                }
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let submitted = core.store.submit(&spec, self.1, now.ms, &Standing::of(begin.clone()))?;
        if let Submitted::New(id) = submitted {
            core.schedule.add_of(id, &spec, self.1.map(|owner| owner.uid), begin);
            core.meters.submitted(self.1, &spec.label);
            core.needs_room(id, &spec, spec.bytes);
        }
        drop(core);
        self.nudge();
        self.changed();
        Ok(submitted)
    }

    /// All jobs, by number.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn jobs(&self) -> Result<Vec<JobView>, OrderError> {
        let core = self.core();
        let now = now();
        let own = core.store.jobs()?.into_iter().filter(|record| self.may_see(record));
        Ok(own.map(|record| core.view(record, now)).collect())
    }

    /// The jobs that are not over, by number.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn open_jobs(&self) -> Result<Vec<JobView>, OrderError> {
        let core = self.core();
        let now = now();
        let own = core.store.open_jobs()?.into_iter().filter(|record| self.may_see(record));
        Ok(own.map(|record| core.view(record, now)).collect())
    }

    /// A job with its attempts.
    ///
    /// # Errors
    /// `NoJob`; where the state cannot be read.
    pub fn job(&self, id: JobId) -> Result<JobView, OrderError> {
        let core = self.core();
        let record = self.own(&core, id)?;
        let mut attempts = core.store.attempts(id)?;
        if let (Some(last), Some(running)) = (attempts.last_mut(), core.live.get(&id)) {
            (last.rates, last.limit) = (running.live.rates(), running.live.figures().limit);
        }
        Ok(JobView { attempts, ..core.view(record, now()) })
    }

    /// What a job has said, with what its attempt says now.
    ///
    /// # Errors
    /// `NoJob`; where the state cannot be read.
    pub fn log(&self, id: JobId) -> Result<Vec<Line>, OrderError> {
        let core = self.core();
        self.own(&core, id)?;
        let mut lines = core.store.lines(id)?;
        if let Some(running) = core.live.get(&id) {
            let said = running.live.lines().into_iter();
            let number = running.attempt.number;
            lines.extend(said.map(|text| Line { at_ms: now().ms, attempt: number, text }));
        }
        Ok(lines)
    }

    /// Changes a job; how it stands then.
    ///
    /// # Errors
    /// `NoJob`, `Phase` where it cannot be changed so.
    pub fn change(&self, id: JobId, change: Change) -> Result<JobView, OrderError> {
        let mut core = self.core();
        if self.has_ended() {
            return Err(OrderError::Ending);
        }
        let now = now();
        let record = self.own(&core, id)?;
        let phase = core.standing(id).map_or(record.standing.phase, |standing| standing.phase);
        match change {
            Change::Cancel => core.cancel(id, phase, now, self)?,
            Change::Pause => core.pause(id, phase, now)?,
            Change::Resume => core.resume(id, phase, now)?,
            Change::Retry if phase.is_final() => core.retry(record, now)?,
            Change::Retry => core.resume(id, phase, now)?,
        }
        let view = core.store.job(id).map(|record| core.view(record, now));
        drop(core);
        self.nudge();
        self.changed();
        Ok(view?)
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.core().schedule.limits()
    }

    /// Other limits from now on.
    ///
    /// # Errors
    /// Where one is out of bounds, or the state cannot be written.
    pub fn set_limits(&self, limits: Limits) -> Result<(), OrderError> {
        self.needs_operator()?;
        limits.check().map_err(OrderError::Value)?;
        let mut core = self.core();
        core.store.set_limits(limits)?;
        core.schedule.set_limits(limits);
        drop(core);
        self.nudge();
        Ok(())
    }

    /// What it counts, as OpenMetrics text.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn metrics(&self) -> Result<String, OrderError> {
        self.needs_operator()?;
        let core = self.core();
        let (counts, limits, meters) = (core.store.counts()?, core.schedule.limits(), core.meters.clone());
        drop(core);
        Ok(meters.text(&counts, limits)?)
    }

    /// Forgets jobs that were over before this long; returns how many.
    ///
    /// # Errors
    /// Where the state cannot be written.
    pub fn clean(&self, age: Duration) -> Result<usize, OrderError> {
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let since_ms = now().ms.saturating_sub(age_ms).saturating_add(1);
        let mut core = self.core();
        let of_uid = self.1.filter(|owner| !owner.is_root()).map(|owner| owner.uid);
        let forgotten = core.store.forget(Keep { since_ms, count: u64::MAX }, of_uid)?;
        core.prune();
        drop(core);
        self.changed();
        Ok(forgotten)
    }
}

impl Core {
    fn cancel(&mut self, id: JobId, phase: Phase, now: Moment, keeper: &Keeper) -> Result<(), OrderError> {
        match self.schedule.cancel(id) {
            None if phase == Phase::Cancelled => Ok(()),
            None => Err(OrderError::Phase { id, phase, hint: "there is nothing to cancel" }),
            Some((After::Stopping(halt), _)) => {
                self.stop(id, halt, now);
                Ok(())
            }
            Some((_, actions)) => {
                self.over(id, Phase::Cancelled, "cancelled", now, keeper);
                self.obey(actions, now, keeper);
                Ok(())
            }
        }
    }

    fn pause(&mut self, id: JobId, phase: Phase, now: Moment) -> Result<(), OrderError> {
        match self.schedule.pause(id) {
            None => Err(OrderError::Phase { id, phase, hint: "there is nothing to pause" }),
            Some(After::Stopping(halt)) => {
                self.stop(id, halt, now);
                Ok(())
            }
            Some(_) => {
                self.say(id, 0, "paused".to_owned(), now);
                Ok(())
            }
        }
    }

    fn resume(&mut self, id: JobId, phase: Phase, now: Moment) -> Result<(), OrderError> {
        let hint = "fobs jobs retry begins it again";
        self.schedule.resume(id, now).ok_or(OrderError::Phase { id, phase, hint })?;
        self.say(id, 0, "resumed".to_owned(), now);
        Ok(())
    }

    /// Begins a job that is over again, by itself: what it waited for has been, and its deadline with it.
    fn retry(&mut self, record: Record, now: Moment) -> Result<(), OrderError> {
        let Record { id, mut spec, standing, owner, .. } = record;
        let mut begin = Begin { next_ms: now.ms, slot_ms: now.ms, ..Begin::new(&spec, now.ms) };
        for before in std::mem::take(&mut spec.after) {
            match self.store.job(before).map(|before| before.standing.phase) {
                Ok(Phase::Done) | Err(StoreError::NoJob(_)) => {
                    begin.after.remove(&before);
                }
                Ok(phase) if phase.is_final() => {
                    return Err(OrderError::Phase { id: before, phase, hint: "retry that one first" });
                }
                _ => {}
            }
        }
        if spec.deadline_ms.is_some_and(|deadline| deadline <= now.ms) {
            return Err(OrderError::Value(format!("the deadline of job {id} has passed: submit it anew")));
        }
        let standing =
            Standing { ended_ms: None, message: None, exit_code: None, ..standing.with(begin.clone()) };
        self.store.set_standing(id, &standing)?;
        self.schedule.add_of(id, &spec, owner.map(|owner| owner.uid), begin);
        // How much of it is there by now is not known.
        self.needs_room(id, &spec, None);
        self.say(id, 0, "tried again".to_owned(), now);
        Ok(())
    }
}
