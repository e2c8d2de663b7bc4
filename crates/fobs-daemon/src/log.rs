//! The server's log: the one place that says what is written of a session.
//!
//! A record is a sentence for people, which holds everything, and fields for programs. It goes to the
//! `tracing` subscriber that was current where the server was bound.

use super::asked::Count;
use super::tally::Counted;
use super::who::{Person, Visit};
use fobs::server::{SessionFigures, Wanted, Work};
use fobs_model::direction::TransferDirection;
use fobs_model::error::Error;
use fobs_model::options::sync::SyncOptions;
use fobs_model::words::rate;
use fobs_store::show_path;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tracing::{Dispatch, dispatcher, info, warn};

/// Most paths of one request in the log, and most bytes of each (`PATH_MAX`).
const PATHS_LOGGED_MAX: usize = 3;
const PATH_LOGGED_MAX: usize = 4096;

/// Where a server's records go. Clones are the same.
#[derive(Clone)]
pub(super) struct Log(Dispatch);

impl Log {
    /// The subscriber of the calling thread.
    pub(super) fn here() -> Log {
        Log(dispatcher::get_default(Clone::clone))
    }

    /// What the server itself does.
    pub(super) fn server(&self, event: &'static str, line: &str) {
        self.write(|| info!(event, "{line}"));
    }

    pub(super) fn listening(&self, address: SocketAddr, root: &str, mode: &str, key: &str) {
        let line = format!("listening on {address}, root {root}, {mode}, server key {key}");
        self.write(|| info!(event = "listening", %address, root, mode, server_key = key, "{line}"));
    }

    /// A client with a known key has said what it wants.
    pub(super) fn request(&self, visit: &Visit, wanted: Wanted<'_>) {
        let direction = verb(wanted.direction());
        let limit = visit.rate_bps.map_or_else(String::new, |bps| format!(", at most {}", rate(bps as f64)));
        self.write(|| {
            info!(
                event = "request",
                session = visit.number,
                peer = %visit.from,
                key = visit.fingerprint(),
                key_name = visit.key_name(),
                work = visit.work(),
                direction,
                key_exchange = visit.key_exchange,
                request = visit.request.as_deref(),
                rate_bps = visit.rate_bps,
                "{visit} (key exchange {}{limit})",
                visit.key_exchange.unwrap_or("unknown")
            );
        });
    }

    /// A transfer has deleted something.
    pub(super) fn deleted(&self, person: &Person, path: &str) {
        let Person { session, peer, key, key_name, request, line } = person;
        let (key, key_name, request) = (key.as_deref(), key_name.as_deref(), request.as_deref());
        self.write(|| {
            info!(event = "deleted", session, %peer, key, key_name, request, path, "{line}: deleted '{path}'");
        });
    }

    /// A transfer has stored or sent a file.
    pub(super) fn file(&self, person: &Person, path: &str, bytes: u64) {
        let Person { session, peer, key, key_name, request, line } = person;
        let (key, key_name, request) = (key.as_deref(), key_name.as_deref(), request.as_deref());
        self.write(|| {
            info!(
                event = "file", session, %peer, key, key_name, request, path, bytes,
                "{line}: file '{path}' of it, {bytes} bytes"
            );
        });
    }

    /// A session has done what it was to do.
    pub(super) fn done(&self, visit: &Visit, served: &SessionFigures, elapsed: Duration) {
        let seconds = served.seconds.min(elapsed.as_secs_f64());
        let (did, deleted) = (did(visit, served, seconds), visit.deleted);
        let (files, bytes) = (served.files, served.bytes);
        self.write(|| {
            info!(
                event = "done",
                session = visit.number,
                peer = %visit.from,
                key = visit.fingerprint(),
                key_name = visit.key_name(),
                work = visit.work(),
                direction = verb(served.direction),
                request = visit.request.as_deref(),
                code = if served.failed == 0 { "ok" } else { "partial" },
                files,
                bytes,
                resumed_bytes = served.resumed_bytes,
                directories = served.others.directories,
                links = served.others.links,
                devices = served.others.devices,
                files_failed = served.failed,
                deleted = deleted.all,
                deleted_unnamed = deleted.unnamed,
                seconds,
                seconds_total = elapsed.as_secs_f64(),
                datagrams_rejected = served.datagrams_rejected,
                "{visit}: {did}{deleted}"
            );
        });
    }

    /// A request about files by name was answered.
    pub(super) fn answered(&self, visit: &Visit) {
        let deleted = visit.deleted;
        self.write(|| {
            info!(
                event = "answered",
                session = visit.number,
                peer = %visit.from,
                key = visit.fingerprint(),
                key_name = visit.key_name(),
                work = visit.work(),
                request = visit.request.as_deref(),
                deleted = deleted.all,
                "{visit}: answered{deleted}"
            );
        });
    }

