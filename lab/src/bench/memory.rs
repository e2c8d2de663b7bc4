//! Warm memory: free memory that the host of a virtual machine does not take back.
//!
//! A page that was returned to the host costs the next program that needs it up to 3 CPU seconds per GB,
//! whichever contestant that is. The host takes back whole blocks only, so one page of each block stays in
//! use for the whole bench, and every contestant writes into the same blocks.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

/// Bytes of a block: free memory is reported to the host in pieces of this size (Linux, mm/page_reporting.c).
const BLOCK_BYTES: u64 = 2 << 20;
/// Bytes of a page, which keeps its block.
const PAGE_BYTES: u64 = 4 << 10;
/// Beyond the file's own size, for what the kernel keeps of it.
const SPARE_BYTES: u64 = 512 << 20;
/// Whole blocks for buffers on huge pages: no page of these can be kept, so they are touched before each run.
const WHOLE_BYTES: u64 = 128 << 20;

/// Memory that stays warm as long as this lives.
pub struct WarmMemory {
    /// One page of each block.
    _kept: File,
    bytes: u64,
}

impl WarmMemory {
    /// Enough for a file of `bytes` bytes that is written below `folder`, which is in memory.
    ///
    /// # Errors
    /// The kernel's: there is not that much memory.
    pub fn new(bytes: u64, folder: &Path) -> io::Result<WarmMemory> {
        let kept = touched(bytes + SPARE_BYTES)?;
        for block in 0..(bytes + SPARE_BYTES) / BLOCK_BYTES {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&kept, hole, block * BLOCK_BYTES + PAGE_BYTES, BLOCK_BYTES - PAGE_BYTES)?;
        }
        // The first file in this memory takes a tenth more CPU time than all later ones, so it is not
        // measured.
        let first = folder.join("first");
        fill(&mut File::create(&first)?, bytes)?;
        std::fs::remove_file(first)?;
        Ok(WarmMemory { _kept: kept, bytes })
    }

    /// Whether it is enough for a file of that size.
    pub fn holds(&self, bytes: u64) -> bool {
        self.bytes >= bytes
    }

    /// Touches the memory for buffers on huge pages and gives it back.
    ///
    /// # Errors
    /// The kernel's: there is not that much memory.
    pub fn touch_whole() -> io::Result<()> {
        touched(WHOLE_BYTES).map(drop)
    }
}

/// A file in memory whose pages have all been written.
fn touched(bytes: u64) -> io::Result<File> {
    let mut file = File::from(memfd_create("fobs-lab-warm", MemfdFlags::CLOEXEC)?);
    fill(&mut file, bytes)?;
    Ok(file)
}

fn fill(file: &mut File, bytes: u64) -> io::Result<()> {
    let piece = vec![1; BLOCK_BYTES as usize];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK_BYTES);
        file.write_all(&piece[..length as usize])?;
        left -= length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn one_page_of_each_block_stays_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let warm = WarmMemory::new(4 << 20, folder.path()).unwrap();
        // Blocks of 512 bytes, as stat(2) counts them.
        let kept_bytes = warm._kept.metadata().unwrap().blocks() * 512;
        assert_eq!(kept_bytes, (SPARE_BYTES + (4 << 20)) / BLOCK_BYTES * PAGE_BYTES);
        assert!(warm.holds(4 << 20) && !warm.holds(5 << 20));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
