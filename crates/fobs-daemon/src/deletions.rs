//! What a transfer deletes at this end, and its files, for the log: who did it is in each line. The lines of
//! deletions are bounded, for each transfer and for the daemon; what is not named is counted.

use super::asked::Count;
use super::log::Log;
use super::who::Person;
use fobs_store::show_path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Most deletions of one transfer that are named.
const NAMED_MAX: u64 = 1000;
/// Most that the daemon names at once, and a second from then on: journald takes 10,000 lines in 30 s.
const LINES_AT_ONCE: f64 = 4000.0;
const LINES_A_SECOND: f64 = 100.0;
/// Most bytes of a path in the log (`PATH_MAX`).
const PATH_LOGGED_MAX: usize = 4096;

/// How many lines may be written now. Clones are the same.
#[derive(Clone)]
pub(super) struct LineBudget(Arc<Mutex<(f64, Instant)>>);

impl LineBudget {
    pub(super) fn new(now: Instant) -> LineBudget {
        LineBudget(Arc::new(Mutex::new((LINES_AT_ONCE, now))))
    }

    fn take(&self, now: Instant) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, before) = *state;
        let grown = now.saturating_duration_since(before).as_secs_f64() * LINES_A_SECOND;
        let left = (left + grown).min(LINES_AT_ONCE);
        let may = left >= 1.0;
        *state = (if may { left - 1.0 } else { left }, now);
        may
    }
}

/// How something was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// A sync deleted at its destination what the sources do not have.
    Sync,
    /// `--remove-source-files`.
    Source,
    /// A request about files by name.
    Request,
}

impl By {
    pub(super) const ALL: &[By] = &[By::Sync, By::Source, By::Request];

    /// For the metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            By::Sync => "sync",
            By::Source => "source",
            By::Request => "request",
        }
    }
}

/// Whether files have lines of their own (`--log-files`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    Counted,
    Named,
}

/// Writes the deletions of one transfer, and its files.
pub(super) struct Deletions {
    log: Log,
    person: Person,
    /// What the paths of the transfer are below.
    below: Vec<u8>,
    budget: LineBudget,
    files: Files,
    all: AtomicU64,
    named: AtomicU64,
}

impl Deletions {
    pub(super) fn new(log: Log, person: Person, below: Vec<u8>, budget: LineBudget) -> Deletions {
        let (all, named) = (AtomicU64::new(0), AtomicU64::new(0));
        Deletions { log, person, below, budget, files: Files::Counted, all, named }
    }

    pub(super) fn with_files(self, files: Files) -> Deletions {
        Deletions { files, ..self }
    }

    /// A name is gone.
    pub(super) fn deleted(&self, path: &[u8], now: Instant) {
        let before = self.all.fetch_add(1, Ordering::SeqCst);
        if before < NAMED_MAX && self.budget.take(now) {
            self.named.fetch_add(1, Ordering::SeqCst);
            self.log.deleted(&self.person, &self.shown(path));
        }
    }

    /// A file is stored or sent; named where the operator asks for that, as the client knows it: a single
    /// directory may have got the destination's own name.
    pub(super) fn file(&self, path: &[u8], bytes: u64) {
        if self.files == Files::Named {
            self.log.file(&self.person, &show_path(&path[..path.len().min(PATH_LOGGED_MAX)]), bytes);
        }
    }

    /// A path of the transfer as the server has it.
    fn shown(&self, path: &[u8]) -> String {
        let whole = match (self.below.as_slice(), path) {
            (below, b"") => below.to_vec(),
            (b"", path) => path.to_vec(),
            (below, path) if below.ends_with(b"/") => [below, path].concat(),
            (below, path) => [below, b"/", path].concat(),
        };
        show_path(&whole[..whole.len().min(PATH_LOGGED_MAX)])
    }

    pub(super) fn count(&self) -> Count {
        let (all, named) = (self.all.load(Ordering::SeqCst), self.named.load(Ordering::SeqCst));
        Count { all, unnamed: all.saturating_sub(named) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn lines_are_bounded_at_once_and_over_time() {
        let start = Instant::now();
        let budget = LineBudget::new(start);
        let takes = |at: Duration| (0..10_000).filter(|_| budget.take(start + at)).count();
        assert_eq!(takes(Duration::ZERO), LINES_AT_ONCE as usize);
        assert_eq!(takes(Duration::from_secs(2)), 2 * LINES_A_SECOND as usize);
        assert_eq!(takes(Duration::from_secs(3600)), LINES_AT_ONCE as usize);
    }
}
