//! What a sink stores beside files: hard links, devices, holes.

use std::collections::HashSet;
use std::io::Write;

use blake3::hazmat::ChainingValue;

use super::moving::stays;
use super::{Sink, SinkEvent, Storing, Target, mixed_up, not_agreed, settle, stream_failed};
use crate::attributes::{Attributes, SymbolicLinks, write_zeros};
use crate::clearance::Clearance;
use crate::record::Record;
use crate::tree::{Attempt, Trouble, protocol};
use crate::tree_hash::Tail;
use fobs_filter::path::show;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Result;
use fobs_model::options::Terms;

/// Most paths in [`Linkable`]; past it no hard link is made.
const PATHS_MAX: usize = 4 << 20;

/// The names that a hard link may lead to, as hashes of their paths.
#[derive(Debug)]
pub(super) struct Linkable {
    paths: HashSet<u64>,
    are: Paths,
    /// More than are remembered.
    is_full: bool,
    kept: Charge,
}

/// What the paths are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paths {
    /// Those that are not stored: what has their name is from before. A link may lead to all others.
    Unstored,
    /// Those that this session stored; a link may lead to these, and to those that the journal knows: what is
    /// from before is nothing for the sender.
    Stored,
}

impl Linkable {
    /// Without a survey.
    pub(super) fn new(budget: &MemoryBudget) -> Linkable {
        Linkable::of(Paths::Stored, budget)
    }

    /// Under a survey, which clears a link only to what was listed before.
    pub(super) fn surveyed(terms: Terms, budget: &MemoryBudget) -> Linkable {
        let are = if terms == Terms::default() { Paths::Unstored } else { Paths::Stored };
        Linkable::of(are, budget)
    }

    fn of(are: Paths, budget: &MemoryBudget) -> Linkable {
        Linkable { paths: HashSet::new(), are, is_full: false, kept: budget.charge(Keeps::Linkable) }
    }

    /// This path is stored.
    pub(super) fn stored(&mut self, path: &[u8]) {
        if self.are == Paths::Stored {
            self.add(path);
        }
    }

    /// This path is not.
    fn forget(&mut self, path: &[u8]) {
        match self.are {
            Paths::Unstored => self.add(path),
            Paths::Stored => drop(self.paths.remove(&Linkable::key(path))),
        }
    }

    fn add(&mut self, path: &[u8]) {
        let Linkable { paths, is_full, kept, .. } = self;
        *is_full |= paths.len() >= PATHS_MAX || kept.insert(paths, Linkable::key(path)).is_err();
    }

    /// Whether a link may lead there; `from_before` says whether the journal knows the path.
    fn may_be(&self, path: &[u8], from_before: impl FnOnce() -> bool) -> bool {
        let is_known = self.paths.contains(&Linkable::key(path));
        match self.are {
            Paths::Unstored => !self.is_full && !is_known,
            Paths::Stored => is_known || from_before(),
        }
    }

    fn key(path: &[u8]) -> u64 {
        blake3::hash(path).as_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes)
    }
}

impl Sink {
    /// The attributes of the entry that this record begins.
    pub(super) fn attributes_of(&mut self, record: &Record<'_>) -> Result<Option<Attributes>> {
        let may_have_them = match record {
            // It comes between, and the entry follows.
            Record::Identity { .. } => return Ok(None),
            Record::File { .. }
            | Record::Resume { .. }
            | Record::DirectoryEnd { .. }
            | Record::Symlink { .. }
            | Record::Special { .. } => true,
            _ => false,
        };
        match self.attributes.take() {
            Some(_) if !may_have_them => Err(protocol("attributes come before something that has none")),
            attributes => Ok(attributes),
        }
    }

    /// Attributes of the next entry.
    pub(super) fn expect_attributes(&mut self, attributes: &[u8]) -> Result<()> {
        if !self.agreed.has_attributes() {
            return Err(not_agreed("attributes"));
        }
        self.attributes = Some(Attributes::decode(attributes).map_err(protocol)?);
        Ok(())
    }

