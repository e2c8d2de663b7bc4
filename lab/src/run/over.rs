//! Ends the threads that watch a run, whether the run was completed or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Kept by the owner of a watching thread: dropping it ends the thread.
#[derive(Default)]
pub struct Over {
    flag: Arc<AtomicBool>,
}

impl Over {
    /// For the thread.
    pub fn watch(&self) -> Watch {
        Watch { flag: Arc::clone(&self.flag) }
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

/// The thread's end of it.
pub struct Watch {
    flag: Arc<AtomicBool>,
}

impl Watch {
    /// Whether the thread has to end.
    pub fn is_over(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_ends_the_watch() {
        let over = Over::default();
        let watch = over.watch();
        assert!(!watch.is_over());
        drop(over);
        assert!(watch.is_over());
    }
}
