//! Objects of one small chunk, which travel in the messages of the control channel (protocol 2.8): a round
//! trip instead of three, and no socket. What is filled, verified and stored is the chunk of any transfer.

use fobs_engine::{Clock, Reporter, Throttle};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::FileError;
use fobs_model::message::Complete;
use fobs_model::text::hex;
use fobs_store::{Closing, FileDone, Sink, SinkEvent, SinkSummary, Source, VerifyError, chunk_room, verify};

/// Most file data of such an object, bytes. In base64 it is 87 kB, three flights of a TCP connection that
/// begins anew (RFC 6928); more goes faster over UDP.
pub(crate) const DIRECT_DATA_MAX: usize = 64 << 10;
/// File data that a source is asked for, bytes: it reads whole groups of 64 KiB, and learns of a stream's end
/// only where it may read one more.
const ASKED: usize = 2 * DIRECT_DATA_MAX;
/// Longest chunk, bytes: beside the data, records of two hundred small files, or some attributes.
pub const DIRECT_LEN_MAX: usize = DIRECT_DATA_MAX + (16 << 10);

/// An object in one chunk.
pub struct Filled {
    pub chunk: Vec<u8>,
    pub(crate) files: Vec<FileDone>,
    pub(crate) failures: Vec<FileError>,
    pub(crate) data_bytes: u64,
    root: [u8; 32],
}

impl Filled {
    /// Reads a source, if all of it fits in `room` bytes. Else the source is of no use any more.
    pub fn all_of(mut source: Source, room: usize) -> Result<Option<Filled>> {
        // No more than is asked for: some allocators touch each page of what they give zeroed.
        let mut chunk = vec![0; chunk_room(ASKED)];
        let filled = source.next_chunk(&mut chunk, ASKED)?;
        let is_small = filled.data_bytes <= DIRECT_DATA_MAX as u64;
        // What the users of both ends are to know goes with the messages of a whole session.
        let is_silent = filled.notice.is_none();
        if !filled.is_final || !is_small || !is_silent || filled.len > room.min(DIRECT_LEN_MAX) {
            return Ok(None);
        }
        Ok(Some(Filled {
            chunk: chunk[..filled.len].to_vec(),
            files: filled.files,
            failures: filled.failures,
            data_bytes: filled.data_bytes,
            root: source.root(),
        }))
    }

    /// The root, hex.
    pub fn root(&self) -> String {
        hex(&self.root)
    }

    /// Reports what was sent.
    pub(crate) fn report(self, reporter: &Reporter) {
        reporter.add_bytes(self.data_bytes);
        self.files.into_iter().for_each(|file| reporter.file_done(file));
    }
}

/// Waits for a chunk's turn under the rate of its key, or for cancellation.
pub(crate) fn pass(throttle: &Throttle, len: usize, cancel: &CancelToken) -> Result<()> {
    let end = throttle.end_on_drop();
    let _hook = cancel.on_cancel(move || drop(end));
    throttle.pass(len);
    cancel.check()
}

/// Verifies and stores an object that came in one chunk.
pub(crate) fn store(chunk: &[u8], mut sink: Sink, reporter: &Reporter) -> Result<(SinkSummary, Closing)> {
    if chunk.len() > DIRECT_LEN_MAX {
        let message = format!(
            "an object of {} bytes came in a message, where {DIRECT_LEN_MAX} are allowed; install the same \
             version on both sides",
            chunk.len()
        );
        return Err(Error::new(ErrorKind::Protocol, message));
    }
    let mut scratch = Vec::new();
    // The channel is authentic and reliable: what does not verify was sent so.
    let verified = verify(chunk, &mut scratch).map_err(|error| match error {
        VerifyError::Mismatch => Error::new(
            ErrorKind::Integrity,
            "an object did not verify; the memory of one side is faulty, so do not trust the copy",
        ),
        VerifyError::Malformed(why) => Error::new(
            ErrorKind::Protocol,
            format!("an object came that is not understood ({why}); install the same version on both sides"),
        ),
    })?;
    reporter.add_bytes(verified.data_bytes());
    let mut report = |event| match event {
        SinkEvent::FileDone(file) => reporter.file_done(file),
        SinkEvent::FileFailed(error) => reporter.failed_here(error),
        SinkEvent::SourceFailed(error) => reporter.failed(error),
        SinkEvent::Resumed(bytes) => reporter.resumed(bytes),
        // Of a sync, which has none of these objects, and for a meter of time.
        SinkEvent::Deleted(_) | SinkEvent::SyncBegins | SinkEvent::SyncEnds => {}
    };
    sink.apply(chunk, verified, &scratch, &mut report)?;
    sink.finish(&mut report)
}

/// The completion signal of such an object.
pub(crate) fn completion(summary: &SinkSummary, clock: Clock) -> Complete {
    let usage = clock.usage();
    Complete {
        root: hex(&summary.root),
        files: summary.files,
        bytes: summary.bytes,
        others: summary.others,
        written: summary.written.clone(),
        cpu_seconds: usage.cpu_seconds,
        max_rss_bytes: usage.max_rss_bytes,
        ..Complete::default()
    }
}

#[cfg(test)]
mod tests;
