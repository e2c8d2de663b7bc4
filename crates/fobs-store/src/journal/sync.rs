//! The thread that has the device keep what was stored, and then says so in the journal. It never stalls the
//! thread that stores.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::book::{Book, Snapshot};
use super::health::Health;
use crate::beneath::open_self;
use crate::identity::Fingerprint;
use crate::keep;
use fobs_sys::confine;

/// How often the device is asked to keep what was stored: what a power cut can cost. Not by bytes: a copy of
/// two seconds would wait for its device (measured: 2 GB into ext4 took 1.1 s without, and 2.7 s with).
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// Most complete files that are synced one by one; with more it is their file systems.
const FILES_MAX: usize = 64;
/// Most file systems below one destination that are synced.
const DEVICES_MAX: usize = 16;

/// A complete file, still open.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Finished {
    pub(super) path: Vec<u8>,
    pub(super) file: Arc<OwnedFd>,
    pub(super) directory: Arc<OwnedFd>,
    pub(super) device: u64,
    /// Its record, counted from the first that its chunk adds to the log; then from the log's first.
    pub(super) index: u64,
}

/// The partial file.
#[derive(Clone)]
pub(super) struct Unfinished {
    pub(super) path: Vec<u8>,
    /// Of its source.
    pub(super) fingerprint: Fingerprint,
    pub(super) file: Arc<OwnedFd>,
    pub(super) directory: Arc<OwnedFd>,
}

/// A file that the device failed to keep.
pub(crate) struct NotKept {
    /// Path within the transfer.
    pub(crate) path: Vec<u8>,
    pub(crate) errno: Errno,
    /// Whether it has its name already.
    pub(crate) is_complete: bool,
}

/// What the storing thread hands over.
#[derive(Default)]
struct Inbox {
    snapshot: Option<Snapshot>,
    unfinished: Option<Unfinished>,
    finished: Finishing,
    not_kept: Vec<NotKept>,
    stop: bool,
}

/// Complete files that are not synced. Holds few of them open, however many they are.
pub(super) enum Finishing {
    Files(Vec<Finished>),
    /// A file of each file system.
    Devices(Vec<(u64, Arc<OwnedFd>)>),
    /// Of more file systems than are counted.
    Everywhere,
}

impl Default for Finishing {
    fn default() -> Self {
        Finishing::Files(Vec::new())
    }
}

impl Finishing {
    /// Counts the records from the log's first on, now that the chunk's first is known.
    pub(super) fn count_from(&mut self, first: u64) {
        if let Finishing::Files(files) = self {
            files.iter_mut().for_each(|file| file.index += first);
        }
    }

    /// Adds all of `other`.
    fn append(&mut self, other: Finishing) {
        match other {
            Finishing::Files(files) => files.into_iter().for_each(|file| self.push(file)),
            Finishing::Devices(devices) => {
                self.forget_files();
                devices.into_iter().for_each(|(device, file)| self.add_device(device, file));
            }
            Finishing::Everywhere => *self = Finishing::Everywhere,
        }
    }

    pub(super) fn push(&mut self, file: Finished) {
        if let Finishing::Files(files) = self {
            if files.len() < FILES_MAX {
                files.push(file);
                return;
            }
            self.forget_files();
        }
        self.add_device(file.device, file.file);
    }

    /// From here on only their file systems count.
    fn forget_files(&mut self) {
        let Finishing::Files(files) = self else { return };
        let files = std::mem::take(files);
        *self = Finishing::Devices(Vec::new());
        files.into_iter().for_each(|file| self.add_device(file.device, file.file));
    }

    fn add_device(&mut self, device: u64, file: Arc<OwnedFd>) {
        let Finishing::Devices(devices) = self else { return };
        if devices.iter().any(|(known, _)| *known == device) {
            return;
        }
        if devices.len() < DEVICES_MAX { devices.push((device, file)) } else { *self = Finishing::Everywhere }
    }
}

struct Shared {
    inbox: Mutex<Inbox>,
    wake: Condvar,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The storing thread's end.
pub(super) struct Syncer {
    shared: Arc<Shared>,
    /// Where a test decides when the device is asked.
    #[cfg(test)]
    by_test: Option<std::sync::Mutex<Worker>>,
}

impl Drop for Syncer {
    /// The thread ends after the call that it is in; its hold of the journal keeps the lock until then.
    fn drop(&mut self) {
        self.shared.inbox().stop = true;
        self.shared.wake.notify_all();
    }
}

impl Syncer {
    /// Starts the thread. `settle`: an open directory of a destination where an earlier run left complete
    /// files that the device may not have kept.
    pub(super) fn start(book: Arc<Book>, health: Health, settle: Option<OwnedFd>) -> std::io::Result<Syncer> {
        let shared = Arc::new(Shared { inbox: Mutex::default(), wake: Condvar::new() });
        let ours = Arc::clone(&shared);
        #[cfg(test)]
        if crate::recorder::is_on() {
            let worker = Worker { book, health, settle, named: None, unknown: false };
            return Ok(Syncer { shared, by_test: Some(Mutex::new(worker)) });
        }
        confine::spawn("fobs-sync", move || {
            let mut worker = Worker { book, health, settle, named: None, unknown: false };
            while let Some(work) = next(&ours) {
                let not_kept = worker.sync(work);
                ours.inbox().not_kept.extend(not_kept);
            }
        })?;
        Ok(Syncer {
            shared,
            #[cfg(test)]
            by_test: None,
        })
    }

