//! Finds in the file that is sent what the receiver has of it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::lists::{Coverage, Lists};
use super::names::NameKey;
use super::patch::PatchBuilder;
use super::pays::{Passed, Pays, Way};
use super::pieces::Pieces;
use crate::chunk::CHUNK_DATA_MAX;
use crate::tree_hash::GROUP;

/// How much of the basis must be listed ahead of the place that is sent, bytes: what moved towards the front
/// by more is sent once more.
const AHEAD: u64 = 64 << 20;
/// A file is sent as it is from here on, bytes, if nothing was found before.
const HOPE: u64 = 64 << 20;
/// How often one who waits for a list looks whether it is still of use.
const LOOK: Duration = Duration::from_millis(10);

/// Looks for the pieces of one file.
pub(crate) struct Matcher {
    row: u64,
    key: NameKey,
    lists: Lists,
    pays: Pays,
    /// None before the list has begun, and once nothing more is looked for.
    pieces: Option<Pieces>,
    /// The piece that was looked at last, as far as it is not used.
    open: Option<Open>,
    /// Where the next piece is in the basis if nothing changes.
    expected: Option<u64>,
    looked_at: u64,
    found: u64,
    over: bool,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    at: u64,
    end: u64,
    /// Where its beginning is in the basis.
    from: Option<u64>,
}

impl Matcher {
    /// For the file of a row.
    pub(crate) fn new(row: u64, (key, lists, pays): (NameKey, Lists, Pays)) -> Matcher {
        Matcher {
            row,
            key,
            lists,
            pays,
            pieces: None,
            open: None,
            expected: None,
            looked_at: 0,
            found: 0,
            over: false,
        }
    }

    /// How much is listed for a chunk's data that begins at `from` in the file; waits until `end`, if given.
    pub(crate) fn coverage(&self, from: u64, end: Option<Instant>) -> Coverage {
        let enough = from.saturating_add(CHUNK_DATA_MAX as u64 + AHEAD);
        loop {
            let now = Instant::now();
            let is_enough = match (self.way(now), self.lists.coverage(self.row)) {
                (_, Coverage::Broken) => return Coverage::Broken,
                (Way::Trial(room), _) => room >= GROUP,
                (Way::Whole, _) | (Way::Delta, Coverage::Complete) => true,
                (Way::Delta, Coverage::Until(covered)) => covered >= enough,
            };
            match end {
                _ if is_enough => return Coverage::Complete,
                Some(end) if end > now => self.lists.nap(end.min(now + LOOK)),
                _ => return Coverage::Until(0),
            }
        }
    }

    /// How much of `most` bytes is to be read at once.
    pub(crate) fn room(&self, most: usize) -> usize {
        match self.way(Instant::now()) {
            Way::Trial(room) => usize::try_from(room.max(GROUP)).unwrap_or(most).min(most),
            Way::Delta | Way::Whole => most,
        }
    }

    /// Time that reading and hashing took.
    pub(crate) fn was_read(&self, bytes: u64, time: Duration) {
        self.pays.was_read(bytes, time);
    }

    fn way(&self, now: Instant) -> Way {
        if self.over {
            return Way::Whole;
        }
        if let Some(listed) = self.lists.listed(self.row) {
            self.pays.was_listed(listed, Passed::No);
        }
        self.pays.way(now)
    }

    /// Says what `len` bytes of `file` from `at` on are made of, which are the next of a chunk's data.
    pub(crate) fn cover(&mut self, file: impl AsFd, at: u64, len: usize, to: &mut PatchBuilder) {
        match self.way(Instant::now()) {
            Way::Delta => to.looks(),
            Way::Trial(_) => {
                self.pays.tried(len as u64);
                return to.tried(len);
            }
            Way::Whole => {
                self.give_up();
                return to.new_bytes(len);
            }
        }
        let (mut at, end) = (at, at + len as u64);
        while at < end {
            let part = match self.part(&file, at) {
                Some(part) if part.end > at => part,
                // Nothing more is looked for.
                _ => Open { at, end, from: None },
            };
            let until = part.end.min(end);
            // At most a chunk's data.
            let more = (until - at) as u32;
            match part.from {
                Some(from) => to.copy(self.row, from + (at - part.at), more),
                None => to.new_bytes(more as usize),
            }
            at = until;
        }
    }

    /// The piece that holds the byte at `at`.
    fn part(&mut self, file: impl AsFd, at: u64) -> Option<Open> {
        if let Some(open) = self.open.filter(|open| (open.at..open.end).contains(&at)) {
            return Some(open);
        }
        self.open = None;
        if self.over || self.found == 0 && self.looked_at >= HOPE {
            self.give_up();
            return None;
        }
        let began = Instant::now();
        if self.pieces.is_none() {
            self.pieces = Some(Pieces::new(self.lists.average(self.row)?));
        }
        let pieces = self.pieces.as_mut()?;
        if pieces.at() != at {
            // A hole, or a file that goes on: the cuts are found again after some pieces.
            pieces.seek(at);
            self.expected = None;
        }
        let (at, name, len) = match pieces.next(file) {
            Ok(Some((at, piece))) => (at, self.key.name(piece), piece.len()),
            // The file ended early: the reader says so.
            Ok(None) | Err(_) => {
                self.give_up();
                return None;
            }
        };
        let expected = self.expected.unwrap_or(at);
        // No piece is longer than 256 KiB.
        let from = self.lists.find(self.row, (&name, len as u32), expected, at);
        self.looked_at += len as u64;
        self.pays.looked_at(len as u64, from.is_some(), began.elapsed());
        if from.is_some() {
            self.found += len as u64;
        }
        // A changed piece mostly has the length of the one that was there.
        self.expected = from.or(self.expected).map(|from| from + len as u64);
        self.open = Some(Open { at, end: at + len as u64, from });
        self.open
    }

    fn give_up(&mut self) {
        if !self.over {
            self.over = true;
            self.pieces = None;
            self.pass();
        }
    }
}

impl Matcher {
    fn pass(&self) {
        if let Some(listed) = self.lists.listed(self.row) {
            self.pays.was_listed(listed, Passed::Yes);
        }
        self.lists.pass(self.row);
    }
}

impl Drop for Matcher {
    fn drop(&mut self) {
        self.pass();
    }
}
