//! Where what is remembered from one transfer to the next lies: small files in the user's state directory.
//!
//! They are hints. So nothing here fails: what is missing, damaged or cannot be written costs a little speed, never a transfer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::control::Peer;
use crate::secure::make_private_parent;

/// Older news is no news: networks and hosts are rebuilt in less.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// `$XDG_STATE_HOME/fobs` or `~/.local/state/fobs`; none where neither is known.
pub(crate) fn directory() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")));
    base.map(|base| base.join("fobs"))
}

/// A peer's name here: its address or, through ssh, what it was called.
pub(crate) fn name_of(peer: &Peer) -> String {
    peer.address.map_or_else(|| peer.description.clone(), |address| address.to_string())
}

/// Replaces a file, whole or not at all. Of two transfers that end together the last one's stays.
pub(crate) fn replace(file: &Path, bytes: &[u8]) {
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(format!(".{}.tmp", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let written = make_private_parent(file)
        .and_then(|()| fs::write(&fresh, bytes))
        .and_then(|()| fs::rename(&fresh, file));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
