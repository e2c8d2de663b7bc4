//! The rights of one key.

use super::{Access, Action, PipeCommand, Privileges};
use crate::error::{Error, ErrorKind, Result};

/// What the client of a key may do, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    access: Access,
    privileges: Privileges,
    /// Relative and normalised; empty is all of the root.
    paths: Vec<Vec<u8>>,
    /// What the server runs for it.
    pipe: Option<PipeCommand>,
    names: PipeNames,
}

/// Whether a client may join its program to another client's by a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PipeNames {
    /// It may not: the default.
    #[default]
    Refused,
    /// It may.
    Allowed,
}

impl Rights {
    /// This access to all of the root, without privileges.
    pub fn new(access: Access) -> Rights {
        Rights {
            access,
            privileges: Privileges::Withheld,
            paths: Vec::new(),
            pipe: None,
            names: PipeNames::Refused,
        }
    }

    /// What files may get from it.
    ///
    /// # Errors
    /// `Usage` for privileges of who chooses nothing about what is stored.
    pub fn with_privileges(self, privileges: Privileges) -> Result<Rights> {
        if privileges == Privileges::OfTheUser && !self.access.allows(Action::SetStamps) {
            let usable = Access::ALL.iter().filter(|access| access.allows(Action::SetStamps));
            let usable: Vec<_> = usable.map(|access| access.name()).collect();
            let message = format!(
                "privileged is about what files are given; it needs {}, not {}",
                usable.join(" or "),
                self.access.name()
            );
            return Err(Error::new(ErrorKind::Usage, message));
        }
        Ok(Rights { privileges, ..self })
    }

    /// Only this subtree of the root, beside those that were named before.
    ///
    /// # Errors
    /// `Usage` for one that leaves the root.
    pub fn with_path(mut self, path: &[u8]) -> Result<Rights> {
        let normal = normalised(path).ok_or_else(|| {
            let message =
                format!("path {:?} leaves the root; it must lie below", String::from_utf8_lossy(path));
            Error::new(ErrorKind::Usage, message)
        })?;
        self.paths.push(normal);
        Ok(self)
    }

    /// The server runs this for it.
    pub fn with_pipe(self, pipe: Option<PipeCommand>) -> Rights {
        Rights { pipe, ..self }
    }

    /// Whether it joins pipes by name.
    pub fn with_pipe_names(self, names: PipeNames) -> Rights {
        Rights { names, ..self }
    }

    /// Its command.
    pub fn pipe(&self) -> Option<&PipeCommand> {
        self.pipe.as_ref()
    }

    /// Whether its client may do that: by its access, or by an option of its own.
    pub fn allows(&self, action: Action) -> bool {
        match action {
            Action::RunCommand => self.pipe.is_some(),
            Action::JoinPipes => self.names == PipeNames::Allowed,
            _ => self.access.allows(action),
        }
    }

    /// Its access.
    pub fn access(&self) -> Access {
        self.access
    }

    /// What files may get from it.
    pub fn privileges(&self) -> Privileges {
        self.privileges
    }

    /// The subtrees of the root that it may access; none where it may access all of it.
    pub fn paths(&self) -> &[Vec<u8>] {
        &self.paths
    }

    /// Whether a path (raw bytes, relative to the root) lies where it may do anything. Only the name is
    /// checked; the storage ensures that no link leads out of the tree.
    pub fn reaches(&self, path: &[u8]) -> bool {
        let Some(wanted) = normalised(path) else { return false };
        let inside = |subtree: &Vec<u8>| {
            subtree.is_empty()
                || wanted
                    .strip_prefix(subtree.as_slice())
                    .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.paths.is_empty() || self.paths.iter().any(inside)
    }
}

/// A path below the root without empty and `.` components and slashes at the ends; `None` if it has a `..` or
/// a NUL. The root itself is empty.
pub fn normalised(path: &[u8]) -> Option<Vec<u8>> {
    let mut components = Vec::new();
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return None,
            name if name.contains(&0) => return None,
            name => components.push(name),
        }
    }
    Some(components.join(&b'/'))
}
