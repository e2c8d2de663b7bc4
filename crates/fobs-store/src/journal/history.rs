//! What earlier runs of a transfer have stored, for the thread that compares the sender's listing with it.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{OFlags, Stat, fstat};

use super::book::Settled;
use super::format::{Completion, Current};
use crate::at;
use crate::held::is_private;
use crate::identity::{Identity, destination_mark, fingerprint, same_path};
use crate::prefix::hash_on;
use crate::temporary::temporary_path;
use crate::tree_hash::FileTree;
use crate::view::View;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::name::ours::Suffix;
use fobs_model::options::Overwrite;

/// Most partial files of other programs that wait to be continued.
const ADOPTIONS_MAX: usize = 65_536;
/// Most paths remembered as sent where a transfer may name a path twice.
const SENT_MAX: usize = 4_194_304;

/// How far a source file is stored already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// Whole, and the file at the destination is still the one that was stored.
    Complete,
    /// Its first bytes.
    Partial {
        /// How many: a multiple of 64 KiB.
        len: u64,
        /// Their hash tree, for [`FileTree::resume`](crate::FileTree::resume).
        stack: Vec<[u8; 32]>,
    },
    /// Another state of the source was stored, whole or in part: it changed since.
    Changed,
    /// Nothing of it.
    Nothing,
}

/// The index of what earlier runs stored. Clones share it.
#[derive(Clone)]
pub struct History {
    past: Arc<Past>,
    view: View,
}

pub(super) struct Past {
    completions: Vec<Completion>,
    /// Where they are, by the path's half of the fingerprint; of several of a path only the last.
    order: Vec<u32>,
    current: Option<Current>,
    /// What of it the device has kept.
    settled: Settled,
    /// The suffix of the temporary names.
    suffix: Suffix,
    /// Whether a file that has its name may be gone on with.
    overwrite: Overwrite,
    /// Paths that were not complete, where a transfer may name a path twice: what comes last must win, so the
    /// second is sent too.
    sent: Option<Mutex<Sent>>,
    _kept: Charge,
}

/// What an earlier run left.
pub(super) struct Left {
    pub(super) completions: Vec<Completion>,
    pub(super) kept: Charge,
    pub(super) current: Option<Current>,
    pub(super) settled: Settled,
    pub(super) suffix: Suffix,
}

impl Left {
    /// Nothing but perhaps files of this suffix.
    pub(super) fn nothing(suffix: Suffix, kept: Charge) -> Left {
        Left { completions: Vec::new(), kept, current: None, settled: Settled::default(), suffix }
    }
}

/// Paths that were not complete.
struct Sent {
    paths: HashSet<[u8; 8]>,
    is_full: bool,
    kept: Charge,
}

impl Sent {
    fn may_have(&self, path: [u8; 8]) -> bool {
        self.is_full || self.paths.contains(&path)
    }

    fn add(&mut self, path: [u8; 8]) {
        let Sent { paths, is_full, kept } = self;
        *is_full |= paths.len() >= SENT_MAX || kept.insert(paths, path).is_err();
    }
}

impl Past {
    pub(super) fn new(left: Left, overwrite: Overwrite, may_repeat: bool) -> Past {
        let Left { mut completions, mut kept, current, settled, suffix } = left;
        completions.shrink_to_fit();
        kept.shrink(kept.bytes().saturating_sub(completions.capacity() * size_of::<Completion>()));
        let mut order = Vec::new();
        // The journal left room for it.
        if kept.room_in_vec(&mut order, completions.len()).is_err() {
            completions = Vec::new();
        }
        let half = |index: &u32| completions.get(*index as usize).map(|it| path_half(&it.source));
        order.extend(
            (0_u32..).zip(&completions).filter(|(_, it)| **it != Completion::WITHDRAWN).map(|(at, _)| at),
        );
        order.sort_unstable_by_key(|index| (half(index), *index));
        order.dedup_by(|later, kept| {
            let is_same = half(later) == half(kept);
            if is_same {
                *kept = *later;
            }
            is_same
        });
        let sent = || Mutex::new(Sent { paths: HashSet::new(), is_full: false, kept: kept.another() });
        Past {
            completions,
            order,
            current,
            settled,
            suffix,
            overwrite,
            sent: may_repeat.then(sent),
            _kept: kept,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.current.is_none()
    }

    /// The completion of a path, and whether the device has kept the file.
    fn find(&self, half: &[u8; 8]) -> Option<(&Completion, bool)> {
        let at = |index: &u32| self.completions.get(*index as usize);
        let key = |index: &u32| at(index).map(|completion| path_half(&completion.source));
        let found = self.order.binary_search_by_key(&Some(*half), key).ok()?;
        let index = self.order.get(found)?;
        Some((at(index)?, u64::from(*index) < self.settled.records))
    }

    /// What of the partial file the device has kept.
    fn settled_part(&self, current: &Current) -> Option<&Current> {
        let same = |kept: &&Current| {
            (kept.fingerprint, kept.inode, &kept.place)
                == (current.fingerprint, current.inode, &current.place)
                && kept.len <= current.len
        };
        self.settled.current.as_ref().filter(same)
    }

    pub(super) fn current(&self) -> Option<&Current> {
        self.current.as_ref()
    }
}

impl History {
    pub(super) fn new(past: Arc<Past>, view: View) -> History {
        History { past, view }
    }

