//! `--fake-super`: owner, group, mode and kind of an entry as rsync notes them in an extended attribute of an
//! ordinary file, for a user who may not set them. Links and devices are files too, with the target inside.

use rustix::fs::{FileType, Stat, major, makedev, minor};
use rustix::io::Errno;

use super::acl::{noted_acl, read_noted_acl};
use super::handle::Handle;
use super::{ACL_ACCESS, ACL_DEFAULT, MODE_BITS, Xattr};
use crate::beneath::kind;
use crate::record::Device;

/// Where rsync notes it: `100644 0,0 1000:1000`, the mode in octal with its type, device, owner and group.
const STAT: &[u8] = b"user.rsync.%stat";
/// The namespace in which names of other ones are kept; a name of rsync's own begins with `%` there.
const PREFIX: &[u8] = b"user.rsync.";
const NOTED_ACCESS: &[u8] = b"user.rsync.%aacl";
const NOTED_DEFAULT: &[u8] = b"user.rsync.%dacl";
/// All that a mode has beside its type.
const PERMISSIONS: u32 = 0o777;
const TYPE: u32 = 0o170_000;

/// What an entry is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Noted {
    /// With the bits of its type.
    pub(crate) mode: u32,
    pub(crate) device: Device,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Noted {
    /// Reads what rsync or this program wrote.
    fn parse(text: &[u8]) -> Option<Noted> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let (mode, device, owner) = (words.next()?, words.next()?, words.next()?);
        let ((major, minor), (user, group)) = (device.split_once(',')?, owner.split_once(':')?);
        Some(Noted {
            mode: u32::from_str_radix(mode, 8).ok()?,
            device: Device { major: major.parse().ok()?, minor: minor.parse().ok()? },
            user: user.parse().ok()?,
            group: group.parse().ok()?,
        })
    }

    fn text(self) -> String {
        let Noted { mode, device, user, group } = self;
        format!("{mode:o} {},{} {user}:{group}", device.major, device.minor)
    }

    /// What is noted of a file or directory, if anything is.
    fn of(file: Handle<'_>, stat: &Stat) -> Result<Option<Noted>, Errno> {
        if !matches!(kind(stat), FileType::RegularFile | FileType::Directory) {
            return Ok(None);
        }
        let noted = match file.value(STAT) {
            Ok(noted) => noted,
            Err(Errno::OPNOTSUPP) => None,
            Err(errno) => return Err(errno),
        };
        // A directory stays one, whatever the note says.
        let fits = |noted: &Noted| {
            let is_directory = FileType::from_raw_mode(noted.mode) == FileType::Directory;
            is_directory == (kind(stat) == FileType::Directory)
        };
        Ok(noted.and_then(|text| Noted::parse(&text)).filter(fits))
    }

    /// Notes it with a file or directory, and gives that the permissions of it which its owner can live with.
    pub(super) fn set(self, file: Handle<'_>, stat: &Stat) -> Result<(), Errno> {
        let is_directory = kind(stat) == FileType::Directory;
        let owners = if is_directory { 0o700 } else { 0o600 };
        let mode = self.mode & PERMISSIONS | owners;
        if stat.st_mode & MODE_BITS != mode {
            file.set_mode(mode)?;
        }
        let is_plain = stat.st_mode & TYPE | mode == self.mode
            && self.device == Device::default()
            && (stat.st_uid, stat.st_gid) == (self.user, self.group);
        if is_plain { file.remove_value(STAT) } else { file.set_value(STAT, self.text().as_bytes()) }
    }
}

/// The status of an entry as it is noted.
pub(crate) fn as_noted(file: Handle<'_>, stat: &Stat) -> Result<Stat, Errno> {
    let mut seen = *stat;
    if let Some(noted) = Noted::of(file, stat)? {
        seen.st_mode = noted.mode;
        (seen.st_uid, seen.st_gid) = (noted.user, noted.group);
        seen.st_rdev = makedev(noted.device.major, noted.device.minor);
    }
    Ok(seen)
}

