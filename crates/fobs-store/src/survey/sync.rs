//! What `fobs sync` does with an entry: rsync's rules, decided from what is known of both sides, without I/O.

use super::choice::Changes;
use super::itemize::Update;
use crate::attributes::{SET_ID_BITS, executable_as};
use crate::record::{Device, Meta, SpecialKind};
use fobs_model::event::{LeftOut, Likeness};
use fobs_model::options::sync::{Absent, Compare, Present, SyncRules};

/// What of an entry's metadata is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// `-p`: the bits of the mode that are kept.
    pub modes: u32,
    /// `-t`
    pub times: bool,
}

/// What an entry of the source is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// What it is.
    pub kind: WantedKind<'a>,
    /// Bytes of a file.
    pub size: u64,
    /// Mode, as the source's side changed it, and modification time.
    pub meta: Meta,
    /// Number of its owner at the destination, if that is kept and can be set.
    pub owner: Option<u32>,
    /// Number of its group at the destination, if that is kept and can be set.
    pub group: Option<u32>,
    /// BLAKE3 of a file's content, with [`Compare::Content`].
    pub checksum: Option<[u8; 32]>,
    /// Whether it is a link that leads out of the tree, as `leads_out` of the walk says.
    pub leads_out: bool,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedKind<'a> {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(&'a [u8]),
    /// A device, fifo or socket.
    Special(SpecialKind, Device),
}

/// What has an entry's name at the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct There {
    /// What it is.
    pub kind: ThereKind,
    /// Bytes.
    pub size: u64,
    /// Mode and modification time.
    pub meta: Meta,
    /// Number of its owner.
    pub owner: u32,
    /// Number of its group.
    pub group: u32,
    /// BLAKE3 of a file's content, if it was compared.
    pub checksum: Option<[u8; 32]>,
    /// Whether its ACL differs from the entry's, if that is kept.
    pub acl_differs: bool,
    /// Whether its extended attributes differ from the entry's, if those are kept.
    pub xattrs_differ: bool,
    /// Whether its access time differs from the entry's, if that is kept.
    pub atime_differs: bool,
    /// Who may have put a file there.
    pub hands: Hands,
}

/// Who may have put a file there, or written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hands {
    /// Root or this process's user.
    Ours,
    /// It has further names, which may be anywhere.
    Linked,
    /// A third user may have moved it there from where it was.
    Moved,
    /// A third user.
    Others,
}

/// What a name at the destination is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThereKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// A device, fifo or socket.
    Special(SpecialKind, Device),
}

/// What is to happen to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is sent and replaces what is there.
    Send,
    /// What is there stays; its metadata is set as far as the changes say.
    Keep,
    /// It is left out, a directory with all that is in it.
    LeaveOut,
    /// What is there must be removed for it, which the rules do not allow if it is a directory with entries.
    SendInPlaceOf,
}

/// How well an entry of `--link-dest` fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It is something else.
    Nothing,
    /// It is of the same type.
    Type,
    /// It has the same content too.
    Content,
    /// It has all that is kept: it can have one more name.
    Whole,
}