    /// Where an earlier run left a part of the file that was to come to a place.
    pub(crate) fn unfinished(&self, place: &[u8]) -> Option<Vec<u8>> {
        let current = self.past.current.as_ref().filter(|current| current.place == place)?;
        temporary_path(&current.place, &self.past.suffix).ok()
    }

    /// How far the source file of `path`, within the transfer, is stored. Looks at the destination where the
    /// journal knows the path; an error there counts as nothing stored.
    pub fn lookup(&mut self, path: &[u8], identity: &Identity) -> Held {
        let print = fingerprint(path, identity);
        let past = Arc::clone(&self.past);
        let held = match &past.current {
            Some(current) if current.fingerprint == print => self.partial(current),
            Some(current) if same_path(&current.fingerprint, &print) => Held::Changed,
            _ => match past.find(&path_half(&print)) {
                Some((it, is_settled)) if it.source == print => self.complete(path, it, is_settled),
                Some(_) => Held::Changed,
                None => Held::Nothing,
            },
        };
        match &past.sent {
            Some(sent) => {
                let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
                let before = sent.may_have(path_half(&print));
                match held {
                    held @ Held::Complete if !before => held,
                    held => {
                        sent.add(path_half(&print));
                        if before { Held::Nothing } else { held }
                    }
                }
            }
            None => held,
        }
    }

    /// Whether what has `path` is what an earlier run stored there.
    pub fn has_stored(&mut self, path: &[u8]) -> bool {
        let half = path_half(&fingerprint(path, &Identity::default()));
        let past = Arc::clone(&self.past);
        past.find(&half).is_some_and(|(it, is_settled)| self.complete(path, it, is_settled) == Held::Complete)
    }

    fn complete(&mut self, path: &[u8], completion: &Completion, is_settled: bool) -> Held {
        match self.view.stat(path) {
            Ok(stat) if destination_mark(&stat) == completion.destination => {
                // What is not settled is worth the mount of the journal, and says nothing of another one.
                let is_on = |top: Stat| top.st_dev == stat.st_dev;
                if is_settled || fstat(self.view.top()).is_ok_and(is_on) {
                    Held::Complete
                } else {
                    Held::Nothing
                }
            }
            _ => Held::Nothing,
        }
    }

    /// The partial file, under its temporary name, or under its own if its completion was not recorded.
    fn partial(&mut self, current: &Current) -> Held {
        let temporary = temporary_path(&current.place, &self.past.suffix);
        let may_have_name = self.past.overwrite == Overwrite::Replace;
        let places = temporary.into_iter().chain(may_have_name.then(|| current.place.clone()));
        for place in places {
            let held = self.view.hold_at(&place).ok().filter(|held| current.is_in(held));
            if let Some(held) = held {
                return if self.has_all(&held, current) {
                    Held::Partial { len: current.len, stack: current.stack.clone() }
                } else {
                    Held::Nothing
                };
            }
        }
        Held::Nothing
    }

