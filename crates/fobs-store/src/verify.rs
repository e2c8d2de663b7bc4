//! Verification of a received chunk: stateless, so that chunks are verified out of order and in parallel.

use blake3::hazmat::ChainingValue;
use thiserror::Error;
use zstd::bulk::Decompressor;

use super::attributes::hash_hole;
use super::chunk::{CHUNK_LEN_MAX, Encoding, Form, Item, Items, Layout, digest};
use super::delta::{Copied, Offers, apply};
use super::record::UNKNOWN_KIND;
use super::tree_hash::hash_extent;
use fobs_model::deltas::Matched;

/// Why a chunk is `rejected` (protocol 7.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// It is well formed and has another digest.
    #[error("the chunk's content does not match its digest")]
    Mismatch,
    /// It is not a chunk.
    #[error("the chunk is malformed: {0}")]
    Malformed(&'static str),
}

impl VerifyError {
    /// Whether sending the chunk again cannot help: its sender is of a newer version.
    pub fn is_of_another_version(self) -> bool {
        self == VerifyError::Malformed(UNKNOWN_KIND)
    }
}

impl From<&'static str> for VerifyError {
    fn from(what: &'static str) -> Self {
        VerifyError::Malformed(what)
    }
}

/// Proof that a chunk is what its sender made, with the hashes that the sink continues with: no byte is
/// hashed twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub(super) layout: Layout,
    /// The values of all extents' pieces, in order.
    pub(super) values: Vec<ChainingValue>,
    /// Bytes of holes.
    holes: u64,
    /// Bytes that came from what the receiver has.
    matched: Matched,
    /// Where.
    pub(super) copied: Vec<Copied>,
}

impl Verified {
    /// File data in the chunk, bytes, holes among them.
    pub fn data_bytes(&self) -> u64 {
        self.layout.data_len as u64 + self.holes
    }

    /// Those of them that came from what the receiver has.
    pub fn copied_bytes(&self) -> u64 {
        self.matched.total()
    }

    /// Likewise, by the file that they came from.
    pub fn matched(&self) -> &Matched {
        &self.matched
    }

    /// The chunk's body, data and records, from the chunk or from the scratch that it was verified with.
    pub(super) fn body<'a>(&self, chunk: &'a [u8], scratch: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let body = match (self.layout.encoding, self.layout.form) {
            (Encoding::Plain, Form::Whole) => chunk,
            _ => scratch,
        };
        Some(body.get(..self.layout.body_len())?.split_at(self.layout.data_len))
    }
}

/// Checks a chunk independently of the others, hashes its extents and compares the digest. A compressed body
/// is unpacked into `scratch`, which is at most as long as a chunk and is needed, with the chunk, for
/// [`Sink::apply`](super::Sink::apply). A patch is none of anything.
pub fn verify(chunk: &[u8], scratch: &mut Vec<u8>) -> Result<Verified, VerifyError> {
    verify_with(chunk, scratch, None)
}

/// The same, of a chunk that may be a patch of what is offered.
pub fn verify_with(
    chunk: &[u8],
    scratch: &mut Vec<u8>,
    offers: Option<&Offers>,
) -> Result<Verified, VerifyError> {
    let (layout, stored) = Layout::decode(chunk)?;
    let (mut copied, mut unpacked) = (Vec::new(), Vec::new());
    let body = match (layout.encoding, layout.form) {
        (Encoding::Plain, Form::Whole) => stored,
        (Encoding::Zstd, Form::Whole) => decompress(stored, layout.body_len(), scratch)?,
        (encoding, Form::Patch) => {
            let patch = match encoding {
                Encoding::Plain => stored,
                Encoding::Zstd => decompress_any(stored, &mut unpacked)?,
            };
            let basis = |row| Some(offers?.basis(row)?.bytes());
            copied = apply(patch, (layout.data_len, layout.records_len), scratch, &basis)?;
            &scratch[..layout.body_len()]
        }
    };
    let (data, records) = body.split_at(layout.data_len);
    let (mut values, mut holes) = (Vec::new(), 0);
    for item in Items::new(data, records) {
        match item? {
            Item::Extent { offset, data, tail } => hash_extent(data, offset, tail, &mut values),
            Item::Hole { offset, len, tail } => {
                hash_hole(offset, len, tail, &mut values);
                holes += len;
            }
            Item::Other(_) => {}
        }
    }
    if digest(layout.data_len, records, &values) == layout.digest {
        let mut matched = Matched::default();
        if let Some(offers) = offers {
            copied.iter().for_each(|it| matched.add(offers.used(it.row, it.matched), it.matched));
        }
        Ok(Verified { layout, values, holes, matched, copied })
    } else {
        Err(VerifyError::Mismatch)
    }
}

/// Whether [`verify`] would unpack this chunk into its scratch.
pub fn needs_scratch(chunk: &[u8]) -> bool {
    Layout::decode(chunk)
        .is_ok_and(|(layout, _)| layout.encoding == Encoding::Zstd || layout.form == Form::Patch)
}

/// Whether it is a patch, so that its whole chunk is worth another try.
pub fn is_patch(chunk: &[u8]) -> bool {
    Layout::decode(chunk).is_ok_and(|(layout, _)| layout.form == Form::Patch)
}

/// Unpacks a patch, of at most a chunk's length, which does not say how long it is.
fn decompress_any<'a>(stored: &[u8], unpacked: &'a mut Vec<u8>) -> Result<&'a [u8], VerifyError> {
    let no_memory = VerifyError::Malformed("there is no memory left to unpack a patch");
    unpacked.try_reserve_exact(CHUNK_LEN_MAX).map_err(|_| no_memory)?;
    Decompressor::new()
        .and_then(|mut zstd| zstd.decompress_to_buffer(stored, unpacked))
        .map_err(|_| VerifyError::Malformed("a compressed patch cannot be unpacked, or is too long"))?;
    Ok(unpacked)
}

/// Unpacks exactly `len` bytes (at most a chunk's body) to the front of `scratch`.
fn decompress<'a>(stored: &[u8], len: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], VerifyError> {
    // Grown once and reused: zeroing it for every chunk would cost as much as a copy.
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    let body = &mut scratch[..len];
    // In one call into a buffer of the declared size: zstd allocates no window, and a bomb fails at the
    // buffer's end.
    let unpacked = Decompressor::new().and_then(|mut zstd| zstd.decompress_to_buffer(stored, body));
    match unpacked {
        Ok(unpacked) if unpacked == len => Ok(body),
        Ok(_) => Err(VerifyError::Malformed("the compressed body is shorter than declared")),
        Err(_) => {
            Err(VerifyError::Malformed("the compressed body cannot be unpacked to the declared length"))
        }
    }
}
