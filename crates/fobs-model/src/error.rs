//! Errors: a kind for programs, and one sentence for people that says what failed, why, and what to do.

mod sync_end;

use std::fmt;

pub use sync_end::SyncEnd;

/// The class of a failure. The command line maps it to the published exit code ([`ErrorKind::exit_code`]),
/// chosen near rsync's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is not possible: options, paths, a directory without `recursive`.
    Usage,
    /// There is no common protocol version, or the peer violated the protocol.
    Protocol,
    /// A source does not exist or cannot be chosen at all; nothing was moved.
    NoSource,
    /// The destination cannot be written at all; nothing was moved.
    Destination,
    /// A socket could not be made, bound or used.
    Socket,
    /// Reading or writing files failed in a way that stops the whole transfer.
    FileIo,
    /// The other host is unreachable: name resolution, connection, or UDP blocked.
    Connect,
    /// No progress for too long.
    Timeout,
    /// Keys: unknown client key, changed server key, missing right.
    Denied,
    /// The other side has no `fobs` to run.
    RemoteMissing,
    /// `ssh` itself failed.
    Ssh,
    /// Some files were not moved; the rest was.
    Partial,
    /// A sync reached its limit of deletions; everything else was done.
    DeleteLimit,
    /// A chunk failed verification three times.
    Integrity,
    /// Cancelled, for instance by a signal.
    Interrupted,
    /// A bug in this program.
    Internal,
}

impl ErrorKind {
    /// What an exit with its code means, for the published table.
    pub fn meaning(self) -> &'static str {
        match self {
            ErrorKind::Usage => "usage error; nothing was done",
            ErrorKind::Protocol => {
                "protocol error between the two sides (different versions, invalid messages)"
            }
            ErrorKind::NoSource => "a source does not exist or cannot be read; nothing was copied",
            ErrorKind::Destination => "the destination cannot be written; nothing was copied",
            ErrorKind::Denied => "access denied: a key is unknown, has changed, or lacks the right",
            ErrorKind::RemoteMissing => "fobs was not found on the other host (see --fobs-path)",
            ErrorKind::Integrity => "data failed its verification repeatedly",
            ErrorKind::Internal => "a bug in fobs; please report it",
            ErrorKind::Socket => "a socket could not be created, bound or used",
            ErrorKind::FileIo => "reading or writing a file failed, which ended the copy",
            ErrorKind::Interrupted => "interrupted by a signal (Ctrl-C); the same command continues the copy",
            ErrorKind::Partial => "some files were not copied, all others were",
            ErrorKind::DeleteLimit => {
                "--max-delete left some of what a sync would have deleted; the rest was done"
            }
            ErrorKind::Timeout => "no progress for too long",
            ErrorKind::Connect => {
                "the other host is unreachable or full, nothing carries the data, or the connection broke"
            }
            ErrorKind::Ssh => "ssh itself failed",
        }
    }

    /// Whether both ends are done with a transfer that failed so, and their channel can serve the next one.
    pub fn leaves_channel(self) -> bool {
        match self {
            ErrorKind::Usage | ErrorKind::NoSource | ErrorKind::Destination | ErrorKind::Denied => true,
            ErrorKind::FileIo | ErrorKind::Partial | ErrorKind::DeleteLimit | ErrorKind::RemoteMissing => {
                true
            }
            ErrorKind::Protocol | ErrorKind::Socket | ErrorKind::Connect | ErrorKind::Timeout => false,
            ErrorKind::Ssh | ErrorKind::Integrity | ErrorKind::Interrupted | ErrorKind::Internal => false,
        }
    }

    /// The exit code of the `fobs` command: the one published table (README, `fobs help`).
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Usage => 1,
            ErrorKind::Protocol => 2,
            ErrorKind::NoSource => 3,
            ErrorKind::Destination => 4,
            ErrorKind::Denied => 5,
            ErrorKind::RemoteMissing => 6,
            ErrorKind::Integrity => 7,
            ErrorKind::Internal => 9,
            ErrorKind::Socket => 10,
            ErrorKind::FileIo => 11,
            ErrorKind::Interrupted => 20,
            ErrorKind::Partial => 23,
            ErrorKind::DeleteLimit => 25,
            ErrorKind::Timeout => 30,
            ErrorKind::Connect => 35,
            ErrorKind::Ssh => 255,
        }
    }

    /// All kinds, for the published table and for tests.
    pub const ALL: &[ErrorKind] = &[
        ErrorKind::Usage,
        ErrorKind::Protocol,
        ErrorKind::NoSource,
        ErrorKind::Destination,
        ErrorKind::Denied,
        ErrorKind::RemoteMissing,
        ErrorKind::Integrity,
        ErrorKind::Internal,
        ErrorKind::Socket,
        ErrorKind::FileIo,
        ErrorKind::Interrupted,
        ErrorKind::Partial,
        ErrorKind::DeleteLimit,
        ErrorKind::Timeout,
        ErrorKind::Connect,
        ErrorKind::Ssh,
    ];

    /// The name used on the control channel and in `--json`.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::Usage => "usage",
            ErrorKind::Protocol => "protocol",
            ErrorKind::NoSource => "no_source",
            ErrorKind::Destination => "destination",
            ErrorKind::Denied => "denied",
            ErrorKind::RemoteMissing => "remote_missing",
            ErrorKind::Integrity => "integrity",
            ErrorKind::Internal => "internal",
            ErrorKind::Socket => "socket",
            ErrorKind::FileIo => "file_io",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Partial => "partial",
            ErrorKind::DeleteLimit => "delete_limit",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Connect => "connect",
            ErrorKind::Ssh => "ssh",
        }
    }

    /// The kind with this [`code`](Self::code); an unknown one is `Protocol` (a newer peer).
    pub fn from_code(code: &str) -> ErrorKind {
        Self::ALL.iter().copied().find(|kind| kind.code() == code).unwrap_or(ErrorKind::Protocol)
    }
}

