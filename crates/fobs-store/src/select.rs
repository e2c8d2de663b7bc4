//! Which entries a sync's walk lists: by filters, by the names of `--files-from`, and by which directories
//! are entered.

use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::at;
use super::at::open_beneath;
use super::beneath::Links;
use super::held::is_trusted;
use fobs_filter::names_from::{Asked, NamesFrom, Passage, Standing};
use fobs_filter::{Chain, DIRECTORY_FILE_MAX, Filter, NameKind, Side, XattrRules};
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{self, Error, ErrorKind};
use fobs_model::name::Component;
use fobs_model::options::sync::{Enter, SyncOptions};

/// How much of a directory's contents the walk has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// All.
    Seen,
    /// Not all: nothing follows from what is missing.
    Unseen,
    /// None: it is listed for itself (`-d`).
    NotMeant,
    /// What is named below it, alone.
    Named,
}

/// Directories that are listed for what is named below them alone, and stay as they are.
pub(crate) struct Implied(Option<NamesFrom>);

impl Implied {
    /// Those of a sync with these options; none but with `--no-implied-dirs`.
    ///
    /// # Errors
    /// Names that the budget has no room for.
    pub(crate) fn of(options: &Arc<SyncOptions>, budget: &MemoryBudget) -> error::Result<Implied> {
        let is_asked = options.rules.leaves_implied;
        Ok(Implied(if is_asked { NamesFrom::of(options, budget)? } else { None }))
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let names = self.0.as_ref().filter(|_| !path.is_empty());
        names.is_some_and(|names| names.is_above(path) && !names.covers(path))
    }
}

/// The names below a source.
struct Place {
    names: NamesFrom,
    /// The source's path in the request, once it is walked.
    top: Option<Vec<u8>>,
}

/// The choice of entries.
pub(super) struct Selection {
    chain: Chain,
    enter: Enter,
    /// The names below each source, or below the only one; none select all.
    places: Vec<Place>,
    /// The one of the source that is walked.
    current: usize,
    /// With names, how the directories are listed that are entered.
    entered: Vec<Passage>,
    ignores_missing: bool,
    tells_missing: bool,
}

