//! What the destination has and the sources do not: found directory by directory, deleted once the listing is
//! complete.
//!
//! ```text
//!   sources   what the sources have in each directory
//!   looking   looking through the destination
//!   moving    a directory that is renamed whole in place of being deleted
//!   removal   deleting what was found
//! ```

mod looking;
mod moving;
mod removal;
mod sources;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

pub(crate) use self::moving::Leaving;
use self::sources::{Listed, Look, Open, Scope, Waiting, lies_in};
use crate::attributes::FileSystems;
use crate::backups::Backups;
use crate::beneath::{kind, sentence};
use crate::record::Meta;
use crate::select::{READ_FILTER, filter_file, filter_of};
use crate::view::View;
use fobs_filter::names_from::NamesFrom;
use fobs_filter::{Chain, Perishable, Side, path};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Error;
use fobs_model::event::FileError;
use fobs_model::name::ours::Suffix;
use fobs_model::options::sync::{Delete, DeleteWhen, Enter, SyncOptions};

/// Most bytes of paths that wait for their deletion; more are left, and that is said.
const FOUND_BYTES_MAX: usize = 64 << 20;
/// What an allocation takes beside its bytes.
const ALLOCATION: usize = 16;
/// Most directories that are told one by one because they cannot be looked through; the others are counted.
const FAILURES_MAX: usize = 100;

/// Names to delete.
pub struct Extraneous {
    view: Option<View>,
    options: Arc<SyncOptions>,
    chain: Chain,
    delete: Delete,
    backups: Option<Backups>,
    /// Links and the like get a name of it for a moment; they carry no mark.
    suffix: Option<Suffix>,
    dry_run: bool,
    only_delete: bool,
    enters: Enter,
    /// Of `--files-from`: only in these, and below, is anything deleted.
    names: Option<NamesFrom>,
    /// `-x`: nothing is deleted on another file system than that of the top of what is listed.
    file_systems: FileSystems,
    device: Option<u64>,
    /// Whether a directory that is listed empty may be one that was not looked at.
    doubts_empty: bool,
    hashes: RandomState,
    look: Look,
    /// New files are made of all that is left to delete.
    is_source: bool,
    /// The files among it, in the order of their paths, once that is asked for.
    by_path: Option<Vec<u32>>,
    open: Vec<Open>,
    /// Sources with a name of their own, beside such whose contents are listed (`file dir/`): they are in the
    /// top directory, too.
    named: Open,
    waiting: Waiting,
    found: Vec<Found>,
    /// What has another name now, and is told as deleted.
    left: Vec<Found>,
    /// Bytes of the paths of `found`; and what it and `changed` take.
    found_bytes: usize,
    found_kept: Charge,
    /// Directories that stay because something in them does; in the room of `found`.
    staying: Vec<Vec<u8>>,
    /// Those of them that were reported and may still be in memory.
    reported_bytes: usize,
    budget: MemoryBudget,
    /// What did not fit among `found`.
    forgotten: u64,
    /// Without, directories only make way (`--force`).
    deletes: bool,
    /// Sources that could not be read whole are no reason to delete nothing.
    despite_errors: bool,
    /// Why nothing is deleted.
    obstacle: Option<Obstacle>,
    /// What could not be looked at, and stays; and how many more.
    failures: Vec<FileError>,
    untold: u64,
    /// What had no room, as a sentence: nothing is deleted.
    spent: Option<String>,
    /// Directories from which something is deleted, and the time that each is to have.
    changed: Vec<(Vec<u8>, Meta)>,
    keeps_times: bool,
}

/// Why nothing is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The sources, or a filter file that may protect anything, could not be read whole.
    Unread,
    /// Something could not be stored: what is there may be all that is left of it.
    Unstored,
}

impl Obstacle {
    fn sentence(self, what: &str) -> String {
        let why = match self {
            Obstacle::Unread => "the sources, or a filter file at the destination, could not be read whole",
            Obstacle::Unstored => "not everything could be stored; sync again",
        };
        format!("{what} was deleted: {why}")
    }
}

/// What is deleted in which directories.
pub(crate) struct Scheme<'a> {
    pub(crate) options: &'a Arc<SyncOptions>,
    pub(crate) backups: Option<Backups>,
    /// Whether a directory may be listed in several parts: the contents of several sources.
    pub(crate) may_repeat: bool,
    /// The suffix of the names that this transfer makes for a moment.
    pub(crate) suffix: Option<Suffix>,
}

