//! The receiver's part: files that stand where others are to come, opened when the survey judged them, and
//! what is listed of them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::asks::FineAsk;
use super::basis::basis_in_place;
use super::cut::Average;
use super::form::{Cutting, Sizes};
use super::here::SourcesHere;
use super::in_place::InPlace;
use super::lists::PIECES_MAX;
use super::readable::Readable;
use crate::stamp::Stamp;
use crate::view::View;
use fobs_model::deltas::Origin;

/// Most files that are offered and not stored, and those of them that are open. At a bound the survey waits.
const OFFERS_MAX: usize = 1024;
const OPEN_MAX: usize = 64;
/// Most bytes of short ones that are kept, likewise.
const KEPT_MAX: usize = 8 << 20;
/// Most pieces that are listed of what is not stored yet. At the bound the list waits for the files.
const AHEAD_MAX: u64 = PIECES_MAX as u64 / 2;
/// A file is listed no further once this is stored in its place, bytes, and nothing of it came from there.
const HOPE: u64 = 64 << 20;
/// How often one who waits looks whether the session is over.
const LOOK: Duration = Duration::from_millis(100);

/// Shared by the threads that survey, list and store.
#[derive(Debug, Clone, Default)]
pub struct Offers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Offered>,
    changed: Condvar,
    /// Where files are opened.
    places: Mutex<Option<Places>>,
}

#[derive(Debug)]
struct Places {
    view: View,
    here: SourcesHere,
}

#[derive(Debug, Default)]
pub(super) struct Offered {
    /// In the order of their rows.
    pub(super) offers: VecDeque<Offer>,
    /// Questions that are not answered.
    pub(super) asks: VecDeque<FineAsk>,
    /// Rows that were handed out to be listed, and all below.
    pub(super) listed_to: u64,
    /// No more is offered.
    pub(super) complete: bool,
    pub(super) closed: bool,
    /// The sender looks for nothing that is listed.
    useless: bool,
    /// Which files are compared in place.
    pub(super) in_place: InPlace,
}

#[derive(Debug)]
pub(super) struct Offer {
    pub(super) row: u64,
    /// Path within the transfer of what is to come.
    path: Vec<u8>,
    held: Held,
    /// Where it is supposed to be, if it is not listed.
    pub(super) supposed: Option<Supposed>,
    /// What that file was before anything of it was read.
    before: Option<Stamp>,
    origin: Origin,
    pub(super) average: Average,
    pub(super) cutting: Cutting,
    /// The sender looks for what it has elsewhere, and no more for what is listed in place.
    has_moved: bool,
    /// How long it is, and what is to come, bytes.
    pub(super) sizes: Sizes,
    /// What was asked for again, bytes.
    pub(super) asked: u64,
    /// How far it is listed, and how far the file that comes is stored, bytes.
    listed: u64,
    stored: u64,
    /// What of it was used, bytes.
    used: u64,
}

/// What a delta is made of.
#[derive(Debug)]
pub(crate) struct Basis {
    pub(crate) held: Held,
    pub(crate) size: u64,
    pub(crate) origin: Origin,
}

/// How it is held.
#[derive(Debug, Clone)]
pub(crate) enum Held {
    /// Open: it is listed.
    Open(Readable),
    /// By its path below the destination's top directory, where it is opened once it is needed: it is
    /// supposed to be the file, and not listed.
    Named(Vec<u8>),
    /// As the source itself, of this time of change, on the same host: likewise.
    Source(i64),
}

/// Where a file is that has not been looked through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Supposed {
    /// Under another name of the destination.
    Moved(Vec<u8>),
    /// There, until another file took that name.
    Replaced,
    /// At the source.
    Source,
}

impl Offer {
    /// As it is open; none where it is not.
    pub(super) fn open(&self) -> Option<&Readable> {
        match &self.held {
            Held::Open(file) => Some(file),
            Held::Named(_) | Held::Source(_) => None,
        }
    }

