//! What the keeper's threads share: the state file, the schedule, and the attempts that run.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{self, About, Live, Over, Process};
use super::meters::Meters;
use super::needs::{Destination, Needs};
use super::output::{Files, folder};
use super::process::{Identity, boot_id};
use super::traces::{self, TraceFiles};
use super::{JobView, Keeper, KeeperConfig, LOOK_EVERY, notify, now};
use crate::job::{Ending, JobId, Outlook, Phase};
use crate::schedule::{Action, After, Halt, Moment, Over as OverWhy, Reason, Schedule};
use crate::store::{Attempt, Keep, Line, Record, Standing, Store, StoreError};

/// How long the keeper waits where its state cannot be written, ms: a full disk is looked at again.
const HOLD_MS: u64 = 2000;
/// How often the history is looked through, ms: its bounds are days and thousands.
const FORGET_EVERY_MS: u64 = 3_600_000;
/// Bytes of a mark: no two attempts have the same.
const MARK_BYTES: usize = 16;

#[derive(Debug)]
pub(super) struct Core {
    pub config: KeeperConfig,
    pub boot: String,
    /// The umask with which the keeper was started.
    pub umask: u32,
    pub store: Store,
    pub schedule: Schedule,
    pub meters: Arc<Meters>,
    /// The attempts that run.
    pub live: BTreeMap<JobId, Running>,
    /// Of jobs that write on this host, the room that they need.
    pub needs: BTreeMap<JobId, Needs>,
    /// Whether one of them was not looked at.
    pub has_new_room: bool,
    /// Jobs for which another host is being asked, with the place that it is asked about.
    pub asked: BTreeMap<JobId, Option<String>>,
    /// Places on other hosts, by what jobs call them.
    pub known: BTreeMap<Destination, String>,
    /// What could not be written, by job: written before anything begins.
    unsaved: BTreeMap<JobId, Change>,
    /// Nothing begins before this time, ms since 1970.
    held_until_ms: u64,
    forgotten_ms: u64,
}

#[derive(Debug)]
pub(super) struct Running {
    pub attempt: Attempt,
    pub live: Arc<Live>,
}

/// What is to be written of a job.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub standing: Option<Standing>,
    pub attempts: Vec<Attempt>,
    pub lines: Vec<Line>,
}

