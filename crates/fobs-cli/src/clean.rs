//! `fobs clean`: prints what interrupted copies have left, and what became of it.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fobs::clean::{CleanOptions, Fate, Leftover, LeftoverKind, clean};
use fobs::{Error, ErrorKind, Result};

use crate::args::CleanArgs;
use crate::output::printable_path;
use crate::units::show_bytes;

/// Runs `fobs clean`.
pub fn run(args: &CleanArgs) -> Result<()> {
    let (mut failed, mut printed) = (0_u64, Ok(()));
    let options = CleanOptions { recursive: args.recursive, dry_run: args.dry_run };
    clean(&args.directory, options, &mut |leftover| {
        failed += u64::from(matches!(leftover.fate, Fate::Failed(_)));
        if printed.is_ok() {
            printed = writeln!(io::stdout().lock(), "{}", line(&leftover));
        }
    })?;
    match (failed, printed) {
        (1.., _) => Err(Error::new(ErrorKind::Partial, format!("{failed} of these could not be removed"))),
        (0, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::FileIo, format!("cannot print what was found: {error}")))
        }
        _ => Ok(()),
    }
}

fn line(leftover: &Leftover) -> String {
    let what = match &leftover.kind {
        LeftoverKind::Journal { of, files, bytes } => {
            let of = of.as_ref().map_or("several names".to_owned(), |of| format!("'{}'", printable_path(of)));
            let files =
                if *files == 1 { "1 complete file".to_owned() } else { format!("{files} complete files") };
            format!("journal of a copy of {of}: {files}, {} kept", show_bytes(*bytes))
        }
        // Of a running copy it is not read at all.
        LeftoverKind::UnreadableJournal if leftover.fate == Fate::InUse => "journal".to_owned(),
        LeftoverKind::UnreadableJournal => "journal that this version cannot read".to_owned(),
        LeftoverKind::Temporary { bytes } => format!("incomplete file, {}", show_bytes(*bytes)),
    };
    let fate = match &leftover.fate {
        Fate::Removed => "removed".to_owned(),
        Fate::Found => "would be removed".to_owned(),
        Fate::InUse => "stays: a running copy uses it".to_owned(),
        Fate::Recent => "stays: a running copy may use it, it changed less than an hour ago".to_owned(),
        Fate::Foreign => "stays: not of fobs, or not of this user".to_owned(),
        Fate::Failed(reason) => format!("cannot be removed: {reason}"),
    };
    let path = printable_path(leftover.path.as_os_str().as_bytes());
    format!("{path}: {what}; written {} ago; {fate}", show_age(leftover.age))
}

fn show_age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_it_was_and_what_became_of_it() {
        let kind = LeftoverKind::Journal { of: Some(b"set".to_vec()), files: 3, bytes: 1_500_000_000 };
        let leftover = Leftover {
            path: "d/.set.fobs-journal".into(),
            kind,
            age: Duration::from_secs(7300),
            fate: Fate::Removed,
        };
        assert_eq!(
            line(&leftover),
            "d/.set.fobs-journal: journal of a copy of 'set': 3 complete files, 1.50 GB kept; written 2 h ago; removed"
        );
        let temporary = Leftover {
            path: "d/.x.fobs-abc123".into(),
            kind: LeftoverKind::Temporary { bytes: 1 },
            age: Duration::from_secs(400_000),
            fate: Fate::InUse,
        };
        assert_eq!(
            line(&temporary),
            "d/.x.fobs-abc123: incomplete file, 1 byte; written 4 days ago; stays: a running copy uses it"
        );
        let journal = Leftover {
            path: "d/.x.fobs-journal".into(),
            kind: LeftoverKind::UnreadableJournal,
            age: Duration::from_secs(1),
            fate: Fate::InUse,
        };
        assert_eq!(
            line(&journal),
            "d/.x.fobs-journal: journal; written 1 s ago; stays: a running copy uses it"
        );
        assert_eq!(
            line(&Leftover { fate: Fate::Found, ..journal }),
            "d/.x.fobs-journal: journal that this version cannot read; written 1 s ago; would be removed"
        );
    }
}
