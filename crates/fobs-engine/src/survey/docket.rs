//! The entries that are listed, and the decisions on them, between the sender's threads.

use super::{BATCHES_MAX, violation};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Result;
use fobs_store::survey::{Choice, Decided, Listed, Next};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most bytes of decisions that wait for the reader: 512 for each row of full batches, more than the hash
/// tree of a file of 600 GB takes.
const CHOICES_BYTES_MAX: usize = 32 << 20;

/// Shared by the thread that lists, the one that reads the control channel, and the one that reads files.
#[derive(Clone)]
pub(crate) struct Docket(Arc<Shared>);

struct Shared {
    state: Mutex<DocketState>,
    changed: Condvar,
}

struct DocketState {
    /// Batches that are not taken whole, oldest first, and what each takes; none is empty.
    listed: VecDeque<(VecDeque<Listed>, usize)>,
    kept: Charge,
    rows_listed: u64,
    /// No more is listed.
    listing_is_over: bool,
    /// Decisions that are not taken, and the bytes that each of them took.
    choices: VecDeque<(Choice, usize)>,
    choices_bytes: usize,
    rows_decided: u64,
    /// The session is over.
    closed: bool,
}

impl Docket {
    /// Charged to the budget of a session.
    pub(crate) fn within(budget: &MemoryBudget) -> Docket {
        let state = DocketState {
            listed: VecDeque::new(),
            kept: budget.charge(Keeps::Survey),
            rows_listed: 0,
            listing_is_over: false,
            choices: VecDeque::new(),
            choices_bytes: 0,
            rows_decided: 0,
            closed: false,
        };
        Docket(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Waits for room for a batch, then takes it; false once the session is over. Call it before the batch is
    /// sent: its decisions may come at once.
    ///
    /// # Errors
    /// It does not fit the budget, not even by itself.
    pub(super) fn list(&self, entries: Vec<Listed>, last: bool) -> Result<bool> {
        let memory = entries.iter().map(Listed::memory).sum();
        let mut state = self.lock();
        while !state.closed {
            let has_place = state.listed.len() < BATCHES_MAX;
            match if has_place { state.kept.grow(memory) } else { Ok(()) } {
                Ok(()) if has_place => break,
                // Room comes with each batch that is taken.
                Err(spent) if state.listed.is_empty() => return Err(spent.into()),
                Ok(()) | Err(_) => state = self.wait(state, None),
            }
        }
        state.rows_listed += entries.len() as u64;
        state.listing_is_over = last;
        if !entries.is_empty() {
            state.listed.push_back((entries.into(), memory));
        }
        self.0.changed.notify_all();
        Ok(!state.closed)
    }

    /// Takes a message of decisions.
    pub(crate) fn decide(&self, first: u64, mut bytes: &[u8], last: bool) -> Result<()> {
        let mut state = self.lock();
        if first != state.rows_decided {
            return Err(violation("decisions are missing"));
        }
        while !bytes.is_empty() {
            if state.rows_decided == state.rows_listed {
                return Err(violation("it decides on what was not listed"));
            }
            let (choice, rest) = Choice::decode(bytes).map_err(violation)?;
            let len = bytes.len() - rest.len();
            bytes = rest;
            state.kept.grow(size_of::<(Choice, usize)>() + len)?;
            state.rows_decided += 1;
            state.choices_bytes += len;
            state.choices.push_back((choice, len));
            if state.choices_bytes > CHOICES_BYTES_MAX {
                return Err(violation("its decisions are too long"));
            }
        }
        if last && !(state.listing_is_over && state.rows_decided == state.rows_listed) {
            return Err(violation("it ends before everything is decided"));
        }
        self.0.changed.notify_all();
        Ok(())
    }

    /// Ends every wait: the session is over.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.0.changed.notify_all();
    }

    /// Closes the docket when it is dropped.
    pub(crate) fn guard(&self) -> DocketGuard {
        DocketGuard(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, DocketState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, DocketState>,
        end: Option<Instant>,
    ) -> MutexGuard<'a, DocketState> {
        let changed = &self.0.changed;
        match end {
            None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(end) => {
                let left = end.saturating_duration_since(Instant::now());
                changed.wait_timeout(state, left).map_or_else(|it| it.into_inner().0, |it| it.0)
            }
        }
    }
}

/// See [`Docket::guard`].
pub(crate) struct DocketGuard(Docket);

impl Drop for DocketGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Decided for Docket {
    fn next(&mut self, end: Option<Instant>) -> Next {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Next::Broken;
            }
            if let Some((choice, len)) = state.choices.pop_front() {
                state.choices_bytes -= len;
                state.kept.shrink(size_of::<(Choice, usize)>() + len);
                let batch = state.listed.front_mut();
                let Some(listed) = batch.and_then(|(batch, _)| batch.pop_front()) else {
                    return Next::Broken;
                };
                if state.listed.front().is_some_and(|(batch, _)| batch.is_empty())
                    && let Some((_, memory)) = state.listed.pop_front()
                {
                    state.kept.shrink(memory);
                    self.0.changed.notify_all();
                }
                return Next::Decided(Box::new((listed, choice)));
            }
            if state.listing_is_over && state.listed.is_empty() {
                return Next::End;
            }
            match end {
                Some(end) if Instant::now() < end => state = self.wait(state, Some(end)),
                _ => return Next::NotYet,
            }
        }
    }

    fn is_exhausted(&self) -> bool {
        let state = self.lock();
        state.listing_is_over && state.listed.is_empty()
    }

    fn is_over(&self) -> bool {
        self.lock().closed
    }
}

#[cfg(test)]
mod tests;
