//! Files of the destination tree: under a temporary name, synced, and under their own.

use std::os::fd::AsFd;

use super::kept::{Comes, Copied};
use super::*;
use crate::attributes::{Handle, left_by_default_acl};
use crate::basis::Link;
use crate::beneath::{kind, open_self};
use crate::held::is_shared;
use crate::identity::Identity;
use crate::keep;
use crate::own::without_mark;
use crate::stamp::name_count;
use crate::temporary::InPlace;
use crate::uncached::{LargeFiles, UNCACHED_MIN};
use fobs_model::name::ComponentBuf;

/// A file under the name that it has so far.
pub(crate) struct Old {
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) name: ComponentBuf,
    pub(crate) held: OwnedFd,
}

impl Tree {
    /// Makes a file under a temporary name.
    pub(crate) fn create(&mut self, cleared: Clearance<'_>, size: u64) -> Attempt<Placing> {
        let path = cleared.path();
        self.check_skipped(path)?;
        // What is preallocated is no hole.
        let reserved = if self.applier.preserve.sparse { 0 } else { size };
        let place = self.place_of_file(path)?.into_owned();
        if let Some(journal) = &mut self.journal {
            journal.release(&place);
        }
        path::split_name(&place)
            .map_err(Errno::from)
            .and_then(|(parent, name)| Ok((self.hold(parent)?, name)))
            .and_then(|(parent, name)| {
                self.clear(&place, &parent, name);
                match &self.elsewhere {
                    None => TemporaryFile::create(&self.names, parent, name, reserved),
                    Some((directory, _)) => {
                        TemporaryFile::create_elsewhere(&self.names, directory, parent, name, reserved)
                    }
                }
            })
            .map(|mut file| {
                self.begin(&mut file, size);
                let ours = self.names.of_journal();
                let is_found_again = ours.is_some() && ours == file.suffix() && self.elsewhere.is_none();
                Placing { is_found_again, file, place }
            })
            .map_err(|errno| Trouble::Path(self.veiled("write", path, errno)))
    }

    /// Large files go through the page cache.
    pub(crate) fn use_cache(&mut self) {
        self.devices.use_cache();
    }

    /// How large files were written so far.
    pub(crate) fn large_files(&self) -> &LargeFiles {
        self.devices.written()
    }

    /// Says how a file is written that will have about `size` bytes.
    fn begin(&self, file: &mut TemporaryFile, size: u64) {
        if self.applier.preserve.sparse {
            file.leave_zeros();
        }
        if size >= UNCACHED_MIN {
            file.is_large(&self.devices);
        }
    }

    /// Goes on with the file that `is_meant`: the temporary one of an earlier run, or one that has the name.
    pub(crate) fn resume(
        &mut self,
        cleared: Clearance<'_>,
        size: u64,
        is_meant: impl Fn(&OwnedFd) -> bool,
    ) -> Attempt<Placing> {
        let path = cleared.path();
        self.check_skipped(path)?;
        let place = self.place_of_file(path)?.into_owned();
        let Some(suffix) = self.names.of_journal() else {
            return Err(protocol("a file goes on, and there is no journal").into());
        };
        let overwrite = self.terms.overwrite;
        let resumed = path::split_name(&place)
            .map_err(Errno::from)
            .and_then(|(parent, name)| Ok((self.hold(parent)?, name)))
            .and_then(|(parent, name)| TemporaryFile::resume(&suffix, parent, name, overwrite, is_meant));
        match resumed {
            Ok(Some(mut file)) => {
                self.begin(&mut file, size);
                Ok(Placing { file, place, is_found_again: true })
            }
            Ok(None) => {
                let shown = show(path);
                let message = format!(
                    "cannot go on with '{shown}': what was stored of it changed during the copy; copy it again"
                );
                Err(Trouble::Path(message))
            }
            Err(errno) => Err(Trouble::Path(self.veiled("go on with", path, errno))),
        }
    }

