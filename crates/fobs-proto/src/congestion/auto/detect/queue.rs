//! Whether a standing queue has just gone.

use super::super::model::QueueLevel;

/// What has become of the standing queue since the last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueEvent {
    /// Nothing of note.
    Unchanged,
    /// It was busy and is no longer, whatever made it go.
    Drained,
}

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
