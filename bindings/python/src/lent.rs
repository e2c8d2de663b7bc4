//! A Python buffer, lent to a job: its threads read or fill the memory itself, without a copy in between.
//!
//! Python's buffer protocol keeps the memory where it is while the buffer is held (a `bytearray` refuses to
//! be resized, numpy keeps a reference); the job holds it, and takes the loan back before it lets go.

#![expect(unsafe_code, reason = "the memory of a Python object is a pointer")]

use crate::values::raise;
use fobs::{Error, ErrorKind};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// What a job does with the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Fill,
}

/// The memory of a buffer, as long as it is lent.
pub(crate) struct Loan {
    start: *mut u8,
    len: usize,
    /// Whether the memory may be touched; held while it is.
    is_open: Mutex<bool>,
}

// SAFETY: the pointer is followed only under the lock and while the loan is open, and `Lent` closes it before
// the buffer that owns the memory is released.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

/// A buffer that a job holds.
pub(crate) struct Lent {
    // Dropped after the loan is closed.
    _buffer: PyUntypedBuffer,
    pub(crate) loan: Arc<Loan>,
}

impl Lent {
    pub(crate) fn of(object: &Bound<'_, PyAny>, purpose: Use) -> PyResult<Lent> {
        let py = object.py();
        let refuse = |why: &str| Err(raise(py, &Error::new(ErrorKind::Usage, why)));
        let Ok(buffer) = PyUntypedBuffer::get(object) else {
            return refuse(
                "the object has no buffer; give bytes, a bytearray, a memoryview or a numpy array",
            );
        };
        if purpose == Use::Fill && buffer.readonly() {
            return refuse("the buffer is read-only; give one that can be written, such as a bytearray");
        }
        if !buffer.is_c_contiguous() {
            return refuse("the buffer is not contiguous; make a contiguous copy (numpy.ascontiguousarray)");
        }
        let loan =
            Loan { start: buffer.buf_ptr().cast(), len: buffer.len_bytes(), is_open: Mutex::new(true) };
        Ok(Lent { _buffer: buffer, loan: Arc::new(loan) })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.loan.close();
    }
}

impl Loan {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// From now on nobody touches the memory.
    pub(crate) fn close(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn read(&self, at: usize, to: &mut [u8]) -> io::Result<usize> {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = to.len().min(self.len.saturating_sub(at));
        if !*is_open {
            return Err(io::Error::other("the caller took its buffer back"));
        }
        // SAFETY: `at + count <= len`; the buffer is held while the loan is open, and closing waits for the
        // lock. Another thread of the caller may write to it meanwhile: what is sent then is not specified.
        unsafe { std::ptr::copy_nonoverlapping(self.start.cast_const().add(at), to.as_mut_ptr(), count) };
        Ok(count)
    }

    fn write(&self, at: usize, from: &[u8]) -> io::Result<usize> {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = from.len().min(self.len.saturating_sub(at));
        if !*is_open || count < from.len() {
            return Err(io::Error::other("the caller's buffer is too small, or was taken back"));
        }
        // SAFETY: as above; the buffer was checked to be writable.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.add(at), count) };
        Ok(count)
    }
}

/// Reads a loan from its beginning, or fills it.
pub(crate) struct Cursor {
    loan: Arc<Loan>,
    at: usize,
}

impl Cursor {
    pub(crate) fn of(loan: &Arc<Loan>) -> Cursor {
        Cursor { loan: loan.clone(), at: 0 }
    }
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.loan.read(self.at, buffer)?;
        self.at += count;
        Ok(count)
    }
}

impl Write for Cursor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.loan.write(self.at, bytes)?;
        self.at += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
