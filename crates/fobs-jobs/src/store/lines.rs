//! What attempts have said, line by line.

use rusqlite::params;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Store, StoreError};
use crate::job::JobId;

/// Most lines of a job that are kept: the newest. A person reads no more, and `--trace` has the rest.
pub const LINES_MAX: u64 = 1000;
/// Longest line, bytes: what is beyond is cut off.
pub const LINE_BYTES_MAX: usize = 4096;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Line {
    /// When it was read, ms since 1970.
    pub at_ms: u64,
    /// The attempt that said it; 0 is the keeper.
    pub attempt: u64,
    /// The line without its end.
    pub text: String,
}

impl Store {
    /// Keeps lines of a job.
    ///
    /// # Errors
    /// Where the file cannot be written, `NoJob`.
    pub fn add_lines(&mut self, job: JobId, lines: &[Line]) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let change = self.db.savepoint()?;
        let last: Option<u64> =
            change.query_row("SELECT MAX(number) FROM lines WHERE job = ?1", [job.0], |row| row.get(0))?;
        let mut number = last.unwrap_or(0);
        for line in lines {
            number += 1;
            let mut end = line.text.len().min(LINE_BYTES_MAX);
            while !line.text.is_char_boundary(end) {
                end -= 1;
            }
            change.execute(
                "INSERT INTO lines (job, number, at_ms, attempt, text) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![job.0, number, line.at_ms, line.attempt, &line.text[..end]],
            )?;
        }
        change.execute(
            "DELETE FROM lines WHERE job = ?1 AND number <= ?2",
            params![job.0, number.saturating_sub(LINES_MAX)],
        )?;
        change.commit()?;
        Ok(())
    }

    /// What a job has said, oldest first.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn lines(&self, job: JobId) -> Result<Vec<Line>, StoreError> {
        let sql = "SELECT at_ms, attempt, text FROM lines WHERE job = ?1 ORDER BY number";
        let mut query = self.db.prepare_cached(sql)?;
        let line = |row: &rusqlite::Row<'_>| {
            Ok(Line { at_ms: row.get(0)?, attempt: row.get(1)?, text: row.get(2)? })
        };
        let rows = query.query_map([job.0], line)?;
        rows.map(|row| Ok(row?)).collect()
    }
}
