//! `--partial-dir` and `--delay-updates`: what is not complete, and what waits for the end of the transfer,
//! lies in a directory of its own beside its place.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::fstat;

use super::*;
use crate::attributes::{Handle, timestamps, while_writable};
use crate::held::{is_shared, is_trusted};
use crate::stat::meta;
use fobs_model::budget::{Charge, Keeps};
use fobs_model::name::ComponentBuf;
use std::os::fd::AsFd;

/// The mode of such a directory.
const OWN_DIRECTORY: u32 = 0o700;
/// What is kept of a file that waits beside its paths, bytes.
const COST: usize = 64;

/// Where files lie that are not in their place.
pub(super) struct Waiting {
    home: Home,
    /// Whether complete files wait there for the end, too.
    delays: bool,
    /// Places and paths of those that do.
    files: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Their names, where one directory has them all.
    names: RefCell<BTreeSet<Vec<u8>>>,
    kept: RefCell<Charge>,
}

/// The directory of such files.
enum Home {
    /// One in each directory of the destination, by its path there.
    InEach(Vec<ComponentBuf>),
    /// The same for all (`--partial-dir` with an absolute path): as in rsync, by the files' names alone.
    Of(Arc<OwnedFd>),
}

impl Waiting {
    /// As a sync says; none where nothing lies elsewhere.
    pub(super) fn of(
        sync: &SyncOptions,
        partials: Option<&(Arc<OwnedFd>, Vec<u8>)>,
        budget: &MemoryBudget,
    ) -> Option<Waiting> {
        let path = sync.partial_dir.as_ref()?;
        let home = match partials {
            Some((directory, _)) => Home::Of(Arc::clone(directory)),
            None => {
                let parts = path.split(|&byte| byte == b'/').map(|part| ComponentBuf::new(part.to_vec()));
                Home::InEach(parts.collect::<Result<_, _>>().ok()?)
            }
        };
        let kept = RefCell::new(budget.charge(Keeps::Links));
        let (files, names) = (RefCell::default(), RefCell::default());
        Some(Waiting { home, delays: sync.delay_updates, files, names, kept })
    }

    /// The directory for files of another one, if there is one that nobody else may write in.
    fn within(&self, parent: &OwnedFd) -> Result<OwnedFd, Errno> {
        let flags = HOLD_DIRECTORY | OFlags::NOFOLLOW;
        let open = |at: &OwnedFd, path: &[u8]| open_beneath(at, path, flags, Mode::empty(), Links::Refuse);
        let held = match &self.home {
            Home::InEach(parts) => {
                let parts: Vec<&[u8]> = parts.iter().map(ComponentBuf::as_bytes).collect();
                open(parent, &parts.join(&b'/'))?
            }
            Home::Of(directory) => open(directory, b"")?,
        };
        if is_trusted(&fstat(&held)?) && !is_shared(&held) { Ok(held) } else { Err(Errno::STALE) }
    }

