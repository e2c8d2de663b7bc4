//! A file without a name, for trying a disk: nothing of it stays, however the process ends.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::at;
use super::at::open_beneath;
use super::beneath::{Base, Links};
use fobs_model::name::Component;

/// A name that exists for as long as it takes to remove it, where the file system makes no files without one.
const NAME: &[u8] = b".doctor.fobs-000000";

/// A file in `directory`, to write and to read.
pub fn scratch_file(base: &Base, directory: &[u8]) -> Result<OwnedFd, Errno> {
    match base.open_place(directory, OFlags::TMPFILE | OFlags::RDWR) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        opened => return opened,
    }
    let directory = base.open_place(directory, OFlags::PATH | OFlags::DIRECTORY)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR;
    let made = open_beneath(&directory, NAME, flags, mode, Links::Refuse)?;
    at::unlink(&directory, Component::new(NAME)?)?;
    Ok(made)
}
