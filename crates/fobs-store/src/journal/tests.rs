//! The journal's promises under faults and power cuts, and over any bytes.

mod faulty;
mod promises;
mod takeover;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::*;
use crate::identity::{Identity, fingerprint};

/// A journal of one source in `directory`.
pub(super) fn open_journal(directory: &Arc<OwnedFd>) -> Journal {
    let spec = JournalSpec {
        directory,
        top: Top::As(b"x"),
        sources: &[],
        keep: Partial::Keep,
        transfer_id: [0; 16],
        client: None,
        terms: Terms::default(),
        holder: "tester",
        budget: &fobs_model::budget::MemoryBudget::default(),
        destination: b"x",
        may_repeat: false,
    };
    Journal::open(&spec, &mut Vec::new()).expect("nothing is in the way").expect("this file system has locks")
}

/// Descriptors of this process that lead to below `directory`.
fn open_below(directory: &std::path::Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("our descriptors");
    let leads_there =
        |link: std::io::Result<std::path::PathBuf>| link.is_ok_and(|it| it.starts_with(directory));
    descriptors.flatten().filter(|entry| leads_there(std::fs::read_link(entry.path()))).count()
}

#[test]
fn thousands_of_files_in_a_chunk_hold_few_descriptors() {
    let place = tempfile::tempdir().expect("a directory");
    let top = place.path().canonicalize().expect("it exists");
    let directory = Arc::new(OwnedFd::from(std::fs::File::open(&top).expect("the directory")));
    let mut journal = open_journal(&directory);
    let before = open_below(&top);
    for number in 0..5_000_u64 {
        let name = number.to_string();
        let file = std::fs::File::create(top.join(&name)).expect("a file");
        let identity = Identity { size: 0, mtime_s: 0, mtime_ns: 0, inode: number };
        let print = fingerprint(name.as_bytes(), &identity);
        journal.completed(name.as_bytes(), print, &Arc::new(OwnedFd::from(file)), &directory);
        assert!(open_below(&top) <= before + 64, "after {number} files");
    }
    assert!(journal.checkpoint(None).is_empty());
    assert_eq!(journal.suspend().map(|kept| kept.files), Some(5_000));
    let again = open_journal(&directory);
    assert_eq!(again.book.totals().0, 5_000);
}
