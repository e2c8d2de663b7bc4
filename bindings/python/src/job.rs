//! One call that runs in a thread of its own.

use crate::lent::Lent;
use crate::values::{Value, progress_of, raise};
use fobs::{CancelToken, Error, ErrorKind, Event, EventSink, Progress, Recorder, Result, Steering};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Notices that are kept; of more, the oldest go.
const NOTICES_MAX: usize = 100;
/// Finished files that are kept until they are asked for; of more, the oldest go.
const FILES_MAX: usize = 100_000;
/// Longest wait at once, seconds: the caller looks for signals in between.
const WAIT_MAX: f64 = 3600.0;

/// A call that runs. Dropping it cancels the call and waits for its end.
#[pyclass(frozen, module = "fobs._fobs")]
pub(crate) struct Job {
    shared: Arc<Shared>,
    cancel: CancelToken,
    steering: Steering,
    /// The process that started it: after a fork there is no thread.
    process: u32,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What the call reads or fills, until it has ended.
    lent: Mutex<Option<Lent>>,
    /// Readable once the call has ended; made where an event loop asks for it.
    ending: Mutex<Option<PipeReader>>,
}

/// What the thread and its job have in common.
#[derive(Default)]
pub(crate) struct Shared {
    outcome: Mutex<Ending>,
    ended: Condvar,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Ending {
    is_over: bool,
    /// Until it is taken.
    outcome: Option<Result<Value>>,
    /// Who wants to hear of it.
    tell: Option<PipeWriter>,
}

#[derive(Default)]
struct Seen {
    progress: Progress,
    recorder: Recorder,
    notices: VecDeque<String>,
    files: VecDeque<DoneFile>,
}

/// Path within the transfer, size and BLAKE3 hash of a file that is in place.
type DoneFile = (Vec<u8>, u64, [u8; 32]);

impl EventSink for Shared {
    fn event(&self, event: Event) {
        let mut seen = locked(&self.seen);
        seen.recorder.record(&event);
        match event {
            Event::Progress(progress) => seen.progress = progress,
            Event::Notice(notice) => {
                if seen.notices.len() == NOTICES_MAX {
                    seen.notices.pop_front();
                }
                seen.notices.push_back(notice);
            }
            Event::FileDone { path, bytes, root } => {
                if seen.files.len() == FILES_MAX {
                    seen.files.pop_front();
                }
                seen.files.push_back((path, bytes, root));
            }
            _ => {}
        }
    }
}

impl Shared {
    fn end(&self, outcome: Result<Value>) {
        let mut ending = locked(&self.outcome);
        ending.is_over = true;
        ending.outcome = Some(outcome);
        if let Some(mut tell) = ending.tell.take() {
            // Whoever listened may be gone.
            let _ = tell.write_all(b".");
        }
        self.ended.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a call is given.
pub(crate) struct Tools {
    pub(crate) events: Arc<Shared>,
    pub(crate) cancel: CancelToken,
    pub(crate) steering: Steering,
}

impl Job {
    /// Starts a call.
    pub(crate) fn start(
        py: Python<'_>,
        lent: Option<Lent>,
        act: impl FnOnce(Tools) -> Result<Value> + Send + 'static,
    ) -> PyResult<Job> {
        let shared = Arc::new(Shared::default());
        let (cancel, steering) = (CancelToken::new(), Steering::new());
        let tools = Tools { events: shared.clone(), cancel: cancel.clone(), steering: steering.clone() };
        let (ending, loan) = (shared.clone(), lent.as_ref().map(|lent| lent.loan.clone()));
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| act(tools))).unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Internal, "a thread of fobs failed; report this bug"))
            });
            // A thread of an attempt may still end: it finds the loan closed.
            if let Some(loan) = loan {
                loan.close();
            }
            ending.end(outcome);
        };
        let thread = std::thread::Builder::new().name("fobs-job".to_owned()).spawn(run).map_err(|error| {
            let message = format!("cannot start a thread: {error}; raise the limit of processes (ulimit -u)");
            raise(py, &Error::new(ErrorKind::Internal, message))
        })?;
        Ok(Job {
            shared,
            cancel,
            steering,
            process: std::process::id(),
            thread: Mutex::new(Some(thread)),
            lent: Mutex::new(lent),
            ending: Mutex::new(None),
        })
    }

    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        match self.is_of_this_process() {
            true => Ok(()),
            false => {
                let message = "the job was started before this process was forked, and has no thread here; wait \
                    for it in the process that started it";
                Err(raise(py, &Error::new(ErrorKind::Usage, message)))
            }
        }
    }
}

