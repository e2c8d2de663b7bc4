//! A session that is used for long. In a process of its own, whose descriptors and memory are counted.

mod served;

use std::fs;

use fobs::{Location, Session};
use served::{Served, content, wait_for};

const OBJECTS: usize = 1000;
/// After these, what is made once is made: threads' arenas, buffers, tables.
const WARM: usize = 200;
/// Growth of resident memory, KiB, that is noise: a buffer of 4 MiB for each of the last 800 objects would be
/// 3 GiB, one of 64 KiB 50 MiB.
const NOISE_KIB: u64 = 24 << 10;

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_thousand_objects_leave_nothing_behind() {
    let served = Served::start(|_| ());
    let Location::Remote(remote) = served.remote("") else { panic!("a remote") };
    let session = Session::builder(remote).options(served.options()).open().unwrap();
    let large = content(70_000);
    let mut before = None;
    for number in 0..OBJECTS {
        let name = format!("object-{}", number % 10);
        // One in fifty goes over the data plane.
        let data = if number % 50 == 0 { &large[..] } else { &large[..number * 13 % 4000] };
        session.send(&name, data).unwrap();
        if number % 25 == 0 {
            assert!(session.recv(&name, 100_000).unwrap() == data, "{number}");
        }
        if number == WARM {
            wait_for(|| (served.handle.sessions() == 0).then_some(()));
            before = Some((descriptors(), threads(), resident_kib()));
        }
    }
    let (descriptors_then, threads_then, resident_then) = before.unwrap();
    // The last transfer over the data plane ends a little later.
    wait_for(|| (descriptors() <= descriptors_then).then_some(()));
    wait_for(|| (threads() <= threads_then).then_some(()));
    let grown = resident_kib().saturating_sub(resident_then);
    assert!(grown < NOISE_KIB, "grown by {grown} KiB from {resident_then}");
    let metrics = served.handle.metrics();
    assert!(metrics.lines().any(|line| line == "fobs_connections_total 1"), "{metrics}");
}
