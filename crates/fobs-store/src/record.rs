//! The records of a chunk (protocol 7.2), which describe the chunk's data.

use serde::{Deserialize, Serialize};

use super::attributes::{ATTRIBUTES_LEN_MAX, Attributes};
pub use super::stat::{Device, Meta, NANOSECONDS};
use super::tree_hash::GROUP;
use fobs_filter::path;
use fobs_filter::path::PATH_LEN_MAX;
use fobs_model::error::{Error, ErrorKind};
pub use fobs_model::special::SpecialKind;

/// Longest reason in a `Failed` record, bytes; the sender truncates longer ones.
pub const REASON_LEN_MAX: usize = 4096;
/// Longest record but `Attributes`, bytes: two paths (or a path and a reason) and some varints.
pub const RECORD_LEN_MAX: usize = 2 * PATH_LEN_MAX + 128;
/// Longest `Attributes` record, bytes: the variant, the length and the attributes.
pub const ATTRIBUTES_RECORD_LEN_MAX: usize = ATTRIBUTES_LEN_MAX + 16;
/// Longest file, bytes: the kernel's `off_t`.
const FILE_LEN_MAX: u64 = i64::MAX as u64;
/// Kinds of records, numbered from 0 in the order of [`Record`].
const KINDS: u8 = 13;
/// What is wrong with a record of a newer version. Only with a feature that both sides have may one come.
pub const UNKNOWN_KIND: &str = "it has a record of a kind that this version does not know";
/// The sender violated the protocol.
pub(crate) fn protocol(what: &str) -> Error {
    let message =
        format!("the sender's records make no sense: {what}; use the same version of fobs on both sides");
    Error::new(ErrorKind::Protocol, message)
}

/// One record. Paths are borrowed from the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record<'a> {
    /// A directory begins; later records may be in it.
    Directory {
        /// Path within the transfer.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
    },
    /// The directory is complete.
    DirectoryEnd {
        /// Path within the transfer.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        /// Its mode and time.
        meta: Meta,
    },
    /// A symbolic link.
    Symlink {
        /// Path within the transfer.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        /// Its target: stored, never followed.
        #[serde(borrow, with = "serde_bytes")]
        target: &'a [u8],
        /// Its time.
        meta: Meta,
    },
    /// A file begins: the *current file* until `End` or `Failed`.
    File {
        /// Path within the transfer.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        /// Its mode and time.
        meta: Meta,
        /// Size when it was opened, bytes; a hint, 0 if unknown.
        size: u64,
    },
    /// The next `len` bytes of the chunk's data are the current file from `offset` on.
    Extent {
        /// Place in the file, bytes.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// The current file is complete.
    End,
    /// The sender failed to read this path, which may be the current file.
    Failed {
        /// Path within the transfer.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        /// One sentence.
        #[serde(borrow)]
        reason: &'a str,
    },
    /// A file begins, like `File`, of which the receiver has the first `from` bytes already.
    Resume {
        /// Path within the transfer.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        /// Its mode and time.
        meta: Meta,
        /// Size when it was opened, bytes.
        size: u64,
        /// Where it goes on, bytes: above 0, a multiple of `GROUP`.
        from: u64,
    },
    /// What the next record's entry has beside its mode and time. That record is in the same chunk and is a
    /// `File`, `Resume`, `DirectoryEnd`, `Symlink` or `Special`.
    Attributes {
        /// `Attributes`, encoded.
        #[serde(borrow, with = "serde_bytes")]
        attributes: &'a [u8],
    },
    /// One more name of a file of this transfer.
    Hardlink {
        /// Path within the transfer.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        /// Path within the transfer of a name that was sent before.
        #[serde(borrow, with = "serde_bytes")]
        target: &'a [u8],
    },
    /// A device, fifo or socket.
    Special {
        /// Path within the transfer.
        #[serde(borrow, with = "serde_bytes")]
        path: &'a [u8],
        /// What it is.
        kind: SpecialKind,
        /// Which device.
        device: Device,
        /// Its mode and time.
        meta: Meta,
    },
    /// `len` bytes of the current file from `offset` on are zeros: hashed by both sides, not sent.
    Hole {
        /// Place in the file, bytes: a multiple of `GROUP`.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// What identifies the content of the file that the next `File` or `Resume` begins, with its size.
    Identity {
        /// Modification time, seconds since 1970.
        mtime_s: i64,
        /// Nanoseconds of the modification time.
        mtime_ns: u32,
        /// Inode number.
        inode: u64,
    },
}

impl<'a> Record<'a> {
    /// Appends the record. The sender's own records always pass its check.
    pub fn encode(&self, to: &mut Vec<u8>) {
        debug_assert_eq!(self.check(), Ok(()), "{self:?}");
        postcard::to_io(self, to).expect("writing to a Vec does not fail");
    }

    /// Splits the first record off `bytes`. Returns it and the rest.
    pub fn decode(bytes: &'a [u8]) -> Result<(Record<'a>, &'a [u8]), &'static str> {
        // One byte of a varint, if it is below 128.
        if bytes.first().is_some_and(|kind| *kind >= KINDS) {
            return Err(UNKNOWN_KIND);
        }
        let (record, rest) =
            postcard::take_from_bytes::<Record<'a>>(bytes).map_err(|_| "a record cannot be read")?;
        record.check()?;
        Ok((record, rest))
    }

    /// The rules for a record by itself, checked by both sides.
    fn check(&self) -> Result<(), &'static str> {
        match *self {
            Record::Directory { path } => path::check(path),
            Record::DirectoryEnd { path, meta } => path::check(path).and(meta.check()),
            Record::Symlink { path, target, meta } => {
                if target.is_empty() || target.len() > PATH_LEN_MAX || target.contains(&0) {
                    return Err("a symbolic link's target is empty, too long or has a NUL byte in it");
                }
                named(path).and(meta.check())
            }
            Record::File { path, meta, .. } => named(path).and(meta.check()),
            Record::Extent { offset, len } => stretch(offset, u64::from(len)),
            Record::End => Ok(()),
            Record::Failed { path, reason } if reason.len() <= REASON_LEN_MAX => path::check(path),
            Record::Failed { .. } => Err("a reason is longer than 4096 bytes"),
            Record::Resume { path, meta, from, .. } => {
                if from == 0 || from > FILE_LEN_MAX || !from.is_multiple_of(GROUP) {
                    return Err("a file goes on at a place where it cannot");
                }
                named(path).and(meta.check())
            }
            Record::Attributes { attributes } => Attributes::decode(attributes).map(|_| ()),
            Record::Hardlink { path, target } => named(path).and(named(target)),
            Record::Special { path, kind, device, meta } => {
                if !kind.is_device() && device != Device::default() {
                    return Err("a fifo or socket has a device's number");
                }
                named(path).and(meta.check())
            }
            Record::Hole { offset, .. } if !offset.is_multiple_of(GROUP) => {
                Err("a hole is not on the boundaries of its file's hash tree")
            }
            Record::Hole { offset, len } => stretch(offset, len),
            Record::Identity { mtime_s, mtime_ns, .. } => Meta { mode: 0, mtime_s, mtime_ns }.check(),
        }
    }
}

/// The rule for a part of a file.
fn stretch(offset: u64, len: u64) -> Result<(), &'static str> {
    match offset.checked_add(len) {
        Some(end) if len > 0 && end <= FILE_LEN_MAX => Ok(()),
        _ => Err("a part of a file is empty or ends beyond what a file can hold"),
    }
}

