//! A directory that is renamed whole in place of being deleted.

use std::ops::Range;

use super::sources::Look;
use super::{ALLOCATION, Extraneous, Found};
use crate::select::filter_of;
use fobs_filter::{Action, Chain, NameKind, Perishable, Side, path};

/// What is in a directory that the sources do not have: all of it is to be deleted.
pub(crate) struct Leaving(Place);

enum Place {
    /// It was looked through: these of what was found.
    Found(Range<usize>),
    /// It was looked through just now.
    Collected(Vec<Found>),
}

impl Leaving {
    /// Names in it, and its own.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Place::Found(range) => range.len(),
            Place::Collected(found) => found.len(),
        }
    }
}

impl Extraneous {
    /// Whether what is found is deleted for certain, and as it is.
    pub(super) fn is_certain(&self) -> bool {
        !self.dry_run
            && self.look == Look::AtOnce
            && self.obstacle.is_none()
            && self.spent.is_none()
            && self.backups.is_none()
            && self.delete.max.is_none()
    }

    /// What is in a directory, if the sources do not have it: nothing of it is protected, or on another file
    /// system.
    pub(crate) fn leaving(&mut self, directory: &[u8]) -> Option<Leaving> {
        let view = self.view.as_mut()?;
        let device = view.stat(directory).ok()?.st_dev;
        if !self.deletes || !self.is_certain() || !self.is_whole(path::split(directory).0) {
            return None;
        }
        let is_it = |found: &Found| found.is_directory && found.path == directory;
        if let Some(end) = self.found.iter().rposition(is_it) {
            // What is in a directory comes before it.
            let outside = |found: &Found| !path::is_inside(&found.path, directory);
            let begin = self.found[..end].iter().rposition(outside).map_or(0, |at| at + 1);
            let view = self.view.as_mut()?;
            let is_here = |found: &Found| {
                !found.is_directory || view.stat(&found.path).is_ok_and(|stat| stat.st_dev == device)
            };
            return self.found[begin..=end]
                .iter()
                .all(is_here)
                .then_some(Leaving(Place::Found(begin..end + 1)));
        }
        let before = self.found.len();
        let own = self.device.replace(device);
        // It is looked through again with the directory that it is in, unless it is renamed.
        let told = (self.staying.len(), self.failures.len(), self.untold, self.forgotten);
        let is_whole = self.collect_from_top(directory);
        self.device = own;
        self.staying.truncate(told.0);
        self.failures.truncate(told.1);
        (self.untold, self.forgotten) = (told.2, told.3);
        let collected = self.found.split_off(before);
        if is_whole {
            return Some(Leaving(Place::Collected(collected)));
        }
        for Found { path, .. } in collected {
            let bytes = path.len() + ALLOCATION;
            self.found_bytes -= bytes + size_of::<Found>();
            self.found_kept.shrink(bytes);
        }
        None
    }

    /// Collects a directory of which no row has come, by the rules of those above it.
    fn collect_from_top(&mut self, directory: &[u8]) -> bool {
        let Ok(filter) = filter_of(&self.options) else { return false };
        let Ok(chain) = Chain::within(filter, Side::Receiver, b"", &self.budget) else { return false };
        let own = std::mem::replace(&mut self.chain, chain);
        self.enter_chain(b"");
        let ends = directory.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut is_protected = false;
        for end in ends.chain([directory.len()]) {
            let above = &directory[..end];
            let judged = self.chain.judge(above, NameKind::Directory, Perishable::Counted);
            is_protected |= judged == Some(Action::Exclude);
            self.enter_chain(above);
        }
        let is_whole = !is_protected && self.collect(directory, None, Perishable::Ignored);
        if is_whole {
            self.push(directory.to_vec(), true);
        }
        self.chain = own;
        is_whole
    }

    /// The directory has another name now: what was in it is told as deleted with the rest.
    pub(crate) fn has_left(&mut self, leaving: Leaving) {
        let gone = match leaving.0 {
            Place::Found(range) => self.found.drain(range).collect(),
            Place::Collected(found) => found,
        };
        self.left.extend(gone);
        self.by_path = None;
        if let Some(view) = &mut self.view {
            view.forget();
        }
    }
}
