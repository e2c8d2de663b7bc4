//! One call that runs in a thread of the session's or of its own. Python waits for it by a [`Waker`]: nothing
//! here blocks or runs code of Python, so the interpreter's end finds no thread of Python in this library.

use crate::lent::Lent;
use crate::queue::{Queue, Work, cancel_aside, spawn};
use crate::shared::{DoneFile, Shared, locked};
use crate::values::{Value, progress_of};
use crate::waker::Waker;
use fobs::options::unitless_rate;
use fobs::{CancelToken, Error, ErrorKind, Result, Steering};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// A call that runs, or was refused before it began. Dropping it cancels the call.
#[pyclass(frozen, module = "fobs._fobs")]
pub(crate) struct Job {
    shared: Arc<Shared>,
    cancel: CancelToken,
    steering: Steering,
    /// The process that started it: after a fork there is no thread.
    process: u32,
    /// Where it waits for its turn, if it does.
    queue: Option<Arc<Queue>>,
    /// What the call reads or fills, until it has ended.
    lent: Mutex<Option<Lent>>,
    /// Why it did not begin.
    refused: Option<Failure>,
}

/// Code and sentence of a failure. The package makes the exception of them, because that runs code of Python.
type Failure = (String, String);

/// What a call failed with, if it did, and what it returned.
type Outcome = (Option<Failure>, Py<PyAny>);

/// What a call is given.
pub(crate) struct Tools {
    pub(crate) events: Arc<Shared>,
    pub(crate) cancel: CancelToken,
    pub(crate) steering: Steering,
}

impl Job {
    /// One that does not begin.
    pub(crate) fn refused(error: Error) -> Job {
        let mut job = Job::new(None, None);
        let Error { kind, message, .. } = error;
        job.shared.end(Err(Error::new(kind, message.clone())));
        job.refused = Some((kind.code().to_owned(), message));
        job
    }

    fn new(queue: Option<&Arc<Queue>>, lent: Option<Lent>) -> Job {
        Job {
            shared: Arc::default(),
            cancel: CancelToken::new(),
            steering: Steering::new(),
            process: std::process::id(),
            queue: queue.cloned(),
            lent: Mutex::new(lent),
            refused: None,
        }
    }

