//! Jobs that are over, and how long they are kept.

use rusqlite::params;

use super::{Record, Store, StoreError};

/// Those that are over.
const OVER: &str = "phase IN ('done', 'failed', 'cancelled')";

/// Which jobs that are over are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Those that were over since this time, ms since 1970,
    pub since_ms: u64,
    /// and of them the newest, up to this number.
    pub count: u64,
}

impl Keep {
    /// What a keeper keeps by itself: a quarter of a year, at most 10,000 jobs, some 10 MB.
    pub fn usual(now_ms: u64) -> Keep {
        const AGE_MS: u64 = 90 * 24 * 3600 * 1000;
        Keep { since_ms: now_ms.saturating_sub(AGE_MS), count: 10_000 }
    }
}

impl Store {
    /// How many jobs are over and kept.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn over_count(&self) -> Result<usize, StoreError> {
        let sql = format!("SELECT COUNT(*) FROM jobs WHERE {OVER}");
        Ok(self.db.query_row(&sql, [], |row| row.get(0))?)
    }

    /// The jobs that were over last, the newest first, at most this number.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn over(&self, count: usize) -> Result<Vec<Record>, StoreError> {
        self.jobs_where(&format!("{OVER} ORDER BY ended_ms DESC, id DESC LIMIT {count}"))
    }

    /// Forgets jobs that are over, with their attempts, lines and keys, but for those that one that is not
    /// over waits for; of this user alone, where one is named. Returns how many.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn forget(&mut self, keep: Keep, of_uid: Option<u32>) -> Result<usize, StoreError> {
        let since_ms = keep.since_ms.min(i64::MAX as u64);
        let count = keep.count.min(i64::MAX as u64);
        let forgotten = self.db.execute(
            "DELETE FROM jobs WHERE phase IN ('done', 'failed', 'cancelled') AND (ended_ms < ?1 OR id NOT IN (SELECT id \
             FROM jobs WHERE phase IN ('done', 'failed', 'cancelled') ORDER BY ended_ms DESC, id DESC LIMIT ?2)) AND id \
             NOT IN (SELECT json_each.value FROM jobs AS open, json_each(open.spec, '$.after') WHERE open.phase IN \
             ('waiting', 'running', 'paused')) AND (?3 IS NULL OR uid = ?3)",
            params![since_ms, count, of_uid],
        )?;
        Ok(forgotten)
    }
}
