//! CPU, priority and scheduler hints of the calling thread.

use std::cell::Cell;
use std::mem::size_of;
use std::{fs, io};

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Idle columns of `/proc/stat`: `idle` and `iowait` (proc_stat(5)).
const IDLE_COLUMNS: std::ops::Range<usize> = 3..5;

/// Time slice of a [`ThreadDuty::Punctual`] thread, nanoseconds: the shortest that the kernel grants (from
/// Linux 6.12; older kernels ignore it).
const PUNCTUAL_SLICE_NS: u64 = 100_000;

/// Time that a CPU has spent since boot, ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTicks {
    /// Idle.
    pub idle: u64,
    /// Total.
    pub total: u64,
}

impl CpuTicks {
    /// Share of the time since `before` in which the CPU was idle, 0 to 1; 1 if no time has passed.
    pub fn idle_share_since(&self, before: CpuTicks) -> f64 {
        let total = self.total.saturating_sub(before.total);
        if total == 0 { 1.0 } else { self.idle.saturating_sub(before.idle) as f64 / total as f64 }
    }
}

thread_local! {
    static MARK: Cell<usize> = const { Cell::new(0) };
}

/// A number that belongs to this thread, and to those that [`crate::confine::spawn`] starts in it; 0 at
/// first.
pub fn mark() -> usize {
    MARK.get()
}

/// Gives this thread another one.
pub fn set_mark(mark: usize) {
    MARK.set(mark);
}

/// The CPU that the calling thread runs on.
pub fn current_cpu() -> u32 {
    sched_getcpu() as u32
}

/// Ticks of every CPU, by CPU number. Empty if `/proc/stat` cannot be read.
pub fn cpu_ticks() -> Vec<(u32, CpuTicks)> {
    fs::read_to_string("/proc/stat").map_or(Vec::new(), |stat| parse_stat(&stat))
}

/// Moves the calling thread to `cpu`. Its allowed CPUs stay as they are, so the kernel may move it again.
pub fn move_to_cpu(cpu: u32) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let index = cpu as usize;
    if index >= CpuSet::MAX_CPU || !allowed.is_set(index) {
        let message = format!("the thread may not run on CPU {cpu}: widen its affinity");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let mut one = CpuSet::new();
    one.set(index);
    sched_setaffinity(None, &one)?;
    Ok(sched_setaffinity(None, &allowed)?)
}

/// Nice value of the calling thread, -20 (most favourable) to 19.
pub fn nice() -> io::Result<i32> {
    Ok(getpriority_process(None)?)
}

/// Sets the nice value of the calling thread. Lowering it needs `CAP_SYS_NICE` or `RLIMIT_NICE`.
pub fn set_nice(nice: i32) -> io::Result<()> {
    Ok(setpriority_process(None, nice)?)
}

/// The kind of work of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadDuty {
    /// Short turns that must not wait: sending and receiving packets.
    Punctual,
    /// Long turns that may wait: reading, hashing, writing.
    Bulk,
}

/// Gives the scheduler a hint on the calling thread's work: when CPUs are scarce, a punctual thread runs as
/// soon as it wakes, and a waking bulk thread does not preempt others. Neither gets more CPU time.
///
/// Only for ordinary threads: a policy or nice value set from outside is kept, and a refusal is ignored.
/// Measured at 1 Gbit/s over 65 ms with two CPUs for both ends and the path: 86% of the link without hints,
/// 89% with punctual threads, 90% with bulk threads besides.
pub fn hint_scheduler(duty: ThreadDuty) {
    let Ok(mut attributes) = attributes() else { return };
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    match duty {
        ThreadDuty::Punctual => attributes.sched_runtime = PUNCTUAL_SLICE_NS,
        ThreadDuty::Bulk => {
            attributes.sched_policy = libc::SCHED_BATCH as u32;
            // 0 restores the kernel's default: a thread inherits the slice of its parent.
            attributes.sched_runtime = 0;
        }
    }
    // SAFETY: the kernel reads a `sched_attr` of the size that it states; 0 is the calling thread, and flags
    // are 0.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Scheduling attributes of the calling thread.
fn attributes() -> io::Result<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut attributes = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `size` bytes to memory of that size; 0 is the calling thread, and
    // flags are 0.
    match unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } {
        0 => Ok(attributes),
        _ => Err(io::Error::last_os_error()),
    }
}

fn parse_stat(stat: &str) -> Vec<(u32, CpuTicks)> {
    let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            // The first line, the sum of all CPUs, has a space here.
            let cpu =
                line.starts_with(|c: char| c.is_ascii_digit()).then(|| words.next()?.parse().ok())??;
            let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            let idle = ticks.get(IDLE_COLUMNS)?.iter().sum();
            // `user` and `nice` already include guests' time.
            Some((cpu, CpuTicks { idle, total: ticks.iter().take(8).sum() }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_read() {
        let stat =
            "cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 5 0 5 40 0 0 0 0 0 0\ncpu12 5 0 5 30 10 0 0 2 1 0\nintr 5\n";
        let expected = [(0, CpuTicks { idle: 40, total: 50 }), (12, CpuTicks { idle: 40, total: 52 })];
        assert_eq!(parse_stat(stat), expected);
        assert_eq!(parse_stat("cpu1\ncpux 1 2 3 4 5\ncpu2 1 2\n"), []);
        assert_eq!(expected[0].1.idle_share_since(CpuTicks { idle: 20, total: 10 }), 0.5);
        assert_eq!(expected[0].1.idle_share_since(expected[0].1), 1.0);
    }

    #[test]
    fn a_moved_thread_keeps_its_allowed_cpus() {
        std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).expect("it has one");
            let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("at least one");
            move_to_cpu(cpu as u32).expect("it is allowed");
            assert_eq!(sched_getaffinity(None).expect("it has one"), allowed);
            let error = move_to_cpu(u32::MAX).expect_err("no such CPU");
            assert!(error.to_string().contains("affinity"), "{error}");
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn the_nice_value_is_per_thread() {
        let outside = nice().expect("it has one");
        std::thread::spawn(move || {
            set_nice(outside + 1).expect("nicer is always allowed");
            assert_eq!(nice().expect("it has one"), (outside + 1).min(19));
        })
        .join()
        .expect("no panic");
        assert_eq!(nice().expect("it has one"), outside);
    }

    fn after(duty: ThreadDuty) -> (libc::sched_attr, libc::sched_attr) {
        std::thread::spawn(move || {
            let before = attributes().unwrap();
            hint_scheduler(duty);
            (before, attributes().unwrap())
        })
        .join()
        .unwrap()
    }

    #[test]
    fn the_policy_follows_the_duty_and_nice_stays() {
        let (before, punctual) = after(ThreadDuty::Punctual);
        let (_, bulk) = after(ThreadDuty::Bulk);
        assert_eq!(punctual.sched_policy, before.sched_policy);
        assert_eq!((punctual.sched_nice, bulk.sched_nice), (before.sched_nice, before.sched_nice));
        // If the tests run under another policy, it is kept.
        if before.sched_policy == libc::SCHED_OTHER as u32 {
            assert_eq!(bulk.sched_policy, libc::SCHED_BATCH as u32);
            // Kernels before 6.12 have no slice for each thread and report 0.
            assert!([0, PUNCTUAL_SLICE_NS].contains(&punctual.sched_runtime), "{}", punctual.sched_runtime);
        }
    }
}
