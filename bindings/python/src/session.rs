//! Sessions, and copies without one.

use crate::job::{Job, Tools};
use crate::lent::{Cursor, Lent, Use};
use crate::parts::{Expected, Part};
use crate::values::{Value, raise};
use fobs::filter::{Action, Filter};
use fobs::options::sync::{Compare, Delete, Enter, SyncOptions, SyncRules};
use fobs::{
    Call, Error, ErrorKind, Location, Preserve, PublicKey, Remote, Result, Session, SignedTicket,
    SymbolicLinks, Transfer, TransferOptions, location,
};
use pyo3::prelude::*;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Options by name, as text.
type Named = Vec<(String, String)>;
/// Paths of any bytes.
type Paths = Vec<Vec<u8>>;

/// A session, and what opens it.
#[pyclass(frozen, module = "fobs._fobs")]
pub(crate) struct Core {
    remote: Remote,
    options: TransferOptions,
    /// The process that made it: a connection is of one process.
    process: u32,
    state: Arc<Mutex<CoreState>>,
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
        Ok(Core { remote, options, process: std::process::id(), state })
    }

    /// Connects.
    fn open(&self, py: Python<'_>) -> PyResult<Job> {
        self.check_process(py)?;
        let (remote, options, state) = (self.remote.clone(), self.options.clone(), self.state.clone());
        Job::start(py, None, move |tools: Tools| {
            let builder = Session::builder(remote).options(options).cancel_token(tools.cancel);
            let session = Arc::new(builder.events(tools.events).open()?);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*state, CoreState::New) {
                *state = CoreState::Open(session);
            }
            Ok(Value::Nothing)
        })
    }

    /// Ends the connection once no job uses it.
    fn close(&self, py: Python<'_>) {
        // After a fork the connection is the other process's, and its locks may be held for ever.
        if self.process == std::process::id() {
            py.detach(|| drop(self.take()));
        }
    }

    fn put(&self, py: Python<'_>, sources: Paths, name: Vec<u8>, options: Named) -> PyResult<Job> {
        let sources: Vec<PathBuf> = sources.into_iter().map(path_of).collect();
        self.start(py, &options, None, move |call| call.put(&sources, name).map(summary))
    }

    fn get(&self, py: Python<'_>, names: Paths, destination: Vec<u8>, options: Named) -> PyResult<Job> {
        let destination = path_of(destination);
        self.start(py, &options, None, move |call| call.get(&names, &destination).map(summary))
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
        self.start(py, &options, None, move |call| {
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
        self.start(py, &options, Some(lent), move |call| {
            let mut open = || Box::new(Cursor::of(&loan)) as Box<dyn Read + Send>;
            call.send_from(name, loan.len() as u64, &mut open).map(summary)
        })
    }

    /// Fills the front of a buffer: with all of the object, or from `start` on.
    #[pyo3(signature = (name, buffer, start, options))]
    fn get_into(
        &self,
        py: Python<'_>,
        name: Vec<u8>,
        buffer: &Bound<'_, PyAny>,
        start: Option<u64>,
        options: Named,
    ) -> PyResult<Job> {
        let lent = Lent::of(buffer, Use::Fill)?;
        let loan = lent.loan.clone();
        self.start(py, &options, Some(lent), move |call| {
            let mut open = || Box::new(Cursor::of(&loan)) as Box<dyn Write + Send>;
            let room = loan.len() as u64;
            let filled = match start {
                None => call.recv_to(name, room, &mut open),
                Some(start) => call.read_range_to(name, start, room, &mut open),
            };
            filled.map(Value::Count)
        })
    }

    /// Bytes of an object: all of it, or `length` from `start` on.
    #[pyo3(signature = (name, start, length, options))]
    fn get_bytes(
        &self,
        py: Python<'_>,
        name: Vec<u8>,
        start: Option<u64>,
        length: u64,
        options: Named,
    ) -> PyResult<Job> {
        self.start(py, &options, None, move |call| {
            let Some(start) = start else { return call.recv(name, length).map(Value::Bytes) };
            let growing = Growing::default();
            let mut open = || Box::new(growing.anew()) as Box<dyn Write + Send>;
            call.read_range_to(name, start, length, &mut open)?;
            Ok(Value::Bytes(growing.take()))
        })
    }

    fn list(&self, py: Python<'_>, name: Vec<u8>) -> PyResult<Job> {
        self.start(py, &Vec::new(), None, move |call| call.list(name).map(Value::Entries))
    }

    fn stat(&self, py: Python<'_>, name: Vec<u8>) -> PyResult<Job> {
        self.start(py, &Vec::new(), None, move |call| {
            call.stat(name).map(|entry| Value::Entries(vec![entry]))
        })
    }

    /// Size, time, mode, hash and values of the pieces of files; for one that cannot be read the reason.
    fn hash(&self, py: Python<'_>, names: Paths, piece: u64) -> PyResult<Job> {
        self.start(py, &Vec::new(), None, move |call| call.hash(&names, piece).map(Value::Hashed))
    }

    fn exists(&self, py: Python<'_>, name: Vec<u8>) -> PyResult<Job> {
        self.start(py, &Vec::new(), None, move |call| call.exists(name).map(Value::Flag))
    }

    fn remove(&self, py: Python<'_>, name: Vec<u8>, tree: bool) -> PyResult<Job> {
        self.start(py, &Vec::new(), None, move |call| {
            let removed = if tree { call.remove_tree(name) } else { call.remove(name) };
            removed.map(|()| Value::Nothing)
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
        self.start(py, &Vec::new(), None, move |call| {
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
        self.start(py, &options, None, move |call| call.fetch(name, &ticket).map(Value::Fetched))
    }

    fn mkdir(&self, py: Python<'_>, name: Vec<u8>, parents: bool) -> PyResult<Job> {
        self.start(py, &Vec::new(), None, move |call| {
            let made = if parents { call.make_directories(name) } else { call.make_directory(name) };
            made.map(|()| Value::Nothing)
        })
    }
}

impl Core {
    fn start(
        &self,
        py: Python<'_>,
        options: &Named,
        lent: Option<Lent>,
        act: impl FnOnce(Call<'_>) -> Result<Value> + Send + 'static,
    ) -> PyResult<Job> {
        self.check_process(py)?;
        let options = with(self.options.clone(), options).map_err(|error| raise(py, &error))?;
        let session = self.session().map_err(|error| raise(py, &error))?;
        Job::start(py, lent, move |tools| {
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
            std::mem::forget(self.state.clone());
        }
    }
}

/// A vector that a range is written to.
#[derive(Default, Clone)]
struct Growing(Arc<Mutex<Vec<u8>>>);

impl Growing {
    /// For another attempt.
    fn anew(&self) -> Growing {
        self.take();
        self.clone()
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Copies between this host and another one, or brings a tree up to date: `sync` holds `delete`, `dry_run`,
/// `checksum` and the patterns that are left out.
#[pyfunction]
#[pyo3(signature = (sources, destination, options, sync))]
pub(crate) fn copy(
    py: Python<'_>,
    sources: Paths,
    destination: Vec<u8>,
    options: Named,
    sync: Option<(bool, bool, bool, Paths)>,
) -> PyResult<Job> {
    let made = (|| {
        let parse = |text: &Vec<u8>| location::parse(OsStr::from_bytes(text));
        let sources = sources.iter().map(parse).collect::<Result<Vec<Location>>>()?;
        let destination = parse(&destination)?;
        location::check_route(&sources, &destination)?;
        let mut options = with(TransferOptions::default(), &options)?;
        options.sync = sync.map(sync_options).transpose()?.map(Arc::new);
        Ok(Transfer::builder(sources, destination).options(options))
    })();
    let builder = made.map_err(|error: Error| raise(py, &error))?;
    Job::start(py, None, move |tools| {
        let builder = builder.events(tools.events).cancel_token(tools.cancel).steering(tools.steering);
        builder.start()?.wait().map(summary)
    })
}

/// As `fobs sync -a` does, with what was asked for.
fn sync_options((delete, dry_run, checksum, exclude): (bool, bool, bool, Paths)) -> Result<SyncOptions> {
    let mut filter = Filter::default();
    for pattern in exclude {
        filter
            .add_pattern(Action::Exclude, &pattern)
            .map_err(|why| Error::new(ErrorKind::Usage, why.to_string()))?;
    }
    let compare = if checksum { Compare::Content } else { Compare::Time };
    Ok(SyncOptions {
        preserve: Preserve {
            modes: true,
            times: true,
            owner: true,
            group: true,
            links: SymbolicLinks::Kept,
            devices: true,
            specials: true,
            ..Preserve::default()
        },
        directories: Enter::All,
        filter,
        rules: SyncRules { compare, makes_way: delete, ..SyncRules::default() },
        delete: delete.then(Delete::default),
        dry_run,
        ..SyncOptions::default()
    })
}

fn with(mut options: TransferOptions, named: &Named) -> Result<TransferOptions> {
    named.iter().try_for_each(|(name, value)| options.set(name, value))?;
    Ok(options)
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn summary(summary: fobs::Summary) -> Value {
    Value::Summary(Box::new(summary))
}
