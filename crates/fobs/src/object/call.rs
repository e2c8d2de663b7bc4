//! One transfer over a session.

use super::Session;
use super::memory::{Bounded, Buffer, drain, feed, spawn, too_long};
use super::turn::{Purpose, Turn};
use crate::client::line::{Attempted, Caller, Task};
use crate::client::manner::Manner;
use crate::client::{make_sink, make_source, sender_options};
use crate::direct::DIRECT_DATA_MAX;
use fobs_engine::Steering;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{EventSink, Summary};
use fobs_model::listing::FileStamp;
use fobs_model::message::files::FileRequest;
use fobs_model::message::{ByteRange, Bytes, NAMES};
use fobs_model::options::{PickedNames, TransferOptions};
use fobs_store::{Sink, Source, SourceShape, changed, show_path, top_names};
use std::cell::Cell;
use std::io::{Cursor, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// One transfer that is made in its own way. Made by [`Session::call`].
pub struct Call<'s> {
    pub(super) session: &'s Session,
    options: Option<TransferOptions>,
    events: Arc<dyn EventSink>,
    cancel: CancelToken,
    steering: Steering,
    stamp: Option<FileStamp>,
    pub(super) picked: Option<PickedNames>,
}

/// Refuses options that no transfer of a session can have.
pub(super) fn check(options: &TransferOptions, picks: bool) -> Result<()> {
    if options.sync.is_some() && !picks {
        let message = "a session has no sync; use a Transfer for it";
        return Err(Error::new(ErrorKind::Usage, message));
    }
    sender_options(options)
}

impl<'s> Call<'s> {
    pub(super) fn of(session: &'s Session) -> Call<'s> {
        let (events, cancel, steering) = (session.events.clone(), CancelToken::new(), Steering::new());
        Call { session, options: None, events, cancel, steering, stamp: None, picked: None }
    }

    /// How this transfer is made, instead of the session's options. What says how to connect counts only
    /// where the call has to.
    pub fn options(mut self, options: TransferOptions) -> Call<'s> {
        self.options = Some(options);
        self
    }

