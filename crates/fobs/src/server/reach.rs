//! What a session can reach below its root, as the kernel keeps it: the widest that its rights may need.

use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::Privileges;
use fobs_model::rights::{Action, Rights};
use fobs_store::{Purpose, anchor};
use fobs_sys::confine::{Access, Domain, Grant, Tcp};
use std::os::fd::OwnedFd;

/// Where, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    access: Access,
    /// Subtrees of the root; empty means all of it.
    paths: Vec<Vec<u8>>,
}

impl Reach {
    /// What these rights may need at a server that is `read_only` or not.
    pub fn of(rights: &Rights, read_only: bool) -> Reach {
        let access = match rights.privileges() {
            _ if read_only || !rights.access().allows(Action::Create) => Access::Read,
            // What writes also reads: its own journal, and the directory that is synced.
            Privileges::OfTheUser => Access::WriteDevices,
            Privileges::Withheld if rights.access().allows(Action::Delete) => Access::Write,
            Privileges::Withheld => Access::Deliver,
        };
        Reach { access, paths: rights.paths().to_vec() }
    }

    /// Whether it is all that `other` is.
    pub fn covers(&self, other: &Reach) -> bool {
        let inside = |path: &Vec<u8>| self.paths.contains(path);
        let all_of_it = self.paths.is_empty() || (!other.paths.is_empty() && other.paths.iter().all(inside));
        self.access >= other.access && all_of_it
    }

    /// Whether something is written.
    pub fn writes(&self) -> bool {
        self.access > Access::Read
    }

    /// The domain of a session that has this reach below `root`.
    pub fn domain(&self, root: &OwnedFd, tcp: Tcp) -> Result<Domain> {
        let purpose = if self.writes() { Purpose::Writing } else { Purpose::Reading };
        let all_of_it = [Vec::new()];
        let paths = if self.paths.is_empty() { &all_of_it[..] } else { &self.paths[..] };
        let mut grants = Vec::new();
        for path in paths {
            let at = anchor(root, path, purpose).map_err(|errno| {
                let why = std::io::Error::from(errno);
                let message =
                    format!("the server cannot open its directory: {why}; ask its operator to look");
                Error::new(ErrorKind::FileIo, message)
            })?;
            grants.extend(at.map(|at| Grant { at, access: self.access }));
        }
        Ok(Domain::of_session(grants, tcp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_model::rights;

    fn reach(access: rights::Access, privileges: Privileges, paths: &[&str]) -> Reach {
        let rights = Rights::new(access).with_privileges(privileges).expect("it may write");
        let rights = paths
            .iter()
            .fold(rights, |rights, path| rights.with_path(path.as_bytes()).expect("it lies below the root"));
        Reach::of(&rights, false)
    }

    #[test]
    fn a_wider_reach_covers_a_narrower_one() {
        use rights::Access::{AppendOnly, ReadOnly, ReadWrite, WriteOnly};
        let withheld = Privileges::Withheld;
        let all = reach(ReadWrite, Privileges::OfTheUser, &[]);
        let two = reach(ReadWrite, withheld, &["a", "b"]);
        for (wider, other, covers) in [
            (&all, &two, true),
            (&two, &all, false),
            (&two, &reach(ReadOnly, withheld, &["b"]), true),
            (&two, &reach(WriteOnly, withheld, &["c"]), false),
            (&two, &reach(AppendOnly, withheld, &["a"]), true),
            (&reach(ReadOnly, withheld, &["a"]), &reach(WriteOnly, withheld, &["a"]), false),
            (&reach(WriteOnly, withheld, &[]), &reach(WriteOnly, Privileges::OfTheUser, &[]), false),
        ] {
            assert_eq!(wider.covers(other), covers, "{wider:?} {other:?}");
        }
    }

    #[test]
    fn a_server_that_is_read_only_writes_for_nobody() {
        let rights = Rights::new(rights::Access::ReadWrite);
        let rights = rights.with_privileges(Privileges::OfTheUser).expect("it may write");
        assert!(Reach::of(&rights, false).writes() && !Reach::of(&rights, true).writes());
    }
}
