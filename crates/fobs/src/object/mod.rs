//! Objects over an open session: [`Session`].
//!
//! ```text
//!   turn     one transfer at a time
//!   call     one transfer: what may be asked, and how
//!   names    files by name, without a transfer
//!   hashes   hashes of files and of their pieces
//!   tickets  copies between two other daemons
//!   memory   the caller's memory as a source and as a sink
//! ```

mod call;
mod hashes;
mod memory;
mod names;
mod tickets;
mod turn;

use crate::client::line::Caller;
use crate::client::manner::Manner;
use fobs_engine::Steering;
use fobs_model::cancel::CancelToken;
use fobs_model::error::Result;
use fobs_model::event::{Event, EventSink, Summary};
use fobs_model::listing::Entry;
use fobs_model::options::{Remote, TransferOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use call::Call;
pub use hashes::HashedFile;
pub use names::FreeRoom;
use turn::Turnstile;

/// A session with one server: opened once, then many transfers run over it one after the other, without
/// connecting again.
///
/// Objects are sent from memory and received into it ([`send`](Self::send), [`recv`](Self::recv),
/// [`recv_into`](Self::recv_into)), parts of remote files are read ([`read_range`](Self::read_range)), and
/// files and trees are copied ([`put`](Self::put), [`get`](Self::get)). All calls block. What
/// [`call`](Self::call) returns makes one of them with its own events, options or [`CancelToken`].
///
/// ```no_run
/// use fobs::{Carrier, Remote, Session};
///
/// # fn main() -> fobs::Result<()> {
/// let remote = Remote {
///     carrier: Carrier::Ssh,
///     user: None,
///     host: "archive.example.org".to_owned(),
///     port: None,
///     path: b"results".to_vec(),
/// };
/// let session = Session::builder(remote).open()?;
/// session.send("run-1/parameters", b"seed=7")?;
/// let mut header = [0; 512];
/// let len = session.read_range("run-1/matrix", 0, &mut header)?;
/// println!("{} bytes of header", header[..len].len());
/// let report = session.recv("run-1/report", 1 << 20)?;
/// println!("{}", String::from_utf8_lossy(&report));
/// # Ok(())
/// # }
/// ```
///
/// **Names** are paths at the server, raw bytes, relative to the path of the [`Remote`]; one with a leading
/// `/` stands for itself. An object is a file there: it appears under its name when it is complete, and
/// replaces what was there.
///
/// **Threads.** One transfer runs at a time. A call from another thread waits until the session is free; one
/// about files by name goes over a second connection meanwhile.
///
/// **The connection.** An object of up to 64 KiB, or such a part of a file, takes one round trip; more goes
/// over the data plane, with a secret of its own. Where the connection was lost, between two transfers or in
/// one, the call makes a new one; so it does for each transfer with a server that is too old to keep a
/// connection. A daemon lets a connection rest for five minutes, and may hang up earlier when many rest; over
/// ssh the program there ends with the connection.
///
/// **Errors** of a call leave the session usable, cancellation too.
pub struct Session {
    remote: Remote,
    options: TransferOptions,
    events: Arc<dyn EventSink>,
    caller: Turnstile<Caller>,
    /// For requests while a transfer runs; connected where one is made.
    aside: Turnstile<Caller>,
    /// What cancels the transfer that runs.
    running: Mutex<Option<CancelToken>>,
}

/// What may happen to something that has a name which is to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Onto {
    /// It is replaced.
    Anything,
    /// It stays, and the request fails.
    Nothing,
}

/// What a [`Session`] is made of. Made by [`Session::builder`].
pub struct SessionBuilder {
    remote: Remote,
    options: TransferOptions,
    events: Arc<dyn EventSink>,
    cancel: CancelToken,
    #[cfg(any(test, feature = "testing"))]
    plays_old: bool,
}

