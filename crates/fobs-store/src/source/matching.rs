//! A source whose receiver lists what it has (protocol 7.9).

use std::time::Instant;

use super::Source;
use super::earlier::EarlierFiles;
use super::surveyed::broken;
use crate::delta::{Coverage, EarlierVersion, FILE_MIN, Known, Lists, Matcher, NameKey, Pays};
use crate::input::Input;
use crate::open_file::OpenFile;
use crate::survey::Changes;
use crate::uncached::{LargeFiles, PageCache, Reads};
use fobs_model::error::Result;

/// What it finds out of the lists.
pub(super) struct Matching {
    lists: Lists,
    key: NameKey,
    pays: Pays,
    /// Rows that were decided.
    rows: u64,
    /// The row of the entry that begins, and what the receiver has of it.
    begins: Option<(u64, Has)>,
    /// Where the sender's own copies of bases are, if it has any.
    earlier: Option<EarlierFiles>,
}

/// What a receiver has of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    /// Something, which it lists.
    Pieces,
    /// One of its size and time.
    Supposed,
}

impl Matching {
    fn means(&self) -> (NameKey, Lists, Pays) {
        (self.key.clone(), self.lists.clone(), self.pays.clone())
    }
}

impl Source {
    /// From now on finds in its files what the receiver lists.
    pub fn match_with(&mut self, lists: Lists, key: NameKey, pays: Pays) {
        let earlier = self.earlier.take();
        self.matching = Some(Matching { lists, key, pays, rows: 0, begins: None, earlier });
    }

    /// Whether any are known.
    pub fn knows_earlier(&self) -> bool {
        self.earlier.is_some()
    }

    /// Of these files the sender has earlier versions, which the receiver may have too.
    pub fn has_earlier(&mut self, earlier: EarlierFiles) {
        self.earlier = Some(earlier);
    }

    /// A row was decided.
    pub(super) fn note_row(&mut self, changes: Changes) {
        if let Some(matching) = &mut self.matching {
            let has = match changes {
                _ if changes.contains(Changes::SUPPOSED) => Some(Has::Supposed),
                _ if changes.contains(Changes::LISTED) => Some(Has::Pieces),
                _ => None,
            };
            matching.begins = has.map(|has| (matching.rows, has));
            matching.rows += 1;
        }
    }

    /// How large files were read so far.
    pub fn large_files(&self) -> &LargeFiles {
        &self.large_files
    }

    /// Large files are read through the page cache.
    pub fn use_cache(&mut self) {
        self.cache = PageCache::Used;
    }

    /// The file that begins: with a number of its own, and with what finds pieces in it.
    pub(super) fn opened(&mut self, mut file: OpenFile) -> OpenFile {
        self.opened += 1;
        file.serial = self.opened;
        if let Input::File(held, _) = &file.input {
            (file.reads, file.large) = Reads::of(held, file.size, self.cache, &self.large_files);
        }
        let Some(matching) = &self.matching else { return file };
        let Some((row, has)) = matching.begins else { return file };
        let known = match has {
            Has::Supposed => Known::Supposed,
            Has::Pieces if file.size < FILE_MIN => return file,
            Has::Pieces => {
                let (files, stamp) = (matching.earlier.as_ref(), file.stamp());
                let earlier =
                    files.zip(stamp).and_then(|(files, stamp)| files.of(&file.path, stamp.identity));
                earlier.map_or(Known::Nothing, |file| Known::Earlier(EarlierVersion::new(file)))
            }
        };
        file.matcher = Some(Matcher::new((row, file.size), matching.means(), known));
        file
    }
}

impl OpenFile {
    /// How much of `most` bytes, of which a group is the least, is to be read at once.
    pub(super) fn room(&self, most: usize) -> usize {
        self.matcher.as_ref().map_or(most, |matcher| matcher.room(self.tree.len(), most))
    }

    /// Whether enough of the basis is listed to read a chunk's data; waits for it until `end`, if given.
    ///
    /// # Errors
    /// The session is over.
    pub(super) fn is_covered(&mut self, end: Option<Instant>) -> Result<bool> {
        let (Some(matcher), Input::File(file, _)) = (&mut self.matcher, &self.input) else { return Ok(true) };
        match matcher.coverage(file, self.tree.len(), end) {
            Coverage::Complete => Ok(true),
            Coverage::Until(_) => Ok(false),
            Coverage::Broken => Err(broken()),
        }
    }
}
