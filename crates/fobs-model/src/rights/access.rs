//! The rights that a key can have, and the table from them to actions.

use super::Action;

/// What a key may do: one of these, and all that it has a `yes` for in the table of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Pull: the default.
    ReadOnly,
    /// Pull and push.
    ReadWrite,
    /// Push, without learning what is there.
    WriteOnly,
    /// Push new names only, without learning what is there.
    AppendOnly,
}

/// The table. docs/security.md prints it, and a test compares the two.
const TABLE: [(Action, [bool; Access::ALL.len()]); Action::ALL.len()] = {
    const YES: bool = true;
    const NO: bool = false;
    // In the order of `Access::ALL`.
    [
        (Action::List, [YES, YES, NO, NO]),
        (Action::Look, [YES, YES, NO, NO]),
        (Action::Read, [YES, YES, NO, NO]),
        (Action::Compare, [YES, YES, NO, NO]),
        (Action::Create, [NO, YES, YES, YES]),
        (Action::Replace, [NO, YES, YES, NO]),
        (Action::Delete, [NO, YES, NO, NO]),
        (Action::Rename, [NO, YES, NO, NO]),
        (Action::SetAttributes, [NO, YES, YES, NO]),
        (Action::SetStamps, [NO, YES, YES, NO]),
        (Action::Fetch, [NO, YES, YES, YES]),
        (Action::SignTickets, [YES, YES, NO, NO]),
        (Action::TryDisk, [NO, YES, NO, NO]),
        (Action::TryPath, [YES, YES, YES, YES]),
        // Options of their own give these: `pipe=` and `pipe-names`.
        (Action::RunCommand, [NO, NO, NO, NO]),
        (Action::JoinPipes, [NO, NO, NO, NO]),
    ]
};

// Each row is found by its action's number.
const _: () = {
    let mut row = 0;
    while row < TABLE.len() {
        assert!(TABLE[row].0 as usize == row && Action::ALL[row] as usize == row);
        row += 1;
    }
};

impl Access {
    /// All, in the order of the table's columns.
    pub const ALL: &[Access] = &[Access::ReadOnly, Access::ReadWrite, Access::WriteOnly, Access::AppendOnly];

    /// The option that gives it, in a line of authorized keys; with two dashes, of `fobs server --restrict`.
    pub const fn name(self) -> &'static str {
        match self {
            Access::ReadOnly => "read-only",
            Access::ReadWrite => "read-write",
            Access::WriteOnly => "write-only",
            Access::AppendOnly => "append-only",
        }
    }

    /// What its client may do, for help texts.
    pub const fn summary(self) -> &'static str {
        match self {
            Access::ReadOnly => "pull",
            Access::ReadWrite => "pull and push",
            Access::WriteOnly => "push, and learn nothing of what is there",
            Access::AppendOnly => "push new names; what is there is neither seen nor changed",
        }
    }

    /// The one with this name.
    pub fn from_name(name: &[u8]) -> Option<Access> {
        Access::ALL.iter().copied().find(|access| access.name().as_bytes() == name)
    }

    /// Whether its client may do that.
    pub const fn allows(self, action: Action) -> bool {
        TABLE[action as usize].1[self as usize]
    }
}
