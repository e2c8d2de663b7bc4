//! A chunk's body as a patch (protocol 7.9): instructions, the bytes that no basis has, the records.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{Errno, pread};
use serde::{Deserialize, Serialize};

use crate::chunk::{CHUNK_DATA_MAX, CHUNK_LEN_MAX, RECORDS_MAX};

/// The length of the instructions, in front of them, bytes.
const HEAD: usize = 4;
/// A patch must save at least one part in this many of a chunk to be worth the receiver's reading.
const GAIN_DIVISOR: usize = 8;
/// Most instructions of a patch: pieces have 1 KiB at least, so an honest one has fewer, and none costs its
/// receiver a million reads.
const STEPS_MAX: usize = 16_384;

/// What a part of the chunk's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    /// The next bytes of the patch.
    New { len: u32 },
    /// These bytes of the basis.
    Copy { from: u64, len: u32 },
    /// From here on another basis counts: that of this row.
    Basis { row: u64 },
}

/// Collects what a chunk's data is made of.
#[derive(Debug, Default)]
pub(crate) struct PatchBuilder {
    steps: Vec<Step>,
    row: Option<u64>,
    copied: u64,
    looked: bool,
    tried: u64,
}

impl PatchBuilder {
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        (self.row, self.copied, self.looked, self.tried) = (None, 0, false, 0);
    }

    /// What is next is looked for.
    pub(crate) fn looks(&mut self) {
        self.looked = true;
    }

    /// The next `len` bytes are sent to see how fast that is.
    pub(crate) fn tried(&mut self, len: usize) {
        self.tried += len as u64;
        self.new_bytes(len);
    }

    /// Whether anything was looked for, and the bytes that were sent to see how fast that is.
    pub(crate) fn measured(&self) -> (bool, u64) {
        (self.looked, self.tried)
    }

    /// The next `len` bytes of the data are new.
    pub(crate) fn new_bytes(&mut self, len: usize) {
        // At most a chunk's data.
        let more = len as u32;
        match self.steps.last_mut() {
            Some(Step::New { len }) => *len += more,
            _ if more == 0 => {}
            _ => self.steps.push(Step::New { len: more }),
        }
    }

    /// The next `more` bytes of the data are those of a basis at `at`.
    pub(crate) fn copy(&mut self, row: u64, at: u64, more: u32) {
        self.copied += u64::from(more);
        if self.row != Some(row) {
            self.row = Some(row);
            self.steps.push(Step::Basis { row });
        }
        match self.steps.last_mut() {
            Some(Step::Copy { from, len }) if *from + u64::from(*len) == at => *len += more,
            _ => self.steps.push(Step::Copy { from: at, len: more }),
        }
    }

    /// Bytes that a basis has.
    pub(crate) fn copied(&self) -> u64 {
        self.copied
    }

    /// The body as a patch, if that is shorter by enough.
    pub(crate) fn build(&self, data: &[u8], records: &[u8]) -> Option<Vec<u8>> {
        if self.copied == 0 || self.steps.len() > STEPS_MAX {
            return None;
        }
        let mut steps = Vec::new();
        for step in &self.steps {
            postcard::to_io(step, &mut steps).expect("writing to a Vec does not fail");
        }
        let new = data.len() - usize::try_from(self.copied).unwrap_or(0).min(data.len());
        let (len, whole) = (HEAD + steps.len() + new + records.len(), data.len() + records.len());
        if len > whole - whole / GAIN_DIVISOR {
            return None;
        }
        let mut body = Vec::with_capacity(len);
        // At most a chunk.
        body.extend_from_slice(&(steps.len() as u32).to_le_bytes());
        body.append(&mut steps);
        let mut at = 0;
        for step in &self.steps {
            match *step {
                Step::New { len } => {
                    body.extend_from_slice(&data[at..at + len as usize]);
                    at += len as usize;
                }
                Step::Copy { len, .. } => at += len as usize,
                Step::Basis { .. } => {}
            }
        }
        body.extend_from_slice(records);
        Some(body)
    }
}

