//! The sender's side: reads what entries have beside content.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, SeekFrom, Stat};
use rustix::io::Errno;

use super::accounts::{Accounts, Rights};
use super::handle::Handle;
use super::noted::{as_noted, name_of_kept, value_of_kept};
use super::{ATTRIBUTES_LEN_MAX, Account, Attributes, HOLD, KeptXattrs, Xattr};
use crate::at::open_beneath;
use crate::beneath;
use crate::beneath::{Links, kind};
use crate::stat::{Meta, NANOSECONDS};
use fobs_filter::XattrRules;
use fobs_model::options::Chmod;
use fobs_model::options::{Preserve, Privileges};

/// Reads attributes.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    pub(crate) preserve: Preserve,
    is_root: bool,
    /// Which names of extended attributes count on this side.
    rules: XattrRules,
    /// Whether devices are read as files: only with the rights of the user itself.
    pub(crate) copies_devices: bool,
    accounts: Arc<Accounts>,
}

impl Collector {
    pub(crate) fn new(preserve: Preserve, privileges: Privileges, rules: XattrRules) -> Collector {
        let is_root = Rights::new(privileges).is_root;
        let copies_devices = preserve.copy_devices && privileges == Privileges::OfTheUser;
        Collector { preserve, is_root, rules, copies_devices, accounts: Arc::default() }
    }

    /// The same where other rules hold.
    pub(crate) fn ruled_by(&self, rules: &XattrRules) -> Collector {
        Collector { rules: rules.clone(), ..self.clone() }
    }

    /// Which extended attributes are kept.
    pub(crate) fn kept(&self) -> KeptXattrs<'_> {
        // What is only noted takes no rights.
        let is_root = self.is_root || self.preserve.fake_super;
        KeptXattrs { preserve: &self.preserve, is_root, rules: &self.rules }
    }

    /// The status of an entry, as it is noted with it where that counts (`--fake-super`).
    pub(crate) fn seen(&self, file: Handle<'_>, stat: &Stat) -> Result<Stat, Errno> {
        if self.preserve.fake_super { as_noted(file, stat) } else { Ok(*stat) }
    }

    /// Whether something is a device that is read as a file (`--copy-devices`).
    pub(crate) fn reads_as_file(&self, stat: &Stat) -> bool {
        self.copies_devices && matches!(kind(stat), FileType::BlockDevice | FileType::CharacterDevice)
    }

    /// The status of an open device that is read as a file: of now, as rsync has it.
    pub(crate) fn device_as_file(&self, device: &OwnedFd, stat: &Stat) -> Result<Stat, Errno> {
        let size = device_len(device)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut seen = *stat;
        seen.st_mode = FileType::RegularFile.as_raw_mode() | stat.st_mode & 0o777;
        seen.st_size = i64::try_from(size).unwrap_or(i64::MAX);
        seen.st_mtime = i64::try_from(now.as_secs()).unwrap_or(0);
        seen.st_mtime_nsec = now.subsec_nanos().into();
        Ok(seen)
    }

    /// Likewise of a name, whose file is not followed and only held where that is needed.
    pub(crate) fn seen_at(&self, directory: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<Stat, Errno> {
        if !self.preserve.fake_super || !matches!(kind(stat), FileType::RegularFile | FileType::Directory) {
            return Ok(*stat);
        }
        let held = open_beneath(directory, name, HOLD, Mode::empty(), Links::Refuse)?;
        as_noted(Handle::Held(held.as_fd()), stat)
    }

    /// Mode and time as they are sent.
    pub(crate) fn meta(&self, stat: &Stat) -> Meta {
        let meta = beneath::meta(stat);
        match kind(stat) {
            FileType::Symlink => meta,
            kind => {
                let mode = self.preserve.chmod.apply(meta.mode, kind == FileType::Directory);
                Meta { mode, ..meta }
            }
        }
    }

    /// What the transfer keeps of a file, as it is sent; none if it keeps nothing.
    pub(crate) fn attributes(&self, file: Handle<'_>, stat: &Stat) -> Result<Option<Box<Attributes>>, Errno> {
        let mut found = self.found_attributes(file, stat)?;
        if self.preserve.chmod != Chmod::default()
            && let Some(xattrs) = found.as_mut().and_then(|it| it.xattrs.as_mut())
        {
            // Or the ACL, which is set after the mode, takes the change back.
            let mode = self.meta(stat).mode;
            xattrs.iter_mut().for_each(|xattr| xattr.take_mode(mode));
        }
        Ok(found)
    }

    /// Likewise, as it is.
    pub(crate) fn found_attributes(
        &self,
        file: Handle<'_>,
        stat: &Stat,
    ) -> Result<Option<Box<Attributes>>, Errno> {
        let preserve = &self.preserve;
        if !preserve.has_attributes() {
            return Ok(None);
        }
        let reads = preserve.xattrs || preserve.acls;
        let mut xattrs = if reads { Some(self.xattrs(file, stat.st_mode)?) } else { None };
        if preserve.atimes && kind(stat) != FileType::Directory {
            let nanoseconds = u32::try_from(stat.st_atime_nsec).unwrap_or(0).min(NANOSECONDS - 1);
            let accessed = Xattr::of_access_time(stat.st_atime, nanoseconds);
            xattrs.get_or_insert_default().push(accessed);
        }
        Ok(Some(Box::new(Attributes {
            user: preserve.owner.then(|| self.user(stat.st_uid)),
            group: preserve.group.then(|| self.group(stat.st_gid)),
            xattrs,
        })))
    }

    fn user(&self, id: u32) -> Account {
        // With --numeric-ids no account has a name, as in rsync.
        let (map, mapping) = (&self.preserve.users, self.preserve.ids);
        let own = self.accounts.user(id, mapping);
        let to = map.of(id, own.name.as_deref()).map(str::to_owned);
        to.map_or(own, |to| named(to, id))
    }

    fn group(&self, id: u32) -> Account {
        // With --numeric-ids no account has a name, as in rsync.
        let (map, mapping) = (&self.preserve.groups, self.preserve.ids);
        let own = self.accounts.group(id, mapping);
        let to = map.of(id, own.name.as_deref()).map(str::to_owned);
        to.map_or(own, |to| named(to, id))
    }

    /// Likewise of a name, whose file is not followed and only held where that is needed.
    pub(crate) fn attributes_at(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        stat: &Stat,
    ) -> Result<Option<Box<Attributes>>, Errno> {
        if !self.preserve.xattrs && !self.preserve.acls {
            // The handle is not used.
            return self.attributes(Handle::Held(directory), stat);
        }
        let held = open_beneath(directory, name, HOLD, Mode::empty(), Links::Refuse)?;
        self.attributes(Handle::Held(held.as_fd()), stat)
    }

    fn xattrs(&self, file: Handle<'_>, mode: u32) -> Result<Vec<Xattr>, Errno> {
        read_xattrs(file, self.kept(), mode)
    }
}

