//! What a receiver does to its file system, call by call, for the tests of power cuts: those of the test's
//! own thread, where it asked for that. And what such a test decides: which inodes files seem to have, under
//! which mount, and when the device is asked to keep what was stored.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::AsFd;

use fobs_model::name::Component;
use fobs_rng::Rng;
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

/// A file, directory or link, by the inode that it seems to have.
pub type Id = u64;

/// Inodes of a recording that are not known: their numbers are its own, whatever the file system gives again.
const FRESH_SHIFT: u32 = 44;

/// When a file was made, where its file system says.
pub type Birth = Option<(i64, u32)>;

/// A call that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A new file, directory or link has a name.
    Make {
        directory: Id,
        name: Vec<u8>,
        made: Id,
        what: Made,
        mode: u32,
        birth: Birth,
    },
    Link {
        file: Id,
        directory: Id,
        name: Vec<u8>,
    },
    Rename {
        directory: Id,
        name: Vec<u8>,
        to: Id,
        new: Vec<u8>,
    },
    /// Of a file or a link, or an empty directory.
    Unlink {
        directory: Id,
        name: Vec<u8>,
    },
    Write {
        file: Id,
        offset: u64,
        data: Vec<u8>,
    },
    Truncate {
        file: Id,
        len: u64,
    },
    Mode {
        file: Id,
        mode: u32,
    },
    Times {
        file: Id,
        seconds: i64,
        nanoseconds: u64,
    },
    /// The device keeps a file or a directory; of a file perhaps only what is needed to read it.
    Sync {
        file: Id,
        only_data: bool,
    },
    SyncAll,
    /// It could not keep a file: what was not asked for before is lost, and no later call asks for it again.
    SyncFailed {
        file: Id,
    },
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    File,
    Directory,
    Symlink(Vec<u8>),
}

/// What a test decides, and what was noted.
pub struct Recording {
    /// Under which mount the destination is.
    pub mount: u8,
    /// Inode and birth that files seem to have, by their real inode.
    pub known: HashMap<u64, (Id, Birth)>,
    /// Number of the recording, from 1.
    pub number: u64,
    /// Draws when the device is asked to keep what was stored.
    pub coin: Rng,
    pub ops: Vec<Op>,
}

thread_local! {
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Notes this thread's calls from now on.
pub fn begin(recording: Recording) {
    RECORDING.set(Some(recording));
}

/// Ends that; what was noted.
pub fn end() -> Recording {
    RECORDING.take().expect("it was begun")
}

fn with<T>(act: impl FnOnce(&mut Recording) -> T) -> Option<T> {
    RECORDING.with_borrow_mut(|recording| recording.as_mut().map(act))
}

/// Notes what a call did, if it succeeded.
pub fn note<T>(done: &Result<T, Errno>, op: impl FnOnce() -> Op) {
    if done.is_ok() && with(|_| ()).is_some() {
        let op = op();
        with(|recording| recording.ops.push(op));
    }
}

/// The inode that a file seems to have.
pub fn seen(real: u64) -> Id {
    with(|recording| {
        recording.known.get(&real).map_or(real | recording.number << FRESH_SHIFT, |known| known.0)
    })
    .unwrap_or(real)
}

/// When it seems to have been made.
pub fn birth(held: impl AsFd) -> Birth {
    let real = fstat(held).ok()?.st_ino;
    with(|recording| recording.known.get(&real).and_then(|known| known.1)).flatten()
}

/// What an open file is.
pub fn id(file: impl AsFd) -> Id {
    seen(fstat(file).expect("it is open").st_ino)
}

/// Something new has a name; it is `found` there.
pub fn made<T>(
    done: &Result<T, Errno>,
    directory: impl AsFd,
    name: Component<'_>,
    what: Made,
    found: impl FnOnce() -> (Stat, Birth),
) {
    note(done, || {
        let (found, birth) = found();
        // A number that is given again is another file's now.
        with(|recording| recording.known.remove(&found.st_ino));
        let (directory, made) = (id(directory), seen(found.st_ino));
        let (name, mode) = (name.as_bytes().to_vec(), found.st_mode & 0o7777);
        Op::Make { directory, name, made, what, mode, birth }
    });
}

/// A file got another mode.
pub fn mode<T>(done: &Result<T, Errno>, file: impl AsFd) {
    note(done, || {
        let found = fstat(&file).expect("it is open");
        Op::Mode { file: seen(found.st_ino), mode: found.st_mode & 0o7777 }
    });
}

/// A file got other times.
pub fn times<T>(done: &Result<T, Errno>, file: impl AsFd) {
    note(done, || {
        let found = fstat(&file).expect("it is open");
        Op::Times { file: seen(found.st_ino), seconds: found.st_mtime, nanoseconds: found.st_mtime_nsec }
    });
}

/// A name became another one.
pub fn renamed<T>(
    done: &Result<T, Errno>,
    (directory, name): (impl AsFd, Component<'_>),
    (to, new): (impl AsFd, Component<'_>),
) {
    note(done, || Op::Rename {
        directory: id(directory),
        name: name.as_bytes().to_vec(),
        to: id(to),
        new: new.as_bytes().to_vec(),
    });
}

/// A name is gone.
pub fn unlinked<T>(done: &Result<T, Errno>, directory: impl AsFd, name: Component<'_>) {
    note(done, || Op::Unlink { directory: id(directory), name: name.as_bytes().to_vec() });
}

/// A file has one more name.
pub fn linked<T>(done: &Result<T, Errno>, held: impl AsFd, directory: impl AsFd, name: Component<'_>) {
    note(done, || Op::Link { file: id(held), directory: id(directory), name: name.as_bytes().to_vec() });
}

/// A part of this was written.
pub fn written(done: &Result<usize, Errno>, file: impl AsFd, data: &[u8], offset: u64) {
    note(done, || {
        let len = done.map_or(0, |len| len);
        Op::Write { file: id(file), offset, data: data[..len].to_vec() }
    });
}

/// A file has another length.
pub fn truncated<T>(done: &Result<T, Errno>, file: impl AsFd, len: u64) {
    note(done, || Op::Truncate { file: id(file), len });
}

/// The device was asked to keep a file.
pub fn synced<T>(done: &Result<T, Errno>, file: impl AsFd, only_data: bool) {
    note(done, || Op::Sync { file: id(file), only_data });
}

/// The mount that the test decided on.
pub fn mount() -> Option<[u8; 16]> {
    with(|recording| [recording.mount; 16])
}

/// The device could not keep a file.
pub fn not_synced(file: impl AsFd) {
    note(&Ok(()), || Op::SyncFailed { file: id(file) });
}

/// The device was asked to keep everything.
pub fn all_synced<T>(done: &Result<T, Errno>) {
    note(done, || Op::SyncAll);
}

/// Whether a state is to be kept at once, where the test decides that; no thread does it then.
pub fn keeps_now() -> Option<bool> {
    with(|recording| recording.coin.below(3) == 0)
}

/// The calls so far.
pub fn noted() -> Vec<Op> {
    with(|recording| recording.ops.clone()).unwrap_or_default()
}

/// Whether a test decides.
pub fn is_on() -> bool {
    with(|_| ()).is_some()
}
