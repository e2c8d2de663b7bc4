//! How much work the rules of a request may take: in proportion to the names that they judge.

use std::cell::Cell;

/// Steps of matching for each name: a state of a pattern over a byte of a path, some nanoseconds. A name
/// costs the walk thousands of them, and twenty ordinary rules some hundred.
pub const STEPS_PER_NAME: u64 = 1 << 14;
/// Steps that a request has beside: about a second.
pub const STEPS_FREE: u64 = 1 << 28;

/// The work of a chain of rules so far.
#[derive(Debug)]
pub(super) struct Work {
    left: Cell<u64>,
}

impl Work {
    pub(super) fn new() -> Work {
        Work { left: Cell::new(STEPS_FREE) }
    }

    /// One more name is judged: what that may take.
    pub(super) fn begin(&self) -> Steps<'_> {
        // Once it is spent it stays so.
        let left = self.left.get();
        let left = if left == 0 { 0 } else { left.saturating_add(STEPS_PER_NAME) };
        Steps { work: self, left, taken: 0 }
    }

    /// Whether the rules took more than they may.
    pub(super) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Steps that are left.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn left(&self) -> &Cell<u64> {
        &self.left
    }
}

/// The work on one name; it counts when this is dropped.
pub(super) struct Steps<'a> {
    work: &'a Work,
    left: u64,
    /// Steps taken.
    pub(super) taken: u64,
}

impl Steps<'_> {
    /// Whether no more may be taken.
    pub(super) fn are_spent(&self) -> bool {
        self.taken >= self.left
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        // What a name does not take is not kept for others: a tree of many would allow any work later.
        let left = self.left.saturating_sub(self.taken);
        self.work.left.set(left.min(STEPS_FREE));
    }
}
