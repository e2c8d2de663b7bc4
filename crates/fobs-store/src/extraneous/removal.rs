//! Deleting what was found.

use std::collections::{BTreeSet, HashSet};
use std::os::fd::AsFd;

use rustix::io::Errno;

use super::{ALLOCATION, Deleted, Extraneous, Found};
use crate::at;
use crate::attributes::{Handle, timestamps, while_writable};
use crate::beneath::sentence;
use fobs_filter::path::show;
use fobs_filter::{Perishable, path};
use fobs_model::event::FileError;

impl Extraneous {
    /// Empties a directory for something else that gets its name; whether it is empty then, or would be.
    pub(crate) fn empty(&mut self, path: &[u8], report: &mut dyn FnMut(Deleted)) -> bool {
        let before = self.found.len();
        self.enter_chain(path);
        let mut whole = self.collect(path, None, Perishable::Ignored);
        self.chain.leave();
        for found in self.found.split_off(before) {
            let bytes = found.path.len() + ALLOCATION;
            self.reported_bytes += bytes;
            self.found_bytes -= bytes + size_of::<Found>();
            match if self.dry_run { Ok(true) } else { self.remove(&found) } {
                Ok(true) => report(Deleted::Gone(found)),
                // A backup or something new is in it.
                Ok(false) | Err(Errno::NOTEMPTY) => whole = false,
                Err(errno) => {
                    whole = false;
                    report(Deleted::Failed(not_deleted(found.path, errno)));
                }
            }
        }
        self.failures.drain(..).for_each(|failure| report(Deleted::Failed(failure)));
        self.tell_staying(report);
        whole
    }

    /// What was reported by [`empty`](Self::empty) is forgotten.
    pub(crate) fn forget_reported(&mut self) {
        self.found_kept.shrink(std::mem::take(&mut self.reported_bytes));
    }

    fn tell_staying(&mut self, report: &mut dyn FnMut(Deleted)) {
        for path in std::mem::take(&mut self.staying) {
            let bytes = path.len() + ALLOCATION;
            self.reported_bytes += bytes;
            self.found_bytes = self.found_bytes.saturating_sub(bytes);
            report(Deleted::Kept(path));
        }
    }

    /// Deletes what was found, or only reports it in a dry run.
    pub fn carry_out(mut self, report: &mut dyn FnMut(Deleted)) {
        if self.may_begin(report) {
            let left = self.remove_found(report).left;
            self.end(left, report);
        }
    }

    /// Deletes all but these files, of which new ones are made, and returns what is left to delete.
    pub(crate) fn carry_out_but(
        mut self,
        sources: &BTreeSet<Vec<u8>>,
        report: &mut dyn FnMut(Deleted),
    ) -> Option<Extraneous> {
        if !self.may_begin(report) {
            return None;
        }
        let waits = |found: &Found| {
            if found.is_directory {
                holds_one_of(&found.path, sources)
            } else {
                sources.contains(&found.path)
            }
        };
        let (later, now) = std::mem::take(&mut self.found).into_iter().partition(waits);
        self.found = now;
        let Removed { count, left } = self.remove_found(report);
        if left > 0 {
            self.end(left + Vec::len(&later) as u64, report);
            return None;
        }
        self.found = later;
        let parents: HashSet<&[u8]> = self.found.iter().map(|found| path::split(&found.path).0).collect();
        let changed = self.changed.iter().filter(|(path, _)| parents.contains(&path[..])).cloned().collect();
        if self.found.is_empty() {
            self.end(0, report);
            return None;
        }
        if !self.dry_run {
            self.restore_times(report);
        }
        self.delete.max = self.delete.max.map(|max| max.saturating_sub(count));
        (self.changed, self.by_path, self.is_source) = (changed, None, true);
        Some(self)
    }

    /// Looks through what waited. Whether something is deleted; if not, that is reported with its reason.
    fn may_begin(&mut self, report: &mut dyn FnMut(Deleted)) -> bool {
        if self.obstacle.is_none() {
            self.look_through_waiting();
        }
        self.note_rules();
        self.left.drain(..).for_each(|found| report(Deleted::Gone(found)));
        self.failures.drain(..).for_each(|failure| report(Deleted::Failed(failure)));
        let what = if self.is_source { "nothing that new files are made of" } else { "nothing" };
        let why = match (&self.spent, self.obstacle) {
            (Some(spent), _) => Some(format!("{what} was deleted: {spent}")),
            (None, obstacle) => obstacle.map(|obstacle| obstacle.sentence(what)),
        };
        let may = why.is_none();
        why.into_iter().for_each(|message| report(Deleted::Failed(FileError { path: Vec::new(), message })));
        may
    }

