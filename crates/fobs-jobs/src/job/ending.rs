//! How an attempt ended, and whether another one may do better.

use fobs_model::error::ErrorKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Exit code of a run of which nothing failed but files that were gone when they were to be read (rsync's).
const VANISHED: i32 = 24;

/// How an attempt ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ending {
    /// Exit code; none where a signal ended it, or where it was not seen to end.
    pub exit_code: Option<i32>,
    /// The `code` of its line `failed` (docs/guide.md): `sync` has other exit codes than `cp` for the same.
    pub kind: Option<String>,
    /// What it said last.
    pub message: Option<String>,
    /// Whether its destination took no more, for lack of room.
    #[serde(default)]
    pub room: RoomThere,
}

/// How a destination took what was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoomThere {
    /// Nothing says that it was full.
    #[default]
    Enough,
    /// Its device was full, or its user's quota.
    Full,
}

/// What follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It is done.
    Done,
    /// The same may succeed later: the path, the other host or this one was at fault.
    Again,
    /// A user must change something first.
    Never,
}

impl Ending {
    /// Whether the job is done, or whether trying again may help.
    pub fn outlook(&self) -> Outlook {
        // Room may be made, and then the same goes on where it stopped.
        if self.room == RoomThere::Full && self.exit_code != Some(0) {
            return Outlook::Again;
        }
        if let Some(kind) = &self.kind {
            return of_kind(ErrorKind::from_code(kind));
        }
        match self.exit_code {
            Some(0 | VANISHED) => Outlook::Done,
            None => Outlook::Again,
            Some(code) => {
                let mut kinds = ErrorKind::ALL.iter().copied();
                kinds.find(|kind| i32::from(kind.exit_code()) == code).map_or(Outlook::Never, of_kind)
            }
        }
    }
}

fn of_kind(kind: ErrorKind) -> Outlook {
    match kind {
        ErrorKind::Socket | ErrorKind::Timeout | ErrorKind::Connect | ErrorKind::Ssh => Outlook::Again,
        // By a signal that the keeper did not send: the host goes down, or a user ended this attempt.
        ErrorKind::Interrupted => Outlook::Again,
        _ => Outlook::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_is_tried_again() {
        let of = |code| Ending { exit_code: Some(code), ..Ending::default() }.outlook();
        for code in [10, 20, 30, 35, 255] {
            assert_eq!(of(code), Outlook::Again, "{code}");
        }
        for code in [1, 2, 3, 4, 5, 6, 7, 9, 11, 23, 25, 77] {
            assert_eq!(of(code), Outlook::Never, "{code}");
        }
        assert_eq!([of(0), of(24)], [Outlook::Done; 2]);
        assert_eq!(Ending::default().outlook(), Outlook::Again, "killed");
    }

    #[test]
    fn the_kind_counts_more_than_the_code_of_a_sync() {
        // rsync's 5 is an error in starting, ours is a refused right; 35 is its timeout of a connection.
        let of = |code, kind: &str| Ending {
            exit_code: Some(code),
            kind: Some(kind.to_owned()),
            ..Ending::default()
        };
        assert_eq!(of(5, "connect").outlook(), Outlook::Again);
        assert_eq!(of(35, "denied").outlook(), Outlook::Never);
        assert_eq!(of(35, "of a later release").outlook(), Outlook::Never);
    }
}