    /// Hands over the newest state, and the files that were completed since the last one.
    pub(super) fn hand_over(&self, snapshot: Snapshot, unfinished: Option<Unfinished>, finished: Finishing) {
        let mut inbox = self.shared.inbox();
        inbox.snapshot = Some(snapshot);
        inbox.unfinished = unfinished;
        inbox.finished.append(finished);
        #[cfg(test)]
        if let Some(worker) = &self.by_test
            && crate::recorder::keeps_now() == Some(true)
            && let Some(work) = take_work(&mut inbox)
        {
            let not_kept = worker.lock().unwrap_or_else(PoisonError::into_inner).sync(work);
            inbox.not_kept.extend(not_kept);
        }
    }

    /// The files that the device failed to keep since the last call.
    pub(super) fn take_not_kept(&self) -> Vec<NotKept> {
        std::mem::take(&mut self.shared.inbox().not_kept)
    }
}

struct Work {
    snapshot: Snapshot,
    unfinished: Option<Unfinished>,
    finished: Finishing,
}

/// Waits for the next state to confirm; `None` at the end.
fn next(shared: &Shared) -> Option<Work> {
    loop {
        let (mut inbox, _) = shared
            .wake
            .wait_timeout_while(shared.inbox(), SYNC_EVERY, |inbox| !inbox.stop)
            .unwrap_or_else(PoisonError::into_inner);
        if inbox.stop {
            return None;
        }
        if let Some(work) = take_work(&mut inbox) {
            return Some(work);
        }
    }
}

fn take_work(inbox: &mut Inbox) -> Option<Work> {
    let snapshot = inbox.snapshot.take()?;
    let (unfinished, finished) = (inbox.unfinished.take(), std::mem::take(&mut inbox.finished));
    Some(Work { snapshot, unfinished, finished })
}

struct Worker {
    book: Arc<Book>,
    health: Health,
    settle: Option<OwnedFd>,
    /// The partial file whose name is synced.
    named: Option<Arc<OwnedFd>>,
    /// A file system failed to keep something, without saying what: no further complete file is confirmed.
    unknown: bool,
}

impl Worker {
    /// Has the device keep everything that the snapshot says, and confirms it.
    fn sync(&mut self, work: Work) -> Vec<NotKept> {
        let Work { mut snapshot, unfinished, finished } = work;
        let mut not_kept = Vec::new();
        if let Some(directory) = self.settle.take() {
            // On whatever file systems they are; the second call reports errors.
            keep::all();
            self.device_kept(keep::file_system(&directory));
        }
        match unfinished {
            Some(file) => {
                if let Err(errno) = self.sync_unfinished(&file) {
                    // It may be complete by now: its record, there or to come, does not count.
                    self.book.disown(&file.fingerprint, snapshot.slot.records);
                    not_kept.push(NotKept { path: file.path, errno, is_complete: false });
                    snapshot.slot.current = None;
                    self.note(errno);
                }
            }
            None => snapshot.slot.current = None,
        }
        match finished {
            Finishing::Files(files) => {
                for file in files {
                    if let Err(errno) = keep::file(&file.file).and_then(|()| sync_directory(&file.directory))
                    {
                        self.book.withdraw(file.index);
                        not_kept.push(NotKept { path: file.path, errno, is_complete: true });
                        self.note(errno);
                    }
                }
            }
            Finishing::Devices(devices) => {
                devices.iter().for_each(|(_, file)| self.device_kept(keep::file_system(file)));
            }
            Finishing::Everywhere => keep::all(),
        }
        // What cannot be confirmed is stored again after a power cut, and only then.
        if !self.unknown {
            let _ = self.book.confirm(&snapshot);
        }
        not_kept
    }

    /// A file system has kept everything, or has not, and does not say what.
    fn device_kept(&mut self, done: Result<(), Errno>) {
        if let Err(errno) = done {
            self.unknown = true;
            self.note(errno);
        }
    }

    /// What fails for one file may have failed for those that are not asked for yet.
    fn note(&self, errno: Errno) {
        self.health.note(errno);
    }

    fn sync_unfinished(&mut self, unfinished: &Unfinished) -> Result<(), Errno> {
        keep::content(&unfinished.file)?;
        if !self.named.as_ref().is_some_and(|named| Arc::ptr_eq(named, &unfinished.file)) {
            sync_directory(&unfinished.directory)?;
            self.named = Some(Arc::clone(&unfinished.file));
        }
        Ok(())
    }
}

/// Syncs the names in a directory, of which `directory` may be a handle that cannot be read.
fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    keep::file(open_self(directory)?)
}
