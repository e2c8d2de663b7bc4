//! What a keeper does first: it takes up what the one before it has left.

use std::collections::BTreeSet;

use super::attempt::{Process, read_over};
use super::core::Core;
use super::output::{Files, folder};
use super::process::Identity;
use super::{Keeper, now};
use crate::job::{JobId, Phase};
use crate::schedule::Moment;
use crate::store::{Attempt, Record, StoreError};

impl Core {
    /// Takes every job that is not over into the schedule; attempts that still run are adopted, what others
    /// have said last is read, and all go on. With a sentence where there is something to say.
    pub(super) fn recover(&mut self, keeper: &Keeper) -> Result<Vec<String>, StoreError> {
        let now = now();
        let (mut adopted, mut ended) = (0, 0);
        let mut keeps = BTreeSet::new();
        for record in self.store.open_jobs()? {
            let id = record.id;
            match self.unmet(&record)? {
                Ok(after) => {
                    let user = record.owner.map(|owner| owner.uid);
                    self.schedule.add_of(id, &record.spec, user, record.standing.begin(after));
                    // How much of one that has begun is there by now is not known.
                    let whole = record.spec.bytes.filter(|_| record.standing.began_ms.is_none());
                    self.needs_room(id, &record.spec, whole);
                }
                Err(broken) => {
                    let why = format!("job {broken}, which it waits for, did not succeed");
                    self.over(id, Phase::Failed, &why, now, keeper);
                    continue;
                }
            }
            if record.standing.phase != Phase::Running {
                continue;
            }
            let attempt = self.store.last_attempt(id)?.filter(|attempt| attempt.ended_ms.is_none());
            let Some(attempt) = attempt else {
                // It was about to begin, or had just ended.
                self.begins_again(id, now);
                continue;
            };
            keeps.insert(attempt.job);
            if self.take_up(attempt, now, keeper) { adopted += 1 } else { ended += 1 }
        }
        self.sweep(&keeps);
        let mut said = Vec::new();
        if adopted > 0 {
            said.push(format!("{adopted} transfers of an earlier keeper still run, and are watched"));
        }
        if ended > 0 {
            said.push(format!("{ended} transfers of an earlier keeper have ended, and are seen to"));
        }
        Ok(said)
    }

    /// What a job still waits for, or what of it has failed.
    fn unmet(&self, record: &Record) -> Result<Result<BTreeSet<JobId>, JobId>, StoreError> {
        // One that has begun waits for nothing.
        if record.standing.phase == Phase::Running {
            return Ok(Ok(BTreeSet::new()));
        }
        let mut after = BTreeSet::new();
        for &id in &record.spec.after {
            match self.store.job(id).map(|before| before.standing.phase) {
                Ok(Phase::Done) => {}
                Ok(Phase::Failed | Phase::Cancelled) | Err(StoreError::NoJob(_)) => return Ok(Err(id)),
                Ok(_) => {
                    after.insert(id);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(after))
    }

    /// Adopts an attempt that runs, and finishes one that has ended; whether it runs.
    fn take_up(&mut self, mut attempt: Attempt, now: Moment, keeper: &Keeper) -> bool {
        let known = attempt.process.zip(attempt.start_ticks).zip(attempt.boot.clone());
        let known = known.map(|((pid, start_ticks), boot)| Identity { pid, start_ticks, boot });
        let found = match known {
            Some(known) if known.runs(&self.boot) => Some(known),
            Some(_) => None,
            // The keeper ended between the process's start and its note.
            None => Identity::find(&attempt.mark, &self.boot),
        };
        if let Some(identity) = found {
            attempt.process = Some(identity.pid);
            attempt.start_ticks = Some(identity.start_ticks);
            attempt.boot = Some(identity.boot.clone());
            self.watch(Process::Adopted, identity, attempt, keeper);
            return true;
        }
        let files = Files::of(&self.config.directory, attempt.job, attempt.number);
        let over = read_over(&files);
        if over.ending.is_some() {
            self.finish(attempt, over, now, keeper);
        } else {
            let id = attempt.job;
            attempt.ended_ms = Some(now.ms);
            self.save(id, super::core::Change { attempts: vec![attempt], ..Default::default() }, now);
            files.remove();
            self.begins_again(id, now);
        }
        false
    }

    /// A job whose attempt was cut off with its host or its keeper: no failure of its own.
    fn begins_again(&mut self, id: JobId, now: Moment) {
        self.schedule.postpone(id, now, now.ms);
        self.say(id, 0, "the attempt ended with its keeper or its host; it begins again".to_owned(), now);
    }

    /// Removes files of attempts that are over.
    fn sweep(&self, keeps: &BTreeSet<JobId>) {
        let entries = std::fs::read_dir(folder(&self.config.directory)).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let job = name.to_str().and_then(|name| name.split('.').next()?.parse().ok()).map(JobId);
            if job.is_none_or(|job| !keeps.contains(&job)) {
                // The next keeper tries again.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
