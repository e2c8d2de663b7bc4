//! What a session must have beside the connection that it was given: the one list, which docs/security.md
//! repeats (a test compares).

/// What a clerk does for its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errand {
    /// The authorized keys are read again.
    AuthorizedKeys,
    /// A ticket is used.
    Tickets,
    /// Another daemon is found and asked.
    Fetch,
    /// A user or group is looked up.
    Accounts,
    /// What is remembered of a path is read or written.
    State,
    /// The kernel's counters and settings are read.
    Counters,
}

#[cfg(test)]
impl Errand {
    /// All of them.
    const ALL: &[Errand] = &[
        Errand::AuthorizedKeys,
        Errand::Tickets,
        Errand::Fetch,
        Errand::Accounts,
        Errand::State,
        Errand::Counters,
    ];

    /// What it reaches, why, and how.
    fn row(self) -> [&'static str; 3] {
        match self {
            Errand::AuthorizedKeys => {
                ["the authorized keys", "each request on a kept connection is judged anew", "read"]
            }
            Errand::Tickets => ["the register of tickets", "a ticket is used once", "read and write"],
            Errand::Fetch => {
                ["the server's key; name services", "to fetch from another daemon (`--third-party`)", "read"]
            }
            Errand::Accounts => {
                ["names of users and groups", "owners travel by name", "what the host's name services need"]
            }
            Errand::State => [
                "the state directory",
                "what the path to a peer carried, and what its losses taught",
                "read and write",
            ],
            Errand::Counters => {
                ["counters in `/proc` and `/sys`", "why a copy is slow; `fobs doctor`", "read"]
            }
        }
    }
}

/// What the rules of a session's domain give.
#[cfg(test)]
const RULES: [[&str; 3]; 2] = [
    [
        "the directory that is served, or what `path=` names in it",
        "what it is for",
        "read; write where the key may write; make devices where it is `privileged`",
    ],
    [
        "new TCP sockets",
        "streams over ssh; to fetch from another daemon",
        "listen over ssh; connect with `--third-party`; none else",
    ],
];

/// The rows of the table in docs/security.md.
#[cfg(test)]
pub(super) fn rows() -> Vec<String> {
    let row = |way: &str, [what, why, access]: [&str; 3]| format!("| {what} | {why} | {way}: {access} |");
    let rules = RULES.into_iter().map(|rule| row("its domain", rule));
    rules.chain(Errand::ALL.iter().copied().map(|errand| row("its clerk", errand.row()))).collect()
}
