//! What `auto` may claim of a shared link at present, and before.

use super::super::Priority;
use crate::Rate;

/// What the flow may claim at present.
#[derive(Debug)]
pub(crate) struct Claims {
    pub(crate) priority: Priority,
    /// The priority before, until a competition begins under the present one.
    former: Priority,
    /// Rate that is not exceeded once the path's rate is found.
    pub(crate) ceiling: Rate,
}

impl Claims {
    pub(crate) fn new(priority: Priority, ceiling: Rate) -> Claims {
        Claims { priority, former: priority, ceiling }
    }

    pub(crate) fn change(&mut self, to: Priority) {
        self.former = self.priority;
        self.priority = to;
    }

    /// A competition begins.
    pub(crate) fn settle(&mut self) {
        self.former = self.priority;
    }

    /// Whether the flow yielded to all and need not any more: a queue that stands now is not to be yielded
    /// to once more.
    pub(crate) fn is_raised(&self) -> bool {
        self.former == Priority::Scavenger && self.priority != Priority::Scavenger
    }
}