    /// What the file that has begun is to have.
    pub(super) fn dress_file(&mut self, attributes: Option<Attributes>) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.attributes = attributes;
        }
        Ok(())
    }

    /// Stores what is complete in one record.
    pub(super) fn one_record(
        &mut self,
        record: Record<'_>,
        cleared: Clearance<'_>,
        attributes: Option<&Attributes>,
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<()> {
        match record {
            Record::Symlink { .. } if self.agreed.links == SymbolicLinks::LeftOut => {
                return Err(not_agreed("a symbolic link"));
            }
            Record::Symlink { path, target, meta } => {
                self.root.symlink(path, target);
                let target = &*self.agreed.target_stored(target);
                let made =
                    self.target.tree().and_then(|tree| tree.symlink(cleared, target, meta, attributes));
                self.others.links += self.made(made, path, events)?;
            }
            Record::Hardlink { .. } if !self.agreed.hard_links => return Err(not_agreed("a hard link")),
            Record::Hardlink { path, target } => {
                self.link_first(target, events)?;
                self.root.hard_link(path, target);
                let from_before = || self.target.tree().is_ok_and(|tree| tree.has_stored(target));
                let made = if !self.linkable.may_be(target, from_before) {
                    Err(Trouble::Path(format!(
                        "cannot make the hard link '{}': the file's first name '{}' was not stored; copy it again",
                        show(path),
                        show(target)
                    )))
                } else {
                    self.target.tree().and_then(|tree| tree.hard_link(cleared, target))
                };
                self.others.links += self.made(made, path, events)?;
            }
            Record::Special { kind, .. } if !self.agreed.keeps(kind) => {
                return Err(not_agreed("a device, fifo or socket"));
            }
            Record::Special { path, kind, device, meta } => {
                self.root.special(path, kind as u8, device);
                let made =
                    self.target.tree().and_then(|tree| tree.special(cleared, kind, device, meta, attributes));
                self.others.devices += self.made(made, path, events)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// How an attempt to make one entry ended: how many were made.
    pub(super) fn made(
        &mut self,
        made: Attempt<()>,
        path: &[u8],
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<u64> {
        let made = settle(made, path, events)?;
        match made {
            Some(()) => self.stored(path),
            None => self.forget(path),
        }
        Ok(made.iter().len() as u64)
    }

    /// A link may lead to this path.
    pub(super) fn stored(&mut self, path: &[u8]) {
        if self.agreed.hard_links {
            self.linkable.stored(path);
        }
    }

    /// No link may lead to this path.
    pub(super) fn forget(&mut self, path: &[u8]) {
        if self.agreed.hard_links {
            self.linkable.forget(path);
        }
    }

    /// Zeros of the current file, which are not in the chunk.
    pub(super) fn hole(
        &mut self,
        offset: u64,
        len: u64,
        tail: Tail,
        values: &mut impl Iterator<Item = ChainingValue>,
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<()> {
        if !self.agreed.sparse {
            return Err(not_agreed("a hole"));
        }
        let Some(file) = &mut self.file else { return Err(protocol("a hole comes without a file")) };
        if offset != file.tree.len() {
            return Err(protocol("a file's data comes out of order"));
        }
        file.tree.extend(len, tail, values).ok_or_else(mixed_up)?;
        let stays = match &self.target {
            Target::Tree(tree) => stays(file, tree),
            _ => Ok(()),
        };
        let written = match (&file.storing, &mut self.target) {
            _ if stays.is_err() => stays,
            (Storing::File(placing), Target::Tree(tree)) => {
                placing.file.skip(offset, len).map_err(|errno| tree.trouble("write", &file.path, errno))
            }
            (Storing::Stream, Target::Stream(stream)) => {
                write_zeros(len, |zeros| stream.writer.write_all(zeros))
                    .map_err(|error| stream_failed(&error).into())
            }
            _ => Ok(()),
        };
        if settle(written, &file.path, events)?.is_none() {
            let failed = std::mem::replace(&mut file.storing, Storing::Discarded);
            self.target.discard(failed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_links_may_not_lead_to_are_kept_within_the_budget() {
        let budget = MemoryBudget::of(1 << 10);
        let mut linkable = Linkable::surveyed(Terms::default(), &budget);
        linkable.forget(b"gone");
        assert!(linkable.may_be(b"there", || false) && !linkable.may_be(b"gone", || true));
        (0..1000).for_each(|at| linkable.forget(format!("f{at}").as_bytes()));
        assert!(!linkable.may_be(b"there", || true), "it may be one that was forgotten");
        assert!(budget.used() <= 1 << 10);
    }
}