    /// Everything was tried; `left` are more than may be deleted.
    fn end(&mut self, left: u64, report: &mut dyn FnMut(Deleted)) {
        if !self.dry_run {
            self.restore_times(report);
        }
        if left > 0 {
            report(Deleted::Limited(left));
        }
        let untold = [
            (
                self.forgotten,
                "more would have been deleted, and their names take too much memory: run the sync again",
            ),
            (self.untold, "more directories could not be looked through for what is to be deleted"),
        ];
        for (count, what) in untold.into_iter().filter(|(count, _)| *count > 0) {
            report(Deleted::Failed(FileError { path: Vec::new(), message: format!("{count} {what}") }));
        }
    }

    /// Deletes what is in `found`, as far as the limit allows.
    fn remove_found(&mut self, report: &mut dyn FnMut(Deleted)) -> Removed {
        let max = self.delete.max.unwrap_or(u64::MAX);
        let (mut count, mut left) = (0, 0);
        self.tell_staying(report);
        // What is in a directory comes before it.
        let mut last_left: Option<Vec<u8>> = None;
        for found in std::mem::take(&mut self.found) {
            if count == max {
                left += 1;
                let is_above = |left: &Vec<u8>| path::is_inside(left, &found.path);
                if found.is_directory && last_left.as_ref().is_some_and(is_above) {
                    report(Deleted::Kept(found.path.clone()));
                }
                last_left = Some(found.path);
                continue;
            }
            let stays = self.view.as_ref().is_some_and(|view| view.is_led_to(&found.path));
            let deleted = if self.dry_run { Ok(!stays) } else { self.remove(&found) };
            match deleted {
                // A backup that this sync made.
                Ok(false) => {}
                Ok(true) => {
                    count += 1;
                    report(Deleted::Gone(found));
                }
                // A backup or something new keeps it.
                Err(Errno::NOTEMPTY) if found.is_directory => report(Deleted::Kept(found.path)),
                Err(errno) => report(Deleted::Failed(not_deleted(found.path, errno))),
            }
        }
        Removed { count, left }
    }

    /// A deletion gives its directory a new time, perhaps after that was set.
    fn restore_times(&mut self, report: &mut dyn FnMut(Deleted)) {
        let Some(view) = &mut self.view else { return };
        for (path, meta) in std::mem::take(&mut self.changed) {
            let place = view.place(&path).into_owned();
            let times = timestamps(meta);
            match view.hold(&place).and_then(|directory| at::set_own_times(&*directory, &times)) {
                // It went meanwhile.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => {
                    let message = sentence("set the time of", &path, errno);
                    report(Deleted::Failed(FileError { path, message }));
                }
            }
        }
    }

    /// Deletes it, or makes it its own backup; `false` for a backup that this sync made, and for what stays.
    fn remove(&mut self, found: &Found) -> Result<bool, Errno> {
        let Some(view) = &mut self.view else { return Ok(true) };
        if view.is_led_to(&found.path) {
            // It has another name among the sources.
            return Ok(false);
        }
        let place = view.place(&found.path).into_owned();
        let (parent, name) = path::split_name(&place)?;
        let directory = view.hold(parent)?;
        let unlink = || at::unlink(&*directory, name);
        let remove = || match &self.backups {
            _ if found.is_directory => at::remove_directory(&*directory, name).map(|()| true),
            Some(backups) => match backups.take(&found.path, &directory, name) {
                Ok(false) => backups.spare(&found.path, unlink),
                taken => taken,
            },
            None => unlink().map(|()| true),
        };
        // A user's own directory without the right to write is none that keeps its entries, as in rsync.
        match while_writable(Handle::Held(directory.as_fd()), remove) {
            Err(Errno::NOENT) => Ok(true),
            other => other,
        }
    }
}

/// What was deleted, and what is left at the limit.
struct Removed {
    count: u64,
    left: u64,
}

/// Whether any of these lies below a directory.
fn holds_one_of(directory: &[u8], all: &BTreeSet<Vec<u8>>) -> bool {
    let below = [directory, b"/"].concat();
    all.range(below.clone()..).next().is_some_and(|first| first.starts_with(&below))
}

fn not_deleted(path: Vec<u8>, errno: Errno) -> FileError {
    let message = match errno {
        Errno::BUSY => format!(
            "cannot delete '{}': a file system is mounted there; unmount it, exclude it, or leave out what is on other file systems with -x",
            show(&path)
        ),
        errno => sentence("delete", &path, errno),
    };
    FileError { path, message }
}
