//! Which entries are sent: decided from a row and from what stands at the destination, without I/O.

use blake3::hazmat::ChainingValue;

use super::choice::Changes;
use super::row::{Row, RowKind};
use crate::journal::Held;
use crate::record::Meta;

/// What has an entry's name at the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// What it is.
    pub kind: ExistingKind,
    /// Bytes.
    pub size: u64,
    /// Mode and modification time.
    pub meta: Meta,
}

/// What a name at the destination is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Special,
}

/// What is known of an entry at the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// By the journal.
    pub held: Held,
    /// By name; looked up only where a rule asks for it.
    pub existing: Option<Existing>,
}

/// How `cp` or `sync` was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// `--append-verify`: a shorter file under the name is the beginning of the source's.
    pub append: Append,
    /// `--checksum`: equal identities do not suffice.
    pub compare: CompareBy,
}

/// Whether files that no journal knows are continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Append {
    /// They are sent whole.
    #[default]
    Never,
    /// They are, if the parts that both sides have are equal.
    IfEqual,
}

/// What makes two files the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompareBy {
    /// Path, size, modification time and inode of the source.
    #[default]
    Identity,
    /// Their content too.
    Content,
}

/// What follows from the rules; some of it takes reading what stands there.
#[allow(dead_code, reason = "the rules of sync skip and refuse")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It is sent.
    Send,
    /// It is not.
    Skip,
    /// It is not: an earlier run stored it. Under [`CompareBy::Content`] only if the contents are equal.
    Done,
    /// It goes on after the part of the journal.
    GoOn {
        /// Bytes.
        len: u64,
        /// The hash tree of that part.
        stack: Vec<ChainingValue>,
    },
    /// It goes on after the file that has its name, if both sides' parts are equal.
    Append,
    /// It cannot be stored. One sentence.
    Failed(String),
    /// The rules of a sync decide.
    Sync,
}

/// What is to happen to an entry, and what about it differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// What is to happen.
    pub plan: Plan,
    /// For display.
    pub changes: Changes,
}

/// Decides on a row.
pub fn decide(row: &Row, standing: &Standing, rules: &Rules) -> Ruling {
    let plan = match (&row.kind, &standing.held) {
        (RowKind::File, Held::Complete) => Plan::Done,
        (RowKind::File, Held::Partial { len, stack }) if *len <= row.identity.size => {
            Plan::GoOn { len: *len, stack: stack.clone() }
        }
        (RowKind::File, Held::Nothing) if rules.append == Append::IfEqual => match &standing.existing {
            Some(Existing { kind: ExistingKind::File, size, .. }) if *size <= row.identity.size => {
                Plan::Append
            }
            _ => Plan::Send,
        },
        _ => Plan::Send,
    };
    Ruling { plan, changes: Changes::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    fn file(size: u64) -> Row {
        let identity = Identity { size, mtime_s: 1, mtime_ns: 2, inode: 3 };
        Row {
            path: b"f".to_vec(),
            kind: RowKind::File,
            meta: Meta::default(),
            identity,
            attributes: None,
            checksum: None,
        }
    }

    fn plan(row: &Row, held: Held, existing: Option<(ExistingKind, u64)>, append: Append) -> Plan {
        let existing = existing.map(|(kind, size)| Existing { kind, size, meta: Meta::default() });
        decide(row, &Standing { held, existing }, &Rules { append, ..Rules::default() }).plan
    }

    #[test]
    fn the_journal_decides_for_cp() {
        let partial = |len| Held::Partial { len, stack: vec![[1; 32]; 2] };
        for append in [Append::Never, Append::IfEqual] {
            assert_eq!(plan(&file(9), Held::Complete, None, append), Plan::Done);
            let go_on = Plan::GoOn { len: 65_536, stack: vec![[1; 32]; 2] };
            assert_eq!(plan(&file(65_536), partial(65_536), None, append), go_on);
            assert_eq!(plan(&file(65_535), partial(65_536), None, append), Plan::Send, "past its end");
            assert_eq!(plan(&file(9), Held::Changed, Some((ExistingKind::File, 1)), append), Plan::Send);
            let link = RowKind::Symlink { target: b"t".to_vec() };
            assert_eq!(plan(&Row { kind: link, ..file(0) }, Held::Complete, None, append), Plan::Send);
        }
    }

    #[test]
    fn only_append_verify_goes_on_after_what_stands_there() {
        let file_there = |size| Some((ExistingKind::File, size));
        let all = Append::IfEqual;
        assert_eq!(plan(&file(9), Held::Nothing, file_there(4), Append::Never), Plan::Send);
        assert_eq!(plan(&file(9), Held::Nothing, file_there(4), all), Plan::Append);
        assert_eq!(plan(&file(9), Held::Nothing, file_there(9), all), Plan::Append);
        assert_eq!(plan(&file(9), Held::Nothing, file_there(10), all), Plan::Send);
        assert_eq!(plan(&file(9), Held::Nothing, Some((ExistingKind::Symlink, 4)), all), Plan::Send);
        assert_eq!(plan(&file(9), Held::Nothing, None, all), Plan::Send);
    }
}
