//! The names of `--files-from`: which paths are named, lie above a name, or below one.
//!
//! The names stay where the request has them, in an order of their own: four bytes each, and nothing for the
//! directories above them.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::{NameKind, path};
use fobs_model::budget::{Charge, Keeps, MemoryBudget, Spent};
use fobs_model::name::RelPath;
use fobs_model::options::sync::{Enter, SyncOptions};

/// No name lies above.
const NONE: u32 = u32::MAX;

/// The names of a request.
#[derive(Debug)]
pub struct NamesFrom {
    options: Arc<SyncOptions>,
    /// In the order of [`order`], each once.
    sorted: Vec<Name>,
    /// Those before it were looked at for what is missing.
    looked_at: usize,
    _charge: Charge,
}

#[derive(Debug, Clone, Copy)]
struct Name {
    /// Its place in the request.
    index: u32,
    /// The nearest name above it, by its place in the order.
    above: u32,
    found: bool,
    /// Written with a slash at its end.
    has_slash: bool,
}

/// How a path stands to the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is the name at this place.
    Name(usize),
    /// A name lies below it.
    Above,
    /// Neither.
    Elsewhere,
}

/// How an entry is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// By itself; a directory with all that is in it, where directories are entered.
    Whole,
    /// A directory that is not, because of what is named below it alone.
    Names,
}

/// What a rule of names needs to know of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Path within the transfer.
    pub path: &'a [u8],
    /// What it is.
    pub kind: NameKind,
    /// How the directory is listed in which it lies.
    pub above: Passage,
    /// Whether directories are entered.
    pub enter: Enter,
}

impl NamesFrom {
    /// How an entry is listed, as rsync does it: a name leads through directories that the filter leaves out.
    pub fn passage(&self, asked: Asked<'_>, is_excluded: impl FnOnce() -> bool) -> Option<Passage> {
        let Asked { path, kind, above, enter } = asked;
        let is_named = match self.standing(path) {
            Standing::Name(_) => kind != NameKind::Directory || enter != Enter::None,
            // Below a directory that is named by itself and entered.
            Standing::Above | Standing::Elsewhere => above == Passage::Whole && self.lists(path, enter),
        };
        if is_named && !is_excluded() {
            return Some(Passage::Whole);
        }
        (kind == NameKind::Directory && self.is_above(path)).then_some(Passage::Names)
    }

    /// The names of a request that has any, of all its sources.
    ///
    /// # Errors
    /// More than fit the budget.
    pub fn of(options: &Arc<SyncOptions>, budget: &MemoryBudget) -> Result<Option<NamesFrom>, Spent> {
        let Some(names) = &options.names else { return Ok(None) };
        NamesFrom::among(options, 0..names.len(), budget).map(Some)
    }

