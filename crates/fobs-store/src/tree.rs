//! The destination tree: directories, links and files, all opened below one directory.

mod directories;
mod elsewhere;
mod entrances;
mod files;
mod first_names;
mod kept;
mod noted;
mod settling;
mod terms;
mod waiting;

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

pub(crate) use self::entrances::Entrances;
pub(crate) use self::files::Old;
pub(crate) use self::first_names::FirstNames;
use self::kept::file_of;
pub(crate) use self::settling::Settling;
use self::terms::written_now;
use self::waiting::Waiting;
use super::at;
use super::at::open_beneath;
use super::attributes::{Applier, Attributes, Made, ModeNow, Modes, Unkept, Unset, open_handle};
use super::backups::{Aside, Backups};
use super::beneath::{HOLD_DIRECTORY, Links, meta, open_self, sentence};
use super::clearance::Clearance;
use super::dirlinks::Dirlinks;
use super::held::{Inode, Movable};
use super::journal::{Health, Journal};
use super::looked::Looked;
use super::of_last::OfLast;
pub(super) use super::record::protocol;
use super::record::{Device, Meta, SpecialKind};
use super::select::Implied;
use super::temporary::{Names, Placed, TemporaryFile, Thing, is_made_here, place};
use super::uncached::Devices;
use super::view::View;
use super::walk::type_bits;
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{Error, ErrorKind};
use fobs_model::name::Component;
use fobs_model::name::ours::{is_journal, suffix_in, temporary};
use fobs_model::options::sync::SyncOptions;
use fobs_model::options::{Overwrite, Sight, Terms};

/// Only the owner may access directories until they are complete.
const DIRECTORY_MODE: u32 = 0o700;
/// The bit of one whose mode is not that of the source, until it is complete: it does nothing to a directory
/// that only its owner enters, and tells a later run that it is not to stay so.
const UNFINISHED: u32 = 0o1000;

/// Why something was not stored.
#[derive(Debug)]
pub(super) enum Trouble {
    /// This path failed, the others go on. One sentence.
    Path(String),
    /// It is in a directory that failed, which has been reported.
    Skipped,
    /// The whole transfer failed.
    Transfer(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Transfer(error)
    }
}

pub(super) type Attempt<T> = Result<T, Trouble>;

/// A file under its temporary name.
pub(super) struct Placing {
    pub(super) file: TemporaryFile,
    /// Its path below the tree's top, once it is complete.
    pub(super) place: Vec<u8>,
    /// Whether a later run finds it: by the suffix of the journal.
    pub(super) is_found_again: bool,
}

/// The destination's tree.
pub(super) struct Tree {
    /// The directory that no path may leave.
    top: Arc<OwnedFd>,
    naming: Naming,
    applier: Applier,
    /// Who may exchange what is made in a directory.
    movable: OfLast<Movable>,
    names: Names,
    /// The directory used last, with its path at the destination.
    held: Option<(Vec<u8>, Arc<OwnedFd>)>,
    /// Whether files and directories are fsynced.
    fsync: bool,
    /// How large files are written.
    devices: Devices,
    /// The directory that was written last and is not fsynced yet.
    unsynced: Option<Arc<OwnedFd>>,
    /// The directories that have not ended, each below the one before: at most one per two bytes of path.
    levels: Vec<Level>,
    /// Where sources are removed: what is to be kept before.
    settling: Option<Settling>,
    /// What is recorded of it, and the lock.
    journal: Option<Journal>,
    /// Of the destination's device, as the journal counts on it.
    health: Health,
    /// What is replaced is kept under another name.
    backups: Option<Backups>,
    /// Where they lie, if not beside their files.
    aside: Option<Arc<Aside>>,
    /// The directory in which files lie until they are complete, and its path; none where each lies beside
    /// its place.
    elsewhere: Option<(Arc<OwnedFd>, Vec<u8>)>,
    /// The directory in which unfinished files are kept together, and its path.
    partials: Option<(Arc<OwnedFd>, Vec<u8>)>,
    /// Files that are replaced keep their inode (`--inplace`).
    in_place: bool,
    /// No backup is made of links that lead out (`--safe-links`).
    drops_links_out: bool,
    /// Where unfinished files, and such as wait for the end, lie beside their place.
    waiting: Option<Waiting>,
    /// Devices are written as files are (`--write-devices`).
    writes_devices: bool,
    /// Times of directories are left.
    leaves_directory_times: bool,
    /// Times of links are left.
    leaves_link_times: bool,
    /// Whether the top directory stays as it is.
    leaves_top: bool,
    /// Directories that stay as they are, and the mask of those that are made.
    implied: Option<(Implied, u32)>,
    /// What the top directory was given, which the end of the journal changes again.
    top_meta: Option<Meta>,
    /// The top directory before the journal was made in it, and whether it was made for this transfer.
    before: Option<Meta>,
    /// The top directory once the journal was.
    opened: Option<Meta>,
    is_made: bool,
    /// Links that stand for directories.
    dirlinks: Option<Dirlinks>,
    /// On which terms it is stored.
    terms: Terms,
    /// Which files the first names of several are.
    first_names: FirstNames,
    /// Which directories the survey saw; `None` without one.
    entrances: Option<Entrances>,
    /// What was read of it to be compared.
    looked: Looked,
}

