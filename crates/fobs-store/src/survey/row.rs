//! A row of a listing, and a batch of rows as bytes (protocol 7.8): postcard, then zstd.

use serde::{Deserialize, Serialize};
use zstd::bulk::{Compressor, Decompressor};

use crate::attributes::Attributes;
use crate::identity::Identity;
use crate::record::{Device, Meta, NANOSECONDS, SpecialKind};
use fobs_filter::path;
use fobs_filter::path::PATH_LEN_MAX;
use fobs_model::error::{Error, ErrorKind};

/// Most rows in a batch (protocol 7.8): a batch is hundreds of entries a system call each, and is answered as
/// a whole.
pub const BATCH_ROWS_MAX: usize = 2048;
/// A batch is complete once it is this long, bytes before compression.
pub const BATCH_LEN: usize = 128 << 10;
/// Longest batch, bytes before compression: a complete one, and one more row with all its attributes.
const BATCH_LEN_MAX: usize = 512 << 10;
/// zstd's fastest standard level: paths that repeat shrink tenfold, and the walk must not wait for it.
const LEVEL: i32 = 1;

/// An entry of the sources, as the sender lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Path within the transfer, raw bytes.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// What it is.
    pub kind: RowKind,
    /// Mode and modification time.
    pub meta: Meta,
    /// What identifies its content; of a file only.
    pub identity: Identity,
    /// What is kept of it beside mode and time, if anything.
    pub attributes: Option<Attributes>,
    /// BLAKE3 of a file's content, where both sides compare contents.
    pub checksum: Option<[u8; 32]>,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowKind {
    /// A directory begins. Always in the object.
    Directory,
    /// A directory is complete. Always in the object.
    DirectoryEnd,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink {
        /// Its target.
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    /// One more name of a file that was listed before.
    Hardlink {
        /// Path within the transfer of the first name.
        #[serde(with = "serde_bytes")]
        first: Vec<u8>,
    },
    /// Something that the walk could not read; the object says why.
    Failed,
    /// A device, fifo or socket.
    Special {
        /// What it is.
        kind: SpecialKind,
        /// Which device.
        device: Device,
    },
    /// A directory is complete in the object, and the listing has not all that is in it: what else the
    /// destination has there stays. Only for a receiver with the feature "parts".
    PartEnd,
    /// A name that was asked for does not exist at the source and is to be deleted (`--delete-missing-args`).
    Missing,
}

impl Row {
    /// The rules for a row by itself, checked by both sides.
    fn check(&self) -> Result<(), &'static str> {
        path::check(&self.path)?;
        if self.meta.mtime_ns >= NANOSECONDS || self.identity.mtime_ns >= NANOSECONDS {
            return Err("a modification time has more than 999,999,999 nanoseconds");
        }
        if self.identity.size > i64::MAX as u64 {
            return Err("a file is longer than a file can be");
        }
        self.attributes.as_ref().map_or(Ok(()), Attributes::check)?;
        match &self.kind {
            RowKind::Directory | RowKind::DirectoryEnd | RowKind::PartEnd | RowKind::Failed => Ok(()),
            _ if self.path.is_empty() => Err("a file or link has no name"),
            RowKind::File | RowKind::Special { .. } | RowKind::Missing => Ok(()),
            RowKind::Symlink { target } => match target.len() {
                1..=PATH_LEN_MAX if !target.contains(&0) => Ok(()),
                _ => Err("a symbolic link's target is empty, too long or has a NUL byte in it"),
            },
            RowKind::Hardlink { first } if first.is_empty() => Err("a hard link leads nowhere"),
            RowKind::Hardlink { first } => path::check(first),
        }
    }
}

/// Collects the rows of a batch.
#[derive(Debug, Default)]
pub struct BatchWriter {
    bytes: Vec<u8>,
    rows: usize,
}

impl BatchWriter {
    /// Appends a row. The sender's own rows always pass their check.
    pub fn push(&mut self, row: &Row) {
        debug_assert_eq!(row.check(), Ok(()), "{row:?}");
        postcard::to_io(row, &mut self.bytes).expect("writing to a Vec does not fail");
        self.rows += 1;
    }

    /// Rows so far.
    #[cfg(any(test, feature = "testing"))]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the next row belongs into another batch.
    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS_MAX || self.bytes.len() >= BATCH_LEN
    }

    /// The batch as it is sent; this one is empty afterwards.
    pub fn finish(&mut self) -> Result<Vec<u8>, Error> {
        let compressed = Compressor::new(LEVEL).and_then(|mut zstd| zstd.compress(&self.bytes));
        self.bytes.clear();
        self.rows = 0;
        compressed.map_err(|error| {
            Error::new(ErrorKind::Internal, format!("cannot compress a listing: {error}; report this bug"))
        })
    }
}

