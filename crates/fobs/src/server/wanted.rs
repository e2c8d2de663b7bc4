//! What a client wants, as it is judged.

use fobs_model::direction::TransferDirection;
use fobs_model::message::files::FileRequest;
use fobs_model::message::{Open, PipeRequest};

/// What a client wants to be judged.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    Transfer {
        open: &'a Open,
        /// The directory of an examination that comes first.
        examine: Option<&'a [u8]>,
    },
    Files(&'a FileRequest),
    Pipe(&'a PipeRequest),
}

/// What a request is about: whether anything is moved or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Copy,
    Sync,
    /// A sync that only says what it would do.
    DryRun,
    /// It tries the path, with data of no file.
    Probe,
    /// Files by name.
    Names,
    /// A pipe between two programs.
    Pipe,
}

impl Wanted<'_> {
    /// Which right it needs: to read, or to write.
    pub fn direction(self) -> TransferDirection {
        match self {
            Wanted::Transfer { open, .. } => open.direction,
            Wanted::Files(request) if request.writes() => TransferDirection::Push,
            Wanted::Files(_) => TransferDirection::Pull,
            // It moves bytes both ways, and the client begins.
            Wanted::Pipe(_) => TransferDirection::Push,
        }
    }

    /// What is done for it.
    pub fn work(self) -> Work {
        let open = match self {
            Wanted::Transfer { open, .. } => open,
            Wanted::Files(_) => return Work::Names,
            Wanted::Pipe(_) => return Work::Pipe,
        };
        match &open.sync {
            _ if open.probe.is_some() => Work::Probe,
            Some(sync) if sync.dry_run => Work::DryRun,
            Some(_) => Work::Sync,
            None => Work::Copy,
        }
    }

    /// Which command it belongs to, if that may come again.
    pub fn transfer_id(self) -> Option<[u8; 16]> {
        match self {
            Wanted::Transfer { open, .. } => open.resuming.transfer_id,
            Wanted::Files(_) | Wanted::Pipe(_) => None,
        }
    }
}
