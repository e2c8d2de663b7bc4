//! What is reported of a row.

use crate::Item;
use crate::survey::choice::Changes;
use crate::survey::itemize::ItemKind;
use crate::survey::row::{Row, RowKind};
use crate::walk::{facts, type_bits};

/// The item to report for an entry.
pub(super) fn item(row: &Row, changes: Changes) -> Option<Item> {
    const FILE: u32 = 0o100_000;
    const TYPE: u32 = 0o170_000;
    let (kind, bits, target) = match &row.kind {
        RowKind::DirectoryEnd | RowKind::PartEnd => (ItemKind::Directory, 0o040_000, None),
        RowKind::File => (ItemKind::File, FILE, None),
        RowKind::Hardlink { first } => {
            // A sender of an earlier release does not say of which type.
            let bits = row.meta.mode & TYPE;
            let target = changes.is_significant().then(|| first.clone());
            (ItemKind::of_type(bits), if bits == 0 { FILE } else { bits }, target)
        }
        RowKind::Symlink { target } => (ItemKind::Symlink, 0o120_000, Some(target.clone())),
        RowKind::Special { kind, .. } => (ItemKind::of_special(*kind), type_bits(*kind), None),
        RowKind::Directory | RowKind::Failed | RowKind::Missing => return None,
    };
    let mut meta = row.meta;
    let size = match &row.kind {
        RowKind::File => {
            meta.mtime_s = row.identity.mtime_s;
            row.identity.size
        }
        RowKind::Symlink { target } => target.len() as u64,
        RowKind::DirectoryEnd | RowKind::PartEnd | RowKind::Hardlink { .. } => row.identity.size,
        _ => 0,
    };
    let facts = facts(meta, bits, size, row.attributes.as_ref(), changes.stays());
    Some(Item { path: row.path.clone(), kind, changes, target, facts })
}
