//! A chunk's layout (protocol 7.1) and its digest (7.4): file data, records, trailer.

use blake3::Hasher;
use blake3::hazmat::ChainingValue;
use fobs_model::units as object;

use super::attributes::HOLES_MAX;
use super::record::Record;
use super::tree_hash::{GROUP, Tail};

/// Most file data in a chunk, bytes (protocol 1.3): large enough for disks and hashing, small enough that a
/// few chunks in flight are no memory worth speaking of.
pub const CHUNK_DATA_MAX: usize = object::CHUNK_DATA_MAX as usize;
/// Most records in a chunk, bytes (protocol 7.1).
pub const RECORDS_MAX: usize = object::RECORDS_MAX as usize;
/// The trailer, bytes: two lengths, flags, digest (protocol 7.1).
pub const TRAILER_LEN: usize = object::TRAILER_LEN as usize;
/// The longest chunk, bytes.
pub const CHUNK_LEN_MAX: usize = object::CHUNK_LEN_MAX as usize;

/// Room for a chunk with up to `data_max` bytes of file data, bytes.
pub const fn chunk_room(data_max: usize) -> usize {
    data_max + RECORDS_MAX + TRAILER_LEN
}

const _: () = assert!(chunk_room(CHUNK_DATA_MAX) == CHUNK_LEN_MAX);

/// Bit 0 of the trailer's flags: the body is zstd.
const FLAG_ZSTD: u32 = 1;
/// Bit 1: the body is a patch (protocol 7.9), perhaps within zstd. No other bit is defined.
const FLAG_PATCH: u32 = 2;

/// What a chunk's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Its data and its records.
    Whole,
    /// What makes them of files that the receiver has.
    Patch,
}

/// How a chunk's body is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Uncompressed.
    Plain,
    /// One zstd frame.
    Zstd,
}

/// The content of a trailer, its lengths checked against the limits and the chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// File data in the body, bytes; at most [`CHUNK_DATA_MAX`].
    pub data_len: usize,
    /// Records after it, bytes; at most [`RECORDS_MAX`].
    pub records_len: usize,
    /// How the body is stored.
    pub encoding: Encoding,
    /// What it is.
    pub form: Form,
    /// The expected digest of the chunk.
    pub digest: [u8; 32],
}

impl Layout {
    /// Reads a chunk's trailer: the layout, and the body as it is stored.
    pub fn decode(chunk: &[u8]) -> Result<(Layout, &[u8]), &'static str> {
        if chunk.len() > CHUNK_LEN_MAX {
            return Err("the chunk is too long");
        }
        let (body, trailer) =
            chunk.split_last_chunk::<TRAILER_LEN>().ok_or("the chunk is shorter than its trailer")?;
        let word =
            |at: usize| u32::from_le_bytes([trailer[at], trailer[at + 1], trailer[at + 2], trailer[at + 3]]);
        let mut digest = [0; 32];
        digest.copy_from_slice(&trailer[12..]);
        let flags = word(8);
        if flags & !(FLAG_ZSTD | FLAG_PATCH) != 0 {
            return Err("the chunk has flags that are not defined");
        }
        let encoding = if flags & FLAG_ZSTD != 0 { Encoding::Zstd } else { Encoding::Plain };
        let form = if flags & FLAG_PATCH != 0 { Form::Patch } else { Form::Whole };
        let (data_len, records_len) = (word(0) as usize, word(4) as usize);
        let layout = Layout { data_len, records_len, encoding, form, digest };
        if layout.data_len > CHUNK_DATA_MAX || layout.records_len > RECORDS_MAX {
            return Err("the chunk declares more than a chunk holds");
        }
        let is_as_it_is = encoding == Encoding::Plain && form == Form::Whole;
        if is_as_it_is && body.len() != layout.body_len() {
            return Err("the chunk is not as long as it declares");
        }
        if encoding == Encoding::Zstd && body.is_empty() {
            return Err("the chunk declares a compressed body and has none");
        }
        Ok((layout, body))
    }

    /// Writes the trailer behind a stored body of `body_len` bytes and returns the chunk's length.
    pub fn encode(&self, chunk: &mut [u8], body_len: usize) -> usize {
        let zstd = if self.encoding == Encoding::Zstd { FLAG_ZSTD } else { 0 };
        let patch = if self.form == Form::Patch { FLAG_PATCH } else { 0 };
        let flags = zstd | patch;
        let trailer = &mut chunk[body_len..body_len + TRAILER_LEN];
        // Both lengths are at most 4 MiB.
        trailer[..4].copy_from_slice(&(self.data_len as u32).to_le_bytes());
        trailer[4..8].copy_from_slice(&(self.records_len as u32).to_le_bytes());
        trailer[8..12].copy_from_slice(&flags.to_le_bytes());
        trailer[12..].copy_from_slice(&self.digest);
        body_len + TRAILER_LEN
    }

    /// Data and records, bytes.
    pub fn body_len(&self) -> usize {
        self.data_len + self.records_len
    }
}

/// A chunk's digest (protocol 7.4): over its lengths, its records and the values of all its extents in order.
pub fn digest(data_len: usize, records: &[u8], values: &[ChainingValue]) -> [u8; 32] {
    let mut hasher = Hasher::new();
    hasher.update(&(data_len as u32).to_le_bytes());
    hasher.update(&(records.len() as u32).to_le_bytes());
    hasher.update(records);
    hasher.update(values.as_flattened());
    *hasher.finalize().as_bytes()
}

