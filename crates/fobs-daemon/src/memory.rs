//! What all sessions of a daemon may use together: less than its process may, so that a session is refused a
//! part of it before an allocation of another one fails.

use std::fs::read_to_string;

use rustix::process::{Resource, getrlimit};

use fobs_model::budget::MemoryBudget;

/// Of what the process may use, the sessions have this many parts of [`PARTS`]; the rest is the program, its
/// threads and connections that have no session.
const PARTS_OF_SESSIONS: u64 = 3;
const PARTS: u64 = 4;
/// Arenas of the allocator where address space is limited: each reserves 64 MiB of it, and there may be eight
/// for each CPU.
const ARENAS_MAX: i32 = 4;

/// The memory of all sessions of this process.
pub(super) fn of_process() -> MemoryBudget {
    let space = limited(Resource::As);
    if space.is_some() {
        fobs_sys::limit_arenas(ARENAS_MAX);
    }
    let limits = [space, limited(Resource::Data), of_cgroup(), of_host()];
    match limits.into_iter().flatten().min() {
        Some(limit) => {
            MemoryBudget::of(usize::try_from(limit / PARTS * PARTS_OF_SESSIONS).unwrap_or(usize::MAX))
        }
        None => MemoryBudget::of(usize::MAX),
    }
}

fn limited(resource: Resource) -> Option<u64> {
    getrlimit(resource).current
}

/// The least limit of the cgroups (version 2) that the process is in.
fn of_cgroup() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let above = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]);
    let limit =
        |group: &str| read_to_string(format!("/sys/fs/cgroup{group}/memory.max")).ok()?.trim().parse().ok();
    above.filter_map(limit).min()
}

/// All memory of the host.
fn of_host() -> Option<u64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_memory_and_its_sessions_a_part_of_it() {
        let host = of_host().expect("Linux says how much");
        assert!(host > 64 << 20, "{host}");
        let budget = of_process();
        let all = budget.session_below(usize::try_from(host).expect("it fits"));
        assert!(all.expect_err("more than its part").to_string().contains("all sessions of this server"));
    }
}
