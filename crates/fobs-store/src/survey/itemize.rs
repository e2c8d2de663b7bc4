//! What about an entry changes, as bits on the wire (protocol 7.8) and as rsync's `--itemize-changes` writes
//! it.

use rustix::fs::FileType;

use super::choice::Changes;
use crate::record::SpecialKind;
use crate::walk::Stays;
use fobs_model::event::{LeftOut, Likeness};
use fobs_model::options::sync::Report;

/// What is done to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// Nothing, or only its attributes.
    None,
    /// Its content is sent.
    Transfer,
    /// It is made at the destination without data.
    Local,
    /// It becomes one more name of another file.
    Hardlink,
}

/// What kind of entry it is, as the second character says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block or character device.
    Device,
    /// A fifo or socket.
    Special,
}

impl ItemKind {
    /// Of the bits of a type, as `stat` has them; of none that is known, a file.
    pub fn of_type(bits: u32) -> ItemKind {
        match FileType::from_raw_mode(bits) {
            FileType::Directory => ItemKind::Directory,
            FileType::Symlink => ItemKind::Symlink,
            FileType::BlockDevice | FileType::CharacterDevice => ItemKind::Device,
            FileType::Fifo | FileType::Socket => ItemKind::Special,
            _ => ItemKind::File,
        }
    }

    /// Of a device, fifo or socket.
    pub fn of_special(kind: SpecialKind) -> ItemKind {
        if kind.is_device() { ItemKind::Device } else { ItemKind::Special }
    }
}

/// Whether the data goes to the other host or comes from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `<`
    Sent,
    /// `>`
    Received,
}

impl Changes {
    /// All that the letters from the third on say.
    const ATTRIBUTES: Changes = Changes::NEW
        .with(Changes::CONTENT)
        .with(Changes::SIZE)
        .with(Changes::TIME)
        .with(Changes::TIME_NOW)
        .with(Changes::PERMISSIONS)
        .with(Changes::OWNER)
        .with(Changes::GROUP)
        .with(Changes::ACL)
        .with(Changes::XATTRS)
        .with(Changes::ACCESS_TIME);

    /// Left out by a rule.
    pub const fn left_out(rule: LeftOut) -> Changes {
        Changes::LEFT_OUT.with(match rule {
            LeftOut::Silently => Changes(0),
            LeftOut::Absent => Changes::NEW,
            LeftOut::Exists(likeness) => Changes::CONTENT.with(Changes::like(likeness)),
            LeftOut::BySize => Changes::SIZE,
            LeftOut::Newer => Changes::TIME,
            LeftOut::Unsafe => Changes::PERMISSIONS,
        })
    }

    const fn like(likeness: Likeness) -> Changes {
        match likeness {
            Likeness::Unknown => Changes(0),
            Likeness::OtherType => Changes::PERMISSIONS,
            Likeness::OtherContent => Changes::SIZE,
            Likeness::OtherAttributes => Changes::TIME,
            Likeness::Same => Changes::OWNER,
        }
    }

    /// Whether an entry with these stays as it is, and by which rule.
    pub(crate) fn stays(self) -> Stays {
        Stays { unchanged: !self.is_significant(), left_out: self.rule() }
    }

    /// The rule by which it is left out, if it is.
    pub fn rule(self) -> Option<LeftOut> {
        use LeftOut::{Absent, BySize, Exists, Newer, Unsafe};
        use Likeness::{OtherAttributes, OtherContent, OtherType, Same, Unknown};
        // What has most bits first.
        let exists = [OtherType, OtherContent, OtherAttributes, Same, Unknown].map(Exists);
        let named = std::iter::once(Absent).chain(exists).chain([BySize, Newer, Unsafe]);
        let known = |rule: &LeftOut| self.has(Changes::left_out(*rule));
        self.has(Changes::LEFT_OUT).then(|| named.clone().find(known).unwrap_or(LeftOut::Silently))
    }

    /// These and others.
    #[must_use]
    pub const fn with(self, other: Changes) -> Changes {
        Changes(self.0 | other.0)
    }

    /// These, and others if `on`.
    #[must_use]
    pub const fn and(self, other: Changes, on: bool) -> Changes {
        if on { self.with(other) } else { self }
    }

    /// These, and what is done to the entry.
    #[must_use]
    pub const fn by(self, update: Update) -> Changes {
        self.with(match update {
            Update::None => Changes(0),
            Update::Transfer => Changes::TRANSFER,
            Update::Local => Changes::LOCAL,
            Update::Hardlink => Changes::TRANSFER.with(Changes::LOCAL),
        })
    }

    /// Whether all of `other` are among these.
    pub const fn has(self, other: Changes) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is done to the entry.
    pub const fn update(self) -> Update {
        match (self.has(Changes::TRANSFER), self.has(Changes::LOCAL)) {
            (true, true) => Update::Hardlink,
            (true, false) => Update::Transfer,
            (false, true) => Update::Local,
            (false, false) => Update::None,
        }
    }

