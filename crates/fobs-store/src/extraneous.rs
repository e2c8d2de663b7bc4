//! What the destination has and the sources do not: found directory by directory, deleted once the listing is
//! complete.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::at;
use crate::at::open_beneath;
use crate::attributes::timestamps;
use crate::backups::Backups;
use crate::beneath::{Links, sentence};
use crate::own::is_own;
use crate::record::Meta;
use crate::select::filter_of;
use crate::view::View;
use fobs_filter::names_from::NamesFrom;
use fobs_filter::{Action, Chain, DIRECTORY_FILE_MAX, NameKind, Perishable, Side, path};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Error;
use fobs_model::event::FileError;
use fobs_model::name::Component;
use fobs_model::options::sync::{Delete, DeleteWhen, Enter, SyncOptions};

/// Most bytes of paths that wait for their deletion; more are left, and that is said.
const FOUND_BYTES_MAX: usize = 64 << 20;
/// What an allocation takes beside its bytes.
const ALLOCATION: usize = 16;
/// Flags for reading a directory.
const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Names to delete.
pub struct Extraneous {
    view: Option<View>,
    chain: Chain,
    delete: Delete,
    backups: Option<Backups>,
    dry_run: bool,
    only_delete: bool,
    enters: Enter,
    /// Of `--files-from`: only in these, and below, is anything deleted.
    names: Option<NamesFrom>,
    hashes: RandomState,
    open: Vec<Open>,
    found: Vec<Found>,
    /// Bytes of the paths of `found`; and what it and `changed` take.
    found_bytes: usize,
    found_kept: Charge,
    /// Those of them that were reported and may still be in memory.
    reported_bytes: usize,
    budget: MemoryBudget,
    /// What did not fit among `found`.
    forgotten: u64,
    failed: bool,
    /// Without, directories only make way (`--force`).
    deletes: bool,
    /// Sources that could not be read whole are no reason to delete nothing.
    despite_errors: bool,
    /// What had no room, as a sentence: nothing is deleted.
    spent: Option<String>,
    /// Directories from which something is deleted, and the time that each is to have.
    changed: Vec<(Vec<u8>, Meta)>,
    keeps_times: bool,
}

struct Open {
    /// Hashes of the names that the sources have.
    seen: Vec<u64>,
    kept: Charge,
    /// Whether it is looked through.
    scanned: bool,
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
    /// It is still there, and why.
    Failed(FileError),
    /// So many more are still there: the limit of deletions was reached.
    Limited(u64),
}

impl Extraneous {
    pub(super) fn new(
        view: Option<View>,
        options: &Arc<SyncOptions>,
        backups: Option<Backups>,
        budget: &MemoryBudget,
    ) -> Result<Extraneous, Error> {
        let names = NamesFrom::of(options, budget)?;
        Ok(Extraneous {
            view,
            chain: Chain::within(filter_of(options)?, Side::Receiver, b"", budget)?,
            delete: options.delete.unwrap_or_default(),
            backups,
            dry_run: options.dry_run,
            only_delete: options.only_delete,
            enters: options.directories,
            names,
            hashes: RandomState::new(),
            open: Vec::new(),
            found: Vec::new(),
            found_bytes: 0,
            found_kept: budget.charge(Keeps::Deletions),
            reported_bytes: 0,
            budget: budget.clone(),
            forgotten: 0,
            failed: false,
            deletes: options.delete.is_some(),
            despite_errors: options.rules.despite_errors,
            spent: None,
            changed: Vec::new(),
            keeps_times: options.preserve.times && !options.rules.omit_directory_times,
        })
    }

    /// The sources could not be read whole: nothing is deleted, unless that was asked for.
    pub(super) fn scan_failed(&mut self) {
        self.failed |= !self.despite_errors;
    }

    /// When it is carried out; `None` if an earlier listing has done that.
    pub fn when(&self) -> Option<DeleteWhen> {
        Some(self.delete.when).filter(|when| *when != DeleteWhen::Before || self.only_delete)
    }

    /// The sources have this path.
    pub(super) fn see(&mut self, path: &[u8]) {
        let hash = self.hashes.hash_one(path::split(path).1);
        if let Some(open) = self.open.last_mut().filter(|open| open.scanned)
            && let Err(spent) = open.kept.push(&mut open.seen, hash)
        {
            self.spent.get_or_insert_with(|| spent.to_string());
        }
    }

