//! Pieces of a basis at the sender, and where in it each is.

use std::collections::{HashMap, VecDeque};

use super::form::Cutting;
use super::names::PieceName;

/// What a piece takes in memory, bytes: its entry and its place in a table that is half full.
pub(super) const PIECE_MEMORY: usize = size_of::<Entry>() + 2 * (size_of::<(PieceName, u64)>() + 1);

/// Pieces that follow each other.
#[derive(Debug)]
pub(super) struct PieceTable {
    entries: VecDeque<Entry>,
    /// Pieces that are forgotten.
    forgotten: u64,
    /// The number of the first piece of a name.
    by_name: HashMap<PieceName, u64>,
    end: u64,
    cutting: Cutting,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    len: u32,
    name: PieceName,
}

impl PieceTable {
    /// Of a basis from `at` on.
    pub(super) fn from(at: u64, cutting: Cutting) -> PieceTable {
        let (entries, by_name) = (VecDeque::new(), HashMap::new());
        PieceTable { entries, forgotten: 0, by_name, end: at, cutting }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Where in the basis the next piece begins.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn push(&mut self, len: u32, name: PieceName) {
        let number = self.forgotten + self.entries.len() as u64;
        self.entries.push_back(Entry { at: self.end, len, name });
        if self.cutting == Cutting::ByContent {
            self.by_name.entry(name).or_insert(number);
        }
        self.end += u64::from(len);
    }

    /// The lengths and names of all, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u32, PieceName)> {
        self.entries.iter().map(|entry| (entry.len, entry.name))
    }

    /// Goes on behind what is not kept.
    pub(super) fn skip(&mut self, len: u32) {
        self.end += u64::from(len);
    }

    /// Forgets the first piece, if it begins before a place in the basis.
    pub(super) fn forget_first(&mut self, before: u64) -> bool {
        let Some(first) = self.entries.front().filter(|first| first.at < before) else { return false };
        if self.by_name.get(&first.name) == Some(&self.forgotten) {
            self.by_name.remove(&first.name);
        }
        self.entries.pop_front();
        self.forgotten += 1;
        true
    }

    /// The piece that begins at a place: its length and its name, as listed.
    pub(super) fn at(&self, place: u64) -> Option<(u32, PieceName)> {
        let number = self.entries.binary_search_by_key(&place, |entry| entry.at).ok()?;
        self.entries.get(number).map(|entry| (entry.len, entry.name))
    }

    /// Where a piece is: at `expected`, if it is there too. In place it is nowhere else, and as long as it
    /// is: the last one of the basis is not listed as shorter.
    pub(super) fn find(&self, name: PieceName, len: u32, expected: u64) -> Option<u64> {
        let is_in_place = self.cutting == Cutting::InPlace;
        let is_it = |entry: &&Entry| entry.name == name && (is_in_place || entry.len == len);
        let there = self.entries.binary_search_by_key(&expected, |entry| entry.at).ok();
        if let Some(entry) = there.and_then(|at| self.entries.get(at)).filter(is_it) {
            return Some(entry.at);
        }
        let number = self.by_name.get(&name)?.checked_sub(self.forgotten)?;
        self.entries.get(usize::try_from(number).ok()?).filter(is_it).map(|entry| entry.at)
    }
}
