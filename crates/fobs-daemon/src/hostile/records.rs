//! What is packed inside messages: rows of a listing, and records of a chunk. As JSON their members are
//! replaced like those of any message; packed again, they need not keep a rule.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use fobs_store::record::{Device, Meta, Record, SpecialKind};
use fobs_store::survey::{Row, decode_batch};
use fobs_store::transfer_root::TransferRoot;
use fobs_store::{needs_scratch, open_chunk, seal};

/// The level of zstd for listings.
const LEVEL: i32 = 1;

/// A [`Record`] that owns what it holds and keeps no rule. Its variants stand in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Loose {
    Directory {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
    },
    DirectoryEnd {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        meta: Meta,
    },
    Symlink {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
        meta: Meta,
    },
    File {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        meta: Meta,
        size: u64,
    },
    Extent {
        offset: u64,
        len: u32,
    },
    End,
    Failed {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        reason: String,
    },
    Resume {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        meta: Meta,
        size: u64,
        from: u64,
    },
    Attributes {
        #[serde(with = "serde_bytes")]
        attributes: Vec<u8>,
    },
    Hardlink {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    Special {
        #[serde(with = "serde_bytes")]
        path: Vec<u8>,
        kind: SpecialKind,
        device: Device,
        meta: Meta,
    },
    Hole {
        offset: u64,
        len: u64,
    },
    Identity {
        mtime_s: i64,
        mtime_ns: u32,
        inode: u64,
    },
}

/// The records of a chunk as a list, and its data; `None` for one that is compressed or no chunk.
pub(super) fn unpack_chunk(chunk: &[u8]) -> Option<(Vec<u8>, Value)> {
    if needs_scratch(chunk) {
        return None;
    }
    let (data, mut rest) = open_chunk(chunk)?;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (record, after) = Record::decode(rest).ok()?;
        records.push(serde_json::to_value(record).ok()?);
        rest = after;
    }
    Some((data.to_vec(), Value::Array(records)))
}

/// The root of a transfer (protocol 7.6) of these chunks, hex; `None` where one is compressed or no chunk.
pub(super) fn root_of<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let (mut root, mut path, mut file) = (TransferRoot::default(), Vec::new(), blake3::Hasher::new());
    for chunk in chunks {
        let (mut data, mut rest) = open_chunk(chunk)?;
        while !rest.is_empty() {
            let (record, after) = Record::decode(rest).ok()?;
            rest = after;
            match record {
                Record::Directory { path } => root.directory(path),
                Record::Symlink { path, target, .. } => root.symlink(path, target),
                Record::Hardlink { path, target } => root.hard_link(path, target),
                Record::File { path: name, .. } => {
                    path = name.to_vec();
                    file.reset();
                }
                Record::Extent { len, .. } => {
                    let (extent, others) = data.split_at_checked(len as usize)?;
                    file.update(extent);
                    data = others;
                }
                Record::End => root.file(&path, file.finalize().as_bytes()),
                _ => {}
            }
        }
    }
    Some(blake3::Hash::from_bytes(root.finish()).to_hex().to_string())
}

/// Records as a chunk has them; `None` where a value cannot be written as a record.
pub(super) fn pack_records(records: &Value) -> Option<Vec<u8>> {
    let mut packed = Vec::new();
    for record in records.as_array()? {
        let loose: Loose = serde_json::from_value(record.clone()).ok()?;
        packed = postcard::to_extend(&loose, packed).ok()?;
    }
    Some(packed)
}

/// A chunk of these records, with a digest that fits.
pub(super) fn pack_chunk(data: &[u8], records: &Value) -> Option<Vec<u8>> {
    pack_records(records).map(|packed| seal(data, &packed))
}

/// The rows of a listing, in base64, as a list.
pub(super) fn unpack_rows(entries: &Value) -> Option<Value> {
    let rows = decode_batch(&STANDARD.decode(entries.as_str()?).ok()?).ok()?;
    serde_json::to_value(rows).ok()
}

/// A listing of these rows; `None` where a value cannot be written as a row.
pub(super) fn pack_rows(rows: &Value) -> Option<Value> {
    let mut packed = Vec::new();
    for row in rows.as_array()? {
        let row: Row = serde_json::from_value(row.clone()).ok()?;
        packed = postcard::to_extend(&row, packed).ok()?;
    }
    let compressed = zstd::bulk::compress(&packed, LEVEL).ok()?;
    Some(json!(STANDARD.encode(compressed)))
}

/// Records that pushes rarely have, so that their members are tried too.
pub(super) fn rare_records() -> Vec<Value> {
    let meta = json!({ "mode": 0o644, "mtime_s": 1_700_000_000, "mtime_ns": 0 });
    let name = |name: &str| json!(name.as_bytes());
    let special = |kind: &str, major: u32, minor: u32| {
        let device = json!({ "major": major, "minor": minor });
        json!({ "Special": { "path": name("special"), "kind": kind, "device": device, "meta": meta } })
    };
    vec![
        json!({ "Directory": { "path": name("made") } }),
        json!({ "DirectoryEnd": { "path": name("made"), "meta": meta } }),
        json!({ "Symlink": { "path": name("new-link"), "target": name("ab"), "meta": meta } }),
        json!({ "Hardlink": { "path": name("new-hard"), "target": name("ab") } }),
        json!({ "Failed": { "path": name("lost"), "reason": "it vanished" } }),
        json!({ "Resume": { "path": name("ab"), "meta": meta, "size": 100_000, "from": 65_536 } }),
        json!({ "Identity": { "mtime_s": 1_700_000_000, "mtime_ns": 0, "inode": 7 } }),
        special("Fifo", 0, 0),
        special("Socket", 0, 0),
        // The null device, and a number that no driver has.
        special("CharacterDevice", 1, 3),
        special("BlockDevice", 4095, 7),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_records_are_written_as_the_true_ones() {
        let meta = Meta { mode: 0o600, mtime_s: -5, mtime_ns: 7 };
        let device = Device { major: 1, minor: 3 };
        for record in [
            Record::Directory { path: b"d" },
            Record::DirectoryEnd { path: b"d", meta },
            Record::Symlink { path: b"l", target: b"t", meta },
            Record::File { path: b"f", meta, size: 9 },
            Record::Extent { offset: 0, len: 9 },
            Record::End,
            Record::Failed { path: b"f", reason: "why" },
            Record::Resume { path: b"f", meta, size: 9, from: 65_536 },
            Record::Attributes { attributes: b"" },
            Record::Hardlink { path: b"h", target: b"f" },
            Record::Special { path: b"s", kind: SpecialKind::CharacterDevice, device, meta },
            Record::Hole { offset: 0, len: 65_536 },
            Record::Identity { mtime_s: 3, mtime_ns: 4, inode: 5 },
        ] {
            let value = serde_json::to_value(record).unwrap();
            let loose: Loose = serde_json::from_value(value).unwrap();
            assert_eq!(postcard::to_allocvec(&loose), postcard::to_allocvec(&record), "{record:?}");
        }
    }

    #[test]
    fn rare_records_are_records() {
        for record in rare_records() {
            assert!(pack_chunk(b"", &json!([record])).is_some(), "{record}");
        }
    }
}