impl Session {
    /// Hangs up, as a network does.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn hang_up(&self) {
        let cancel = CancelToken::new();
        self.caller.enter(&cancel, turn::Purpose::Request).expect("not cancelled").hang_up();
    }

    /// A session with the host of `remote`, whose path is where names begin; with default options.
    pub fn builder(remote: Remote) -> SessionBuilder {
        SessionBuilder {
            remote,
            options: TransferOptions::default(),
            events: Arc::new(|_: Event| ()),
            cancel: CancelToken::new(),
            #[cfg(any(test, feature = "testing"))]
            plays_old: false,
        }
    }

    /// One transfer that is made in its own way.
    pub fn call(&self) -> Call<'_> {
        Call::of(self)
    }

    /// Stores `data` as the object `name`.
    ///
    /// # Errors
    /// `Destination` or `Denied` where it cannot be written, `FileIo` where writing failed, and any
    /// [`ErrorKind`](fobs_model::error::ErrorKind) of a transfer.
    pub fn send(&self, name: impl AsRef<[u8]>, data: &[u8]) -> Result<Summary> {
        self.call().send(name, data)
    }

    /// The whole object `name`, of at most `max_bytes`.
    ///
    /// # Errors
    /// `NoSource` or `Denied` where it cannot be read, `Usage` where it is longer, and any
    /// [`ErrorKind`](fobs_model::error::ErrorKind) of a transfer.
    pub fn recv(&self, name: impl AsRef<[u8]>, max_bytes: u64) -> Result<Vec<u8>> {
        self.call().recv(name, max_bytes)
    }

    /// Fills the front of `buffer` with the whole object `name`; returns its length.
    ///
    /// # Errors
    /// As [`recv`](Self::recv). What `buffer` holds then is not specified.
    pub fn recv_into(&self, name: impl AsRef<[u8]>, buffer: &mut [u8]) -> Result<usize> {
        self.call().recv_into(name, buffer)
    }

    /// Fills the front of `buffer` with the bytes of the file `name` from `start` on; returns how many there
    /// are: fewer than `buffer` holds where the file ends, none beyond its end. A file that is written to
    /// meanwhile is read as `pread` would.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), but that no length is too long. `Protocol` at a server that is too old.
    pub fn read_range(&self, name: impl AsRef<[u8]>, start: u64, buffer: &mut [u8]) -> Result<usize> {
        self.call().read_range(name, start, buffer)
    }

    /// Copies files, and directories with [`TransferOptions::recursive`], to `destination` at the server, as
    /// `fobs cp` does. The figures come even where some files failed: see [`Summary::errors`].
    ///
    /// # Errors
    /// Any [`ErrorKind`](fobs_model::error::ErrorKind) but `Partial`: what stopped the whole transfer.
    pub fn put(&self, sources: &[PathBuf], destination: impl AsRef<[u8]>) -> Result<Summary> {
        self.call().put(sources, destination)
    }

    /// Copies what `sources` name at the server to `destination` here, as [`put`](Self::put) does.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get<N: AsRef<[u8]>>(&self, sources: &[N], destination: &Path) -> Result<Summary> {
        self.call().get(sources, destination)
    }

    /// What the directory `name` holds, in no order; links are not followed. At most a million entries.
    ///
    /// # Errors
    /// `NoSource` where it is none or does not exist, `Denied` where the key or the user may not read it,
    /// `RemoteMissing` at a server that is too old.
    pub fn list(&self, name: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        self.call().list(name)
    }

    /// What `name` stands for, through links.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn stat(&self, name: impl AsRef<[u8]>) -> Result<Entry> {
        self.call().stat(name)
    }

    /// How much room there is where `name` is, or would be made.
    ///
    /// # Errors
    /// As [`list`](Self::list); `Denied` for a key that may not both look and store there, `Usage` at a
    /// server that is too old.
    pub fn room(&self, name: impl AsRef<[u8]>) -> Result<FreeRoom> {
        self.call().room(name)
    }

    /// What has the name `name`: of a link the link itself, and what it leads to.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn stat_link(&self, name: impl AsRef<[u8]>) -> Result<Entry> {
        self.call().stat_link(name)
    }

    /// As [`list`](Self::list), with what links lead to.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_links(&self, name: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        self.call().list_links(name)
    }

    /// Everything below the directory `name`, to `depth` levels, in no order: names are paths from there. No
    /// link is entered. At most a million entries.
    ///
    /// # Errors
    /// As [`list`](Self::list), for a directory below too.
    pub fn walk(&self, name: impl AsRef<[u8]>, depth: u32) -> Result<Vec<Entry>> {
        self.call().walk(name, depth)
    }

    /// Gives `name` the name `to`: a link itself, a directory with everything in it. What has that name is
    /// replaced as rename(2) does, or refused with `Destination`; the server decides at that moment.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), for both names; `Usage` into itself or to another file system.
    pub fn rename(&self, name: impl AsRef<[u8]>, to: impl AsRef<[u8]>, onto: Onto) -> Result<()> {
        self.call().rename(name, to, onto)
    }

    /// Copies a file at the server, with its permissions.
    ///
    /// # Errors
    /// As [`read_range`](Self::read_range) and [`remove`](Self::remove).
    pub fn copy(&self, name: impl AsRef<[u8]>, to: impl AsRef<[u8]>, onto: Onto) -> Result<Entry> {
        self.call().copy(name, to, onto)
    }

    /// Sets the time of the last change to now.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn touch(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.call().touch(name)
    }

    /// Whether `name` stands for something that can be looked at.
    ///
    /// # Errors
    /// As [`list`](Self::list), but for `NoSource`.
    pub fn exists(&self, name: impl AsRef<[u8]>) -> Result<bool> {
        self.call().exists(name)
    }

    /// Removes a file, a link (not what it leads to) or an empty directory.
    ///
    /// # Errors
    /// As [`list`](Self::list), where the right to write counts; `Destination` for a directory that is not
    /// empty.
    pub fn remove(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.call().remove(name)
    }

    /// Removes `name` and, where it is a directory, everything in it.
    ///
    /// # Errors
    /// As [`remove`](Self::remove). What was removed before an error is gone.
    pub fn remove_tree(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.call().remove_tree(name)
    }

    /// Makes a directory in one that exists.
    ///
    /// # Errors
    /// As [`remove`](Self::remove); `Destination` where the name exists.
    pub fn make_directory(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.call().make_directory(name)
    }

    /// Makes a directory and those above it, as far as they do not exist.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn make_directories(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.call().make_directories(name)
    }

    /// Has the server hash files, at most a thousand, in pieces of `piece` bytes: for each its hashes, or the
    /// reason why it cannot be read. They fit each other; whether they are true only the bytes show.
    ///
    /// # Errors
    /// As [`list`](Self::list); `Usage` for a length that no piece can have (see
    /// [`pieces`](fobs_store::pieces)).
    pub fn hash<N: AsRef<[u8]>>(&self, names: &[N], piece: u64) -> Result<Vec<Result<HashedFile>>> {
        self.call().hash(names, piece)
    }

    /// Ends the transfer that runs with `ErrorKind::Interrupted`, if one does. Calls that wait,
    /// and later ones, are not touched.
    pub fn cancel(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(token) = running {
            token.cancel();
        }
    }
}

