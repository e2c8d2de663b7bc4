//! What came from files that the receiver had (protocol 7.9).

use super::Reporter;
use fobs_model::deltas::{Matched, Origin};

/// What both users are told once where a delta fails.
const UNUSABLE: &str = "a file at the destination changed while what differs from it was sent: that part is \
                        sent whole; let nothing else write there";

impl Reporter {
    /// Adds what of a chunk came from files that this end had.
    pub(crate) fn matched(&self, matched: &Matched) {
        if matched.total() > 0 {
            self.with(|state| state.matched.add_all(matched));
        }
    }

    /// A file of this size came with a directory that was renamed.
    pub(crate) fn renamed_file(&self, bytes: u64) {
        self.advance();
        self.with(|state| {
            state.progress.files += 1;
            state.renamed = (state.renamed.0 + 1, state.renamed.1.saturating_add(bytes));
            state.matched.add(Origin::Moved, bytes);
        });
    }

    /// How many such files came, and their bytes.
    pub(crate) fn all_renamed(&self) -> (u64, u64) {
        self.with(|state| state.renamed)
    }

    /// What came from files that this end had.
    pub(crate) fn all_matched(&self) -> Matched {
        self.with(|state| state.matched)
    }

    /// A chunk could not be made of a file that this end had: it is sent whole.
    pub(crate) fn unusable_patch(&self) {
        if !self.with(|state| std::mem::replace(&mut state.unusable, true)) {
            self.notice_here(UNUSABLE.to_owned());
        }
    }
}
