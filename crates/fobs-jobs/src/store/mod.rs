//! Jobs and attempts in a file that survives the end of any process (SQLite).
//!
//! One process at a time has it open: a lock beside it says so. What is committed is on the device.

mod attempts;
mod error;
mod history;
mod jobs;
mod lines;
mod lock;
mod schema;
#[cfg(test)]
mod tests;
mod tokens;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags};

use crate::schedule::Limits;
use lock::Lock;

pub use attempts::Attempt;
pub use error::StoreError;
pub use history::Keep;
pub use jobs::{Record, Standing, Submitted};
pub use lines::{LINE_BYTES_MAX, LINES_MAX, Line};

/// Most jobs that are not over: each tick of the schedule looks at all of them.
pub const QUEUE_MAX: u64 = 10_000;
/// Most of one user, where the keeper is the host's: none takes the places of all.
pub const QUEUE_OF_USER_MAX: u64 = 1_000;
/// The file's name.
const FILE: &str = "jobs.db";
/// Most broken files that are kept: the newest ones.
const BROKEN_MAX: usize = 3;

/// The open state file.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    path: PathBuf,
    /// Held until the end.
    _lock: Lock,
}

impl Store {
    /// Opens the state file of a directory, which is made if need be for its user alone. A file that is
    /// broken is set aside and a new one begun: then with a sentence that says so.
    ///
    /// # Errors
    /// Where another process has it open, where it cannot be read or written, or is of a later release.
    pub fn open(directory: &Path) -> Result<(Store, Option<String>), StoreError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| StoreError::of_directory(directory, &error))?;
        let metadata = fs::symlink_metadata(directory);
        let metadata = metadata.map_err(|error| StoreError::of_directory(directory, &error))?;
        if metadata.uid() != rustix::process::geteuid().as_raw() || !metadata.is_dir() {
            return Err(StoreError::Directory(format!("{} is not this user's", directory.display())));
        }
        if metadata.mode() & 0o077 != 0 {
            let closed = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
            closed.map_err(|error| StoreError::of_directory(directory, &error))?;
        }
        let lock = Lock::take(directory)?;
        let path = directory.join(FILE);
        match connect(&path) {
            Ok(db) => Ok((Store { db, path, _lock: lock }, None)),
            Err(StoreError::Broken(why)) => {
                let aside = set_aside(&path).map_err(|error| StoreError::of_directory(directory, &error))?;
                let said = format!(
                    "the state of jobs was broken ({why}); it is kept as {}, and a new one begins without its jobs",
                    aside.display()
                );
                let db = connect(&path)?;
                Ok((Store { db, path, _lock: lock }, Some(said)))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a directory has a state file: without one there is no job.
    pub fn exists(directory: &Path) -> bool {
        directory.join(FILE).exists()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes several changes whole or not at all.
    ///
    /// # Errors
    /// Those of the changes, and where the file cannot be written.
    pub fn together<T>(
        &mut self,
        change: impl FnOnce(&mut Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.db.execute_batch("BEGIN IMMEDIATE")?;
        let done = change(self).and_then(|done| {
            self.db.execute_batch("COMMIT")?;
            Ok(done)
        });
        if done.is_err() && !self.db.is_autocommit() {
            // What failed is said; a rollback that fails as well leaves nothing behind that a commit would
            // keep.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        done
    }

    /// Lets the file grow no further than to this many pages: a full disk.
    #[cfg(test)]
    pub(crate) fn bound_pages(&self, pages: Option<u32>) {
        let set = self.db.pragma_update(None, "max_page_count", pages.unwrap_or(1 << 30));
        set.expect("a bound");
    }

    /// The limits that were set last.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn limits(&self) -> Result<Limits, StoreError> {
        let found: Result<String, _> =
            self.db.query_row("SELECT value FROM settings WHERE name = 'limits'", [], |row| row.get(0));
        match found {
            Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(Limits::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps other limits.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn set_limits(&mut self, limits: Limits) -> Result<(), StoreError> {
        let text = serde_json::to_string(&limits).map_err(|error| StoreError::Broken(error.to_string()))?;
        self.db.execute("INSERT OR REPLACE INTO settings (name, value) VALUES ('limits', ?1)", [text])?;
        Ok(())
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // SQLite makes its files with 0644 less the umask: the directory, which is closed, counts, and this mode.
    let made = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    made.and_then(|file| file.set_permissions(fs::Permissions::from_mode(0o600)))
        .map_err(|error| StoreError::of_directory(path, &error))?;
    let mut db = Connection::open_with_flags(path, flags)?;
    // Exclusive: without shared memory, which a network file system does not have.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    let found: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(StoreError::Broken(found));
    }
    schema::migrate(&mut db)?;
    Ok(db)
}

/// Renames a broken file and its log; returns the new name. Older ones beyond [`BROKEN_MAX`] are removed.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let is_broken = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("jobs.db.broken-") && !name.ends_with("-wal")
    };
    let mut old: Vec<PathBuf> =
        fs::read_dir(directory)?.flatten().map(|entry| entry.path()).filter(is_broken).collect();
    old.sort();
    for old in old.iter().rev().skip(BROKEN_MAX - 1) {
        fs::remove_file(old)?;
        // Most have none.
        let _ = fs::remove_file(with_end(old, "-wal"));
    }
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let aside = with_end(path, &format!(".broken-{now_ms:013}"));
    fs::rename(path, &aside)?;
    // One that was closed well has no log.
    let _ = fs::rename(with_end(path, "-wal"), with_end(&aside, "-wal"));
    Ok(aside)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}
