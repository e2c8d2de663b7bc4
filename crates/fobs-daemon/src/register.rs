//! Which sessions take streams.

use fobs_channel::secure::stream::StreamTag;
use fobs_engine::door::Gate;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sessions that take streams: at most as many as run.
#[derive(Clone, Default)]
pub(super) struct Register(Arc<Mutex<HashMap<StreamTag, Gate>>>);

/// A session's place in the register, until it is dropped.
pub(super) struct Entry {
    register: Register,
    tag: StreamTag,
}

impl Register {
    /// Adds a session.
    pub(super) fn enter(&self, gate: Gate) -> Entry {
        let tag = gate.tag();
        self.gates().insert(tag, gate);
        Entry { register: self.clone(), tag }
    }

    /// The session of this stream.
    pub(super) fn find(&self, tag: StreamTag) -> Option<Gate> {
        self.gates().get(&tag).cloned()
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<StreamTag, Gate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.register.gates().remove(&self.tag);
    }
}
