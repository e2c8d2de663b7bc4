//! Storage (protocol 7): files to chunks and chunks to files.
//!
//! [`Source`] walks the sources and fills chunks; [`verify`] verifies a received chunk, statelessly; [`Sink`]
//! stores verified chunks in order. [`survey`] compares what both ends have, so that a source leaves out what
//! is there.
//!
//! A byte is read into a chunk's buffer, hashed in place, and leaves with the records of its file and a
//! trailer. At the other end [`verify`] compares the hash; the sink writes the byte into a file under a
//! temporary name and notes in a journal how far that is complete. The file gets its name at its last record.
//! What a name leads to is decided by the kernel below an open directory (`at`, `beneath`), never by a path
//! as text.
//!
//! ```text
//!   walk, tree, view   what is there; names, pieces, expand answer requests about it
//!   source, seal       entries to chunks; record is a line about one, chunk their layout
//!   delta              chunks as patches of what the receiver has
//!   survey             rows, choices, and the rules between them; extraneous is what a deletion finds
//!   requested          which names may come at all; clearance which of them the survey allowed
//!   verify, sink       chunks to files; destination, basis, backups, open_file, temporary are its parts
//!   journal            what is complete, who holds the lock; clean, leftovers find what no transfer uses
//!   attributes         owners, xattrs, ACLs, links, devices, holes
//!   at, beneath        the calls that take a name, below a directory that is open
//!   anchor             which directory a right is tied to
//! ```
//!
//! It must not know packets, sessions or threads, but for the one that has the device keep a journal's data.

#![forbid(unsafe_code)]

pub mod anchor;
mod at;
mod attributes;
mod backups;
mod basis;
mod beneath;
mod charset;
mod chunk;
pub mod clean;
mod clearance;
mod compression;
pub mod delta;
mod destination;
mod dirlinks;
mod errno;
pub mod expand;
mod extraneous;
#[cfg(test)]
mod faults;
mod held;
mod identity;
mod input;
mod journal;
mod keep;
mod leftovers;
mod looked;
pub mod names;
mod of_last;
mod open_file;
mod own;
pub mod pieces;
mod prefix;
pub mod record;
#[cfg(test)]
mod recorder;
mod requested;
mod run_as;
mod scratch;
#[cfg(any(test, feature = "testing"))]
pub mod seal;
mod select;
mod sink;
mod source;
mod stamp;
mod stat;
mod stretch;
pub mod survey;
mod temporary;
pub mod transfer_root;
mod tree;
mod tree_hash;
mod uncached;
mod verify;
mod view;
mod walk;

#[cfg(test)]
mod tests;

pub use anchor::{Purpose, anchor};
pub use attributes::Attributes;
pub use beneath::{Base, Links};
pub use charset::{NameCharsets, convert_names};
pub use chunk::{CHUNK_DATA_MAX, CHUNK_LEN_MAX, chunk_room};
pub use delta::SourcesHere;
pub use destination::{Above, SpecialThere};
pub use expand::{
    Expanded, at_home, expand, expand_here, expand_one, matches_component, may_stand_for, needs_expansion,
};
pub use extraneous::{Deleted, Found};
pub use fobs_model::event::FileDone;
pub use fobs_model::text::show as show_path;
pub use identity::Identity;
#[cfg(any(test, feature = "testing"))]
pub use identity::source_identity;
#[cfg(any(test, feature = "testing"))]
pub use journal::load_any as load_any_journal;
pub use journal::{Adoption, Asked, Partial, Suspended, TakeoverWatch, TransferId, client_id};
pub(crate) use leftovers::search;
pub use leftovers::{Fate, Leftover, LeftoverKind};
pub use looked::Looked;
pub use record::UNKNOWN_KIND;
pub use run_as::{Account, become_user, run_as};
pub use scratch::scratch_file;
#[cfg(any(test, feature = "testing"))]
pub use seal::{open_chunk, seal};
pub use select::{filter_of, xattr_rules};
pub use sink::{
    Apart, Begun, Closing, Later, Sink, SinkEvent, SinkSpec, SinkSummary, WrittenApart, top_names,
};
pub use source::{
    EarlierFiles, FilledChunk, Known, More, NoneThere, Part, Patch, PipeInput, Remembered, Removal,
    SentVersion, SentVersions, Source, SourceShape, SourceSpec, StartOverReason, VersionPlace, changed,
    stretch_len,
};
pub use stretch::{ReadStretch, Stretch};
pub use uncached::{LargeFiles, passes_cache, try_large_file};
pub use verify::{Verified, VerifyError, is_patch, needs_scratch, verify, verify_with};
pub use walk::{SourcePlaces, means_contents, same_name, shape_of};

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
    /// What it is at the source.
    pub facts: fobs_model::event::EntryFacts,
}