    /// Whether the partial file has what was stored, in the part that the device was not asked to keep: a
    /// failing one may have lost any of it.
    fn has_all(&self, held: &OwnedFd, current: &Current) -> bool {
        let settled = self.past.settled_part(current);
        if settled.is_some_and(|settled| settled.len == current.len) {
            return true;
        }
        let begun = settled.and_then(|settled| FileTree::resume(settled.len, settled.stack.clone()));
        let looked = self.view.looked();
        let file = at::reopen(held, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY);
        let hashed =
            file.and_then(|file| hash_on(&file, begun.unwrap_or_default(), current.len, looked, &|| false));
        hashed.ok().flatten().is_some_and(|tree| tree.stack().as_ref() == Some(&current.stack))
    }
}

fn path_half(print: &[u8; 16]) -> [u8; 8] {
    let mut half = [0; 8];
    half.copy_from_slice(&print[..8]);
    half
}

/// A file at the destination that another program left unfinished, to be continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// The source file that it is to become.
    pub source: Identity,
    /// The file at the destination, by the handle that its bytes were read from.
    pub destination: Identity,
    /// Bytes of it that are to stay: a multiple of 64 KiB.
    pub len: u64,
    /// Their hash tree (`FileTree::stack`).
    pub stack: Vec<[u8; 32]>,
}

/// Files to be continued that no journal knows (`--append-verify`). Clones share them.
#[derive(Debug, Clone)]
pub struct Adoptions(Arc<Mutex<Waiting>>);

#[derive(Debug)]
struct Waiting {
    files: HashMap<Vec<u8>, Adoption>,
    kept: Charge,
}

impl Adoption {
    /// Whether it is the file that is held, and still nobody but this user can have changed it.
    pub(crate) fn is_in(&self, held: &OwnedFd) -> bool {
        fstat(held)
            .is_ok_and(|stat| Identity::of(&stat) == self.destination && is_private(held.as_fd(), &stat))
    }

    /// Bytes that it takes, with its path and its place in a table.
    fn memory(&self, path: &[u8]) -> usize {
        2 * (size_of::<Adoption>() + size_of::<Vec<u8>>()) + path.len() + size_of_val(&self.stack[..])
    }
}

impl Adoptions {
    pub(crate) fn within(budget: &MemoryBudget) -> Adoptions {
        let kept = budget.charge(Keeps::Adoptions);
        Adoptions(Arc::new(Mutex::new(Waiting { files: HashMap::new(), kept })))
    }

    /// Prepares the sink to continue the file of `path`, within the transfer, when a `Resume` record asks for
    /// it. Call it before the decision is sent. `false`: too many wait, send it whole.
    pub fn offer(&self, path: &[u8], adoption: Adoption) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiting { files, kept } = &mut *waiting;
        let room = files.len() < ADOPTIONS_MAX && kept.grow(adoption.memory(path)).is_ok();
        if room && let Some(before) = files.insert(path.to_vec(), adoption) {
            kept.shrink(before.memory(path));
        }
        room
    }

    pub(crate) fn take(&self, path: &[u8]) -> Option<Adoption> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let adoption = waiting.files.remove(path)?;
        waiting.kept.shrink(adoption.memory(path));
        Some(adoption)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_to_continue_are_kept_within_the_budget() {
        let identity = Identity { size: 1 << 20, mtime_s: 1, mtime_ns: 0, inode: 2 };
        let adoption =
            Adoption { source: identity, destination: identity, len: 1 << 16, stack: vec![[7; 32]] };
        let path = |at: usize| format!("{at}/{}", "p".repeat(4000)).into_bytes();
        let one = adoption.memory(&path(0));
        let budget = MemoryBudget::of(10 * one);
        let adoptions = Adoptions::within(&budget);
        for at in 0..10 {
            assert!(adoptions.offer(&path(at), adoption.clone()), "{at}");
        }
        assert!(!adoptions.offer(&path(3), adoption.clone()), "one too many: it is sent whole");
        assert_eq!(adoptions.take(&path(3)), Some(adoption.clone()));
        assert!(adoptions.offer(&path(4), adoption.clone()), "there is room again");
        assert_eq!(budget.used(), 9 * one, "of one path one counts");
        (0..10).for_each(|at| drop(adoptions.take(&path(at))));
        assert_eq!(budget.used(), 0);
    }
}
