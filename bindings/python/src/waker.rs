//! Tells one thread or event loop of Python which jobs have ended: one descriptor for all of them.

use pyo3::prelude::*;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of jobs that have ended since the last look. Its descriptor is readable while there are any.
#[pyclass(frozen, module = "fobs._fobs")]
pub(crate) struct Waker {
    pub(crate) ended: Arc<Ended>,
    descriptor: i32,
}

pub(crate) struct Ended(Mutex<EndedState>);

struct EndedState {
    numbers: Vec<u64>,
    reading: PipeReader,
    writing: PipeWriter,
}

impl Ended {
    pub(crate) fn tell(&self, number: u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.numbers.push(number);
        // One byte lies in the pipe while there are numbers.
        if state.numbers.len() == 1 {
            let _ = state.writing.write_all(b".");
        }
    }
}

#[pymethods]
impl Waker {
    #[new]
    fn new() -> PyResult<Waker> {
        let (reading, writing) = std::io::pipe()?;
        let descriptor = reading.as_raw_fd();
        let state = EndedState { numbers: Vec::new(), reading, writing };
        Ok(Waker { ended: Arc::new(Ended(Mutex::new(state))), descriptor })
    }

    /// To be polled for reading.
    fn fileno(&self) -> i32 {
        self.descriptor
    }

    /// Numbers of the jobs that have ended.
    fn drain(&self) -> PyResult<Vec<u64>> {
        let mut state = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.numbers.is_empty() {
            return Ok(Vec::new());
        }
        state.reading.read_exact(&mut [0])?;
        Ok(std::mem::take(&mut state.numbers))
    }
}
