//! The server's log: the one place that says what is written of a session.
//!
//! A record is a sentence for people, which holds everything, and fields for programs. It goes to the
//! `tracing` subscriber that was current where the server was bound.

use super::tally::Counted;
use super::visit::Visit;
use crate::direction::TransferDirection;
use crate::error::Error;
use crate::secure::identity::PublicKey;
use crate::server::{SessionFigures, Wanted};
use crate::storage::show_path;
use std::net::SocketAddr;
use std::time::Duration;
use tracing::{Dispatch, dispatcher, info, warn};

/// Most paths of one request in the log, and most bytes of each (`PATH_MAX`).
const PATHS_LOGGED_MAX: usize = 3;
const PATH_LOGGED_MAX: usize = 4096;
/// Characters of a key's fingerprint in the log: `SHA256:` and 72 bits, enough to distinguish keys.
const FINGERPRINT_CHARS: usize = 7 + 12;

/// Where a server's records go.
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
        self.write(|| {
            info!(
                event = "request",
                session = visit.number,
                peer = %visit.from,
                key = visit.fingerprint(),
                key_name = visit.key_name(),
                direction,
                request = visit.request.as_deref(),
                "{visit}"
            );
        });
    }

    /// A session has moved what it was to move. A receiving client reports the duration itself, so it is
    /// capped by ours.
    pub(super) fn done(&self, visit: &Visit, served: &SessionFigures, elapsed: Duration) {
        let seconds = served.seconds.min(elapsed.as_secs_f64());
        let done = match served.direction {
            TransferDirection::Push => "received",
            TransferDirection::Pull => "sent",
        };
        let failed = match served.failed {
            0 => String::new(),
            count => format!(", {count} files failed"),
        };
        let resumed = match served.resumed_bytes {
            0 => String::new(),
            bytes => format!(", {bytes} of them verified earlier"),
        };
        let (files, bytes) = (served.files, served.bytes);
        self.write(|| {
            info!(
                event = "done",
                session = visit.number,
                peer = %visit.from,
                key = visit.fingerprint(),
                key_name = visit.key_name(),
                direction = verb(served.direction),
                request = visit.request.as_deref(),
                files,
                bytes,
                resumed_bytes = served.resumed_bytes,
                files_failed = served.failed,
                seconds,
                seconds_total = elapsed.as_secs_f64(),
                datagrams_rejected = served.datagrams_rejected,
                "{visit}: {done} {files} files, {bytes} bytes in {seconds:.3} s{resumed}{failed}"
            );
        });
    }

    /// A request about files by name was answered.
    pub(super) fn answered(&self, visit: &Visit) {
        self.write(|| {
            info!(
                event = "answered",
                session = visit.number,
                peer = %visit.from,
                key = visit.fingerprint(),
                key_name = visit.key_name(),
                request = visit.request.as_deref(),
                "{visit}: answered"
            );
        });
    }

    /// A session has ended with an error.
    pub(super) fn failed(&self, visit: &Visit, error: &Error, elapsed: Duration) {
        let code = error.kind.code();
        self.write(|| {
            warn!(
                event = "failed",
                session = visit.number,
                peer = %visit.from,
                key = visit.fingerprint(),
                key_name = visit.key_name(),
                request = visit.request.as_deref(),
                code,
                error = error.message,
                seconds_total = elapsed.as_secs_f64(),
                "{visit}: {code}: {error}"
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

/// The start of a key's fingerprint.
pub(super) fn short_fingerprint(key: &PublicKey) -> String {
    key.fingerprint().chars().take(FINGERPRINT_CHARS).collect()
}

/// A client's request, for the log.
pub(super) fn request(wanted: Wanted<'_>) -> String {
    let open = match wanted {
        Wanted::Files(request) => return request.describe(),
        Wanted::Transfer(open) => open,
    };
    let verb = match open.direction {
        TransferDirection::Push => "push to",
        TransferDirection::Pull => "pull of",
    };
    let show = |path: &[u8]| format!("'{}'", show_path(&path[..path.len().min(PATH_LOGGED_MAX)]));
    let named: Vec<String> = open.paths.iter().take(PATHS_LOGGED_MAX).map(|path| show(path)).collect();
    let more = match open.paths.len().saturating_sub(PATHS_LOGGED_MAX) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!("{verb} {}{more}", named.join(", "))
}
