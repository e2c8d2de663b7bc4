//! What is kept, and why it cannot be: as sentences name it.

use std::fmt;

use crate::error::{Error, ErrorKind};

/// What is kept, as a sentence names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// The paths of a request.
    Sources,
    /// The names of `--files-from`.
    Names,
    /// Filter rules, of the request and of directories.
    Rules,
    /// Subdirectories that the walk has found and not entered.
    Subdirectories,
    /// The first names of files with several.
    HardLinks,
    /// Batches of a listing, and decisions on them.
    Survey,
    /// Pieces of files that the receiver has.
    Pieces,
    /// Hashes of the names that the sources have in a directory.
    Seen,
    /// The listing of a directory that is looked through, or removed.
    Listing,
    /// What is to be deleted.
    Deletions,
    /// Hashes of backups that were made.
    Backups,
    /// Files of several names whose first is sent again.
    Resent,
    /// Links of `--link-dest` that wait.
    Links,
    /// Sources that are to be removed.
    Removals,
    /// What a journal of an earlier run says.
    Journal,
    /// Files of other programs that are to be continued.
    Adoptions,
    /// Names that a hard link may lead to, or may not.
    Linkable,
    /// Entries that were asked for and have not come.
    Clearances,
    /// Answers about files by name.
    Answers,
    /// What a pipe keeps for another connection; it counts for the process only.
    Window,
    /// Chunks in transit; they count for the process only.
    Chunks,
    /// A session by itself: threads, sockets, buffers; likewise.
    Session,
}

impl Keeps {
    /// In a sentence, and what its reader can do.
    pub(super) fn words(self) -> (&'static str, &'static str) {
        let part = "copy parts of the tree one by one";
        match self {
            Keeps::Sources => ("the paths of the request", "name fewer at once, or their directory"),
            Keeps::Names => ("the names of --files-from", "split the list"),
            Keeps::Rules => ("the filter rules", "use fewer, or patterns in place of names"),
            Keeps::Subdirectories => ("the names of a directory's subdirectories", part),
            Keeps::HardLinks => ("the first names of hard links", part),
            Keeps::Survey => ("the listing and the decisions on it", part),
            Keeps::Pieces => ("the pieces of what the receiver has", "sync with --whole-file"),
            Keeps::Seen | Keeps::Listing => ("the names in a directory", part),
            Keeps::Deletions => ("the names to delete", "run the sync again"),
            Keeps::Backups => ("the backups that were made", part),
            Keeps::Resent => ("the hard links to make anew", part),
            Keeps::Links => ("the links to unchanged files", part),
            Keeps::Removals => ("the sources to remove", "sync again"),
            Keeps::Journal => ("the journal of an earlier run", part),
            Keeps::Adoptions => ("the files to continue", part),
            Keeps::Linkable => ("the names that hard links may lead to", part),
            Keeps::Clearances => ("the entries that have not come", part),
            Keeps::Answers => ("the answers", "ask for a part"),
            Keeps::Window => ("the windows of pipes", "try again later, or give a smaller --resume-window"),
            Keeps::Chunks => ("the data in transit", "try again later, or allow fewer sessions at once"),
            Keeps::Session => {
                ("the sessions and what they keep", "try again later, or allow fewer sessions at once")
            }
        }
    }
}

/// Why something cannot be kept: one sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    pub(super) what: Keeps,
    pub(super) why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The session's budget.
    Session { max: usize },
    /// That of all sessions of the process.
    Process { max: usize },
    /// The allocation failed.
    Host,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, advice) = self.what.words();
        match self.why {
            Why::Session { max } => {
                write!(
                    f,
                    "{what} and what else is kept take more than the {} a session may keep; {advice}",
                    Size(max)
                )
            }
            Why::Process { max } => {
                write!(
                    f,
                    "{what} take more than the {} that all sessions of this server may use; {advice}",
                    Size(max)
                )
            }
            Why::Host => write!(f, "the host has no memory left for {what}; {advice}"),
        }
    }
}

impl std::error::Error for Spent {}

impl From<Spent> for Error {
    fn from(spent: Spent) -> Error {
        let kind = match (spent.what, spent.why) {
            (_, Why::Process { .. }) => ErrorKind::Connect,
            (_, Why::Host) => ErrorKind::FileIo,
            (Keeps::Sources | Keeps::Names | Keeps::Rules | Keeps::Answers, _) => ErrorKind::Usage,
            _ => ErrorKind::FileIo,
        };
        Error::new(kind, spent.to_string())
    }
}

impl Spent {
    /// The same, of the budget of a process.
    pub(super) fn of_process(self, max: usize) -> Spent {
        Spent { why: Why::Process { max }, ..self }
    }
}

/// Bytes for a reader: whole MiB where there are any.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 >> 20 {
            0 => write!(f, "{} bytes", self.0),
            mib => write!(f, "{mib} MiB"),
        }
    }
}