/// The device that a status names.
pub(crate) fn device_of(stat: &Stat) -> Device {
    Device { major: major(stat.st_rdev), minor: minor(stat.st_rdev) }
}

/// The name under which an extended attribute is kept.
pub(super) fn kept_name(name: &[u8]) -> Vec<u8> {
    match name {
        ACL_ACCESS => NOTED_ACCESS.to_vec(),
        ACL_DEFAULT => NOTED_DEFAULT.to_vec(),
        // As rsync: what could not be taken for the place of another one stays as it is.
        name if name.starts_with(b"user.") && place_of(name).is_none() => name.to_vec(),
        name => [PREFIX, name].concat(),
    }
}

/// The name for which one below [`PREFIX`] is the place, if it is any's.
fn place_of(kept: &[u8]) -> Option<&[u8]> {
    kept.strip_prefix(PREFIX).filter(|name| super::is_kept(name))
}

/// The name of what is kept under one; none of what is rsync's own.
pub(super) fn name_of_kept(kept: &[u8]) -> Option<Vec<u8>> {
    match kept {
        NOTED_ACCESS => Some(ACL_ACCESS.to_vec()),
        NOTED_DEFAULT => Some(ACL_DEFAULT.to_vec()),
        // The ACL of the file itself is that of its note.
        kept if is_note(kept) || super::is_acl(kept) => None,
        kept => Some(place_of(kept).unwrap_or(kept).to_vec()),
    }
}

/// The value that is kept of an extended attribute: an ACL in rsync's form.
pub(super) fn kept_value(xattr: &Xattr) -> Option<Vec<u8>> {
    if super::is_acl(&xattr.name) { noted_acl(&xattr.value) } else { Some(xattr.value.clone()) }
}

/// The value of what is kept; `mode` has the permissions that an ACL leaves out.
pub(super) fn value_of_kept(name: &[u8], kept: Vec<u8>, mode: u32) -> Option<Vec<u8>> {
    if super::is_acl(name) { read_noted_acl(&kept, mode) } else { Some(kept) }
}

/// Whether an extended attribute is rsync's own note of something, which is no part of what is copied.
pub(super) fn is_note(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with(b"%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rsync_notes_reads_back() {
        let noted =
            Noted { mode: 0o20640, device: Device { major: 4, minor: 64 }, user: 0, group: 4_000_000_000 };
        assert_eq!(noted.text(), "20640 4,64 0:4000000000");
        assert_eq!(Noted::parse(noted.text().as_bytes()), Some(noted));
        for bad in [&b""[..], b"644", b"644 0,0", b"9 0,0 0:0", b"644 0 0:0", b"644 0,0 0", b"\xff 0,0 0:0"] {
            assert_eq!(Noted::parse(bad), None);
        }
    }

    #[test]
    fn names_of_other_namespaces_are_kept_below_rsyncs() {
        for (name, kept) in [
            (&b"user.a"[..], &b"user.a"[..]),
            (b"security.capability", b"user.rsync.security.capability"),
            (b"user.rsync.x", b"user.rsync.x"),
            (b"user.rsync.user.x", b"user.rsync.user.rsync.user.x"),
            (b"user.rsync.trusted.x", b"user.rsync.user.rsync.trusted.x"),
            (ACL_ACCESS, b"user.rsync.%aacl"),
            (ACL_DEFAULT, b"user.rsync.%dacl"),
        ] {
            assert_eq!(kept_name(name), kept);
            assert_eq!(name_of_kept(kept).as_deref(), Some(name));
        }
        // What root put there as it is; its own ACL is none of what is noted.
        assert_eq!(name_of_kept(b"security.selinux").as_deref(), Some(&b"security.selinux"[..]));
        assert_eq!((name_of_kept(STAT), name_of_kept(ACL_ACCESS)), (None, None));
        assert!(is_note(STAT) && !is_note(b"user.rsync.x"));
    }
}
