//! `--track-renames`: files of the destination by what identifies them, so that one which has another name or
//! place at the source is made of itself.

use std::collections::HashMap;

use super::directory::{Neighbour, files_of};
use crate::delta::basis_in_place;
use crate::survey::lister::checksum;
use crate::survey::row::Row;
use crate::view::View;
use fobs_filter::path;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Most directories that are known and not looked at.
const DIRECTORIES_MAX: usize = 100_000;
/// Most files of one size that are kept.
const ALIKE_MAX: usize = 64;
/// What a file takes beside its path, bytes.
const FILE_COST: usize = 160;

/// Files of the destination, by their size.
#[derive(Debug)]
pub(super) struct Moved {
    files: HashMap<u64, Vec<(i64, Vec<u8>)>>,
    /// Most names that are looked at, and the least size that counts.
    names_max: usize,
    least: u64,
    kept: Charge,
}

impl Moved {
    /// Looks at all of the destination, or at so many names, or at as much as the session may keep of it.
    pub(super) fn look(
        view: &mut View,
        (names_max, least): (usize, u64),
        budget: &MemoryBudget,
        stop: &dyn Fn() -> bool,
    ) -> Moved {
        let kept = budget.charge(Keeps::Pieces);
        let mut moved = Moved { files: HashMap::new(), names_max, least, kept };
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
            let Some(found) = files_of(view, &directory, self.names_max - names, self.least) else {
                continue;
            };
            names += found.count;
            for name in found.directories {
                if directories.len() < DIRECTORIES_MAX {
                    directories.push(path::join(&directory, &name));
                }
            }
            for Neighbour { name, size, mtime_s } in found.files {
                let alike = self.files.entry(size).or_default();
                if alike.len() < ALIKE_MAX {
                    let file = path::join(&directory, &name);
                    if self.kept.grow(file.len() + FILE_COST).is_err() {
                        return;
                    }
                    alike.push((mtime_s, file));
                }
            }
        }
    }

    /// The path of the file that a row is supposed to be: of the same size and time, one of the same name if
    /// there is one, or, where contents are compared, of the same content.
    pub(super) fn of(&self, view: &mut View, row: &Row) -> Option<Vec<u8>> {
        let alike = self.files.get(&row.identity.size)?;
        let name = path::split(&row.path).1;
        let is_same_name = |file: &[u8]| path::split(file).1 == name;
        if let Some(expected) = row.checksum {
            // At most so many are read.
            let mut found = alike.iter().filter(|(_, file)| content_of(view, file) == Some(expected));
            return found.next().map(|(_, file)| file.clone());
        }
        let of_time = || alike.iter().filter(|(mtime_s, _)| *mtime_s == row.meta.mtime_s);
        let same = of_time().find(|(_, file)| is_same_name(file));
        same.or_else(|| of_time().next()).map(|(_, file)| file.clone())
    }
}

/// The hash of a file's content; none where it is none to make another of, or cannot be read.
fn content_of(view: &mut View, place: &[u8]) -> Option<[u8; 32]> {
    let (file, _) = basis_in_place(view, place, 1)?;
    checksum(file, view.looked()).ok()
}