/// What a sentence gives as the reason. It follows the name, whose last quote is the last one before it: a
/// name may hold any words.
pub(crate) fn reason_of(message: &str) -> &str {
    message.rfind("': ").map_or("", |at| &message[at + 3..])
}

/// An error: its kind and one sentence that says what failed, why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The class of the failure.
    pub kind: ErrorKind,
    /// One sentence for a person.
    pub message: String,
    busy: Option<Busy>,
    sync_end: Option<SyncEnd>,
}

/// That there was no room for a connection or a copy: the same may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// It ended the connection before it said a word, which something else than a server may do, too.
    Closed,
    /// It said that it is full.
    Full,
    /// Another copy into the destination is running.
    Taken,
}

impl Error {
    /// What has no better name: `why` says what failed and what to do.
    pub fn internal(why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Internal, why.to_string())
    }

    /// Makes an error of a kind with its sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: without_number(message.into()), busy: None, sync_end: None }
    }

    /// Whether it says that what was named is not there: neither that it cannot be looked at, nor that a disk
    /// or a limit is in the way. A server says so by the words of its C library, whose locale is never set.
    pub fn says_missing(&self) -> bool {
        let reason = reason_of(&self.message);
        self.kind == ErrorKind::NoSource
            && (reason.starts_with("No such file or directory") || reason.starts_with("Not a directory"))
    }

    /// Whether the other host or the destination was only busy.
    pub fn busy(&self) -> Option<Busy> {
        self.busy
    }

    /// The same, as one of a host that was only busy.
    pub fn of_busy(self, busy: Busy) -> Error {
        Error { busy: Some(busy), ..self }
    }

    /// The same, which ends a sync so: its kind alone does not say what rsync's exit code would.
    pub fn ends_sync(self, end: SyncEnd) -> Error {
        Error { sync_end: Some(end), ..self }
    }

    /// How it ends a sync.
    pub fn sync_end(&self) -> SyncEnd {
        self.sync_end.unwrap_or(SyncEnd::of(self.kind))
    }

    /// Likewise, where it says more than its kind.
    pub fn own_sync_end(&self) -> Option<SyncEnd> {
        self.sync_end
    }

    /// The same with another sentence.
    pub fn reworded(self, message: String) -> Error {
        Error { message, ..self }
    }
}

/// The standard library puts the number of a system's error behind its words, which say it already. In a
/// name, which stands in quotes, the same words are part of it.
fn without_number(mut message: String) -> String {
    const BEGIN: &str = " (os error ";
    let Some(at) = message.rfind(BEGIN) else { return message };
    let rest = &message[at + BEGIN.len()..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && rest[digits..].starts_with(')') && !rest.contains('\'') {
        message.replace_range(at..at + BEGIN.len() + digits + 1, "");
    }
    message
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_no_number_of_the_systems_error() {
        for (typed, said) in [
            (
                "cannot serve x: Is a directory (os error 21); name a file",
                "cannot serve x: Is a directory; name a file",
            ),
            ("No such file (os error 2)", "No such file"),
            ("cannot read 'a (os error 2)'", "cannot read 'a (os error 2)'"),
            ("cannot read 'a (os error 2)': Denied (os error 13)", "cannot read 'a (os error 2)': Denied"),
            ("x (os error )", "x (os error )"),
            ("x (os error 5", "x (os error 5"),
        ] {
            assert_eq!(Error::new(ErrorKind::FileIo, typed).message, said);
        }
        let of_system = std::io::Error::from_raw_os_error(2);
        assert!(of_system.to_string().contains("(os error 2)"), "the library still does: {of_system}");
    }

    #[test]
    fn only_what_is_not_there_is_missing() {
        let says =
            |kind, reason: &str| Error::new(kind, format!("h: cannot read 'a': {reason}")).says_missing();
        for reason in ["No such file or directory", "Not a directory; look at it"] {
            assert!(says(ErrorKind::NoSource, reason) && !says(ErrorKind::Denied, reason), "{reason}");
        }
        for reason in ["Permission denied", "Too many open files", "Input/output error", ""] {
            assert!(!says(ErrorKind::NoSource, reason), "{reason}");
        }
        let named = "cannot read 'x': No such file or directory': Permission denied";
        assert!(!Error::new(ErrorKind::NoSource, named).says_missing());
    }
}
