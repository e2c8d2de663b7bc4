//! Large buffers on huge pages.
//!
//! The first access to a page costs a page fault of 10 us (measured): a buffer of 4 MiB on pages of 4 KiB
//! costs 10 ms before any work is done, on huge pages two faults. Allocate such buffers once and reuse them.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use libc::c_void;

/// Size and alignment of a huge page, bytes, on x86-64 and on AArch64 with pages of 4 KiB. Where huge pages
/// have another size, fewer or none are used.
const HUGE_PAGE_LEN: usize = 2 << 20;
/// Cache line, bytes: x86-64 and most of AArch64.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_LEN: usize = 64;
/// Granularity of mappings, bytes: the largest base page of the Linux ports that we build for.
const BASE_PAGE_LEN_MAX: usize = 64 << 10;

/// A zeroed anonymous mapping of fixed length, unmapped on drop. From 2 MiB on it is aligned to 2 MiB, and
/// the kernel is asked for huge pages (`MADV_HUGEPAGE`).
#[derive(Debug)]
pub struct PageBuffer {
    start: NonNull<u8>,
    len: usize,
    mapped_len: usize,
}

impl PageBuffer {
    /// Maps `len` zeroed bytes. Physical memory is allocated when a page is first accessed.
    ///
    /// # Errors
    ///
    /// If the address space or the memory limit is exhausted.
    pub fn new(len: usize) -> io::Result<PageBuffer> {
        let out_of_memory = |why: &dyn std::fmt::Display| {
            io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!(
                    "could not map {len} bytes of memory: {why}; free memory or raise the limit (ulimit -v)"
                ),
            )
        };
        // mmap refuses a length of 0; an empty buffer has no mapping. Slices end at isize::MAX.
        let mapped_len = len
            .max(1)
            .checked_next_multiple_of(BASE_PAGE_LEN_MAX)
            .filter(|&mapped_len| mapped_len <= isize::MAX as usize - HUGE_PAGE_LEN)
            .ok_or_else(|| out_of_memory(&"larger than the address space"))?;
        if len < HUGE_PAGE_LEN {
            let start = map(mapped_len).map_err(|error| out_of_memory(&error))?;
            return Ok(PageBuffer { start, len, mapped_len });
        }
        // Map one huge page more than needed, then unmap what lies before and after the aligned part.
        let reserved_len = mapped_len + HUGE_PAGE_LEN;
        let reserved = map(reserved_len).map_err(|error| out_of_memory(&error))?;
        let head_len = reserved.as_ptr().addr().wrapping_neg() % HUGE_PAGE_LEN;
        // SAFETY: head_len < HUGE_PAGE_LEN, so start and the mapped_len bytes behind it lie within the
        // mapping of mapped_len + HUGE_PAGE_LEN bytes.
        let (start, tail) = unsafe { (reserved.add(head_len), reserved.add(head_len + mapped_len)) };
        // SAFETY: head and tail are the parts of our own new mapping outside the buffer, and no pointer into
        // them exists. mmap returned a page-aligned address, and all offsets are multiples of the page size.
        unsafe {
            unmap(reserved, head_len);
            unmap(tail, reserved_len - head_len - mapped_len);
        }
        // SAFETY: the range is our own mapping; the advice changes the size of its pages, not its content.
        // The result is ignored: without huge pages the buffer works on small ones.
        unsafe { libc::madvise(start.as_ptr().cast::<c_void>(), mapped_len, libc::MADV_HUGEPAGE) };
        Ok(PageBuffer { start, len, mapped_len })
    }

    /// Prefetches `len` bytes from `at` into the CPU's cache for writing. Bytes outside the buffer are
    /// ignored; no effect on CPUs without such an instruction.
    #[inline]
    pub fn prefetch_for_write(&self, at: usize, len: usize) {
        let Some(bytes) = self.get(at..at.saturating_add(len).min(self.len)) else { return };
        #[cfg(target_arch = "x86_64")]
        for line in bytes.chunks(CACHE_LINE_LEN) {
            // `_MM_HINT_ET0` becomes a prefetch for reading unless the whole program is built for CPUs with
            // prefetchw, and a line that another core has read must then be fetched twice. SAFETY: a prefetch
            // is a hint that neither reads nor faults, and a no-op on CPUs without it; the address lies in
            // the buffer.
            unsafe {
                std::arch::asm!("prefetchw [{line}]", line = in(reg) line.as_ptr(),
                    options(nostack, preserves_flags, readonly));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = bytes;
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: start points to len mapped, initialised (zeroed by the kernel) bytes that live as long as
        // self and change only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone and no borrow of it outlives self.
        unsafe { unmap(self.start, self.mapped_len) };
    }
}

// SAFETY: the buffer owns its mapping as a Box<[u8]> owns its allocation; a mapping is not bound to a thread.
unsafe impl Send for PageBuffer {}
// SAFETY: a shared PageBuffer gives out only `&[u8]`.
unsafe impl Sync for PageBuffer {}

/// Maps `len > 0` zeroed private bytes.
fn map(len: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
    let address = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast::<u8>()).ok_or_else(|| io::Error::other("the kernel mapped address zero"))
}

