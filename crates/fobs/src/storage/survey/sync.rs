//! What `fobs sync` does with an entry: rsync's rules, decided from what is known of both sides, without I/O.

use serde::{Deserialize, Serialize};

use super::choice::Changes;
use super::itemize::Update;
use crate::storage::record::{Device, Meta, SpecialKind};

/// The rules of a sync. They travel in the request; a member that is missing there is off.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncRules {
    /// What makes two files the same.
    pub compare: Compare,
    /// Seconds by which times may differ and count as equal (`--modify-window`).
    pub modify_window: u32,
    /// What is done to files that have their name already.
    pub present: Present,
    /// What is done to entries that do not exist at the destination.
    pub absent: Absent,
    /// Modification times of directories are left (`-O`).
    pub omit_directory_times: bool,
    /// Modification times of symbolic links are left (`-J`).
    pub omit_link_times: bool,
    /// Directories in the way of something else are removed with all that is in them (`--delete`).
    pub makes_way: bool,
}

/// What makes two files of equal size the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Equal modification times.
    #[default]
    Time,
    /// Their size (`--size-only`).
    Size,
    /// Equal content (`-c`).
    Content,
    /// Nothing: all files are sent (`-I`).
    Nothing,
}

/// What is done to files that have their name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Present {
    /// They are brought up to date.
    #[default]
    Updated,
    /// Unless they are newer than the source's (`-u`).
    UpdatedUnlessNewer,
    /// They are left alone, as is everything but a directory (`--ignore-existing`).
    Left,
}

/// What is done to entries that do not exist at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Absent {
    /// They are made.
    #[default]
    Made,
    /// They are left out, directories with all that is in them (`--existing`).
    LeftOut,
}

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

impl SyncRules {
    /// Whether `decide` needs the contents of both files.
    pub fn compares_content(&self, wanted: &Wanted<'_>, there: &There) -> bool {
        self.compare == Compare::Content
            && wanted.kind == WantedKind::File
            && there.kind == ThereKind::File
            && wanted.size == there.size
    }

    /// Decides on an entry.
    pub fn decide(&self, wanted: &Wanted<'_>, there: Option<&There>, kept: Kept) -> (Action, Changes) {
        let is_directory = wanted.kind == WantedKind::Directory;
        let there = match there {
            None if self.absent == Absent::LeftOut => return (Action::LeaveOut, Changes::default()),
            None => return (Action::Send, self.made(wanted, Changes::NEW)),
            Some(there) => there,
        };
        if self.present == Present::Left && !(is_directory && there.kind == ThereKind::Directory) {
            return (Action::LeaveOut, Changes::default());
        }
        if !same_type(wanted.kind, &there.kind) {
            let action = match there.kind {
                ThereKind::Directory => Action::SendInPlaceOf,
                _ => Action::Send,
            };
            return (action, self.made(wanted, Changes::NEW));
        }
        if wanted.kind == WantedKind::File {
            if self.present == Present::UpdatedUnlessNewer && self.is_newer(wanted, there) {
                return (Action::LeaveOut, Changes::default());
            }
            if !self.is_same_file(wanted, there) {
                let changes = self.differences(wanted, there, kept, Update::Transfer);
                let compared = self.compare == Compare::Content;
                return (Action::Send, changes.and(Changes::CONTENT, compared));
            }
        } else if !same_value(wanted.kind, &there.kind) {
            let changes = self.differences(wanted, there, kept, Update::Local);
            return (Action::Send, changes.with(Changes::CONTENT));
        }
        (Action::Keep, self.differences(wanted, there, kept, Update::None))
    }

    /// What differs from an entry of the same name in a directory of `--link-dest`, by how well it fits.
    pub fn compare_basis(&self, wanted: &Wanted<'_>, basis: &There, kept: Kept) -> (Fit, Changes) {
        if !same_type(wanted.kind, &basis.kind) {
            return (Fit::Nothing, Changes::default());
        }
        let changes = |update| self.differences(wanted, basis, kept, update);
        let is_same = match wanted.kind {
            WantedKind::File => self.is_same_file(wanted, basis),
            _ => same_value(wanted.kind, &basis.kind),
        };
        // As rsync: of a directory the time counts here, even if it is not kept (`-O`).
        let is_directory = wanted.kind == WantedKind::Directory;
        let is_timed = !is_directory || !kept.times || self.is_same_time(wanted, basis);
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

    /// The changes of an entry that is made.
    fn made(&self, wanted: &Wanted<'_>, changes: Changes) -> Changes {
        changes.by(match wanted.kind {
            WantedKind::File => Update::Transfer,
            _ => Update::Local,
        })
    }

    fn differences(&self, wanted: &Wanted<'_>, there: &There, kept: Kept, update: Update) -> Changes {
        let is_link = matches!(wanted.kind, WantedKind::Symlink(_));
        let keeps_time = kept.times
            && match wanted.kind {
                WantedKind::Directory => !self.omit_directory_times,
                WantedKind::Symlink(_) => !self.omit_link_times,
                _ => true,
            };
        let time = match (keeps_time, update) {
            (true, _) if self.is_same_time(wanted, there) => Changes::default(),
            (true, _) => Changes::TIME,
            (false, Update::None) => Changes::default(),
            (false, _) if kept.times => Changes::TIME,
            (false, _) => Changes::TIME_NOW,
        };
        let is_file = wanted.kind == WantedKind::File;
        let mode_differs = (wanted.meta.mode ^ there.meta.mode) & kept.modes != 0;
        Changes::default()
            .with(time)
            .and(Changes::SIZE, is_file && wanted.size != there.size)
            .and(Changes::PERMISSIONS, !is_link && mode_differs)
            .and(Changes::OWNER, wanted.owner.is_some_and(|owner| owner != there.owner))
            .and(Changes::GROUP, wanted.group.is_some_and(|group| group != there.group))
            .and(Changes::ACL, there.acl_differs)
            .and(Changes::XATTRS, there.xattrs_differ)
            .by(update)
    }

    /// rsync's quick check, or what stands in its place.
    fn is_same_file(&self, wanted: &Wanted<'_>, there: &There) -> bool {
        wanted.size == there.size
            && match self.compare {
                Compare::Content => wanted.checksum.is_some() && wanted.checksum == there.checksum,
                Compare::Size => true,
                Compare::Nothing => false,
                Compare::Time => self.is_same_time(wanted, there),
            }
    }

    /// As rsync compares times: whole seconds.
    fn is_same_time(&self, wanted: &Wanted<'_>, there: &There) -> bool {
        wanted.meta.mtime_s.abs_diff(there.meta.mtime_s) <= u64::from(self.modify_window)
    }

    fn is_newer(&self, wanted: &Wanted<'_>, there: &There) -> bool {
        let ahead = wanted.meta.mtime_s.saturating_sub(there.meta.mtime_s);
        ahead < i64::from(self.modify_window)
    }
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