/// Something to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Path within the transfer.
    pub path: Vec<u8>,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// What came of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, or would be.
    Gone(Found),
    /// This directory stays, because something in it does.
    Kept(Vec<u8>),
    /// It is still there, and why.
    Failed(FileError),
    /// This number are still there besides: the limit of deletions was reached.
    Limited(u64),
}

impl Extraneous {
    pub(super) fn new(
        view: Option<View>,
        scheme: Scheme<'_>,
        budget: &MemoryBudget,
    ) -> Result<Extraneous, Error> {
        let Scheme { options, backups, may_repeat, suffix } = scheme;
        let names = NamesFrom::of(options, budget)?;
        let delete = options.delete.unwrap_or_default();
        let look = match delete.when {
            DeleteWhen::After if !options.only_delete => Look::WhenStored,
            _ if may_repeat => Look::AtTheEnd,
            _ => Look::AtOnce,
        };
        Ok(Extraneous {
            view,
            options: options.clone(),
            chain: Chain::within(filter_of(options)?, Side::Receiver, b"", budget)?,
            delete,
            backups,
            suffix,
            dry_run: options.dry_run,
            only_delete: options.only_delete,
            enters: options.directories,
            names,
            file_systems: options.preserve.file_systems,
            device: None,
            doubts_empty: false,
            hashes: RandomState::new(),
            look,
            is_source: false,
            by_path: None,
            open: Vec::new(),
            named: Open::new(Scope::Whole, budget),
            waiting: Waiting::within(budget),
            found: Vec::new(),
            left: Vec::new(),
            found_bytes: 0,
            found_kept: budget.charge(Keeps::Deletions),
            staying: Vec::new(),
            reported_bytes: 0,
            budget: budget.clone(),
            forgotten: 0,
            deletes: options.delete.is_some(),
            despite_errors: options.rules.despite_errors,
            obstacle: None,
            failures: Vec::new(),
            untold: 0,
            spent: None,
            changed: Vec::new(),
            keeps_times: options.preserve.times && !options.rules.omit_directory_times,
        })
    }

    /// The sender does not tell of directories that it has not looked at: with `-x` they come empty.
    pub(super) fn doubt_empty_directories(&mut self) {
        self.doubts_empty = self.file_systems.is_one();
    }

    /// The sources could not be read whole: nothing is deleted, unless that was asked for.
    pub(super) fn scan_failed(&mut self) {
        if !self.despite_errors {
            self.stop(Obstacle::Unread);
        }
    }

    /// Nothing is deleted, for this reason.
    pub(super) fn stop(&mut self, obstacle: Obstacle) {
        self.obstacle.get_or_insert(obstacle);
    }

    /// Whether a file will be deleted for certain; everything was found.
    pub(super) fn deletes_file(&mut self, path: &[u8]) -> bool {
        if !self.is_certain() || self.view.as_ref().is_none_or(|view| view.is_led_to(path)) {
            return false;
        }
        let found = &self.found;
        let by_path = self.by_path.get_or_insert_with(|| {
            let mut all: Vec<u32> =
                (0_u32..).zip(found).filter(|(_, it)| !it.is_directory).map(|(at, _)| at).collect();
            all.sort_unstable_by_key(|at| &found[*at as usize].path);
            all
        });
        by_path.binary_search_by_key(&path, |at| &found[*at as usize].path[..]).is_ok()
    }

    /// Something could not be stored. What is deleted before that is known is deleted all the same.
    pub(super) fn was_not_stored(&mut self) {
        if self.look == Look::WhenStored || self.is_source {
            self.stop(Obstacle::Unstored);
        }
    }

    /// When it is carried out; `None` if an earlier listing has done that.
    pub fn when(&self) -> Option<DeleteWhen> {
        Some(self.delete.when).filter(|when| *when != DeleteWhen::Before || self.only_delete)
    }

    /// This number of deletions was made already; they count for the limit.
    pub(super) fn has_deleted(&mut self, count: u64) {
        self.delete.max = self.delete.max.map(|max| max.saturating_sub(count));
    }

    /// The sources have this path.
    pub(super) fn see(&mut self, path: &[u8]) {
        let hash = self.hashes.hash_one(path::split(path).1);
        let open = self.open.last_mut().unwrap_or(&mut self.named);
        if let Err(spent) = open.see(hash) {
            self.spent.get_or_insert_with(|| spent.to_string());
        }
    }

