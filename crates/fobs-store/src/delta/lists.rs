//! The sender's part: lists of what the receiver has, as they come, and where in them a piece is.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::asks::{Asks, FineAsk};
use super::form::{ListForm, WireForm};
use super::list::PieceList;
use super::names::{NameLen, PieceName};
use super::table::{PIECE_MEMORY, PieceTable};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Most pieces that are kept of all lists, [`PIECE_MEMORY`] bytes each. The receiver is never more than half
/// of that ahead of what it has stored, so what is forgotten lies behind what is sent.
pub(super) const PIECES_MAX: usize = 640 << 10;
/// Most files whose lists are kept: more than a receiver offers at once.
const LISTS_MAX: usize = 2048;

/// What a basis has is not supposed any more after this number of patches that were of no use: each cost a
/// chunk's round trip.
const MISTAKES_MAX: u32 = 8;

/// Shared by the thread that takes messages and the one that reads files.
#[derive(Debug, Clone)]
pub struct Lists(Arc<Shared>);

struct Shared {
    state: Mutex<Kept>,
    changed: Condvar,
    budget: MemoryBudget,
    /// Sends a question to the receiver.
    ask: Asker,
}

/// Sends a question to the receiver; false if that is not possible.
pub type Asker = Box<dyn Fn(&FineAsk) -> bool + Send + Sync>;

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lists").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct Kept {
    /// In the order of their rows.
    lists: VecDeque<List>,
    pieces: usize,
    kept: Charge,
    pub(super) asks: Asks,
    /// The first row that has not been passed.
    pub(super) from_row: u64,
    closed: bool,
    /// Patches that were of no use.
    mistakes: u32,
}

#[derive(Debug)]
struct List {
    row: u64,
    form: ListForm,
    table: PieceTable,
    complete: bool,
    /// There is no room for more of it.
    full: bool,
    /// How far the sender is in its own file.
    position: u64,
    /// When its first part came.
    began: Instant,
    /// How much came afterwards, bytes, and until when.
    timed: (u64, Instant),
}

/// A part of a list, from a peer.
#[derive(Debug, Clone, Copy)]
pub struct ListPart<'a> {
    /// Of this row.
    pub row: u64,
    /// Bytes of the basis before it.
    pub first: u64,
    /// How it is written.
    pub form: WireForm,
    /// Its pieces ([`PieceList`]).
    pub pieces: &'a [u8],
    /// Whether it is the last.
    pub last: bool,
}

/// How much of a basis is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// Up to here, bytes; nothing at first.
    Until(u64),
    /// As much as will be.
    Complete,
    /// The session is over.
    Broken,
}

impl List {
    fn new(row: u64, form: ListForm) -> List {
        let now = Instant::now();
        List {
            row,
            form,
            table: PieceTable::from(0, form.cutting),
            complete: false,
            full: false,
            position: 0,
            began: now,
            timed: (0, now),
        }
    }
}

