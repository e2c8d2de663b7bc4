//! What this side asked for: the one judge of which names may come, for the rows of a listing and for records
//! that no listing announced, in both directions.
//!
//! It says what a sender that follows the request would list. Two things it cannot know: what filter files of
//! the sender's directories say, and where the sources lie on the sender's host. A filter counts up to the
//! first rule that depends on either.

use std::collections::HashSet;
use std::sync::Arc;

use super::select::filter_of;
use super::walk::{means_contents, name_in_transfer};
use fobs_filter::names_from::{Asked, NamesFrom, Passage, Standing};
use fobs_filter::{Chain, NameKind, Side, path};
use fobs_model::budget::MemoryBudget;
use fobs_model::error::Result;
use fobs_model::options::sync::{Enter, SyncOptions};

/// The names that may come.
pub(crate) struct Requested {
    /// First components that were named; `None` where the contents of a directory were, or where this side
    /// did not ask.
    sources: Option<HashSet<Vec<u8>>>,
    /// Whether names come of which this side has asked for none: they are the sender's to choose.
    is_any: bool,
    enters: Enter,
    /// Of a sync.
    rules: Option<Rules>,
    /// The directory that was judged last.
    directory: Vec<u8>,
    /// Of it and those above it: how long each path is, and how its entries may come, if they may.
    verdicts: Vec<(usize, Option<Passage>)>,
}

struct Rules {
    chain: Chain,
    /// Of `--files-from`.
    names: Option<NamesFrom>,
}

