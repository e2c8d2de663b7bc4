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
use std::path::{Path, PathBuf};

use fobs::{make_private, sockets_directory};
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

/// The directories of all users whose copies this one may see: root those of all.
fn directories() -> Vec<PathBuf> {
    let mut found = vec![sockets_directory()];
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
    let directory = sockets_directory();
    make_private(&directory).map(|()| directory)
}
