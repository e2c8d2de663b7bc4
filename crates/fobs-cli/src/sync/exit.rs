//! The exit codes of a sync: those of rsync, by what happened here.

use fobs::SyncEnd;
use fobs::event::{FileError, Outcome};

/// How a sync with this outcome ends.
pub fn end_of(outcome: &Outcome) -> SyncEnd {
    let summary = match outcome {
        Ok(summary) => summary,
        Err(error) => return error.sync_end(),
    };
    let errors = &summary.errors;
    if errors.iter().any(FileError::device_failed) {
        // rsync ends there; here, what still fits is copied.
        SyncEnd::FileIo
    } else if errors.iter().any(|error| !error.has_vanished()) {
        SyncEnd::Partial
    } else if !errors.is_empty() {
        SyncEnd::Vanished
    } else if summary.deletions_left > 0 {
        SyncEnd::DeleteLimit
    } else {
        SyncEnd::Done
    }
}

/// Codes and meanings, for the manual.
pub fn codes() -> impl Iterator<Item = (u8, &'static str)> {
    SyncEnd::ALL.iter().map(|end| {
        let (code, _, meaning) = end.row();
        (code, meaning)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use fobs::event::Summary;
    use fobs::{Error, ErrorKind};

    #[test]
    fn outcomes_end_with_codes_of_rsync() {
        let of = |messages: &[&str], deletions_left| {
            let error = |message: &&str| FileError { path: b"a".to_vec(), message: (*message).to_owned() };
            let errors = messages.iter().map(error).collect();
            end_of(&Ok(Summary { errors, deletions_left, ..Summary::default() })).code()
        };
        let (gone, full) = ("file has vanished: 'a'", "cannot write 'a': No space left on device; make room");
        let denied = "cannot write 'a: No space left on device': Permission denied; change its permissions";
        let table: [(&[&str], u8); 6] = [
            (&[], 0),
            (&[gone], 24),
            (&[gone, denied], 23),
            (&[denied], 23),
            (&[denied, full], 11),
            (&[full], 11),
        ];
        for (messages, code) in table {
            assert_eq!(of(messages, 0), code, "{messages:?}");
        }
        assert_eq!((of(&[], 1), of(&[gone], 1)), (25, 24));
        let failed = |kind| end_of(&Err(Error::new(kind, "why"))).code();
        assert_eq!([ErrorKind::NoSource, ErrorKind::Timeout, ErrorKind::Ssh].map(failed), [23, 30, 255]);
    }

    #[test]
    fn the_guide_has_the_table_of_exit_codes() {
        let rows: String = codes().map(|(code, meaning)| format!("| {code} | {meaning} |\n")).collect();
        let heading = "| `fobs sync` | as rsync's code of that number |\n|---|---|\n";
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
        let text = std::fs::read_to_string(&file).expect("a checkout");
        let start = text.find(heading).expect("the table of exit codes") + heading.len();
        let end = text[start..].find("\n\n").map_or(text.len(), |at| start + at + 1);
        if std::env::var_os("FOBS_GOLDEN").is_some_and(|word| word == "write") {
            let whole = [&text[..start], &rows, &text[end..]].concat();
            std::fs::write(&file, whole).expect("a checkout that can be written");
        } else {
            assert_eq!(&text[start..end], rows, "FOBS_GOLDEN=write makes the table of docs/guide.md anew");
        }
    }
}
