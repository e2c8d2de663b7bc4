//! The journal beside a destination.

use fobs_store::load_any_journal;

/// Any bytes as a journal, and any bytes as the parts of one whose checks are right.
pub(super) fn journal(input: &[u8]) {
    load_any_journal(input);
}
