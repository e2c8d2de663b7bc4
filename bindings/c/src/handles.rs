//! What a number stands for.

use fobs::{Error, ErrorKind, Result, Session, Stream, TransferOptions};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most handles of a kind: more are a leak of the caller's.
const HANDLES_MAX: usize = 10_000;

/// Things and their numbers; numbers begin at 1 and are never used again.
pub(crate) struct Table<T> {
    next: AtomicU64,
    things: Mutex<Option<HashMap<u64, T>>>,
    kind: &'static str,
}

/// An open session, and the process that opened it.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) session: Arc<Session>,
    process: u32,
}

/// A stream, likewise.
#[derive(Clone)]
pub(crate) struct OpenStream {
    stream: Arc<Stream>,
    process: u32,
}

pub(crate) static STREAMS: Table<OpenStream> = Table::new("stream");
pub(crate) static SESSIONS: Table<Opened> = Table::new("session");
pub(crate) static OPTIONS: Table<TransferOptions> = Table::new("set of options");

impl Opened {
    pub(crate) fn new(session: Session) -> Opened {
        Opened { session: Arc::new(session), process: std::process::id() }
    }
}

impl OpenStream {
    pub(crate) fn new(stream: Stream) -> OpenStream {
        OpenStream { stream: Arc::new(stream), process: std::process::id() }
    }

    fn of_this_process(self) -> Result<Arc<Stream>> {
        if self.process == std::process::id() {
            return Ok(self.stream);
        }
        std::mem::forget(self.stream);
        let message = "the stream was opened before this process was forked; open one here";
        Err(Error::new(ErrorKind::Usage, message))
    }
}

/// A stream of this process.
pub(crate) fn stream(number: u64) -> Result<Arc<Stream>> {
    STREAMS.get(number)?.of_this_process()
}

/// Likewise, whose number stands for nothing from now on.
pub(crate) fn take_stream(number: u64) -> Result<Arc<Stream>> {
    STREAMS.take(number)?.of_this_process()
}

impl<T: Clone> Table<T> {
    const fn new(kind: &'static str) -> Table<T> {
        Table { next: AtomicU64::new(1), things: Mutex::new(None), kind }
    }

    pub(crate) fn add(&self, thing: T) -> Result<u64> {
        let mut things = self.things();
        let things = things.get_or_insert_with(HashMap::new);
        if things.len() >= HANDLES_MAX {
            let message = format!("there are {HANDLES_MAX} handles of this kind already; close some");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        things.insert(number, thing);
        Ok(number)
    }

    pub(crate) fn get(&self, number: u64) -> Result<T> {
        let found = self.things().as_ref().and_then(|things| things.get(&number).cloned());
        found.ok_or_else(|| self.unknown(number))
    }

    /// Changes the thing itself.
    pub(crate) fn change<R>(&self, number: u64, act: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let mut things = self.things();
        match things.as_mut().and_then(|things| things.get_mut(&number)) {
            Some(thing) => act(thing),
            None => Err(self.unknown(number)),
        }
    }

    pub(crate) fn take(&self, number: u64) -> Result<T> {
        let found = self.things().as_mut().and_then(|things| things.remove(&number));
        found.ok_or_else(|| self.unknown(number))
    }

    fn things(&self) -> MutexGuard<'_, Option<HashMap<u64, T>>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, number: u64) -> Error {
        let message = format!("there is no {} {number}: it was closed before, or never opened", self.kind);
        Error::new(ErrorKind::Usage, message)
    }
}

/// An open session of this process.
pub(crate) fn session(number: u64) -> Result<Arc<Session>> {
    let Opened { session, process } = SESSIONS.get(number)?;
    if process == std::process::id() {
        return Ok(session);
    }
    std::mem::forget(session);
    let message = "the session was opened before this process was forked; open one here";
    Err(Error::new(ErrorKind::Usage, message))
}

/// Ends a session; in a process that was forked from the one that opened it, only its number.
pub(crate) fn close(number: u64) -> Result<()> {
    let opened = SESSIONS.take(number)?;
    if opened.process != std::process::id() {
        std::mem::forget(opened);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_one_thing_and_once() {
        let table: Table<u32> = Table::new("number");
        let (first, second) = (table.add(1).unwrap(), table.add(2).unwrap());
        assert_eq!((table.get(first), table.take(first)), (Ok(1), Ok(1)));
        for wrong in [first, 0, u64::MAX] {
            assert_eq!(table.take(wrong).unwrap_err().kind, ErrorKind::Usage);
        }
        assert_ne!(table.add(3).unwrap(), first);
        assert_eq!(table.change(second, |thing| Ok(std::mem::replace(thing, 9))), Ok(2));
        assert_eq!(table.get(second), Ok(9));
    }

    #[test]
    fn handles_are_bounded() {
        let table: Table<()> = Table::new("thing");
        for _ in 0..HANDLES_MAX {
            table.add(()).unwrap();
        }
        assert!(table.add(()).is_err());
        table.take(1).unwrap();
        table.add(()).unwrap();
    }
}
