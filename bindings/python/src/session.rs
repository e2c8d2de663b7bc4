//! Sessions: what transfers over them, and what they say and change by name.

use crate::job::{Job, Tools};
use crate::lent::{Cursor, Growing, Lent, Use};
use crate::named::{Named, Paths, Picked, from_root, picking, with};
use crate::parts::{Expected, Part};
use crate::queue::{Queue, spawn};
use crate::stream::{self, RawStream, Target};
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
    /// The server and the options of all calls, or why there are none.
    made: Result<(Remote, TransferOptions)>,
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
    fn new(url: Vec<u8>, options: Named) -> Core {
        let options = with(TransferOptions::default(), &options);
        let made = options
            .and_then(|options| location::host(OsStr::from_bytes(&url)).map(|remote| (remote, options)));
        let state = Arc::new(Mutex::new(CoreState::New));
        let process = std::process::id();
        Core { made, process, state, transfers: Arc::default(), requests: Arc::default() }
    }

    /// Connects.
    fn open(&self) -> Job {
        let made = self.check_process().and_then(|()| self.made.clone());
        let (remote, options) = match made {
            Ok(made) => made,
            Err(error) => return Job::refused(error),
        };
        let state = self.state.clone();
        Job::start(None, None, move |tools: Tools| {
            let builder = Session::builder(remote).options(options).cancel_token(tools.cancel);
            let session = Arc::new(builder.events(tools.events).open()?);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*state, CoreState::New) {
                *state = CoreState::Open(session);
            }
            Ok(Value::Nothing)
        })
    }

    /// Starts to open a stream over a connection of its own; see [`stream::open`].
    fn stream(
        &self,
        target: Target,
        options: Named,
        errors: bool,
    ) -> PyResult<(Job, RawStream, Option<i32>)> {
        let made = self.check_process().and_then(|()| self.made.clone());
        stream::open(made, target, &options, errors)
    }

    /// Ends the connection once no job uses it; `None` where there is none.
    fn close(&self) -> Option<Job> {
        // After a fork the connection is the other process's, and its locks may be held for ever.
        if self.process != std::process::id() {
            return None;
        }
        let CoreState::Open(session) = self.take() else { return None };
        Some(Job::start(None, None, move |_| {
            drop(session);
            Ok(Value::Nothing)
        }))
    }

    #[pyo3(signature = (sources, name, options, picked = None))]
    fn put(&self, sources: Paths, name: Vec<u8>, options: Named, picked: Option<Picked>) -> Job {
        let sources: Vec<PathBuf> = sources.into_iter().map(path_of).map(from_root).collect();
        let act = move |call: Call<'_>| picking(call, picked)?.put(&sources, name).map(summary);
        self.start(Lane::Transfers, &options, None, act)
    }

    #[pyo3(signature = (names, destination, options, picked = None))]
    fn get(&self, names: Paths, destination: Vec<u8>, options: Named, picked: Option<Picked>) -> Job {
        let destination = from_root(path_of(destination));
        let act = move |call: Call<'_>| picking(call, picked)?.get(&names, &destination).map(summary);
        self.start(Lane::Transfers, &options, None, act)
    }

    /// The bytes from `start` to `end` of a remote file, at their place in the file at `path`, which exists.
    /// Each piece that the device has kept gets a line in `journal`. Returns how many bytes were written.
    /// `expected` is the values of the pieces and whether the part is a whole file of one piece: no other
    /// bytes are written then.
    #[expect(clippy::too_many_arguments, reason = "as Python gives them")]
    fn get_part(
        &self,
        name: Vec<u8>,
        path: Vec<u8>,
        journal: Vec<u8>,
        start: u64,
        end: u64,
        piece: u64,
        expected: Option<(Vec<[u8; 32]>, bool)>,
        options: Named,
    ) -> Job {
        let expected = expected.map(|(values, is_whole)| Expected { values, is_whole });
        let part = match Part::new(path_of(path), path_of(journal), (start, end), piece, expected) {
            Ok(part) => part,
            Err(error) => return Job::refused(error),
        };
        self.start(Lane::Transfers, &options, None, move |call| {
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

    fn put_bytes(&self, name: Vec<u8>, data: &Bound<'_, PyAny>, options: Named) -> Job {
        let lent = match Lent::of(data, Use::Read) {
            Ok(lent) => lent,
            Err(error) => return Job::refused(error),
        };
        let loan = lent.loan.clone();
        self.start(Lane::Transfers, &options, Some(lent), move |call| {
            let mut open = || Box::new(Cursor::of(&loan)) as Box<dyn Read + Send>;
            call.send_from(name, loan.len() as u64, &mut open).map(summary)
        })
    }

    /// Fills the front of a buffer: with all of the object, or from `start` on, of the file that has `stamp`.
    #[pyo3(signature = (name, buffer, start, stamp, options))]
    fn get_into(
        &self,
        name: Vec<u8>,
        buffer: &Bound<'_, PyAny>,
        start: Option<u64>,
        stamp: Option<Stamp>,
        options: Named,
    ) -> Job {
        let lent = match Lent::of(buffer, Use::Fill) {
            Ok(lent) => lent,
            Err(error) => return Job::refused(error),
        };
        let loan = lent.loan.clone();
        self.start(Lane::Transfers, &options, Some(lent), move |call| {
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
        name: Vec<u8>,
        start: Option<u64>,
        length: u64,
        stamp: Option<Stamp>,
        options: Named,
    ) -> Job {
        self.start(Lane::Transfers, &options, None, move |call| {
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
    fn ticket(&self, names: Paths, size: u64, life_s: u64, holder: Option<String>) -> Job {
        let holder = match holder.map(|text| PublicKey::parse(&text)).transpose() {
            Ok(holder) => holder,
            Err(error) => return Job::refused(error),
        };
        self.start(Lane::Transfers, &Vec::new(), None, move |call| {
            call.ticket(&names, size, Duration::from_secs(life_s), holder).map(Value::Ticket)
        })
    }

    /// Has the daemon pull with a ticket into its directory `name`.
    #[pyo3(signature = (name, ticket, options, picked = None))]
    fn fetch(
        &self,
        name: Vec<u8>,
        ticket: (String, String, u16, String),
        options: Named,
        picked: Option<Picked>,
    ) -> Job {
        let (text, host, port, key) = ticket;
        let key = match PublicKey::parse(&key) {
            Ok(key) => key,
            Err(error) => return Job::refused(error),
        };
        let ticket = SignedTicket { text, host, port, key };
        let act = move |call: Call<'_>| picking(call, picked)?.fetch(name, &ticket).map(Value::Fetched);
        self.start(Lane::Transfers, &options, None, act)
    }

    /// What a directory holds; with `links` also what they lead to.
    fn list(&self, name: Vec<u8>, links: bool) -> Job {
        self.ask(move |call| {
            let listed = if links { call.list_links(name) } else { call.list(name) };
            listed.map(Value::Entries)
        })
    }

    /// What a name stands for; with `links` a link itself.
    fn stat(&self, name: Vec<u8>, links: bool) -> Job {
        self.ask(move |call| {
            let found = if links { call.stat_link(name) } else { call.stat(name) };
            found.map(|entry| Value::Entries(vec![entry]))
        })
    }

    /// Everything below a directory.
    fn walk(&self, name: Vec<u8>, depth: u32) -> Job {
        self.ask_long(move |call| call.walk(name, depth).map(Value::Entries))
    }

    fn rename(&self, name: Vec<u8>, to: Vec<u8>, replace: bool) -> Job {
        self.ask(move |call| call.rename(name, to, onto(replace)).map(|()| Value::Nothing))
    }

    fn copy_file(&self, name: Vec<u8>, to: Vec<u8>, replace: bool) -> Job {
        self.ask_long(move |call| call.copy(name, to, onto(replace)).map(|entry| Value::Entries(vec![entry])))
    }

    fn touch(&self, name: Vec<u8>) -> Job {
        self.ask(move |call| call.touch(name).map(|()| Value::Nothing))
    }

    /// Size, time, mode, hash and values of the pieces of files; for one that cannot be read the reason.
    fn hash(&self, names: Paths, piece: u64) -> Job {
        self.ask_long(move |call| call.hash(&names, piece).map(Value::Hashed))
    }

    fn exists(&self, name: Vec<u8>) -> Job {
        self.ask(move |call| call.exists(name).map(Value::Flag))
    }

    fn remove(&self, name: Vec<u8>, tree: bool) -> Job {
        if tree {
            self.ask_long(move |call| call.remove_tree(name).map(|()| Value::Nothing))
        } else {
            self.ask(move |call| call.remove(name).map(|()| Value::Nothing))
        }
    }

    fn mkdir(&self, name: Vec<u8>, parents: bool) -> Job {
        self.ask(move |call| {
            let made = if parents { call.make_directories(name) } else { call.make_directory(name) };
            made.map(|()| Value::Nothing)
        })
    }
}

impl Core {
    /// A request that takes about a round trip, and waits for no transfer.
    fn ask(&self, act: impl FnOnce(Call<'_>) -> Result<Value> + Send + 'static) -> Job {
        self.start(Lane::Requests, &Vec::new(), None, act)
    }

    /// One that takes as long as what it is about.
    fn ask_long(&self, act: impl FnOnce(Call<'_>) -> Result<Value> + Send + 'static) -> Job {
        self.start(Lane::Transfers, &Vec::new(), None, act)
    }

    pub(crate) fn start(
        &self,
        lane: Lane,
        options: &Named,
        lent: Option<Lent>,
        act: impl FnOnce(Call<'_>) -> Result<Value> + Send + 'static,
    ) -> Job {
        let ready = self.check_process().and_then(|()| {
            let (_, common) = self.made.as_ref().map_err(Error::clone)?;
            Ok((with(common.clone(), options)?, self.session()?))
        });
        let (options, session) = match ready {
            Ok(ready) => ready,
            Err(error) => return Job::refused(error),
        };
        let queue = match lane {
            Lane::Transfers => &self.transfers,
            Lane::Requests => &self.requests,
        };
        Job::start(Some(queue), lent, move |tools| {
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

    fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let message = "the session was opened before this process was forked, and belongs to the other process; \
            open one here";
        Err(Error::new(ErrorKind::Usage, message))
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