/// Unmaps `len` bytes at `start`; a no-op if `len` is 0.
///
/// # Safety
/// The range must be a page-aligned part of our own mapping, and no pointer into it may be used any more.
unsafe fn unmap(start: NonNull<u8>, len: usize) {
    if len > 0 {
        // SAFETY: the caller guarantees the range. munmap fails only for other ranges, or where the kernel
        // cannot split a mapping; the memory then stays mapped but unused.
        unsafe { libc::munmap(start.as_ptr().cast::<c_void>(), len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefetch_changes_nothing_and_stays_inside() {
        let mut buffer = PageBuffer::new(100).unwrap();
        buffer.fill(7);
        for (at, len) in [(0, 100), (99, 1), (90, usize::MAX), (100, 1), (101, 1), (usize::MAX, usize::MAX)] {
            buffer.prefetch_for_write(at, len);
        }
        assert!(buffer.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn zeroed_aligned_and_writable() {
        let lens = [0, 1, 4096, 100_000, HUGE_PAGE_LEN - 1, HUGE_PAGE_LEN, (4 << 20) + 300_044, 9 << 20];
        let mut buffers: Vec<PageBuffer> = lens.iter().map(|&len| PageBuffer::new(len).unwrap()).collect();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(buffer.len(), lens[index]);
            assert!(buffer.iter().all(|&byte| byte == 0), "{} bytes", lens[index]);
            let alignment = if lens[index] >= HUGE_PAGE_LEN { HUGE_PAGE_LEN } else { 4096 };
            assert_eq!(buffer.as_ptr().addr() % alignment, 0, "{} bytes", lens[index]);
            buffer.fill(index as u8 + 1);
        }
        // No two overlap: each still has its own mark.
        for (index, buffer) in buffers.iter().enumerate() {
            assert!(buffer.iter().all(|&byte| byte == index as u8 + 1), "{} bytes", lens[index]);
        }
    }

    #[test]
    fn dropped_memory_is_given_back() {
        // 4 TiB in total, none of it accessed.
        for _ in 0..16 * 1024 {
            drop(PageBuffer::new(256 << 20).unwrap());
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let vm_size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        let vm_size_kib: u64 = vm_size.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(vm_size_kib < 1 << 30, "{vm_size_kib} KiB of address space still mapped");
    }

    #[test]
    fn moves_between_threads() {
        let mut buffer = PageBuffer::new(3 << 20).unwrap();
        buffer[123_456] = 7;
        let buffer = std::thread::spawn(move || buffer).join().unwrap();
        assert_eq!(buffer[123_456], 7);
    }

    #[test]
    fn impossible_lengths_are_errors() {
        for len in [usize::MAX, isize::MAX as usize, isize::MAX as usize - HUGE_PAGE_LEN, 1 << 60] {
            let error = PageBuffer::new(len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
        }
    }
}