    /// Gives an unchanged entry of another directory a name in this tree.
    pub(crate) fn link_from(&mut self, link: &Link) -> Attempt<()> {
        let failed = |errno| self.trouble("link from --link-dest", &link.path, errno);
        let held = at::hold(&link.directory, link.name.as_component()).map_err(failed)?;
        let stat = fs::fstat(&held).map_err(failed)?;
        if Identity::of(&stat) != link.identity {
            let shown = show(&link.path);
            let message =
                format!("cannot link '{shown}': it changed in the directory of --link-dest; sync it again");
            return Err(Trouble::Path(message));
        }
        if self.fsync && kind(&stat) == FileType::RegularFile {
            // The program that made it may have left it to the kernel.
            at::reopen(&held, OFlags::RDONLY | OFlags::NONBLOCK).and_then(keep::file).map_err(failed)?;
        }
        self.make(&link.path, "link from --link-dest", &Thing::Name(&held), Meta::default(), None)
    }

    /// Removes what a run of the same command that had no journal left of the file, link or the like that
    /// is about to be made at `place`. In a directory that this run has made there is nothing.
    pub(super) fn clear(&self, place: &[u8], parent: &OwnedFd, name: Component<'_>) {
        let is_made = |level: &Level| {
            let entered = level.entered.as_ref().map(|(entered, _)| &entered[..]);
            matches!(level.state, LevelState::Created { .. }) && entered == Some(path::split(place).0)
        };
        if !self.levels.last().is_some_and(is_made) {
            self.names.clear(parent, name);
        }
    }

    /// Removes a file that failed.
    pub(crate) fn discard(&mut self, placing: Placing) {
        if let Some(journal) = &mut self.journal {
            journal.release(&placing.place);
        }
    }

    /// Fsyncs a file, and the directory written before if it is another one.
    pub(crate) fn sync_file(&mut self, placing: &Placing, path: &[u8]) -> Attempt<()> {
        self.names_in(placing.file.directory())
            .and_then(|()| placing.file.sync())
            .map_err(|errno| self.trouble("have the device keep", path, errno))
    }

    /// Records that `directory` is written; fsyncs the one written before if it is another one.
    pub(super) fn names_in(&mut self, directory: &Arc<OwnedFd>) -> Result<(), Errno> {
        if !self.fsync || self.unsynced.as_ref().is_some_and(|last| Arc::ptr_eq(last, directory)) {
            return Ok(());
        }
        let synced = self.sync_names();
        self.unsynced = Some(Arc::clone(directory));
        synced
    }

    /// Fsyncs the directory that was written last.
    pub(crate) fn sync_names(&mut self) -> Result<(), Errno> {
        self.unsynced.take().map_or(Ok(()), |directory| keep::file(open_self(&directory)?))
    }

