//! How an end reads and writes its large files: past the page cache of its host or through it, on which file
//! systems, and why (docs/tuning.md).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::printable;

/// Most rows that an end tells: a few file systems, each with a few ways and reasons. What comes beyond
/// counts in the last one.
pub const STORAGE_ROWS_MAX: usize = 24;
/// Longest name of a peer's file system that is kept, characters.
const NAME_CHARS_MAX: usize = 24;

/// How bytes pass between a file and its device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheUse {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache, which they leave at once (`RWF_DONTCACHE`).
    Uncached,
    /// Through the page cache, out of which the reader takes them again (`POSIX_FADV_DONTNEED`).
    Dropped,
    /// Through the page cache, where they stay.
    Cached,
    /// One that a later version knows.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Why bytes take no better way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheReason {
    /// `--cache`.
    Asked,
    /// The file system does not say that it can (`STATX_DIOALIGN`), or the kernel is older than 6.1.
    NoDirect,
    /// Neither that nor `RWF_DONTCACHE` is known to kernel and file system.
    NoOther,
    /// The file system says that it can, and refuses a write past the cache.
    Refused,
    /// Writes of less than a MiB, and those that begin within a block.
    Pieces,
    /// It is the faster way there, as measured.
    Faster,
    /// Both ways are timed.
    Timed,
    /// The file was in the page cache before.
    AlreadyCached,
    /// One that a later version knows.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Bytes of large files that went one way on one file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageUse {
    /// The file system's type, such as `ext4`.
    pub file_system: String,
    /// The way.
    pub way: CacheUse,
    /// Why it was not a better one; none where there is no better one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<CacheReason>,
    /// How many.
    pub bytes: u64,
}

/// How both ends of a transfer handled their large files; nothing where there was none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// At the sender.
    pub read: Vec<StorageUse>,
    /// At the receiver.
    pub written: Vec<StorageUse>,
}

impl CacheReason {
    /// In parentheses behind a way.
    fn words(self) -> &'static str {
        match self {
            CacheReason::Asked => "--cache",
            CacheReason::NoDirect => "the file system offers no O_DIRECT",
            CacheReason::NoOther => "the file system offers no other way",
            CacheReason::Refused => "the file system refused O_DIRECT",
            CacheReason::Pieces => "less than a MiB at once, or not at the beginning of a block",
            CacheReason::Faster => "faster there",
            CacheReason::Timed => "to time both ways",
            CacheReason::AlreadyCached => "it was cached before",
            CacheReason::Unknown => "for a reason that a later version knows",
        }
    }
}

impl fmt::Display for CacheUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheUse::Direct => "by O_DIRECT",
            CacheUse::Uncached => "by RWF_DONTCACHE",
            CacheUse::Dropped => "through the page cache and dropped from it",
            CacheUse::Cached => "through the page cache",
            CacheUse::Unknown => "in a way that a later version knows",
        })
    }
}

impl StorageUse {
    /// Adds bytes to a list of rows.
    pub fn add_to(self, rows: &mut Vec<StorageUse>) {
        let same = |row: &&mut StorageUse| {
            (row.way, row.why, &row.file_system) == (self.way, self.why, &self.file_system)
        };
        let is_full = rows.len() >= STORAGE_ROWS_MAX;
        if let Some(row) = rows.iter_mut().find(same) {
            row.bytes = row.bytes.saturating_add(self.bytes);
        } else if is_full && let Some(last) = rows.last_mut() {
            last.bytes = last.bytes.saturating_add(self.bytes);
        } else {
            rows.push(self);
        }
    }

    /// Rows of a peer, bounded and safe to show.
    fn of_a_peer(rows: &[StorageUse]) -> Vec<StorageUse> {
        let safe = |row: &StorageUse| {
            let file_system = printable(&row.file_system, NAME_CHARS_MAX);
            StorageUse { file_system, ..row.clone() }
        };
        rows.iter().take(STORAGE_ROWS_MAX).map(safe).collect()
    }
}

impl Storage {
    /// What ends tell, one of them a peer: bounded and safe to show.
    pub fn of_a_peer(read: &[StorageUse], written: &[StorageUse]) -> Storage {
        Storage { read: StorageUse::of_a_peer(read), written: StorageUse::of_a_peer(written) }
    }

    /// With that of a part of the copy that ran later.
    #[must_use]
    pub fn and(mut self, later: Storage) -> Storage {
        later.read.into_iter().for_each(|row| row.add_to(&mut self.read));
        later.written.into_iter().for_each(|row| row.add_to(&mut self.written));
        self
    }

