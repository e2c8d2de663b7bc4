//! Whether the sources have something at a path that was not listed yet: the receiver asks, the sender
//! answers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most questions of a session: each may cost a round trip, in which nothing is decided.
pub const QUESTIONS_MAX: u32 = 64;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often one who waits looks whether the session is over.
const LOOK: Duration = Duration::from_millis(100);

/// Sends a question; false if that is not possible.
pub type PathAsker = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Shared by the thread that asks and the one that takes answers.
#[derive(Clone)]
pub struct PathQuestions(Arc<Shared>);

struct Shared {
    state: Mutex<Questioned>,
    changed: Condvar,
    ask: PathAsker,
}

#[derive(Debug, Default)]
struct Questioned {
    asked: u32,
    /// A question has no answer yet.
    waits: bool,
    answer: Option<bool>,
}

impl PathQuestions {
    /// Asks so.
    pub fn new(ask: PathAsker) -> PathQuestions {
        PathQuestions(Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), ask }))
    }

    /// Whether another question may be asked.
    pub(super) fn may_ask(&self) -> bool {
        let state = self.lock();
        state.asked < QUESTIONS_MAX && !state.waits
    }

    /// Whether the sources have something at a path; none where that is not known in time, or once `stop`
    /// says that nobody waits any more.
    pub(super) fn has(&self, path: &[u8], stop: &dyn Fn() -> bool) -> Option<bool> {
        let mut state = self.lock();
        if state.waits || state.asked >= QUESTIONS_MAX {
            return None;
        }
        (state.asked, state.waits, state.answer) = (state.asked + 1, true, None);
        drop(state);
        if !(self.0.ask)(path) {
            return None;
        }
        let end = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while state.answer.is_none() && !stop() && Instant::now() < end {
            let waited = self.0.changed.wait_timeout(state, LOOK);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |waited| waited.0);
        }
        state.answer
    }

    /// The sender answers.
    ///
    /// # Errors
    /// Part of a sentence: nobody asked.
    pub fn answer(&self, has: bool) -> Result<(), &'static str> {
        let mut state = self.lock();
        if !std::mem::take(&mut state.waits) {
            return Err("it answers about a path that nobody asked about");
        }
        state.answer = Some(has);
        self.0.changed.notify_all();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Questioned> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for PathQuestions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PathQuestions").field(&*self.lock()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    #[test]
    fn an_answer_belongs_to_one_question() {
        let own: Arc<OnceLock<PathQuestions>> = Arc::default();
        let asker = own.clone();
        let questions = PathQuestions::new(Box::new(move |path| {
            path != b"lost" && asker.get().is_some_and(|own| own.answer(path == b"there").is_ok())
        }));
        own.set(questions.clone()).expect("it is set once");
        assert!(questions.answer(true).is_err(), "nobody asked");
        let has = |path: &[u8]| questions.has(path, &|| false);
        assert_eq!((has(b"there"), has(b"gone")), (Some(true), Some(false)));
        assert!(questions.answer(true).is_err(), "it is answered");
        for _ in 2..QUESTIONS_MAX {
            assert_eq!(has(b"gone"), Some(false));
        }
        assert!(!questions.may_ask() && has(b"gone").is_none());
    }

    #[test]
    fn a_question_that_has_no_answer_is_given_up() {
        let questions = PathQuestions::new(Box::new(|_| true));
        assert_eq!(questions.has(b"a", &|| true), None);
        assert!(!questions.may_ask(), "its answer may come late");
        assert_eq!(questions.answer(true), Ok(()));
        assert!(questions.may_ask());
    }
}
