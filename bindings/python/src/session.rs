//! Sessions: what transfers over them, and what they say and change by name.

use crate::exception::raise;
use crate::job::{Job, Tools};
use crate::lent::{Cursor, Growing, Lent, Use};
use crate::named::{Named, Paths, with};
use crate::parts::{Expected, Part};
use crate::queue::{Queue, spawn};
use crate::values::{Value, summary};
use fobs::{
    Call, Error, ErrorKind, FileStamp, Onto, PublicKey, Remote, Result, Session, SignedTicket,
    TransferOptions, location,
};
use pyo3::prelude::*;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Size, time in nanoseconds and inode of the file that is read in parts.
type Stamp = (u64, i64, u64);

const SECOND_NS: i64 = 1_000_000_000;

/// A session, and what opens it.
#[pyclass(frozen, module = "fobs._fobs")]
pub(crate) struct Core {
    remote: Remote,
    options: TransferOptions,
    /// The process that made it: a connection is of one process.
    process: u32,
    state: Arc<Mutex<CoreState>>,
    /// Transfers, which run one after the other, and requests, which pass them.
    transfers: Arc<Queue>,
    requests: Arc<Queue>,
}

/// Which calls one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Transfers,
    Requests,
}

enum CoreState {
    New,
    Open(Arc<Session>),
    Closed,
}

#[pymethods]
impl Core {
    #[new]
    fn new(py: Python<'_>, url: Vec<u8>, options: Named) -> PyResult<Core> {
        let options = with(TransferOptions::default(), &options).map_err(|error| raise(py, &error))?;
        let remote = location::host(OsStr::from_bytes(&url)).map_err(|error| raise(py, &error))?;
        let state = Arc::new(Mutex::new(CoreState::New));
        let process = std::process::id();
        Ok(Core { remote, options, process, state, transfers: Arc::default(), requests: Arc::default() })
    }