    /// What would become of a large file on the file system where this was tried, for a person.
    pub fn expectation(&self) -> Option<String> {
        let row = |row: &StorageUse| {
            format!("{}{}", row.way, row.why.map_or_else(String::new, |why| format!(" ({})", why.words())))
        };
        let (read, written) = (self.read.first()?, self.written.first()?);
        Some(format!(
            "large files on this {} are read {}, and written {}",
            written.file_system,
            row(read),
            row(written)
        ))
    }

    /// One sentence for a person; none where no large file was moved.
    pub fn sentence(&self, show_bytes: &dyn Fn(u64) -> String) -> Option<String> {
        let row = |row: &StorageUse| {
            let why = row.why.map_or_else(String::new, |why| format!(" ({})", why.words()));
            format!("{} {} {}{why}", row.file_system, show_bytes(row.bytes), row.way)
        };
        let end = |what: &str, rows: &[StorageUse]| {
            let rows: Vec<String> = rows.iter().map(row).collect();
            (!rows.is_empty()).then(|| format!("{what}: {}", rows.join(", ")))
        };
        let ends: Vec<String> =
            [end("read", &self.read), end("written", &self.written)].into_iter().flatten().collect();
        (!ends.is_empty()).then(|| format!("large files {}", ends.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(file_system: &str, way: CacheUse, why: Option<CacheReason>, bytes: u64) -> StorageUse {
        StorageUse { file_system: file_system.to_owned(), way, why, bytes }
    }

    #[test]
    fn both_ends_are_one_sentence() {
        let storage = Storage {
            read: vec![row("ext4", CacheUse::Uncached, None, 30)],
            written: vec![
                row("xfs", CacheUse::Direct, None, 26),
                row("xfs", CacheUse::Uncached, Some(CacheReason::Timed), 4),
            ],
        };
        assert_eq!(
            storage.sentence(&|bytes| format!("{bytes} B")).as_deref(),
            Some(
                "large files read: ext4 30 B by RWF_DONTCACHE; written: xfs 26 B by O_DIRECT, xfs 4 B by \
                 RWF_DONTCACHE (to time both ways)"
            )
        );
        assert_eq!(
            storage.expectation().as_deref(),
            Some("large files on this xfs are read by RWF_DONTCACHE, and written by O_DIRECT")
        );
        let nothing = Storage::default();
        assert_eq!((nothing.sentence(&|_| String::new()), nothing.expectation()), (None, None));
    }

    #[test]
    fn rows_are_bounded_and_lose_no_bytes() {
        let mut rows = Vec::new();
        for number in 0..2 * STORAGE_ROWS_MAX as u64 {
            row(&format!("fs{number}"), CacheUse::Cached, None, 1).add_to(&mut rows);
        }
        row("fs0", CacheUse::Cached, None, 5).add_to(&mut rows);
        assert_eq!((rows.len(), rows[0].bytes), (STORAGE_ROWS_MAX, 6));
        assert_eq!(rows.iter().map(|row| row.bytes).sum::<u64>(), 2 * STORAGE_ROWS_MAX as u64 + 5);
    }

    #[test]
    fn what_a_peer_tells_is_bounded_and_may_be_new() {
        let told = r#"[{"file_system":"a\u001b[2Jb","way":"by_pigeon","why":"weather","bytes":7}]"#;
        let rows: Vec<StorageUse> = serde_json::from_str(told).expect("a later version's words");
        assert_eq!(rows, [row("a\u{1b}[2Jb", CacheUse::Unknown, Some(CacheReason::Unknown), 7)]);
        let safe = StorageUse::of_a_peer(&vec![rows[0].clone(); 100]);
        assert_eq!(safe.len(), STORAGE_ROWS_MAX);
        assert!(!safe[0].file_system.contains('\u{1b}'), "{safe:?}");
    }

    #[test]
    fn every_way_and_reason_has_words_of_its_own() {
        let ways = [CacheUse::Direct, CacheUse::Uncached, CacheUse::Dropped, CacheUse::Cached];
        let words: std::collections::HashSet<String> = ways.iter().map(CacheUse::to_string).collect();
        assert_eq!(words.len(), ways.len());
        let reasons = ["asked", "no_direct", "no_other", "refused", "pieces", "faster", "timed"];
        let reasons: std::collections::HashSet<&str> = reasons
            .iter()
            .chain(["already_cached"].iter())
            .map(|name| serde_json::from_str::<CacheReason>(&format!("{name:?}")).expect("a reason").words())
            .collect();
        assert_eq!(reasons.len(), 8);
        assert!(!reasons.contains(CacheReason::Unknown.words()));
    }
}