/// Decides by the rules of a sync.
pub trait Decide {
    /// Whether `decide` needs the contents of both files.
    fn compares_content(&self, wanted: &Wanted<'_>, there: &There) -> bool;

    /// Decides on an entry.
    fn decide(&self, wanted: &Wanted<'_>, there: Option<&There>, kept: Kept) -> (Action, Changes);

    /// What differs from an entry of the same name in a directory of `--link-dest`, by how well it fits.
    fn compare_basis(&self, wanted: &Wanted<'_>, basis: &There, kept: Kept) -> (Fit, Changes);
}

impl Decide for SyncRules {
    fn compares_content(&self, wanted: &Wanted<'_>, there: &There) -> bool {
        self.compare == Compare::Content
            && self.takes(wanted.size)
            && wanted.kind == WantedKind::File
            && there.kind == ThereKind::File
            && wanted.size == there.size
    }

    fn decide(&self, wanted: &Wanted<'_>, there: Option<&There>, kept: Kept) -> (Action, Changes) {
        let left_out = |rule| (Action::LeaveOut, Changes::left_out(rule));
        let is_directory = wanted.kind == WantedKind::Directory;
        if wanted.leads_out && self.safe_links {
            return left_out(LeftOut::Unsafe);
        }
        if wanted.kind == WantedKind::File && !self.takes(wanted.size) {
            return left_out(LeftOut::BySize);
        }
        let there = match there {
            None if self.absent == Absent::LeftOut => return left_out(LeftOut::Absent),
            None => return (Action::Send, made(wanted, Changes::NEW)),
            Some(there) => there,
        };
        if self.present == Present::Left && !(is_directory && there.kind == ThereKind::Directory) {
            return left_out(LeftOut::Exists(likeness(self, wanted, there, kept)));
        }
        if !same_type(wanted.kind, &there.kind) {
            let action = match there.kind {
                ThereKind::Directory => Action::SendInPlaceOf,
                _ => Action::Send,
            };
            return (action, made(wanted, Changes::NEW));
        }
        if wanted.kind == WantedKind::File {
            let (there_s, wanted_s) = (there.meta.mtime_s, wanted.meta.mtime_s);
            if self.present == Present::UpdatedUnlessNewer && is_newer(self, there_s, wanted_s) {
                return left_out(LeftOut::Newer);
            }
            if !is_same_file(self, wanted, there) {
                if self.appends && there.size >= wanted.size {
                    return left_out(LeftOut::Silently);
                }
                let changes = differences(self, wanted, there, kept, Update::Transfer);
                let compared = self.compare == Compare::Content;
                return (Action::Send, changes.and(Changes::CONTENT, compared));
            }
        } else if !same_value(wanted.kind, &there.kind) {
            let changes = differences(self, wanted, there, kept, Update::Local);
            return (Action::Send, changes.with(Changes::CONTENT));
        }
        let changes = differences(self, wanted, there, kept, Update::None);
        if wanted.kind == WantedKind::File && is_not_to_be_dressed(wanted, there, kept, changes) {
            return (Action::Send, differences(self, wanted, there, kept, Update::Transfer));
        }
        (Action::Keep, changes)
    }

    fn compare_basis(&self, wanted: &Wanted<'_>, basis: &There, kept: Kept) -> (Fit, Changes) {
        if !same_type(wanted.kind, &basis.kind) {
            return (Fit::Nothing, Changes::default());
        }
        let changes = |update| differences(self, wanted, basis, kept, update);
        let is_same = seems_same(self, wanted, basis);
        // As rsync: of a directory the time counts here, even if it is not kept (`-O`).
        let is_directory = wanted.kind == WantedKind::Directory;
        let is_timed = !is_directory || !kept.times || is_same_time(self, wanted, basis);
        if is_same && is_timed && !changes(Update::None).is_significant() {
            return (Fit::Whole, Changes::BASIS.by(Update::Hardlink));
        }
        let fit = if is_same { Fit::Content } else { Fit::Type };
        match wanted.kind {
            WantedKind::File => {
                let compared = self.compare == Compare::Content && !is_same;
                (fit, changes(Update::Transfer).and(Changes::CONTENT, compared))
            }
            _ => (fit, changes(Update::Local).and(Changes::CONTENT, !is_same)),
        }
    }
}

/// How like the source is what stands in its place, as rsync tells it (`--info=skip2`).
fn likeness(rules: &SyncRules, wanted: &Wanted<'_>, there: &There, kept: Kept) -> Likeness {
    if !same_type(wanted.kind, &there.kind) {
        Likeness::OtherType
    } else if !seems_same(rules, wanted, there) {
        Likeness::OtherContent
    } else if differences(rules, wanted, there, kept, Update::None).is_significant() {
        Likeness::OtherAttributes
    } else {
        Likeness::Same
    }
}

/// Whether two entries of one type have the same content, as far as the rules look at it.
fn seems_same(rules: &SyncRules, wanted: &Wanted<'_>, there: &There) -> bool {
    match wanted.kind {
        WantedKind::File => is_same_file(rules, wanted, there),
        _ => same_value(wanted.kind, &there.kind),
    }
}

/// Whether a file with the content of the source's, as it seems, is made anew instead of getting what
/// differs. A third user's content would become another one's, or run with another one's rights, or another
/// file would change. Contents are not compared instead: the third user may still have the file open.
fn is_not_to_be_dressed(wanted: &Wanted<'_>, there: &There, kept: Kept, changes: Changes) -> bool {
    let any = |all: &[Changes]| all.iter().any(|one| changes.contains(*one));
    match there.hands {
        Hands::Ours => false,
        Hands::Linked => changes.is_significant(),
        Hands::Moved => {
            any(&[Changes::PERMISSIONS, Changes::OWNER, Changes::GROUP, Changes::ACL, Changes::XATTRS])
        }
        Hands::Others => {
            let set_id = wanted.meta.mode & kept.modes & SET_ID_BITS;
            any(&[Changes::OWNER, Changes::XATTRS])
                || set_id & !there.meta.mode != 0
                || set_id != 0 && changes.contains(Changes::GROUP)
        }
    }
}

/// The changes of an entry that is made.
fn made(wanted: &Wanted<'_>, changes: Changes) -> Changes {
    changes.by(match wanted.kind {
        WantedKind::File => Update::Transfer,
        _ => Update::Local,
    })
}

fn differences(rules: &SyncRules, wanted: &Wanted<'_>, there: &There, kept: Kept, update: Update) -> Changes {
    let is_link = matches!(wanted.kind, WantedKind::Symlink(_));
    let keeps_time = kept.times
        && match wanted.kind {
            WantedKind::Directory => !rules.omit_directory_times,
            WantedKind::Symlink(_) => !rules.omit_link_times,
            _ => true,
        };
    let time = match (keeps_time, update) {
        (true, _) if is_same_time(rules, wanted, there) => Changes::default(),
        (true, _) => Changes::TIME,
        (false, Update::None) => Changes::default(),
        (false, _) if kept.times => Changes::TIME,
        (false, _) => Changes::TIME_NOW,
    };
    let is_file = wanted.kind == WantedKind::File;
    let is_other = rules.executability && kept.modes == 0 && is_file && there.kind == ThereKind::File;
    let executable = || executable_as(wanted.meta.mode, there.meta.mode) != there.meta.mode & 0o777;
    let mode_differs = (wanted.meta.mode ^ there.meta.mode) & kept.modes != 0 || is_other && executable();
    Changes::default()
        .with(time)
        .and(Changes::SIZE, is_file && wanted.size != there.size)
        .and(Changes::PERMISSIONS, !is_link && mode_differs)
        .and(Changes::OWNER, wanted.owner.is_some_and(|owner| owner != there.owner))
        .and(Changes::GROUP, wanted.group.is_some_and(|group| group != there.group))
        .and(Changes::ACL, there.acl_differs)
        .and(Changes::XATTRS, there.xattrs_differ)
        .and(Changes::ACCESS_TIME, there.atime_differs)
        .by(update)
}

/// rsync's quick check, or what stands in its place.
fn is_same_file(rules: &SyncRules, wanted: &Wanted<'_>, there: &There) -> bool {
    wanted.size == there.size
        && match rules.compare {
            Compare::Content => wanted.checksum.is_some() && wanted.checksum == there.checksum,
            Compare::Size => true,
            Compare::Nothing => false,
            Compare::Time => is_same_time(rules, wanted, there),
        }
}

/// As rsync compares times: whole seconds, unless it is told otherwise.
fn is_same_time(rules: &SyncRules, wanted: &Wanted<'_>, there: &There) -> bool {
    let is_exact = !rules.exact_times || wanted.meta.mtime_ns == there.meta.mtime_ns;
    is_exact && wanted.meta.mtime_s.abs_diff(there.meta.mtime_s) <= u64::from(rules.modify_window)
}

/// Whether a destination's time is later than the source's, seconds since 1970 both, as `-u` means it.
pub(super) fn is_newer(rules: &SyncRules, there_s: i64, wanted_s: i64) -> bool {
    wanted_s.saturating_sub(there_s) < i64::from(rules.modify_window)
}

/// Whether both are files, directories and so on.
pub(super) fn same_type(wanted: WantedKind<'_>, there: &ThereKind) -> bool {
    match (wanted, there) {
        (WantedKind::File, ThereKind::File)
        | (WantedKind::Directory, ThereKind::Directory)
        | (WantedKind::Symlink(_), ThereKind::Symlink(_)) => true,
        (WantedKind::Special(wanted, _), ThereKind::Special(there, _)) => wanted == *there,
        _ => false,
    }
}

/// Whether two entries of one type are the same apart from content and metadata.
fn same_value(wanted: WantedKind<'_>, there: &ThereKind) -> bool {
    match (wanted, there) {
        (WantedKind::Symlink(wanted), ThereKind::Symlink(there)) => wanted == there.as_slice(),
        (WantedKind::Special(_, wanted), ThereKind::Special(_, there)) => wanted == *there,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
