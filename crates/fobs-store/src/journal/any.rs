//! Journals of any content, for fuzzing: an own file in a directory that others may write to.

use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use super::book::Book;
use super::format;
use super::format::{
    Boot, Completion, LOG_AT, Origin, RECORD_LEN, SLOTS, encode_origin, encode_record, slot_at,
};
use super::store::Store;

/// Longest journal that fuzzing makes, bytes.
const LEN_MAX: usize = 1 << 20;
const BOOT: Boot = [7; 16];

/// A journal in memory.
struct Memory(Mutex<Vec<u8>>);

impl Store for Memory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let bytes = self.0.lock().expect("not poisoned");
        let rest = bytes.get(usize::try_from(offset).map_err(|_| Errno::INVAL)?..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Errno> {
        let mut bytes = self.0.lock().expect("not poisoned");
        let at = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let end = at + data.len();
        if end > LEN_MAX {
            return Err(Errno::FBIG);
        }
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[at..end].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn shorten(&self, len: u64) -> Result<(), Errno> {
        self.0.lock().expect("not poisoned").truncate(len as usize);
        Ok(())
    }
}

/// Loads bytes as a journal; and, in a journal whose checks are right, as slots (each with its length in
/// front, u16) and what follows as a log.
pub fn load_any(input: &[u8]) {
    load(input.to_vec());
    let origin = Origin { salt: [1; 16], suffix: *b"abcdef", key: [2; 16] };
    let mut bytes = encode_origin(&origin);
    bytes.resize(LOG_AT as usize, 0);
    let mut rest = input;
    for index in 0..SLOTS {
        let Some((len, after)) = rest.split_first_chunk() else { break };
        let (body, after) = after.split_at(after.len().min(usize::from(u16::from_le_bytes(*len))));
        let slot = format::framed(&origin.salt, slot_at(index), body);
        let at = slot_at(index) as usize;
        if at + slot.len() <= LOG_AT as usize {
            bytes[at..at + slot.len()].copy_from_slice(&slot);
        }
        rest = after;
    }
    for (index, record) in (0..).zip(rest.chunks(RECORD_LEN)) {
        let mut completion = Completion::WITHDRAWN;
        for (to, from) in completion.source.iter_mut().zip(record) {
            *to = *from;
        }
        bytes.extend(encode_record(&origin.salt, index, &completion));
    }
    load(bytes);
}

/// What was loaded is at most what the file has room for, and loads again after one more file.
fn load(bytes: Vec<u8>) {
    let room = bytes.len().saturating_sub(LOG_AT as usize) / RECORD_LEN;
    let store = Arc::new(Memory(Mutex::new(bytes)));
    let Ok(loaded) = Book::load(store.clone(), BOOT, &fobs_model::budget::MemoryBudget::default()) else {
        return;
    };
    assert!(loaded.completions.len() <= room);
    let one = Completion { source: [3; 16], destination: [4; 8] };
    if loaded.book.record(&[one], 1, loaded.current.clone()).is_none() {
        return;
    }
    drop(loaded.book);
    let again = Book::load(store, BOOT, &fobs_model::budget::MemoryBudget::default())
        .unwrap_or_else(|error| panic!("it was loaded before: {error:?}"));
    assert_eq!(again.completions.len(), loaded.completions.len() + 1);
    assert_eq!(again.completions.last(), Some(&one));
    assert_eq!(again.current, loaded.current);
}