    /// Bytes of the basis with which a piece is compared that is asked for: in place with one, of all of it.
    /// What has moved is looked for in all of it, and what is short in the part.
    pub(super) fn compared_with(&self, ask: &FineAsk) -> u64 {
        let is_all = self.cutting == Cutting::InPlace && ask.average == self.average;
        match ask.cutting {
            Cutting::InPlace => self.sizes.file,
            Cutting::ByContent if is_all => self.sizes.basis,
            Cutting::ByContent => ask.len,
        }
    }

    /// Whether a question says that too little is where it was, for the first time: it is for pieces as long
    /// as those of the list. Short ones by content are looked for between long ones.
    pub(super) fn gives_up_place(&mut self, ask: &FineAsk) -> bool {
        let is_by_content = self.cutting == Cutting::InPlace && ask.cutting == Cutting::ByContent;
        is_by_content && ask.average == self.average && !std::mem::replace(&mut self.has_moved, true)
    }
}

impl Offered {
    /// How many files are open.
    fn open(&self) -> usize {
        let files = self.offers.iter().filter(|offer| offer.open().is_some_and(|it| it.file().is_some()));
        files.count()
    }

    /// Bytes of short ones.
    fn kept(&self) -> usize {
        self.offers.iter().filter_map(|offer| Some(offer.open()?.kept_len())).sum()
    }

    /// Whether the next offer has to wait.
    fn is_full(&self) -> bool {
        self.offers.len() >= OFFERS_MAX || self.open() >= OPEN_MAX || self.kept() >= KEPT_MAX
    }
}

impl Offers {
    /// Whether the next offer waits until something is stored.
    pub fn are_full(&self) -> bool {
        self.lock().is_full()
    }

    /// Offers what stands where the file of a row is to come, in the order of the rows. Waits while too much
    /// is offered; false once `stop` says that nobody waits any more.
    pub(crate) fn offer(
        &self,
        row: u64,
        path: &[u8],
        (basis, file_size): (Basis, u64),
        stop: &dyn Fn() -> bool,
    ) -> bool {
        let Basis { held, size, origin } = basis;
        let sizes = Sizes { basis: size, file: file_size };
        let mut state = self.lock();
        while state.is_full() && !state.closed && !stop() {
            state = self.wait(state);
        }
        if state.closed || state.is_full() {
            return false;
        }
        let cutting = state.in_place.cutting(sizes);
        state.offers.push_back(Offer {
            row,
            path: path.to_vec(),
            supposed: match &held {
                Held::Named(place) => Some(Supposed::Moved(place.clone())),
                Held::Source(_) => Some(Supposed::Source),
                Held::Open(_) => (origin == Origin::Moved).then_some(Supposed::Replaced),
            },
            before: None,
            held,
            origin,
            average: Average::of_files(sizes.basis, sizes.file),
            cutting,
            has_moved: false,
            sizes,
            asked: 0,
            listed: 0,
            stored: 0,
            used: 0,
        });
        self.0.changed.notify_all();
        true
    }

    /// The sender knows lists of what has its old place.
    pub fn may_be_in_place(&self) {
        self.lock().in_place.is_possible();
    }

    /// No more is offered.
    pub fn are_complete(&self) {
        self.lock().complete = true;
        self.0.changed.notify_all();
    }

    /// The sender says whether lists are of use to it. Those that are not end early.
    pub fn are_wanted(&self, wanted: bool) {
        self.lock().useless = !wanted;
        self.0.changed.notify_all();
    }

