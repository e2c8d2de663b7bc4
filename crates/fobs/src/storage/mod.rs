//! Storage (protocol 7): files to chunks and chunks to files.
//!
//! [`Source`] walks the sources and fills chunks; [`verify`] verifies a received chunk, statelessly; [`Sink`]
//! stores verified chunks in order. It uses no packets, sessions or threads.

mod anchor;
mod at;
mod attributes;
mod backups;
mod basis;
mod beneath;
mod chunk;
mod compression;
mod destination;
mod expand;
pub mod filter;
mod identity;
mod journal;
mod leftovers;
pub(crate) mod names;
mod names_from;
mod open_file;
mod own;
mod path;
pub mod pieces;
pub(crate) mod record;
mod scratch;
#[cfg(any(test, feature = "hostile"))]
mod seal;
mod select;
mod sink;
mod source;
pub mod survey;
mod temporary;
pub(crate) mod transfer_root;
mod tree;
mod tree_hash;
mod trusted;
mod verify;
mod view;
mod walk;

#[cfg(test)]
mod tests;

pub(crate) use anchor::{Purpose, anchor};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use attributes::Attributes;
pub use beneath::{Base, Links};
#[cfg(test)]
pub(crate) use chunk::CHUNK_DATA_MAX;
pub use chunk::CHUNK_LEN_MAX;
pub use expand::expand_here;
pub(crate) use expand::{Expanded, at_home, expand, may_stand_for, needs_expansion};
#[cfg(test)]
pub(crate) use identity::Identity;
#[cfg(test)]
pub(crate) use journal::Adoption;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use journal::load_any as load_any_journal;
pub use journal::{Asked, Partial, Suspended, TakeoverWatch, TransferId, client_id};
pub(crate) use leftovers::search;
pub use leftovers::{Fate, Leftover, LeftoverKind};
pub use path::show as show_path;
#[cfg(test)]
pub(crate) use record::UNKNOWN_KIND;
pub(crate) use scratch::scratch_file;
#[cfg(any(test, feature = "hostile"))]
pub(crate) use seal::{open_chunk, seal};
pub use select::filter_of;
pub use sink::{Closing, Later, Sink, SinkEvent, SinkSpec, SinkSummary, top_names};
pub(crate) use source::changed;
pub use source::{FilledChunk, Known, Part, Removal, Source, SourceShape, SourceSpec, StartOverReason};
pub use trusted::{create_named, open_named};
pub use verify::{Verified, VerifyError, needs_scratch, verify};
pub(crate) use walk::means_contents;
pub use walk::{same_name, shape_of};

/// An entry of a sync and what changes about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Path within the transfer, raw bytes.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: survey::ItemKind,
    /// What changes.
    pub changes: survey::Changes,
    /// Of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// A file that was read to its end, or stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDone {
    /// Path within the transfer, raw bytes.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of the content.
    pub root: [u8; 32],
}
