//! A Python buffer, lent to a job: its threads read or fill the memory itself, without a copy in between.
//!
//! Python's buffer protocol keeps the memory where it is while the buffer is held (a `bytearray` refuses to
//! be resized, numpy keeps a reference); the job holds it, and takes the loan back before it lets go.

#![expect(unsafe_code, reason = "the memory of a Python object is a pointer")]

use fobs::{Error, ErrorKind, Result};
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
    /// The package gives a `memoryview`, so that no code of Python runs here.
    pub(crate) fn of(object: &Bound<'_, PyAny>, purpose: Use) -> Result<Lent> {
        let refuse = |why: &str| Err(Error::new(ErrorKind::Usage, why));
        let Ok(buffer) = PyUntypedBuffer::get(object) else {
            return refuse(
                "the object has no buffer; give bytes, a bytearray, a memoryview or a numpy array",
            );
        };
        if purpose == Use::Fill && buffer.readonly() {
            return refuse("the buffer is read-only; give one that can be written, such as a bytearray");
        }
        if buffer.format().to_bytes().split(|&letter| letter == b':').step_by(2).any(holds_pointers) {
            return refuse(
                "the buffer holds Python objects or pointers, whose addresses mean nothing elsewhere; give one of \
                 numbers or bytes",
            );
        }
        if !buffer.is_c_contiguous() {
            return refuse("the buffer is not contiguous; make a contiguous copy (numpy.ascontiguousarray)");
        }
        let loan =
            Loan { start: buffer.buf_ptr().cast(), len: buffer.len_bytes(), is_open: Mutex::new(true) };
        Ok(Lent { _buffer: buffer, loan: Arc::new(loan) })
    }
}

/// Whether a format names objects or pointers; what stands between colons is the name of a field. A `Z`
/// before the letter of a number is a complex one.
fn holds_pointers(format: &[u8]) -> bool {
    format.iter().enumerate().any(|(at, letter)| match letter {
        b'O' | b'P' | b'&' | b'X' | b'z' => true,
        b'Z' => !matches!(format.get(at + 1), Some(b'f' | b'd' | b'g')),
        _ => false,
    })
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

/// Bytes of one piece of [`Pieces`]: more than what malloc keeps for itself when it is freed (mallopt(3),
/// `M_MMAP_THRESHOLD`).
const PIECE_BYTES: usize = 33 << 20;

/// Bytes that were received, of a length that was not known before. Each piece is freed when it has been
/// copied into the object that Python gets, so that memory has them once.
#[derive(Default)]
pub(crate) struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let has_room = self.0.last().is_some_and(|last| last.len() < PIECE_BYTES);
            // The first one grows with what comes; those after it are touched as they are filled.
            match self.0.len() {
                0 => self.0.push(Vec::new()),
                _ if !has_room => self.0.push(Vec::with_capacity(PIECE_BYTES)),
                _ => {}
            }
            let Some(last) = self.0.last_mut() else { return };
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - last.len()));
            last.extend_from_slice(now);
            bytes = later;
        }
    }

    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let len: usize = self.0.iter().map(Vec::len).sum();
        let size = pyo3::ffi::Py_ssize_t::try_from(len)?;
        // SAFETY: a new object of this length with unset bytes, or NULL with an exception.
        let made = unsafe { pyo3::ffi::PyBytes_FromStringAndSize(std::ptr::null(), size) };
        // SAFETY: as above, and nobody else has it yet.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, made)? };
        // SAFETY: it is a bytes object.
        let start = unsafe { pyo3::ffi::PyBytes_AsString(made.as_ptr()) };
        let mut at = 0;
        for piece in self.0 {
            // SAFETY: the pieces have `len` bytes together, for which there is room; the object is new.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), start.cast::<u8>().add(at), piece.len()) };
            at += piece.len();
        }
        Ok(made.unbind())
    }
}

/// Where a call writes what it receives. Clones are the same.
#[derive(Default, Clone)]
pub(crate) struct Growing(Arc<Mutex<Pieces>>);

impl Growing {
    /// For another attempt.
    pub(crate) fn anew(&self) -> Growing {
        drop(self.take());
        self.clone()
    }

    pub(crate) fn take(&self) -> Pieces {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
