//! The name that something has until it is complete, and the one that it then takes: what stands there, and
//! what of it is kept.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::at;
use crate::attributes::{Applier, Modes, Unkept, executable_as};
use crate::beneath::kind;
#[cfg(test)]
use crate::faults;
use crate::held::{Inode, Movable, is_trusted, may_be_put_there};
use crate::own::is_marked;
use crate::stat::Meta;
use fobs_model::name::ours::suffix_in;
use fobs_model::name::{Component, ComponentBuf};

/// Bits of a mode with which a file may be written.
const WRITE_BITS: u32 = 0o222;

/// A name in a directory that is removed on drop, unless it was renamed.
pub(super) struct Temporary {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: ComponentBuf,
    /// What has the name, which another user who may write in the directory can give to something else.
    pub(super) held: Arc<OwnedFd>,
    pub(super) in_place: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.in_place {
            // An error cannot be reported here.
            let _ = at::unlink(&self.directory, self.name.as_component());
        }
    }
}

impl Temporary {
    /// Moves it to `to`, in place of what is there, unless that is another copy's unfinished file.
    pub(super) fn rename(&mut self, to: Component<'_>, movable: Movable) -> Result<(), Errno> {
        let is_in_use = suffix_in(to.as_bytes()).is_some()
            && at::stat(&self.directory, to).is_ok_and(|stat| is_marked(&stat));
        if is_in_use {
            return Err(Errno::BUSY);
        }
        at::rename(&self.directory, self.name.as_component(), to)?;
        self.has_moved(to, movable)
    }

    /// `STALE` if something else was moved: another user exchanged it in a directory that is also theirs.
    fn has_moved(&mut self, to: Component<'_>, movable: Movable) -> Result<(), Errno> {
        self.in_place = true;
        match movable {
            Movable::ByUs => Ok(()),
            Movable::ByOthers => Inode::of_held(&self.held)?.has_name(&self.directory, to),
        }
    }

    /// Moves it to `to` if that does not exist.
    pub(super) fn rename_to_new(&mut self, to: Component<'_>, movable: Movable) -> Result<(), Errno> {
        #[cfg(test)]
        faults::strike(faults::Call::RenameToNew)?;
        at::rename_new(&self.directory, self.name.as_component(), to)?;
        self.has_moved(to, movable)
    }

    /// Likewise, on a file system that cannot `rename` so: by one more name, which never replaces one.
    pub(super) fn link_to_new(&mut self, to: Component<'_>) -> Result<(), Errno> {
        // On drop the temporary name goes.
        at::link_held(&self.held, &self.directory, to)
    }

    /// Moves it to `to`, where what has that name stays.
    pub(super) fn take_new(&mut self, to: Component<'_>, movable: Movable) -> Result<(), Errno> {
        match self.rename_to_new(to, movable) {
            Err(Errno::INVAL | Errno::NOSYS) => self.link_to_new(to),
            moved => moved,
        }
    }

    /// The existing entry at `to`: only what may be sent is replaced.
    fn replaced(&self, to: Component<'_>, applier: &Applier) -> Result<Replaced, Errno> {
        match at::stat(&self.directory, to) {
            Err(Errno::NOENT) => Ok(Replaced::Nothing),
            Err(errno) => Err(errno),
            Ok(stat) => match kind(&stat) {
                FileType::RegularFile if !is_trusted(&stat) => {
                    Ok(Replaced::Doubtful { mode: stat.st_mode, kept: 0 })
                }
                FileType::RegularFile if may_be_put_there(&self.directory, &stat) => {
                    Ok(Replaced::Doubtful { mode: stat.st_mode, kept: WRITE_BITS })
                }
                // One of ours whose mode could not be set: the user never gave it this one.
                FileType::RegularFile if is_marked(&stat) => Ok(Replaced::Nothing),
                FileType::RegularFile => Ok(Replaced::File { mode: stat.st_mode }),
                FileType::Symlink => Ok(Replaced::Nothing),
                FileType::Directory => Err(Errno::ISDIR),
                // A sync, which replaces what is not kept too.
                _ if applier.preserve.unkept == Unkept::LeftOut => {
                    Ok(Replaced::Special { mode: stat.st_mode })
                }
                _ if applier.preserve.devices || applier.preserve.specials => Ok(Replaced::Nothing),
                // By cp devices and the like are not sent, so they are not replaced.
                _ => Err(Errno::EXIST),
            },
        }
    }

    /// The permissions of what is replaced, as cp and rsync keep them where those of the source are not: a
    /// file takes those of a file, a special file those of either.
    pub(super) fn kept_mode(
        &self,
        to: Component<'_>,
        is_special: bool,
        meta: Meta,
        applier: &Applier,
    ) -> Result<Option<u32>, Errno> {
        let as_source =
            |mode| if applier.keeping.executability { executable_as(meta.mode, mode) } else { mode & 0o777 };
        match (self.replaced(to, applier)?, applier.keeping.modes) {
            (Replaced::File { mode }, Modes::Ordinary { .. }) => Ok(Some(as_source(mode))),
            (Replaced::Doubtful { mode, kept }, Modes::Ordinary { umask }) => {
                Ok(Some(mode & (meta.mode & !umask | kept) & 0o777))
            }
            (Replaced::Special { mode }, Modes::Ordinary { .. }) if is_special => Ok(Some(mode & 0o777)),
            _ => Ok(None),
        }
    }
}

enum Replaced {
    /// Nothing whose mode would be kept.
    Nothing,
    /// A file with this mode.
    File { mode: u32 },
    /// A file that is a third user's, or was put there by one: what it lets others do is no reason to let
    /// them do it here, but for these bits.
    Doubtful { mode: u32, kept: u32 },
    /// A device, fifo or socket with this mode.
    Special { mode: u32 },
}
