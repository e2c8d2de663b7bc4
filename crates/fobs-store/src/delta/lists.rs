//! The sender's part: lists of what the receiver has, as they come, and where in them a piece is.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::cut::Average;
use super::list::PieceList;
use super::names::PieceName;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// Most pieces that are kept of all lists, [`PIECE_MEMORY`] bytes each. The receiver is never more than half
/// of that ahead of what it has stored, so what is forgotten lies behind what is sent.
pub(super) const PIECES_MAX: usize = 640 << 10;
/// What a piece takes in memory, bytes: its entry and its place in a table that is half full.
const PIECE_MEMORY: usize = size_of::<Entry>() + 2 * (size_of::<(u64, u64)>() + 1);
/// Most files whose lists are kept: more than a receiver offers at once.
const LISTS_MAX: usize = 256;

/// Shared by the thread that takes messages and the one that reads files.
#[derive(Debug, Clone)]
pub struct Lists(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Debug)]
struct Kept {
    /// In the order of their rows.
    lists: VecDeque<List>,
    pieces: usize,
    kept: Charge,
    /// The first row that has not been passed.
    from_row: u64,
    closed: bool,
}

#[derive(Debug)]
struct List {
    row: u64,
    average: Average,
    entries: VecDeque<Entry>,
    /// Pieces that are forgotten.
    forgotten: u64,
    /// The number of a piece, by the beginning of its name.
    by_name: HashMap<u64, u64>,
    /// What is listed, bytes.
    end: u64,
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

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    len: u32,
    name: PieceName,
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
    fn key(name: &PieceName) -> u64 {
        let mut key = [0; 8];
        key.copy_from_slice(&name[..8]);
        u64::from_le_bytes(key)
    }

    fn push(&mut self, len: u32, name: PieceName) {
        let number = self.forgotten + self.entries.len() as u64;
        self.entries.push_back(Entry { at: self.end, len, name });
        self.by_name.entry(List::key(&name)).or_insert(number);
        self.end += u64::from(len);
    }

    /// Forgets the first piece, if the sender is past it.
    fn forget_first(&mut self) -> bool {
        let Some(first) = self.entries.front().filter(|first| first.at < self.position) else { return false };
        let key = List::key(&first.name);
        if self.by_name.get(&key) == Some(&self.forgotten) {
            self.by_name.remove(&key);
        }
        self.entries.pop_front();
        self.forgotten += 1;
        true
    }

    /// Where a piece is: at `expected`, if it is there too.
    fn find(&self, name: &PieceName, len: u32, expected: u64) -> Option<u64> {
        let is_it = |entry: &&Entry| entry.name == *name && entry.len == len;
        let there = self.entries.binary_search_by_key(&expected, |entry| entry.at).ok();
        if let Some(entry) = there.and_then(|at| self.entries.get(at)).filter(is_it) {
            return Some(entry.at);
        }
        let number = self.by_name.get(&List::key(name))?.checked_sub(self.forgotten)?;
        self.entries.get(usize::try_from(number).ok()?).filter(is_it).map(|entry| entry.at)
    }
}

impl Lists {
    /// Charged to the budget of a session.
    pub fn within(budget: &MemoryBudget) -> Lists {
        let state = Kept {
            lists: VecDeque::new(),
            pieces: 0,
            kept: budget.charge(Keeps::Pieces),
            from_row: 0,
            closed: false,
        };
        Lists(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Takes a part of a list: of this row, behind `first` bytes of the basis.
    ///
    /// # Errors
    /// Part of a sentence: the peer breaks a rule.
    pub fn take(
        &self,
        (row, first): (u64, u64),
        average: u8,
        pieces: &[u8],
        last: bool,
    ) -> Result<(), &'static str> {
        let average = Average::from_log(average).ok_or("it lists pieces of a length that cannot be")?;
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
            state.lists.push_back(List {
                row,
                average,
                entries: VecDeque::new(),
                forgotten: 0,
                by_name: HashMap::new(),
                end: 0,
                complete: false,
                full: false,
                position: 0,
                began: Instant::now(),
                timed: (0, Instant::now()),
            });
        }
        let Kept { lists, pieces: count, kept, .. } = &mut *state;
        let list = lists.back_mut().filter(|list| list.row == row && !list.complete && list.end == first);
        let list = list.filter(|list| list.average == average).ok_or("it lists pieces out of order")?;
        for piece in PieceList::new(pieces, average) {
            let (len, name) = piece?;
            if list.end + u64::from(len) > i64::MAX as u64 {
                return Err("it lists a longer file than can be");
            }
            if list.full || kept.grow(PIECE_MEMORY).is_err() {
                // What the session has no room for is sent whole.
                list.full = true;
                list.end += u64::from(len);
            } else {
                list.push(len, name);
                *count += 1;
            }
        }
        list.complete = last;
        if !is_new {
            list.timed = (list.end - first + list.timed.0, Instant::now());
        }
        while state.pieces > PIECES_MAX {
            let forgot = state.lists.front_mut().is_some_and(List::forget_first);
            if !forgot {
                return Err("it lists more pieces than may be kept");
            }
            state.pieces -= 1;
            state.kept.shrink(PIECE_MEMORY);
        }
        self.0.changed.notify_all();
        Ok(())
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
            Some(list) => Coverage::Until(list.end),
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
    pub(super) fn average(&self, row: u64) -> Option<Average> {
        self.lock().lists.iter().find(|list| list.row == row).map(|list| list.average)
    }

    /// Where in a row's basis a piece is: at `expected`, if it is there too. `position` is its place in the
    /// sender's own file.
    pub(super) fn find(
        &self,
        row: u64,
        (name, len): (&PieceName, u32),
        expected: u64,
        position: u64,
    ) -> Option<u64> {
        let mut state = self.lock();
        let list = state.lists.iter_mut().find(|list| list.row == row)?;
        list.position = position;
        list.find(name, len, expected)
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
            state.pieces -= list.entries.len();
            state.kept.shrink(list.entries.len() * PIECE_MEMORY);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
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