/// How paths in the transfer map to paths at the destination.
enum Naming {
    /// Unchanged.
    Kept,
    /// The first component, which all have in common, becomes `name`.
    First { seen: Option<Vec<u8>>, name: Vec<u8> },
}

struct Level {
    path: Vec<u8>,
    state: LevelState,
    /// Its path below the tree's top, and which directory that was when it began; `None` where it failed.
    entered: Option<(Vec<u8>, Inode)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LevelState {
    /// With the permissions that it may have.
    Created {
        allowed: u32,
    },
    /// Likewise, made by an earlier run that did not come to its end.
    LeftUnfinished {
        allowed: u32,
    },
    /// It stands there, and gets this mode again.
    Existing {
        restores: Option<u32>,
    },
    Skipped,
}

impl Tree {
    /// A tree below `top`; `name` is the new name of a single source, `alone` makes names without a journal.
    pub(super) fn new(
        top: Arc<OwnedFd>,
        name: Option<Vec<u8>>,
        applier: Applier,
        fsync: bool,
        (journal, alone): (Option<Journal>, Names),
    ) -> Tree {
        let health = journal.as_ref().map(Journal::health).unwrap_or_default();
        let names = journal.as_ref().map_or(alone, |journal| alone.journalled(journal.suffix()));
        Tree {
            top,
            naming: name.map_or(Naming::Kept, |name| Naming::First { seen: None, name }),
            applier,
            movable: OfLast::default(),
            names,
            held: None,
            fsync,
            devices: Devices::new(fsync),
            unsynced: None,
            levels: Vec::new(),
            settling: None,
            journal,
            health,
            backups: None,
            aside: None,
            elsewhere: None,
            partials: None,
            in_place: false,
            drops_links_out: false,
            waiting: None,
            writes_devices: false,
            leaves_directory_times: false,
            leaves_link_times: false,
            leaves_top: false,
            implied: None,
            dirlinks: None,
            top_meta: None,
            before: None,
            opened: None,
            is_made: false,
            terms: Terms::default(),
            first_names: FirstNames::default(),
            entrances: None,
            looked: Looked::default(),
        }
    }

    /// The same on these terms.
    pub(super) fn under(self, terms: Terms) -> Tree {
        Tree { terms, ..self }
    }

    /// Tells what the top directory was before the journal was made in it.
    pub(super) fn begin_from(&mut self, before: Option<Meta>, is_made: bool) {
        (self.before, self.is_made) = (before, is_made);
        self.opened = fs::fstat(&self.top).ok().map(|stat| meta(&stat));
    }

    /// Stores as a sync does.
    pub(super) fn follow(&mut self, sync: &SyncOptions, budget: &MemoryBudget) {
        let may_rename = self.terms == Terms::default();
        self.backups = self.backups_of(sync, budget).filter(|_| may_rename);
        self.applier.keeping.executability = sync.rules.executability;
        self.in_place = sync.rules.in_place && may_rename && sync.link_dest.is_empty();
        self.drops_links_out = sync.rules.safe_links;
        self.writes_devices = sync.rules.writes_devices && self.in_place && self.applier.may_open_devices;
        self.waiting = Waiting::of(sync, self.partials.as_ref(), budget).filter(|_| may_rename);
        self.take_partial_back();
        if sync.only_delete {
            self.top_meta = self.before;
        }
        if sync.removes_sources() {
            let settling = self.settling.get_or_insert_default();
            settling.note(&self.top);
        }
        self.leaves_directory_times = sync.rules.omit_directory_times;
        self.leaves_link_times = sync.rules.omit_link_times;
        self.leaves_top = sync.leaves_top();
        self.entrances = Some(Entrances::within(budget));
        self.dirlinks = sync.rules.keeps_dirlinks.then(|| Dirlinks::within(budget));
    }

