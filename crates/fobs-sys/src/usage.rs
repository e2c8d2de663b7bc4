//! What this process cost so far.

use std::fs;

/// CPU time and peak memory of this process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// User and system time of all threads, seconds (`getrusage`).
    pub cpu_seconds: f64,
    /// Largest resident set so far, bytes: `VmHWM` of `/proc/self/status`, or `ru_maxrss` without `/proc`.
    pub max_rss_bytes: u64,
}

/// Measures this process.
pub fn process_usage() -> Usage {
    // SAFETY: rusage is plain integers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage to write to. The call cannot fail with these arguments; if it did,
    // the zeroes would stand.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    // ru_maxrss survives fork and exec, so a small child of a large parent reports the parent's peak.
    // VmHWM begins anew with the address space.
    let high_water_mark =
        fs::read_to_string("/proc/self/status").ok().and_then(|status| vm_hwm_bytes(&status));
    let max_rss_bytes =
        high_water_mark.unwrap_or_else(|| u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024));
    Usage { cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime), max_rss_bytes }
}

/// The `VmHWM` line of a `/proc/<pid>/status`, in bytes (the file says kB and means KiB).
fn vm_hwm_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_high_water_mark() {
        assert_eq!(vm_hwm_bytes("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2_097_152));
        assert_eq!(vm_hwm_bytes("VmHWM:\t kB\n"), None);
        assert_eq!(vm_hwm_bytes("VmHWM:\t18446744073709551615 kB\n"), None);
        assert_eq!(vm_hwm_bytes("Name:\tkernel thread\n"), None);
    }

    #[test]
    fn grows_with_use() {
        let before = process_usage();
        assert!(before.max_rss_bytes > 0);
        let touched = vec![1u8; 64 << 20];
        assert_eq!(touched.iter().step_by(4096).map(|&byte| u64::from(byte)).sum::<u64>(), 16384);
        let mut after = process_usage();
        assert!(after.max_rss_bytes >= 64 << 20, "{after:?}");
        // CPU time is accounted in ticks on some kernels: spend until it shows, however long that takes.
        while after.cpu_seconds <= before.cpu_seconds {
            after = process_usage();
        }
    }
}
