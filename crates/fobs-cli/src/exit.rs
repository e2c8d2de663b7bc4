//! The published exit codes and their meanings.

use fobs::ErrorKind;

/// Exit code of a run that succeeded completely.
pub const SUCCESS: u8 = 0;

/// The row of the published table.
fn meaning(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Usage => "usage error; nothing was done",
        ErrorKind::Protocol => "protocol error between the two sides (different versions, invalid messages)",
        ErrorKind::NoSource => "a source does not exist or cannot be read; nothing was copied",
        ErrorKind::Destination => "the destination cannot be written; nothing was copied",
        ErrorKind::Denied => "access denied: a key is unknown, has changed, or lacks the right",
        ErrorKind::RemoteMissing => "fobs was not found on the other host (see --fobs-path)",
        ErrorKind::Integrity => "data failed its verification repeatedly",
        ErrorKind::Internal => "a bug in fobs; please report it",
        ErrorKind::Socket => "a socket could not be created, bound or used",
        ErrorKind::FileIo => "reading or writing a file failed, which ended the copy",
        ErrorKind::Interrupted => "interrupted by a signal (Ctrl-C); the same command continues the copy",
        ErrorKind::Partial => "some files were not copied, all others were",
        ErrorKind::DeleteLimit => {
            "--max-delete left some of what a sync would have deleted; the rest was done"
        }
        ErrorKind::Timeout => "no progress for too long",
        ErrorKind::Connect => {
            "the other host is unreachable or full, nothing carries the data, or the connection broke"
        }
        ErrorKind::Ssh => "ssh itself failed",
    }
}

/// Codes and meanings in the order of the table, success first.
pub fn codes() -> impl Iterator<Item = (u8, &'static str)> {
    let failures = ErrorKind::ALL.into_iter().map(|kind| (kind.exit_code(), meaning(kind)));
    std::iter::once((SUCCESS, "everything was copied and verified")).chain(failures)
}

/// The table, for the end of `--help`.
pub fn table() -> String {
    let rows = codes().map(|(code, meaning)| format!("\n  {code:>3}  {meaning}"));
    std::iter::once("Exit codes:".to_owned()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_error_kind_has_its_own_row() {
        let rows: Vec<_> = codes().collect();
        assert_eq!(rows.len(), ErrorKind::ALL.len() + 1);
        let distinct: HashSet<u8> = rows.iter().map(|(code, _)| *code).collect();
        assert_eq!(distinct.len(), rows.len(), "two kinds share an exit code: {rows:?}");
        for kind in ErrorKind::ALL {
            assert!(table().contains(&format!("{:>3}  {}", kind.exit_code(), meaning(kind))), "{kind:?}");
        }
    }

    #[test]
    fn every_meaning_is_one_short_line() {
        for (code, meaning) in codes() {
            assert!(
                !meaning.is_empty() && !meaning.contains('\n') && meaning.len() <= 90,
                "{code}: {meaning}"
            );
        }
    }
}
