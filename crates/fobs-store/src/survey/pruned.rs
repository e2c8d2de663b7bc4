//! Directories that are listed only once something is in them (`-m`).

use std::collections::VecDeque;

use crate::walk::{Contents, Entry, Walk};

/// Entries of a walk, without directories in which there is nothing but such directories.
#[derive(Default)]
pub(super) struct Pruned {
    /// Directories that are entered and have nothing yet: at most as many as a path has components.
    waiting: Vec<Entry>,
    ready: VecDeque<Entry>,
}

impl Pruned {
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
                // What was not looked at is not known to be empty.
                Entry::DirectoryEnd { path, contents: Contents::Seen, .. } if self.is_waiting(path) => {
                    self.waiting.pop();
                }
                _ => {
                    self.ready.extend(self.waiting.drain(..));
                    self.ready.push_back(entry);
                }
            }
        }
    }

    fn is_waiting(&self, path: &[u8]) -> bool {
        self.waiting.last().is_some_and(|entry| entry.path() == path)
    }
}