impl Meta {
    fn check(&self) -> Result<(), &'static str> {
        if self.mtime_ns < NANOSECONDS {
            Ok(())
        } else {
            Err("a modification time has more than 999,999,999 nanoseconds")
        }
    }
}

/// All but directories have a name: their path is not empty.
fn named(path: &[u8]) -> Result<(), &'static str> {
    if path.is_empty() { Err("a file or link has no name") } else { path::check(path) }
}

/// `reason`, truncated to the longest that a record holds.
pub fn bounded_reason(reason: &str) -> &str {
    let mut end = reason.len().min(REASON_LEN_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::attributes::Xattr;
    use super::super::chunk::RECORDS_MAX;
    use super::*;

    fn decode_error(record: &Record<'_>) -> &'static str {
        // Not `encode`: it asserts that the record is good.
        let bytes = postcard::to_allocvec(record).expect("a record can be encoded");
        Record::decode(&bytes).expect_err("this record is bad")
    }

    #[test]
    fn the_longest_records_fit_their_bound() {
        let path = [b'p'; PATH_LEN_MAX];
        let reason = "r".repeat(REASON_LEN_MAX);
        let meta = Meta { mode: u32::MAX, mtime_s: i64::MIN, mtime_ns: NANOSECONDS - 1 };
        let device = Device { major: u32::MAX, minor: u32::MAX };
        for record in [
            Record::Symlink { path: &path, target: &path, meta },
            Record::Failed { path: &path, reason: &reason },
            Record::File { path: &path, meta, size: u64::MAX },
            Record::Resume { path: &path, meta, size: u64::MAX, from: FILE_LEN_MAX / GROUP * GROUP },
            Record::Hardlink { path: &path, target: &path },
            Record::Special { path: &path, kind: SpecialKind::BlockDevice, device, meta },
            Record::Hole { offset: 0, len: FILE_LEN_MAX },
        ] {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert!(bytes.len() <= RECORD_LEN_MAX, "{}", bytes.len());
            assert_eq!(Record::decode(&bytes), Ok((record, &[][..])));
        }
    }

    #[test]
    fn a_kind_of_a_newer_version_is_told_from_nonsense() {
        let last = Record::Identity { mtime_s: 0, mtime_ns: 0, inode: 7 };
        let mut bytes = Vec::new();
        last.encode(&mut bytes);
        assert_eq!(bytes[0], KINDS - 1, "every kind is counted");
        for kind in [KINDS, 127, 128, 255] {
            bytes[0] = kind;
            assert_eq!(Record::decode(&bytes), Err(UNKNOWN_KIND));
        }
        assert_ne!(Record::decode(&[KINDS - 1]), Err(UNKNOWN_KIND));
    }

    #[test]
    fn the_longest_attributes_fit_their_bound() {
        let xattr = |len| Xattr { name: b"user.a".to_vec(), value: vec![7; len] };
        let mut values = vec![xattr(65_536), xattr(65_536), xattr(65_000)];
        let mut attributes = Attributes { xattrs: Some(values.clone()), ..Attributes::default() };
        let room = ATTRIBUTES_LEN_MAX - attributes.encode().expect("they fit").len();
        values[2] = xattr(65_000 + room);
        attributes.xattrs = Some(values);
        let encoded = attributes.encode().expect("they fit exactly");
        assert_eq!(encoded.len(), ATTRIBUTES_LEN_MAX);
        let mut bytes = Vec::new();
        Record::Attributes { attributes: &encoded }.encode(&mut bytes);
        assert!(bytes.len() <= ATTRIBUTES_RECORD_LEN_MAX, "{}", bytes.len());
        assert!(bytes.len() + RECORD_LEN_MAX <= RECORDS_MAX);
        assert_eq!(Record::decode(&bytes), Ok((Record::Attributes { attributes: &encoded }, &[][..])));
    }

    #[test]
    fn a_record_has_the_number_of_the_protocol() {
        let (path, target, meta) = (&b"a"[..], &b"b"[..], Meta::default());
        let (kind, device) = (SpecialKind::Fifo, Device::default());
        let records = [
            Record::Directory { path },
            Record::DirectoryEnd { path, meta },
            Record::Symlink { path, target, meta },
            Record::File { path, meta, size: 0 },
            Record::Extent { offset: 0, len: 1 },
            Record::End,
            Record::Failed { path, reason: "" },
            Record::Resume { path, meta, size: 0, from: GROUP },
            Record::Attributes { attributes: &[0, 0, 0] },
            Record::Hardlink { path, target },
            Record::Special { path, kind, device, meta },
            Record::Hole { offset: 0, len: 1 },
            Record::Identity { mtime_s: 0, mtime_ns: 0, inode: 0 },
        ];
        for (number, record) in records.iter().enumerate() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(usize::from(bytes[0]), number, "{record:?}");
        }
    }

    #[test]
    fn records_out_of_bounds_are_refused() {
        let meta = Meta::default();
        let odd_time = Meta { mtime_ns: NANOSECONDS, ..meta };
        let long_reason = "r".repeat(REASON_LEN_MAX + 1);
        let kind = SpecialKind::Fifo;
        for bad in [
            Record::Directory { path: b"../x" },
            Record::DirectoryEnd { path: b"/", meta },
            Record::DirectoryEnd { path: b"x", meta: odd_time },
            Record::File { path: b"", meta, size: 0 },
            Record::File { path: b"a\0", meta, size: 0 },
            Record::File { path: b"a", meta: odd_time, size: 0 },
            Record::Symlink { path: b"a", target: b"", meta },
            Record::Symlink { path: b"a", target: b"b\0", meta },
            Record::Symlink { path: b"", target: b"b", meta },
            Record::Extent { offset: 0, len: 0 },
            Record::Extent { offset: u64::MAX, len: 2 },
            Record::Extent { offset: FILE_LEN_MAX, len: 1 },
            Record::Failed { path: b"a", reason: &long_reason },
            Record::Resume { path: b"", meta, size: 0, from: GROUP },
            Record::Resume { path: b"a", meta: odd_time, size: 0, from: GROUP },
            Record::Resume { path: b"a", meta, size: 0, from: 0 },
            Record::Resume { path: b"a", meta, size: 0, from: 1 },
            Record::Resume { path: b"a", meta, size: 0, from: 1 << 63 },
            Record::Attributes { attributes: b"" },
            Record::Attributes { attributes: &[0, 0, 0, 0] },
            Record::Hardlink { path: b"", target: b"b" },
            Record::Hardlink { path: b"a", target: b"" },
            Record::Hardlink { path: b"a", target: b"../b" },
            Record::Special { path: b"", kind, device: Device::default(), meta },
            Record::Special { path: b"a", kind, device: Device { major: 1, minor: 3 }, meta },
            Record::Special { path: b"a", kind, device: Device::default(), meta: odd_time },
            Record::Identity { mtime_s: 0, mtime_ns: NANOSECONDS, inode: 0 },
            Record::Hole { offset: 0, len: 0 },
            Record::Hole { offset: 1, len: 1 },
            Record::Hole { offset: GROUP, len: FILE_LEN_MAX },
        ] {
            decode_error(&bad);
        }
    }

    #[test]
    fn reasons_are_cut_between_characters() {
        let reason = "é".repeat(REASON_LEN_MAX);
        assert_eq!(bounded_reason(&reason).len(), REASON_LEN_MAX);
        let reason = format!("a{reason}");
        assert_eq!(bounded_reason(&reason).len(), REASON_LEN_MAX - 1);
        assert_eq!(bounded_reason("short"), "short");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok((record, rest)) = Record::decode(&bytes) {
                prop_assert!(rest.len() < bytes.len());
                prop_assert_eq!(record.check(), Ok(()));
            }
        }
    }
}