/// Bytes of a device, 0 of one without an end.
pub(crate) fn device_len(device: &OwnedFd) -> Result<u64, Errno> {
    let len = match rustix::fs::seek(device, SeekFrom::End(0)) {
        Err(Errno::SPIPE | Errno::INVAL) => 0,
        len => len?,
    };
    // What has no end has no place either.
    let _ = rustix::fs::seek(device, SeekFrom::Start(0));
    Ok(len)
}

/// An account of a rule. A name is the receiver's; where it has none of that name, the number counts.
fn named(to: String, id: u32) -> Account {
    match to.parse::<u32>() {
        Ok(id) if id != u32::MAX => Account { id, name: None },
        // Number 0 would stay 0, whatever the name is.
        _ => Account { id: if id == 0 { NOBODY } else { id }, name: Some(to) },
    }
}

/// The number of an account that owns nothing: for root's entries, where the receiver does not know the name.
const NOBODY: u32 = 65_534;

/// The extended attributes that are kept, by name. Too many are `E2BIG`.
/// Of a file whose own are noted, `mode` has the permissions that an ACL leaves out there.
pub(super) fn read_xattrs(file: Handle<'_>, kept: KeptXattrs<'_>, mode: u32) -> Result<Vec<Xattr>, Errno> {
    let is_noted = kept.preserve.fake_super;
    let mut names: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for own in file.names()? {
        let name = if is_noted { name_of_kept(&own) } else { Some(own.clone()) };
        if let Some(name) = name
            && kept.have(&name)?
        {
            names.push((name, own));
        }
    }
    // As rsync, root reads those that are not kept elsewhere, too; of two of a name, not these.
    names.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    names.dedup_by(|later, first| later.0 == first.0);
    let (mut xattrs, mut len) = (Vec::new(), 0);
    for (name, own) in names {
        // One may vanish in between.
        let Some(value) = file.value(&own)? else { continue };
        let value = if is_noted { value_of_kept(&name, value, mode) } else { Some(value) };
        let Some(value) = value else { continue };
        len += name.len() + value.len();
        if len > ATTRIBUTES_LEN_MAX {
            return Err(Errno::TOOBIG);
        }
        xattrs.push(Xattr { name, value });
    }
    Ok(xattrs)
}