impl Requested {
    /// Any name.
    pub(crate) fn anything() -> Requested {
        Requested {
            sources: None,
            is_any: true,
            enters: Enter::All,
            rules: None,
            directory: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// What these sources can contain.
    pub(crate) fn of(sources: &[Vec<u8>], enters: Enter) -> Requested {
        let any_name = sources.iter().any(|source| means_contents(source));
        let sources = (!any_name).then(|| sources.iter().map(|source| name_in_transfer(source)).collect());
        Requested { sources, is_any: false, enters, ..Requested::anything() }
    }

    /// Of that, what a sync with these options lists.
    ///
    /// # Errors
    /// Rules that are not possible; rules or names that the budget has no room for.
    pub(crate) fn in_sync(self, options: &Arc<SyncOptions>, budget: &MemoryBudget) -> Result<Requested> {
        let names = NamesFrom::of(options, budget)?;
        let filter = Arc::new(filter_of(options)?.portable(Side::Sender));
        let chain = Chain::within(filter, Side::Sender, b"", budget)?;
        Ok(Requested { enters: options.directories, rules: Some(Rules { chain, names }), ..self })
    }

    /// Whether an entry may come.
    pub(crate) fn includes(&mut self, path: &[u8], kind: NameKind) -> bool {
        let first = path::split_first(path).0;
        let is_named = self.sources.as_ref().is_none_or(|sources| sources.contains(first));
        let leads_to_names = self.rules.as_ref().is_some_and(|rules| rules.names.is_some());
        let is_left_out = kind == NameKind::Directory && self.enters == Enter::None && !leads_to_names;
        if !is_named || is_left_out {
            return false;
        }
        let Some(above) = self.passage_into(path::split(path).0) else { return false };
        path.is_empty() || self.passage(path, kind, above).is_some()
    }

    /// Whether a path was asked for by its name, and not as a part of something.
    pub(crate) fn names(&self, path: &[u8]) -> bool {
        let listed = self.rules.as_ref().and_then(|rules| rules.names.as_ref());
        match (listed, &self.sources) {
            (Some(names), _) => matches!(names.standing(path), Standing::Name(_)),
            (None, Some(sources)) => sources.contains(path),
            (None, None) => self.is_any,
        }
    }

    /// How the entries of a directory may come, if they may.
    fn passage_into(&mut self, directory: &[u8]) -> Option<Passage> {
        let is_above = |len: usize| {
            let above = &self.directory[..len];
            above == directory || path::is_inside(directory, above)
        };
        let common = self.verdicts.iter().take_while(|(len, _)| is_above(*len)).count();
        self.verdicts.truncate(common);
        let (mut len, mut passage) = self.verdicts.last().copied().unwrap_or((0, Some(Passage::Whole)));
        while len < directory.len() {
            let rest = if len == 0 { 0 } else { len + 1 };
            let more = directory[rest..].iter().position(|&byte| byte == b'/');
            len = more.map_or(directory.len(), |more| rest + more);
            let above = &directory[..len];
            passage = passage.and_then(|passage| self.passage(above, NameKind::Directory, passage));
            passage = passage.filter(|_| self.enters(above));
            self.verdicts.push((len, passage));
        }
        if self.directory != directory {
            self.directory = directory.to_vec();
        }
        passage
    }

    /// How a sender lists an entry of a directory that it enters, if it does.
    fn passage(&self, path: &[u8], kind: NameKind, above: Passage) -> Option<Passage> {
        let Some(Rules { chain, names }) = &self.rules else { return Some(Passage::Whole) };
        let is_excluded = || chain.excludes(path, kind);
        match names {
            Some(names) => names.passage(Asked { path, kind, above, enter: self.enters }, is_excluded),
            None => (!is_excluded()).then_some(Passage::Whole),
        }
    }

    fn enters(&self, directory: &[u8]) -> bool {
        let names = self.rules.as_ref().and_then(|rules| rules.names.as_ref());
        let is_named =
            |names: &NamesFrom| names.is_above(directory) || names.lists_all_of(directory, self.enters);
        self.enters == Enter::All || names.is_some_and(is_named)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use fobs_filter::{Action, Filter};
    use fobs_model::name::RelPath;

    fn requested(sources: &[&[u8]], options: SyncOptions) -> Requested {
        let sources: Vec<Vec<u8>> = sources.iter().map(|source| source.to_vec()).collect();
        Requested::of(&sources, Enter::All)
            .in_sync(&Arc::new(options), &MemoryBudget::default())
            .expect("good options")
    }

    fn excluding(patterns: &[&[u8]]) -> SyncOptions {
        let mut filter = Filter::default();
        for pattern in patterns {
            filter.add_rule(pattern, &mut |_| unreachable!("no file is named")).expect("a rule");
        }
        SyncOptions { filter: filter.rules(), directories: Enter::All, ..SyncOptions::default() }
    }

    #[test]
    fn only_what_was_named_may_come() {
        let mut copy = Requested::of(&[b"x/dir".to_vec(), b"f".to_vec()], Enter::None);
        assert!(copy.includes(b"dir", NameKind::Other) && copy.includes(b"f", NameKind::Other));
        assert!(!copy.includes(b"dir", NameKind::Directory), "no -r");
        for other in [&b""[..], b"g", b".bashrc", b"ff", b"dir/f", b"f/f"] {
            assert!(!copy.includes(other, NameKind::Other), "{}", path::show(other));
        }
        let mut tree = Requested::of(&[b"dir".to_vec()], Enter::All);
        assert!(tree.includes(b"dir/a/b", NameKind::Other) && !tree.includes(b"dirt/a", NameKind::Other));
        let mut contents = Requested::of(&[b"dir/".to_vec()], Enter::All);
        assert!(
            contents.includes(b"", NameKind::Directory) && contents.includes(b"any/thing", NameKind::Other)
        );
    }

    #[test]
    fn what_is_below_an_excluded_directory_may_not_come() {
        let mut sync = requested(&[b"src/"], excluding(&[b"- .ssh", b"- *.o", b"+ keep/", b"- /only/*"]));
        for (path, kind, may) in [
            (&b""[..], NameKind::Directory, true),
            (b"a", NameKind::Other, true),
            (b".ssh", NameKind::Directory, false),
            (b".ssh/authorized_keys", NameKind::Other, false),
            (b".ssh/a/b", NameKind::Other, false),
            (b"d/.ssh/x", NameKind::Other, false),
            (b"d/x.o", NameKind::Other, false),
            (b"d/x.o/y", NameKind::Other, false),
            (b"d/x", NameKind::Other, true),
            (b"only/x", NameKind::Other, false),
            (b"only/keep/x", NameKind::Other, true),
            (b"d/y", NameKind::Other, true),
        ] {
            assert_eq!(sync.includes(path, kind), may, "{}", path::show(path));
        }
    }

    #[test]
    fn rules_that_another_host_knows_decide_nothing_here() {
        // The file of a directory may include what the rule behind it excludes.
        let mut sync = requested(&[b"src/"], excluding(&[b"- a", b": .rules", b"- b"]));
        assert!(!sync.includes(b"a", NameKind::Other) && sync.includes(b"b", NameKind::Other));
        let mut sync = requested(&[b"src/"], excluding(&[b"-/ /home/u/src/a", b"- b"]));
        assert!(sync.includes(b"a", NameKind::Other) && sync.includes(b"b", NameKind::Other));
        // What is only about deletions hides nothing.
        let mut sync = requested(&[b"src/"], excluding(&[b":r .rules", b"P a", b"- b"]));
        assert!(sync.includes(b"a", NameKind::Other) && !sync.includes(b"b", NameKind::Other));
    }

    #[test]
    fn only_names_of_the_list_may_come() {
        let names = [&b"a/b"[..], b"d", b"e/f/g"].map(|name| RelPath::new(name.to_vec()).expect("a path"));
        for directories in [Enter::All, Enter::Made] {
            let options = SyncOptions { names: Some(names.to_vec()), directories, ..SyncOptions::default() };
            let mut sync = requested(&[b"src/"], options);
            for (path, kind, may) in [
                (&b"a"[..], NameKind::Directory, true),
                // It would make way for everything in the directory.
                (b"a", NameKind::Other, false),
                (b"a/b", NameKind::Other, true),
                (b"a/c", NameKind::Other, false),
                (b"d", NameKind::Directory, true),
                (b"d/x", NameKind::Other, directories == Enter::All),
                (b"e/f", NameKind::Directory, true),
                (b"e/f/h", NameKind::Other, false),
                (b".bashrc", NameKind::Other, false),
            ] {
                assert_eq!(sync.includes(path, kind), may, "{} {directories:?}", path::show(path));
            }
        }
    }

    proptest! {
        /// Whatever was judged before: the verdicts that are kept are those of the path.
        #[test]
        fn verdicts_do_not_depend_on_the_order(
            paths in prop::collection::vec("[ab]{1,2}(/[ab]{1,2}){0,4}", 1..12),
        ) {
            let options = || excluding(&[b"- a", b"+ bb/", b"- /ab/*"]);
            let mut together = requested(&[b"src/"], options());
            for path in &paths {
                let alone = requested(&[b"src/"], options()).includes(path.as_bytes(), NameKind::Other);
                prop_assert_eq!(together.includes(path.as_bytes(), NameKind::Other), alone, "{}", path);
                // By hand: nothing above it is excluded, nor itself.
                let mut excluded = false;
                let components: Vec<&str> = path.split('/').collect();
                for (at, name) in components.iter().enumerate() {
                    let is_directory = at + 1 < components.len();
                    excluded |= *name == "a"
                        || (at == 1 && components[0] == "ab" && !(*name == "bb" && is_directory));
                }
                prop_assert_eq!(alone, !excluded, "{}", path);
            }
        }
    }

    #[test]
    fn an_exclusion_is_an_action() {
        let mut filter = Filter::default();
        filter.add_pattern(Action::Exclude, b"x").expect("a pattern");
        let options =
            SyncOptions { filter: filter.rules(), directories: Enter::All, ..SyncOptions::default() };
        assert!(!requested(&[b"s/"], options).includes(b"x", NameKind::Other));
    }
}