    /// Rows of a directory follow; `exists` at the destination.
    pub(super) fn enter(&mut self, path: &[u8], exists: bool) {
        let scanned = exists && self.is_whole(path);
        if exists {
            self.enter_chain(path);
        } else {
            self.chain.enter(path, &mut |_| Ok(None));
        }
        self.open.push(Open { seen: Vec::new(), kept: self.budget.charge(Keeps::Seen), scanned });
    }

    /// Whether the rows of a directory are all that the sources have in it.
    fn is_whole(&self, path: &[u8]) -> bool {
        let Some(names) = &self.names else { return self.enters == Enter::All || path.is_empty() };
        // One that is named; those above it are not listed whole.
        self.enters == Enter::All && names.covers(path)
    }

    /// The rows of the directory are complete: looks for what else is there.
    pub(super) fn leave(&mut self, path: &[u8], meta: Meta) {
        let Some(mut open) = self.open.pop() else { return };
        if open.scanned && self.deletes && !self.has_failed() {
            let before = self.found.len();
            open.seen.sort_unstable();
            // What cannot be read has nothing that is deleted.
            let _ = self.collect(path, Some(&open.seen), Perishable::Counted);
            if self.keeps_times && self.found.len() > before {
                let kept = self.found_kept.grow(path.len() + size_of::<(Vec<u8>, Meta)>());
                // The time of a directory does not matter enough to fail.
                if kept.is_ok() {
                    self.changed.push((path.to_vec(), meta));
                }
            }
        }
        self.chain.leave();
    }

    /// Whether nothing is deleted.
    fn has_failed(&self) -> bool {
        self.failed || self.spent.is_some()
    }

    fn enter_chain(&mut self, path: &[u8]) {
        let view = &mut self.view;
        let failures = self.chain.enter(path, &mut |name| match view {
            Some(view) => read_small(view, &path::join(path, name)),
            None => Ok(None),
        });
        // A filter file that cannot be used may protect anything.
        self.failed |= !failures.is_empty();
    }

