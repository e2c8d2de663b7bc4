//! Threads that read and hash parts of a large file while the reading thread is at an earlier one.

use crate::thread::spawn;
use fobs_store::{ReadStretch, Stretch};
use fobs_sys::{PageBuffer, ThreadDuty, hint_scheduler, thread_times};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A part to be read into the front of a buffer.
struct Task {
    number: u64,
    buffer: PageBuffer,
    stretch: Stretch,
    back: SyncSender<Lent>,
}

/// A buffer that comes back.
pub(super) struct Lent {
    pub(super) buffer: PageBuffer,
    /// What is at its front, if it could be read.
    pub(super) read: Option<ReadStretch>,
    /// Time on a CPU that it took, us.
    pub(super) cpu_us: u64,
}

#[derive(Default)]
struct Tasks {
    /// At most as many as the sender grants.
    waiting: VecDeque<Task>,
    /// Tasks so far.
    count: u64,
    hands: usize,
    idle: usize,
    over: bool,
}

#[derive(Default)]
struct Shared {
    tasks: Mutex<Tasks>,
    news: Condvar,
}

/// The reading thread's helpers. Dropped, it ends them.
pub(super) struct Hands {
    shared: Arc<Shared>,
    /// How many there may be.
    most: usize,
}

/// Where a lent buffer comes back.
pub(super) struct Awaited {
    number: u64,
    back: Receiver<Lent>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hand: reads what is asked for until the session ends.
    fn run(&self) {
        let mut tasks = self.lock();
        while !tasks.over {
            if let Some(Task { mut buffer, stretch, back, .. }) = tasks.waiting.pop_front() {
                drop(tasks);
                let began = cpu_us();
                let read = stretch.read(&mut buffer);
                // The reading thread may be gone.
                let _ = back.send(Lent { buffer, read, cpu_us: cpu_us() - began });
                tasks = self.lock();
            } else {
                tasks.idle += 1;
                tasks = self.news.wait(tasks).unwrap_or_else(PoisonError::into_inner);
                tasks.idle -= 1;
            }
        }
    }
}

impl Hands {
    /// None yet, and never more than that.
    pub(super) fn at_most(most: usize) -> Hands {
        Hands { shared: Arc::default(), most }
    }

    /// Parts that no hand has begun.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.shared.lock().waiting.len()
    }

    /// Whether there can be any.
    pub(super) fn are_possible(&self) -> bool {
        self.most > 0
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.shared.lock().hands
    }

    /// Has a part read into the front of a buffer.
    pub(super) fn read(&self, buffer: PageBuffer, stretch: Stretch) -> Awaited {
        let (back, awaited) = sync_channel(1);
        let mut tasks = self.shared.lock();
        tasks.count += 1;
        let number = tasks.count;
        tasks.waiting.push_back(Task { number, buffer, stretch, back });
        let starts = tasks.waiting.len() > tasks.idle && tasks.hands < self.most;
        tasks.hands += usize::from(starts);
        drop(tasks);
        self.shared.news.notify_one();
        if starts {
            let shared = self.shared.clone();
            // Without it the reading thread does all.
            let _ = spawn("fobs-read-hand", move || {
                hint_scheduler(ThreadDuty::Bulk);
                shared.run();
            });
        }
        Awaited { number, back: awaited }
    }

    /// A lent buffer comes back, unread if no hand has begun with it. `None`: its hand has failed.
    pub(super) fn take_back(&self, awaited: &Awaited) -> Option<Lent> {
        let mut tasks = self.shared.lock();
        // Hands take the oldest first, and so does the reading thread.
        if tasks.waiting.front().is_some_and(|task| task.number == awaited.number) {
            let task = tasks.waiting.pop_front();
            return task.map(|Task { buffer, .. }| Lent { buffer, read: None, cpu_us: 0 });
        }
        drop(tasks);
        awaited.back.recv().ok()
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        let mut tasks = self.shared.lock();
        tasks.over = true;
        tasks.waiting.clear();
        self.shared.news.notify_all();
    }
}

fn cpu_us() -> u64 {
    let (user, system) = thread_times();
    user + system
}