    /// Likewise those of each source: one list where all have the same.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_each(options: &Arc<SyncOptions>, budget: &MemoryBudget) -> Result<Vec<NamesFrom>, Spent> {
        if options.names_of_each.is_empty() {
            return Ok(NamesFrom::of(options, budget)?.into_iter().collect());
        }
        let mut end: usize = 0;
        let lists = options.names_of_each.iter().map(|&count| {
            let start = end;
            end = end.saturating_add(count as usize);
            NamesFrom::among(options, start..end, budget)
        });
        lists.collect()
    }

    /// These among the names of a request.
    fn among(
        options: &Arc<SyncOptions>,
        range: Range<usize>,
        budget: &MemoryBudget,
    ) -> Result<NamesFrom, Spent> {
        let names = options.names.as_deref().unwrap_or_default();
        let mine = names.get(range.clone()).unwrap_or_default();
        let mut charge = budget.charge(Keeps::Names);
        // What the request itself has of them.
        charge.grow(mine.iter().map(|name| name.len() + size_of::<RelPath>()).sum())?;
        let mut sorted = Vec::new();
        charge.room_in_vec(&mut sorted, mine.len())?;
        let indices = range.take(mine.len()).map(|index| u32::try_from(index).unwrap_or(NONE));
        sorted.extend(indices.map(|index| {
            let has_slash = options.names_with_slash.binary_search(&index).is_ok();
            Name { index, above: NONE, found: false, has_slash }
        }));
        let text = |name: &Name| names.get(name.index as usize).map_or(&b""[..], RelPath::as_bytes);
        sorted.sort_unstable_by(|one, other| order(text(one), text(other)));
        sorted.dedup_by(|one, other| {
            let is_same = text(one) == text(other);
            other.has_slash |= is_same && one.has_slash;
            is_same
        });
        // The top directory is always there.
        sorted.iter_mut().for_each(|name| name.found = text(name).is_empty());
        for at in 1..sorted.len() {
            // Everything below a name follows it at once, so what is above is the one before or above that.
            let mut above = at as u32 - 1;
            while above != NONE && !path::is_inside(text(&sorted[at]), text(&sorted[above as usize])) {
                above = sorted[above as usize].above;
            }
            sorted[at].above = above;
        }
        Ok(NamesFrom { options: Arc::clone(options), sorted, looked_at: 0, _charge: charge })
    }

    /// How a path stands to the names.
    pub fn standing(&self, path: &[u8]) -> Standing {
        let at = self.place(path);
        match self.text(at) {
            Some(name) if name == path => Standing::Name(at),
            Some(name) if path::is_inside(name, path) => Standing::Above,
            _ => Standing::Elsewhere,
        }
    }

    /// Whether a name lies strictly below a path.
    pub fn is_above(&self, path: &[u8]) -> bool {
        let at = self.place(path);
        let at = if self.text(at) == Some(path) { at + 1 } else { at };
        self.text(at).is_some_and(|name| path::is_inside(name, path))
    }

    /// Whether a name lies strictly below a path, or is it with a slash: a link there leads on.
    pub fn leads_on(&self, path: &[u8]) -> bool {
        let is_with_slash = matches!(self.standing(path), Standing::Name(at) if self.has_slash(at));
        is_with_slash || self.is_above(path)
    }

    /// Whether everything in a directory is listed, where directories are entered so.
    pub fn lists_all_of(&self, directory: &[u8], enter: Enter) -> bool {
        match enter {
            Enter::All => self.covers(directory),
            Enter::Made => {
                matches!(self.standing(directory), Standing::Name(at) if self.has_slash(at))
            }
            Enter::None => false,
        }
    }

    /// Whether a path is named, or lies in a directory that is listed whole.
    pub fn may_list(&self, path: &[u8], enter: Enter) -> bool {
        matches!(self.standing(path), Standing::Name(_)) || self.lists(path, enter)
    }

    /// Whether an entry is listed with all that is in its directory.
    fn lists(&self, path: &[u8], enter: Enter) -> bool {
        match enter {
            Enter::All => self.covers(path),
            Enter::Made | Enter::None => !path.is_empty() && self.lists_all_of(path::split(path).0, enter),
        }
    }

    fn has_slash(&self, at: usize) -> bool {
        self.sorted.get(at).is_some_and(|name| name.has_slash)
    }

    /// Whether a path is named, or lies below a name.
    pub fn covers(&self, path: &[u8]) -> bool {
        let at = self.place(path);
        if self.text(at) == Some(path) {
            return true;
        }
        // A name above it is the one before, or above that.
        let mut before = at.checked_sub(1);
        while let Some(name) = before {
            if self.text(name).is_some_and(|name| path::is_inside(path, name)) {
                return true;
            }
            let above = self.sorted.get(name).map_or(NONE, |name| name.above);
            before = (above != NONE).then_some(above as usize);
        }
        false
    }

    /// The walk has found the name at this place.
    pub fn found(&mut self, at: usize) {
        if let Some(name) = self.sorted.get_mut(at) {
            name.found = true;
        }
    }

    /// A name that was not found; each once.
    pub fn pop_missing(&mut self) -> Option<Vec<u8>> {
        let rest = self.sorted.get(self.looked_at..)?;
        let at = self.looked_at + rest.iter().position(|name| !name.found)?;
        self.looked_at = at + 1;
        self.text(at).map(<[u8]>::to_vec)
    }

    /// Where a path is in the order, or would be.
    fn place(&self, path: &[u8]) -> usize {
        let names = self.options.names.as_deref().unwrap_or_default();
        let text = |name: &Name| names.get(name.index as usize).map_or(&b""[..], RelPath::as_bytes);
        self.sorted.partition_point(|name| order(text(name), path) == Ordering::Less)
    }

    fn text(&self, at: usize) -> Option<&[u8]> {
        let index = self.sorted.get(at)?.index;
        self.options.names.as_ref()?.get(index as usize).map(RelPath::as_bytes)
    }
}

