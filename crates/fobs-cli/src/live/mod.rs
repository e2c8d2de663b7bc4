//! Copies that run on this host: each has a socket on which its user may look at it and change it.
//!
//! `PID.sock` below `$XDG_RUNTIME_DIR/fobs`, in a directory that only its user can enter. A connection
//! carries one line of JSON each way.

mod ask;
mod change;
mod outlook;
mod seat;
mod snapshot;

pub use ask::{all, ask};
pub use change::Change;
pub use outlook::{Left, Outlook};
pub use seat::Seat;
pub use snapshot::Snapshot;
#[cfg(test)]
pub use snapshot::Stage;

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// Longest line of a question or an answer, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The end of a socket's name.
const SUFFIX: &str = ".sock";

/// What is asked of a running copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// How does it stand?
    Status,
    /// It is to change.
    Change(String),
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// How it stands.
    Status(Box<Snapshot>),
    /// It is changed.
    Changed,
    /// It is not, for this reason.
    Refused(String),
}

/// The directory of this user's sockets: below the user's runtime directory, or where there is none, one of
/// our own in `/tmp`.
fn own_directory() -> PathBuf {
    let user = geteuid().as_raw();
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || Some(PathBuf::from(format!("/run/user/{user}"))).filter(|path| path.is_dir());
    match given.or_else(usual) {
        Some(base) => base.join("fobs"),
        None => PathBuf::from(format!("/tmp/fobs-{user}")),
    }
}

/// The directories of all users whose copies this one may see: root those of all.
fn directories() -> Vec<PathBuf> {
    let mut found = vec![own_directory()];
    if geteuid().is_root() {
        let named = |base: &str, fits: fn(&Path) -> Option<PathBuf>| {
            let entries = fs::read_dir(base).into_iter().flatten().flatten();
            entries.filter_map(move |entry| fits(&entry.path())).collect::<Vec<_>>()
        };
        found.extend(named("/run/user", |user| Some(user.join("fobs"))));
        found.extend(named("/tmp", |path| {
            path.file_name()?.to_str()?.starts_with("fobs-").then(|| path.to_path_buf())
        }));
    }
    found.retain(|directory| directory.is_dir());
    found.sort();
    found.dedup();
    found
}

/// The same directory for other sockets of this user, made if need be.
pub fn private_directory() -> Option<PathBuf> {
    let directory = own_directory();
    make_directory(&directory).map(|()| directory)
}

/// Makes the directory, for its user alone. One that another user has made is not used.
fn make_directory(directory: &Path) -> Option<()> {
    let _ = fs::DirBuilder::new().mode(0o700).create(directory);
    let found = fs::symlink_metadata(directory).ok()?;
    (found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0).then_some(())
}