/// A record and its part of the chunk's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// An extent and its data.
    Extent {
        /// Place in the current file, a multiple of [`GROUP`].
        offset: u64,
        /// Its bytes.
        data: &'a [u8],
        /// Whether the very next record is `End`.
        tail: Tail,
    },
    /// A hole: zeros that the chunk does not have.
    Hole {
        /// Place in the current file, a multiple of [`GROUP`].
        offset: u64,
        /// Bytes.
        len: u64,
        /// Whether the very next record is `End`.
        tail: Tail,
    },
    /// Any other record.
    Other(Record<'a>),
}

/// Reads a body from front to back, by the same rules for hashing and for storing. Ends after the first
/// error.
#[derive(Debug, Clone)]
pub struct Items<'a> {
    data: &'a [u8],
    records: &'a [u8],
    /// Bytes of holes so far.
    holes: u64,
}

impl<'a> Items<'a> {
    /// The items of a body of `data` and `records`.
    pub fn new(data: &'a [u8], records: &'a [u8]) -> Items<'a> {
        Items { data, records, holes: 0 }
    }

    fn read(&mut self) -> Result<Item<'a>, &'static str> {
        let (record, rest) = Record::decode(self.records)?;
        self.records = rest;
        let (offset, len) = match record {
            Record::Extent { offset, len } => (offset, u64::from(len)),
            Record::Hole { offset, len } => (offset, len),
            other => return Ok(Item::Other(other)),
        };
        let tail = match Record::decode(rest) {
            Ok((Record::End, _)) => Tail::EndsFile,
            _ => Tail::Continues,
        };
        if offset % GROUP != 0 || (tail == Tail::Continues && len % GROUP != 0) {
            return Err("an extent is not on the boundaries of its file's hash tree");
        }
        if let Record::Hole { .. } = record {
            self.holes = self.holes.saturating_add(len);
            return if self.holes <= HOLES_MAX {
                Ok(Item::Hole { offset, len, tail })
            } else {
                Err("the chunk has more zeros than a chunk may have")
            };
        }
        let (data, after) =
            self.data.split_at_checked(len as usize).ok_or("the records name more data than there is")?;
        self.data = after;
        Ok(Item::Extent { offset, data, tail })
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.records.is_empty() {
            let unclaimed = std::mem::take(&mut self.data);
            return (!unclaimed.is_empty()).then_some(Err("the chunk has data that no record names"));
        }
        let item = self.read();
        if item.is_err() {
            (self.data, self.records) = (&[], &[]);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_reads_back_as_written() {
        for (encoding, form) in [
            (Encoding::Plain, Form::Whole),
            (Encoding::Zstd, Form::Whole),
            (Encoding::Plain, Form::Patch),
            (Encoding::Zstd, Form::Patch),
        ] {
            let layout = Layout { data_len: 3, records_len: 2, encoding, form, digest: [9; 32] };
            let mut chunk = [0; 5 + TRAILER_LEN];
            assert_eq!(layout.encode(&mut chunk, 5), chunk.len());
            assert_eq!(Layout::decode(&chunk), Ok((layout, &[0; 5][..])));
        }
    }

    #[test]
    fn a_trailer_is_never_trusted() {
        let chunk_with = |data_len: u32, records_len: u32, flags: u32, body: usize| {
            let mut chunk = vec![0; body];
            chunk.extend_from_slice(&data_len.to_le_bytes());
            chunk.extend_from_slice(&records_len.to_le_bytes());
            chunk.extend_from_slice(&flags.to_le_bytes());
            chunk.extend_from_slice(&[0; 32]);
            Layout::decode(&chunk).map(|_| ())
        };
        assert!(chunk_with(10, 0, 0, 10).is_ok());
        assert!(chunk_with(10, 1, 0, 10).is_err());
        assert!(chunk_with(9, 0, 0, 10).is_err());
        assert!(chunk_with(u32::MAX, 11, 0, 10).is_err());
        assert!(chunk_with(CHUNK_DATA_MAX as u32 + 1, 0, 1, 10).is_err());
        assert!(chunk_with(0, RECORDS_MAX as u32 + 1, 1, 10).is_err());
        assert!(chunk_with(10, 0, 4, 10).is_err());
        assert!(chunk_with(9, 0, 2, 10).is_ok(), "a patch is of another length");
        assert!(chunk_with(0, 0, 0, CHUNK_LEN_MAX).is_err());
        assert!(Layout::decode(&[0; TRAILER_LEN - 1]).is_err());
    }

    #[test]
    fn extents_must_lie_on_their_file_s_tree() {
        let items = |records: &[Record<'_>], data: usize| {
            let mut bytes = Vec::new();
            records.iter().for_each(|record| record.encode(&mut bytes));
            Items::new(&vec![0; data], &bytes).collect::<Result<Vec<_>, _>>().map(|items| items.len())
        };
        let group = GROUP as u32;
        assert_eq!(items(&[Record::Extent { offset: 0, len: 5 }, Record::End], 5), Ok(2));
        assert_eq!(items(&[Record::Extent { offset: GROUP, len: group }], GROUP as usize), Ok(1));
        assert!(items(&[Record::Extent { offset: 0, len: 5 }], 5).is_err(), "does not end its file");
        assert!(items(&[Record::Extent { offset: 5, len: 5 }, Record::End], 5).is_err(), "odd offset");
        assert!(items(&[Record::Extent { offset: 0, len: 5 }, Record::End], 4).is_err(), "too little data");
        assert!(items(&[Record::Extent { offset: 0, len: 5 }, Record::End], 6).is_err(), "data left over");
        assert!(items(&[], 1).is_err(), "data without records");
        assert_eq!(items(&[], 0), Ok(0));
    }
}
