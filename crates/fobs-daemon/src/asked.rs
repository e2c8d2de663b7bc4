//! Who asks, and what for, as the log and the counters know it.

use fobs::server::{Wanted, Work};
use fobs_model::direction::TransferDirection;
use fobs_model::message::Open;
use fobs_store::means_contents;

/// What a client has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) work: Work,
    pub(super) direction: TransferDirection,
}

impl Asked {
    pub(super) fn of(wanted: Wanted<'_>) -> Asked {
        Asked { work: wanted.work(), direction: wanted.direction() }
    }
}

/// For the log.
pub(super) fn work_name(work: Work) -> &'static str {
    match work {
        Work::Copy => "copy",
        Work::Sync => "sync",
        Work::DryRun => "dry_run",
        Work::Probe => "probe",
        Work::Names => "files",
        Work::Pipe => "pipe",
    }
}

/// What the paths within a transfer are below, on this side; empty where several sources make that unknown.
pub(super) fn top_of(wanted: Wanted<'_>) -> Vec<u8> {
    let Wanted::Transfer { open: Open { paths, direction, .. }, .. } = wanted else { return Vec::new() };
    match (direction, &paths[..]) {
        (TransferDirection::Push, [destination]) => destination.clone(),
        (TransferDirection::Pull, [source]) if means_contents(source) => source.clone(),
        (TransferDirection::Pull, [source]) => {
            let end = source.iter().rposition(|&byte| byte == b'/');
            source[..end.unwrap_or(0)].to_vec()
        }
        _ => Vec::new(),
    }
}

/// How many names a transfer has deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) all: u64,
    /// Those that have no line in the log.
    pub(super) unnamed: u64,
}
