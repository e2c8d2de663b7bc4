//! Whether a standing queue has just gone.

use super::super::findings::QueueEvent;
use super::super::model::QueueLevel;

/// Compares each level with the one before.
#[derive(Debug)]
pub(crate) struct QueueWatch {
    last: QueueLevel,
}

impl Default for QueueWatch {
    fn default() -> QueueWatch {
        QueueWatch { last: QueueLevel::Empty }
    }
}

impl QueueWatch {
    pub(crate) fn on_level(&mut self, level: QueueLevel) -> QueueEvent {
        let before = std::mem::replace(&mut self.last, level);
        match (before, level) {
            (QueueLevel::Busy, QueueLevel::Empty | QueueLevel::Short) => QueueEvent::Drained,
            _ => QueueEvent::Unchanged,
        }
    }
}
