//! How fast the disk at a directory is: a file without a name is written, synced and read.

use fobs_model::cancel::CancelToken;
use fobs_model::host_facts::{DiskFacts, DiskSpeed};
use fobs_store::{Base, passes_cache, scratch_file, show_path, try_large_file};
use rustix::fs::{Advice, fadvise, fdatasync, fstatvfs};
use rustix::io::{Errno, pread, pwrite};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// First piece that is written and synced, bytes; each next one is twice as long.
const PIECE_FIRST: u64 = 1 << 20;
/// Most bytes written: what a fast disk writes in a tenth of a second.
const BYTES_MAX: u64 = 255 << 20;
/// No piece is begun that would end after this time, as long as the one before took.
const TIME_MAX: Duration = Duration::from_millis(500);
/// How long what was written is read at most.
const READ_MAX: Duration = Duration::from_millis(300);
/// Largest part of the free space that is used.
const FREE_SHARE: u64 = 8;
/// Bytes of one system call.
const BLOCK: usize = 1 << 20;

/// Where a disk may be tried.
pub(crate) enum DiskProbe<'a> {
    /// At this directory.
    At { base: &'a Base, directory: &'a [u8] },
    /// Nowhere, with the reason.
    Refused(String),
}

impl DiskProbe<'_> {
    pub(super) fn run(&self, cancel: &CancelToken) -> DiskFacts {
        let (base, directory) = match self {
            DiskProbe::At { base, directory } => (base, *directory),
            DiskProbe::Refused(reason) => return DiskFacts::Unmeasured { reason: reason.clone() },
        };
        let shown = if directory.is_empty() { ".".to_owned() } else { show_path(directory) };
        let failed = |what: &str, errno: Errno| DiskFacts::Unmeasured {
            reason: format!("cannot {what} a file in '{shown}': {}", std::io::Error::from(errno)),
        };
        let file = match scratch_file(base, directory) {
            Ok(file) => file,
            Err(errno) => return failed("make", errno),
        };
        let (bytes, write_bps) = match write(&file, cancel) {
            Ok(written) => written,
            Err(errno) => return failed("write", errno),
        };
        let past_cache = Some(passes_cache(&file));
        let read_bps = match read(&file, bytes, cancel) {
            Ok(read_bps) => read_bps,
            Err(errno) => return failed("read", errno),
        };
        let storage = try_large_file(file).ok();
        DiskFacts::Measured(DiskSpeed { directory: shown, bytes, write_bps, read_bps, past_cache, storage })
    }
}

/// Writes growing pieces, each synced; the bytes, and the rate of the last piece.
fn write(file: &OwnedFd, cancel: &CancelToken) -> Result<(u64, f64), Errno> {
    let free = fstatvfs(file).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))?;
    let room = BYTES_MAX.min(free / FREE_SHARE);
    if room < PIECE_FIRST {
        return Err(Errno::NOSPC);
    }
    // Neither compressible nor equal to another block.
    let mut content = blake3::Hasher::new().update(b"fobs doctor").finalize_xof();
    let mut block = vec![0; BLOCK];
    content.fill(&mut block);
    let (began, mut written, mut piece, mut bps) = (Instant::now(), 0, PIECE_FIRST, 0.0);
    let mut expected = Duration::ZERO;
    while written + piece <= room && began.elapsed() + expected <= TIME_MAX && !cancel.is_cancelled() {
        let piece_began = Instant::now();
        let end = written + piece;
        while written < end {
            let (number, _) = block.split_at_mut(size_of::<u64>());
            number.copy_from_slice(&written.to_le_bytes());
            match pwrite(file, &block, written)? {
                0 => return Err(Errno::IO),
                // The next block is written over what is missing.
                count => written += count as u64,
            }
        }
        fdatasync(file)?;
        let took = piece_began.elapsed();
        bps = piece as f64 * 8.0 / took.as_secs_f64();
        (piece, expected) = (piece * 2, took * 2);
    }
    Ok((written, bps))
}

/// Reads `bytes` that the page cache was asked to forget, for a while.
fn read(file: &OwnedFd, bytes: u64, cancel: &CancelToken) -> Result<f64, Errno> {
    // File systems without a cache of their own ignore it.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
    let mut block = vec![0; BLOCK];
    let (began, mut at) = (Instant::now(), 0);
    while at < bytes && began.elapsed() < READ_MAX && !cancel.is_cancelled() {
        match pread(file, &mut block[..], at)? {
            0 => break,
            count => at += count as u64,
        }
    }
    Ok(at as f64 * 8.0 / began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_model::storage::CacheUse;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_disk_is_measured_and_nothing_stays() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().as_os_str().as_bytes();
        let probe = DiskProbe::At { base: &Base::Ambient, directory };
        let DiskFacts::Measured(speed) = probe.run(&CancelToken::new()) else { panic!("it can be written") };
        assert!(speed.write_bps > 0.0 && speed.read_bps > 0.0, "{speed:?}");
        assert!(speed.past_cache.is_some());
        let storage = speed.storage.as_ref().expect("it was tried");
        assert!(
            storage.expectation().is_some_and(|told| told.contains("large files on this")),
            "{storage:?}"
        );
        let is_direct = storage.written.iter().any(|row| row.way == CacheUse::Direct);
        assert_eq!(Some(is_direct), speed.past_cache, "{storage:?}");
        assert!((PIECE_FIRST..=BYTES_MAX).contains(&speed.bytes), "{speed:?}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let probe = DiskProbe::At { base: &Base::Ambient, directory: b"/no/such/place" };
        let DiskFacts::Unmeasured { reason } = probe.run(&CancelToken::new()) else { panic!("no place") };
        assert!(reason.contains("'/no/such/place'"), "{reason}");
    }
}