    /// Whether a report names an entry with these changes.
    pub(crate) fn is_reported(self, report: Report) -> bool {
        match report {
            Report::Nothing => false,
            Report::Changed => self.is_significant(),
            Report::All => true,
        }
    }

    /// Whether `-i` shows the entry.
    pub fn is_significant(self) -> bool {
        if self.has(Changes::LEFT_OUT) {
            return false;
        }
        self.0 & Changes::ATTRIBUTES.0 != 0
            || match self.update() {
                Update::Transfer => true,
                Update::Hardlink => !self.has(Changes::BASIS),
                Update::None | Update::Local => false,
            }
    }

    /// The eleven characters of `--itemize-changes`.
    pub fn show(self, way: Way, kind: ItemKind) -> String {
        if self.has(Changes::LEFT_OUT) {
            return Changes::default().show(way, kind);
        }
        let update = match (self.update(), way) {
            (Update::None, _) => '.',
            (Update::Transfer, Way::Sent) => '<',
            (Update::Transfer, Way::Received) => '>',
            (Update::Local, _) => 'c',
            (Update::Hardlink, _) => 'h',
        };
        let letter = match kind {
            ItemKind::File => 'f',
            ItemKind::Directory => 'd',
            ItemKind::Symlink => 'L',
            ItemKind::Device => 'D',
            ItemKind::Special => 'S',
        };
        let mut text = String::from_iter([update, letter]);
        if self.has(Changes::NEW) {
            text.push_str("+++++++++");
            return text;
        }
        let time = if self.has(Changes::TIME_NOW) { 'T' } else { 't' };
        let is_timed = self.has(Changes::TIME) || self.has(Changes::TIME_NOW);
        let places = [
            (self.has(Changes::CONTENT), 'c'),
            (self.has(Changes::SIZE) && kind != ItemKind::Symlink, 's'),
            (is_timed, time),
            (self.has(Changes::PERMISSIONS), 'p'),
            (self.has(Changes::OWNER), 'o'),
            (self.has(Changes::GROUP), 'g'),
            (self.has(Changes::ACCESS_TIME), 'u'),
            (self.has(Changes::ACL), 'a'),
            (self.has(Changes::XATTRS), 'x'),
        ];
        let blank = update != '<' && update != '>' && places.iter().all(|(on, _)| !on);
        let shown = |(on, letter): (bool, char)| match on {
            true => letter,
            false if blank => ' ',
            false => '.',
        };
        text.extend(places.map(shown));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_written_as_rsync_writes_them() {
        let none = Changes::default();
        for (changes, way, kind, expected) in [
            (none, Way::Sent, ItemKind::File, ".f         "),
            (Changes::NEW.by(Update::Transfer), Way::Received, ItemKind::File, ">f+++++++++"),
            (Changes::NEW.by(Update::Transfer), Way::Sent, ItemKind::File, "<f+++++++++"),
            (Changes::NEW.by(Update::Local), Way::Sent, ItemKind::Directory, "cd+++++++++"),
            (Changes::TIME.by(Update::None), Way::Sent, ItemKind::Directory, ".d..t......"),
            (
                Changes::SIZE.with(Changes::TIME).by(Update::Transfer),
                Way::Received,
                ItemKind::File,
                ">f.st......",
            ),
            (Changes::TIME_NOW.by(Update::Transfer), Way::Sent, ItemKind::File, "<f..T......"),
            (
                Changes::CONTENT.with(Changes::TIME).by(Update::Local),
                Way::Sent,
                ItemKind::Symlink,
                "cLc.t......",
            ),
            (none.by(Update::Hardlink), Way::Sent, ItemKind::File, "hf         "),
            (none.by(Update::Transfer), Way::Sent, ItemKind::File, "<f........."),
            (
                [Changes::PERMISSIONS, Changes::OWNER, Changes::GROUP, Changes::ACL, Changes::XATTRS]
                    .into_iter()
                    .fold(none, Changes::with),
                Way::Sent,
                ItemKind::Device,
                ".D...pog.ax",
            ),
        ] {
            assert_eq!(changes.show(way, kind), expected, "{changes:?}");
        }
    }

    #[test]
    fn what_is_done_reads_back() {
        for update in [Update::None, Update::Transfer, Update::Local, Update::Hardlink] {
            assert_eq!(Changes::ACL.by(update).update(), update);
        }
        assert!(!Changes::default().is_significant());
        assert!(!Changes::default().by(Update::Local).is_significant());
        assert!(Changes::default().by(Update::Transfer).is_significant());
        assert!(Changes::GROUP.is_significant());
        // As rsync, which does not name what it links from --link-dest.
        assert!(Changes::default().by(Update::Hardlink).is_significant());
        assert!(!Changes::BASIS.by(Update::Hardlink).is_significant());
    }
}
