//! The sender's side: reads what entries have beside content.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;

use super::accounts::{Accounts, Rights};
use super::handle::Handle;
use super::{ATTRIBUTES_LEN_MAX, Account, Attributes, HOLD, Xattr, is_preserved};
use crate::at::open_beneath;
use crate::beneath;
use crate::beneath::{Links, kind};
use crate::stat::Meta;
use fobs_model::options::Chmod;
use fobs_model::options::{IdMapping, Preserve, Privileges};

/// Reads attributes.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) preserve: Preserve,
    is_root: bool,
    accounts: Accounts,
}

impl Collector {
    pub(crate) fn new(preserve: Preserve, privileges: Privileges) -> Collector {
        let is_root = Rights::new(privileges).is_root;
        Collector { preserve, is_root, accounts: Accounts::default() }
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
        let xattrs = if preserve.xattrs || preserve.acls { Some(self.xattrs(file)?) } else { None };
        Ok(Some(Box::new(Attributes {
            user: preserve.owner.then(|| self.user(stat.st_uid)),
            group: preserve.group.then(|| self.group(stat.st_gid)),
            xattrs,
        })))
    }

    fn user(&self, id: u32) -> Account {
        let map = &self.preserve.users;
        let mapping = if map.is_empty() { self.preserve.ids } else { IdMapping::Names };
        let own = self.accounts.user(id, mapping);
        let to = map.of(id, own.name.as_deref()).map(str::to_owned);
        to.map_or(own, |to| named(to, id))
    }

    fn group(&self, id: u32) -> Account {
        let map = &self.preserve.groups;
        let mapping = if map.is_empty() { self.preserve.ids } else { IdMapping::Names };
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

    fn xattrs(&self, file: Handle<'_>) -> Result<Vec<Xattr>, Errno> {
        read_xattrs(file, &self.preserve, self.is_root)
    }
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
pub(super) fn read_xattrs(file: Handle<'_>, preserve: &Preserve, is_root: bool) -> Result<Vec<Xattr>, Errno> {
    let mut names = file.names()?;
    names.retain(|name| is_preserved(name, preserve, is_root));
    names.sort_unstable();
    let (mut xattrs, mut len) = (Vec::new(), 0);
    for name in names {
        // One may vanish in between.
        let Some(value) = file.value(&name)? else { continue };
        len += name.len() + value.len();
        if len > ATTRIBUTES_LEN_MAX {
            return Err(Errno::TOOBIG);
        }
        xattrs.push(Xattr { name, value });
    }
    Ok(xattrs)
}
