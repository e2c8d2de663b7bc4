//! Deltas (protocol 7.9): a chunk leaves as a patch of what the receiver has, and becomes itself there.
//!
//! The receiver offers a file that stands where another is to come ([`Offers`]), and lists the pieces into
//! which its content cuts it. The sender finds those pieces in its own file ([`Lists`], [`Matcher`]), and a
//! chunk with many of them is sent as a patch: where they are, and the bytes in between. Those of a long
//! file are long; where one is not found the sender asks for short ones ([`FineAsk`]), ahead of what it
//! sends. A file whose size suggests it is compared in place ([`Cutting`]), until too little of it is where
//! it was: then the sender asks for what its content cuts, a window at a time. The receiver makes the chunk
//! of the patch and verifies it as every other, so a basis that changes and a name that misleads cost one
//! chunk sent whole, and nothing else.

mod answers;
mod asks;
mod basis;
mod choice;
mod cut;
mod earlier;
mod form;
mod gaps;
mod here;
mod in_place;
mod jobs;
mod list;
mod lists;
mod matcher;
mod means;
mod names;
mod offers;
mod patch;
mod pays;
mod pieces;
mod questions;
mod readable;
mod scout;
mod sparse;
mod table;
mod windows;

pub use answers::{FineJob, FinePieces};
pub use asks::{FineAnswer, FineAsk};
pub use cut::Average;
pub use form::{Cutting, ListForm, WireForm};
pub use here::SourcesHere;
pub use jobs::{BasisJob, Segment};
pub use list::{PieceList, SegmentWriter};
pub use lists::{Asker, ListPart, Lists, ListsGuard};
#[cfg(any(test, feature = "testing"))]
pub use names::MISLEADING;
pub use names::{NameKey, NameLen, PieceName};
pub use offers::Offers;
pub use pays::{Arrival, Follows, Pays};
pub(crate) use readable::Readable;

#[cfg(any(test, feature = "testing"))]
pub use patch::apply_any;

pub(crate) use basis::{basis_at, basis_in_place};
pub(crate) use earlier::EarlierVersion;
pub(crate) use lists::Coverage;
pub(crate) use matcher::{Known, Matcher};
pub(crate) use offers::{Basis, Held};
pub(crate) use patch::{Copied, Counts, Earlier, PatchBuilder, apply};

/// Smallest file, at both ends, of which a delta is made, bytes: the message with the list of its
/// pieces would be a quarter of a smaller one.
pub(crate) const FILE_MIN: u64 = 512;
/// A basis below this, bytes, is kept in memory, and not open.
pub(crate) const KEPT_FILE_MAX: u64 = 16 << 10;
/// What such a message has beside its pieces, and what one piece takes in it, bytes, about.
const LIST_HEAD: u64 = 100;
const LISTED_PIECE: u64 = 7;
/// The list of a basis is at most one part in this many of the file that is to come.
const LIST_DIVISOR: u64 = 4;

/// Whether the list of a basis of `basis` bytes is short beside a file of `file` bytes.
pub(crate) fn is_worth_listing(basis: u64, file: u64) -> bool {
    let pieces = basis >> Average::of_files(basis, file).log();
    let list = pieces.saturating_mul(LISTED_PIECE).saturating_add(LIST_HEAD);
    basis.min(file) >= FILE_MIN && list.saturating_mul(LIST_DIVISOR) <= file
}

#[cfg(test)]
mod tests;
