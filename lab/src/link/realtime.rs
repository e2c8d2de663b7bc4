//! Real-time scheduling of the emulator's thread, on its own CPU where possible.
//!
//! It wakes up to 20,000 times a second. Under ordinary scheduling each wake-up would preempt a host's
//! program, which a real network does not do: measured on two CPUs at 1 Gbit/s, a sending thread was
//! preempted 4,000 to 6,000 times a second, stood still for a quarter of the time and cost twice the CPU
//! time.

use std::fs;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::kernel::{schedule_by_deadline, schedule_first};

/// Microseconds of each second that all real-time threads may use together; with -1 (no accounting) a thread
/// under deadline scheduling may be bound to a CPU.
const ACCOUNT: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const NO_ACCOUNT: &str = "-1";
/// Attempts to restore the accounting: the kernel refuses while a thread that it would not admit is ending.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The CPUs that the calling thread may use, in order.
pub fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// The CPU reserved for an emulator: the last one; none if there is only one.
pub fn own(processors: &[usize]) -> Option<usize> {
    processors.split_last().filter(|(_, others)| !others.is_empty()).map(|(own, _)| *own)
}

/// Binds the calling thread and its children to some CPUs; an empty slice changes nothing.
///
/// # Errors
///
/// The kernel's: none of the CPUs exists or may be used.
pub fn bind(processors: &[usize]) -> io::Result<()> {
    if processors.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in processors {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::other(format!("there is no processor {cpu}")));
        }
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Gives the calling thread priority over all others, on [`own`] of its CPUs. It must sleep often.
///
/// Deadline scheduling is tried first: recent kernels let starved ordinary threads run before those of
/// SCHED_FIFO for 50 ms at a time, but not before an earlier deadline.
///
/// # Errors
///
/// The kernel's: no permission, or a control group without a real-time share.
pub fn become_realtime() -> io::Result<()> {
    let all = processors();
    let bound = own(&all).is_some_and(|own| bind(&[own]).is_ok());
    if bound && without_account(schedule_by_deadline).is_ok() {
        return Ok(());
    }
    if bound {
        bind(&all)?;
    }
    schedule_by_deadline().or_else(|_| schedule_first())
}

/// Calls `act` while real-time accounting is off, then restores the accounting.
fn without_account(act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let before = fs::read_to_string(ACCOUNT)?;
    fs::write(ACCOUNT, NO_ACCOUNT)?;
    let done = act();
    for _ in 0..TRIES {
        if fs::write(ACCOUNT, before.trim()).is_ok() {
            return done;
        }
        sleep(BETWEEN_TRIES);
    }
    eprintln!("fobs-lab: {ACCOUNT} was {} and could not be set back: write that to it", before.trim());
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_processors_is_reserved() {
        assert_eq!(own(&[]), None);
        assert_eq!(own(&[3]), None);
        assert_eq!(own(&[0, 1]), Some(1));
        assert_eq!(own(&[2, 5, 7]), Some(7));
    }

    #[test]
    fn a_bound_thread_reports_its_processors() {
        let all = processors();
        assert!(!all.is_empty());
        let first = all[0];
        let seen = std::thread::spawn(move || bind(&[first]).map(|()| processors())).join().unwrap();
        assert_eq!(seen.unwrap(), [first]);
        assert!(bind(&[usize::MAX]).is_err());
        assert_eq!(processors(), all);
    }
}
