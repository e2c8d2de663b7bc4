//! What is known of the room that a job needs.

use std::ffi::OsString;
use std::path::PathBuf;

use super::reading::Figures;

/// Where a job writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Site {
    /// Below this path of this host.
    Here(PathBuf),
    /// On another host, which was asked for this job last at this time, ms since 1970.
    There { asked_ms: u64 },
}

/// What stands for a place: the same words of the same user to the same host.
pub(super) type Destination = (Option<u32>, Vec<String>, Option<OsString>);

/// A place and a number of bytes.
#[derive(Debug)]
pub(super) struct Needs {
    pub site: Site,
    /// What its submitter has counted: all that it is to write where nothing of it is there, bytes.
    pub counted: Option<u64>,
    /// All that it is to write, bytes, where that is known.
    whole: Option<u64>,
    /// What of it is written.
    moved: u64,
}

impl Needs {
    pub(super) fn new(site: Site, counted: Option<u64>) -> Needs {
        Needs { site, counted, whole: counted, moved: 0 }
    }

    /// Of what it is to write, this much is there by its names.
    pub(super) fn is_there(&mut self, bytes: u64) {
        if let Some(counted) = self.counted {
            self.whole = Some(counted.saturating_sub(bytes));
        }
    }

    /// Of its next run nothing is known.
    pub(super) fn begin_anew(&mut self) {
        (self.counted, self.whole, self.moved) = (None, None, 0);
    }

    pub(super) fn left(&self) -> Option<u64> {
        self.whole.map(|whole| whole.saturating_sub(self.moved))
    }

    /// With what an attempt says; before it knows of anything, what was known before counts.
    pub(super) fn take(&mut self, figures: &Figures) {
        if figures.bytes_known > 0 {
            self.whole = Some(self.whole.unwrap_or(0).max(figures.bytes_known));
            self.moved = figures.bytes;
            self.counted = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_counts_until_an_attempt_knows_more() {
        let mut needs = Needs::new(Site::There { asked_ms: 0 }, Some(100));
        needs.is_there(30);
        needs.is_there(40);
        assert_eq!(needs.left(), Some(60));
        needs.take(&Figures { bytes: 10, bytes_known: 80, ..Figures::default() });
        needs.is_there(50);
        assert_eq!(needs.left(), Some(70));
        needs.is_there(500);
        assert_eq!(Needs::new(Site::There { asked_ms: 0 }, None).left(), None);
    }

    #[test]
    fn what_is_left_is_never_less_than_what_is_known_of() {
        let mut needs = Needs::new(Site::Here("/".into()), Some(100));
        assert_eq!(needs.left(), Some(100));
        // It lists still; then it knows of more than was known before.
        needs.take(&Figures { bytes: 10, bytes_known: 20, ..Figures::default() });
        assert_eq!(needs.left(), Some(90));
        needs.take(&Figures { bytes: 50, bytes_known: 400, ..Figures::default() });
        assert_eq!(needs.left(), Some(350));
        needs.take(&Figures::default());
        assert_eq!(needs.left(), Some(350));
    }
}
