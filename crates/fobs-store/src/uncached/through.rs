//! Writing through the page cache.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, ReadWriteFlags, pwrite, pwritev2};

use super::DONTCACHE;
#[cfg(test)]
use crate::{faults, recorder};
use fobs_model::storage::CacheUse;

/// Writes all of `data` at `offset` of `file`.
pub(crate) fn write_all(file: &OwnedFd, data: &[u8], offset: u64) -> Result<(), Errno> {
    write_with(file, data, offset, ReadWriteFlags::empty()).map(|_| ())
}

/// The same of what leaves the page cache once the device has it, where kernel and file system can: other
/// programs keep what they have there. Returns which of both it was.
pub(crate) fn write_once(file: &OwnedFd, data: &[u8], offset: u64) -> Result<CacheUse, Errno> {
    write_with(file, data, offset, DONTCACHE)
}

fn write_with(
    file: &OwnedFd,
    mut data: &[u8],
    mut offset: u64,
    mut flags: ReadWriteFlags,
) -> Result<CacheUse, Errno> {
    #[cfg(test)]
    faults::strike(faults::Call::Write)?;
    while !data.is_empty() {
        let done = if flags.is_empty() {
            pwrite(file, data, offset)
        } else {
            pwritev2(file, &[IoSlice::new(data)], offset, flags)
        };
        #[cfg(test)]
        recorder::written(&done, file, data, offset);
        match done {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) if !flags.is_empty() => {
                flags = ReadWriteFlags::empty();
            }
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                data = &data[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(if flags.is_empty() { CacheUse::Cached } else { CacheUse::Uncached })
}