    /// Connects.
    fn open(&self, py: Python<'_>) -> PyResult<Job> {
        self.check_process(py)?;
        let (remote, options, state) = (self.remote.clone(), self.options.clone(), self.state.clone());
        Job::start(py, None, None, move |tools: Tools| {
            let builder = Session::builder(remote).options(options).cancel_token(tools.cancel);
            let session = Arc::new(builder.events(tools.events).open()?);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*state, CoreState::New) {
                *state = CoreState::Open(session);
            }
            Ok(Value::Nothing)
        })
    }

    /// Ends the connection once no job uses it; `None` where there is none.
    fn close(&self, py: Python<'_>) -> PyResult<Option<Job>> {
        // After a fork the connection is the other process's, and its locks may be held for ever.
        if self.process != std::process::id() {
            return Ok(None);
        }
        let CoreState::Open(session) = self.take() else { return Ok(None) };
        let ended = Job::start(py, None, None, move |_| {
            drop(session);
            Ok(Value::Nothing)
        });
        ended.map(Some)
    }

    fn put(&self, py: Python<'_>, sources: Paths, name: Vec<u8>, options: Named) -> PyResult<Job> {
        let sources: Vec<PathBuf> = sources.into_iter().map(path_of).collect();
        self.start(py, Lane::Transfers, &options, None, move |call| call.put(&sources, name).map(summary))
    }

    fn get(&self, py: Python<'_>, names: Paths, destination: Vec<u8>, options: Named) -> PyResult<Job> {
        let destination = path_of(destination);
        self.start(py, Lane::Transfers, &options, None, move |call| {
            call.get(&names, &destination).map(summary)
        })
    }

    /// The bytes from `start` to `end` of a remote file, at their place in the file at `path`, which exists.
    /// Each piece that the device has kept gets a line in `journal`. Returns how many bytes were written.
    /// `expected` is the values of the pieces and whether the part is a whole file of one piece: no other
    /// bytes are written then.
    #[expect(clippy::too_many_arguments, reason = "as Python gives them")]
    fn get_part(
        &self,
        py: Python<'_>,
        name: Vec<u8>,
        path: Vec<u8>,
        journal: Vec<u8>,
        start: u64,
        end: u64,
        piece: u64,
        expected: Option<(Vec<[u8; 32]>, bool)>,
        options: Named,
    ) -> PyResult<Job> {
        let expected = expected.map(|(values, is_whole)| Expected { values, is_whole });
        let part = Part::new(path_of(path), path_of(journal), (start, end), piece, expected);
        let part = part.map_err(|error| raise(py, &error))?;
        self.start(py, Lane::Transfers, &options, None, move |call| {
            let mut open = || part.writer();
            let shown = String::from_utf8_lossy(&name).into_owned();
            call.read_range_on(name, end, &mut open).map_err(|error| match part.differs() {
                Some(at) => {
                    let message = format!(
                        "'{shown}' has other bytes from {at} on than the hash of the file that was agreed on"
                    );
                    Error::new(ErrorKind::Integrity, message)
                }
                None => error,
            })?;
            part.finish().map(Value::Count)
        })
    }

    fn put_bytes(
        &self,
        py: Python<'_>,
        name: Vec<u8>,
        data: &Bound<'_, PyAny>,
        options: Named,
    ) -> PyResult<Job> {
        let lent = Lent::of(data, Use::Read)?;
        let loan = lent.loan.clone();
        self.start(py, Lane::Transfers, &options, Some(lent), move |call| {
            let mut open = || Box::new(Cursor::of(&loan)) as Box<dyn Read + Send>;
            call.send_from(name, loan.len() as u64, &mut open).map(summary)
        })
    }

    /// Fills the front of a buffer: with all of the object, or from `start` on, of the file that has `stamp`.
    #[pyo3(signature = (name, buffer, start, stamp, options))]
    fn get_into(
        &self,
        py: Python<'_>,
        name: Vec<u8>,
        buffer: &Bound<'_, PyAny>,
        start: Option<u64>,
        stamp: Option<Stamp>,
        options: Named,
    ) -> PyResult<Job> {
        let lent = Lent::of(buffer, Use::Fill)?;
        let loan = lent.loan.clone();
        self.start(py, Lane::Transfers, &options, Some(lent), move |call| {
            let mut open = || Box::new(Cursor::of(&loan)) as Box<dyn Write + Send>;
            let room = loan.len() as u64;
            let filled = match start {
                None => call.recv_to(name, room, &mut open),
                Some(start) => stamped(call, stamp).read_range_to(name, start, room, &mut open),
            };
            filled.map(Value::Count)
        })
    }

    /// Bytes of an object: all of it, or `length` from `start` on, of the file that has `stamp`.
    #[pyo3(signature = (name, start, length, stamp, options))]
    fn get_bytes(
        &self,
        py: Python<'_>,
        name: Vec<u8>,
        start: Option<u64>,
        length: u64,
        stamp: Option<Stamp>,
        options: Named,
    ) -> PyResult<Job> {
        self.start(py, Lane::Transfers, &options, None, move |call| {
            let growing = Growing::default();
            let mut open = || Box::new(growing.anew()) as Box<dyn Write + Send>;
            match start {
                None => call.recv_to(name, length, &mut open)?,
                Some(start) => stamped(call, stamp).read_range_to(name, start, length, &mut open)?,
            };
            Ok(Value::Bytes(growing.take()))
        })
    }

    /// A ticket for another client, in one entry: text, host, port, key.
    fn ticket(
        &self,
        py: Python<'_>,
        names: Paths,
        size: u64,
        life_s: u64,
        holder: Option<String>,
    ) -> PyResult<Job> {
        let holder = holder.map(|text| PublicKey::parse(&text)).transpose();
        let holder = holder.map_err(|error| raise(py, &error))?;
        self.start(py, Lane::Transfers, &Vec::new(), None, move |call| {
            call.ticket(&names, size, Duration::from_secs(life_s), holder).map(Value::Ticket)
        })
    }

    /// Has the daemon pull with a ticket into its directory `name`.
    fn fetch(
        &self,
        py: Python<'_>,
        name: Vec<u8>,
        ticket: (String, String, u16, String),
        options: Named,
    ) -> PyResult<Job> {
        let (text, host, port, key) = ticket;
        let key = PublicKey::parse(&key).map_err(|error| raise(py, &error))?;
        let ticket = SignedTicket { text, host, port, key };
        self.start(py, Lane::Transfers, &options, None, move |call| {
            call.fetch(name, &ticket).map(Value::Fetched)
        })
    }

    /// What a directory holds; with `links` also what they lead to.
    fn list(&self, py: Python<'_>, name: Vec<u8>, links: bool) -> PyResult<Job> {
        self.ask(py, move |call| {
            let listed = if links { call.list_links(name) } else { call.list(name) };
            listed.map(Value::Entries)
        })
    }

    /// What a name stands for; with `links` a link itself.
    fn stat(&self, py: Python<'_>, name: Vec<u8>, links: bool) -> PyResult<Job> {
        self.ask(py, move |call| {
            let found = if links { call.stat_link(name) } else { call.stat(name) };
            found.map(|entry| Value::Entries(vec![entry]))
        })
    }

    /// Everything below a directory.
    fn walk(&self, py: Python<'_>, name: Vec<u8>, depth: u32) -> PyResult<Job> {
        self.ask_long(py, move |call| call.walk(name, depth).map(Value::Entries))
    }

    fn rename(&self, py: Python<'_>, name: Vec<u8>, to: Vec<u8>, replace: bool) -> PyResult<Job> {
        self.ask(py, move |call| call.rename(name, to, onto(replace)).map(|()| Value::Nothing))
    }

    fn copy_file(&self, py: Python<'_>, name: Vec<u8>, to: Vec<u8>, replace: bool) -> PyResult<Job> {
        self.ask_long(py, move |call| {
            call.copy(name, to, onto(replace)).map(|entry| Value::Entries(vec![entry]))
        })
    }

    fn touch(&self, py: Python<'_>, name: Vec<u8>) -> PyResult<Job> {
        self.ask(py, move |call| call.touch(name).map(|()| Value::Nothing))
    }

    /// Size, time, mode, hash and values of the pieces of files; for one that cannot be read the reason.
    fn hash(&self, py: Python<'_>, names: Paths, piece: u64) -> PyResult<Job> {
        self.ask_long(py, move |call| call.hash(&names, piece).map(Value::Hashed))
    }

    fn exists(&self, py: Python<'_>, name: Vec<u8>) -> PyResult<Job> {
        self.ask(py, move |call| call.exists(name).map(Value::Flag))
    }

    fn remove(&self, py: Python<'_>, name: Vec<u8>, tree: bool) -> PyResult<Job> {
        if tree {
            self.ask_long(py, move |call| call.remove_tree(name).map(|()| Value::Nothing))
        } else {
            self.ask(py, move |call| call.remove(name).map(|()| Value::Nothing))
        }
    }

    fn mkdir(&self, py: Python<'_>, name: Vec<u8>, parents: bool) -> PyResult<Job> {
        self.ask(py, move |call| {
            let made = if parents { call.make_directories(name) } else { call.make_directory(name) };
            made.map(|()| Value::Nothing)
        })
    }
}

