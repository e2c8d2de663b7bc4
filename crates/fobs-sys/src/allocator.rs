//! How the C library's allocator divides the address space.

/// From now on the allocator has at most `count` arenas. Each reserves 64 MiB of address space, and without a
/// limit there may be eight for each CPU. No effect with another C library than glibc.
pub fn limit_arenas(count: i32) {
    // SAFETY: mallopt takes two integers and changes a parameter of the allocator under its lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, count);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}
