//! The tables, and how an older file becomes one of this release.

use rusqlite::Connection;

use super::StoreError;

/// What leads from each version to the next: the first one makes the tables. Never changed, only added to.
const STEPS: &[&str] = &[
    "
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT UNIQUE,
    spec TEXT NOT NULL,
    submitted_ms INTEGER NOT NULL,
    phase TEXT NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    next_ms INTEGER NOT NULL DEFAULT 0,
    slot_ms INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    since_ms INTEGER NOT NULL DEFAULT 0,
    runs INTEGER NOT NULL DEFAULT 0,
    began_ms INTEGER,
    ended_ms INTEGER,
    exit_code INTEGER,
    message TEXT
) STRICT;
CREATE INDEX jobs_by_phase ON jobs (phase, ended_ms);
CREATE TABLE attempts (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    mark TEXT NOT NULL,
    process INTEGER,
    start_ticks INTEGER,
    boot TEXT,
    ending TEXT,
    bytes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, number)
) STRICT;
CREATE TABLE lines (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
",
    "
CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    revoked_ms INTEGER
) STRICT;
",
    "
ALTER TABLE attempts ADD COLUMN rates TEXT;
ALTER TABLE attempts ADD COLUMN limited TEXT;
",
    "
ALTER TABLE jobs ADD COLUMN uid INTEGER;
ALTER TABLE jobs ADD COLUMN gid INTEGER;
CREATE INDEX jobs_by_user ON jobs (uid, phase);
",
];

/// Brings a file to this release's tables, each step whole or not at all.
pub(super) fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let Ok(done) = usize::try_from(version) else {
        return Err(StoreError::Broken(format!("its version is {version}")));
    };
    if done > STEPS.len() {
        return Err(StoreError::Later(version));
    }
    for (step, next) in STEPS.iter().zip(1_i64..).skip(done) {
        let change = db.transaction()?;
        change.execute_batch(step)?;
        change.pragma_update(None, "user_version", next)?;
        change.commit()?;
    }
    Ok(())
}
