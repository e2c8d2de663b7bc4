//! Who asks, and what for, as the log and the counters know it.

use super::visit::Visit;
use fobs::server::{Wanted, Work};
use fobs_model::direction::TransferDirection;
use fobs_model::message::Open;
use fobs_store::means_contents;
use std::net::SocketAddr;

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
    }
}

/// Who asks, for lines of the log that are written while the transfer runs.
pub(super) struct Person {
    pub(super) session: u64,
    pub(super) peer: SocketAddr,
    /// The whole fingerprint of the key.
    pub(super) key: Option<String>,
    pub(super) key_name: Option<String>,
    pub(super) request: Option<String>,
    /// How lines of the log begin.
    pub(super) line: String,
}

impl Person {
    pub(super) fn of(visit: &Visit) -> Person {
        Person {
            session: visit.number,
            peer: visit.from,
            key: visit.fingerprint(),
            key_name: visit.key_name().map(str::to_owned),
            request: visit.request.clone(),
            line: visit.to_string(),
        }
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