    /// Where to put which directories were seen.
    pub(super) fn entrances(&self) -> Option<Entrances> {
        self.entrances.clone()
    }

    /// Whether the one source gets a name of its own.
    pub(super) fn is_one_name(&self) -> bool {
        matches!(self.naming, Naming::First { .. })
    }

    /// Keeps hard links, and so which files the first names are.
    pub(super) fn keep_first_names(&mut self, budget: &MemoryBudget) {
        self.first_names = FirstNames::within(budget);
    }

    /// Which files the first names are.
    pub(super) fn first_names(&self) -> FirstNames {
        self.first_names.clone()
    }

    /// What is recorded of it.
    pub(super) fn journal(&mut self) -> Option<&mut Journal> {
        self.journal.as_mut()
    }

    /// Hands out the journal, for the end.
    pub(super) fn take_journal(&mut self) -> Option<Journal> {
        self.journal.take()
    }

    /// What another thread may look at.
    pub(super) fn view(&self) -> View {
        let name = match &self.naming {
            Naming::Kept => None,
            Naming::First { name, .. } => Some(name.clone()),
        };
        let view = View::new(Arc::clone(&self.top), name).before(self.before, self.is_made);
        let view = view.counting(&self.looked);
        view.through(self.dirlinks.clone())
    }

    /// Makes a symbolic link.
    pub(super) fn symlink(
        &mut self,
        cleared: Clearance<'_>,
        target: &[u8],
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<()> {
        let meta = if self.leaves_link_times { written_now(meta) } else { meta };
        if self.applier.preserve.fake_super {
            return self.noted_link(cleared.path(), target, meta, attributes);
        }
        self.make(cleared.path(), "make the symbolic link", &Thing::Symlink(target), meta, attributes)
    }

    /// Makes a device, fifo or socket. One that only root can make is left out, as rsync does, or reported.
    pub(super) fn special(
        &mut self,
        cleared: Clearance<'_>,
        kind: SpecialKind,
        device: Device,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<()> {
        let path = cleared.path();
        if self.applier.preserve.fake_super {
            return self.noted_special(path, (kind, device), meta, attributes);
        }
        let file_type = match kind {
            SpecialKind::Fifo => FileType::Fifo,
            SpecialKind::Socket => FileType::Socket,
            SpecialKind::CharacterDevice => FileType::CharacterDevice,
            SpecialKind::BlockDevice => FileType::BlockDevice,
        };
        if kind.is_device() && !self.applier.rights.is_root {
            return match self.applier.preserve.unkept {
                Unkept::LeftOut => Err(Trouble::Skipped),
                Unkept::Failed => Err(Trouble::Path(format!(
                    "cannot make the device '{}': only root can, and through a daemon only for a key that is privileged; ask whoever runs the receiving side",
                    show(path)
                ))),
            };
        }
        let number = fs::makedev(device.major, device.minor);
        self.make(path, "make the special file", &Thing::Special(file_type, number), meta, attributes)
    }

    /// Gives a file that is there, or was stored before, one more name.
    pub(super) fn hard_link(&mut self, cleared: Clearance<'_>, target: &[u8]) -> Attempt<()> {
        let path = cleared.path();
        self.check_skipped(target)?;
        let from = self.place_of_file(target)?.into_owned();
        let waiting = self.waiting_at(&from);
        let held = path::split_name(&from)
            .map_err(Errno::from)
            .and_then(|(parent, name)| match waiting {
                Some(held) => Ok(held),
                None => at::hold(&*self.hold(parent)?, name),
            })
            .and_then(|held| fs::fstat(&held).map(|stat| (held, stat)));
        let (held, stat) =
            held.map_err(|errno| Trouble::Path(self.veiled("find the first name of", path, errno)))?;
        self.check_first_name(path, target, &stat)?;
        // A directory's names are not files; the kernel refuses other links to one by itself.
        self.make(path, "make the hard link", &Thing::Name(&held), Meta::default(), None)
    }

    fn make(
        &mut self,
        path: &[u8],
        what: &str,
        thing: &Thing<'_>,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Attempt<()> {
        self.check_skipped(path)?;
        let at = self.place_of_file(path)?.into_owned();
        let made = path::split_name(&at).map_err(Errno::from).and_then(|(parent, name)| {
            let parent = self.hold(parent)?;
            self.names_in(&parent)?;
            let comes = match thing {
                Thing::Name(held) => fs::fstat(held).ok().map(|stat| file_of(&stat)),
                Thing::Symlink(_) | Thing::Special(..) => None,
            };
            self.keep_backup(path, &parent, name, comes)?;
            self.clear(&at, &parent, name);
            place(&self.names, &parent, name, thing, meta, attributes, &self.applier)
                .map(|placed| (placed, parent))
        });
        match made {
            Ok((Placed { stat, set }, parent)) => {
                self.first_names.stored(path, &stat, &parent);
                if self.terms.overwrite == Overwrite::Refuse
                    && let Some(journal) = &mut self.journal
                {
                    // A later run of the transfer does not take it for another's.
                    journal.made(path, &stat);
                }
                set.map_err(|unset| self.not_set(&unset, path))
            }
            Err(errno) => Err(Trouble::Path(self.veiled(what, path, errno))),
        }
    }

    /// Whether every directory has ended.
    pub(super) fn is_complete(&self) -> bool {
        self.levels.is_empty()
    }

    /// Likewise, of a file or link: not under a name that this transfer's own unfinished files have.
    fn place_of_file<'a>(&mut self, path: &'a [u8]) -> Attempt<Cow<'a, [u8]>> {
        let place = self.place(path)?;
        let (Names::Alone(alone) | Names::Journalled { alone, .. }) = &self.names;
        match suffix_in(path::split(&place).1) {
            Some(suffix) if suffix == *alone || Some(suffix) == self.names.of_journal() => {
                Err(named_as_ours(path))
            }
            _ => Ok(place),
        }
    }

