//! The lines of a server's log.

use crate::control::message::Open;
use crate::direction::TransferDirection;
use crate::secure::identity::PublicKey;
use crate::server::SessionFigures;
use crate::storage::show_path;
use std::time::Duration;

/// Most paths of one request in the log, and most bytes of each (`PATH_MAX`).
const PATHS_LOGGED_MAX: usize = 3;
const PATH_LOGGED_MAX: usize = 4096;
/// Characters of a key's fingerprint in the log: `SHA256:` and 72 bits, enough to distinguish keys.
const FINGERPRINT_CHARS: usize = 7 + 12;

/// The start of a key's fingerprint.
pub(super) fn short_fingerprint(key: &PublicKey) -> String {
    key.fingerprint().chars().take(FINGERPRINT_CHARS).collect()
}

/// A client's request, for the log.
pub(super) fn request(open: &Open) -> String {
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

/// The outcome of a session, for the log. A receiving client reports the duration itself, so it is capped by
/// ours.
pub(super) fn log_line(served: &SessionFigures, elapsed: Duration) -> String {
    let verb = match served.direction {
        TransferDirection::Push => "received",
        TransferDirection::Pull => "sent",
    };
    let seconds = served.seconds.min(elapsed.as_secs_f64());
    format!("{verb} {} files, {} bytes in {seconds:.3} s", served.files, served.bytes)
}
