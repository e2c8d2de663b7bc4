//! Byte streams: the package reads and writes the descriptor, and jobs tell it what a descriptor does not.

use crate::job::{Job, Tools};
use crate::named::{Named, with};
use crate::queue::spawn;
use crate::shared::locked;
use crate::values::Value;
use fobs::{Error, ErrorKind, Remote, Result, Stream, TransferOptions};
use pyo3::prelude::*;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A stream, once the job that opens it has ended.
#[pyclass(frozen, module = "fobs._fobs")]
pub(crate) struct RawStream {
    inner: Arc<Mutex<Option<Arc<Stream>>>>,
    process: u32,
}

impl RawStream {
    fn stream(&self) -> Result<Arc<Stream>> {
        if self.process != std::process::id() {
            let message = "the stream was opened before this process was forked; open one here";
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let closed =
            || Error::new(ErrorKind::Usage, "the stream is closed, or was never open; open another one");
        locked(&self.inner).clone().ok_or_else(closed)
    }

    fn ask(&self, act: impl FnOnce(&Stream) -> Result<Value> + Send + 'static) -> Job {
        match self.stream() {
            Ok(stream) => Job::start(None, None, move |_| act(&stream)),
            Err(error) => Job::refused(error),
        }
    }
}

#[pymethods]
impl RawStream {
    /// A descriptor of its own for the package, which closes it; -1 where the stream is not open.
    fn descriptor(&self) -> PyResult<i32> {
        let Ok(stream) = self.stream() else { return Ok(-1) };
        let owned: OwnedFd = stream.as_fd().try_clone_to_owned()?;
        Ok(owned.into_raw_fd())
    }

    /// Ends what is written.
    fn end_writing(&self) -> PyResult<()> {
        self.stream().map_or(Ok(()), |stream| Ok(stream.shutdown_write()?))
    }

    /// Ends what is read.
    fn end_reading(&self) -> PyResult<()> {
        self.stream().map_or(Ok(()), |stream| Ok(stream.shutdown_read()?))
    }

    /// Fails where the end of the descriptor is not that of the data.
    fn why_ended(&self) -> Job {
        self.ask(|stream| stream.end_of_reading().map(|()| Value::Nothing).map_err(of_fobs))
    }

    /// Whether the other end only reads no more; fails where the stream has.
    fn why_unwritable(&self) -> Job {
        self.ask(|stream| {
            let error = stream.why_unwritable();
            if error.kind() == io::ErrorKind::BrokenPipe {
                Ok(Value::Flag(true))
            } else {
                Err(of_fobs(error))
            }
        })
    }

    /// Waits for its end: exit code, bytes that the other end was given, and those that came from it.
    fn wait(&self) -> Job {
        self.ask(|stream| {
            let piped = stream.wait()?;
            Ok(Value::StreamEnd(piped.end.exit_code(), piped.sent.bytes, piped.received.bytes))
        })
    }

    /// Bytes that are verified at the server.
    fn verified(&self) -> u64 {
        self.stream().map_or(0, |stream| stream.verified())
    }

    /// Fails it at both ends. A thread that waits for it is told why, until it is closed.
    fn abort(&self, why: &str) {
        let Ok(stream) = self.stream() else { return };
        let (aside, said) = (stream.clone(), why.to_owned());
        // Aside: a cancellation may wait for a connection that is being closed.
        if spawn("fobs-abort", move || aside.abort(&said)).is_err() {
            stream.abort(why);
        }
    }

    /// Lets go of it; one that has not ended fails at both ends.
    fn close(&self) {
        if self.process == std::process::id() {
            locked(&self.inner).take();
        }
    }
}

/// The error of a stream, which the standard library's carries.
fn of_fobs(error: io::Error) -> Error {
    let text = error.to_string();
    let inner = error.into_inner().and_then(|inner| inner.downcast::<Error>().ok());
    inner.map_or_else(|| Error::new(ErrorKind::Socket, text), |inner| *inner)
}

impl Drop for RawStream {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.inner.clone());
        }
    }
}

/// What a stream leads to: the name in place of the URL's path, a command, the name to listen as, and for how
/// long, seconds.
pub(crate) type Target = (Option<Vec<u8>>, Option<Vec<u8>>, Option<String>, Option<f64>);

/// Starts to open a stream. With `errors`, also a descriptor from which a command's standard error is read,
/// which is the package's to close.
pub(crate) fn open(
    made: Result<(Remote, TransferOptions)>,
    (name, command, listen, wait): Target,
    options: &Named,
    errors: bool,
) -> PyResult<(Job, RawStream, Option<i32>)> {
    let inner = Arc::<Mutex<Option<Arc<Stream>>>>::default();
    let raw = RawStream { inner: inner.clone(), process: std::process::id() };
    let builder = made.and_then(|(mut remote, common)| {
        let options = with(common, options)?;
        if let Some(name) = name {
            remote.path = name;
        }
        let builder = match (command, listen) {
            (Some(_), Some(_)) => {
                let message = "a stream leads to a command or listens; give one of both";
                return Err(Error::new(ErrorKind::Usage, message));
            }
            (Some(line), None) => Stream::command(remote, line),
            (None, Some(name)) => Stream::listen(remote, name, wait.map_or(options.timeout, seconds)),
            (None, None) => Stream::to(remote),
        };
        Ok(builder.options(options))
    });
    let builder = match builder {
        Ok(builder) => builder,
        Err(error) => return Ok((Job::refused(error), raw, None)),
    };
    let (builder, said) = if errors {
        let (reading, writing) = io::pipe()?;
        (builder.errors(writing), Some(OwnedFd::from(reading).into_raw_fd()))
    } else {
        (builder, None)
    };
    let job = Job::start(None, None, move |tools: Tools| {
        let stream = builder.sending(tools.events).cancel_token(tools.cancel).open()?;
        let nonblocking = stream.set_nonblocking(true);
        nonblocking.map_err(|error| Error::new(ErrorKind::Socket, error.to_string()))?;
        *locked(&inner) = Some(Arc::new(stream));
        Ok(Value::Nothing)
    });
    Ok((job, raw, said))
}

/// Longer than a server waits where it is no time.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
