//! A part of the list of a basis, as bytes: for each piece its length, where lengths differ, and its name
//! (protocol 7.9).

use super::form::{Cutting, ListForm};
use super::names::PieceName;

/// A segment is complete once it is this long, bytes: as base64 it is far below a frame of the channel.
const SEGMENT_LEN: usize = 128 << 10;
/// Longest piece on the wire: a varint of 3 bytes, and the name.
const PIECE_LEN: usize = 3 + size_of::<PieceName>();

/// Collects pieces.
#[derive(Debug)]
pub struct SegmentWriter {
    form: ListForm,
    bytes: Vec<u8>,
}

impl SegmentWriter {
    /// Of this form.
    pub fn new(form: ListForm) -> SegmentWriter {
        SegmentWriter { form, bytes: Vec::new() }
    }

    /// Appends a piece.
    pub fn push(&mut self, len: usize, name: PieceName) {
        if self.form.cutting == Cutting::ByContent {
            // No piece is longer than a MiB.
            postcard::to_io(&(len as u32), &mut self.bytes).expect("writing to a Vec does not fail");
        }
        self.bytes.extend_from_slice(&name.to_le_bytes()[..usize::from(self.form.names.bytes())]);
    }

    /// Whether the next piece belongs into another segment.
    pub fn is_full(&self) -> bool {
        self.bytes.len() + PIECE_LEN > SEGMENT_LEN
    }

    /// The segment as it is sent; this one is empty afterwards.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Reads a segment from a peer, piece by piece; ends after the first error.
#[derive(Debug, Clone)]
pub struct PieceList<'a> {
    rest: &'a [u8],
    form: ListForm,
}

impl<'a> PieceList<'a> {
    /// Of this form.
    pub fn new(bytes: &'a [u8], form: ListForm) -> PieceList<'a> {
        PieceList { rest: bytes, form }
    }

    fn piece(&mut self) -> Result<(u32, PieceName), &'static str> {
        let unreadable = "a piece of a basis cannot be read";
        // No piece is longer than a MiB.
        let longest = self.form.longest() as u32;
        let (len, rest) = match self.form.cutting {
            Cutting::ByContent => postcard::take_from_bytes::<u32>(self.rest).map_err(|_| unreadable)?,
            Cutting::InPlace => (longest, self.rest),
        };
        let (listed, rest) = rest.split_at_checked(usize::from(self.form.names.bytes())).ok_or(unreadable)?;
        let mut name = [0; size_of::<PieceName>()];
        name[..listed.len()].copy_from_slice(listed);
        if !(1..=longest).contains(&len) {
            return Err("a piece of a basis is empty or too long");
        }
        self.rest = rest;
        Ok((len, PieceName::from_le_bytes(name)))
    }
}

impl Iterator for PieceList<'_> {
    type Item = Result<(u32, PieceName), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let piece = self.piece();
        if piece.is_err() {
            self.rest = &[];
        }
        Some(piece)
    }
}
