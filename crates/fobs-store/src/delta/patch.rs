//! A chunk's body as a patch (protocol 7.9): instructions, the bytes that no basis has, the records.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::pieces::ReadsAt;
use super::readable::BasisBytes;
use super::sparse::{apply_to, differences};
use crate::chunk::{CHUNK_DATA_MAX, CHUNK_LEN_MAX, RECORDS_MAX};
use fobs_model::deltas::{Because, Literal};

/// The length of the instructions, in front of them, bytes.
const HEAD: usize = 4;
/// A patch must save at least one part in this many of a chunk to be worth the receiver's reading.
const GAIN_DIVISOR: usize = 8;
/// Most instructions of a patch: a chunk of scattered changes has fewer, and none costs its
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
    /// These bytes of the basis, but for the differences in the next `bytes` of the patch.
    Differ { from: u64, len: u32, bytes: u32 },
}

/// The sender's own copy of a basis.
pub(crate) type Earlier = Arc<OwnedFd>;

/// Collects what a chunk's data is made of.
#[derive(Debug, Default)]
pub(crate) struct PatchBuilder {
    steps: Vec<Step>,
    row: Option<u64>,
    /// Of the steps that are [`Step::Differ`], in their order.
    earlier: Vec<Earlier>,
    copied: u64,
    literal: Literal,
    looked: bool,
    supposed: bool,
    tried: u64,
}

/// What is measured of a chunk that is made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Whether anything was looked for in it.
    pub(crate) looked: bool,
    /// Whether it was supposed of anything that the receiver has it.
    pub(crate) supposed: bool,
    /// Bytes that are sent to see how fast that is.
    pub(crate) tried: u64,
    /// What is sent, by the reason.
    pub(crate) literal: Literal,
}

impl PatchBuilder {
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.earlier.clear();
        *self = PatchBuilder {
            steps: std::mem::take(&mut self.steps),
            earlier: std::mem::take(&mut self.earlier),
            ..PatchBuilder::default()
        };
    }

    /// What is next is looked for.
    pub(crate) fn looks(&mut self) {
        self.looked = true;
    }

    /// The next `len` bytes are sent to see how fast that is.
    pub(crate) fn tried(&mut self, len: usize) {
        self.tried += len as u64;
        self.new_bytes(len, Because::Trial);
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> Counts {
        let PatchBuilder { looked, supposed, tried, literal, .. } = *self;
        Counts { looked, supposed, tried, literal }
    }

    /// The chunk leaves whole: what could have been copied is sent too.
    pub(crate) fn leaves_whole(&mut self) {
        self.literal.add(Because::New, std::mem::take(&mut self.copied));
    }

    /// The next `len` bytes of the data are sent, for this reason.
    pub(crate) fn new_bytes(&mut self, len: usize, because: Because) {
        self.literal.add(because, len as u64);
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
        self.of_row(row);
        match self.steps.last_mut() {
            Some(Step::Copy { from, len }) if *from + u64::from(*len) == at => *len += more,
            _ => self.steps.push(Step::Copy { from: at, len: more }),
        }
    }

    /// Likewise, as is supposed because of size and time alone.
    pub(crate) fn suppose(&mut self, row: u64, at: u64, more: u32) {
        self.supposed = true;
        self.copy(row, at, more);
    }

    /// The next `len` bytes of the data are those of a basis at `at`, but for what differs from the sender's
    /// own copy of it.
    pub(crate) fn differ(&mut self, row: u64, at: u64, len: u32, earlier: &Earlier) {
        self.supposed = true;
        self.of_row(row);
        self.steps.push(Step::Differ { from: at, len, bytes: 0 });
        self.earlier.push(earlier.clone());
    }

    fn of_row(&mut self, row: u64) {
        if self.row != Some(row) {
            self.row = Some(row);
            self.steps.push(Step::Basis { row });
        }
    }

    /// Whether it has differences, which zstd makes much shorter.
    pub(crate) fn has_differences(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// Finds what differs from earlier copies: the differences of each, and the steps for the chunk's `data`.
    fn compared(&mut self, data: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let (mut at, mut earlier) = (0, self.earlier.drain(..));
        let mut old = Vec::new();
        for step in &mut self.steps {
            match step {
                Step::New { len } | Step::Copy { len, .. } => at += *len as usize,
                Step::Basis { .. } => {}
                Step::Differ { from, len, bytes } => {
                    let new = &data[at..at + *len as usize];
                    at += new.len();
                    old.resize(new.len(), 0);
                    let file = earlier.next();
                    let is_read = file.is_some_and(|file| read(&file, &mut old, *from).is_ok());
                    let most = new.len() - new.len() / GAIN_DIVISOR;
                    match is_read.then(|| differences(&old, new, most)).flatten() {
                        Some(differences) => {
                            // At most a chunk's data.
                            *bytes = differences.len() as u32;
                            let sent = (differences.len() as u64).min(new.len() as u64);
                            self.copied += new.len() as u64 - sent;
                            self.literal.add(Because::New, sent);
                            found.push(differences);
                        }
                        None => {
                            self.literal.add(Because::New, new.len() as u64);
                            *step = Step::New { len: new.len() as u32 };
                        }
                    }
                }
            }
        }
        found
    }

    /// Bytes that a basis has.
    pub(crate) fn copied(&self) -> u64 {
        self.copied
    }

    /// The body as a patch, if that is shorter by enough.
    pub(crate) fn build(&mut self, data: &[u8], records: &[u8]) -> Option<Vec<u8>> {
        let differing = self.compared(data);
        if self.copied == 0 || self.steps.len() > STEPS_MAX {
            return None;
        }
        let mut steps = Vec::new();
        for step in &self.steps {
            postcard::to_io(step, &mut steps).expect("writing to a Vec does not fail");
        }
        let new = self.steps.iter().map(|step| match *step {
            Step::New { len } => len as usize,
            Step::Differ { bytes, .. } => bytes as usize,
            Step::Copy { .. } | Step::Basis { .. } => 0,
        });
        let new: usize = new.sum();
        let (len, whole) = (HEAD + steps.len() + new + records.len(), data.len() + records.len());
        if len > whole - whole / GAIN_DIVISOR {
            return None;
        }
        let mut body = Vec::with_capacity(len);
        // At most a chunk.
        body.extend_from_slice(&(steps.len() as u32).to_le_bytes());
        body.append(&mut steps);
        let (mut at, mut differing) = (0, differing.iter());
        for step in &self.steps {
            match *step {
                Step::New { len } => {
                    body.extend_from_slice(&data[at..at + len as usize]);
                    at += len as usize;
                }
                Step::Copy { len, .. } => at += len as usize,
                Step::Differ { len, .. } => {
                    body.extend(differing.next().into_iter().flatten());
                    at += len as usize;
                }
                Step::Basis { .. } => {}
            }
        }
        body.extend_from_slice(records);
        Some(body)
    }
}

/// What of a chunk's data came from a basis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Which basis, and from where in it.
    pub(crate) row: u64,
    pub(crate) from: u64,
    /// Where in the chunk's data, and how much of it is as it is there.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// Bytes that were not sent.
    pub(crate) matched: u64,
}

