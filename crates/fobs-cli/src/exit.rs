//! The published exit codes: what each means, said once.

use fobs::ErrorKind;

/// Exit code of a run that did all it was asked.
pub const SUCCESS: u8 = 0;

/// One line for the published table.
fn meaning(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Usage => "the command line makes no sense; nothing was done",
        ErrorKind::Protocol => {
            "the two sides do not understand each other (different versions, broken messages)"
        }
        ErrorKind::NoSource => "a source does not exist or cannot be read at all; nothing was copied",
        ErrorKind::Destination => "the destination cannot be written at all; nothing was copied",
        ErrorKind::Denied => "a key is unknown, has changed, or does not give the right",
        ErrorKind::RemoteMissing => "the other host has no fobs to run (see --fobs-path)",
        ErrorKind::Integrity => "data arrived damaged again and again",
        ErrorKind::Internal => "a bug in fobs; please report it",
        ErrorKind::Socket => "a socket could not be made, bound or used",
        ErrorKind::FileIo => "reading or writing files failed and ended the copy",
        ErrorKind::Interrupted => "ended by a signal (Ctrl-C); unfinished files were removed",
        ErrorKind::Partial => "some files were not copied, all others were",
        ErrorKind::Timeout => "nothing moved for too long",
        ErrorKind::Connect => "the other host could not be reached, or UDP is blocked on the way",
        ErrorKind::Ssh => "ssh itself failed",
    }
}

/// Codes and meanings in the order of the table, from success on.
pub fn codes() -> impl Iterator<Item = (u8, &'static str)> {
    let failures = ErrorKind::ALL.into_iter().map(|kind| (kind.exit_code(), meaning(kind)));
    std::iter::once((SUCCESS, "everything was copied and verified")).chain(failures)
}

/// The table as the end of `--help`.
pub fn table() -> String {
    let rows = codes().map(|(code, meaning)| format!("\n  {code:>3}  {meaning}"));
    std::iter::once("Exit codes:".to_owned()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_kind_has_a_row_of_its_own() {
        let rows: Vec<_> = codes().collect();
        assert_eq!(rows.len(), ErrorKind::ALL.len() + 1);
        let distinct: HashSet<u8> = rows.iter().map(|(code, _)| *code).collect();
        assert_eq!(distinct.len(), rows.len(), "two kinds share an exit code: {rows:?}");
        for kind in ErrorKind::ALL {
            assert!(table().contains(&format!("{:>3}  {}", kind.exit_code(), meaning(kind))), "{kind:?}");
        }
    }

    #[test]
    fn meanings_are_one_line_each() {
        for (code, meaning) in codes() {
            assert!(
                !meaning.is_empty() && !meaning.contains('\n') && meaning.len() <= 90,
                "{code}: {meaning}"
            );
        }
    }
}
