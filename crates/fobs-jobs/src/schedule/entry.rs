//! One job as the schedule sees it.

use std::collections::BTreeSet;

use super::{Action, After, Moment, Over, Reason};
use crate::job::{JobId, Outlook, Phase, Spec, Window};

/// Why an attempt is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// A user cancels the job.
    Cancelled,
    /// A user pauses it.
    Paused,
    /// Its part of the day is over, or it is to begin anew: it goes on when it may.
    Window,
    /// Its deadline has passed.
    Deadline,
}

/// Where a job stands when the schedule takes it, and what of it a state file keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// Waiting, running or paused.
    pub phase: Phase,
    /// Failures of its present run.
    pub failures: u32,
    /// Not before this time, ms since 1970.
    pub next_ms: u64,
    /// When the run after the present one is due, of a repeated job, ms since 1970.
    pub slot_ms: u64,
    /// Runs that were left out because the one before still ran.
    pub skipped: u64,
    /// When it began to wait, or to run, ms since 1970.
    pub since_ms: u64,
    /// Jobs that it still waits for.
    pub after: BTreeSet<JobId>,
}

impl Begin {
    /// A new job, submitted at this time.
    pub fn new(spec: &Spec, now_ms: u64) -> Begin {
        let next_ms = spec.at_ms.unwrap_or(now_ms).max(now_ms);
        Begin {
            phase: Phase::Waiting,
            failures: 0,
            next_ms,
            slot_ms: next_ms,
            skipped: 0,
            since_ms: now_ms,
            after: spec.after.iter().copied().collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    Waiting,
    Paused,
    Running { since_ms: u64, halt: Option<Halt> },
}

/// Where a job writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Writes {
    /// Nobody says where: nothing is known of its room but what an attempt is told.
    Unknown,
    /// On this host, in a place that was not measured yet.
    Unmeasured,
    /// On another host, which was not asked yet.
    Unasked,
    /// On another host, which does not say how much room it has, as far as it was asked: asked again after
    /// this time, ms since 1970.
    Untold { until_ms: u64 },
    /// In this place.
    At(String),
}

#[derive(Debug)]
pub(super) struct Entry {
    priority: i8,
    label: String,
    user: Option<u32>,
    pub(super) destinations: BTreeSet<String>,
    pub(super) sources: BTreeSet<String>,
    between: Option<Window>,
    every_ms: Option<u64>,
    deadline_ms: Option<u64>,
    retries: u32,
    stand: Stand,
    begin: Begin,
    pub(super) writes: Writes,
    /// What it has still to write, where that is known.
    pub(super) left_bytes: Option<u64>,
}

impl Entry {
    pub(super) fn new(spec: &Spec, user: Option<u32>, begin: Begin) -> Entry {
        let stand = match begin.phase {
            Phase::Running => Stand::Running { since_ms: begin.since_ms, halt: None },
            Phase::Paused => Stand::Paused,
            _ => Stand::Waiting,
        };
        Entry {
            priority: spec.priority,
            // Two users may have the same label.
            label: user.map_or(spec.label.clone(), |uid| format!("{uid} {}", spec.label)),
            user,
            destinations: spec.destinations.iter().cloned().collect(),
            sources: spec.sources.iter().cloned().collect(),
            between: spec.between,
            every_ms: spec.every_ms,
            deadline_ms: spec.deadline_ms,
            retries: spec.retries,
            stand,
            begin,
            writes: match (&spec.room, &spec.room_there) {
                (Some(_), _) => Writes::Unmeasured,
                (None, Some(_)) => Writes::Unasked,
                (None, None) => Writes::Unknown,
            },
            left_bytes: None,
        }
    }

    pub(super) fn begin(&self) -> Begin {
        let phase = match self.stand {
            Stand::Waiting => Phase::Waiting,
            Stand::Paused => Phase::Paused,
            Stand::Running { .. } => Phase::Running,
        };
        Begin { phase, ..self.begin.clone() }
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Its user, where there are several.
    pub(super) fn user(&self) -> Option<u32> {
        self.user
    }

    pub(super) fn user_key(&self) -> Option<String> {
        self.user.map(|user| user.to_string())
    }

    pub(super) fn stand(&self) -> Stand {
        self.stand
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.stand, Stand::Running { .. })
    }

    pub(super) fn running_since(&self) -> Option<u64> {
        match self.stand {
            Stand::Running { since_ms, .. } => Some(since_ms),
            _ => None,
        }
    }

    pub(super) fn halt(&self) -> Option<Halt> {
        match self.stand {
            Stand::Running { halt, .. } => halt,
            _ => None,
        }
    }

    /// Jobs that it waits for; none where there are none.
    pub(super) fn after(&self) -> Option<Vec<JobId>> {
        (!self.begin.after.is_empty()).then(|| self.begin.after.iter().copied().collect())
    }

    pub(super) fn waits_for(&self, id: JobId) -> bool {
        self.begin.after.contains(&id)
    }

    pub(super) fn no_longer_after(&mut self, id: JobId) {
        self.begin.after.remove(&id);
    }

    pub(super) fn priority(&self) -> i8 {
        self.priority
    }

    /// Since when it could have run, as far as it alone is concerned, ms since 1970.
    pub(super) fn waits_since_ms(&self) -> u64 {
        self.begin.since_ms.max(self.begin.next_ms)
    }

