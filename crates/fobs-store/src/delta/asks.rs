//! Questions for the pieces of a part of a basis, and their answers: for short ones where no long one was
//! found, and for those that its content cuts where it was listed in place, and the file has moved.

use std::collections::VecDeque;

use super::cut::Average;
use super::form::{Cutting, ListForm, WireForm};
use super::table::PieceTable;
use fobs_model::budget::Charge;

/// Most questions without an answer: what is behind them is looked at later.
pub(super) const ASKS_MAX: usize = 64;
/// Longest part of a basis that is asked for at once, pieces: they fit into one message.
const ASK_PIECES: u64 = 2048;
/// Likewise of short ones, bytes.
pub(super) const ASK_MAX: u64 = ASK_PIECES << Average::FINEST.log();

/// A question for the pieces of a part of a basis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FineAsk {
    /// The row of the basis.
    pub row: u64,
    /// Where the part begins, bytes.
    pub from: u64,
    /// How long it is, bytes; the basis may end before.
    pub len: u64,
    /// How long pieces are.
    pub average: Average,
    /// How they are cut; in place: from the begin of the part on.
    pub cutting: Cutting,
}

impl FineAsk {
    /// For short pieces.
    pub fn closely(row: u64, (from, len): (u64, u64), cutting: Cutting) -> FineAsk {
        FineAsk { row, from, len, average: Average::FINEST, cutting }
    }

    /// For pieces by content of what was listed in place, with pieces of this length: of another one, because
    /// those of the same are asked for where all has moved.
    pub(super) fn shifted(row: u64, (from, len): (u64, u64), listed: Average) -> FineAsk {
        let average = listed.longer().unwrap_or(Average::FINEST);
        FineAsk { row, from, len, average, cutting: Cutting::ByContent }
    }

    /// From a peer, for pieces of another length than the short ones if `average` says so.
    ///
    /// # Errors
    /// Part of a sentence: it cannot be asked.
    pub fn from_wire(
        (row, from, len): (u64, u64, u64),
        average: Option<u8>,
        in_place: bool,
    ) -> Result<FineAsk, &'static str> {
        let average = average.map_or(Some(Average::FINEST), Average::from_log);
        let average = average.ok_or("it asks for pieces of a length that cannot be")?;
        Ok(FineAsk { row, from, len, average, cutting: Cutting::from_wire(in_place) })
    }

    /// The length of pieces as it is sent.
    pub fn wire_average(&self) -> Option<u8> {
        (self.average != Average::FINEST).then_some(self.average.log())
    }

    /// Whether one question may be about all of it.
    pub(super) fn is_possible(&self) -> bool {
        (1..=ASK_PIECES << self.average.log()).contains(&self.len)
    }
}

/// The answer, from a peer.
#[derive(Debug, Clone, Copy)]
pub struct FineAnswer<'a> {
    /// As in the question.
    pub row: u64,
    /// As in the question.
    pub from: u64,
    /// How it is written.
    pub form: WireForm,
    /// Its pieces ([`PieceList`](super::PieceList)); none where the basis is gone.
    pub pieces: &'a [u8],
}

/// The pieces of a part of a basis.
#[derive(Debug)]
pub(super) struct FineList {
    pub(super) form: ListForm,
    pub(super) table: PieceTable,
    _kept: Charge,
}

impl FineList {
    /// Which takes this room.
    pub(super) fn new(form: ListForm, table: PieceTable, kept: Charge) -> FineList {
        FineList { form, table, _kept: kept }
    }
}

/// Questions in their order, with those answers that are not used yet.
#[derive(Debug, Default)]
pub(super) struct Asks(VecDeque<Asked>);

#[derive(Debug)]
struct Asked {
    ask: FineAsk,
    answer: Option<FineList>,
    /// The sender went on without it.
    is_over: bool,
}

impl Asks {
    pub(super) fn are_full(&self) -> bool {
        self.0.len() >= ASKS_MAX
    }

    pub(super) fn push(&mut self, ask: FineAsk) {
        self.0.push_back(Asked { ask, answer: None, is_over: false });
    }

    /// A question did not leave: nothing is found.
    pub(super) fn lose(&mut self, ask: &FineAsk, nothing: FineList) {
        let lost = self.0.iter_mut().rev().find(|asked| asked.ask == *ask && asked.answer.is_none());
        if let Some(lost) = lost {
            lost.answer = Some(nothing);
        }
    }

    /// The answer to a question, once it is there.
    pub(super) fn take(&mut self, ask: &FineAsk) -> Option<FineList> {
        let at = self.0.iter().position(|asked| asked.ask == *ask && asked.answer.is_some())?;
        self.0.remove(at).and_then(|asked| asked.answer)
    }

    /// The answer to a question is of no use any more.
    pub(super) fn forget(&mut self, ask: &FineAsk) {
        let Some(at) = self.0.iter().position(|asked| asked.ask == *ask && !asked.is_over) else { return };
        match self.0.get_mut(at) {
            Some(asked) if asked.answer.is_none() => asked.is_over = true,
            _ => drop(self.0.remove(at)),
        }
    }

    /// Answers up to this row are of no use any more.
    pub(super) fn pass(&mut self, row: u64) {
        self.0.retain(|asked| asked.answer.is_none() || asked.ask.row > row);
    }

    /// The first question without an answer is answered; by none if the sender is past it.
    pub(super) fn answer(&mut self, is_passed: bool, list: FineList) {
        let Some(at) = self.0.iter().position(|asked| asked.answer.is_none()) else { return };
        match self.0.get_mut(at) {
            Some(asked) if !is_passed && !asked.is_over => asked.answer = Some(list),
            _ => drop(self.0.remove(at)),
        }
    }

    /// The oldest question without an answer.
    pub(super) fn unanswered(&self) -> Option<&FineAsk> {
        self.0.iter().find(|asked| asked.answer.is_none()).map(|asked| &asked.ask)
    }
}