#[pymethods]
impl Job {
    /// Waits for the end, at most `seconds`; whether it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        self.check_process(py)?;
        let until = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, WAIT_MAX));
        Ok(py.detach(|| {
            let mut ending = locked(&self.shared.outcome);
            while !ending.is_over {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                let waited = self.shared.ended.wait_timeout(ending, left);
                ending = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            true
        }))
    }

    /// Whether it has ended.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.check_process(py)?;
        Ok(locked(&self.shared.outcome).is_over)
    }

    /// What it returned, or raises what it failed with. Only once, and only after its end.
    fn outcome(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.check_process(py)?;
        let outcome = locked(&self.shared.outcome).outcome.take();
        let lent = locked(&self.lent).take();
        drop(lent);
        match outcome {
            Some(Ok(value)) => value.into_python(py),
            Some(Err(error)) => Err(raise(py, &error)),
            None => {
                let message = "the job has not ended, or its outcome was taken; wait for it once";
                Err(raise(py, &Error::new(ErrorKind::Usage, message)))
            }
        }
    }

    /// The newest progress.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_process(py)?;
        let progress = locked(&self.shared.seen).progress.clone();
        progress_of(py, &progress)
    }

    /// Lines for a person, each once.
    fn notices(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.check_process(py)?;
        Ok(locked(&self.shared.seen).notices.drain(..).collect())
    }

    /// Files that are in place, each once: path, size and hash.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.check_process(py)?;
        let files: Vec<DoneFile> = locked(&self.shared.seen).files.drain(..).collect();
        let files =
            files.iter().map(|(path, size, root)| (PyBytes::new(py, path), size, PyBytes::new(py, root)));
        PyList::new(py, files.collect::<Vec<_>>())
    }

    /// Why it is, or was, as fast as it is: JSON.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        self.check_process(py)?;
        let trace = py.detach(|| locked(&self.shared.seen).recorder.so_far());
        let explanation = py.detach(|| fobs::explain::explain(&trace));
        serde_json::to_string(&explanation)
            .map_err(|error| raise(py, &Error::new(ErrorKind::Internal, error.to_string())))
    }

    /// Has it end soon.
    fn cancel(&self, py: Python<'_>) {
        if self.is_of_this_process() {
            py.detach(|| self.cancel.cancel());
        }
    }

    /// Changes the highest rate, bits per second.
    #[pyo3(signature = (bits_per_second))]
    fn set_rate(&self, bits_per_second: Option<u64>) {
        self.steering.set_rate(bits_per_second);
    }

    /// A descriptor that is readable once it has ended, for an event loop.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.check_process(py)?;
        let mut reader = locked(&self.ending);
        if let Some(reader) = &*reader {
            return Ok(reader.as_raw_fd());
        }
        let (reading, mut writing) = std::io::pipe()?;
        let mut ending = locked(&self.shared.outcome);
        match ending.is_over {
            true => writing.write_all(b".")?,
            false => ending.tell = Some(writing),
        }
        Ok(reader.insert(reading).as_raw_fd())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            // The thread is the other process's, and may have held any lock when this one was forked.
            std::mem::forget((self.thread.get_mut().map(|thread| thread.take()), self.shared.clone()));
            std::mem::forget(self.lent.get_mut().map(|lent| lent.take()));
            return;
        }
        let Some(thread) = locked(&self.thread).take() else { return };
        if !locked(&self.shared.outcome).is_over {
            self.cancel.cancel();
        }
        // How it ended is of no interest to a caller that dropped it.
        Python::attach(|py| py.detach(|| drop(thread.join())));
    }
}
