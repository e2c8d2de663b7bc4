//! `--track-renames`: files of the destination by what identifies them, so that one which has another name or
//! place at the source is made of itself.

use std::collections::HashMap;

use super::directory::{Neighbour, files_of};
use crate::view::View;
use fobs_filter::path;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Most names of the destination that are looked at; what lies behind them is sent.
const NAMES_MAX: usize = 1_000_000;
/// Most directories that are known and not looked at.
const DIRECTORIES_MAX: usize = 100_000;
/// Most files of one size and time that are kept.
const ALIKE_MAX: usize = 16;
/// What a file takes beside its path, bytes.
const FILE_COST: usize = 160;

/// Files of which a delta can be made, by size and time.
#[derive(Debug)]
pub(super) struct Moved {
    files: HashMap<(u64, i64), Vec<Vec<u8>>>,
    kept: Charge,
}

impl Moved {
    /// Looks at all of the destination, or at as much as the session may keep of it.
    pub(super) fn look(view: &mut View, budget: &MemoryBudget, stop: &dyn Fn() -> bool) -> Moved {
        let mut moved = Moved { files: HashMap::new(), kept: budget.charge(Keeps::Pieces) };
        // A transfer of one file gives it a name of the destination, and no other is its.
        if view.place(b"a").as_ref() == b"a" {
            moved.walk(view, stop);
        }
        moved
    }

    fn walk(&mut self, view: &mut View, stop: &dyn Fn() -> bool) {
        let (mut directories, mut names) = (vec![Vec::new()], 0);
        while let Some(directory) = directories.pop() {
            if stop() {
                return;
            }
            let Some(found) = files_of(view, &directory, NAMES_MAX - names) else { continue };
            names += found.count;
            for name in found.directories {
                if directories.len() < DIRECTORIES_MAX {
                    directories.push(path::join(&directory, &name));
                }
            }
            for Neighbour { name, size, mtime_s } in found.files {
                let alike = self.files.entry((size, mtime_s)).or_default();
                if alike.len() < ALIKE_MAX {
                    let file = path::join(&directory, &name);
                    if self.kept.grow(file.len() + FILE_COST).is_err() {
                        return;
                    }
                    alike.push(file);
                }
            }
        }
    }

    /// The path of a file of this size and time, one of the same name if there is one.
    pub(super) fn of(&self, wanted: &[u8], (size, mtime_s): (u64, i64)) -> Option<&[u8]> {
        let alike = self.files.get(&(size, mtime_s))?;
        let name = path::split(wanted).1;
        let same = alike.iter().find(|file| path::split(file).1 == name);
        same.or(alike.first()).map(Vec::as_slice)
    }
}
