//! One writer: a lock beside the state file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::StoreError;

/// The file's name. It stays: a lock on a name that is removed would be no lock.
const FILE: &str = "jobs.lock";
/// Longest note of a holder that is shown, bytes.
const NOTE_BYTES_MAX: u64 = 200;

/// The lock, until it is dropped or its process ends.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    pub(super) fn take(directory: &Path) -> Result<Lock, StoreError> {
        let path = directory.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(|error| StoreError::of_directory(&path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let host = rustix::system::uname();
                let note =
                    format!("process {} on {}\n", std::process::id(), host.nodename().to_string_lossy());
                // For people alone: a full disk does not keep a keeper from reading what there is.
                let _ = file.set_len(0).and_then(|()| file.write_all(note.as_bytes()));
                Ok(Lock(file))
            }
            Err(Errno::WOULDBLOCK) => {
                let mut note = String::new();
                // Without the note, the sentence names the file alone.
                let _ = file.rewind().and_then(|()| (&file).take(NOTE_BYTES_MAX).read_to_string(&mut note));
                Err(StoreError::Taken(format!("{}: {}", path.display(), note.trim())))
            }
            Err(error) => Err(StoreError::of_directory(&path, &error.into())),
        }
    }
}