impl Selection {
    /// Of a sync with these options and this number of sources.
    ///
    /// # Errors
    /// Names that are not those of these sources; rules or names that the budget has no room for.
    pub(super) fn new(
        options: &Arc<SyncOptions>,
        (top, sources): (&[u8], usize),
        budget: &MemoryBudget,
    ) -> error::Result<Selection> {
        let counts = &options.names_of_each;
        if !counts.is_empty() && counts.len() != sources {
            let message = format!("there are {sources} sources, and names below {}", counts.len());
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let lists = NamesFrom::of_each(options, budget)?;
        let places = lists.into_iter().map(|names| Place { names, top: None }).collect();
        let chain = Chain::within(filter_of(options)?, Side::Sender, top, budget)?;
        let ignores_missing = options.ignores_missing;
        let (enter, tells_missing) = (options.directories, options.deletes_missing);
        let entered = Vec::new();
        Ok(Selection { chain, enter, places, current: 0, entered, ignores_missing, tells_missing })
    }

    /// A source is walked, the one of this number in the request.
    pub(super) fn begin(&mut self, source: usize, top: &[u8]) {
        self.current = if self.places.len() > 1 { source } else { 0 };
        if let Some(place) = self.places.get_mut(self.current) {
            place.top = Some(top.to_vec());
        }
    }

    /// The names below the source that is walked.
    fn names(&self) -> Option<&NamesFrom> {
        self.places.get(self.current).map(|place| &place.names)
    }

    /// Whether an entry is listed.
    pub(super) fn takes(&mut self, path: &[u8], kind: NameKind) -> bool {
        self.find(path);
        self.passage(path, kind).is_some()
    }

    /// There is an entry, listed or not.
    pub(super) fn find(&mut self, path: &[u8]) {
        if let Some(names) = self.places.get_mut(self.current).map(|place| &mut place.names)
            && let Standing::Name(at) = names.standing(path)
        {
            names.found(at);
        }
    }

    /// Whether a path is a name of a directory that is left out because none is entered.
    pub(super) fn is_named_in_vain(&self, path: &[u8]) -> bool {
        let is_name = |names: &NamesFrom| matches!(names.standing(path), Standing::Name(_));
        self.enter == Enter::None && self.names().is_some_and(is_name)
    }

    /// Whether an entry of another source would be listed.
    pub(super) fn would_take(&self, source: usize, path: &[u8], kind: NameKind) -> bool {
        let of_source = if self.places.len() > 1 { source } else { 0 };
        let names = self.places.get(of_source).map(|place| &place.names);
        let above = if of_source == self.current { self.entered.last().copied() } else { None };
        self.passage_of((names, above), path, kind).is_some()
    }

    /// Whether a source is named itself, and not only something in it; where names are of each source.
    pub(super) fn names_top(&self, source: usize) -> Option<bool> {
        let place = self.places.get(source).filter(|_| self.places.len() > 1)?;
        Some(matches!(place.names.standing(b""), Standing::Name(_)))
    }

    /// Whether a path of another source can be listed at all; the filter is not asked.
    pub(super) fn is_near(&self, source: usize, path: &[u8]) -> bool {
        let of_source = if self.places.len() > 1 { source } else { 0 };
        let has = |place: &Place| place.names.is_above(path) || place.names.may_list(path, self.enter);
        self.places.get(of_source).is_none_or(has)
    }

    fn passage(&self, path: &[u8], kind: NameKind) -> Option<Passage> {
        self.passage_of((self.names(), self.entered.last().copied()), path, kind)
    }

    /// How an entry is listed with these names, in a directory that is listed so.
    fn passage_of(
        &self,
        (names, above): (Option<&NamesFrom>, Option<Passage>),
        path: &[u8],
        kind: NameKind,
    ) -> Option<Passage> {
        let is_excluded = || self.chain.excludes(path, kind);
        let Some(names) = names else { return (!is_excluded()).then_some(Passage::Whole) };
        let above = above.unwrap_or(Passage::Whole);
        names.passage(Asked { path, kind, above, enter: self.enter }, is_excluded)
    }

    /// Why what it said of the last names does not count: the rules take too much work.
    pub(super) fn failure(&self) -> Option<Error> {
        self.chain.failure()
    }

    /// Whether the entries of a directory are looked at.
    pub(super) fn enters(&self, path: &[u8]) -> bool {
        match (self.names(), self.enter) {
            (_, Enter::All) => true,
            _ if path.is_empty() => true,
            (Some(names), enter) => names.is_above(path) || names.lists_all_of(path, enter),
            (None, _) => false,
        }
    }

    /// How much is listed of the directory that was entered last.
    pub(super) fn contents(&self, path: &[u8]) -> Contents {
        let lists_all = |place: &Place| place.names.lists_all_of(path, self.enter);
        match (self.names(), self.entered.last()) {
            // With what is there besides, the filter leaves it out.
            (Some(names), Some(Passage::Names)) if names.covers(path) && self.enter != Enter::None => {
                Contents::Unseen
            }
            // What this source adds to one that another source lists whole.
            (Some(_), Some(Passage::Names)) if self.places.iter().any(lists_all) => Contents::Seen,
            (Some(_), Some(Passage::Names)) => Contents::Named,
            _ => Contents::Seen,
        }
    }

    /// Whether something that was named lies below a path, or its contents are meant.
    pub(super) fn leads_to_names(&self, path: &[u8]) -> bool {
        self.names().is_some_and(|names| names.leads_on(path))
    }

    /// Whether names were listed.
    pub(super) fn has_names(&self) -> bool {
        !self.places.is_empty()
    }

    /// Enters a directory and reads its filter files, those that are links through `followed`. Returns a
    /// sentence for each that cannot be used; then nothing in the directory is to be listed.
    pub(super) fn enter(
        &mut self,
        path: &[u8],
        directory: Result<BorrowedFd<'_>, Errno>,
        followed: &dyn Fn(&[u8]) -> Result<OwnedFd, Errno>,
    ) -> Vec<String> {
        if self.has_names() {
            // The top directory is always listed.
            let passage = if path.is_empty() { None } else { self.passage(path, NameKind::Directory) };
            self.entered.push(passage.unwrap_or(Passage::Whole));
        }
        self.chain.enter(path, &mut |name| {
            let open = |directory| open_beneath(directory, name, READ_FILTER, Mode::empty(), Links::Refuse);
            filter_file(match directory.and_then(open) {
                Err(Errno::LOOP) => match followed(name) {
                    // As rsync, which has no filter file in a third user's link.
                    Err(Errno::LOOP) if directory.is_ok_and(|it| is_foreign(it, name)) => Err(Errno::NOENT),
                    opened => opened,
                },
                opened => opened,
            })
        })
    }

    /// The rules for names of extended attributes in the directory that was entered last, where they are
    /// others than the filter's own.
    pub(super) fn xattr_rules(&self) -> Option<XattrRules> {
        self.chain.xattr_rules()
    }

    /// Leaves the directory that was entered last.
    pub(super) fn leave(&mut self) {
        self.entered.pop();
        self.chain.leave();
    }

    /// A name that the walk did not find, behind its source's path in the request; each once.
    pub(super) fn pop_missing(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        // Of a source that could not be walked that has been said.
        let mut walked =
            self.places.iter_mut().filter_map(|place| Some((place.top.clone()?, &mut place.names)));
        let missing = walked.find_map(|(top, names)| Some((top, names.pop_missing()?)));
        // Each is taken off, so that none comes again.
        missing.filter(|_| !self.ignores_missing || self.tells_missing)
    }
}

/// The filter of a sync.
///
/// # Errors
/// `Usage` for rules that are not possible.
pub fn filter_of(options: &SyncOptions) -> error::Result<Arc<Filter>> {
    let filter = Filter::of(&options.filter);
    filter.map(Arc::new).map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))
}

/// The rules of a sync for names of extended attributes.
///
/// # Errors
/// As [`filter_of`].
pub fn xattr_rules(options: &SyncOptions, side: Side) -> error::Result<XattrRules> {
    Ok(XattrRules::of(&*filter_of(options)?, side))
}

/// Whether a third user owns what has this name.
fn is_foreign(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    let stat = Component::new(name).map_err(Errno::from).and_then(|name| at::stat(directory, name));
    stat.is_ok_and(|stat| !is_trusted(&stat))
}

/// Flags for reading a filter file: do not wait for the writer of a fifo, do not acquire a terminal.
pub(super) const READ_FILTER: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The text of a directory's filter file, at most a byte more than it may have; none where nothing has its
/// name, or a directory.
pub(super) fn filter_file(opened: Result<OwnedFd, Errno>) -> io::Result<Option<Vec<u8>>> {
    let file = match opened {
        Ok(file) => std::fs::File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::XDEV) => return Err(io::Error::other("the link leads out of what may be read")),
        Err(errno) => return Err(errno.into()),
    };
    if file.metadata()?.is_dir() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(DIRECTORY_FILE_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(Some(text))
}
