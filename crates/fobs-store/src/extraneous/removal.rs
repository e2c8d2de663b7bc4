//! Deleting what was found.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::{ALLOCATION, Deleted, Extraneous, Found, Obstacle};
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
        whole
    }

    /// What was reported by [`empty`](Self::empty) is forgotten.
    pub(crate) fn forget_reported(&mut self) {
        self.found_kept.shrink(std::mem::take(&mut self.reported_bytes));
    }

    /// Deletes what was found, or only reports it in a dry run.
    pub fn carry_out(mut self, report: &mut dyn FnMut(Deleted)) {
        if self.obstacle.is_none() {
            self.look_through_waiting();
        }
        self.note_rules();
        self.failures.drain(..).for_each(|failure| report(Deleted::Failed(failure)));
        let why = match (&self.spent, self.obstacle) {
            (Some(spent), _) => Some(format!("nothing was deleted: {spent}")),
            (None, obstacle) => obstacle.map(Obstacle::sentence),
        };
        if let Some(message) = why {
            report(Deleted::Failed(FileError { path: Vec::new(), message }));
            return;
        }
        let left = self.remove_found(report);
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

    /// How many are left at the limit.
    fn remove_found(&mut self, report: &mut dyn FnMut(Deleted)) -> u64 {
        let max = self.delete.max.unwrap_or(u64::MAX);
        let (mut count, mut left) = (0, 0);
        for found in std::mem::take(&mut self.found) {
            if count == max {
                left += 1;
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
                Err(Errno::NOTEMPTY) if found.is_directory => {}
                Err(errno) => report(Deleted::Failed(not_deleted(found.path, errno))),
            }
        }
        left
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
