//! Directories that are listed only once something is in them: all of them (`-m`), or those that are there
//! for what is named below them alone.

use std::collections::VecDeque;

use crate::walk::{Contents, Entry, Walk};

/// Entries of a walk, without directories in which there is nothing but such directories.
pub(super) struct Pruned {
    /// Whether all of them are, not only those above names.
    all: bool,
    /// Directories that are entered and have nothing yet: at most as many as a path has components.
    waiting: Vec<Entry>,
    ready: VecDeque<Entry>,
}

impl Pruned {
    /// What a walk's options ask for, if anything.
    pub(super) fn of(walk: &Walk) -> Option<Pruned> {
        let is_needed = walk.prunes || walk.has_names();
        is_needed.then(|| Pruned { all: walk.prunes, waiting: Vec::new(), ready: VecDeque::new() })
    }

    /// The next entry.
    pub(super) fn next(&mut self, walk: &mut Walk) -> Option<Entry> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(entry);
            }
            let entry = walk.next()?;
            match &entry {
                // The top is the destination itself.
                Entry::Directory { path, .. } if !path.is_empty() => self.waiting.push(entry),
                Entry::DirectoryEnd { path, contents, .. }
                    if self.is_waiting(path) && self.leaves_out(*contents) =>
                {
                    self.waiting.pop();
                }
                _ => {
                    self.ready.extend(self.waiting.drain(..));
                    self.ready.push_back(entry);
                }
            }
        }
    }

    /// Whether a directory is left out in which nothing came.
    fn leaves_out(&self, contents: Contents) -> bool {
        match contents {
            Contents::Seen | Contents::NotMeant => self.all,
            Contents::Named => true,
            // What was not looked at is not known to be empty.
            Contents::Unseen => false,
        }
    }

    fn is_waiting(&self, path: &[u8]) -> bool {
        self.waiting.last().is_some_and(|entry| entry.path() == path)
    }
}
