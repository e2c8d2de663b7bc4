//! The rights under which every case is played, as lines of authorized keys and as options of `fobs server`.

use std::path::PathBuf;

use super::world::PART;
use fobs_model::options::{Privileges, Restriction};
use fobs_model::rights::{Access, Action, Rights};

/// What a client may do, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// What it may do.
    pub access: Access,
    /// Owners, devices and set-id bits too.
    pub privileged: bool,
    /// Only below [`PART`]. Over ssh that is the directory of `--restrict`.
    pub part: bool,
}

impl Right {
    /// As in a line of authorized keys, and behind `--` as an option of `fobs server`.
    pub fn word(self) -> &'static str {
        self.access.name()
    }

    /// Whether the table allows it.
    pub(super) fn allows(self, action: Action) -> bool {
        self.access.allows(action)
    }

    /// The options before a key.
    pub fn options(self) -> String {
        let mut options = self.word().to_owned();
        if self.privileged {
            options.push_str(",privileged");
        }
        if self.part {
            options.push_str(&format!(",path=\"{PART}\""));
        }
        options
    }

    /// As `fobs server --restrict` has it; `None` where privileges are of no use to it.
    pub(super) fn restriction(self, directory: PathBuf) -> Option<Restriction> {
        let privileges = if self.privileged { Privileges::OfTheUser } else { Privileges::Withheld };
        let rights = Rights::new(self.access).with_privileges(privileges).ok()?;
        Some(Restriction { directory, rights })
    }

    /// In the name of a case.
    pub fn name(self) -> String {
        let mut name = self.word().to_owned();
        if self.privileged {
            name.push_str("+privileged");
        }
        if self.part {
            name.push_str("+path");
        }
        name
    }
}

/// Every right that a key can have.
pub fn known() -> Vec<Right> {
    let mut rights = Vec::new();
    for &access in Access::ALL {
        for part in [true, false] {
            for privileged in [false, true] {
                let right = Right { access, privileged, part };
                if right.restriction(PathBuf::new()).is_some() {
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