/// Splits a patch from a peer into its instructions, its new bytes and its records.
fn split(body: &[u8], records_len: usize) -> Result<[&[u8]; 3], &'static str> {
    let short = "a patch is shorter than it declares";
    let (head, rest) = body.split_first_chunk::<HEAD>().ok_or(short)?;
    let (steps, rest) = rest.split_at_checked(u32::from_le_bytes(*head) as usize).ok_or(short)?;
    let new = rest.len().checked_sub(records_len).ok_or(short)?;
    let (new, records) = rest.split_at(new);
    Ok([steps, new, records])
}

/// Makes a body of `data_len` and `records_len` bytes, both within a chunk's bounds, of a patch. `basis`
/// gives what was offered for a row. Returns how many bytes came from which.
///
/// # Errors
/// The patch breaks a rule, or the basis is not what it was.
pub(crate) fn apply(
    patch: &[u8],
    (data_len, records_len): (usize, usize),
    body: &mut Vec<u8>,
    basis: &dyn Fn(u64) -> Option<Arc<OwnedFd>>,
) -> Result<Vec<(u64, u64)>, &'static str> {
    debug_assert!(data_len <= CHUNK_DATA_MAX && records_len <= RECORDS_MAX && patch.len() <= CHUNK_LEN_MAX);
    let [mut steps, mut new, records] = split(patch, records_len)?;
    if body.len() < data_len + records_len {
        body.resize(data_len + records_len, 0);
    }
    let (mut open, mut at, mut count) = (None, 0, 0);
    let mut copied: Vec<(u64, u64)> = Vec::new();
    while !steps.is_empty() {
        let (step, rest) = postcard::take_from_bytes::<Step>(steps).map_err(|_| "a patch cannot be read")?;
        steps = rest;
        count += 1;
        if count > STEPS_MAX {
            return Err("a patch has more instructions than a chunk needs");
        }
        let len = match step {
            Step::New { len } | Step::Copy { len, .. } => len as usize,
            Step::Basis { row } => {
                open = Some(basis(row).ok_or("a patch is of a file that was not offered")?);
                copied.push((row, 0));
                continue;
            }
        };
        let room = body[..data_len].get_mut(at..at + len).ok_or("a patch makes more data than declared")?;
        at += len;
        match step {
            Step::Copy { from, .. } => {
                let (file, (_, bytes)) =
                    open.as_ref().zip(copied.last_mut()).ok_or("a patch copies of no file")?;
                read(file, room, from)?;
                *bytes += len as u64;
            }
            _ => {
                let (now, after) = new.split_at_checked(len).ok_or("a patch has less data than declared")?;
                room.copy_from_slice(now);
                new = after;
            }
        }
    }
    if at != data_len || !new.is_empty() {
        return Err("a patch makes another chunk than it declares");
    }
    body[data_len..data_len + records_len].copy_from_slice(records);
    Ok(copied)
}

/// As [`apply`], of any bytes, to a body that is dropped: bytes that came from the basis of row 0.
///
/// # Errors
/// As there.
#[cfg(any(test, feature = "testing"))]
pub fn apply_any(patch: &[u8], lengths: (usize, usize), basis: OwnedFd) -> Result<u64, &'static str> {
    let basis = Arc::new(basis);
    let of_row = |row| (row == 0).then(|| basis.clone());
    let copied = apply(patch, lengths, &mut Vec::new(), &of_row)?;
    Ok(copied.iter().map(|(_, bytes)| bytes).sum())
}

fn read(file: &OwnedFd, mut room: &mut [u8], mut from: u64) -> Result<(), &'static str> {
    let gone = "the basis of a patch changed";
    while !room.is_empty() {
        match pread(file, &mut *room, from) {
            Ok(0) => return Err(gone),
            Ok(read) => {
                room = &mut room[read..];
                from = from.checked_add(read as u64).ok_or(gone)?;
            }
            Err(Errno::INTR) => {}
            Err(_) => return Err(gone),
        }
    }
    Ok(())
}