impl Core {
    /// A request that takes about a round trip, and waits for no transfer.
    fn ask(
        &self,
        py: Python<'_>,
        act: impl FnOnce(Call<'_>) -> Result<Value> + Send + 'static,
    ) -> PyResult<Job> {
        self.start(py, Lane::Requests, &Vec::new(), None, act)
    }

    /// One that takes as long as what it is about.
    fn ask_long(
        &self,
        py: Python<'_>,
        act: impl FnOnce(Call<'_>) -> Result<Value> + Send + 'static,
    ) -> PyResult<Job> {
        self.start(py, Lane::Transfers, &Vec::new(), None, act)
    }

    pub(crate) fn start(
        &self,
        py: Python<'_>,
        lane: Lane,
        options: &Named,
        lent: Option<Lent>,
        act: impl FnOnce(Call<'_>) -> Result<Value> + Send + 'static,
    ) -> PyResult<Job> {
        self.check_process(py)?;
        let options = with(self.options.clone(), options).map_err(|error| raise(py, &error))?;
        let session = self.session().map_err(|error| raise(py, &error))?;
        let queue = match lane {
            Lane::Transfers => &self.transfers,
            Lane::Requests => &self.requests,
        };
        Job::start(py, Some(queue), lent, move |tools| {
            let call = session.call().options(options).events(tools.events);
            act(call.cancel_token(tools.cancel).steering(tools.steering))
        })
    }

    fn take(&self) -> CoreState {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *state, CoreState::Closed)
    }

    fn session(&self) -> Result<Arc<Session>> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            CoreState::Open(session) => Ok(session.clone()),
            CoreState::New => Err(Error::new(ErrorKind::Usage, "the session is not open; open it first")),
            CoreState::Closed => Err(Error::new(ErrorKind::Usage, "the session is closed; open another one")),
        }
    }

    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let message = "the session was opened before this process was forked, and belongs to the other process; \
            open one here";
        Err(raise(py, &Error::new(ErrorKind::Usage, message)))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget((self.state.clone(), self.transfers.clone(), self.requests.clone()));
            return;
        }
        if let CoreState::Open(session) = self.take() {
            // Hanging up may take a second, which no collector waits.
            let _ = spawn("fobs-hang-up", move || drop(session));
        }
    }
}

fn onto(replace: bool) -> Onto {
    if replace { Onto::Anything } else { Onto::Nothing }
}

fn stamped(call: Call<'_>, stamp: Option<Stamp>) -> Call<'_> {
    let Some((size, mtime_ns, inode)) = stamp else { return call };
    let (mtime_s, rest) = (mtime_ns.div_euclid(SECOND_NS), mtime_ns.rem_euclid(SECOND_NS));
    let mtime_ns = u32::try_from(rest).unwrap_or(0);
    call.stamp(FileStamp { size, mtime_s, mtime_ns, inode })
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}
