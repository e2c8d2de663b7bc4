//! The published exit codes and their meanings.

use fobs::ErrorKind;

/// Exit code of a run that succeeded completely.
pub const SUCCESS: u8 = 0;

/// Exit code of a run of which nothing failed but files that were gone when they were to be read.
pub const VANISHED: u8 = 24;

/// Codes and meanings in the order of the table, success first.
pub fn codes() -> impl Iterator<Item = (u8, &'static str)> {
    let failures = ErrorKind::ALL.iter().copied().flat_map(|kind| {
        let vanished = (VANISHED, "some files were gone before they were read, all others were copied");
        let after = (kind == ErrorKind::Partial).then_some(vanished);
        [(kind.exit_code(), kind.meaning())].into_iter().chain(after)
    });
    std::iter::once((SUCCESS, "everything was copied and verified")).chain(failures)
}

/// What the table is headed with.
pub const HEADING: &str = "Exit codes:";

/// The table, for the end of `--help`.
pub fn table() -> String {
    let rows = codes().map(|(code, meaning)| format!("\n  {code:>3}  {meaning}"));
    std::iter::once(HEADING.to_owned()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_error_kind_has_its_own_row() {
        let rows: Vec<_> = codes().collect();
        // Success, and what vanished.
        assert_eq!(rows.len(), ErrorKind::ALL.len() + 2);
        let distinct: HashSet<u8> = rows.iter().map(|(code, _)| *code).collect();
        assert_eq!(distinct.len(), rows.len(), "two kinds share an exit code: {rows:?}");
        for &kind in ErrorKind::ALL {
            assert!(table().contains(&format!("{:>3}  {}", kind.exit_code(), kind.meaning())), "{kind:?}");
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