    /// A session has ended with an error.
    pub(super) fn failed(&self, visit: &Visit, error: &Error, elapsed: Duration) {
        let (code, deleted) = (error.kind.code(), visit.deleted);
        self.write(|| {
            warn!(
                event = "failed",
                session = visit.number,
                peer = %visit.from,
                key = visit.fingerprint(),
                key_name = visit.key_name(),
                work = visit.work(),
                request = visit.request.as_deref(),
                code,
                error = error.message,
                deleted = deleted.all,
                deleted_unnamed = deleted.unnamed,
                seconds_total = elapsed.as_secs_f64(),
                "{visit}: {code}: {error}{deleted}"
            );
        });
    }

    /// A line that strangers caused, the first of its kind.
    pub(super) fn stranger(&self, kind: &'static str, from: Option<SocketAddr>, line: &str) {
        let peer = from.map(|from| from.to_string());
        self.write(|| warn!(event = "refused", kind, peer = peer.as_deref(), count = 1, "{line}"));
    }

    /// More such lines, counted.
    pub(super) fn counted(&self, counted: &Counted) {
        let Counted { kind, line, count } = counted;
        self.write(|| warn!(event = "refused", kind, count, "{line}"));
    }

    fn write(&self, record: impl FnOnce()) {
        dispatcher::with_default(&self.0, record);
    }
}

fn verb(direction: TransferDirection) -> &'static str {
    match direction {
        TransferDirection::Push => "push",
        TransferDirection::Pull => "pull",
    }
}

/// What a session did. A receiving client reports the duration itself, so it is capped by ours.
fn did(visit: &Visit, served: &SessionFigures, seconds: f64) -> String {
    let (files, bytes) = (served.files, served.bytes);
    let moved = match served.direction {
        TransferDirection::Push => "received",
        TransferDirection::Pull => "sent",
    };
    match visit.asked.map(|asked| asked.work) {
        Some(Work::Probe) => return format!("{moved} {bytes} bytes of no file in {seconds:.3} s"),
        Some(Work::DryRun) => return format!("nothing was changed, in {seconds:.3} s"),
        Some(Work::Pipe) => return format!("moved {bytes} bytes in {seconds:.3} s"),
        Some(Work::Copy | Work::Sync | Work::Names) | None => {}
    }
    let some = |count: u64, what: &str| if count == 0 { String::new() } else { format!(", {count} {what}") };
    let resumed = match served.resumed_bytes {
        0 => String::new(),
        bytes => format!(", {bytes} of them verified earlier"),
    };
    let others = some(served.others.links, "links") + &some(served.others.devices, "devices");
    let failed = some(served.failed, "files failed");
    format!("{moved} {files} files, {bytes} bytes in {seconds:.3} s{resumed}{others}{failed}")
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Count { all: 0, .. } => Ok(()),
            Count { all, unnamed: 0 } => write!(f, ", deleted {all}"),
            Count { all, unnamed } => write!(f, ", deleted {all}, {unnamed} of them not named here"),
        }
    }
}

/// A client's request, for the log: what it will do, and where.
pub(super) fn request(wanted: Wanted<'_>) -> String {
    let (open, examine) = match wanted {
        Wanted::Files(request) => return request.describe(),
        Wanted::Pipe(request) => return request.describe(),
        Wanted::Transfer { open, examine } => (open, examine),
    };
    let (paths, verb) = (shown(&open.paths), verb(open.direction));
    let to_or_of = match open.direction {
        TransferDirection::Push => "to",
        TransferDirection::Pull => "of",
    };
    let examined =
        examine.map_or_else(String::new, |directory| format!("examination of {}, then ", show(directory)));
    examined
        + &match (wanted.work(), &open.sync) {
            (Work::Probe, _) => format!("probe of the path ({verb} {to_or_of} {paths})"),
            (Work::DryRun, Some(sync)) => format!("dry run of {} {to_or_of} {paths}", sync_command(sync)),
            (_, Some(sync)) => format!("{} {to_or_of} {paths}", sync_command(sync)),
            (_, None) => format!("{verb} {to_or_of} {paths}"),
        }
}

/// A request to say what patterns stand for.
pub(super) fn expansion(paths: &[Vec<u8>]) -> String {
    format!("expand {}", shown(paths))
}

/// The first of several paths.
fn shown(paths: &[Vec<u8>]) -> String {
    let named: Vec<String> = paths.iter().take(PATHS_LOGGED_MAX).map(|path| show(path)).collect();
    match paths.len().saturating_sub(PATHS_LOGGED_MAX) {
        0 => named.join(", "),
        count => format!("{} and {count} more", named.join(", ")),
    }
}

fn show(path: &[u8]) -> String {
    format!("'{}'", show_path(&path[..path.len().min(PATH_LOGGED_MAX)]))
}

/// A sync with those of its options that remove something.
fn sync_command(sync: &SyncOptions) -> String {
    let mut command = "sync".to_owned();
    for (is_set, option) in [
        (sync.delete.is_some(), " --delete"),
        (sync.backup.is_some(), " --backup"),
        (sync.remove_source_files, " --remove-source-files"),
    ] {
        command += if is_set { option } else { "" };
    }
    if sync.only_delete { format!("the deletions of {command}") } else { command }
}
