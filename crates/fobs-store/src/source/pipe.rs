//! A pipe as a source: bytes of which more may come at any time, as a row of files. Each goes on as long as
//! bytes do, so what has come leaves although the next ones are long in coming (protocol 2.18).

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Begun, Feed, STREAM_NAME, Source, SourceShape, stream_meta};
use crate::attributes::{Collector, Preserve};
use crate::input::Input;
use fobs_filter::XattrRules;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::Privileges;

/// Where the bytes of a pipe come from. `read` returns 0 where none follow for now, or none at all.
pub trait PipeInput: Read + Send {
    /// Waits for bytes.
    ///
    /// # Errors
    /// That of the kernel.
    fn wait(&mut self) -> io::Result<More>;
}

/// Whether bytes of a pipe are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// They are.
    Bytes,
    /// None will come.
    End,
}

/// The input, shared by the source and the file that it reads.
#[derive(Clone)]
pub(super) struct Tap(Arc<Mutex<Tapped>>);

struct Tapped {
    input: Box<dyn PipeInput>,
    /// Why it cannot be read on: the file ends before it, and then so does the transfer.
    failed: Option<io::Error>,
}

impl Tap {
    fn locked(&self) -> MutexGuard<'_, Tapped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) -> io::Result<More> {
        let mut tapped = self.locked();
        match tapped.failed.take() {
            Some(error) => Err(error),
            None => tapped.input.wait(),
        }
    }
}

impl Read for Tap {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut tapped = self.locked();
        match tapped.input.read(room) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                tapped.failed = Some(error);
                Ok(0)
            }
            read => read,
        }
    }
}

impl Source {
    /// What comes out of a pipe, until its end.
    ///
    /// # Errors
    /// `Internal` where there is no memory to compress with.
    pub fn from_pipe(input: Box<dyn PipeInput>, compress: bool, budget: MemoryBudget) -> Result<Source> {
        let tap = Tap(Arc::new(Mutex::new(Tapped { input, failed: None })));
        let collector =
            Arc::new(Collector::new(Preserve::default(), Privileges::OfTheUser, XattrRules::default()));
        let source = Source::new(SourceShape::Stream, Feed::Pipe(tap), Vec::new(), collector, compress)?;
        Ok(Source { budget, ..source })
    }

    /// Begins the next file of a pipe once there are bytes for it. Those that are in the chunk do not wait.
    pub(super) fn begin_piped(&mut self, tap: &Tap) -> Result<Begun> {
        if !self.records.is_empty() {
            return Ok(Begun::NotYet);
        }
        let more = tap.wait().map_err(|error| {
            let message =
                format!("cannot read the input of the pipe: {error}; look at the program before it");
            Error::new(ErrorKind::FileIo, message)
        })?;
        match more {
            More::End => Ok(Begun::End),
            More::Bytes => {
                self.begin_file(STREAM_NAME.to_vec(), stream_meta(), 0, Input::Stream(Box::new(tap.clone())));
                Ok(Begun::Entry)
            }
        }
    }
}

#[cfg(test)]
mod tests;
