//! The rows of jobs.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{QUEUE_MAX, QUEUE_OF_USER_MAX, Store, StoreError};
use crate::job::{JobId, Owner, Phase, Spec};
use crate::schedule::Begin;

/// What of a job changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Standing {
    /// Where it stands.
    pub phase: Phase,
    /// Failures of its present run.
    pub failures: u32,
    /// Not before this time, ms since 1970.
    pub next_ms: u64,
    /// When the run after the present one is due, of a repeated job.
    pub slot_ms: u64,
    /// Runs that were left out.
    pub skipped: u64,
    /// When it began to wait or to run.
    pub since_ms: u64,
    /// Runs that are over.
    pub runs: u64,
    /// When its first attempt began.
    pub began_ms: Option<u64>,
    /// When it was over.
    pub ended_ms: Option<u64>,
    /// Exit code of its last attempt that ended.
    pub exit_code: Option<i32>,
    /// What it said last, or why it is over.
    pub message: Option<String>,
}

impl Standing {
    /// That of a job which the schedule takes so.
    pub fn of(begin: Begin) -> Standing {
        Standing {
            phase: begin.phase,
            failures: begin.failures,
            next_ms: begin.next_ms,
            slot_ms: begin.slot_ms,
            skipped: begin.skipped,
            since_ms: begin.since_ms,
            runs: 0,
            began_ms: None,
            ended_ms: None,
            exit_code: None,
            message: None,
        }
    }

    /// The same with what the schedule says by now.
    pub fn with(self, begin: Begin) -> Standing {
        Standing {
            runs: self.runs,
            began_ms: self.began_ms,
            ended_ms: self.ended_ms,
            exit_code: self.exit_code,
            message: self.message,
            ..Standing::of(begin)
        }
    }

    /// What the schedule needs of it; it waits for these jobs.
    pub fn begin(&self, after: BTreeSet<JobId>) -> Begin {
        Begin {
            phase: self.phase,
            failures: self.failures,
            next_ms: self.next_ms,
            slot_ms: self.slot_ms,
            skipped: self.skipped,
            since_ms: self.since_ms,
            after,
        }
    }
}

/// A job as the state file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub id: JobId,
    /// What was submitted.
    pub spec: Spec,
    /// When, ms since 1970.
    pub submitted_ms: u64,
    /// How it stands.
    pub standing: Standing,
    /// Whose it is, where the keeper is the host's.
    pub owner: Option<Owner>,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    /// A new job.
    New(JobId),
    /// The job that has its key.
    Known(JobId),
}

const COLUMNS: &str = "id, spec, submitted_ms, phase, failures, next_ms, slot_ms, skipped, since_ms, runs, began_ms, \
                       ended_ms, exit_code, message, uid, gid";

impl Store {
    /// Keeps a new job; the one of the same owner that has its key, if that does the same work.
    ///
    /// # Errors
    /// `Queue` where as many jobs wait as may, `Key` where the key stands for other work, `NoJob` where it is
    /// to come after one that is not there; and where the file cannot be written.
    pub fn submit(
        &mut self,
        spec: &Spec,
        owner: Option<Owner>,
        now_ms: u64,
        standing: &Standing,
    ) -> Result<Submitted, StoreError> {
        let change = self.db.transaction()?;
        // Each user has other keys.
        let own_key = spec.key.as_ref().map(|key| match owner {
            Some(Owner { uid, .. }) => format!("{uid} {key}"),
            None => key.clone(),
        });
        if let (Some(key), Some(own_key)) = (&spec.key, &own_key) {
            let known: Option<(u64, String)> = change
                .query_row("SELECT id, spec FROM jobs WHERE key = ?1", [own_key], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()?;
            if let Some((id, known)) = known {
                let id = JobId(id);
                let known = spec_of(&known)?;
                if !known.is_same_work(spec) {
                    return Err(StoreError::Key { key: key.clone(), id });
                }
                return Ok(Submitted::Known(id));
            }
        }
        for &JobId(id) in &spec.after {
            let is_there =
                change.query_row("SELECT 1 FROM jobs WHERE id = ?1", [id], |_| Ok(())).optional()?;
            is_there.ok_or(StoreError::NoJob(JobId(id)))?;
        }
        let open = "SELECT COUNT(*) FROM jobs WHERE phase IN ('waiting', 'running', 'paused')";
        if change.query_row(open, [], |row| row.get::<_, u64>(0))? >= QUEUE_MAX {
            return Err(StoreError::Queue(QUEUE_MAX));
        }
        if let Some(Owner { uid, .. }) = owner {
            let own = format!("{open} AND uid = ?1");
            if change.query_row(&own, [uid], |row| row.get::<_, u64>(0))? >= QUEUE_OF_USER_MAX {
                return Err(StoreError::Queue(QUEUE_OF_USER_MAX));
            }
        }
        let text = serde_json::to_string(spec).map_err(|error| StoreError::Other(error.to_string()))?;
        change.execute(
            "INSERT INTO jobs (key, spec, submitted_ms, phase, next_ms, slot_ms, since_ms, uid, gid) VALUES (?1, ?2, \
             ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                own_key,
                text,
                now_ms,
                standing.phase.name(),
                standing.next_ms,
                standing.slot_ms,
                standing.since_ms,
                owner.map(|owner| owner.uid),
                owner.map(|owner| owner.gid)
            ],
        )?;
        let id = u64::try_from(change.last_insert_rowid()).map_err(|e| StoreError::Broken(e.to_string()))?;
        change.commit()?;
        Ok(Submitted::New(JobId(id)))
    }