    /// Starts a call in the thread of its queue, or in one of its own.
    pub(crate) fn start(
        queue: Option<&Arc<Queue>>,
        lent: Option<Lent>,
        act: impl FnOnce(Tools) -> Result<Value> + Send + 'static,
    ) -> Job {
        let loan = lent.as_ref().map(|lent| lent.loan.clone());
        let job = Job::new(queue, lent);
        let (events, cancel, steering) = (job.shared.clone(), job.cancel.clone(), job.steering.clone());
        let tools = Tools { events, cancel, steering };
        let ending = job.shared.clone();
        let run: Work = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| act(tools))).unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Internal, "a thread of fobs failed; report this bug"))
            });
            // A thread of an attempt may still end: it finds the loan closed.
            if let Some(loan) = loan {
                loan.close();
            }
            ending.end(outcome);
        });
        let started = match queue {
            Some(queue) => queue.push(job.shared.clone(), run),
            None => spawn("fobs-job", run),
        };
        match started {
            Ok(()) => job,
            Err(error) => Job::refused(error),
        }
    }

    fn end_soon(&self) {
        if !locked(&self.shared.outcome).is_over {
            cancel_aside(&self.cancel);
            if let Some(queue) = &self.queue {
                queue.withdraw(&self.shared);
            }
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// The package looks before it calls.
    fn check_process(&self) -> PyResult<()> {
        if self.is_of_this_process() { Ok(()) } else { Err(misuse("the job is of another process")) }
    }
}

#[pymethods]
impl Job {
    /// Has `waker` hear of the end under a number. The same pair again changes nothing.
    fn tell(&self, waker: &Bound<'_, Waker>, number: u64) -> PyResult<()> {
        self.check_process()?;
        let ended = &waker.get().ended;
        let mut ending = locked(&self.shared.outcome);
        if ending.is_over {
            ended.tell(number);
            return Ok(());
        }
        let weak = Arc::downgrade(ended);
        ending.tell.retain(|(other, _)| other.strong_count() > 0);
        if !ending.tell.iter().any(|(other, theirs)| other.ptr_eq(&weak) && *theirs == number) {
            ending.tell.push((weak, number));
        }
        Ok(())
    }

    /// Code and sentence of why it did not begin, if it did not.
    #[getter]
    fn refused_with(&self) -> Option<Failure> {
        self.refused.clone()
    }

    /// Whether it has ended.
    fn done(&self) -> PyResult<bool> {
        self.check_process()?;
        Ok(locked(&self.shared.outcome).is_over)
    }

    /// What it failed with, code and sentence, or else what it returned. Only once, and only after its end.
    fn outcome(&self, py: Python<'_>) -> PyResult<Outcome> {
        self.check_process()?;
        let outcome = locked(&self.shared.outcome).outcome.take();
        let lent = locked(&self.lent).take();
        drop(lent);
        match outcome {
            Some(Ok(value)) => Ok((None, value.into_python(py)?)),
            Some(Err(Error { kind, message, .. })) => {
                Ok((Some((kind.code().to_owned(), message)), py.None()))
            }
            None => Err(misuse("the job has not ended, or its outcome was taken; wait for it once")),
        }
    }

    /// The newest progress.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_process()?;
        let progress = locked(&self.shared.seen).progress.clone();
        progress_of(py, &progress)
    }

    /// Lines for a person, each once.
    fn notices(&self) -> PyResult<Vec<String>> {
        self.check_process()?;
        Ok(locked(&self.shared.seen).notices.drain(..).collect())
    }

    /// Of those the ones that a new key was pinned.
    fn pinned(&self) -> PyResult<Vec<String>> {
        self.check_process()?;
        Ok(std::mem::take(&mut locked(&self.shared.seen).pinned))
    }

    /// Files that are in place, each once: path, size and hash.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.check_process()?;
        let files: Vec<DoneFile> = locked(&self.shared.seen).files.drain(..).collect();
        let files =
            files.iter().map(|(path, size, root)| (PyBytes::new(py, path), size, PyBytes::new(py, root)));
        PyList::new(py, files.collect::<Vec<_>>())
    }

    /// Why it is, or was, as fast as it is: JSON.
    fn explain(&self) -> PyResult<String> {
        self.check_process()?;
        let trace = locked(&self.shared.seen).recorder.so_far();
        let explanation = fobs::explain::explain(&trace);
        serde_json::to_string(&explanation).map_err(|error| misuse(&error.to_string()))
    }

    /// Has it end soon.
    fn cancel(&self) {
        if self.is_of_this_process() {
            self.end_soon();
        }
    }

    /// Takes back what was lent, of a call that has ended and whose outcome nobody wants.
    fn release(&self) {
        if self.is_of_this_process() && locked(&self.shared.outcome).is_over {
            let lent = locked(&self.lent).take();
            drop(lent);
        }
    }

    /// Changes the highest rate, bits per second.
    #[pyo3(signature = (bits_per_second))]
    fn set_rate(&self, bits_per_second: Option<u64>) -> PyResult<()> {
        let checked = bits_per_second.map(unitless_rate).transpose().map_err(|why| misuse(&why))?;
        self.steering.set_rate(checked);
        Ok(())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            // The thread is the other process's, and may have held any lock when this one was forked.
            std::mem::forget((self.shared.clone(), self.queue.take()));
            std::mem::forget(self.lent.get_mut().map(|lent| lent.take()));
            return;
        }
        // What was lent is taken back at once; how the call ends is of no interest to one that dropped it.
        self.end_soon();
    }
}

/// An exception of Python's own, which is made without code of Python.
pub(crate) fn misuse(message: &str) -> PyErr {
    PyValueError::new_err(message.to_owned())
}
