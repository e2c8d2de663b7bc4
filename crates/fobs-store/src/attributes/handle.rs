//! Something whose attributes are read or set: it stays the same whatever becomes of its name.

use std::os::fd::BorrowedFd;

use rustix::fs::{self, Gid, Mode, Stat, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::at;
#[cfg(test)]
use crate::faults::{Call, strike};

/// Room for all names of a file's extended attributes, bytes (`XATTR_LIST_MAX` of `linux/limits.h`).
const LIST_LEN_MAX: usize = 64 << 10;

/// A file that is open.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Handle<'a> {
    /// For reading or writing.
    Open(BorrowedFd<'a>),
    /// With `O_PATH`: links, fifos and devices are not opened otherwise. Calls that refuse such a descriptor
    /// go through `/proc`, which leads to the file itself and follows no link.
    Held(BorrowedFd<'a>),
}

impl Handle<'_> {
    /// The names of its extended attributes; none where the file system has no such thing.
    pub(crate) fn names(self) -> Result<Vec<Vec<u8>>, Errno> {
        let mut list = vec![0; LIST_LEN_MAX];
        let len = match self {
            Handle::Open(file) => fs::flistxattr(file, &mut list[..]),
            Handle::Held(file) => fs::listxattr(at::place_of(file), &mut list[..]),
        };
        match len {
            Ok(len) => {
                let names = list[..len].split(|&byte| byte == 0);
                Ok(names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
            }
            Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
            Err(errno) => Err(errno),
        }
    }

    /// The value of an extended attribute; none if it has none of that name.
    pub(crate) fn value(self, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let mut value = vec![0; super::VALUE_LEN_MAX];
        let len = match self {
            Handle::Open(file) => fs::fgetxattr(file, name, &mut value[..]),
            Handle::Held(file) => fs::getxattr(at::place_of(file), name, &mut value[..]),
        };
        match len {
            Ok(len) => {
                value.truncate(len);
                value.shrink_to_fit();
                Ok(Some(value))
            }
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn set_value(self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        #[cfg(test)]
        strike(Call::Xattr)?;
        match self {
            Handle::Open(file) => fs::fsetxattr(file, name, value, XattrFlags::empty()),
            Handle::Held(file) => fs::setxattr(at::place_of(file), name, value, XattrFlags::empty()),
        }
    }

    pub(crate) fn remove_value(self, name: &[u8]) -> Result<(), Errno> {
        #[cfg(test)]
        strike(Call::Xattr)?;
        let removed = match self {
            Handle::Open(file) => fs::fremovexattr(file, name),
            Handle::Held(file) => fs::removexattr(at::place_of(file), name),
        };
        match removed {
            Err(Errno::NODATA) => Ok(()),
            removed => removed,
        }
    }

    pub(crate) fn set_owner(self, user: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        #[cfg(test)]
        strike(Call::Owner)?;
        match self {
            Handle::Open(file) => fs::fchown(file, user, group),
            Handle::Held(file) => at::set_owner(file, user, group),
        }
    }

    pub(super) fn mode(self) -> Result<u32, Errno> {
        self.status().map(|stat| stat.st_mode)
    }

    pub(super) fn status(self) -> Result<Stat, Errno> {
        let (Handle::Open(file) | Handle::Held(file)) = self;
        fs::fstat(file)
    }

    pub(crate) fn set_mode(self, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode);
        let (Handle::Open(file) | Handle::Held(file)) = self;
        #[cfg(test)]
        strike(Call::Mode)?;
        let done = match self {
            Handle::Open(_) => fs::fchmod(file, mode),
            Handle::Held(_) => fs::chmod(at::place_of(file), mode),
        };
        #[cfg(test)]
        crate::recorder::mode(&done, file);
        done
    }

    pub(crate) fn set_times(self, times: &Timestamps) -> Result<(), Errno> {
        match self {
            Handle::Open(file) => {
                #[cfg(test)]
                strike(Call::Times)?;
                let done = fs::futimens(file, times);
                #[cfg(test)]
                crate::recorder::times(&done, file);
                done
            }
            Handle::Held(file) => at::set_times_of_held(file, times),
        }
    }
}