    /// Renames a complete file of `len` bytes to its name.
    pub(crate) fn commit(
        &self,
        placing: &mut Placing,
        path: &[u8],
        len: u64,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<()> {
        let place = placing.place.clone();
        let (_, name) = path::split_name(&place).map_err(|bad| self.trouble("write", path, bad.into()))?;
        let meta = without_mark(name.as_bytes(), meta);
        placing.file.come_home(name).map_err(|errno| self.trouble("write", path, errno))?;
        let waits = self.hold_back(placing, path, len, meta, attributes);
        if let Some(set) = waits.map_err(|errno| Trouble::Path(self.veiled("write", path, errno)))? {
            self.first_names.stored_file(path, placing.file.file(), placing.file.directory());
            return set.map_err(|unset| self.not_set(&unset, path));
        }
        let onto = self
            .onto(path, &placing.file, name, (len, meta))
            .map_err(|errno| self.trouble("keep a backup of", path, errno))?;
        self.clear_partial(placing.file.directory(), name);
        let done = match onto {
            Some(onto) => placing.file.commit_in_place(onto, len, meta, attributes, &self.applier),
            None => self.commit_to(&mut placing.file, name, len, meta, attributes),
        };
        match done {
            Ok(set) => {
                self.first_names.stored_file(path, placing.file.file(), placing.file.directory());
                set.map_err(|unset| self.not_set(&unset, path))
            }
            Err(errno) => Err(Trouble::Path(self.veiled("write", path, errno))),
        }
    }

    /// Whether files may get new names in place of being made anew: where all that is kept is the source's,
    /// and the end does not wait for the device.
    pub(crate) fn may_move_files(&self) -> bool {
        let kept = &self.applier.preserve;
        kept.modes
            && kept.times
            && kept.group
            && !self.settles()
            && !self.in_place
            && self.terms == Terms::default()
    }

    /// Holds the file at a place that is to give a new one its inode: this user's own, of this size, with one
    /// name and nothing that a new one would not have.
    pub(crate) fn hold_old(&mut self, place: &[u8], size: u64) -> Option<Old> {
        let (parent, name) = path::split_name(place).ok()?;
        let directory = self.view().hold(parent).ok()?;
        let held = at::hold(&directory, name).ok()?;
        let stat = fs::fstat(&held).ok()?;
        let is_plain = kind(&stat) == FileType::RegularFile
            && stat.st_uid == rustix::process::geteuid().as_raw()
            && name_count(&stat) == 1
            && u64::try_from(stat.st_size) == Ok(size)
            && !is_shared(&*directory)
            && Handle::Held(held.as_fd()).names().is_ok_and(|names| names.is_empty());
        is_plain.then(|| Old { directory, name: name.to_buf(), held })
    }

    /// Gives an old file the name of a new one; whether that was possible.
    pub(crate) fn move_old(
        &self,
        placing: &mut Placing,
        path: &[u8],
        old: &Old,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<bool> {
        let (_, name) =
            path::split_name(&placing.place).map_err(|bad| self.trouble("write", path, bad.into()))?;
        if left_by_default_acl(placing.file.directory().as_fd()).is_some() {
            // What is made there has its ACL.
            return Ok(false);
        }
        let meta = without_mark(name.as_bytes(), meta);
        let from = (&*old.directory, old.name.as_component(), &old.held);
        match placing.file.commit_moved(from, name, meta, attributes, &self.applier) {
            Ok(None) => Ok(false),
            Ok(Some(set)) => {
                self.first_names.stored_file(path, placing.file.file(), placing.file.directory());
                set.map(|()| true).map_err(|unset| self.not_set(&unset, path))
            }
            Err(errno) => Err(Trouble::Path(self.veiled("write", path, errno))),
        }
    }

    /// The file of that name, where it is to stay the same one; else what is there is kept as a backup.
    fn onto(
        &self,
        path: &[u8],
        file: &TemporaryFile,
        name: Component<'_>,
        comes: Comes,
    ) -> Result<Option<InPlace>, Errno> {
        let old = if self.in_place { file.replaceable(name, self.writes_devices)? } else { None };
        if let Some(old) = old {
            match self.copy_backup(path, (file.directory(), name), &old, comes)? {
                Copied::NotAsked => return Ok(Some(InPlace { old, syncs: self.fsync, is_marked: false })),
                Copied::Yes => return Ok(Some(InPlace { old, syncs: self.fsync, is_marked: true })),
                Copied::NotPossible => {}
            }
        }
        self.keep_backup(path, file.directory(), name, Some(comes)).map(|()| None)
    }

    /// In the place of what has that name.
    fn commit_to(
        &self,
        file: &mut TemporaryFile,
        name: Component<'_>,
        len: u64,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Result<Result<(), Unset>, Errno> {
        let movable = self.movable.get(file.directory(), |directory| Movable::in_directory(directory));
        file.commit(name, len, meta, attributes, &self.applier, movable)
    }

    /// The file systems on which it stores, where its sources are removed.
    pub(crate) fn settling(&self) -> Option<Settling> {
        self.settling.clone()
    }

    /// Waits until the devices keep all that was stored, where that has to be before the end.
    /// Where sources are removed then, all of it has its name and is compared by that, so the journal goes
    /// first: but not that of a client which may not look.
    pub(crate) fn settle(&mut self, sight: Sight) -> Result<(), Errno> {
        self.sync_names()?;
        let Some(settling) = &self.settling else { return Ok(()) };
        settling.settle()?;
        match self.journal.take() {
            Some(journal) if sight == Sight::Whole => journal.finish_for_good(),
            journal => {
                self.journal = journal;
                Ok(())
            }
        }
    }

    /// Whether there is anything to wait for at the end.
    pub(crate) fn settles(&self) -> bool {
        self.fsync || self.settling.is_some()
    }

    /// Whether files and directories are fsynced.
    pub(crate) fn syncs(&self) -> bool {
        self.fsync
    }
}
