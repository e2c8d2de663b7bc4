//! What a request can do.

/// What a request can do at the server, in the grain in which rights differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Which names a directory holds.
    List,
    /// Whether a name exists, what it stands for, its size, time and mode.
    Look,
    /// What is in a file.
    Read,
    /// Whether a file has some content, by comparison or by hash.
    Compare,
    /// A name that did not exist.
    Create,
    /// Another file, link or device under a name that exists.
    Replace,
    /// A name goes.
    Delete,
    /// What has a name gets another one.
    Rename,
    /// Mode, times, owner and attributes of what was there before.
    SetAttributes,
    /// Those of what the client stores, as the client has them and not by the server's clock and umask.
    SetStamps,
    /// The server pulls from another one with a ticket.
    Fetch,
    /// The server signs a ticket with which others read.
    SignTickets,
    /// The server measures its disk.
    TryDisk,
    /// The server measures itself and the path; data of no file flows.
    TryPath,
    /// The server runs the command of the key's line.
    RunCommand,
    /// The client's program is joined to that of another client by a name.
    JoinPipes,
}

impl Action {
    /// All, in the order of the table.
    pub const ALL: &[Action] = &[
        Action::List,
        Action::Look,
        Action::Read,
        Action::Compare,
        Action::Create,
        Action::Replace,
        Action::Delete,
        Action::Rename,
        Action::SetAttributes,
        Action::SetStamps,
        Action::Fetch,
        Action::SignTickets,
        Action::TryDisk,
        Action::TryPath,
        Action::RunCommand,
        Action::JoinPipes,
    ];

    /// Behind "may" in a sentence, and in the table of docs/security.md.
    pub const fn name(self) -> &'static str {
        match self {
            Action::List => "list names",
            Action::Look => "look at what is there",
            Action::Read => "read contents",
            Action::Compare => "compare or hash contents",
            Action::Create => "make new names",
            Action::Replace => "replace what has a name",
            Action::Delete => "delete",
            Action::Rename => "rename",
            Action::SetAttributes => "change attributes of what is there",
            Action::SetStamps => "choose times and permissions",
            Action::Fetch => "have the server fetch",
            Action::SignTickets => "have tickets signed",
            Action::TryDisk => "try the disk",
            Action::TryPath => "try the path and the host",
            Action::RunCommand => "run a command",
            Action::JoinPipes => "join pipes by name",
        }
    }
}