    /// Ends every wait: the session is over.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.offers.clear();
        self.0.changed.notify_all();
    }

    /// Where what is held by its path is opened.
    pub(crate) fn look_in(&self, view: View, here: SourcesHere) {
        *self.0.places.lock().unwrap_or_else(PoisonError::into_inner) = Some(Places { view, here });
    }

    /// What was offered for a row.
    pub(crate) fn basis(&self, row: u64) -> Option<Readable> {
        let of_row = |offer: &&Offer| offer.row == row;
        let copied = |offer: &Offer| (offer.held.clone(), offer.path.clone(), offer.sizes.basis);
        let (held, path, size) = self.lock().offers.iter().find(of_row).map(copied)?;
        if let Held::Open(file) = held {
            return Some(file);
        }
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        let Places { view, here } = places.as_mut()?;
        let file = match held {
            Held::Open(file) => file,
            Held::Named(place) => {
                let found = basis_in_place(view, &place, 1)?;
                Readable::of(view, &place, found)
            }
            Held::Source(mtime_s) => {
                let file = here.file(&path, (size, mtime_s))?;
                let place = view.place(&path).into_owned();
                Readable::of(view, &place, (file, size))
            }
        };
        let mut state = self.lock();
        // Where many are read, each is opened when it is needed.
        let may_stay = state.open() < OPEN_MAX;
        if let Some(offer) = state.offers.iter_mut().find(|offer| offer.row == row) {
            offer.before = offer.before.or(file.before().copied());
            if may_stay {
                offer.held = Held::Open(file.clone());
            }
        }
        Some(file)
    }

    /// The row of what comes under a path, where it is supposed to be under another name, and what that was
    /// before anything of it was read, if anything was.
    pub(crate) fn moved(&self, path: &[u8]) -> Option<(u64, Vec<u8>, Option<Stamp>)> {
        let state = self.lock();
        let offer = state.offers.iter().find(|offer| offer.path == path)?;
        let Supposed::Moved(place) = offer.supposed.clone()? else { return None };
        Some((offer.row, place, offer.before))
    }

    /// Whether what comes under a path may share blocks with its basis, so that none are to be reserved.
    pub(crate) fn may_share(&self, path: &[u8]) -> bool {
        let state = self.lock();
        let offer = state.offers.iter().find(|offer| offer.path == path);
        offer.is_some_and(|offer| offer.open().is_none_or(Readable::shares))
    }

    /// Adds to how much of the basis of a row was used; which one it is.
    pub(crate) fn used(&self, row: u64, bytes: u64) -> Origin {
        let mut state = self.lock();
        match state.offers.iter_mut().find(|offer| offer.row == row) {
            Some(offer) => {
                offer.used += bytes;
                offer.origin
            }
            // It ended meanwhile.
            None => Origin::SameName,
        }
    }

    /// Says how much of the file at a path is stored.
    pub(crate) fn stored(&self, path: &[u8], bytes: u64) {
        let mut state = self.lock();
        if let Some(offer) = state.offers.iter_mut().find(|offer| offer.path == path) {
            offer.stored = bytes;
            self.0.changed.notify_all();
        }
    }

    /// The file at a path came or will not come, and so did all before it.
    pub(crate) fn ended(&self, path: &[u8]) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if let Some(at) = state.offers.iter().position(|offer| offer.path == path) {
            let ended = state.offers.drain(..=at);
            let stayed =
                |offer: &Offer| offer.cutting == Cutting::InPlace && !offer.has_moved && offer.used > 0;
            let count = ended.filter(stayed).count() as u64;
            state.in_place.were_found(count);
            self.0.changed.notify_all();
        }
    }

    /// Whether the list of a row goes on, which reaches up to `listed`; waits while it is too far ahead.
    pub(super) fn goes_on(&self, row: u64, listed: u64) -> bool {
        let mut state = self.lock();
        loop {
            let Some(offer) = state.offers.iter_mut().find(|offer| offer.row == row) else { return false };
            offer.listed = listed;
            let is_in_vain = offer.used == 0 && offer.stored >= HOPE || offer.has_moved;
            if state.closed || state.useless || is_in_vain {
                return false;
            }
            let ahead = |offer: &Offer| offer.listed.saturating_sub(offer.stored) >> offer.average.log();
            if state.offers.iter().map(ahead).sum::<u64>() < AHEAD_MAX {
                return true;
            }
            state = self.wait(state);
        }
    }

    pub(super) fn notify(&self) {
        self.0.changed.notify_all();
    }

    /// Waits for a change, for a moment at most.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, Offered>) -> MutexGuard<'a, Offered> {
        let waited = self.0.changed.wait_timeout(state, LOOK);
        waited.map_or_else(|poisoned| poisoned.into_inner().0, |waited| waited.0)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Offered> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