    /// Collects what is in a directory and not `seen`; returns whether all of it is collected.
    fn collect(
        &mut self,
        directory: &[u8],
        seen: Option<&[u64]>,
        perishable: Perishable,
    ) -> Result<bool, Errno> {
        let Some(view) = &mut self.view else { return Ok(true) };
        let place = view.place(directory).into_owned();
        let held = view.hold(&place)?;
        let opened = open_beneath(&*held, b"", READ_DIRECTORY, Mode::empty(), Links::Refuse)?;
        let (mut names, mut kept) = (Vec::new(), self.budget.charge(Keeps::Listing));
        for entry in fs::Dir::new(opened)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..")
                && seen.is_none_or(|seen| seen.binary_search(&self.hashes.hash_one(name)).is_err())
            {
                let file_type = match entry.file_type() {
                    FileType::Unknown => at::stat(&*held, Component::new(name)?)
                        .map(|stat| FileType::from_raw_mode(stat.st_mode))?,
                    known => known,
                };
                let entry = (name.to_vec(), file_type == FileType::Directory);
                let room = kept.grow(name.len() + ALLOCATION).and_then(|()| kept.push(&mut names, entry));
                if let Err(spent) = room {
                    self.spent.get_or_insert_with(|| spent.to_string());
                    return Ok(false);
                }
            }
        }
        names.sort_unstable();
        let mut whole = true;
        self.note_rules();
        for (name, is_directory) in names {
            let path = path::join(directory, &name);
            let kind = if is_directory { NameKind::Directory } else { NameKind::Other };
            let protected = self.chain.judge(&path, kind, perishable) == Some(Action::Exclude)
                || (!is_directory && is_own(&*held, &name));
            let gone = !protected && (!is_directory || self.collect_directory(&path));
            whole &= gone && self.push(path, is_directory);
        }
        Ok(whole)
    }

    /// Collects what is in a directory that is deleted; returns whether all of it is.
    fn collect_directory(&mut self, path: &[u8]) -> bool {
        self.enter_chain(path);
        let whole = self.collect(path, None, Perishable::Ignored);
        self.chain.leave();
        // What cannot be read is kept.
        whole.unwrap_or(false)
    }

    /// Empties a directory for something else that gets its name; whether it is empty then, or would be.
    pub(super) fn empty(&mut self, path: &[u8], report: &mut dyn FnMut(Deleted)) -> bool {
        let before = self.found.len();
        let mut whole = self.collect_directory(path);
        for found in self.found.split_off(before) {
            let bytes = found.path.len() + ALLOCATION;
            self.reported_bytes += bytes;
            self.found_bytes -= bytes + size_of::<Found>();
            match if self.dry_run { Ok(true) } else { self.remove(&found) } {
                Ok(true) => report(Deleted::Gone(found)),
                Ok(false) | Err(_) => whole = false,
            }
        }
        whole
    }

    /// What was reported by [`empty`](Self::empty) is forgotten.
    pub(super) fn forget_reported(&mut self) {
        self.found_kept.shrink(std::mem::take(&mut self.reported_bytes));
    }

    /// The rules may have taken too much work: then what they said does not count.
    fn note_rules(&mut self) {
        if let Some(error) = self.chain.failure() {
            self.spent.get_or_insert(error.message);
        }
    }

    fn push(&mut self, path: Vec<u8>, is_directory: bool) -> bool {
        let bytes = path.len() + ALLOCATION;
        let kept = &mut self.found_kept;
        let fits = self.found_bytes + bytes <= FOUND_BYTES_MAX
            && kept.grow(bytes).is_ok()
            && kept.room_in_vec(&mut self.found, 1).is_ok();
        if !fits {
            self.forgotten += 1;
            return false;
        }
        self.found_bytes += bytes + size_of::<Found>();
        self.found.push(Found { path, is_directory });
        true
    }

    /// Deletes what was found, or only reports it in a dry run.
    pub fn carry_out(mut self, report: &mut dyn FnMut(Deleted)) {
        self.note_rules();
        if let Some(spent) = self.spent {
            let message = format!("nothing was deleted: {spent}");
            report(Deleted::Failed(FileError { path: Vec::new(), message }));
            return;
        }
        if self.failed {
            let message = "nothing was deleted: the sources, or a filter file at the destination, could not be read whole";
            report(Deleted::Failed(FileError { path: Vec::new(), message: message.to_owned() }));
            return;
        }
        let max = self.delete.max.unwrap_or(u64::MAX);
        let (mut count, mut left) = (0, 0);
        for found in std::mem::take(&mut self.found) {
            if count == max {
                left += 1;
                continue;
            }
            let deleted = if self.dry_run { Ok(true) } else { self.remove(&found) };
            match deleted {
                // A backup that this sync made.
                Ok(false) => {}
                Ok(true) => {
                    count += 1;
                    report(Deleted::Gone(found));
                }
                // A backup or something new keeps it.
                Err(Errno::NOTEMPTY) if found.is_directory => {}
                Err(errno) => {
                    let message = sentence("delete", &found.path, errno);
                    report(Deleted::Failed(FileError { path: found.path, message }));
                }
            }
        }
        if !self.dry_run {
            self.restore_times();
        }
        if left > 0 {
            report(Deleted::Limited(left));
        }
        if self.forgotten > 0 {
            let message = format!(
                "{} more would have been deleted, and their names take too much memory: run the sync again",
                self.forgotten
            );
            report(Deleted::Failed(FileError { path: Vec::new(), message }));
        }
    }

    /// A deletion gives its directory a new time, perhaps after that was set.
    fn restore_times(&mut self) {
        let Some(view) = &mut self.view else { return };
        for (path, meta) in std::mem::take(&mut self.changed) {
            let place = view.place(&path).into_owned();
            let times = timestamps(meta);
            // The time of a directory does not matter enough to fail.
            let _ = view.hold(&place).and_then(|directory| at::set_own_times(&*directory, &times));
        }
    }

    /// Deletes it, or makes it its own backup; `false` for a backup that this sync made.
    fn remove(&mut self, found: &Found) -> Result<bool, Errno> {
        let Some(view) = &mut self.view else { return Ok(true) };
        let place = view.place(&found.path).into_owned();
        let (parent, name) = path::split_name(&place)?;
        let directory = view.hold(parent)?;
        let unlink = || at::unlink(&*directory, name);
        let removed = match &self.backups {
            _ if found.is_directory => at::remove_directory(&*directory, name).map(|()| true),
            Some(backups) => match backups.take(&found.path, &directory, name) {
                Ok(false) => backups.spare(&found.path, unlink),
                taken => taken,
            },
            None => unlink().map(|()| true),
        };
        match removed {
            Err(Errno::NOENT) => Ok(true),
            other => other,
        }
    }
}

/// A filter file of the destination; none if there is none.
fn read_small(view: &mut View, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    match view.open(path, flags) {
        Ok(file) => {
            let mut text = Vec::new();
            let file = std::fs::File::from(file);
            file.take(DIRECTORY_FILE_MAX as u64 + 1).read_to_end(&mut text)?;
            Ok(Some(text))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests;
