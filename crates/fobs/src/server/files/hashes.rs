//! Hashes of files and of their pieces, for a client that reads one file from several hosts (protocol 2.14).

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::Bytes;
use fobs_model::message::files::{ENTRIES_MAX, WireEntry, WireKind};
use fobs_store::{Base, pieces};
use std::time::{Duration, Instant};

/// Files of one request.
pub(crate) const FILES_MAX: usize = 1000;
/// Values of one message: 64 KiB.
const VALUES_MAX: usize = 1024;
/// How long an entry may wait for others that go in the same message.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Entries on their way to the client: of small files many in one message.
struct Outgoing<'a> {
    entries: Vec<WireEntry>,
    /// Values among them, bytes.
    value_bytes: usize,
    sent: Instant,
    answer: &'a mut dyn FnMut(Vec<WireEntry>) -> Result<()>,
}

impl Outgoing<'_> {
    fn add(&mut self, entry: WireEntry) -> Result<()> {
        self.value_bytes += entry.name.0.len();
        self.entries.push(entry);
        let is_full = self.entries.len() >= ENTRIES_MAX || self.value_bytes >= VALUES_MAX * 32;
        if is_full || self.sent.elapsed() >= WAIT_MAX { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<()> {
        (self.value_bytes, self.sent) = (0, Instant::now());
        (self.answer)(std::mem::take(&mut self.entries))
    }
}

/// Answers: for each file entries with the values of its pieces, the last one with its root. A file that
/// cannot be read has one entry that is no file, with the reason for a name.
pub(super) fn serve(
    base: &Base,
    paths: &[Bytes],
    piece: u64,
    go_on: &mut dyn FnMut() -> Result<()>,
    answer: &mut dyn FnMut(Vec<WireEntry>) -> Result<()>,
) -> Result<()> {
    pieces::check(piece)?;
    if paths.is_empty() || paths.len() > FILES_MAX {
        let message = format!("a request names 1 to {FILES_MAX} files, not {}", paths.len());
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let mut outgoing = Outgoing { entries: Vec::new(), value_bytes: 0, sent: Instant::now(), answer };
    for path in paths {
        let mut values = Vec::new();
        let mut take = |value: [u8; 32]| {
            values.extend_from_slice(&value);
            if values.len() < VALUES_MAX * value.len() {
                return Ok(());
            }
            outgoing.add(entry_of(std::mem::take(&mut values)))
        };
        let hashed = pieces::hash(base, &path.0, piece, go_on, &mut take);
        match hashed {
            Ok(found) => outgoing.add(WireEntry { name: Bytes(values), ..WireEntry::from(found) })?,
            Err(error) if error.kind == ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                outgoing.add(WireEntry { kind: WireKind::Other, ..entry_of(error.message.into_bytes()) })?;
            }
        }
    }
    outgoing.send()
}

fn entry_of(name: Vec<u8>) -> WireEntry {
    WireEntry::named(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_small_files_share_messages() {
        let directory = tempfile::tempdir().unwrap();
        let names: Vec<String> =
            (0..FILES_MAX).map(|at| format!("{}/{at}", directory.path().display())).collect();
        for (at, name) in names.iter().enumerate().filter(|(at, _)| at % 9 != 8) {
            std::fs::write(name, at.to_string()).unwrap();
        }
        let paths: Vec<Bytes> = names.iter().map(|name| Bytes(name.clone().into_bytes())).collect();
        let (mut entries, mut messages) = (Vec::new(), 0);
        let began = Instant::now();
        let mut answer = |some: Vec<WireEntry>| {
            assert!(some.len() <= ENTRIES_MAX);
            messages += 1;
            entries.extend(some);
            Ok(())
        };
        serve(&Base::Ambient, &paths, pieces::PIECE_MIN, &mut || Ok(()), &mut answer).unwrap();
        // On a slow machine some leave before they are full.
        let most =
            FILES_MAX / ENTRIES_MAX + 1 + (began.elapsed().as_millis() / WAIT_MAX.as_millis()) as usize;
        assert!(messages <= most, "{messages} messages");
        assert_eq!(entries.len(), FILES_MAX);
        for (at, entry) in entries.iter().enumerate() {
            let hash = blake3::hash(at.to_string().as_bytes());
            let expected = (at % 9 != 8).then(|| Bytes(hash.as_bytes().to_vec()));
            assert_eq!(entry.root, expected, "{at}");
        }
    }

    #[test]
    fn values_of_large_files_fill_a_message_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<Bytes> = (0..3)
            .map(|at| {
                let path = directory.path().join(at.to_string());
                let file = std::fs::File::create(&path).unwrap();
                file.set_len(pieces::PIECE_MIN * (VALUES_MAX as u64 + 3)).unwrap();
                Bytes(path.into_os_string().into_encoded_bytes())
            })
            .collect();
        let mut answer = |some: Vec<WireEntry>| {
            let bytes: usize = some.iter().map(|entry| entry.name.0.len()).sum();
            assert!(bytes < 2 * VALUES_MAX * 32, "{bytes} bytes of values in a message");
            Ok(())
        };
        serve(&Base::Ambient, &paths, pieces::PIECE_MIN, &mut || Ok(()), &mut answer).unwrap();
    }
}
