//! How a large file would be read and written at a place, found out with a small one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::account::LargeFiles;
use super::devices::Devices;
use super::knows_once;
use super::writing::WRITE_MIN;
use fobs_model::storage::{CacheReason, CacheUse, Storage};
use fobs_sys::PageBuffer;

/// Writes to the beginning of a file as to a large one, and looks how it would be read.
///
/// # Errors
/// It cannot be written; `NOMEM` without memory for a MiB.
pub fn try_large_file(file: OwnedFd) -> Result<Storage, Errno> {
    let (file, read) = (Arc::new(file), LargeFiles::default());
    // With fsync nothing is timed: a large file goes the way that its file system can.
    let devices = Devices::new(true);
    let buffer = PageBuffer::new(WRITE_MIN).map_err(|_| Errno::NOMEM)?;
    devices.large_file(&file).write(&buffer[..WRITE_MIN], 0)?;
    let (way, why) = if knows_once(&file, WRITE_MIN as u64) {
        (CacheUse::Uncached, None)
    } else {
        (CacheUse::Dropped, Some(CacheReason::NoOther))
    };
    read.on(&*file).add(way, why, WRITE_MIN);
    Ok(Storage { read: read.rows(), written: devices.written().rows() })
}