    /// Where the events of this transfer go.
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> Call<'s> {
        self.events = sink;
        self
    }

    /// A token that also cancels this transfer, or its wait for the session.
    pub fn cancel_token(mut self, token: CancelToken) -> Call<'s> {
        self.cancel = token;
        self
    }

    /// What changes this transfer while it runs.
    pub fn steering(mut self, steering: Steering) -> Call<'s> {
        self.steering = steering;
        self
    }

    /// What a file must be, before and after a range of it is read: that of the file when it was opened, of
    /// which other ranges were read. Else `FileIo`.
    pub fn stamp(mut self, stamp: FileStamp) -> Call<'s> {
        self.stamp = Some(stamp);
        self
    }

    /// Only these names of the one directory that is put, got or fetched, which ends in `/`: links as links,
    /// directories without what is in them, and what is there already is not sent.
    pub fn picked(mut self, picked: PickedNames) -> Call<'s> {
        self.picked = Some(picked);
        self
    }

    /// See [`Session::send`].
    ///
    /// # Errors
    /// Its.
    pub fn send(self, name: impl AsRef<[u8]>, data: &[u8]) -> Result<Summary> {
        let destination = self.path(name.as_ref());
        // What is in the caller's memory is not gone on with, but sent again.
        let options = TransferOptions { no_partial: true, ..self.chosen() };
        let compress = options.compress;
        let names = Vec::new();
        if data.len() <= DIRECT_DATA_MAX {
            let mut source = || Source::from_stream(Box::new(Cursor::new(data.to_vec())), compress);
            let task = Task::Push { source: &mut source, names, destination, attempted: Attempted::Direct };
            return self.run(task, &options).and_then(whole);
        }
        let sent = std::thread::scope(|scope| {
            let mut source = || {
                let (feed, feeder) = feed(data.len());
                spawn(scope, move || feeder.run(data))?;
                Source::from_stream(Box::new(feed), compress)
            };
            let task = Task::Push { source: &mut source, names, destination, attempted: Attempted::Sealed };
            self.run(task, &options)
        });
        sent.and_then(whole)
    }

    /// See [`Session::recv`].
    ///
    /// # Errors
    /// Its.
    pub fn recv(self, name: impl AsRef<[u8]>, max_bytes: u64) -> Result<Vec<u8>> {
        self.bounded(name.as_ref(), ByteRange { start: 0, len: max_bytes, whole: true, stamp: None })
    }

    /// See [`Session::recv_into`].
    ///
    /// # Errors
    /// Its.
    pub fn recv_into(self, name: impl AsRef<[u8]>, buffer: &mut [u8]) -> Result<usize> {
        let range = ByteRange { start: 0, len: buffer.len() as u64, whole: true, stamp: None };
        self.fill(name.as_ref(), range, buffer)
    }

    /// See [`Session::read_range`].
    ///
    /// # Errors
    /// Its.
    pub fn read_range(self, name: impl AsRef<[u8]>, start: u64, buffer: &mut [u8]) -> Result<usize> {
        let range = ByteRange { start, len: buffer.len() as u64, whole: false, stamp: self.stamp };
        self.fill(name.as_ref(), range, buffer)
    }

    /// Stores what a reader gives as the object `name`; `open` makes one for each attempt, and `len` is how
    /// much it will be. For a caller whose memory is not a slice: what is read goes straight into the chunk
    /// that is sent.
    ///
    /// # Errors
    /// As [`send`](Self::send), and `FileIo` where a reader fails.
    pub fn send_from(
        self,
        name: impl AsRef<[u8]>,
        len: u64,
        open: &mut dyn FnMut() -> Box<dyn Read + Send>,
    ) -> Result<Summary> {
        let destination = self.path(name.as_ref());
        let options = TransferOptions { no_partial: true, ..self.chosen() };
        let compress = options.compress;
        let is_small = len <= DIRECT_DATA_MAX as u64;
        let attempted = if is_small { Attempted::Direct } else { Attempted::Sealed };
        let mut source = || Source::from_stream(open(), compress);
        let task = Task::Push { source: &mut source, names: Vec::new(), destination, attempted };
        self.run(task, &options).and_then(whole)
    }

    /// Hands the whole object `name`, of at most `max_bytes`, to a writer; `open` makes one for each attempt,
    /// and what an earlier one was given counts no more. Returns its length.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and `FileIo` where a writer fails.
    pub fn recv_to(
        self,
        name: impl AsRef<[u8]>,
        max_bytes: u64,
        open: &mut dyn FnMut() -> Box<dyn Write + Send>,
    ) -> Result<u64> {
        self.pour(name.as_ref(), ByteRange { start: 0, len: max_bytes, whole: true, stamp: None }, open)
    }

    /// Hands the bytes of the file `name` from `start` on to a writer, at most `len`, as
    /// [`recv_to`](Self::recv_to) does.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range), and `FileIo` where a writer fails.
    pub fn read_range_to(
        self,
        name: impl AsRef<[u8]>,
        start: u64,
        len: u64,
        open: &mut dyn FnMut() -> Box<dyn Write + Send>,
    ) -> Result<u64> {
        let range = ByteRange { start, len, whole: false, stamp: self.stamp };
        self.pour(name.as_ref(), range, open)
    }

    /// As [`read_range_to`](Self::read_range_to), for a writer that keeps what it was given: `open` returns
    /// with it from where on it needs bytes, up to `end`, so that an attempt goes on where the one before it
    /// stopped. Returns how many bytes the last attempt gave.
    ///
    /// # Errors
    /// As [`read_range_to`](Self::read_range_to).
    pub fn read_range_on(
        self,
        name: impl AsRef<[u8]>,
        end: u64,
        open: &mut dyn FnMut() -> (u64, Box<dyn Write + Send>),
    ) -> Result<u64> {
        let (path, options) = (self.path(name.as_ref()), self.chosen());
        let stamp = self.stamp;
        let range = Cell::new(ByteRange { start: 0, len: end, whole: false, stamp });
        let mut sink = |_| {
            let (start, writer) = open();
            range.set(ByteRange { start, len: end.saturating_sub(start), whole: false, stamp });
            Sink::to_stream(writer, SourceShape::Stream)
        };
        let task = Task::Pull { paths: vec![path], sink: &mut sink, range: Some(&range) };
        self.run(task, &options).and_then(one).map(|summary| summary.bytes)
    }

    fn pour(
        self,
        name: &[u8],
        range: ByteRange,
        open: &mut dyn FnMut() -> Box<dyn Write + Send>,
    ) -> Result<u64> {
        let (path, options) = (self.path(name), self.chosen());
        let mut sink = |_| Sink::to_stream(open(), SourceShape::Stream);
        let task = Task::Pull { paths: vec![path], sink: &mut sink, range: Some(&Cell::new(range)) };
        self.run(task, &options).and_then(one).map(|summary| summary.bytes)
    }

    /// See [`Session::put`].
    ///
    /// # Errors
    /// Its.
    pub fn put(self, sources: &[PathBuf], destination: impl AsRef<[u8]>) -> Result<Summary> {
        let destination = self.path(destination.as_ref());
        let options = self.picking();
        let paths: Vec<Vec<u8>> = sources.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        let names = top_names(&paths);
        let mut source = || make_source(&paths, &options);
        let task = Task::Push { source: &mut source, names, destination, attempted: Attempted::Direct };
        self.run(task, &options)
    }

    /// See [`Session::get`].
    ///
    /// # Errors
    /// Its.
    pub fn get<N: AsRef<[u8]>>(self, sources: &[N], destination: &Path) -> Result<Summary> {
        let paths: Vec<Vec<u8>> = sources.iter().map(|name| self.path(name.as_ref())).collect();
        let options = self.picking();
        let made = destination.symlink_metadata().is_err();
        let remote = self.session.remote.clone();
        let mut sink = |id| make_sink(&paths, destination, &remote, &options, id);
        let got = self.run(Task::Pull { paths: paths.clone(), sink: &mut sink, range: None }, &options);
        if got.is_err() && made {
            // Only an empty directory goes: what an attempt stored stays.
            let _ = std::fs::remove_dir(destination);
        }
        got
    }

    /// A part of a file in the caller's buffer.
    fn fill(self, name: &[u8], range: ByteRange, buffer: &mut [u8]) -> Result<usize> {
        if buffer.len() <= DIRECT_DATA_MAX {
            let bytes = self.bounded(name, range)?;
            buffer[..bytes.len()].copy_from_slice(&bytes);
            return Ok(bytes.len());
        }
        let (path, options) = (self.path(name), self.chosen());
        let shared = Mutex::new(Buffer::new(buffer));
        let got = std::thread::scope(|scope| {
            let mut sink = |_| {
                let (drain, drained) = drain();
                spawn(scope, || {
                    // That of an attempt before is let go when its sink is.
                    drained.run(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
                })?;
                Sink::to_stream(Box::new(drain), SourceShape::Stream)
            };
            self.run(
                Task::Pull { paths: vec![path], sink: &mut sink, range: Some(&Cell::new(range)) },
                &options,
            )
        });
        let buffer = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        if buffer.is_short {
            return Err(too_long(&show_path(name), range.len));
        }
        got.and_then(one).map(|_| buffer.filled)
    }

    /// A part of a file in memory of its own.
    fn bounded(self, name: &[u8], range: ByteRange) -> Result<Vec<u8>> {
        let (path, options) = (self.path(name), self.chosen());
        let bounded = Bounded::new(range.len);
        let mut sink = |_| Sink::to_stream(Box::new(bounded.restart()), SourceShape::Stream);
        let task = Task::Pull { paths: vec![path], sink: &mut sink, range: Some(&Cell::new(range)) };
        let got = self.run(task, &options);
        if bounded.is_short() {
            return Err(too_long(&show_path(name), range.len));
        }
        got.and_then(one)?;
        Ok(bounded.take())
    }

    fn run(self, task: Task<'_>, options: &TransferOptions) -> Result<Summary> {
        let ranged = match (&task, self.stamp) {
            (Task::Pull { paths, range: Some(_), .. }, Some(stamp)) => {
                paths.first().cloned().zip(Some(stamp))
            }
            _ => None,
        };
        self.with_caller(options, |caller, manner| {
            let summary = caller.run(task, manner)?;
            if let Some((path, stamp)) = ranged
                && !caller.knows(NAMES)
            {
                // A server that looks at no stamp is asked, after it has read.
                let found =
                    caller.ask(&FileRequest::Stat { path: Bytes(path.clone()), links: false }, manner)?;
                if !found.first().is_some_and(|now| stamp.fits(&now.stamp())) {
                    return Err(changed(&show_path(&path)));
                }
            }
            Ok(summary)
        })
    }

    /// Uses the connection once it is free.
    pub(super) fn with_caller<R>(
        self,
        options: &TransferOptions,
        act: impl FnOnce(&mut Caller, Manner<'_>) -> Result<R>,
    ) -> Result<R> {
        check(options, self.picked.is_some())?;
        let caller = self.session.caller.enter(&self.cancel, Purpose::Transfer)?;
        self.with_turn(caller, options, act)
    }

    /// Likewise, without waiting for a transfer that runs: then over a second connection, which is made where
    /// it is needed. One that cannot be made costs the wait.
    pub(super) fn beside_transfers<R>(
        self,
        options: &TransferOptions,
        act: impl FnOnce(&mut Caller, Manner<'_>) -> Result<R>,
    ) -> Result<R> {
        check(options, self.picked.is_some())?;
        if let Some(caller) = self.session.caller.enter_unless_transfer(&self.cancel)? {
            return self.with_turn(caller, options, act);
        }
        let mut aside = self.session.aside.enter(&self.cancel, Purpose::Request)?;
        let (events, cancel, steering) = (&self.events, &self.cancel, &self.steering);
        match aside.connect(Manner { options, events, cancel, steering }) {
            Ok(()) => self.with_turn(aside, options, act),
            Err(_) => {
                drop(aside);
                self.cancel.check()?;
                self.with_caller(options, act)
            }
        }
    }

    fn with_turn<R>(
        self,
        mut caller: Turn<'_, Caller>,
        options: &TransferOptions,
        act: impl FnOnce(&mut Caller, Manner<'_>) -> Result<R>,
    ) -> Result<R> {
        let Call { session, events, cancel, steering, .. } = self;
        // Made anew for the transfer, so that `Session::cancel` ends no other one that shares the caller's.
        let token = CancelToken::new();
        let above = token.clone();
        let _hook = cancel.on_cancel(move || above.cancel());
        let _running = Running::of(session, &token);
        act(&mut caller, Manner { options, events: &events, cancel: &token, steering: &steering })
    }

    /// The options of a transfer of files, with the names that it is about.
    fn picking(&self) -> TransferOptions {
        let options = self.chosen();
        let sync = self.picked.clone().map(PickedNames::sync).or_else(|| options.sync.clone());
        TransferOptions { sync, ..options }
    }

    pub(super) fn chosen(&self) -> TransferOptions {
        self.options.clone().unwrap_or_else(|| self.session.options.clone())
    }

    /// A name as a path at the server.
    pub(super) fn path(&self, name: &[u8]) -> Vec<u8> {
        let base = &self.session.remote.path;
        match (base.is_empty() || name.starts_with(b"/"), base.ends_with(b"/")) {
            (true, _) => name.to_vec(),
            (false, true) => [base, name].concat(),
            (false, false) => [base, &b"/"[..], name].concat(),
        }
    }
}

/// Notes the token of the transfer that runs.
struct Running<'s>(&'s Session);

impl<'s> Running<'s> {
    fn of(session: &'s Session, token: &CancelToken) -> Running<'s> {
        *session.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Running(session)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What was received is one object, if it may be empty.
fn one(summary: Summary) -> Result<Summary> {
    let summary = whole(summary)?;
    match summary.files {
        1 => Ok(summary),
        count => {
            let message = format!(
                "the server sent {count} files where one object was asked for; install the same version on both sides"
            );
            Err(Error::new(ErrorKind::Protocol, message))
        }
    }
}

/// An object is moved or not: what failed of it is the error.
fn whole(summary: Summary) -> Result<Summary> {
    match summary.errors.first() {
        Some(failed) => Err(Error::new(ErrorKind::FileIo, failed.message.clone())),
        None => Ok(summary),
    }
}