    pub(super) fn is_open(&self, now: Moment) -> bool {
        self.between.is_none_or(|window| window.is_open(now.day_second))
    }

    /// The time that it waits for.
    pub(super) fn not_yet(&self, now: Moment) -> Option<Reason> {
        let until_ms = self.begin.next_ms;
        if until_ms > now.ms {
            return Some(match (self.begin.failures, self.every_ms) {
                (0, Some(_)) => Reason::NextRun { until_ms },
                (0, None) => Reason::At { until_ms },
                (failures, _) => Reason::Retry { until_ms, failures, retries: self.retries },
            });
        }
        let window = self.between.filter(|window| !window.is_open(now.day_second))?;
        Some(Reason::Closed { window })
    }

    /// What is due now whatever the other jobs do.
    pub(super) fn due(&mut self, id: JobId, now: Moment) -> Option<Action> {
        let late = self.deadline_ms.is_some_and(|deadline| deadline <= now.ms);
        let is_open = self.is_open(now);
        let Stand::Running { halt, .. } = &mut self.stand else {
            return late.then_some(Action::End(id, Over::Deadline));
        };
        let wanted = match halt {
            None if late => Some(Halt::Deadline),
            None if !is_open => Some(Halt::Window),
            _ => None,
        };
        if let Some(wanted) = wanted {
            *halt = Some(wanted);
            return Some(Action::Stop(id, wanted));
        }
        let is_due = self.every_ms.is_some() && self.begin.slot_ms <= now.ms;
        is_due.then(|| {
            self.pass_slots(now.ms);
            Action::Skip(id)
        })
    }

    /// Leaves out the runs that are due by now.
    fn pass_slots(&mut self, now_ms: u64) {
        let Some(every_ms) = self.every_ms.filter(|every| *every > 0) else { return };
        let Some(late_ms) = now_ms.checked_sub(self.begin.slot_ms) else { return };
        let passed = late_ms / every_ms + 1;
        self.begin.slot_ms = self.begin.slot_ms.saturating_add(passed.saturating_mul(every_ms));
        self.begin.skipped = self.begin.skipped.saturating_add(passed);
    }

    /// An attempt begins.
    pub(super) fn start(&mut self, now: Moment) {
        if let Some(every_ms) = self.every_ms
            && self.begin.failures == 0
            && self.begin.slot_ms <= now.ms
        {
            // The run of this slot; what was missed before, while no keeper ran, is not made up for.
            let late_ms = now.ms - self.begin.slot_ms;
            let slots = late_ms / every_ms.max(1) + 1;
            self.begin.slot_ms = self.begin.slot_ms.saturating_add(slots.saturating_mul(every_ms));
        }
        self.begin.since_ms = now.ms;
        self.stand = Stand::Running { since_ms: now.ms, halt: None };
    }

    pub(super) fn may_retry(&self) -> bool {
        self.begin.failures < self.retries
    }

    /// Counts a failure; how many there are.
    pub(super) fn fail(&mut self) -> u32 {
        self.begin.failures = self.begin.failures.saturating_add(1);
        self.begin.failures
    }

    pub(super) fn wait(&mut self, next_ms: u64) -> After {
        self.stand = Stand::Waiting;
        self.begin.next_ms = next_ms;
        self.begin.since_ms = next_ms;
        After::Waiting
    }

    pub(super) fn pause(&mut self) -> After {
        self.stand = Stand::Paused;
        After::Paused
    }

    /// A run is over: the job is, too, unless it repeats.
    pub(super) fn repeat_or(&mut self, over: After, outlook: Outlook, now: Moment) -> After {
        if self.every_ms.is_none() {
            return over;
        }
        self.pass_slots(now.ms);
        self.begin.failures = 0;
        self.wait(self.begin.slot_ms);
        After::Repeats(outlook)
    }

    /// Whether there is an attempt to be ended; it is marked so.
    pub(super) fn halt_by(&mut self, by: Halt) -> bool {
        let Stand::Running { halt, .. } = &mut self.stand else { return false };
        // Of two orders the one counts that ends more.
        if !matches!(halt, Some(Halt::Cancelled | Halt::Deadline)) {
            *halt = Some(by);
        }
        true
    }

    pub(super) fn resume(&mut self, now: Moment) {
        match &mut self.stand {
            Stand::Running { halt, .. } => {
                if *halt == Some(Halt::Paused) {
                    *halt = Some(Halt::Window);
                }
            }
            Stand::Paused => {
                self.stand = Stand::Waiting;
                if self.begin.failures > 0 {
                    self.begin.failures = 0;
                    self.begin.next_ms = now.ms;
                }
            }
            Stand::Waiting if self.begin.failures > 0 => {
                self.begin.failures = 0;
                self.begin.next_ms = now.ms;
            }
            Stand::Waiting => {}
        }
    }

    /// When something of it changes by itself.
    pub(super) fn wake_ms(&self, now: Moment) -> Option<u64> {
        let window = self
            .between
            .map(|window| now.ms.saturating_add(u64::from(window.next_change_s(now.day_second)) * 1000));
        let is_later = |at: &u64| *at > now.ms;
        let times = match self.stand {
            Stand::Paused => [None, None, self.deadline_ms],
            Stand::Waiting => [Some(self.begin.next_ms), window, self.deadline_ms],
            Stand::Running { .. } => [self.every_ms.map(|_| self.begin.slot_ms), window, self.deadline_ms],
        };
        times.into_iter().flatten().filter(is_later).min()
    }
}
