//! `--track-renames`: files of the destination by what identifies them, so that one which has another name or
//! place at the source is made of itself.

use std::collections::{BTreeMap, BTreeSet};

use super::directory::{Neighbour, files_of};
use crate::delta::basis_in_place;
use crate::survey::lister::checksum;
use crate::survey::row::Row;
use crate::view::View;
use fobs_filter::path;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Most directories that are known and not looked at.
const DIRECTORIES_MAX: usize = 100_000;
/// Most files whose content is read for one row.
const READ_MAX: usize = 64;
/// What a file takes beside its path, bytes.
const FILE_COST: usize = 160;
/// Likewise of one that new ones are made of.
const SOURCE_COST: usize = 64;

/// A file by what is compared, and then by where it is: its directory is the last.
type Key = (u64, i64, Vec<u8>, Vec<u8>);

/// Files of the destination, by size, time and name, with the content of those that were read; none of those
/// that cannot be.
#[derive(Debug)]
pub(super) struct Moved {
    files: BTreeMap<Key, Option<Option<[u8; 32]>>>,
    /// The paths of those of which new ones are made.
    sources: BTreeSet<Vec<u8>>,
    /// Most names that are looked at, and the least size that counts.
    names_max: usize,
    least: u64,
    kept: Charge,
}

impl Moved {
    /// Looks at all of the destination, up to `names_max` names and what the session may keep of it.
    pub(super) fn look(
        view: &mut View,
        (names_max, least): (usize, u64),
        budget: &MemoryBudget,
        stop: &dyn Fn() -> bool,
    ) -> Moved {
        let kept = budget.charge(Keeps::Pieces);
        let mut moved = Moved { files: BTreeMap::new(), sources: BTreeSet::new(), names_max, least, kept };
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
                if self.kept.grow(directory.len() + name.len() + FILE_COST).is_err() {
                    return;
                }
                self.files.insert((size, mtime_s, name, directory.clone()), None);
            }
        }
    }

    /// The paths of the files of which new ones are made.
    pub(super) fn sources(&self) -> &BTreeSet<Vec<u8>> {
        &self.sources
    }

    /// The path of the file that a row is supposed to be, which is one of the sources from then on.
    pub(super) fn of(&mut self, view: &mut View, row: &Row) -> Option<Vec<u8>> {
        let place = self.find(view, row)?;
        if !self.sources.contains(&place) {
            self.kept.grow(place.len() + SOURCE_COST).ok()?;
            self.sources.insert(place.clone());
        }
        Some(place)
    }

    /// Of the same size and time, one of the same name if
    /// there is one, or, where contents are compared, of the same content.
    fn find(&mut self, view: &mut View, row: &Row) -> Option<Vec<u8>> {
        let (size, time, name) = (row.identity.size, row.meta.mtime_s, path::split(&row.path).1);
        let place = |(_, _, name, directory): &Key| path::join(directory, name);
        if let Some(expected) = row.checksum {
            let all = self.files.range_mut((size, i64::MIN, Vec::new(), Vec::new())..);
            let mut left = READ_MAX;
            for (key, content) in all.take_while(|(key, _)| key.0 == size) {
                if content.is_none() && left > 0 {
                    left -= 1;
                    *content = Some(content_of(view, &place(key)));
                }
                if *content == Some(Some(expected)) {
                    return Some(place(key));
                }
            }
            return None;
        }
        let from = |name: &[u8]| {
            let (key, _) = self.files.range((size, time, name.to_vec(), Vec::new())..).next()?;
            ((key.0, key.1) == (size, time)).then_some(key)
        };
        from(name).filter(|key| key.2 == name).or_else(|| from(b"")).map(place)
    }
}

/// The hash of a file's content; none where it is none to make another of, or cannot be read.
fn content_of(view: &mut View, place: &[u8]) -> Option<[u8; 32]> {
    let (file, _) = basis_in_place(view, place, 1)?;
    checksum(file, view.looked()).ok()
}