impl Core {
    pub(super) fn new(config: KeeperConfig, store: Store) -> Result<Core, StoreError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder(&config.directory));
        made.map_err(|error| StoreError::Directory(format!("{}: {error}", config.directory.display())))?;
        // It cannot be read without being set.
        let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(attempt::OWN_UMASK));
        let boot = config.boot.clone().unwrap_or_else(boot_id);
        let schedule = Schedule::new(store.limits()?);
        Ok(Core {
            config,
            boot,
            umask: umask.as_raw_mode(),
            store,
            schedule,
            meters: Arc::default(),
            live: BTreeMap::new(),
            needs: BTreeMap::new(),
            has_new_room: false,
            asked: BTreeMap::new(),
            known: BTreeMap::new(),
            unsaved: BTreeMap::new(),
            held_until_ms: 0,
            forgotten_ms: 0,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.schedule.is_empty() && self.unsaved.is_empty()
    }

    /// Does what is due; for how long there is nothing more.
    pub(super) fn work(&mut self, keeper: &Keeper) -> Duration {
        let now = now();
        self.save_the_rest(now);
        if now.ms >= self.held_until_ms {
            let actions = self.schedule.tick(now);
            self.obey(actions, now, keeper);
            self.forget(now);
        }
        let next_ms = self.schedule.wake_ms(now).unwrap_or(u64::MAX);
        let next_ms = if self.held_until_ms > now.ms { self.held_until_ms } else { next_ms };
        Duration::from_millis(next_ms.saturating_sub(now.ms)).min(LOOK_EVERY)
    }

    fn forget(&mut self, now: Moment) {
        if now.ms.saturating_sub(self.forgotten_ms) >= FORGET_EVERY_MS {
            self.forgotten_ms = now.ms;
            // Not now is soon enough.
            let _ = self.store.forget(Keep::usual(now.ms), None);
            self.prune();
        }
    }

    /// Removes records of attempts that nobody needs.
    pub(super) fn prune(&self) {
        let runs = self.live.iter().map(|(id, running)| (*id, running.attempt.number)).collect();
        traces::prune(&self.config.directory, &runs, |id| self.store.job(id).is_ok());
    }

    pub(super) fn obey(&mut self, actions: Vec<Action>, now: Moment, keeper: &Keeper) {
        for action in actions {
            match action {
                Action::Start(id) => self.start(id, now, keeper),
                Action::Stop(id, halt) => self.stop(id, halt, now),
                Action::End(id, OverWhy::Deadline) => {
                    self.over(id, Phase::Failed, "its deadline has passed", now, keeper);
                }
                Action::End(id, OverWhy::Predecessor(before)) => {
                    let why = format!(
                        "job {before}, which it waits for, did not succeed; fobs jobs retry once that has"
                    );
                    self.over(id, Phase::Failed, &why, now, keeper);
                }
                Action::Skip(id) => {
                    self.say(id, 0, "a run was due while the last one ran, and is skipped".to_owned(), now);
                }
            }
            keeper.changed();
        }
    }

    pub(super) fn stop(&mut self, id: JobId, halt: Halt, now: Moment) {
        if let Some(running) = self.live.get(&id) {
            running.live.stop();
        }
        let why = match halt {
            Halt::Cancelled => "cancelled",
            Halt::Paused => "paused",
            Halt::Window => "its part of the day is over",
            Halt::Deadline => "its deadline has passed",
        };
        self.say(id, 0, format!("the attempt is ended: {why}"), now);
    }

    /// Begins an attempt: it is written down first, so that its process is found whatever happens.
    fn start(&mut self, id: JobId, now: Moment, keeper: &Keeper) {
        match self.prepare(id, now) {
            Ok((record, attempt)) => self.spawn(&record, attempt, now, keeper),
            Err(StoreError::NoJob(_)) => {
                self.schedule.cancel(id);
                self.schedule.ended(id, &Ending::default(), now);
            }
            Err(_) => {
                self.held_until_ms = now.ms.saturating_add(HOLD_MS);
                self.schedule.postpone(id, now, self.held_until_ms);
            }
        }
    }

    fn prepare(&mut self, id: JobId, now: Moment) -> Result<(Record, Attempt), StoreError> {
        let mut record = self.store.job(id)?;
        let begin = self.schedule.begin_of(id).ok_or(StoreError::NoJob(id))?;
        let began_ms = record.standing.began_ms.or(Some(now.ms));
        let due_ms = record.standing.since_ms.max(record.standing.next_ms);
        let waited = (begin.failures == 0).then(|| now.ms.saturating_sub(due_ms));
        record.standing = Standing { began_ms, message: None, ..record.standing.with(begin) };
        let mut bytes = [0; MARK_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| StoreError::Other(error.to_string()))?;
        let mark: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let attempt = self.store.together(|store| {
            store.set_standing(id, &record.standing)?;
            store.begin_attempt(id, &mark, now.ms)
        })?;
        if let Some(waited_ms) = waited {
            self.meters.waited(&record, waited_ms);
        }
        Ok((record, attempt))
    }

    fn spawn(&mut self, record: &Record, mut attempt: Attempt, now: Moment, keeper: &Keeper) {
        let files = Files::of(&self.config.directory, record.id, attempt.number);
        // Of an attempt of this number whose state was lost with its file.
        files.remove();
        let trace = TraceFiles::of(&self.config.directory, record.id, attempt.number);
        let trace = trace.as_ref().map(|files| files.record.as_path());
        let started =
            attempt::start(&self.config.program, (&record.spec, record.owner), &attempt.mark, &files, trace);
        let child = match started {
            Ok(child) => child,
            Err(error) => return self.not_started(record, attempt, &error, now, keeper),
        };
        let pid = i32::try_from(child.id()).unwrap_or_default();
        let identity = Identity::of(pid, &self.boot);
        let identity = identity.unwrap_or(Identity { pid, start_ticks: 0, boot: self.boot.clone() });
        attempt.process = Some(pid);
        attempt.start_ticks = Some(identity.start_ticks);
        attempt.boot = Some(identity.boot.clone());
        self.save(record.id, Change { attempts: vec![attempt.clone()], ..Change::default() }, now);
        self.watch(Process::Own(child), identity, attempt, keeper);
    }

    fn not_started(
        &mut self,
        record: &Record,
        attempt: Attempt,
        error: &std::io::Error,
        now: Moment,
        keeper: &Keeper,
    ) {
        let why = format!(
            "cannot start {} in {}: {error}",
            self.config.program.display(),
            record.spec.directory.shown()
        );
        let is_gone =
            matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied);
        let exit_code = is_gone.then_some(1);
        let ending = Ending { exit_code, message: Some(why.clone()), ..Ending::default() };
        self.finish(attempt, Over::without(ending, vec![why]), now, keeper);
    }

    /// Has a thread watch an attempt.
    pub(super) fn watch(&mut self, process: Process, identity: Identity, attempt: Attempt, keeper: &Keeper) {
        let live = Arc::new(Live::default());
        let files = Files::of(&self.config.directory, attempt.job, attempt.number);
        let (own, of_thread) = (keeper.clone(), attempt.clone());
        let over = move |over: Over| {
            let mut core = own.core();
            core.finish(of_thread, over, now(), &own);
            drop(core);
            own.0.wake.notify_all();
        };
        let about = About { files, began_ms: attempt.began_ms, limit_of: self.config.limit_of };
        let watched = attempt::watch(process, identity.clone(), about, live.clone(), over);
        self.live.insert(attempt.job, Running { attempt: attempt.clone(), live });
        if let Err(error) = watched {
            // Without a thread there is nobody to watch it: it is ended, and tried again.
            identity.signal(rustix::process::Signal::INT);
            let ending = Ending { message: Some(format!("cannot watch it: {error}")), ..Ending::default() };
            self.finish(attempt, Over::without(ending, Vec::new()), now(), keeper);
        }
    }

    /// An attempt is over: what follows is written down with it.
    pub(super) fn finish(&mut self, mut attempt: Attempt, over: Over, now: Moment, keeper: &Keeper) {
        let id = attempt.job;
        self.live.remove(&id);
        let ending = over.ending.unwrap_or_else(|| Ending {
            message: Some(
                "its process ended without a word: it was killed, or the host went down".to_owned(),
            ),
            ..Ending::default()
        });
        attempt.ended_ms = Some(now.ms);
        attempt.bytes = over.figures.bytes;
        if let Ok(record) = self.store.job(id) {
            self.meters.moved(&record, attempt.bytes);
        }
        attempt.rates = over.rates;
        attempt.limit.clone_from(&over.figures.limit);
        attempt.ending = Some(ending.clone());
        let (after, actions) = self.schedule.ended(id, &ending, now);
        self.learn_room(id, &over.figures, after);
        let standing = self
            .standing(id)
            .map(|standing| after_attempt(standing, &self.schedule, id, after, &ending, now));
        let lines = over.lines.into_iter();
        let lines = lines.map(|text| Line { at_ms: now.ms, attempt: attempt.number, text }).collect();
        let files = Files::of(&self.config.directory, id, attempt.number);
        self.save(id, Change { standing: standing.clone(), attempts: vec![attempt], lines }, now);
        files.remove();
        self.prune();
        if let Some(standing) = standing.filter(|_| matches!(after, After::Repeats(_)) || is_over(after)) {
            self.notify(id, &standing, after, keeper);
        }
        self.obey(actions, now, keeper);
        keeper.changed();
    }

    /// How a job stands, with what is not written yet.
    pub(super) fn standing(&self, id: JobId) -> Option<Standing> {
        let unsaved = self.unsaved.get(&id).and_then(|change| change.standing.clone());
        unsaved.or_else(|| self.store.job(id).ok().map(|record| record.standing))
    }

    /// A job is over without an attempt.
    pub(super) fn over(&mut self, id: JobId, phase: Phase, why: &str, now: Moment, keeper: &Keeper) {
        let Some(standing) = self.standing(id) else { return };
        let message = Some(why.to_owned());
        let standing = Standing { phase, ended_ms: Some(now.ms), message, ..standing };
        let lines = vec![Line { at_ms: now.ms, attempt: 0, text: why.to_owned() }];
        self.save(id, Change { standing: Some(standing.clone()), lines, ..Change::default() }, now);
        self.notify(id, &standing, After::Failed, keeper);
    }

    /// A job as it is shown, without its attempts.
    pub(super) fn view(&self, record: Record, now: Moment) -> JobView {
        let Record { id, spec, submitted_ms, standing, owner } = record;
        let standing = self.standing(id).unwrap_or(standing);
        let reason = self.schedule.why(id, now);
        JobView {
            id,
            spec,
            user: owner.map(|owner| owner.uid),
            submitted_ms,
            standing,
            why: reason.as_ref().map(Reason::to_string),
            reason,
            figures: self.live.get(&id).map(|running| running.live.figures()),
            attempts: Vec::new(),
        }
    }

    pub(super) fn say(&mut self, id: JobId, attempt: u64, text: String, now: Moment) {
        let standing = self.schedule.begin_of(id).zip(self.standing(id));
        let standing = standing.map(|(begin, standing)| standing.with(begin));
        let lines = vec![Line { at_ms: now.ms, attempt, text }];
        self.save(id, Change { standing, lines, ..Change::default() }, now);
    }

    fn notify(&mut self, id: JobId, standing: &Standing, after: After, keeper: &Keeper) {
        let Ok(record) = self.store.job(id) else { return };
        let succeeded = matches!(after, After::Done | After::Repeats(Outlook::Done));
        let phase = match after {
            _ if succeeded => Phase::Done.name(),
            // A repeated job waits by now.
            After::Repeats(_) => Phase::Failed.name(),
            _ => standing.phase.name(),
        };
        self.meters.ended(&record, phase);
        let record_owner = record.owner;
        // What could not be written yet counts, too.
        let view = JobView { standing: standing.clone(), ..self.view(record, now()) };
        let attempts = self.store.attempts(id).unwrap_or_default();
        let own = keeper.clone();
        let say = move |text| own.core().say(id, 0, text, now());
        let by = notify::By {
            own_program: self.config.program.clone(),
            owner: record_owner,
            boot: self.boot.clone(),
        };
        notify::run(JobView { attempts, ..view }, phase, by, say);
    }

    /// Writes a change, or keeps it until it can be written.
    pub(super) fn save(&mut self, id: JobId, change: Change, now: Moment) {
        let pending = self.unsaved.entry(id).or_default();
        pending.standing = change.standing.or(pending.standing.take());
        pending.attempts.extend(change.attempts);
        pending.lines.extend(change.lines);
        if now.ms >= self.held_until_ms {
            self.save_the_rest(now);
        }
    }

    fn save_the_rest(&mut self, now: Moment) {
        if now.ms < self.held_until_ms {
            return;
        }
        while let Some((id, change)) = self.unsaved.pop_first() {
            let written = self.store.together(|store| {
                if let Some(standing) = &change.standing {
                    store.set_standing(id, standing)?;
                }
                change.attempts.iter().try_for_each(|attempt| store.set_attempt(attempt))?;
                store.add_lines(id, &change.lines)
            });
            match written {
                Err(error) if error.may_pass() => {
                    self.unsaved.insert(id, change);
                    self.held_until_ms = now.ms.saturating_add(HOLD_MS);
                    return;
                }
                // Of a job that is gone, nothing is to be written.
                _ => {}
            }
        }
    }
}

fn is_over(after: After) -> bool {
    matches!(after, After::Done | After::Failed | After::Cancelled)
}

/// How a job stands after an attempt.
fn after_attempt(
    standing: Standing,
    schedule: &Schedule,
    id: JobId,
    after: After,
    ending: &Ending,
    now: Moment,
) -> Standing {
    let runs = standing.runs + u64::from(matches!(after, After::Done | After::Failed | After::Repeats(_)));
    let standing = match schedule.begin_of(id) {
        Some(begin) => standing.with(begin),
        None => standing,
    };
    let phase = match after {
        After::Done => Phase::Done,
        After::Failed => Phase::Failed,
        After::Cancelled => Phase::Cancelled,
        After::Paused => Phase::Paused,
        After::Waiting | After::Repeats(_) | After::Stopping(_) => Phase::Waiting,
    };
    let ended_ms = (is_over(after) || matches!(after, After::Repeats(_))).then_some(now.ms);
    Standing {
        phase,
        runs,
        ended_ms,
        exit_code: ending.exit_code,
        message: ending.message.clone(),
        ..standing
    }
}
