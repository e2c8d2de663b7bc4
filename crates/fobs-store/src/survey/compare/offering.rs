//! Which file is offered as what a delta is made of (protocol 7.9): the one that has the name, one of a
//! directory of `--link-dest`, with `--track-renames` one of the same size and time, or, with `--fuzzy`, one
//! beside it that seems to be its earlier version.

use std::os::fd::OwnedFd;

use super::Compare;
use super::directory::{Neighbour, files_of};
use super::moved::Moved;
use crate::delta::{Basis, FILE_MIN, Held, KEPT_FILE_MAX, Readable, basis_in_place, is_worth_listing};
use crate::survey::choice::{Changes, Decision};
use crate::survey::row::{Row, RowKind};
use crate::view::View;
use fobs_filter::path;
use fobs_model::deltas::Origin;
use fobs_model::options::sync::Renames;

/// Most names of a directory that are compared: with more, none is similar.
const NAMES_MAX: usize = 1000;
/// Most edits between two names that are similar. Those of the part behind the last dot count as much more,
/// as rsync counts.
const EDITS_MAX: usize = 25;
const SUFFIX_WEIGHT: usize = 10;
/// Smallest file that is looked for under other names, bytes: what a row of it costs is about as much.
pub(super) const MOVED_MIN: u64 = 512;
/// Most names of the destination that are looked at for such files; what lies behind them is sent.
pub(super) const MOVED_NAMES_MAX: usize = 1_000_000;
/// Likewise where the user did not ask for it: a deletion looks at all of them too, and this many take less
/// than a second. And what new files have before it is begun, bytes.
pub(super) const CHEAP_NAMES_MAX: usize = 100_000;
pub(super) const CHEAP_FROM: u64 = 1 << 20;

/// The files of the directory that was looked at last.
#[derive(Debug)]
pub(super) struct Neighbours {
    directory: Vec<u8>,
    files: Vec<Neighbour>,
}

impl Compare {
    /// Offers a basis for what is to come, where there is one; what the sender is told of it.
    pub(super) fn offered(
        &mut self,
        row: &Row,
        decision: &Decision,
        stop: &dyn Fn() -> bool,
    ) -> Option<Changes> {
        // What is continued in its place would be its own basis.
        let is_sent = matches!(decision, Decision::Send | Decision::Resume { check: false, .. });
        if is_sent && self.offers.is_some() {
            self.note_replaced(row);
        }
        if !is_sent || row.kind != RowKind::File || row.identity.size < MOVED_MIN || self.offers.is_none() {
            return None;
        }
        let basis = self.basis_of(row, stop)?;
        let told = match basis.origin {
            Origin::Moved | Origin::Source => Changes::SUPPOSED,
            Origin::SameName | Origin::Unfinished | Origin::Elsewhere | Origin::Similar => Changes::LISTED,
        };
        let offers = self.offers.as_ref()?;
        offers.offer(self.rows, &row.path, (basis, row.identity.size), stop).then_some(told)
    }

    fn basis_of(&mut self, row: &Row, stop: &dyn Fn() -> bool) -> Option<Basis> {
        let of_source = (row.identity.size, row.meta.mtime_s);
        if self.here.file(&row.path, of_source).is_some() {
            let (size, mtime_s) = of_source;
            return Some(Basis { held: Held::Source(mtime_s), size, origin: Origin::Source });
        }
        let view = self.view.as_mut()?;
        let size = row.identity.size;
        let place = view.place(&row.path).into_owned();
        // What an earlier run of rsync or of this program left of it comes first, as in rsync.
        let partial = self.target.as_ref().and_then(|target| target.partial_of(&row.path));
        if let Some(part) = partial.map(|part| view.place(&part).into_owned())
            && let Some(left) = worth(view, &part, size)
        {
            return Some(open(view, &part, left, Origin::Unfinished));
        }
        let together = self.target.as_mut().and_then(|target| target.partial_elsewhere(&row.path, size));
        if let Some(left) = together {
            return Some(held(left, Origin::Unfinished, |(file, _)| Readable::shared_with_others(file)));
        }
        if let Some(own) = worth(view, &place, size) {
            if let Some(moved) = self.came_over(row, &place, stop) {
                return Some(moved);
            }
            return Some(open(self.view.as_mut()?, &place, own, Origin::SameName));
        }
        let unfinished = self.history.as_ref().and_then(|history| history.unfinished(&place));
        if let Some(part) = unfinished
            && let Some(left) = worth(view, &part, size)
        {
            return Some(open(view, &part, left, Origin::Unfinished));
        }
        let target = self.target.as_mut()?;
        if let Some(found) = target.basis_elsewhere(&row.path, size) {
            return Some(held(found, Origin::Elsewhere, |(file, _)| Readable::shared_with_others(file)));
        }
        let renames = target.renames();
        self.new_bytes = self.new_bytes.saturating_add(row.identity.size);
        if renames == Renames::All || renames == Renames::WhereCheap && self.new_bytes > CHEAP_FROM {
            let most = if renames == Renames::All { MOVED_NAMES_MAX } else { CHEAP_NAMES_MAX };
            let moved =
                self.moved.get_or_insert_with(|| Moved::look(view, (most, MOVED_MIN), &self.budget, stop));
            let found = moved.of(view, row).filter(|found| *found != place);
            if let Some(moved) = found.and_then(|found| self.moved_from(row, found)) {
                return Some(moved);
            }
        }
        if !self.target.as_ref()?.is_fuzzy() {
            return None;
        }
        let view = self.view.as_mut()?;
        let (directory, name) = path::split(&place);
        if self.neighbours.as_ref().is_none_or(|seen| seen.directory != directory) {
            self.neighbours = Some(Neighbours::of(view, directory));
        }
        let neighbours = self.neighbours.as_ref()?;
        let similar = similar((name, row.identity.size, row.meta.mtime_s), &neighbours.files)?;
        let parent = path::split(&row.path).0;
        let beside = path::join(parent, &similar.name);
        // The one source that gets another name here has no directory within the transfer.
        let place = path::join(directory, &similar.name);
        let similar = (view.place(&beside).as_ref() == place).then(|| worth(view, &place, size));
        Some(open(view, &place, similar??, Origin::Similar))
    }
}

impl Neighbours {
    /// The files of a directory of which deltas are made; none where it cannot be read, or has too many.
    fn of(view: &mut View, directory: &[u8]) -> Neighbours {
        let files =
            files_of(view, directory, NAMES_MAX, FILE_MIN).map(|found| found.files).unwrap_or_default();
        Neighbours { directory: directory.to_vec(), files }
    }
}

/// The file at a place, if its list is short beside the file of `size` bytes that is to come.
fn worth(view: &mut View, place: &[u8], size: u64) -> Option<(OwnedFd, u64)> {
    basis_in_place(view, place, FILE_MIN).filter(|(_, basis)| is_worth_listing(*basis, size))
}

pub(super) fn open(view: &mut View, place: &[u8], found: (OwnedFd, u64), origin: Origin) -> Basis {
    held(found, origin, |found| Readable::of(view, place, found))
}

/// A short one is read now; a longer one stays open, as `open` says.
fn held(
    (file, size): (OwnedFd, u64),
    origin: Origin,
    open: impl FnOnce((OwnedFd, u64)) -> Readable,
) -> Basis {
    let kept = if size < KEPT_FILE_MAX { Readable::kept(&file, size).ok() } else { None };
    let readable = kept.unwrap_or_else(|| open((file, size)));
    Basis { held: Held::Open(readable), size, origin }
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
