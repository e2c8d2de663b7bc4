//! Compression of a chunk's body (protocol 7.1, `-C`).

use zstd::bulk::Compressor;

use super::chunk::CHUNK_LEN_MAX;
use fobs_model::error::{Error, ErrorKind, Result};

/// Compression must save at least a twentieth of the body to be worth the receiver's time.
const GAIN_DIVISOR: usize = 20;
/// zstd's fastest regular level: `-C` is for slow links, but must keep up with fast ones.
const ZSTD_LEVEL: i32 = 1;

/// A compressor and its buffer.
pub(super) struct Compression {
    zstd: Compressor<'static>,
    scratch: Vec<u8>,
}

impl Compression {
    pub(super) fn new() -> Result<Compression> {
        let zstd = Compressor::new(ZSTD_LEVEL)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("cannot start zstd: {error}")))?;
        Ok(Compression { zstd, scratch: vec![0; CHUNK_LEN_MAX] })
    }

    /// The body compressed, if that saves enough.
    pub(super) fn compress(&mut self, body: &[u8]) -> Option<&[u8]> {
        let worth_it = body.len() - body.len() / GAIN_DIVISOR;
        if worth_it == body.len() {
            return None;
        }
        // zstd fails where the result would not fit, which means it does not save enough.
        let len = self.zstd.compress_to_buffer(body, &mut self.scratch[..worth_it]).ok()?;
        Some(&self.scratch[..len])
    }
}