    /// Keeps how a job stands.
    ///
    /// # Errors
    /// `NoJob`; where the file cannot be written.
    pub fn set_standing(&mut self, id: JobId, standing: &Standing) -> Result<(), StoreError> {
        let changed = self.db.execute(
            "UPDATE jobs SET phase = ?2, failures = ?3, next_ms = ?4, slot_ms = ?5, skipped = ?6, since_ms = ?7, \
             runs = ?8, began_ms = ?9, ended_ms = ?10, exit_code = ?11, message = ?12 WHERE id = ?1",
            params![
                id.0,
                standing.phase.name(),
                standing.failures,
                standing.next_ms,
                standing.slot_ms,
                standing.skipped,
                standing.since_ms,
                standing.runs,
                standing.began_ms,
                standing.ended_ms,
                standing.exit_code,
                standing.message
            ],
        )?;
        if changed == 0 { Err(StoreError::NoJob(id)) } else { Ok(()) }
    }

    /// A job.
    ///
    /// # Errors
    /// `NoJob`; where the file cannot be read.
    pub fn job(&self, id: JobId) -> Result<Record, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs WHERE id = ?1");
        let found = self.db.query_row(&sql, [id.0], |row| Ok(record(row))).optional()?;
        found.unwrap_or(Err(StoreError::NoJob(id)))
    }

    /// All jobs, by number. They are bounded by the queue's and the history's bounds.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn jobs(&self) -> Result<Vec<Record>, StoreError> {
        let mut query = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM jobs ORDER BY id"))?;
        let rows = query.query_map([], |row| Ok(record(row)))?;
        rows.map(|row| row?).collect()
    }

    /// How many jobs stand where; phases without any may be missing.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn counts(&self) -> Result<Vec<(Phase, u64)>, StoreError> {
        let mut query = self.db.prepare_cached("SELECT phase, COUNT(*) FROM jobs GROUP BY phase")?;
        let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        Ok(rows.into_iter().filter_map(|(phase, count)| Some((Phase::from_name(&phase)?, count))).collect())
    }

    /// The jobs that are not over, by number.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn open_jobs(&self) -> Result<Vec<Record>, StoreError> {
        self.jobs_where("phase IN ('waiting', 'running', 'paused') ORDER BY id")
    }

    pub(super) fn jobs_where(&self, which: &str) -> Result<Vec<Record>, StoreError> {
        let mut query = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM jobs WHERE {which}"))?;
        let rows = query.query_map([], |row| Ok(record(row)))?;
        rows.map(|row| row?).collect()
    }
}

fn spec_of(text: &str) -> Result<Spec, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Broken(format!("a job cannot be read: {error}")))
}

fn record(row: &Row<'_>) -> Result<Record, StoreError> {
    let phase: String = row.get(3)?;
    let phase = Phase::from_name(&phase);
    let spec: String = row.get(1)?;
    let (uid, gid): (Option<u32>, Option<u32>) = (row.get(14)?, row.get(15)?);
    Ok(Record {
        owner: uid.zip(gid).map(|(uid, gid)| Owner { uid, gid }),
        id: JobId(row.get(0)?),
        spec: spec_of(&spec)?,
        submitted_ms: row.get(2)?,
        standing: Standing {
            phase: phase.ok_or_else(|| StoreError::Broken("a job stands nowhere".to_owned()))?,
            failures: row.get(4)?,
            next_ms: row.get(5)?,
            slot_ms: row.get(6)?,
            skipped: row.get(7)?,
            since_ms: row.get(8)?,
            runs: row.get(9)?,
            began_ms: row.get(10)?,
            ended_ms: row.get(11)?,
            exit_code: row.get(12)?,
            message: row.get(13)?,
        },
    })
}
