//! How much is read to be compared: it may take long, and moves nothing.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that were read so at one end of a transfer. Clones are one count.
#[derive(Debug, Clone, Default)]
pub struct Looked(Arc<AtomicU64>);

impl Looked {
    /// Adds bytes that were read.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All of them.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A file whose reads are counted.
pub(crate) struct Counted<'l>(pub(crate) File, pub(crate) &'l Looked);

impl Read for Counted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).inspect(|&read| self.1.add(read as u64))
    }
}
