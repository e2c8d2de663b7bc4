//! Finds in the file that is sent what the receiver has of it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::earlier::EarlierVersion;
use super::form::Cutting;
use super::lists::{Coverage, Lists};
use super::means::Means;
use super::names::NameKey;
use super::patch::PatchBuilder;
use super::pays::{Passed, Pays, Way};
use super::scout::{Made, Scout, Span};
use crate::chunk::CHUNK_DATA_MAX;
use crate::tree_hash::GROUP;
use fobs_model::deltas::Because;

/// How much is looked at ahead of what is sent, bytes, so that answers are there in time: of 5 Gbit/s over
/// 50 ms.
const SCOUTED: u64 = 32 << 20;
/// At once, so that what is found is sent meanwhile.
const STRIDE: u64 = 8 << 20;
/// A file is sent as it is from here on, bytes, if nothing was found before.
const HOPE: u64 = 64 << 20;
/// Less of what was not found is sent without being compared with an earlier version, bytes.
const DIFFERS_MIN: u32 = 16 << 10;
/// How often one who waits for a list looks whether it is still of use.
const LOOK: Duration = Duration::from_millis(10);

/// Looks for the pieces of one file.
pub(crate) struct Matcher {
    means: Means,
    size: u64,
    /// None before the list has begun, and once nothing more is looked for.
    scout: Option<Scout>,
    known: Known,
    /// Why nothing more is looked for.
    over: Option<Because>,
}

/// What a sender knows of a basis beside its list.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// Nothing.
    Nothing,
    /// It has size and time of the file, so it is supposed to be that, and is not listed.
    Supposed,
    /// The sender has a file that is supposed to be the same; no list is needed where the new one is like it.
    Earlier(EarlierVersion),
}

impl Matcher {
    /// For the file of a row, of `size` bytes.
    pub(crate) fn new(
        (row, size): (u64, u64),
        (key, lists, pays): (NameKey, Lists, Pays),
        known: Known,
    ) -> Matcher {
        Matcher { means: Means { row, key, lists, pays }, size, scout: None, known, over: None }
    }

    /// What is still taken for known: nothing once that was often wrong.
    fn known(&mut self) -> &mut Known {
        if !matches!(self.known, Known::Nothing) && self.means.lists.is_mistaken() {
            if matches!(self.known, Known::Supposed) {
                self.give_up(Because::Hopeless);
            }
            self.known = Known::Nothing;
        }
        &mut self.known
    }

    /// Whether what a chunk's data is made of is known that begins at `from` in the file; waits until `end`,
    /// if given.
    pub(crate) fn coverage(&mut self, file: impl AsFd, from: u64, end: Option<Instant>) -> Coverage {
        loop {
            let needs_list = match self.known() {
                Known::Nothing => true,
                Known::Supposed => false,
                Known::Earlier(earlier) => !earlier.look(&file, from),
            };
            if !needs_list {
                return if self.means.lists.is_closed() { Coverage::Broken } else { Coverage::Complete };
            }
            let now = Instant::now();
            let is_enough = match (self.way(now), self.means.lists.coverage(self.means.row)) {
                (_, Coverage::Broken) => return Coverage::Broken,
                (Way::Trial(room), _) => room >= GROUP,
                (Way::Whole, _) => true,
                (Way::Delta, coverage) => match self.goes_on(&file, from, coverage) {
                    Progress::Known => true,
                    Progress::Made => continue,
                    Progress::Waits => false,
                },
            };
            match end {
                _ if is_enough => return Coverage::Complete,
                Some(end) if end > now => self.means.lists.nap(end.min(now + LOOK)),
                _ => return Coverage::Until(0),
            }
        }
    }

    /// Looks ahead, as far as the list allows.
    fn goes_on(&mut self, file: impl AsFd, from: u64, coverage: Coverage) -> Progress {
        if self.scout.is_none() {
            self.scout = Scout::new(&self.means, &file, self.size);
        }
        let Some(scout) = &mut self.scout else {
            // A list that is over without having begun: there is nothing to find.
            return if coverage == Coverage::Complete { Progress::Known } else { Progress::Waits };
        };
        if scout.at() < from {
            // A file that goes on.
            scout.skip_to(&self.means, from);
        }
        let wanted = from.saturating_add(CHUNK_DATA_MAX as u64);
        let may = scout.may_look_until(coverage);
        let until = may.min(wanted.saturating_add(SCOUTED)).min(scout.at().saturating_add(STRIDE));
        let before = (scout.at(), scout.cutting());
        scout.go(&self.means, &file, until, self.size);
        let heard = scout.hear(&self.means, &file, self.size);
        let known = scout.known_until();
        if known >= wanted || scout.ended && known >= scout.at() {
            return Progress::Known;
        }
        // It goes back where it goes on by content.
        if heard || (scout.at(), scout.cutting()) != before { Progress::Made } else { Progress::Waits }
    }