/// An order in which what lies below a path follows it at once: that of bytes, `/` before all others.
fn order(one: &[u8], other: &[u8]) -> Ordering {
    let rank = |byte: u8| if byte == b'/' { 0 } else { u16::from(byte) + 1 };
    match one.iter().zip(other).find(|(one, other)| one != other) {
        Some((&one, &other)) => rank(one).cmp(&rank(other)),
        None => one.len().cmp(&other.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::path::show;

    fn names_in(names: &[&[u8]], budget: &MemoryBudget) -> Result<NamesFrom, Spent> {
        let names = Some(names.iter().map(|name| RelPath::new(name.to_vec()).expect("a path")).collect());
        let options = Arc::new(SyncOptions { names, ..SyncOptions::default() });
        NamesFrom::of(&options, budget).map(|names| names.expect("there are names"))
    }

    fn names(names: &[&[u8]]) -> NamesFrom {
        names_in(names, &MemoryBudget::default()).expect("good names")
    }

    #[test]
    fn paths_stand_above_at_and_below_names() {
        let names = names(&[b"a/b", b"a!", b"d", b"a/b/c/d", b"d"]);
        for (path, standing, above, covered) in [
            (&b""[..], Standing::Above, true, false),
            (b"a", Standing::Above, true, false),
            (b"a/b", Standing::Name(0), true, true),
            (b"a/b/x", Standing::Elsewhere, false, true),
            (b"a/b/c", Standing::Above, true, true),
            (b"a/b/c/d", Standing::Name(1), false, true),
            (b"a/b/c/d/e", Standing::Elsewhere, false, true),
            (b"a!", Standing::Name(2), false, true),
            (b"a!b", Standing::Elsewhere, false, false),
            (b"d/e", Standing::Elsewhere, false, true),
            (b"e", Standing::Elsewhere, false, false),
        ] {
            assert_eq!(names.standing(path), standing, "{}", show(path));
            assert_eq!((names.is_above(path), names.covers(path)), (above, covered), "{}", show(path));
        }
    }

    /// Components cost nothing: what a name is charged is its length and some bytes.
    #[test]
    fn memory_grows_with_the_names_not_with_their_depth() {
        for (component, count) in [(&b"a/"[..], 300), (b"b/c/", 100)] {
            let long = |index: usize| {
                let beginning = format!("{index}/").into_bytes();
                [&beginning[..], &component.repeat(4000 / component.len()), b"end"].concat()
            };
            let all: Vec<Vec<u8>> = (0..count).map(long).collect();
            let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            let budget = MemoryBudget::default();
            let names = names_in(&all, &budget).expect("legal names");
            let text: usize = all.iter().map(|name| name.len()).sum();
            assert!(budget.used() <= text + count * 40, "{} for {text}", budget.used());
            assert!(names.is_above(b"7/b") != component.starts_with(b"a") && names.is_above(b"7"));
            // One byte less than they take.
            let small = MemoryBudget::of(budget.used() - 1);
            let error = names_in(&all, &small).expect_err("they do not fit");
            assert!(error.to_string().contains("the names of --files-from"), "{error}");
            assert_eq!(small.used(), 0);
        }
    }

    #[test]
    fn a_name_leads_through_what_the_filter_leaves_out() {
        let names = names(&[b"dir", b"dir/a", b"o/x/y"]);
        let is_excluded = |path: &[u8]| [&b"dir"[..], b"o/x"].contains(&path);
        let passage = |path: &'static [u8], kind, above, enter| {
            names.passage(Asked { path, kind, above, enter }, || is_excluded(path))
        };
        let (whole, only) = (Some(Passage::Whole), Some(Passage::Names));
        for enter in [Enter::All, Enter::Made] {
            let directory = |path| passage(path, NameKind::Directory, Passage::Whole, enter);
            assert_eq!((directory(b"dir"), directory(b"o"), directory(b"o/x")), (only, only, only));
            assert_eq!(passage(b"dir", NameKind::Other, Passage::Whole, enter), None);
            assert_eq!(passage(b"dir/a", NameKind::Other, Passage::Names, enter), whole);
            assert_eq!(passage(b"dir/b", NameKind::Other, Passage::Names, enter), None);
        }
        assert_eq!(passage(b"dir/b", NameKind::Other, Passage::Whole, Enter::All), whole);
        assert_eq!(passage(b"dir/b", NameKind::Other, Passage::Whole, Enter::Made), None);
    }

    #[test]
    fn what_is_not_found_is_handed_out_once() {
        let mut names = names(&[b"x", b"a", b"a/b", b"x"]);
        let Standing::Name(at) = names.standing(b"a") else { panic!("it is named") };
        names.found(at);
        let missing: Vec<_> = std::iter::from_fn(|| names.pop_missing()).collect();
        assert_eq!(missing, [&b"a/b"[..], b"x"]);
    }

    proptest! {
        /// Against the directories above each name, written out.
        #[test]
        fn names_stand_as_in_a_map(
            texts in prop::collection::vec("[ab!]{1,2}(/[ab!]{1,2}){0,3}", 0..12),
            path in "([ab!]{1,2}(/[ab!]{1,2}){0,4})?",
        ) {
            let listed: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
            let names = names(&listed);
            let mut all: BTreeMap<&[u8], bool> = BTreeMap::new();
            for name in &listed {
                all.insert(name, true);
                let mut above = path::split(name).0;
                while !above.is_empty() {
                    all.entry(above).or_insert(false);
                    above = path::split(above).0;
                }
            }
            let path = path.as_bytes();
            let named: BTreeSet<&[u8]> = listed.iter().copied().collect();
            let covered = named.iter().any(|name| *name == path || path::is_inside(path, name));
            prop_assert_eq!(names.covers(path), covered);
            prop_assert_eq!(names.is_above(path), named.iter().any(|name| path::is_inside(name, path)));
            let standing = names.standing(path);
            prop_assert_eq!(matches!(standing, Standing::Name(_)), named.contains(path));
            if !path.is_empty() {
                prop_assert_eq!(standing != Standing::Elsewhere, all.contains_key(path));
            }
        }
    }
}
