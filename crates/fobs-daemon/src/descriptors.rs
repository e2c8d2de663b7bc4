//! File descriptors: how many a server may need, and whether the process may have them.

use super::admission::WAITING_MAX;
use super::idle::IDLE_MAX;
use super::lobby::LOBBY_MAX;
use super::strangers::STRANGERS_MAX;
use fobs_channel::secure::authorized_keys::DESCRIPTORS_PER_SESSION;
use fobs_model::options::STREAMS_MAX;
use rustix::process::{Resource, getrlimit};

/// Descriptors of a connection without a session: the socket and its clones.
const PER_CONNECTION: usize = 4;
/// Those of the process and of the server: standard streams, listeners, root, files that are read at once.
const OF_THE_SERVER: usize = 64;

/// What is wrong where the process may not open as many files as the server may need.
pub(super) fn shortage(sessions_max: usize) -> Option<String> {
    let needed = needed(sessions_max);
    let allowed = getrlimit(Resource::Nofile).current?;
    (allowed < needed as u64).then(|| {
        format!(
            "this process may open {allowed} files, and {sessions_max} sessions may need {needed}: raise the \
             limit (ulimit -n, LimitNOFILE=) or lower --sessions-max"
        )
    })
}

fn needed(sessions_max: usize) -> usize {
    let connections = 2 * STRANGERS_MAX + WAITING_MAX + 2 * IDLE_MAX;
    sessions_max
        .saturating_mul(DESCRIPTORS_PER_SESSION + STREAMS_MAX as usize)
        .saturating_add(connections * PER_CONNECTION + LOBBY_MAX + OF_THE_SERVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_of_descriptors_is_named() {
        assert_eq!(shortage(0), None);
        let line = shortage(usize::MAX).unwrap();
        assert!(line.contains("ulimit -n"), "{line}");
        assert!(needed(64) > 64 * DESCRIPTORS_PER_SESSION);
    }
}
