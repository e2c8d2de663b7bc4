//! Asking the device to keep something, or a file system to take it: the only place of this crate that does.

use std::os::fd::AsFd;

use rustix::fs;
use rustix::io::Errno;

#[cfg(test)]
use crate::faults;
#[cfg(test)]
use crate::recorder;

/// A file with all that is known of it, or the names in a directory.
pub(crate) fn file(file: impl AsFd) -> Result<(), Errno> {
    #[cfg(test)]
    faults::strike(faults::Call::Sync).inspect_err(|_| recorder::not_synced(&file))?;
    let done = fs::fsync(&file);
    #[cfg(test)]
    recorder::synced(&done, &file, false);
    done
}

/// The content of a file, and what it takes to read it.
pub(crate) fn content(file: impl AsFd) -> Result<(), Errno> {
    #[cfg(test)]
    faults::strike(faults::Call::Sync).inspect_err(|_| recorder::not_synced(&file))?;
    let done = fs::fdatasync(&file);
    #[cfg(test)]
    recorder::synced(&done, &file, true);
    done
}

/// What was written of a file, to where its file system has it: one that tells only at `close` which writes
/// failed (NFS, FUSE, SMB) tells it now.
pub(crate) fn writes(file: impl AsFd) -> Result<(), Errno> {
    #[cfg(test)]
    faults::strike(faults::Call::Close)?;
    fobs_sys::try_close(file)
}

/// Everything on the file system that a file is on.
pub(crate) fn file_system(file: impl AsFd) -> Result<(), Errno> {
    #[cfg(test)]
    faults::strike(faults::Call::Sync)?;
    let done = fs::syncfs(&file);
    #[cfg(test)]
    recorder::all_synced(&done);
    done
}

/// Everything, without a word on what could not be kept.
pub(crate) fn all() {
    fs::sync();
    #[cfg(test)]
    recorder::all_synced(&Ok(()));
}
