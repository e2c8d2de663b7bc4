//! Which entries a sync's walk lists: by filters, by the names of `--files-from`, and by which directories
//! are entered.

use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::at::open_beneath;
use super::beneath::Links;
use fobs_filter::names_from::{Asked, NamesFrom, Passage, Standing};
use fobs_filter::{Chain, DIRECTORY_FILE_MAX, Filter, NameKind, Side};
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{self, Error, ErrorKind};
use fobs_model::options::sync::{Enter, SyncOptions};

/// How much of a directory's contents the walk has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// All.
    Seen,
    /// Not all: nothing follows from what is missing.
    Unseen,
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

/// The choice of entries.
pub(super) struct Selection {
    chain: Chain,
    enter: Enter,
    /// `None` selects all.
    names: Option<NamesFrom>,
    /// With names, how the directories are listed that are entered.
    entered: Vec<Passage>,
    ignores_missing: bool,
    tells_missing: bool,
}

impl Selection {
    /// Of a sync with these options.
    ///
    /// # Errors
    /// Names that no path can be; rules or names that the budget has no room for.
    pub(super) fn new(
        options: &Arc<SyncOptions>,
        top: &[u8],
        budget: &MemoryBudget,
    ) -> error::Result<Selection> {
        let names = NamesFrom::of(options, budget)?;
        let chain = Chain::within(filter_of(options)?, Side::Sender, top, budget)?;
        let ignores_missing = options.ignores_missing;
        let (enter, tells_missing) = (options.directories, options.deletes_missing);
        Ok(Selection { chain, enter, names, entered: Vec::new(), ignores_missing, tells_missing })
    }

    /// Whether an entry is listed.
    pub(super) fn takes(&mut self, path: &[u8], kind: NameKind) -> bool {
        if let Some(names) = &mut self.names
            && let Standing::Name(at) = names.standing(path)
        {
            names.found(at);
        }
        self.passage(path, kind).is_some()
    }

    /// Whether an entry would be listed.
    pub(super) fn would_take(&self, path: &[u8], kind: NameKind) -> bool {
        self.passage(path, kind).is_some()
    }

    fn passage(&self, path: &[u8], kind: NameKind) -> Option<Passage> {
        let is_excluded = || self.chain.excludes(path, kind);
        let Some(names) = &self.names else { return (!is_excluded()).then_some(Passage::Whole) };
        let above = self.entered.last().copied().unwrap_or(Passage::Whole);
        names.passage(Asked { path, kind, above, enter: self.enter }, is_excluded)
    }

    /// Why what it said of the last names does not count: the rules take too much work.
    pub(super) fn failure(&self) -> Option<Error> {
        self.chain.failure()
    }

    /// Whether the entries of a directory are looked at.
    pub(super) fn enters(&self, path: &[u8]) -> bool {
        match (&self.names, self.enter) {
            (_, Enter::All) => true,
            _ if path.is_empty() => true,
            (Some(names), _) => names.is_above(path),
            (None, _) => false,
        }
    }

    /// How much is listed of the directory that was entered last.
    pub(super) fn contents(&self, path: &[u8]) -> Contents {
        match (&self.names, self.entered.last()) {
            // With what is there besides, the filter leaves it out.
            (Some(names), Some(Passage::Names)) if names.covers(path) => Contents::Unseen,
            (Some(_), Some(Passage::Names)) => Contents::Named,
            _ => Contents::Seen,
        }
    }

    /// Whether something that was named lies below a path.
    pub(super) fn is_above_names(&self, path: &[u8]) -> bool {
        self.names.as_ref().is_some_and(|names| names.is_above(path))
    }

    /// Whether names were listed.
    pub(super) fn has_names(&self) -> bool {
        self.names.is_some()
    }

    /// Enters a directory and reads its filter files, those that are links through `followed`. Returns a
    /// sentence for each that cannot be used; then nothing in the directory is to be listed.
    pub(super) fn enter(
        &mut self,
        path: &[u8],
        directory: Result<BorrowedFd<'_>, Errno>,
        followed: &dyn Fn(&[u8]) -> Result<OwnedFd, Errno>,
    ) -> Vec<String> {
        if self.names.is_some() {
            // The top directory is always listed.
            let passage = if path.is_empty() { None } else { self.passage(path, NameKind::Directory) };
            self.entered.push(passage.unwrap_or(Passage::Whole));
        }
        self.chain.enter(path, &mut |name| {
            let open = |directory| open_beneath(directory, name, READ_FILTER, Mode::empty(), Links::Refuse);
            filter_file(match directory.and_then(open) {
                Err(Errno::LOOP) => followed(name),
                opened => opened,
            })
        })
    }

    /// Leaves the directory that was entered last.
    pub(super) fn leave(&mut self) {
        self.entered.pop();
        self.chain.leave();
    }

    /// A name that the walk did not find; each once.
    pub(super) fn pop_missing(&mut self) -> Option<Vec<u8>> {
        let missing = self.names.as_mut()?.pop_missing();
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
