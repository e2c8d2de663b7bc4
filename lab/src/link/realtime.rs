//! The emulator's thread runs as soon as it wakes, on a processor of its own where there is one to spare.
//!
//! It wakes up to 20,000 times a second. Were it to do so on whatever processor it ran last, it would take
//! that from a host's program each time, which no real network does to its hosts: at 1 Gbit/s a sending
//! thread was put off 4,000 to 6,000 times a second, stood still for a quarter of the time and cost twice the
//! CPU (measured on two processors).

use std::fs;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::kernel::{schedule_by_deadline, schedule_first};

/// Microseconds of each second that real-time threads may have together; -1 is no account, and then a thread
/// under deadline scheduling may be bound to a processor.
const ACCOUNT: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const NO_ACCOUNT: &str = "-1";
/// The kernel refuses to open the account again while one that it does not cover is being closed.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The processors that the calling thread may use, in order.
pub fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// The one of them that an emulator keeps to itself: the last; none where there is no other.
pub fn own(processors: &[usize]) -> Option<usize> {
    processors.split_last().filter(|(_, others)| !others.is_empty()).map(|(own, _)| *own)
}

/// Binds the calling thread, and what it starts, to some processors; to none is no change.
///
/// # Errors
///
/// The kernel's: none of them exists or may be used.
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

/// Runs the calling thread before all others, on [`own`] of its processors. It must sleep often.
///
/// Deadline scheduling is tried first: recent kernels let ordinary threads that had too little of a core run
/// before those of SCHED_FIFO for 50 ms at a time, but not before an earlier deadline.
///
/// # Errors
///
/// The kernel's: no permission, or a control group without a share of real time.
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

/// Does it while the kernel keeps no account of real time, and has it keep one again.
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
    fn the_last_processor_is_kept_where_there_are_others() {
        assert_eq!(own(&[]), None);
        assert_eq!(own(&[3]), None);
        assert_eq!(own(&[0, 1]), Some(1));
        assert_eq!(own(&[2, 5, 7]), Some(7));
    }

    #[test]
    fn a_thread_is_bound_and_tells() {
        let all = processors();
        assert!(!all.is_empty());
        let first = all[0];
        let seen = std::thread::spawn(move || bind(&[first]).map(|()| processors())).join().unwrap();
        assert_eq!(seen.unwrap(), [first]);
        assert!(bind(&[usize::MAX]).is_err());
        assert_eq!(processors(), all);
    }
}