impl Lists {
    /// Charged to the budget of a session; `ask` sends the questions for short pieces.
    pub fn within(budget: &MemoryBudget, ask: Asker) -> Lists {
        let state = Kept {
            lists: VecDeque::new(),
            pieces: 0,
            kept: budget.charge(Keeps::Pieces),
            asks: Asks::default(),
            from_row: 0,
            closed: false,
            mistakes: 0,
        };
        Lists(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            budget: budget.clone(),
            ask,
        }))
    }

    /// Takes a part of a list.
    ///
    /// # Errors
    /// Part of a sentence: the peer breaks a rule.
    pub fn take(&self, part: ListPart<'_>) -> Result<(), &'static str> {
        let ListPart { row, first, pieces, last, .. } = part;
        let form = ListForm::from_wire(part.form)?;
        let mut state = self.lock();
        if row < state.from_row {
            // It was sent before the sender was past that file.
            return Ok(());
        }
        let is_new = state.lists.back().is_none_or(|list| list.row < row);
        if is_new {
            if state.lists.back().is_some_and(|list| !list.complete) || state.lists.len() == LISTS_MAX {
                return Err("it lists more files at once than may be");
            }
            state.lists.push_back(List::new(row, form));
        }
        let Kept { lists, pieces: count, kept, .. } = &mut *state;
        let fits = |list: &&mut List| {
            list.row == row && !list.complete && list.table.end() == first && list.form == form
        };
        let list = lists.back_mut().filter(fits).ok_or("it lists pieces out of order")?;
        for piece in PieceList::new(pieces, form) {
            let (len, name) = piece?;
            if list.table.end() + u64::from(len) > i64::MAX as u64 {
                return Err("it lists a longer file than can be");
            }
            if list.full || kept.grow(PIECE_MEMORY).is_err() {
                // What the session has no room for is sent whole.
                list.full = true;
                list.table.skip(len);
            } else {
                list.table.push(len, name);
                *count += 1;
            }
        }
        list.complete = last;
        if !is_new {
            list.timed = (list.table.end() - first + list.timed.0, Instant::now());
        }
        while state.pieces > PIECES_MAX {
            let front = state.lists.front_mut();
            if !front.is_some_and(|list| list.table.forget_first(list.position)) {
                return Err("it lists more pieces than may be kept");
            }
            state.pieces -= 1;
            state.kept.shrink(PIECE_MEMORY);
        }
        self.0.changed.notify_all();
        Ok(())
    }

    /// A patch was of no use.
    pub fn was_mistaken(&self) {
        let mut state = self.lock();
        state.mistakes = state.mistakes.saturating_add(1);
    }

    /// Whether what is not listed is supposed no more.
    pub(super) fn is_mistaken(&self) -> bool {
        self.lock().mistakes >= MISTAKES_MAX
    }

    /// Whether the session is over.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// How far the sender is in a file whose list it does not use.
    pub(super) fn is_at(&self, row: u64, position: u64) {
        if let Some(list) = self.lock().lists.iter_mut().find(|list| list.row == row) {
            list.position = position;
        }
    }

    /// Ends every wait: the session is over.
    pub fn close(&self) {
        self.lock().closed = true;
        self.0.changed.notify_all();
    }

    /// Closes when it is dropped.
    pub fn guard(&self) -> ListsGuard {
        ListsGuard(self.clone())
    }

    /// How much is listed of a row's basis.
    pub(crate) fn coverage(&self, row: u64) -> Coverage {
        let state = self.lock();
        match state.lists.iter().find(|list| list.row == row) {
            _ if state.closed => Coverage::Broken,
            // Nobody looks there any more.
            _ if row < state.from_row => Coverage::Complete,
            Some(list) if list.complete || list.full => Coverage::Complete,
            Some(list) => Coverage::Until(list.table.end()),
            None => Coverage::Until(0),
        }
    }

    /// Waits for something new, until `end` at most.
    pub(super) fn nap(&self, end: Instant) {
        let state = self.lock();
        let left = end.saturating_duration_since(Instant::now());
        // Whatever ended the wait: the caller looks.
        drop(self.0.changed.wait_timeout(state, left));
    }

    /// Something that counts beside the lists is new.
    pub fn nudge(&self) {
        self.0.changed.notify_all();
    }

    /// How a row's basis is cut, once its list has begun.
    pub(super) fn form(&self, row: u64) -> Option<ListForm> {
        self.lock().lists.iter().find(|list| list.row == row).map(|list| list.form)
    }

    /// Whether a place is behind all that a row's basis has, as far as that is known.
    pub(super) fn is_behind(&self, row: u64, place: u64) -> bool {
        let state = self.lock();
        let list = state.lists.iter().find(|list| list.row == row);
        list.is_some_and(|list| list.complete && !list.full && place >= list.table.end())
    }

    /// The piece that begins at a place in a row's basis: its length and its name, as much as is listed.
    /// `position` is the sender's own place.
    pub(super) fn piece_at(&self, row: u64, place: u64, position: u64) -> Option<(u32, PieceName, NameLen)> {
        let mut state = self.lock();
        let list = state.lists.iter_mut().find(|list| list.row == row)?;
        list.position = position;
        let (len, name) = list.table.at(place)?;
        Some((len, name, list.form.names))
    }

    /// Where in a row's basis a piece is: at `expected`, if it is there too. `position` is its place in the
    /// sender's own file.
    pub(super) fn find(
        &self,
        row: u64,
        (name, len): (PieceName, u32),
        expected: u64,
        position: u64,
    ) -> Option<u64> {
        let mut state = self.lock();
        let list = state.lists.iter_mut().find(|list| list.row == row)?;
        list.position = position;
        list.table.find(list.form.names.listed(name), len, expected)
    }

    /// How much was listed of a row within which time, behind the first part; none where that is not known.
    pub(super) fn listed(&self, row: u64) -> Option<(u64, Duration)> {
        let state = self.lock();
        let list = state.lists.iter().find(|list| list.row == row && list.timed.0 > 0)?;
        Some((list.timed.0, list.timed.1.saturating_duration_since(list.began)))
    }

    /// The sender is past a row: lists up to it are of no use any more.
    pub(crate) fn pass(&self, row: u64) {
        let mut state = self.lock();
        state.from_row = state.from_row.max(row.saturating_add(1));
        while state.lists.front().is_some_and(|list| list.row <= row) {
            let Some(list) = state.lists.pop_front() else { return };
            state.pieces -= list.table.len();
            state.kept.shrink(list.table.len() * PIECE_MEMORY);
        }
        state.asks.pass(row);
    }

    /// For what more is kept.
    pub(super) fn charge(&self) -> Charge {
        self.0.budget.charge(Keeps::Pieces)
    }

    /// Sends a question; false if that is not possible.
    pub(super) fn tell(&self, ask: &FineAsk) -> bool {
        (self.0.ask)(ask)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Lists::guard`].
#[derive(Debug)]
pub struct ListsGuard(Lists);

impl Drop for ListsGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}
