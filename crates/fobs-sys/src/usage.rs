//! CPU time and memory of this process and its threads.

use crate::confine::{Errand, outside};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

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
    // the zeroes would remain.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    // ru_maxrss survives fork and exec, so a small child of a large parent reports the parent's peak. VmHWM
    // starts at 0 with each address space.
    let high_water_mark =
        fs::read_to_string("/proc/self/status").ok().and_then(|status| vm_hwm_bytes(&status));
    let max_rss_bytes =
        high_water_mark.unwrap_or_else(|| u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024));
    Usage { cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime), max_rss_bytes }
}

/// Maximum length of a `schedstat` line, bytes: three numbers of 20 digits.
const SCHEDSTAT_LEN_MAX: usize = 64;

/// Scheduler statistics of a thread since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUsage {
    /// Time on a CPU, ns; updated at scheduler ticks and context switches (4 ms at HZ=250).
    pub run_ns: u64,
    /// Time runnable but without a CPU, ns: other threads had it, or the control group's quota was used up.
    pub delay_ns: u64,
}

/// The kernel's number of the calling thread.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Reads the scheduler statistics of a thread of this process, from any thread.
#[derive(Debug)]
pub struct ThreadMeter {
    /// Its `schedstat`, which the kernel ties to the thread when it is opened.
    file: Option<File>,
}

impl ThreadMeter {
    /// A meter of this thread. Where the kernel keeps no statistics, it reads 0.
    pub fn of_thread(id: i32) -> ThreadMeter {
        ThreadMeter { file: File::open(format!("/proc/self/task/{id}/schedstat")).ok() }
    }

    /// Current statistics; `None` if the thread has ended or there are none. One system call.
    pub fn read(&self) -> Option<ThreadUsage> {
        let mut line = [0; SCHEDSTAT_LEN_MAX];
        let len = self.file.as_ref()?.read_at(&mut line, 0).ok()?;
        thread_usage(std::str::from_utf8(&line[..len]).ok()?)
    }
}

/// CPUs that this process may use at once, those of its cgroup's quota; 1 where that is not known.
pub fn cores() -> usize {
    outside(Errand::Counters, std::thread::available_parallelism).map_or(1, usize::from)
}

/// CPU time of the calling thread so far, µs: user time and system time (`RUSAGE_THREAD`). The sum is exact;
/// on kernels with tick-based accounting the division is sampled.
pub fn thread_times() -> (u64, u64) {
    // SAFETY: rusage is plain integers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage to write to. If the call failed the zeroes would remain.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    let micros = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds.saturating_mul(1_000_000).saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    (micros(usage.ru_utime), micros(usage.ru_stime))
}

/// Parses `run delay timeslices`; timeslices are ignored.
fn thread_usage(schedstat: &str) -> Option<ThreadUsage> {
    let mut numbers = schedstat.split_ascii_whitespace().map(str::parse);
    Some(ThreadUsage { run_ns: numbers.next()?.ok()?, delay_ns: numbers.next()?.ok()? })
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
    fn reads_the_account_of_a_thread() {
        assert_eq!(thread_usage("12 34 5\n"), Some(ThreadUsage { run_ns: 12, delay_ns: 34 }));
        for broken in ["", "12", "12 x 5", "-1 2 3"] {
            assert_eq!(thread_usage(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_thread_is_measured_from_another_one() {
        let (send, receive) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(ThreadMeter::of_thread(thread_id())).unwrap();
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {}
        });
        let meter = receive.recv().unwrap();
        // Spin until some CPU time is accounted, however long that takes.
        while meter.read().is_some_and(|usage| usage.run_ns == 0) {
            std::thread::yield_now();
        }
        assert!(meter.read().is_none_or(|usage| usage.run_ns > 0));
        stop.send(()).unwrap();
        thread.join().unwrap();
        // The kernel may list the thread a moment longer.
        let begun = std::time::Instant::now();
        while meter.read().is_some() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "an ended thread is still shown");
            std::thread::yield_now();
        }
    }

    #[test]
    fn process_usage_grows_with_use() {
        let before = process_usage();
        assert!(before.max_rss_bytes > 0);
        let touched = vec![1u8; 64 << 20];
        assert_eq!(touched.iter().step_by(4096).map(|&byte| u64::from(byte)).sum::<u64>(), 16384);
        let mut after = process_usage();
        assert!(after.max_rss_bytes >= 64 << 20, "{after:?}");
        // Some kernels account CPU time in ticks: spin until it increases, however long that takes.
        while after.cpu_seconds <= before.cpu_seconds {
            after = process_usage();
        }
    }
}
