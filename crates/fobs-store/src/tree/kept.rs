//! What is replaced is kept as a backup, unless an earlier run of the same transfer put it there: the backup
//! that this run made is of the older version, and stays.

use super::*;
use crate::beneath::kind;
use crate::stat::meta;
use crate::temporary::{begin, is_begun};
use crate::walk::leads_out;

/// A file that takes a name: its length, bytes, and what it has.
pub(super) type Comes = (u64, Meta);

/// What became of a backup that is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    /// There are no backups.
    NotAsked,
    Yes,
    /// The file cannot be marked: it is replaced, not written in place.
    NotPossible,
}

/// A file that is there already.
pub(super) fn file_of(stat: &fs::Stat) -> Comes {
    (u64::try_from(stat.st_size).unwrap_or(0), meta(stat))
}

impl Tree {
    /// The backups that are made, if any are.
    pub(crate) fn backups(&self) -> Option<Backups> {
        self.backups.clone()
    }

    /// Keeps what is about to be replaced under its backup's name; by a file, or something else without one.
    pub(super) fn keep_backup(
        &self,
        path: &[u8],
        directory: &OwnedFd,
        name: Component<'_>,
        comes: Option<Comes>,
    ) -> Result<(), Errno> {
        let Some(backups) = &self.backups else { return Ok(()) };
        if self.drops_link(path, directory, name) {
            return Ok(());
        }
        backups.keep(path, directory, name, |held| self.is_of_earlier_run(held, comes))
    }

    /// Copies a file that is to be written in place to its backup's name, and marks it: the run after one
    /// that ends meanwhile leaves the backup as it is.
    pub(super) fn copy_backup(
        &self,
        path: &[u8],
        at: (&OwnedFd, Component<'_>),
        old: &OwnedFd,
        comes: Comes,
    ) -> Result<Copied, Errno> {
        let Some(backups) = &self.backups else { return Ok(Copied::NotAsked) };
        if is_begun(old)? || self.is_of_earlier_run(old, Some(comes)) {
            backups.has_been_kept(path);
        } else {
            backups.keep_copy(path, at, old, self.fsync)?;
        }
        let (len, meta) = comes;
        Ok(if begin(old, len, meta) { Copied::Yes } else { Copied::NotPossible })
    }

    /// Whether an earlier run of this transfer may have put it there.
    fn is_of_earlier_run(&self, held: &OwnedFd, comes: Option<Comes>) -> bool {
        let doubt = self.journal.as_ref().and_then(Journal::doubt);
        doubt.is_some_and(|doubt| doubt.includes(held))
            && fs::fstat(held).is_ok_and(|stat| is_as_what_comes(&stat, comes, self.applier.keeping.times))
    }

    /// Whether it is a link that leads out, of which `--safe-links` wants no copy.
    fn drops_link(&self, path: &[u8], directory: &OwnedFd, name: Component<'_>) -> bool {
        self.drops_links_out && at::read_link(directory, name).is_ok_and(|target| leads_out(path, &target))
    }
}

/// Whether an earlier run can have made it of what comes. A user may have put another file there since: that
/// differs, and is kept.
fn is_as_what_comes(stat: &fs::Stat, comes: Option<Comes>, has_time: bool) -> bool {
    match comes {
        Some((len, meta)) => {
            // A cut may have left less of it.
            let is_part = u64::try_from(stat.st_size).is_ok_and(|size| size <= len);
            kind(stat) == FileType::RegularFile && is_part && (!has_time || is_time(stat, meta))
        }
        None => kind(stat) != FileType::RegularFile,
    }
}

/// Whether it has this time, as its file system keeps times: in microseconds or better, or in seconds.
fn is_time(stat: &fs::Stat, meta: Meta) -> bool {
    let (kept, wanted) = (stat.st_mtime_nsec / 1000, u64::from(meta.mtime_ns) / 1000);
    stat.st_mtime == meta.mtime_s && (kept == wanted || kept == 0)
}
