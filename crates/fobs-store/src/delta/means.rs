//! What a file that is matched has for it.

use super::lists::Lists;
use super::names::NameKey;
use super::pays::Pays;

/// The file's means: whom it asks, and by what names.
pub(super) struct Means {
    pub(super) row: u64,
    pub(super) key: NameKey,
    pub(super) lists: Lists,
    pub(super) pays: Pays,
}
