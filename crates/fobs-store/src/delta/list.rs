//! A part of the list of a basis, as bytes: for each piece its length and its name (protocol 7.9).

use super::cut::Average;
use super::names::PieceName;

/// A segment is complete once it is this long, bytes: as base64 it is far below a frame of the channel.
const SEGMENT_LEN: usize = 128 << 10;
/// Longest piece on the wire: a varint of 3 bytes, and the name.
const PIECE_LEN: usize = 3 + size_of::<PieceName>();

/// Collects pieces.
#[derive(Debug, Default)]
pub struct SegmentWriter {
    bytes: Vec<u8>,
}

impl SegmentWriter {
    /// Appends a piece.
    pub fn push(&mut self, len: usize, name: &PieceName) {
        // No piece is longer than 256 KiB.
        postcard::to_io(&(len as u32, name), &mut self.bytes).expect("writing to a Vec does not fail");
    }

    /// Whether the next piece belongs into another segment.
    pub fn is_full(&self) -> bool {
        self.bytes.len() + PIECE_LEN > SEGMENT_LEN
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
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
    longest: u32,
}

impl<'a> PieceList<'a> {
    /// Of pieces that are so long on average.
    pub fn new(bytes: &'a [u8], average: Average) -> PieceList<'a> {
        PieceList { rest: bytes, longest: average.longest() as u32 }
    }
}

impl Iterator for PieceList<'_> {
    type Item = Result<(u32, PieceName), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let piece = match postcard::take_from_bytes::<(u32, PieceName)>(self.rest) {
            Ok(((len, name), rest)) if (1..=self.longest).contains(&len) => {
                self.rest = rest;
                Ok((len, name))
            }
            Ok(_) => Err("a piece of a basis is empty or too long"),
            Err(_) => Err("a piece of a basis cannot be read"),
        };
        if piece.is_err() {
            self.rest = &[];
        }
        Some(piece)
    }
}
