//! What all sessions of a daemon may use together: less than its process may, so that a session is refused a
//! part of it before an allocation of another one fails.

use fobs_model::budget::MemoryBudget;
use fobs_sys::memory;

/// Of what the process may use, the sessions have this many parts of [`PARTS`]; the rest is the program, its
/// threads and connections that have no session.
const PARTS_OF_SESSIONS: u64 = 3;
const PARTS: u64 = 4;
/// Arenas of the allocator where address space is limited: each reserves 64 MiB of it, and there may be eight
/// for each CPU.
const ARENAS_MAX: i32 = 4;

/// The memory of all sessions of this process.
pub(super) fn of_process() -> MemoryBudget {
    if memory::address_space().is_some() {
        fobs_sys::limit_arenas(ARENAS_MAX);
    }
    match memory::limit() {
        Some(limit) => {
            MemoryBudget::of(usize::try_from(limit / PARTS * PARTS_OF_SESSIONS).unwrap_or(usize::MAX))
        }
        None => MemoryBudget::of(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_memory_and_its_sessions_a_part_of_it() {
        let host = memory::limit().expect("Linux says how much");
        assert!(host > 64 << 20, "{host}");
        let budget = of_process();
        let all = budget.session_below(usize::try_from(host).expect("it fits"));
        assert!(all.expect_err("more than its part").to_string().contains("all sessions of this server"));
    }
}
