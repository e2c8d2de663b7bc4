//! What a call's thread writes down and its job reads.

use crate::values::Value;
use crate::waker::Ended;
use fobs::{Event, EventSink, Progress, Recorder, Result};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// Notices that are kept; of more, the oldest go.
const NOTICES_MAX: usize = 100;
/// Finished files that are kept until they are asked for; of more, the oldest go.
const FILES_MAX: usize = 100_000;

/// Words of the notice that a key was pinned: one for each server of a call.
const PINNED: &str = " is now pinned in ";

/// What the thread and its job have in common.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) outcome: Mutex<Ending>,
    pub(crate) seen: Mutex<Seen>,
}

#[derive(Default)]
pub(crate) struct Ending {
    pub(crate) is_over: bool,
    /// Until it is taken.
    pub(crate) outcome: Option<Result<Value>>,
    /// Who wants to hear of it, and under which number.
    pub(crate) tell: Vec<(Weak<Ended>, u64)>,
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) progress: Progress,
    pub(crate) recorder: Recorder,
    pub(crate) notices: VecDeque<String>,
    /// Those of a key that is new here.
    pub(crate) pinned: Vec<String>,
    pub(crate) files: VecDeque<DoneFile>,
}

/// Path within the transfer, size and BLAKE3 hash of a file that is in place.
pub(crate) type DoneFile = (Vec<u8>, u64, [u8; 32]);

impl EventSink for Shared {
    fn event(&self, event: Event) {
        let mut seen = locked(&self.seen);
        seen.recorder.record(&event);
        match event {
            Event::Progress(progress) => seen.progress = progress,
            Event::Notice(notice) => {
                if notice.contains(PINNED) {
                    seen.pinned.push(notice.clone());
                }
                if seen.notices.len() == NOTICES_MAX {
                    seen.notices.pop_front();
                }
                seen.notices.push_back(notice);
            }
            Event::FileDone(fobs::event::FileDone { path, bytes, root }) => {
                if seen.files.len() == FILES_MAX {
                    seen.files.pop_front();
                }
                seen.files.push_back((path, bytes, root));
            }
            _ => {}
        }
    }
}

impl Shared {
    pub(crate) fn end(&self, outcome: Result<Value>) {
        let mut ending = locked(&self.outcome);
        ending.is_over = true;
        ending.outcome = Some(outcome);
        for (ended, number) in ending.tell.drain(..) {
            // The one that waits may have gone away.
            if let Some(ended) = ended.upgrade() {
                ended.tell(number);
            }
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
