//! What a power cut leaves. Changes of names, permissions, times and lengths reach the device in order, as
//! in the journals of ext4 and xfs: a prefix of them is there, at least as long as what the device was last
//! asked for needs. The content of files goes its own way: each sector that was not asked for is as before,
//! new, torn, zeros or anything, and neighbours mostly fare alike; a file is as long as its last sector that
//! was written.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use fobs_rng::Rng;

use super::model::{Content, Files, put};
use crate::recorder::{Id, Op};
use fobs_model::name::ours::is_journal;

/// What a device writes as a whole, bytes.
const SECTOR: usize = 512;
/// Longest run of sectors that fare alike.
const RUN_MAX: usize = 64;

/// How a run ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The program is killed: the kernel has all that it did.
    Kill,
    /// The power goes.
    Power,
}

/// A run: the destination before, and the calls that succeeded.
pub struct Log {
    pub before: Files,
    pub ops: Vec<Op>,
    /// Whether the device was asked for each file.
    pub fsync: bool,
}

/// What becomes of a run of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Old,
    New,
    Torn,
    Zeros,
    Garbage,
}

const FATES: [Fate; 5] = [Fate::Old, Fate::New, Fate::Torn, Fate::Zeros, Fate::Garbage];

impl Log {
    /// Calls of which a power cut may lose none that is promised: those before the last removal of a name in
    /// the top directory, which is the journal's, or all where the device is asked for each file. None where
    /// there could be no journal.
    pub fn promised(&self) -> usize {
        let top = self.before.top;
        if !self.fsync && !self.has_journal() {
            return 0;
        }
        let is_last = |op: &Op| matches!(op, Op::Unlink { directory, .. } if *directory == top);
        let last = self.ops.iter().rposition(is_last).unwrap_or(self.ops.len());
        if self.fsync { self.ops.len() } else { last }
    }

    fn has_journal(&self) -> bool {
        let is_there = match self.before.nodes.get(&self.before.top).map(|node| &node.content) {
            Some(Content::Directory(entries)) => entries.keys().any(|name| is_journal(name)),
            _ => false,
        };
        let is_made = |op: &Op| matches!(op, Op::Make { directory, name, .. } if *directory == self.before.top && is_journal(name));
        is_there || self.ops.iter().any(is_made)
    }

    /// All that the calls before `at` made.
    pub fn all(&self, at: usize) -> Files {
        let mut files = self.before.clone();
        self.ops[..at].iter().for_each(|op| files.apply(op));
        files
    }

    /// The calls before `at`, the last of them in full.
    pub fn describe(&self, at: usize) -> String {
        let mut text = String::new();
        for (number, op) in self.ops[..at].iter().enumerate() {
            let shown = |name: &[u8]| name.escape_ascii().to_string();
            let line = match op {
                Op::Write { file, offset, data } => format!("Write {file} {offset}+{}", data.len()),
                Op::Make { directory, name, made, what, mode, .. } => {
                    format!("Make {directory}/{} = {made} {mode:o} {what:?}", shown(name))
                }
                Op::Link { file, directory, name } => format!("Link {directory}/{} = {file}", shown(name)),
                Op::Unlink { directory, name } => format!("Unlink {directory}/{}", shown(name)),
                Op::Rename { directory, name, to, new } => {
                    format!("Rename {directory}/{} to {to}/{}", shown(name), shown(new))
                }
                op => format!("{op:?}"),
            };
            writeln!(text, "  {number} {line}").expect("into memory");
        }
        text
    }
}

/// What is left when `at` calls were made.
pub fn cut(log: &Log, how: Cut, at: usize, rng: &mut Rng) -> Files {
    if how == Cut::Kill {
        return log.all(at);
    }
    let ops = &log.ops[..at];
    let floor = floor(ops);
    // Mostly somewhere in between, and often nothing or all of what may be lost is.
    let kept = match rng.below(4) {
        0 => floor,
        1 => at,
        _ => floor + rng.below(at - floor + 1),
    };
    let asked = asked(ops);
    let mut files = log.before.clone();
    for (number, op) in ops.iter().enumerate() {
        match op {
            Op::Write { file, offset, data } => {
                if asked.contains(&number) {
                    files.apply(op);
                } else if let Some(bytes) = files.bytes(*file) {
                    scatter(bytes, *offset as usize, data, rng);
                }
            }
            op if number < kept => files.apply(op),
            _ => {}
        }
    }
    files
}

/// How many of the calls for names and the like are there at least: the journal of a file system is written
/// up to the last change of what the device was asked for.
fn floor(ops: &[Op]) -> usize {
    let mut floor = 0;
    for (number, op) in ops.iter().enumerate() {
        let needs = match op {
            Op::SyncAll => Some(number),
            Op::Sync { file, only_data } => {
                let before = &ops[..number];
                before.iter().rposition(|op| concerns(op, *file, *only_data)).map(|last| last + 1)
            }
            _ => None,
        };
        floor = floor.max(needs.unwrap_or(0));
    }
    floor
}

/// Whether a call changed an inode, and only what it takes to read it.
fn concerns(op: &Op, id: Id, only_data: bool) -> bool {
    match op {
        Op::Make { directory, made, .. } => *directory == id || *made == id,
        Op::Truncate { file, .. } => *file == id,
        Op::Unlink { directory, .. } => *directory == id && !only_data,
        Op::Link { file, directory, .. } => (*file == id || *directory == id) && !only_data,
        // The file that is renamed changes too, but what was asked for is then its content.
        Op::Rename { directory, to, .. } => (*directory == id || *to == id) && !only_data,
        Op::Mode { file, .. } | Op::Times { file, .. } => *file == id && !only_data,
        Op::Write { .. } | Op::Sync { .. } | Op::SyncAll | Op::SyncFailed { .. } => false,
    }
}

/// The writes that the device was asked to keep, and kept. One that could not be kept is given up: no later
/// call asks for it.
fn asked(ops: &[Op]) -> HashSet<usize> {
    let (mut asked, mut waiting) = (HashSet::new(), HashMap::<Id, Vec<usize>>::new());
    for (number, op) in ops.iter().enumerate() {
        match op {
            Op::Write { file, .. } => waiting.entry(*file).or_default().push(number),
            Op::Sync { file, .. } => asked.extend(waiting.remove(file).unwrap_or_default()),
            Op::SyncFailed { file } => drop(waiting.remove(file)),
            Op::SyncAll => asked.extend(waiting.drain().flat_map(|(_, writes)| writes)),
            _ => {}
        }
    }
    asked
}

/// Writes what a cut leaves of a write.
fn scatter(bytes: &mut Vec<u8>, offset: usize, data: &[u8], rng: &mut Rng) {
    let (mut done, mut fate, mut left) = (0, Fate::Old, 0);
    while done < data.len() {
        if left == 0 {
            left = 1 + rng.below(RUN_MAX);
            // Often all of it fares alike.
            left = if rng.below(3) == 0 { usize::MAX } else { left };
            fate = FATES[rng.below(FATES.len())];
        }
        left -= 1;
        let at = offset + done;
        let part = &data[done..(done + SECTOR - at % SECTOR).min(data.len())];
        match fate {
            Fate::Old => {}
            Fate::New => put(bytes, at, part),
            Fate::Torn => put(bytes, at, &part[..rng.below(part.len() + 1)]),
            Fate::Zeros => put(bytes, at, &vec![0; part.len()]),
            Fate::Garbage => {
                let garbage: Vec<u8> = part.iter().map(|byte| byte.wrapping_mul(167) ^ 0x5a).collect();
                put(bytes, at, &garbage);
            }
        }
        done += part.len();
    }
}
