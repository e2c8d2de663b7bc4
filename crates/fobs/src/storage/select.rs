//! Which entries a sync's walk lists: by filters, by the names of `--files-from`, and by which directories
//! are entered.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::at::open_beneath;
use super::beneath::Links;
use super::filter::{Chain, DIRECTORY_FILE_MAX, NameKind, Side};
use super::path;
use crate::options::sync::{Enter, SyncOptions};

/// The choice of entries.
pub(super) struct Selection {
    chain: Chain,
    enter: Enter,
    /// Every named path and each directory above one; `None` selects all.
    names: Option<BTreeMap<Vec<u8>, Named>>,
}

/// How a path is named, and whether the walk has found it.
struct Named {
    by: By,
    found: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// By itself.
    Itself,
    /// By something in it.
    Inner,
}

impl Selection {
    pub(super) fn new(options: &SyncOptions, top: &[u8]) -> Selection {
        let names = options.names.as_ref().map(|names| {
            let mut all = BTreeMap::new();
            for name in names {
                let mut above = path::split(name).0;
                while !above.is_empty() {
                    all.entry(above.to_vec()).or_insert(Named { by: By::Inner, found: false });
                    above = path::split(above).0;
                }
                all.insert(name.to_vec(), Named { by: By::Itself, found: false });
            }
            all
        });
        let chain = Chain::new(Arc::new(options.filter.clone()), Side::Sender, top);
        Selection { chain, enter: options.directories, names }
    }

    /// Whether an entry is listed.
    pub(super) fn takes(&mut self, path: &[u8], kind: NameKind) -> bool {
        self.is_named(path) && !self.chain.excludes(path, kind)
    }

    fn is_named(&mut self, path: &[u8]) -> bool {
        let Some(names) = &mut self.names else { return true };
        if let Some(named) = names.get_mut(path) {
            named.found = true;
            return true;
        }
        // Below a directory that is named by itself and entered.
        if self.enter != Enter::All {
            return false;
        }
        let mut above = path::split(path).0;
        loop {
            match names.get(above) {
                Some(Named { by: By::Itself, .. }) => return true,
                _ if above.is_empty() => return false,
                _ => above = path::split(above).0,
            }
        }
    }

    /// Whether the entries of a directory are listed.
    pub(super) fn enters(&self, path: &[u8]) -> bool {
        let is_above = |names: &BTreeMap<Vec<u8>, Named>| {
            let first_inside =
                names.range::<[u8], _>((std::ops::Bound::Excluded(path), std::ops::Bound::Unbounded));
            first_inside
                .map(|(name, _)| name)
                .find(|name| !name.starts_with(path) || path::is_inside(name, path))
                .is_some_and(|name| path::is_inside(name, path))
        };
        match (&self.names, self.enter) {
            (_, Enter::All) => true,
            _ if path.is_empty() => true,
            (Some(names), _) => is_above(names),
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

    /// Names that the walk did not find.
    pub(super) fn missing(&mut self) -> Vec<Vec<u8>> {
        let names = self.names.take().unwrap_or_default();
        let is_missing = |named: &Named| !named.found && named.by == By::Itself;
        names.into_iter().filter(|(_, named)| is_missing(named)).map(|(name, _)| name).collect()
    }
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
