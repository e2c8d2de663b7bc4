//! The rows of attempts.

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Store, StoreError};
use crate::job::{Ending, JobId, RatePoint};

/// Most attempts of a job that are kept: of one that repeats, the newest.
const ATTEMPTS_MAX: u64 = 200;

/// One run of a job's command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Its job.
    pub job: JobId,
    /// From 1.
    pub number: u64,
    /// When it began, ms since 1970.
    pub began_ms: u64,
    /// When it ended; none while it runs.
    pub ended_ms: Option<u64>,
    /// What its process has in its environment, so that it is found again.
    #[serde(skip)]
    pub mark: String,
    /// Its process; none where a keeper ended before it was written.
    pub process: Option<i32>,
    /// When that was started, in ticks since the host's start (proc(5)): numbers are used again.
    #[serde(skip)]
    pub start_ticks: Option<u64>,
    /// The host's start (`/proc/sys/kernel/random/boot_id`).
    #[serde(skip)]
    pub boot: Option<String>,
    /// How it ended.
    pub ending: Option<Ending>,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Its rate over time.
    #[serde(default)]
    pub rates: Vec<RatePoint>,
    /// What limited it, in a sentence.
    #[serde(default)]
    pub limit: Option<String>,
}

const COLUMNS: &str = "job, number, began_ms, ended_ms, mark, process, start_ticks, boot, ending, bytes, rates, \
                       limited";

impl Store {
    /// Keeps that an attempt begins, before its process does; returns it with its number.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn begin_attempt(&mut self, job: JobId, mark: &str, now_ms: u64) -> Result<Attempt, StoreError> {
        let change = self.db.savepoint()?;
        let last: Option<u64> =
            change.query_row("SELECT MAX(number) FROM attempts WHERE job = ?1", [job.0], |row| row.get(0))?;
        let number = last.unwrap_or(0) + 1;
        change.execute(
            "INSERT INTO attempts (job, number, began_ms, mark) VALUES (?1, ?2, ?3, ?4)",
            params![job.0, number, now_ms, mark],
        )?;
        change.execute(
            "DELETE FROM attempts WHERE job = ?1 AND number <= ?2",
            params![job.0, number.saturating_sub(ATTEMPTS_MAX)],
        )?;
        change.commit()?;
        Ok(Attempt {
            job,
            number,
            began_ms: now_ms,
            ended_ms: None,
            mark: mark.to_owned(),
            process: None,
            start_ticks: None,
            boot: None,
            ending: None,
            bytes: 0,
            rates: Vec::new(),
            limit: None,
        })
    }

    /// Keeps what has changed of an attempt.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn set_attempt(&mut self, attempt: &Attempt) -> Result<(), StoreError> {
        let ending = attempt.ending.as_ref().map(serde_json::to_string).transpose();
        let ending = ending.map_err(|error| StoreError::Other(error.to_string()))?;
        let rates = serde_json::to_string(&attempt.rates);
        let rates = rates.map_err(|error| StoreError::Other(error.to_string()))?;
        self.db.execute(
            "UPDATE attempts SET ended_ms = ?3, process = ?4, start_ticks = ?5, boot = ?6, ending = ?7, bytes = ?8, \
             rates = ?9, limited = ?10 WHERE job = ?1 AND number = ?2",
            params![
                attempt.job.0,
                attempt.number,
                attempt.ended_ms,
                attempt.process,
                attempt.start_ticks,
                attempt.boot,
                ending,
                attempt.bytes,
                rates,
                attempt.limit
            ],
        )?;
        Ok(())
    }

    /// The attempts of a job, oldest first.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn attempts(&self, job: JobId) -> Result<Vec<Attempt>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM attempts WHERE job = ?1 ORDER BY number");
        let mut query = self.db.prepare_cached(&sql)?;
        let rows = query.query_map([job.0], attempt)?;
        rows.map(|row| Ok(row?)).collect()
    }

    /// The last attempt of a job.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn last_attempt(&self, job: JobId) -> Result<Option<Attempt>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM attempts WHERE job = ?1 ORDER BY number DESC LIMIT 1");
        Ok(self.db.query_row(&sql, [job.0], attempt).optional()?)
    }
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    let ending: Option<String> = row.get(8)?;
    let rates: Option<String> = row.get(10)?;
    Ok(Attempt {
        job: JobId(row.get(0)?),
        number: row.get(1)?,
        began_ms: row.get(2)?,
        ended_ms: row.get(3)?,
        mark: row.get(4)?,
        process: row.get(5)?,
        start_ticks: row.get(6)?,
        boot: row.get(7)?,
        ending: ending.and_then(|text| serde_json::from_str(&text).ok()),
        bytes: row.get(9)?,
        rates: rates.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        limit: row.get(11)?,
    })
}
