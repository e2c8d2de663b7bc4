//! Storage (protocol 7): files to chunks and chunks to files.
//!
//! [`Source`] walks the sources and fills chunks; [`verify`] verifies a received chunk, statelessly; [`Sink`]
//! stores verified chunks in order. It uses no packets, sessions or threads.

mod beneath;
mod chunk;
mod compression;
mod destination;
mod open_file;
mod path;
mod record;
mod sink;
mod source;
mod temporary;
mod transfer_root;
mod tree;
mod tree_hash;
mod verify;
mod walk;

#[cfg(test)]
mod tests;

pub use beneath::{Base, Links};
#[cfg(test)]
pub(crate) use chunk::CHUNK_DATA_MAX;
pub use chunk::CHUNK_LEN_MAX;
pub use path::show as show_path;
pub use sink::{Sink, SinkEvent, SinkSpec, SinkSummary};
pub use source::{FilledChunk, Known, Source, SourceShape, SourceSpec};
pub use verify::{Verified, VerifyError, needs_scratch, verify};
pub use walk::same_name;

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
