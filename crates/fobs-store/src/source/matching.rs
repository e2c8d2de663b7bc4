//! A source whose receiver lists what it has (protocol 7.9).

use std::time::Instant;

use super::Source;
use super::surveyed::broken;
use crate::delta::{Coverage, FILE_MIN, Lists, Matcher, NameKey, Pays};
use crate::input::Input;
use crate::open_file::OpenFile;
use fobs_model::error::Result;

/// What it finds out of the lists.
pub(super) struct Matching {
    lists: Lists,
    key: NameKey,
    pays: Pays,
    /// Rows that were decided.
    rows: u64,
    /// The row of the entry that begins, if its basis is listed.
    listed: Option<u64>,
}

impl Matching {
    fn means(&self) -> (NameKey, Lists, Pays) {
        (self.key.clone(), self.lists.clone(), self.pays.clone())
    }
}

impl Source {
    /// From now on finds in its files what the receiver lists.
    pub fn match_with(&mut self, lists: Lists, key: NameKey, pays: Pays) {
        self.matching = Some(Matching { lists, key, pays, rows: 0, listed: None });
    }

    /// A row was decided; whether the receiver lists what it has of it.
    pub(super) fn note_row(&mut self, is_listed: bool) {
        if let Some(matching) = &mut self.matching {
            matching.listed = is_listed.then_some(matching.rows);
            matching.rows += 1;
        }
    }

    /// The file that begins, with what finds pieces in it.
    pub(super) fn matched(&self, mut file: OpenFile) -> OpenFile {
        let row = self.matching.as_ref().and_then(|matching| Some((matching, matching.listed?)));
        file.matcher = row
            .filter(|_| file.size >= FILE_MIN)
            .map(|(matching, row)| Matcher::new((row, file.size), matching.means()));
        file
    }
}

impl OpenFile {
    /// How much of `most` bytes, of which a group is the least, is to be read at once.
    pub(super) fn room(&self, most: usize) -> usize {
        self.matcher.as_ref().map_or(most, |matcher| matcher.room(most))
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