impl SessionBuilder {
    /// Replaces all options. They hold for every transfer; a `sync` is not possible.
    pub fn options(mut self, options: TransferOptions) -> SessionBuilder {
        self.options = options;
        self
    }

    /// Where the events of all transfers go. The sink is called on the threads that work; see [`EventSink`].
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> SessionBuilder {
        self.events = sink;
        self
    }

    /// What ends the wait for the connection.
    pub fn cancel_token(mut self, token: CancelToken) -> SessionBuilder {
        self.cancel = token;
        self
    }

    /// Treats the server as one that keeps no connection.
    #[cfg(any(test, feature = "testing"))]
    pub fn plays_old(mut self) -> SessionBuilder {
        self.plays_old = true;
        self
    }

    /// Connects. With a server that keeps no connection, this is a trial: each transfer makes its own.
    ///
    /// # Errors
    /// `Usage` for options that are not possible, and what keeps the client from the server.
    pub fn open(self) -> Result<Session> {
        #[cfg(any(test, feature = "testing"))]
        let plays_old = self.plays_old;
        let SessionBuilder { remote, options, events, cancel, .. } = self;
        call::check(&options, false)?;
        let mut caller = Caller::new(remote.clone());
        #[cfg(any(test, feature = "testing"))]
        {
            caller.plays_old = plays_old;
        }
        let steering = Steering::new();
        caller.connect(Manner {
            options: &options,
            events: &events,
            cancel: &cancel,
            steering: &steering,
        })?;
        let aside = Turnstile::new(Caller::new(remote.clone()));
        let caller = Turnstile::new(caller);
        Ok(Session { remote, options, events, caller, aside, running: Mutex::new(None) })
    }
}
