//! What a confined thread has done outside its domain: the thread that waits for it is its clerk.
//!
//! Threads of one process share their memory, so this is no hole in a wall against foreign code, and none of
//! the walls is one. They stand against names and numbers that a check let pass, and no such name reaches a
//! clerk: what it does is fixed in the program ([`Errand`]).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::errand::Errand;

/// Most jobs that wait: each thread of a session waits for its own, and a session has at most a dozen. One
/// more is done where it is asked for, as far as its domain lets it.
const JOBS_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The clerk of the calling thread, if that is confined.
    static CLERK: RefCell<Option<Clerk>> = const { RefCell::new(None) };
}

/// Takes jobs until it is closed. Clones are the same.
#[derive(Clone)]
pub(super) struct Clerk(Arc<Shared>);

struct Shared {
    desk: Mutex<ClerkDesk>,
    changed: Condvar,
}

struct ClerkDesk {
    jobs: VecDeque<Job>,
    is_open: bool,
}

impl Clerk {
    pub(super) fn new() -> Clerk {
        let desk = Mutex::new(ClerkDesk { jobs: VecDeque::new(), is_open: true });
        Clerk(Arc::new(Shared { desk, changed: Condvar::new() }))
    }

    /// That of the calling thread.
    pub(super) fn of_this_thread() -> Option<Clerk> {
        CLERK.with_borrow(Clone::clone)
    }

    /// From here on the calling thread's jobs go there.
    pub(super) fn adopt(self) {
        CLERK.set(Some(self));
    }

    /// Does jobs in the calling thread until it is closed, and then those that are left.
    pub(super) fn work(&self) {
        loop {
            let mut desk = self.desk();
            while desk.jobs.is_empty() && desk.is_open {
                desk = self.0.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(job) = desk.jobs.pop_front() else { return };
            drop(desk);
            job();
        }
    }

    /// No further jobs are taken.
    pub(super) fn close(&self) {
        self.desk().is_open = false;
        self.0.changed.notify_all();
    }

    fn desk(&self) -> MutexGuard<'_, ClerkDesk> {
        self.0.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a job, or gives it back.
    fn take(&self, job: Job) -> Result<(), Job> {
        let mut desk = self.desk();
        if !desk.is_open || desk.jobs.len() >= JOBS_MAX {
            return Err(job);
        }
        desk.jobs.push_back(job);
        self.0.changed.notify_all();
        Ok(())
    }
}

/// Does an errand outside the domain of the calling thread, and waits for it. In a thread without a domain,
/// or one whose session is over, it is done where it stands.
pub fn outside<T: Send + 'static>(errand: Errand, job: impl FnOnce() -> T + Send + 'static) -> T {
    let Some(clerk) = Clerk::of_this_thread() else { return job() };
    let (answer, answered) = sync_channel(1);
    let job: Job = Box::new(move || {
        // The one who asked still waits.
        let _ = answer.send(catch_unwind(AssertUnwindSafe(job)));
    });
    if let Err(job) = clerk.take(job) {
        job();
    }
    match answered.recv() {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => unreachable!("{errand:?}: a job that was taken is done (`Clerk::work`)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn jobs_are_done_by_the_clerk_until_it_is_closed() {
        let clerk = Clerk::new();
        let here = thread::current().id();
        let theirs = clerk.clone();
        let confined = thread::spawn(move || {
            theirs.clone().adopt();
            let by = outside(Errand::State, || thread::current().id());
            theirs.close();
            (by, outside(Errand::State, || thread::current().id()), thread::current().id())
        });
        clerk.work();
        let (open, closed, own) = confined.join().unwrap();
        assert_eq!((open, closed), (here, own));
        assert_eq!(outside(Errand::State, || thread::current().id()), here, "without a domain");
    }

    #[test]
    fn a_job_that_panics_does_so_where_it_was_asked_for() {
        let clerk = Clerk::new();
        let theirs = clerk.clone();
        let confined = thread::spawn(move || {
            theirs.clone().adopt();
            let failed = catch_unwind(|| outside(Errand::State, || panic!("as it must")));
            theirs.close();
            failed.is_err()
        });
        clerk.work();
        assert!(confined.join().unwrap());
    }
}
