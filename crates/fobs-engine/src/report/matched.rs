//! What came from files that the receiver had (protocol 7.9).

use super::Reporter;

/// What both users are told once where a delta fails.
const UNUSABLE: &str = "a file at the destination changed while what differs from it was sent: that part is \
                        sent whole; let nothing else write there";

impl Reporter {
    /// Adds what of a chunk came from a file that this end had.
    pub(crate) fn matched(&self, bytes: u64) {
        if bytes > 0 {
            self.with(|state| state.matched += bytes);
        }
    }

    /// What came from files that this end had, bytes.
    pub(crate) fn matched_bytes(&self) -> u64 {
        self.with(|state| state.matched)
    }

    /// A chunk could not be made of a file that this end had: it is sent whole.
    pub(crate) fn unusable_patch(&self) {
        if !self.with(|state| std::mem::replace(&mut state.unusable, true)) {
            self.notice_here(UNUSABLE.to_owned());
        }
    }
}
