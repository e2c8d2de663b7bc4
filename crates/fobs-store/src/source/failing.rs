//! What of a source cannot be sent.

use super::{FilledChunk, Source};
use crate::record::{Record, bounded_reason};
use crate::walk::Entry;
use fobs_filter::path::show;
use fobs_model::error::{Error, ErrorKind};
use fobs_model::event::FileError;

impl Source {
    /// Reports attributes that cannot be sent. A directory ends without them.
    pub(super) fn fail_attributes(&mut self, entry: Entry, why: &str, filled: &mut FilledChunk) {
        let (Entry::DirectoryEnd { path, .. }
        | Entry::Symlink { path, .. }
        | Entry::File { path, .. }
        | Entry::Special { path, .. }) = &entry
        else {
            return;
        };
        let message = format!("cannot copy '{}': {why}; copy it without them", show(path));
        let failure = FileError { path: path.clone(), message };
        self.fail(failure, filled);
        if let Entry::DirectoryEnd { path, meta, size, contents, .. } = entry {
            let end = Entry::DirectoryEnd { path, meta, size, attributes: None, contents };
            self.postponed = Some((end, None));
        }
    }

    pub(super) fn fail(&mut self, failure: FileError, filled: &mut FilledChunk) {
        let reason = bounded_reason(&failure.message);
        Record::Failed { path: &failure.path, reason }.encode(&mut self.records);
        filled.failures.push(failure);
    }
}

pub(super) fn beyond_the_limit() -> Error {
    let message = "the sources hold more bytes than were permitted; ask for a ticket of their size";
    Error::new(ErrorKind::Denied, message)
}
