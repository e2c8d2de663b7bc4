//! The rights under which every case is played, as lines of authorized keys and as options of `fobs server`.

#[cfg(any(test, feature = "fuzzing"))]
use std::path::PathBuf;

#[cfg(any(test, feature = "fuzzing"))]
use crate::options::{DirectionRights, Privileges, Restriction};
use crate::secure::authorized_keys;
use crate::secure::identity::Identity;

use super::world::PART;

/// The words for what a key may do. One that this build does not know is left out by [`known`].
const WORDS: [&str; 4] = ["read-only", "read-write", "write-only", "append-only"];

/// What a client may do, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// As in a line of authorized keys, and behind `--` as an option of `fobs server`.
    pub word: &'static str,
    /// Owners, devices and set-id bits too.
    pub privileged: bool,
    /// Only below [`PART`]. Over ssh that is the directory of `--restrict`.
    pub part: bool,
}

/// What a right leaves alone: the checks after a case.
impl Right {
    /// Whether anything may change.
    pub(super) fn writes(self) -> bool {
        self.word != "read-only"
    }

    /// Whether content and names may be told.
    pub(super) fn reads(self) -> bool {
        matches!(self.word, "read-only" | "read-write")
    }

    /// Whether names may vanish.
    pub(super) fn removes(self) -> bool {
        self.word == "read-write"
    }

    /// Whether content of names that exist may be replaced.
    pub(super) fn replaces(self) -> bool {
        matches!(self.word, "read-write" | "write-only")
    }

    /// The options before a key.
    pub fn options(self) -> String {
        let mut options = self.word.to_owned();
        if self.privileged {
            options.push_str(",privileged");
        }
        if self.part {
            options.push_str(&format!(",path=\"{PART}\""));
        }
        options
    }

    /// As `fobs server --restrict` has it.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn restriction(self, directory: PathBuf) -> Restriction {
        let all = [DirectionRights::ReadOnly, DirectionRights::ReadWrite, DirectionRights::WriteOnly];
        let direction =
            all.into_iter().find(|it| it.name() == self.word).unwrap_or(DirectionRights::ReadOnly);
        let privileges = if self.privileged { Privileges::OfTheUser } else { Privileges::Withheld };
        Restriction { directory, direction, privileges }
    }

    /// In the name of a case.
    pub fn name(self) -> String {
        let mut name = self.word.to_owned();
        if self.privileged {
            name.push_str("+privileged");
        }
        if self.part {
            name.push_str("+path");
        }
        name
    }
}

/// Every right that this build knows.
pub fn known() -> Vec<Right> {
    let mut rights = Vec::new();
    let key = Identity::generate().public();
    for word in WORDS {
        for part in [true, false] {
            for privileged in [false, true] {
                let right = Right { word, privileged, part };
                if authorized_keys::parse(format!("{} {key}", right.options()).as_bytes()).is_ok() {
                    rights.push(right);
                }
            }
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_build_is_played() {
        let names: Vec<String> = known().iter().map(|right| right.name()).collect();
        for name in
            ["read-only", "read-only+path", "read-write", "read-write+privileged+path", "write-only+path"]
        {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        // Privileges are about what is written.
        assert!(!names.iter().any(|name| name.starts_with("read-only+privileged")), "{names:?}");
    }
}