    /// Rows of a directory follow; `exists` at the destination.
    pub(super) fn enter(&mut self, path: &[u8], exists: bool) {
        if self.open.is_empty() {
            self.device = self.device_of(path);
        }
        // What one source makes, another may list.
        let may_have = exists || self.look == Look::AtTheEnd;
        let scope = if may_have && self.is_whole(path) { Scope::Whole } else { Scope::Part };
        self.enter_chain_if(path, exists);
        self.open.push(Open::new(scope, &self.budget));
    }

    /// The rows of the directory that was entered last are not all that the sources have in it.
    pub(super) fn is_part(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.scope = Scope::Part;
        }
    }

    /// The file system that deletions keep to below a directory.
    fn device_of(&mut self, path: &[u8]) -> Option<u64> {
        let view = self.view.as_mut().filter(|_| self.file_systems.is_one())?;
        view.stat(path).ok().map(|stat| stat.st_dev)
    }

    /// Whether the rows of a directory are all that the sources have in it.
    fn is_whole(&self, path: &[u8]) -> bool {
        let Some(names) = &self.names else { return self.enters == Enter::All || path.is_empty() };
        // One that is named; those above it are not listed whole.
        names.lists_all_of(path, self.enters)
    }

    /// The rows of the directory are complete: looks for what else is there, now or later.
    pub(super) fn leave(&mut self, path: &[u8], meta: Meta) {
        let Some(mut open) = self.open.pop() else { return };
        if self.doubts_empty && open.seen.is_empty() {
            open.scope = Scope::Part;
        }
        if self.look == Look::AtOnce || !self.deletes {
            self.look_through(path, open, meta);
        } else if let Err(spent) = self.waiting.add(path, open, meta) {
            self.spent.get_or_insert_with(|| spent.to_string());
        }
        self.chain.leave();
    }

    fn look_through(&mut self, path: &[u8], mut open: Open, meta: Meta) {
        if !self.deletes || open.scope == Scope::Part || self.obstacle.is_some() || self.spent.is_some() {
            return;
        }
        let before = self.found.len();
        if path.is_empty() {
            open.seen.extend_from_slice(&self.named.seen);
        }
        open.seen.sort_unstable();
        self.collect(path, Some(&open.seen), Perishable::Counted);
        if self.keeps_times && self.found.len() > before {
            let kept = self.found_kept.grow(path.len() + size_of::<(Vec<u8>, Meta)>());
            // The time of a directory does not matter enough to fail.
            if kept.is_ok() {
                self.changed.push((path.to_vec(), meta));
            }
        }
    }

    /// Looks through what waited, by the filter files that are there now.
    fn look_through_waiting(&mut self) {
        if let Some(view) = &mut self.view {
            view.forget();
        }
        let mut above: Vec<Vec<u8>> = Vec::new();
        for (path, Listed { open, meta }) in self.waiting.take() {
            while above.last().is_some_and(|above| !lies_in(&path, above)) {
                above.pop();
                self.chain.leave();
            }
            if above.is_empty() {
                self.device = self.device_of(&path);
            }
            let is_there = self.is_directory(&path);
            self.enter_chain_if(&path, is_there);
            if is_there {
                self.look_through(&path, open, meta);
            }
            above.push(path);
        }
        above.iter().for_each(|_| self.chain.leave());
    }

    fn is_directory(&mut self, path: &[u8]) -> bool {
        let stat = self.view.as_mut().and_then(|view| view.stat(path).ok());
        stat.is_some_and(|stat| kind(&stat) == FileType::Directory)
    }

    /// Enters a directory, and reads its filter files if it is there.
    fn enter_chain_if(&mut self, path: &[u8], is_there: bool) {
        if is_there {
            self.enter_chain(path);
        } else {
            self.chain.enter(path, &mut |_| Ok(None));
        }
    }

    fn enter_chain(&mut self, path: &[u8]) {
        let view = &mut self.view;
        let failures = self.chain.enter(path, &mut |name| match view {
            Some(view) => filter_file(view.open_through_links(&path::join(path, name), READ_FILTER)),
            None => Ok(None),
        });
        if !failures.is_empty() {
            self.stop(Obstacle::Unread);
        }
        failures.into_iter().for_each(|message| self.tell(path, message));
    }

    fn fail(&mut self, what: &str, path: &[u8], errno: Errno) {
        self.tell(path, sentence(what, path, errno));
    }

    fn tell(&mut self, path: &[u8], message: String) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(FileError { path: path.to_vec(), message });
        } else {
            self.untold += 1;
        }
    }
}

#[cfg(test)]
mod tests;
