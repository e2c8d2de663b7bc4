//! `--track-renames`: files of the destination by what identifies them, so that one which has another name or
//! place at the source is made of itself.

use std::cmp::Reverse;
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
/// Most files of one size, time and name of which the likeliest is chosen.
const ALIKE_MAX: usize = 1000;
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
    /// The directory that was last seen to have moved: its path now, and its path before.
    directory: Option<(Vec<u8>, Vec<u8>)>,
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
        let (files, sources, directory) = (BTreeMap::new(), BTreeSet::new(), None);
        let mut moved = Moved { files, sources, directory, names_max, least, kept };
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

    /// The directory of the file that a row is supposed to be, by size, time and name.
    pub(super) fn directory_of(&mut self, row: &Row) -> Option<Vec<u8>> {
        let (directory, name) = path::split(&row.path);
        self.of_name((row.identity.size, row.meta.mtime_s, name), directory)
    }

    /// Whether new files are made of what is in a directory.
    pub(super) fn makes_others(&self, directory: &[u8]) -> bool {
        let below = [directory, b"/"].concat();
        self.sources.range(below.clone()..).next().is_some_and(|first| first.starts_with(&below))
    }

    /// A directory has another name now, which what is in it has by itself.
    pub(super) fn forget(&mut self, directory: &[u8]) {
        let is_in = |found: &[u8]| found == directory || path::is_inside(found, directory);
        let Moved { files, kept, .. } = self;
        files.retain(|(_, _, name, found), _| {
            let stays = !is_in(found);
            if !stays {
                kept.shrink(found.len() + name.len() + FILE_COST);
            }
            stays
        });
        self.directory = None;
    }

    /// Of the same size and time, one of the same name if there is one, or, where contents are compared, of
    /// the same content.
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
        if let Some(alike) = self.of_name((size, time, name), path::split(&row.path).0) {
            return Some(path::join(&alike, name));
        }
        let (key, _) = self.files.range((size, time, Vec::new(), Vec::new())..).next()?;
        ((key.0, key.1) == (size, time)).then(|| place(key))
    }

    /// The directory of the file of this size, time and name that came to `directory`: where that was
    /// before, as other files of it say, else the one whose path ends most alike. So a tree of a thousand
    /// files that all have one name, size and time is found as it was.
    fn of_name(&mut self, (size, time, name): (u64, i64, &[u8]), directory: &[u8]) -> Option<Vec<u8>> {
        let key = |directory: Vec<u8>| (size, time, name.to_vec(), directory);
        if let Some((now, before)) = &self.directory
            && let Some(below) = below(directory, now)
        {
            let expected = key(path::join(before, below));
            if self.files.contains_key(&expected) {
                return Some(expected.3);
            }
        }
        let alike = self.files.range(key(Vec::new())..).map(|(key, _)| key);
        let alike = alike.take_while(|key| (key.0, key.1, &*key.2) == (size, time, name)).take(ALIKE_MAX);
        let found =
            alike.map(|key| &key.3).min_by_key(|found| Reverse(common_end(found, directory)))?.clone();
        let without = |path: &[u8]| path[..path.len().saturating_sub(common_end(&found, directory))].to_vec();
        self.directory = Some((without(directory), without(&found)));
        Some(found)
    }
}

/// The rest of a path that is in a directory, or the directory itself.
fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    match path.strip_prefix(directory)? {
        b"" => Some(b""),
        rest if directory.is_empty() => Some(rest),
        rest => rest.strip_prefix(b"/"),
    }
}

/// Bytes of the names that end both paths, with the slashes before them.
fn common_end(one: &[u8], other: &[u8]) -> usize {
    let names = one.rsplit(|byte| *byte == b'/').zip(other.rsplit(|byte| *byte == b'/'));
    let equal = names.take_while(|(one, other)| one == other);
    equal.map(|(name, _)| name.len() + 1).sum()
}

/// The hash of a file's content; none where it is none to make another of, or cannot be read.
fn content_of(view: &mut View, place: &[u8]) -> Option<[u8; 32]> {
    let (file, _) = basis_in_place(view, place, 1)?;
    checksum(file, view.looked()).ok()
}
