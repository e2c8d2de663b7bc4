//! Why the state cannot be used.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use thiserror::Error;

use crate::job::JobId;

/// Why a state file cannot be used, or does not take something.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The directory cannot be made, entered or trusted.
    #[error("cannot keep jobs: {0}")]
    Directory(String),
    /// Another process has it open.
    #[error("another keeper has this state of jobs open ({0}); end it, or use it")]
    Taken(String),
    /// It is no state file, or damaged.
    #[error("the state of jobs is broken: {0}")]
    Broken(String),
    /// A later release has written it.
    #[error("the state of jobs is that of a later release (version {0}); install that one")]
    Later(i64),
    /// There is no room on its disk.
    #[error("no room for the state of jobs: {0}; make room on its disk")]
    Full(String),
    /// There are as many jobs as may be.
    #[error("{0} jobs wait, which is the most; cancel some, or come back when some are done")]
    Queue(u64),
    /// The key stands for other work.
    #[error(
        "the key {key:?} stands for job {id}, which runs another command or in another directory; choose another key"
    )]
    Key {
        /// The key.
        key: String,
        /// The job that has it.
        id: JobId,
    },
    /// A job of this number is needed, and there is none.
    #[error("there is no job {0}; fobs jobs lists those there are")]
    NoJob(JobId),
    /// There are as many tokens as may be.
    #[error("there are {0} tokens, which is the most; those that are over are forgotten after 90 days")]
    Tokens(u64),
    /// There is no token of this number.
    #[error("there is no token {0}; fobs jobs token list has those there are")]
    NoToken(u64),
    /// Something else.
    #[error("the state of jobs cannot be read or written: {0}")]
    Other(String),
}

impl StoreError {
    pub(super) fn of_directory(path: &Path, error: &io::Error) -> StoreError {
        let why = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(why),
            _ => StoreError::Directory(why),
        }
    }

    /// Whether the same may succeed later by itself.
    pub fn may_pass(&self) -> bool {
        matches!(self, StoreError::Full(_) | StoreError::Other(_))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        let why = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full(why),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Broken(why),
            _ => StoreError::Other(why),
        }
    }
}
