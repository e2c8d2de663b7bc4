//! How much of a shared link `auto` claims.

use std::fmt;
use std::str::FromStr;

/// Which traffic `auto` yields to (`--priority`), the most yielding first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// All: it leaves a queue that others fill, as LEDBAT does (RFC 6817), and takes what is left over.
    Scavenger,
    /// None, and none to it: beside flows that fill the queue it takes its share.
    #[default]
    Fair,
    /// None: beside flows that fill the queue it goes on with what it had.
    Greedy,
}

impl Priority {
    /// All of them.
    pub const ALL: &[Priority] = &[Priority::Scavenger, Priority::Fair, Priority::Greedy];

    /// As `--priority` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Scavenger => "scavenger",
            Priority::Fair => "fair",
            Priority::Greedy => "greedy",
        }
    }

    /// A line of help.
    pub fn summary(self) -> &'static str {
        match self {
            Priority::Scavenger => "give way to all other traffic",
            Priority::Fair => "share with other traffic",
            Priority::Greedy => "give way to none: only where the link is yours to take",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no priority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no priority {0:?}; use scavenger, fair or greedy")]
pub struct UnknownPriority(pub String);

impl FromStr for Priority {
    type Err = UnknownPriority;

    fn from_str(name: &str) -> Result<Priority, UnknownPriority> {
        let known = Priority::ALL.iter().copied().find(|priority| priority.name() == name);
        known.ok_or_else(|| UnknownPriority(name.to_owned()))
    }
}