    /// How much of `most` bytes is to be read at once from a place on.
    pub(crate) fn room(&self, at: u64, most: usize) -> usize {
        let most = match &self.known {
            Known::Nothing => most,
            Known::Supposed => return most,
            Known::Earlier(earlier) => {
                let most = usize::try_from(earlier.room(at)).unwrap_or(most).min(most);
                if earlier.is_alike(at) {
                    return most;
                }
                most
            }
        };
        match self.way(Instant::now()) {
            Way::Trial(room) => usize::try_from(room.max(GROUP)).unwrap_or(most).min(most),
            Way::Delta | Way::Whole => most,
        }
    }

    /// Time that reading and hashing took.
    pub(crate) fn was_read(&self, bytes: u64, time: Duration) {
        self.means.pays.was_read(bytes, time);
    }

    fn way(&self, now: Instant) -> Way {
        if self.over.is_some() {
            return Way::Whole;
        }
        if let Some(listed) = self.means.lists.listed(self.means.row) {
            self.means.pays.was_listed(listed, Passed::No, self.cutting());
        }
        self.means.pays.way(now)
    }

    /// Says what `len` bytes of the file from `at` on are made of, which are the next of a chunk's data.
    pub(crate) fn cover(&mut self, at: u64, len: usize, to: &mut PatchBuilder) {
        let (row, more) = (self.means.row, len as u32);
        match self.known() {
            Known::Nothing => {}
            Known::Supposed => return to.suppose(row, at, more),
            Known::Earlier(earlier) if !earlier.is_alike(at) => {}
            Known::Earlier(earlier) => {
                to.differ(row, at, more, earlier.file());
                // Lists come all the same, and what is behind is forgotten.
                return self.means.lists.is_at(row, at);
            }
        }
        match self.way(Instant::now()) {
            Way::Delta => to.looks(),
            Way::Trial(_) => {
                self.means.pays.tried(len as u64);
                return to.tried(len);
            }
            Way::Whole => {
                let because = self.over.unwrap_or_else(|| self.means.pays.why_whole());
                self.give_up(because);
                return to.new_bytes(len, because);
            }
        }
        if at >= HOPE && self.scout.as_ref().is_some_and(|scout| scout.found == 0) {
            self.give_up(Because::Hopeless);
            return to.new_bytes(len, Because::Hopeless);
        }
        let earlier = match &self.known {
            Known::Earlier(earlier) => Some(earlier.file().clone()),
            Known::Nothing | Known::Supposed => None,
        };
        let (mut at, end) = (at, at + len as u64);
        while at < end {
            let span = self.scout.as_mut().and_then(|scout| scout.span(&self.means, at));
            let (until, from) = match span {
                Some(Span { at: begins, end, is: Made::Of(there) }) if begins <= at => {
                    (end, Some(there + (at - begins)))
                }
                Some(Span { at: begins, end, .. }) => (if begins <= at { end } else { begins }, None),
                // Nothing more is known.
                None => (end, None),
            };
            let until = until.min(end);
            // At most a chunk's data.
            let more = (until - at) as u32;
            match (from, &earlier) {
                (Some(from), _) => to.copy(row, from, more),
                // It may be like the earlier version in part, such as numbers that all changed a little.
                (None, Some(earlier)) if more >= DIFFERS_MIN => to.differ(row, at, more, earlier),
                (None, _) => to.new_bytes(more as usize, Because::New),
            }
            at = until;
        }
    }

    fn give_up(&mut self, because: Because) {
        if self.over.is_none() {
            self.over = Some(because);
            self.scout = None;
            self.pass();
        }
    }

    /// How the basis is listed.
    fn cutting(&self) -> Cutting {
        self.means.lists.form(self.means.row).map(|form| form.cutting).unwrap_or_default()
    }

    fn pass(&self) {
        if let Some(listed) = self.means.lists.listed(self.means.row) {
            self.means.pays.was_listed(listed, Passed::Yes, self.cutting());
        }
        self.means.lists.pass(self.means.row);
    }
}

/// How far looking ahead is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// What is to be sent next is known.
    Known,
    /// Not yet, but there is more to look at.
    Made,
    /// For what the receiver says.
    Waits,
}

impl Drop for Matcher {
    fn drop(&mut self) {
        self.pass();
    }
}
