//! How a sync ends: the exit codes of `fobs sync`, which are rsync's.

use super::ErrorKind;

/// An end of `fobs sync`. Scripts that call rsync look at its codes, which tell apart other things than
/// [`ErrorKind`] does: a failure whose kind does not say enough has its own ([`super::Error::ends_sync`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncEnd {
    /// Everything is as it should be.
    Done,
    /// Options or what they name.
    Usage,
    /// What came is not the protocol, or not a version of it that is known here.
    Protocol,
    /// The destination cannot be entered, or is not what the sources need.
    Selection,
    /// A method that is not known here: an encoding, a checksum.
    Unsupported,
    /// The other side refuses the request.
    Refused,
    /// A defect of this program; rsync has no such code.
    Defect,
    /// A connection could not be made.
    Socket,
    /// A file or directory that everything else needs cannot be made, read or written.
    FileIo,
    /// The connection or the other side ended too early, or its data is damaged.
    Stream,
    /// What was asked for could not be printed.
    Diagnostics,
    /// The remote shell cannot be started.
    RemoteShell,
    /// A signal.
    Signal,
    /// No memory.
    Memory,
    /// Some files were not copied.
    Partial,
    /// Files were gone before they were read.
    Vanished,
    /// `--max-delete` left some.
    DeleteLimit,
    /// Nothing moved, or the time was over.
    Timeout,
    /// Nothing answered a connection in time.
    ConnectTimeout,
    /// There is no program over there.
    NoProgram,
    /// ssh itself failed.
    Ssh,
}

impl SyncEnd {
    /// All of them, in the order of their codes.
    pub const ALL: &[SyncEnd] = &[
        SyncEnd::Done,
        SyncEnd::Usage,
        SyncEnd::Protocol,
        SyncEnd::Selection,
        SyncEnd::Unsupported,
        SyncEnd::Refused,
        SyncEnd::Defect,
        SyncEnd::Socket,
        SyncEnd::FileIo,
        SyncEnd::Stream,
        SyncEnd::Diagnostics,
        SyncEnd::RemoteShell,
        SyncEnd::Signal,
        SyncEnd::Memory,
        SyncEnd::Partial,
        SyncEnd::Vanished,
        SyncEnd::DeleteLimit,
        SyncEnd::Timeout,
        SyncEnd::ConnectTimeout,
        SyncEnd::NoProgram,
        SyncEnd::Ssh,
    ];

    /// The row of the table: the code, the name in `abort` (protocol 2.5) and what it means.
    pub const fn row(self) -> (u8, &'static str, &'static str) {
        match self {
            SyncEnd::Done => (0, "done", "everything is copied and verified"),
            SyncEnd::Usage => (1, "usage", "usage error, or a directory that an option names is not there"),
            SyncEnd::Protocol => (2, "protocol", "the two sides do not understand each other"),
            SyncEnd::Selection => {
                (3, "selection", "the destination cannot be entered, or is not a directory")
            }
            SyncEnd::Unsupported => (4, "unsupported", "an encoding or method that is not known here"),
            SyncEnd::Refused => (5, "refused", "the other side refuses: a key, a right, or it is full"),
            SyncEnd::Defect => (9, "defect", "a bug in fobs; please report it (rsync has no 9)"),
            SyncEnd::Socket => (10, "socket", "no connection could be made"),
            SyncEnd::FileIo => (
                11,
                "file_io",
                "the destination or a file of rules cannot be made or read, or a device is full",
            ),
            SyncEnd::Stream => (12, "stream", "the connection or the other side ended too early"),
            SyncEnd::Diagnostics => (13, "diagnostics", "the output could not be written"),
            SyncEnd::RemoteShell => (14, "remote_shell", "the remote shell could not be started"),
            SyncEnd::Signal => (20, "signal", "SIGINT, SIGTERM or SIGHUP; the same command goes on"),
            SyncEnd::Memory => (22, "memory", "no memory"),
            SyncEnd::Partial => (23, "partial", "a source is missing, or some files were not copied"),
            SyncEnd::Vanished => (24, "vanished", "some files were gone before they were read"),
            SyncEnd::DeleteLimit => (25, "delete_limit", "--max-delete left some of what would be deleted"),
            SyncEnd::Timeout => (30, "timeout", "nothing moved for --timeout, or --stop-at has come"),
            SyncEnd::ConnectTimeout => {
                (35, "connect_timeout", "no answer to a connection in time (--contimeout)")
            }
            SyncEnd::NoProgram => (127, "no_program", "fobs was not found on the other host"),
            SyncEnd::Ssh => (255, "ssh", "ssh itself failed"),
        }
    }

    /// The exit code.
    pub const fn code(self) -> u8 {
        self.row().0
    }

    /// The one with this name; none if a newer peer has more of them.
    pub fn named(name: &str) -> Option<SyncEnd> {
        Self::ALL.iter().copied().find(|end| end.row().1 == name)
    }

    /// What a failure of this kind is, where nothing more is known of it.
    pub const fn of(kind: ErrorKind) -> SyncEnd {
        match kind {
            ErrorKind::Usage => SyncEnd::Usage,
            ErrorKind::Protocol => SyncEnd::Protocol,
            ErrorKind::NoSource | ErrorKind::Partial => SyncEnd::Partial,
            ErrorKind::Destination => SyncEnd::Selection,
            ErrorKind::Denied => SyncEnd::Refused,
            ErrorKind::RemoteMissing => SyncEnd::NoProgram,
            ErrorKind::Integrity | ErrorKind::Connect => SyncEnd::Stream,
            ErrorKind::Internal => SyncEnd::Defect,
            ErrorKind::Socket => SyncEnd::Socket,
            ErrorKind::FileIo => SyncEnd::FileIo,
            ErrorKind::Interrupted => SyncEnd::Signal,
            ErrorKind::DeleteLimit => SyncEnd::DeleteLimit,
            ErrorKind::Timeout => SyncEnd::Timeout,
            ErrorKind::Ssh => SyncEnd::Ssh,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn ends_have_their_own_codes_and_names_in_order() {
        for pair in SyncEnd::ALL.windows(2) {
            assert!(pair[0].code() < pair[1].code(), "{pair:?}");
        }
        for &end in SyncEnd::ALL {
            let (_, name, meaning) = end.row();
            assert_eq!(SyncEnd::named(name), Some(end));
            assert!(!meaning.is_empty() && meaning.len() <= 90, "{meaning}");
        }
        assert_eq!(SyncEnd::named("moon"), None);
    }

    #[test]
    fn a_failure_ends_as_its_kind_unless_it_says_more() {
        for &kind in ErrorKind::ALL {
            let plain = Error::new(kind, "why");
            assert_eq!(plain.sync_end(), SyncEnd::of(kind));
            assert_ne!(plain.sync_end(), SyncEnd::Done);
            let more = plain.ends_sync(SyncEnd::RemoteShell).reworded("else".to_owned());
            assert_eq!((more.sync_end(), more.kind), (SyncEnd::RemoteShell, kind));
        }
    }
}
