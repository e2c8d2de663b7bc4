//! Which file is offered as what a delta is made of (protocol 7.9): the one that has the name, one of a
//! directory of `--link-dest`, with `--track-renames` one of the same size and time, or, with `--fuzzy`, one
//! beside it that seems to be its earlier version.

use std::os::fd::OwnedFd;

use super::Compare;
use super::directory::{Neighbour, files_of};
use super::moved::Moved;
use crate::delta::{FILE_MIN, Sizes, basis_at};
use crate::survey::choice::Decision;
use crate::survey::row::{Row, RowKind};
use crate::view::View;
use fobs_filter::path;

/// Most names of a directory that are compared: with more, none is similar.
const NAMES_MAX: usize = 1000;
/// Most edits between two names that are similar. Those of the part behind the last dot count as much more,
/// as rsync counts.
const EDITS_MAX: usize = 25;
const SUFFIX_WEIGHT: usize = 10;

/// The files of the directory that was looked at last.
#[derive(Debug)]
pub(super) struct Neighbours {
    directory: Vec<u8>,
    files: Vec<Neighbour>,
}

impl Compare {
    /// Offers a basis for what is to come, where there is one.
    pub(super) fn is_offered(&mut self, row: &Row, decision: &Decision, stop: &dyn Fn() -> bool) -> bool {
        // What is continued in its place would be its own basis.
        let is_sent = matches!(decision, Decision::Send | Decision::Resume { check: false, .. });
        if !is_sent || row.kind != RowKind::File || row.identity.size < FILE_MIN || self.offers.is_none() {
            return false;
        }
        let basis = self.basis_of(row, stop);
        let Some((offers, (file, basis))) = self.offers.as_ref().zip(basis) else { return false };
        let sizes = Sizes { basis, file: row.identity.size };
        offers.offer(self.rows, &row.path, (file, sizes), stop)
    }

    fn basis_of(&mut self, row: &Row, stop: &dyn Fn() -> bool) -> Option<(OwnedFd, u64)> {
        let view = self.view.as_mut()?;
        // What an earlier run of rsync or of this program left of it comes first, as in rsync.
        let partial = self.target.as_ref().and_then(|target| target.partial_of(&row.path));
        if let Some(partial) = partial.and_then(|path| basis_at(view, &path)) {
            return Some(partial);
        }
        let own = basis_at(view, &row.path);
        if own.is_some() {
            return own;
        }
        let target = self.target.as_mut()?;
        let other = target.basis_elsewhere(&row.path);
        if other.is_some() {
            return other;
        }
        if target.tracks_renames() {
            let moved = self.moved.get_or_insert_with(|| Moved::look(view, &self.budget, stop));
            let place = moved.of(&row.path, (row.identity.size, row.meta.mtime_s));
            let basis = place.and_then(|place| basis_at(view, place));
            if basis.is_some() {
                return basis;
            }
        }
        if !target.is_fuzzy() {
            return None;
        }
        let place = view.place(&row.path).into_owned();
        let (directory, name) = path::split(&place);
        if self.neighbours.as_ref().is_none_or(|seen| seen.directory != directory) {
            self.neighbours = Some(Neighbours::of(view, directory));
        }
        let neighbours = self.neighbours.as_ref()?;
        let similar = similar((name, row.identity.size, row.meta.mtime_s), &neighbours.files)?;
        let parent = path::split(&row.path).0;
        let beside = path::join(parent, &similar.name);
        // The one source that gets another name here has no directory within the transfer.
        (view.place(&beside).as_ref() == path::join(directory, &similar.name))
            .then(|| basis_at(view, &beside))?
    }
}

impl Neighbours {
    /// The files of a directory of which deltas are made; none where it cannot be read, or has too many.
    fn of(view: &mut View, directory: &[u8]) -> Neighbours {
        let files = files_of(view, directory, NAMES_MAX).map(|found| found.files).unwrap_or_default();
        Neighbours { directory: directory.to_vec(), files }
    }
}

/// The file that is most similar: one of the same size and time, else of the nearest name.
fn similar<'n>((name, size, mtime_s): (&[u8], u64, i64), files: &'n [Neighbour]) -> Option<&'n Neighbour> {
    let is_moved = |file: &&Neighbour| (file.size, file.mtime_s) == (size, mtime_s);
    let near = |file: &'n Neighbour| distance(name, &file.name).map(|distance| (distance, file));
    let moved = files.iter().find(is_moved);
    moved
        .or_else(|| files.iter().filter_map(near).min_by_key(|(distance, _)| *distance).map(|(_, file)| file))
}

/// How different two names are; `None`: too much.
fn distance(one: &[u8], other: &[u8]) -> Option<usize> {
    let suffix = |name: &[u8]| match name.iter().rposition(|&byte| byte == b'.') {
        None | Some(0) => Vec::new(),
        Some(dot) => name[dot..].to_vec(),
    };
    if one.len().abs_diff(other.len()) > EDITS_MAX {
        return None;
    }
    let distance = edits(one, other) + SUFFIX_WEIGHT * edits(&suffix(one), &suffix(other));
    (distance <= EDITS_MAX).then_some(distance)
}

/// Least bytes that are put in, taken out or replaced to make one of the other.
fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, byte) in one.iter().enumerate() {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (column, there) in other.iter().enumerate() {
            let replaced = before + usize::from(byte != there);
            before = row[column + 1];
            row[column + 1] = replaced.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, size: u64, mtime_s: i64) -> Neighbour {
        Neighbour { name: name.as_bytes().to_vec(), size, mtime_s }
    }

    #[test]
    fn edits_are_counted() {
        for (one, other, count) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ab", "ba", 2)] {
            assert_eq!(edits(one.as_bytes(), other.as_bytes()), count, "{one} {other}");
            assert_eq!(edits(other.as_bytes(), one.as_bytes()), count, "{other} {one}");
        }
    }

    #[test]
    fn the_earlier_version_is_found_by_time_or_name() {
        let files =
            [file("image-1.0.iso", 700, 1), file("image-1.0.iso.sum", 60, 1), file("notes.txt", 80, 9)];
        let found = |name: &str, size, mtime_s| {
            similar((name.as_bytes(), size, mtime_s), &files)
                .map(|file| String::from_utf8_lossy(&file.name).into_owned())
        };
        assert_eq!(found("image-1.1.iso", 701, 2).as_deref(), Some("image-1.0.iso"));
        assert_eq!(found("image-1.1.iso.sum", 61, 2).as_deref(), Some("image-1.0.iso.sum"));
        assert_eq!(found("anything at all", 80, 9).as_deref(), Some("notes.txt"), "it was renamed");
        assert_eq!(found("anything at all", 80, 8), None);
        assert_eq!(found("image-1.1.raw", 701, 2), None, "another kind of file");
    }
}
