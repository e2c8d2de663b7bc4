//! What a run without a journal left under a temporary name: no journal names it, but its suffix is that of
//! the same command, and no running one has locked it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, FlockOperation, OFlags, Stat, flock, fstat};
use rustix::io::Errno;

use crate::at;
use crate::held::Inode;
use crate::stamp::name_count;
use crate::stat::kind;
use fobs_model::name::Component;

/// How long a temporary file that no journal knows must not have changed before it counts as left behind,
/// where nothing else tells: its transfer, which has no lock, may wait for its peer. Longer than `--timeout`
/// by default.
pub(crate) const ORPHANED_AFTER: Duration = Duration::from_secs(3600);

/// Since a file was last written.
pub(crate) fn age(stat: &Stat) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Duration::from_secs(now.saturating_sub(u64::try_from(stat.st_mtime).unwrap_or(0)))
}

/// Locks a file that was made just now, as long as it is open.
///
/// # Errors
/// `EXIST` if another run took it for a leftover in between.
pub(super) fn lock_new(file: &OwnedFd, directory: &OwnedFd, name: Component<'_>) -> Result<(), Errno> {
    match lock(file) {
        Ok(()) => Inode::of_held(file)?.has_name(directory, name).map_err(|_| Errno::EXIST),
        Err(Errno::WOULDBLOCK) => Err(Errno::EXIST),
        // A file system without locks: others go by its time.
        Err(_) => Ok(()),
    }
}

/// Removes what has the name, if no run is writing it; whether the name is free now.
pub(super) fn remove(directory: &OwnedFd, name: Component<'_>) -> bool {
    let held = match at::hold(directory, name) {
        Ok(held) => held,
        Err(errno) => return errno == Errno::NOENT,
    };
    match claim(&held) {
        Claim::InUse => false,
        Claim::Free(_lock) => {
            let is_it = Inode::of_held(&held).and_then(|inode| inode.has_name(directory, name));
            matches!(is_it.and_then(|()| at::unlink(directory, name)), Ok(()) | Err(Errno::NOENT))
        }
    }
}

/// Whether something may be removed.
enum Claim {
    InUse,
    /// As long as this is open.
    Free(Option<OwnedFd>),
}

fn claim(held: &OwnedFd) -> Claim {
    let Ok(stat) = fstat(held) else { return Claim::InUse };
    // Links and the like are whole from the beginning, and what has a further name is too.
    if kind(&stat) != FileType::RegularFile || name_count(&stat) > 1 {
        return Claim::Free(None);
    }
    let open = |access| at::reopen(held.as_fd(), access | OFlags::NONBLOCK | OFlags::NOCTTY);
    // Some file systems lock only what may be written.
    let opened = open(OFlags::WRONLY).or_else(|_| open(OFlags::RDONLY));
    match opened.and_then(|file| lock(&file).map(|()| file)) {
        Ok(file) => Claim::Free(Some(file)),
        Err(Errno::WOULDBLOCK) => Claim::InUse,
        Err(_) if age(&stat) < ORPHANED_AFTER => Claim::InUse,
        Err(_) => Claim::Free(None),
    }
}

fn lock(file: &OwnedFd) -> Result<(), Errno> {
    #[cfg(test)]
    crate::faults::strike(crate::faults::Call::Lock)?;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            locked => return locked,
        }
    }
}
