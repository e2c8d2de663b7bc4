//! Symbolic links of the destination that stand for the directories they lead to (`-K`), by their paths in
//! the transfer. What lies below one is opened by the path of the directory itself: no link is followed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fobs_model::budget::{Charge, Keeps, MemoryBudget};

/// What one costs beside its paths, bytes.
const COST: usize = 96;

/// The links that were found so far; shared by the threads that compare and store.
#[derive(Debug, Clone)]
pub(crate) struct Dirlinks(Arc<Mutex<Known>>);

#[derive(Debug)]
struct Known {
    /// Where each path leads, below the destination's top.
    places: BTreeMap<Vec<u8>, Vec<u8>>,
    led_to: BTreeSet<Vec<u8>>,
    kept: Charge,
}

impl Dirlinks {
    pub(crate) fn within(budget: &MemoryBudget) -> Dirlinks {
        let kept = budget.charge(Keeps::Survey);
        Dirlinks(Arc::new(Mutex::new(Known { places: BTreeMap::new(), led_to: BTreeSet::new(), kept })))
    }

    /// From now on this path stands for the directory at `place`; false where there is no room for it.
    pub(crate) fn add(&self, path: &[u8], place: &[u8]) -> bool {
        let Known { places, led_to, kept } = &mut *self.known();
        let has_room = kept.grow(COST + path.len() + 2 * place.len()).is_ok();
        if has_room {
            places.insert(path.to_vec(), place.to_vec());
            led_to.insert(place.to_vec());
        }
        has_room
    }

    /// Where a path is: below the nearest link above it, or as it says.
    pub(crate) fn place<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        let known = self.known();
        if known.places.is_empty() {
            return Cow::Borrowed(path);
        }
        for end in ends(path) {
            if let Some(place) = known.places.get(&path[..end]) {
                return Cow::Owned([place, &path[end..]].concat());
            }
        }
        Cow::Borrowed(path)
    }

    /// Whether a link leads to what has this path by itself, or to a directory above it.
    pub(crate) fn lead_to(&self, path: &[u8]) -> bool {
        let known = self.known();
        !known.led_to.is_empty() && ends(path).any(|end| known.led_to.contains(&path[..end]))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a path and those above it end, the longest first.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    (0..=path.len()).rev().filter(|&at| at == path.len() || path[at] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_a_link_are_those_of_its_directory() {
        let links = Dirlinks::within(&MemoryBudget::default());
        assert!(links.add(b"a/l", b"real") && links.add(b"a/l/m", b"other/place"));
        for (path, place) in [
            (&b"a"[..], &b"a"[..]),
            (b"", b""),
            (b"a/l", b"real"),
            (b"a/l/x/y", b"real/x/y"),
            (b"a/lx", b"a/lx"),
            (b"a/l/m/z", b"other/place/z"),
        ] {
            assert_eq!(links.place(path).as_ref(), place);
        }
        let led_to = [&b"real"[..], b"real/in", b"a/l", b"realm", b"other"].map(|path| links.lead_to(path));
        assert_eq!(led_to, [true, true, false, false, false]);
        let full = Dirlinks::within(&MemoryBudget::of(10));
        assert!(!full.add(b"a", b"b") && full.place(b"a").as_ref() == b"a");
    }
}
