//! The files in the user's state directory that keep data between transfers.
//!
//! They are hints: a file that is missing, damaged or cannot be written costs some speed, and is no error.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::secure::make_private_parent;
use fobs_sys::confine::{Errand, outside};
use fobs_sys::named;
use rustix::process::geteuid;

/// Older entries are ignored: networks and hosts change within that time.
pub const AGE_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// Files written by this process so far.
static REPLACED: AtomicU64 = AtomicU64::new(0);

/// `$XDG_STATE_HOME/fobs` or `~/.local/state/fobs`; none where neither is known.
pub fn directory() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base =
        base.or_else(|| outside(Errand::State, std::env::home_dir).map(|home| home.join(".local/state")));
    base.map(|base| base.join("fobs"))
}

/// `$XDG_DATA_HOME/fobs` or `~/.local/share/fobs`; none where neither is known.
pub(crate) fn data_directory() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".local/share")));
    base.map(|base| base.join("fobs"))
}

/// The directory of this user's sockets: below the user's runtime directory, or where there is none, one of
/// our own in `/tmp`.
pub fn sockets() -> PathBuf {
    let user = geteuid().as_raw();
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || Some(PathBuf::from(format!("/run/user/{user}"))).filter(|path| path.is_dir());
    match given.or_else(usual) {
        Some(base) => base.join("fobs"),
        None => PathBuf::from(format!("/tmp/fobs-{user}")),
    }
}

/// Makes it, for its user alone. One that another user has made is not used.
pub fn make_private(directory: &Path) -> Option<()> {
    // It may be there.
    let _ = fs::DirBuilder::new().mode(0o700).create(directory);
    let found = fs::symlink_metadata(directory).ok()?;
    (found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0).then_some(())
}

/// Replaces a file atomically. Of two transfers that end at the same time, the last one's content stays.
pub fn replace(file: &Path, bytes: &[u8]) {
    let mut fresh = file.as_os_str().to_owned();
    // Unique among the transfers of this process, too.
    let count = REPLACED.fetch_add(1, Ordering::Relaxed);
    fresh.push(format!(".{}-{count}.tmp", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let written = make_private_parent(file)
        .and_then(|()| named::create(&fresh, named::USUAL)?.write_all(bytes))
        .and_then(|()| fs::rename(&fresh, file));
    if written.is_err() {
        // It may not have been made.
        let _ = fs::remove_file(&fresh);
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