const OF_NONE: &str = "a patch copies of no file";
const TOO_LITTLE: &str = "a patch has less data than declared";

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
/// gives what was offered for a row. Returns what came from which.
///
/// # Errors
/// The patch breaks a rule, or the basis is not what it was.
pub(crate) fn apply(
    patch: &[u8],
    (data_len, records_len): (usize, usize),
    body: &mut Vec<u8>,
    basis: &dyn Fn(u64) -> Option<BasisBytes>,
) -> Result<Vec<Copied>, &'static str> {
    debug_assert!(data_len <= CHUNK_DATA_MAX && records_len <= RECORDS_MAX && patch.len() <= CHUNK_LEN_MAX);
    let [mut steps, mut new, records] = split(patch, records_len)?;
    if body.len() < data_len + records_len {
        body.resize(data_len + records_len, 0);
    }
    let (mut open, mut at, mut count) = (None, 0, 0);
    let mut copied: Vec<Copied> = Vec::new();
    let mut row = 0;
    while !steps.is_empty() {
        let (step, rest) = postcard::take_from_bytes::<Step>(steps).map_err(|_| "a patch cannot be read")?;
        steps = rest;
        count += 1;
        if count > STEPS_MAX {
            return Err("a patch has more instructions than a chunk needs");
        }
        let len = match step {
            Step::New { len } | Step::Copy { len, .. } | Step::Differ { len, .. } => len as usize,
            Step::Basis { row: of } => {
                open = Some(basis(of).ok_or("a patch is of a file that was not offered")?);
                row = of;
                continue;
            }
        };
        let room = body[..data_len].get_mut(at..at + len).ok_or("a patch makes more data than declared")?;
        let place = at;
        at += len;
        match step {
            Step::Copy { from, .. } => {
                read(open.as_ref().ok_or(OF_NONE)?, room, from)?;
                copied.push(Copied { row, from, at: place, len, matched: len as u64 });
            }
            Step::Differ { from, bytes, .. } => {
                read(open.as_ref().ok_or(OF_NONE)?, room, from)?;
                let (now, after) = new.split_at_checked(bytes as usize).ok_or(TOO_LITTLE)?;
                apply_to(room, now)?;
                new = after;
                let matched = (len as u64).saturating_sub(u64::from(bytes));
                copied.push(Copied { row, from, at: place, len: 0, matched });
            }
            _ => {
                let (now, after) = new.split_at_checked(len).ok_or(TOO_LITTLE)?;
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
    let basis = BasisBytes::File(Arc::new(basis));
    let of_row = |row| (row == 0).then(|| basis.clone());
    let copied = apply(patch, lengths, &mut Vec::new(), &of_row)?;
    Ok(copied.iter().map(|copied| copied.matched).sum())
}

fn read(basis: &impl ReadsAt, mut room: &mut [u8], mut from: u64) -> Result<(), &'static str> {
    let gone = "the basis of a patch changed";
    while !room.is_empty() {
        match basis.read_at(room, from) {
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
