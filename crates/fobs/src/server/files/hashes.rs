//! Hashes of files and of their pieces, for a client that reads one file from several hosts (protocol 2.14).

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::Bytes;
use fobs_model::message::files::{WireEntry, WireKind};
use fobs_store::{Base, pieces};

/// Files of one request.
pub(crate) const FILES_MAX: usize = 1000;
/// Values of one entry: a message of 64 KiB.
const VALUES_MAX: usize = 1024;

/// Answers: for each file entries with the values of its pieces, the last one with its root. A file that
/// cannot be read has one entry that is no file, with the reason for a name.
pub(super) fn serve(
    base: &Base,
    paths: &[Bytes],
    piece: u64,
    go_on: &mut dyn FnMut() -> Result<()>,
    answer: &mut dyn FnMut(WireEntry) -> Result<()>,
) -> Result<()> {
    pieces::check(piece)?;
    if paths.is_empty() || paths.len() > FILES_MAX {
        let message = format!("a request names 1 to {FILES_MAX} files, not {}", paths.len());
        return Err(Error::new(ErrorKind::Usage, message));
    }
    for path in paths {
        let mut values = Vec::new();
        let mut take = |value: [u8; 32]| {
            values.extend_from_slice(&value);
            if values.len() < VALUES_MAX * value.len() {
                return Ok(());
            }
            answer(entry_of(std::mem::take(&mut values)))
        };
        let hashed = pieces::hash(base, &path.0, piece, go_on, &mut take);
        match hashed {
            Ok(found) => answer(WireEntry { name: Bytes(values), ..WireEntry::from(found) })?,
            Err(error) if error.kind == ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                answer(WireEntry { kind: WireKind::Other, ..entry_of(error.message.into_bytes()) })?;
            }
        }
    }
    Ok(())
}

fn entry_of(name: Vec<u8>) -> WireEntry {
    WireEntry::named(name)
}