    /// The path at the destination, relative to `top`, of a path in the transfer.
    fn place<'a>(&mut self, path: &'a [u8]) -> Attempt<Cow<'a, [u8]>> {
        let (first, rest) = path::split_first(path);
        if path.split(|&byte| byte == b'/').any(is_journal) {
            return Err(named_as_ours(path));
        }
        let Naming::First { seen, name } = &mut self.naming else {
            return Ok(self.dirlinks.as_ref().map_or(Cow::Borrowed(path), |dirlinks| dirlinks.place(path)));
        };
        match seen {
            _ if first.is_empty() => Err(protocol("contents come where one source was announced").into()),
            Some(seen) if seen != first => {
                Err(protocol("several sources come where one was announced").into())
            }
            _ => {
                seen.get_or_insert_with(|| first.to_vec());
                Ok(Cow::Owned([&name[..], rest].concat()))
            }
        }
    }

    /// The directory at `place`, cached or opened now; it must exist, and be the one that was entered there.
    /// No link is followed, because one of this transfer could lead out of the requested tree.
    fn hold(&mut self, place: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        let entered = self.levels.iter().rev().filter_map(|level| level.entered.as_ref());
        let inode = entered.into_iter().find(|(at, _)| at == place).map(|(_, inode)| *inode);
        self.hold_as(place, inode)
    }

    fn hold_as(&mut self, place: &[u8], inode: Option<Inode>) -> Result<Arc<OwnedFd>, Errno> {
        match &self.held {
            _ if place.is_empty() => Ok(Arc::clone(&self.top)),
            Some((held, directory)) if held == place => Ok(Arc::clone(directory)),
            _ => {
                let directory = open_beneath(&self.top, place, HOLD_DIRECTORY, Mode::empty(), Links::Refuse)?;
                if let Some(inode) = inode
                    && Inode::of_held(&directory)? != inode
                {
                    return Err(Errno::STALE);
                }
                let directory = Arc::new(directory);
                self.settling.iter().for_each(|settling| settling.note(&directory));
                self.held = Some((place.to_vec(), Arc::clone(&directory)));
                Ok(directory)
            }
        }
    }

    fn check_skipped(&self, path: &[u8]) -> Attempt<()> {
        match self.levels.last() {
            Some(Level { path: outer, state: LevelState::Skipped, .. }) if path::is_inside(path, outer) => {
                Err(Trouble::Skipped)
            }
            _ => Ok(()),
        }
    }
}

fn named_as_ours(path: &[u8]) -> Trouble {
    let shown = show(path);
    Trouble::Path(format!(
        "cannot write '{shown}': fobs gives such names to files of its own; rename it at the source"
    ))
}