    fn made_within(&self, parent: &OwnedFd) -> Result<OwnedFd, Errno> {
        if let Home::InEach(parts) = &self.home {
            let flags = HOLD_DIRECTORY | OFlags::NOFOLLOW;
            let mut above: Option<OwnedFd> = None;
            for part in parts {
                let at = above.as_ref().unwrap_or(parent);
                match at::make_directory(at, part.as_component(), Mode::from_raw_mode(OWN_DIRECTORY)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                above = Some(open_beneath(at, part.as_bytes(), flags, Mode::empty(), Links::Refuse)?);
            }
        }
        self.within(parent)
    }

    /// Removes the directory if nothing is left in it; not one that the user has for all.
    fn clear(&self, parent: &OwnedFd) {
        let Home::InEach(parts) = &self.home else { return };
        let Some((last, above)) = parts.split_last() else { return };
        let flags = HOLD_DIRECTORY | OFlags::NOFOLLOW;
        let above: Vec<&[u8]> = above.iter().map(ComponentBuf::as_bytes).collect();
        let Ok(at) = open_beneath(parent, &above.join(&b'/'), flags, Mode::empty(), Links::Refuse) else {
            return;
        };
        // Something else may lie in it.
        let _ = at::remove_directory(&at, last.as_component());
    }

    /// Whether a file may wait there: no other of its name does, and it can be moved back.
    fn has_room_for(&self, place: &[u8], parent: &OwnedFd) -> bool {
        let Home::Of(directory) = &self.home else { return true };
        let device = |at: &OwnedFd| fstat(at).map(|stat| stat.st_dev);
        !self.has_one_of(path::split(place).1)
            && device(directory).is_ok_and(|there| device(parent) == Ok(there))
    }

    /// Whether a file of this name waits in the one directory for all.
    fn has_one_of(&self, name: &[u8]) -> bool {
        self.names.borrow().contains(name)
    }

    /// Takes note of a file; false where there is no room for that.
    fn add(&self, place: &[u8], path: &[u8]) -> bool {
        let name = match self.home {
            Home::InEach(_) => &b""[..],
            Home::Of(_) => path::split(place).1,
        };
        if self.kept.borrow_mut().grow(COST + place.len() + path.len() + name.len()).is_err() {
            return false;
        }
        self.files.borrow_mut().insert(place.to_vec(), path.to_vec());
        if !name.is_empty() {
            self.names.borrow_mut().insert(name.to_vec());
        }
        true
    }
}

impl Tree {
    /// Has a complete file wait for the end, where files do. `None`: it is to have its name now.
    pub(super) fn hold_back(
        &self,
        placing: &mut Placing,
        path: &[u8],
        len: u64,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Result<Option<Result<(), Unset>>, Errno> {
        let Some(waiting) = self.waiting.as_ref().filter(|waiting| waiting.delays) else { return Ok(None) };
        let (_, name) = path::split_name(&placing.place)?;
        let Ok(directory) = waiting.made_within(placing.file.directory()) else { return Ok(None) };
        if !waiting.has_room_for(&placing.place, placing.file.directory()) {
            return Ok(None);
        }
        if !waiting.add(&placing.place, path) {
            return Ok(None);
        }
        placing.file.commit_into(&directory, name, len, meta, attributes, &self.applier).map(Some)
    }

    /// A file has its name: what an earlier run left of it goes.
    pub(super) fn clear_partial(&self, directory: &OwnedFd, name: Component<'_>) {
        let Some(waiting) = &self.waiting else { return };
        if waiting.has_one_of(name.as_bytes()) {
            // Another directory's file of this name, which is complete.
            return;
        }
        if let Ok(held) = waiting.within(directory) {
            // Mostly there is none.
            let _ = at::unlink(&held, name);
            waiting.clear(directory);
        }
    }

    /// Holds a file that waits for its name.
    pub(super) fn waiting_at(&mut self, place: &[u8]) -> Option<OwnedFd> {
        let is_one = |waiting: &Waiting| waiting.files.borrow().contains_key(place);
        if !self.waiting.as_ref().is_some_and(is_one) {
            return None;
        }
        let (parent, name) = path::split_name(place).ok()?;
        let parent = self.hold(parent).ok()?;
        at::hold(self.waiting.as_ref()?.within(&parent).ok()?, name).ok()
    }

    /// Keeps an unfinished file for a later run.
    pub(crate) fn keep(&mut self, placing: Placing) {
        let Some(waiting) = &self.waiting else { return placing.file.keep() };
        let Placing { file, place, is_found_again } = placing;
        let directory = Arc::clone(file.directory());
        let held = path::split_name(&place)
            .map_err(Errno::from)
            .and_then(|(_, name)| waiting.made_within(&directory).map(|held| (held, name)));
        let left = match held {
            Ok((held, name)) => file.keep_as(&held, name),
            Err(_) => Some(file),
        };
        // Where it cannot be moved, it is kept as without the option, if it is found again there.
        if let Some(file) = left.filter(|_| is_found_again) {
            file.keep();
        }
    }

    /// Whether an unfinished file is kept even where no journal knows it.
    pub(crate) fn keeps_partials(&self) -> bool {
        self.waiting.is_some()
    }

    /// Moves what an earlier run kept back to where it goes on.
    pub(super) fn take_partial_back(&mut self) {
        let Some(journal) = &self.journal else { return };
        let Some((place, suffix, current)) = journal.unfinished() else { return };
        let Ok((parent, name)) = path::split_name(&place) else { return };
        let Ok(parent) = self.hold(parent) else { return };
        let Some(waiting) = &self.waiting else { return };
        let Ok(held) = waiting.within(&parent) else { return };
        if at::hold(&held, name).is_ok_and(|file| current.is_in(file)) {
            // If it cannot be moved, it is sent again.
            let _ = at::move_to_new(&held, name, &parent, temporary(name, &suffix).as_component());
            waiting.clear(&parent);
        }
    }

    /// Gives all files that wait their names, one directory after the other; what fails is told.
    pub(crate) fn put_in_place(&mut self, failed: &mut dyn FnMut(&[u8], String)) {
        let Some(waiting) = self.waiting.take() else { return };
        let mut files: Vec<_> = waiting.files.take().into_iter().collect();
        let parent_of = |place: &[u8]| path::split(place).0.len();
        files.sort_unstable_by(|(one, _), (other, _)| {
            let parts = |place: &[u8]| (place[..parent_of(place)].to_vec(), place.to_vec());
            parts(one).cmp(&parts(other))
        });
        let mut rest = &files[..];
        while let Some((first, _)) = rest.first() {
            let parent = first[..parent_of(first)].to_vec();
            let count = rest.iter().take_while(|(place, _)| path::split(place).0 == parent).count();
            let (these, others) = rest.split_at(count);
            self.put_in_directory(&waiting, &parent, these, failed);
            rest = others;
        }
    }

    fn put_in_directory(
        &mut self,
        waiting: &Waiting,
        parent: &[u8],
        files: &[(Vec<u8>, Vec<u8>)],
        failed: &mut dyn FnMut(&[u8], String),
    ) {
        let opened = self.hold(parent).and_then(|parent| Ok((waiting.within(&parent)?, parent)));
        let (held, parent) = match opened {
            Ok(opened) => opened,
            Err(errno) => {
                return files.iter().for_each(|(_, path)| failed(path, self.veiled("write", path, errno)));
            }
        };
        let before = fstat(&*parent).map(|stat| meta(&stat));
        for (place, path) in files {
            let moved = self.names_in(&parent).and_then(|()| {
                let (_, name) = path::split_name(place)?;
                let comes = fstat(&at::hold(&held, name)?)?;
                self.keep_backup(path, &parent, name, Some(file_of(&comes)))?;
                let handle = Handle::Held(parent.as_fd());
                while_writable(handle, || at::move_to(&held, name, &*parent, name))
            });
            if let Err(errno) = moved {
                failed(path, self.veiled("write", path, errno));
            }
        }
        waiting.clear(&parent);
        if let Ok(before) = before
            && self.applier.keeping.times
        {
            // Its time was set before.
            let _ = at::set_own_times(&*parent, &timestamps(before));
        }
    }
}
