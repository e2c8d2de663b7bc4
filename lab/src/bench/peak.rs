//! Peak resident memory of the processes of a control group, and what their threads cost.

use std::fs;
use std::thread;
use std::time::Duration;

use super::record::{Ends, ThreadTimes};
use super::threads::Watched;
use crate::run::group::Group;
use crate::run::over::Watch;

/// The peak is the kernel's own high-water mark: each process needs to be seen only once before it ends.
const INTERVAL: Duration = Duration::from_millis(20);

/// Watches both ends until the run is over; returns the largest peak of any one process of each end, bytes,
/// and the time that their threads had a CPU.
pub fn peaks(groups: &Ends<Group>, over: &Watch) -> (Ends<u64>, Ends<ThreadTimes>) {
    let mut peaks = Ends { client: 0, server: 0 };
    let mut watched = Ends::<Watched>::default();
    while !over.is_over() {
        peaks.client = peaks.client.max(largest(&groups.client));
        peaks.server = peaks.server.max(largest(&groups.server));
        watched.client.look(&groups.client);
        watched.server.look(&groups.server);
        thread::park_timeout(INTERVAL);
    }
    (peaks, Ends { client: watched.client.times(), server: watched.server.times() })
}

fn largest(group: &Group) -> u64 {
    let status = |pid| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pids = group.pids().into_iter().map(|pid| pid.as_raw_nonzero());
    pids.map(|pid| high_water(&status(pid))).max().unwrap_or(0)
}

/// `VmHWM` of a `/proc/PID/status`, bytes; 0 for a process that has ended.
fn high_water(status: &str) -> u64 {
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read_in_bytes() {
        assert_eq!(high_water("Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t  1234 kB\n"), 1234 * 1024);
        assert_eq!(high_water("Name:\tx\n"), 0);
    }
}
