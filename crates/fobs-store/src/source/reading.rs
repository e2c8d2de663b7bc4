//! Reading the current file into a chunk.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::{FilledChunk, ReadStretch, Source, StartOverReason, StartedOver};
use crate::FileDone;
use crate::attributes::HOLES_MAX;
use crate::open_file::{Content, OpenFile, Unread};
use crate::record::{Meta, Record};
use crate::tree_hash::{GROUP, Tail};
use fobs_filter::path::show;
use fobs_model::event::FileError;

impl Source {
    /// Reads the current file into `room`, where what was read `ahead` is, and writes its records. Returns
    /// the bytes used.
    pub(super) fn read_on(
        &mut self,
        mut file: OpenFile,
        room: &mut [u8],
        ahead: Option<ReadStretch>,
        filled: &mut FilledChunk,
    ) -> usize {
        let offset = file.tree.len();
        // Whole groups, like `offset`, so that the file continues at a group.
        let room_len = room.len() - room.len() % GROUP as usize;
        let began = file.matcher.is_some().then(Instant::now);
        let read = file.read(&mut room[..room_len], HOLES_MAX - self.holes, &mut self.values, ahead);
        if let (Some(matcher), Some(began), Ok((Content::Data(len), _))) = (&file.matcher, began, &read) {
            matcher.was_read(*len as u64, began.elapsed());
        }
        let (content, tail) = match read {
            Ok(read) => read,
            Err(unread) => {
                if let (Unread::Changed, Some(at)) = (&unread, self.begun_at.take()) {
                    return self.read_again(file, at, filled);
                }
                let message = match unread {
                    Unread::Failed(message) => message,
                    Unread::Changed => changed(&file.path),
                };
                // The data of this call is overwritten: the receiver discards the file.
                self.bytes += offset;
                self.fail(FileError { path: file.path, message }, filled);
                return 0;
            }
        };
        let len = match content {
            Content::Data(0) => 0,
            Content::Data(len) => {
                filled.first_file.get_or_insert_with(|| file.path.clone());
                // At most a chunk's data.
                Record::Extent { offset, len: len as u32 }.encode(&mut self.records);
                file.describe(offset, len, &mut self.patch);
                len
            }
            Content::Hole(len) => {
                Record::Hole { offset, len }.encode(&mut self.records);
                self.holes += len;
                0
            }
        };
        // Its records are not taken back once its data is described.
        self.begun_at = None;
        match tail {
            Tail::EndsFile => {
                Record::End.encode(&mut self.records);
                self.file_leaves(&file);
                let (bytes, root) = (file.tree.len(), file.tree.root());
                self.note_version(&file.path, &file.input, root);
                self.bytes += bytes;
                self.root.file(&file.path, &root);
                filled.files.push(FileDone { path: file.path, bytes, root });
            }
            Tail::Continues => self.file = Some(file),
        }
        len
    }

    /// Takes back the current file's first record, which is at `at`, and begins it once more. Returns the
    /// bytes used: none.
    fn read_again(&mut self, file: OpenFile, at: usize, filled: &mut FilledChunk) -> usize {
        self.records.truncate(at);
        self.files -= 1;
        self.resumed = self.resumed.saturating_sub(file.resumed);
        if file.resumed > 0 {
            filled.started_over.push(StartedOver { path: file.path.clone(), why: StartOverReason::Changed });
        }
        if let Some(entry) = file.anew(&self.collector) {
            self.begin(entry, filled);
            self.begun_at = None;
        }
        0
    }
}

fn changed(path: &[u8]) -> String {
    format!(
        "cannot copy '{}': it changed while it was read; copy it again when nothing writes to it",
        show(path)
    )
}

/// Mode and time of a stream: those of a file written now.
pub(super) fn stream_meta() -> Meta {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Meta {
        mode: 0o666,
        mtime_s: i64::try_from(since_1970.as_secs()).unwrap_or(0),
        mtime_ns: since_1970.subsec_nanos(),
    }
}
