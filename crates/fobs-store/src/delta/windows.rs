//! The pieces into which its content cuts a basis that was listed in place, once the file is found to have
//! moved: asked for in windows, ahead of the place that is looked at.

use std::collections::VecDeque;

use super::asks::FineAsk;
use super::cut::Average;
use super::form::{Cutting, ListForm};
use super::means::Means;
use super::names::{NameLen, PieceName};
use super::table::{PIECE_MEMORY, PieceTable};
use fobs_model::budget::Charge;

/// Pieces of a window: of an image's 64 KiB pieces 32 MiB, so that the first is there soon.
const WINDOW_PIECES: u64 = 512;
/// Most windows without an answer: of those 128 MiB a round trip.
const ASKED_MAX: usize = 4;
/// How far ahead of the place that is looked at they reach, bytes: as far as a list does.
const AHEAD: u64 = 64 << 20;
/// Most pieces that are kept, [`PIECE_MEMORY`] bytes each; the first are forgotten.
const PIECES_MAX: usize = 320 << 10;
/// How much before the place that is looked at first they begin, bytes.
const SLACK: u64 = 64 << 10;

/// See the file's head.
pub(super) struct Windows {
    average: Average,
    /// Of the basis, from the first window on.
    table: PieceTable,
    /// As the first answer is written.
    form: Option<ListForm>,
    asked: VecDeque<FineAsk>,
    /// Where the next question begins.
    next: u64,
    /// No more is listed.
    is_complete: bool,
    kept: Charge,
}

impl Windows {
    /// Of a basis, for what comes from a place on.
    pub(super) fn from(means: &Means, average: Average, place: u64) -> Windows {
        let next = place.saturating_sub(SLACK);
        Windows {
            average,
            table: PieceTable::from(next, Cutting::ByContent),
            form: None,
            asked: VecDeque::new(),
            next,
            is_complete: false,
            kept: means.lists.charge(),
        }
    }

    /// Asks for what is ahead of a place of the basis.
    pub(super) fn reach(&mut self, means: &Means, place: u64) {
        let len = WINDOW_PIECES << self.average.log();
        while !self.is_complete
            && self.asked.len() < ASKED_MAX
            && self.next < place.saturating_add(AHEAD + len)
            && means.lists.may_ask()
        {
            let (row, from) = (means.row, self.next);
            let ask = FineAsk { row, from, len, average: self.average, cutting: Cutting::ByContent };
            self.asked.push_back(ask);
            self.next = from.saturating_add(len);
            means.lists.ask(ask);
        }
        while self.table.len() > PIECES_MAX && self.table.forget_first(place) {
            self.kept.shrink(PIECE_MEMORY);
        }
    }

    /// Takes the answers that are there; whether there was one.
    pub(super) fn hear(&mut self, means: &Means) -> bool {
        let mut heard = false;
        while let Some(list) = self.asked.front().and_then(|ask| means.lists.answered(ask)) {
            let Some(ask) = self.asked.pop_front() else { return heard };
            heard = true;
            let form = *self.form.get_or_insert(list.form);
            for (len, name) in list.table.pieces() {
                // Behind the end, and where there is no room, nothing more is found.
                let goes_on = !self.is_complete && form == list.form && self.table.len() < 2 * PIECES_MAX;
                if !goes_on || self.kept.grow(PIECE_MEMORY).is_err() {
                    self.is_complete = true;
                    break;
                }
                self.table.push(len, name);
            }
            self.is_complete |= list.table.end() - ask.from < ask.len;
        }
        heard
    }

    /// Up to where the basis is known, bytes.
    pub(super) fn listed(&self) -> u64 {
        if self.is_complete { u64::MAX } else { self.table.end() }
    }

    /// The piece that begins at a place: its length and its name, as much as is listed.
    pub(super) fn piece_at(&self, place: u64) -> Option<(u32, PieceName, NameLen)> {
        let (form, (len, name)) = (self.form?, self.table.at(place)?);
        Some((len, name, form.names))
    }

    /// Where a piece is: at `expected`, if it is there too.
    pub(super) fn find(&self, (name, len): (PieceName, u32), expected: u64) -> Option<u64> {
        self.table.find(self.form?.names.listed(name), len, expected)
    }
}
