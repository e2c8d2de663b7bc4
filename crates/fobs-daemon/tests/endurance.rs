//! A daemon that has served many copies. Alone in its process, whose descriptors and memory it counts.

mod served;

use std::fs;

use served::{Served, content, wait_for};

/// Copies after which the process is as it will stay, and all copies.
const COPIES_FIRST: usize = 200;
const COPIES: usize = 1000;
/// Memory that may be added by the copies in between, bytes: 10 KiB each would be a leak. On a busy CPU more
/// threads live at once, and the allocator keeps 4 MiB for them.
const GROWTH_MAX: u64 = 8 << 20;

/// Descriptors, threads and resident bytes of this process, which is server and client.
fn usage() -> (usize, usize, u64) {
    let count = |folder: &str| fs::read_dir(folder).unwrap().count();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    (count("/proc/self/fd"), count("/proc/self/task"), kilobytes << 10)
}

#[test]
fn a_thousand_copies_in_a_row_keep_memory_and_descriptors() {
    let served = Served::start(|_| ());
    fs::write(served.root().join("small"), content(3000)).unwrap();
    let here = served.directory("here");
    let copy = |number: usize| {
        if number.is_multiple_of(2) {
            served.pull("small", &here, &served.options()).unwrap();
        } else {
            served.push(&here.join("small"), "up", &served.options()).unwrap();
        }
        served.take_events();
        served.forget_log();
    };
    (0..COPIES_FIRST).for_each(copy);
    wait_for(|| (served.handle.sessions() == 0).then_some(()));
    let (descriptors, threads, before) = usage();
    (COPIES_FIRST..COPIES).for_each(copy);
    // Threads end a little after their sessions.
    wait_for(|| (usage().0 <= descriptors && usage().1 <= threads).then_some(()));
    let after = usage().2;
    assert!(after < before + GROWTH_MAX, "{before} bytes after {COPIES_FIRST}, {after} after {COPIES}");
}
