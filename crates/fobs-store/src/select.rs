//! Which entries a sync's walk lists: by filters, by the names of `--files-from`, and by which directories
//! are entered.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::at::open_beneath;
use super::beneath::Links;
use fobs_filter::names_from::{NamesFrom, Standing};
use fobs_filter::{Chain, DIRECTORY_FILE_MAX, Filter, NameKind, Side};
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::sync::{Enter, SyncOptions};

/// The choice of entries.
pub(super) struct Selection {
    chain: Chain,
    enter: Enter,
    /// `None` selects all.
    names: Option<NamesFrom>,
}

impl Selection {
    /// Of a sync with these options.
    ///
    /// # Errors
    /// Names that no path can be; rules or names that the budget has no room for.
    pub(super) fn new(options: &Arc<SyncOptions>, top: &[u8], budget: &MemoryBudget) -> Result<Selection> {
        let names = NamesFrom::of(options, budget)?;
        let chain = Chain::within(filter_of(options)?, Side::Sender, top, budget)?;
        Ok(Selection { chain, enter: options.directories, names })
    }

    /// Whether an entry is listed.
    pub(super) fn takes(&mut self, path: &[u8], kind: NameKind) -> bool {
        self.is_named(path, kind) && !self.chain.excludes(path, kind)
    }

    /// Why what it said of the last names does not count: the rules take too much work.
    pub(super) fn failure(&self) -> Option<Error> {
        self.chain.failure()
    }

    fn is_named(&mut self, path: &[u8], kind: NameKind) -> bool {
        let Some(names) = &mut self.names else { return true };
        match names.standing(path) {
            Standing::Name(at) => {
                names.found(at);
                true
            }
            Standing::Above if kind == NameKind::Directory => true,
            // Below a directory that is named by itself and entered.
            Standing::Above | Standing::Elsewhere => self.enter == Enter::All && names.covers(path),
        }
    }

    /// Whether the entries of a directory are listed.
    pub(super) fn enters(&self, path: &[u8]) -> bool {
        match (&self.names, self.enter) {
            (_, Enter::All) => true,
            _ if path.is_empty() => true,
            (Some(names), _) => names.is_above(path),
            (None, _) => false,
        }
    }

    /// Enters a directory and reads its filter files; returns a sentence for each that cannot be used.
    pub(super) fn enter(&mut self, path: &[u8], directory: BorrowedFd<'_>) -> Vec<String> {
        self.chain.enter(path, &mut |name| small_file(directory, name))
    }

    /// Leaves the directory that was entered last.
    pub(super) fn leave(&mut self) {
        self.chain.leave();
    }

    /// A name that the walk did not find; each once.
    pub(super) fn pop_missing(&mut self) -> Option<Vec<u8>> {
        self.names.as_mut()?.pop_missing()
    }
}

/// The filter of a sync.
///
/// # Errors
/// `Usage` for rules that are not possible.
pub fn filter_of(options: &SyncOptions) -> Result<Arc<Filter>> {
    let filter = Filter::of(&options.filter);
    filter.map(Arc::new).map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))
}

fn small_file(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    match open_beneath(directory, name, flags, Mode::empty(), Links::Refuse) {
        Ok(file) => {
            let mut text = Vec::new();
            let file = std::fs::File::from(file);
            file.take(DIRECTORY_FILE_MAX as u64 + 1).read_to_end(&mut text)?;
            Ok(Some(text))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
