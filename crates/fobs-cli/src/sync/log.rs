//! `--log-file`: what is done, a line each, behind the time and this process's number.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::format::{Format, time};

/// A log in a file.
pub struct Log {
    file: Mutex<File>,
    zone: TimeZone,
    /// Of an entry; none where the user wants no lines of entries.
    pub format: Option<Format>,
}

impl Log {
    /// Opens a file to append to.
    ///
    /// # Errors
    /// Those of the file.
    pub fn open(path: &Path, format: Option<Format>, zone: TimeZone) -> std::io::Result<Log> {
        let file = fobs::named::append(path, fobs::named::USUAL)?;
        Ok(Log { file: Mutex::new(file), zone, format })
    }

    /// Writes a line.
    pub fn line(&self, text: &[u8]) {
        let now = time(Timestamp::now().as_second(), &self.zone);
        let before = format!("{now} [{}] ", std::process::id());
        let line = [before.as_bytes(), text, b"\n"].concat();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // As rsync: a log that cannot be written ends no transfer.
        let _ = file.write_all(&line);
    }
}
