//! Hashes of files at the server, over a session.

use super::Call;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::listing::{Entry, EntryKind};
use fobs_model::message::Bytes;
use fobs_model::message::files::FileRequest;
use fobs_store::pieces;

/// A file that the server has hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedFile {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change: seconds since 1970, below 0 before it.
    pub mtime_s: i64,
    /// Nanoseconds after that second.
    pub mtime_ns: u32,
    /// Permission bits.
    pub mode: u32,
    /// BLAKE3 of the content.
    pub root: [u8; 32],
    /// Values of the pieces, which join to the root; none for a file of one piece.
    pub values: Vec<[u8; 32]>,
}

impl Call<'_> {
    /// See [`Session::hash`](super::Session::hash).
    ///
    /// # Errors
    /// Its.
    pub fn hash<N: AsRef<[u8]>>(self, names: &[N], piece: u64) -> Result<Vec<Result<HashedFile>>> {
        pieces::check(piece)?;
        let paths: Vec<Bytes> = names.iter().map(|name| Bytes(self.path(name.as_ref()))).collect();
        let request = FileRequest::Hash { paths, piece };
        let options = self.chosen();
        let answer = self.with_caller(&options, |caller, manner| caller.ask(&request, manner))?;
        read(answer, names.len(), piece)
    }
}

/// The files of an answer.
fn read(answer: Vec<Entry>, count: usize, piece: u64) -> Result<Vec<Result<HashedFile>>> {
    let unclear = || {
        let message = "the server's hashes do not fit each other; install the same version on both sides";
        Error::new(ErrorKind::Protocol, message)
    };
    let (mut files, mut values) = (Vec::new(), Vec::new());
    for entry in answer {
        if entry.kind != EntryKind::File {
            let message =
                fobs_model::text::printable(&String::from_utf8_lossy(&entry.name), REASON_CHARS_MAX);
            files.push(Err(Error::new(ErrorKind::NoSource, message)));
            values.clear();
            continue;
        }
        let (whole, rest) = entry.name.as_chunks::<32>();
        values.extend_from_slice(whole);
        let Some(root) = entry.root else { continue };
        let joins = pieces::join(&values).is_none_or(|joined| joined == root);
        if !rest.is_empty() || values.len() as u64 != pieces::value_count(entry.size, piece) || !joins {
            return Err(unclear());
        }
        let Entry { size, mtime_s, mtime_ns, mode, .. } = entry;
        let values = std::mem::take(&mut values);
        files.push(Ok(HashedFile { size, mtime_s, mtime_ns, mode, root, values }));
    }
    if files.len() == count && values.is_empty() { Ok(files) } else { Err(unclear()) }
}

/// Characters of a server's reason that are shown.
const REASON_CHARS_MAX: usize = 500;