/// Reads a batch from a peer; allocates at most 512 KiB and what its rows hold.
///
/// # Errors
/// One sentence's part: it is no batch, or one of its rows breaks a rule.
pub fn decode_batch(bytes: &[u8]) -> Result<Vec<Row>, &'static str> {
    let mut unpacked = Vec::new();
    unpacked.try_reserve_exact(BATCH_LEN_MAX).map_err(|_| "there is no memory left for a batch")?;
    Decompressor::new()
        .and_then(|mut zstd| zstd.decompress_to_buffer(bytes, &mut unpacked))
        .map_err(|_| "a batch cannot be unpacked, or is too long")?;
    let mut rows = Vec::new();
    let mut rest = &unpacked[..];
    while !rest.is_empty() {
        if rows.len() == BATCH_ROWS_MAX {
            return Err("a batch has more than 2048 rows");
        }
        let (row, after) = postcard::take_from_bytes::<Row>(rest).map_err(|_| "a row cannot be read")?;
        row.check()?;
        rows.push(row);
        rest = after;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDENTITY: Identity = Identity { size: 7, mtime_s: -1, mtime_ns: 5, inode: 9 };

    fn row(path: &[u8], kind: RowKind) -> Row {
        let (path, meta) = (path.to_vec(), Meta::default());
        Row { path, kind, meta, identity: IDENTITY, attributes: None, checksum: Some([3; 32]) }
    }

    fn packed(rows: &[Row]) -> Vec<u8> {
        let bytes: Vec<u8> = rows.iter().flat_map(|row| postcard::to_allocvec(row).expect("a row")).collect();
        zstd::bulk::compress(&bytes, LEVEL).expect("zstd works")
    }

    #[test]
    fn a_batch_reads_back_as_written() {
        let rows = [
            row(b"", RowKind::Directory),
            row(b"d/\xff", RowKind::File),
            row(b"l", RowKind::Symlink { target: b"../x".to_vec() }),
            row(b"h", RowKind::Hardlink { first: b"d/\xff".to_vec() }),
            row(b"gone", RowKind::Failed),
            row(b"d", RowKind::PartEnd),
            row(b"", RowKind::DirectoryEnd),
        ];
        let mut batch = BatchWriter::default();
        rows.iter().for_each(|row| batch.push(row));
        assert_eq!(batch.rows(), rows.len());
        let bytes = batch.finish().expect("it is compressed");
        assert_eq!(decode_batch(&bytes).as_deref(), Ok(&rows[..]));
        assert_eq!(decode_batch(&batch.finish().expect("an empty one")), Ok(Vec::new()));
    }

    #[test]
    fn a_batch_is_full_by_rows_or_by_bytes() {
        let mut batch = BatchWriter::default();
        let long = row(&[b'p'; 4000], RowKind::File);
        while !batch.is_full() {
            batch.push(&long);
        }
        assert_eq!(batch.rows(), BATCH_LEN.div_ceil(batch.bytes.len() / batch.rows()));
        let mut batch = BatchWriter::default();
        while !batch.is_full() {
            batch.push(&row(b"s", RowKind::File));
        }
        assert_eq!(batch.rows(), BATCH_ROWS_MAX.min(batch.rows()));
    }

    #[test]
    fn rows_out_of_bounds_are_refused() {
        let symlink = |target: &[u8]| RowKind::Symlink { target: target.to_vec() };
        let odd_time = Identity { mtime_ns: NANOSECONDS, ..IDENTITY };
        for bad in [
            row(b"", RowKind::File),
            row(b"../x", RowKind::Directory),
            row(b"a\0", RowKind::File),
            row(b"a", symlink(b"")),
            row(b"a", symlink(b"b\0")),
            row(b"a", RowKind::Hardlink { first: b"/x".to_vec() }),
            row(b"a", RowKind::Hardlink { first: Vec::new() }),
            Row { identity: odd_time, ..row(b"a", RowKind::File) },
            Row { identity: Identity { size: 1 << 63, ..IDENTITY }, ..row(b"a", RowKind::File) },
        ] {
            assert!(decode_batch(&packed(std::slice::from_ref(&bad))).is_err(), "{bad:?}");
        }
        let many = vec![row(b"a", RowKind::File); BATCH_ROWS_MAX + 1];
        assert!(decode_batch(&packed(&many)).is_err());
    }

    #[test]
    fn a_bomb_ends_at_the_longest_batch() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).expect("zstd works");
        assert!(decode_batch(&bomb).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_batch_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_batch(&bytes);
            let packed = zstd::bulk::compress(&bytes, LEVEL).expect("zstd works");
            if let Ok(rows) = decode_batch(&packed) {
                prop_assert!(rows.iter().all(|row| row.check().is_ok()));
            }
        }
    }
}
