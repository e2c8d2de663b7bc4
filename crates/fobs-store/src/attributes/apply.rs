//! The receiver's side: gives files their owner, extended attributes, mode, ACLs and time.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::accounts::{Accounts, Rights};
use super::handle::Handle;
use super::inherited::left_by_default_acl;
use super::noted::{Noted, as_noted, device_of, kept_name, kept_value, name_of_kept};
use super::{
    Attributes, Keeping, KeptXattrs, MODE_BITS, Made, ModeNow, Modes, SET_ID_BITS, access_time_alone, is_acl,
    with_access_time,
};
use crate::of_last::OfLast;
use crate::record::Device;
use crate::stat::Meta;
use fobs_filter::XattrRules;
use fobs_model::options::{Preserve, Privileges};

/// The owner's permission to write.
const OWNER_WRITES: u32 = 0o200;
/// Types of devices, as `stat` has them.
const BLOCK_DEVICE: u32 = 0o060_000;
const CHARACTER_DEVICE: u32 = 0o020_000;
/// Opens a link, fifo or device itself.
pub(crate) const HOLD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

/// Gives files what they had at the source.
#[derive(Debug)]
pub(crate) struct Applier {
    pub(crate) preserve: Preserve,
    pub(crate) keeping: Keeping,
    pub(crate) rights: Rights,
    /// Whether what is written may be a device: only with the rights of the user itself.
    pub(crate) may_open_devices: bool,
    /// Which names of extended attributes may be set and removed here.
    xattr_rules: XattrRules,
    accounts: Accounts,
    /// The permissions that a default ACL leaves to what is made in a directory; `None` without one.
    inherited: OfLast<Option<u32>>,
}

/// What could not be set, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unset {
    /// The object of "set".
    pub(crate) what: String,
    pub(crate) errno: Errno,
}

impl Applier {
    pub(crate) fn new(
        preserve: Preserve,
        keeping: Keeping,
        privileges: Privileges,
        xattr_rules: XattrRules,
    ) -> Applier {
        let rights = Rights::new(privileges);
        // What is only noted takes no rights.
        let rights = if preserve.fake_super {
            Rights { is_root: true, mode_bits: MODE_BITS, ..rights }
        } else {
            rights
        };
        Applier {
            preserve,
            keeping,
            rights,
            may_open_devices: privileges == Privileges::OfTheUser,
            xattr_rules,
            accounts: Accounts::default(),
            inherited: OfLast::default(),
        }
    }

    /// The permissions that something may have which is made in a directory, where they are not those of the
    /// source.
    pub(crate) fn allowed_in(&self, directory: &Arc<OwnedFd>) -> u32 {
        match self.keeping.modes {
            Modes::Exact => 0o777,
            Modes::Ordinary { umask } => {
                self.inherited.get(directory, left_by_default_acl).unwrap_or(0o777 & !umask)
            }
        }
    }

    /// Something of this mode that was made in a directory.
    pub(crate) fn made_in(&self, directory: &Arc<OwnedFd>, mode: Option<u32>) -> ModeNow {
        ModeNow::Made(Made { mode, allowed: self.allowed_in(directory), inherited: 0 })
    }

    /// Sets everything that is kept of a file or directory. Goes on after a failure; the first one is
    /// returned.
    pub(crate) fn dress(
        &self,
        file: Handle<'_>,
        now: ModeNow,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Result<(), Unset> {
        let result = self.dress_without_time(file, now, meta, attributes);
        let timed = self.set_times(file, meta, attributes);
        result.and(timed)
    }

    /// Likewise of a file that stands for something else (`--fake-super`).
    pub(crate) fn dress_as(
        &self,
        file: Handle<'_>,
        (type_bits, device): (u32, Device),
        now: ModeNow,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Result<(), Unset> {
        let mut result = self.note(file, Some((type_bits, device)), now, meta, attributes);
        keep_first(&mut result, self.set_xattrs(file, attributes, false));
        keep_first(&mut result, self.set_times(file, meta, attributes));
        result
    }

    /// Notes what a file or directory is to be, with it.
    fn note(
        &self,
        file: Handle<'_>,
        stands_for: Option<(u32, Device)>,
        now: ModeNow,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Result<(), Unset> {
        let noted = file.status().and_then(|stat| {
            let seen = as_noted(file, &stat)?;
            let of_seen = || (seen.st_mode & !MODE_BITS, device_of(&seen));
            let (type_bits, device) = stands_for.unwrap_or_else(of_seen);
            let mode = match now {
                ModeNow::Stays => seen.st_mode & MODE_BITS,
                now => self.wanted_mode(file, now, meta)?,
            };
            let (user, group) = attributes.map_or((None, None), |attributes| self.owner(attributes));
            let (user, group) = (user.unwrap_or(seen.st_uid), group.unwrap_or(seen.st_gid));
            let is_device = matches!(type_bits, BLOCK_DEVICE | CHARACTER_DEVICE);
            let device = if is_device { device } else { Device::default() };
            while_writable(file, || Noted { mode: type_bits | mode, device, user, group }.set(file, &stat))
        });
        noted.map_err(|errno| Unset { what: "the note of owner and mode".to_owned(), errno })
    }

    /// Likewise, and leaves its time.
    pub(crate) fn dress_without_time(
        &self,
        file: Handle<'_>,
        now: ModeNow,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Result<(), Unset> {
        if self.preserve.fake_super {
            let mut result = self.note(file, None, now, meta, attributes);
            keep_first(&mut result, self.set_xattrs(file, attributes, false));
            keep_first(&mut result, self.set_xattrs(file, attributes, true));
            return result;
        }
        let mut result = Ok(());
        // The owner before the mode: a change of owner clears setuid, and one that fails must not leave it.
        let owned = attributes.map_or(Ok(()), |attributes| self.set_owner(file, attributes));
        let meta = match owned {
            Ok(()) => meta,
            Err(_) => Meta { mode: meta.mode & !SET_ID_BITS, ..meta },
        };
        keep_first(&mut result, owned);
        // Before the mode, because they can only be set on a file that may be written; ACLs after it, because
        // a mode changes the ACL.
        keep_first(&mut result, self.set_xattrs(file, attributes, false));
        keep_first(&mut result, self.set_mode(file, now, meta));
        keep_first(&mut result, self.set_xattrs(file, attributes, true));
        result
    }

    /// Sets the owner and the extended attributes of a symbolic link, which has no mode.
    pub(crate) fn dress_link(&self, link: Handle<'_>, attributes: &Attributes) -> Result<(), Unset> {
        if self.preserve.fake_super {
            // One that is no file has no notes.
            return Ok(());
        }
        let mut result = self.set_owner(link, attributes);
        keep_first(&mut result, self.set_xattrs(link, Some(attributes), false));
        result
    }

    fn set_owner(&self, file: Handle<'_>, attributes: &Attributes) -> Result<(), Unset> {
        match self.owner(attributes) {
            (None, None) => Ok(()),
            (user, group) => {
                let what = if user.is_some() { "the owner" } else { "the group" };
                file.set_owner(user, group).map_err(|errno| Unset { what: what.to_owned(), errno })
            }
        }
    }

    /// The user and group that an entry gets here; none where it keeps what it has.
    pub(crate) fn owner(&self, attributes: &Attributes) -> (Option<u32>, Option<u32>) {
        let Attributes { user, group, .. } = attributes;
        let ids = self.preserve.ids;
        let user = user.as_ref().filter(|_| self.preserve.owner);
        let group = group.as_ref().filter(|_| self.preserve.group);
        self.rights.settable(
            user.map(|user| self.accounts.user_id(user, ids)),
            group.map(|group| self.accounts.group_id(group, ids)),
        )
    }

    /// Sets the extended attributes that are kept, ACLs or the others, and removes those that the source does
    /// not have.
    fn set_xattrs(&self, file: Handle<'_>, attributes: Option<&Attributes>, acls: bool) -> Result<(), Unset> {
        let (preserve, is_root) = (&self.preserve, self.rights.is_root);
        let kept = KeptXattrs { preserve, is_root, rules: &self.xattr_rules };
        let asked = kept.have_any(acls);
        let Some(wanted) = attributes.and_then(|it| it.xattrs.as_ref()).filter(|_| asked) else {
            return Ok(());
        };
        // What cannot be judged stays as it is.
        let is_meant = |name: &[u8]| is_acl(name) == acls && kept.have(name).unwrap_or(false);
        let failed = |name: &[u8], errno| {
            let name = fobs_filter::path::show(name);
            Unset { what: format!("the extended attribute '{name}'"), errno }
        };
        let is_noted = self.preserve.fake_super;
        // As rsync: what only root could remove is not looked at where all is noted, unless rules are given.
        let may_go = |own: &&Vec<u8>| !is_noted || own.starts_with(b"user.") || self.xattr_rules.are_given();
        let named = |own: &Vec<u8>| if is_noted { name_of_kept(own) } else { Some(own.clone()) };
        let present = file.names().map_err(|errno| failed(b"", errno))?;
        let mut result = Ok(());
        for own in present.iter().filter(may_go) {
            let Some(name) = named(own).filter(|name| is_meant(name)) else { continue };
            if !wanted.iter().any(|xattr| xattr.name == name) {
                let removed = while_writable(file, || file.remove_value(own));
                keep_first(&mut result, removed.map_err(|errno| failed(&name, errno)));
            }
        }
        for xattr in wanted.iter().filter(|xattr| is_meant(&xattr.name)) {
            let (name, value) = if is_noted {
                let Some(value) = kept_value(xattr) else { continue };
                (Cow::Owned(kept_name(&xattr.name)), Cow::Owned(value))
            } else {
                (Cow::Borrowed(&xattr.name), Cow::Borrowed(&xattr.value))
            };
            let set = while_writable(file, || file.set_value(&name, &value));
            keep_first(&mut result, set.map_err(|errno| failed(&xattr.name, errno)));
        }
        result
    }

    fn set_mode(&self, file: Handle<'_>, now: ModeNow, meta: Meta) -> Result<(), Unset> {
        let set = self.wanted_mode(file, now, meta).and_then(|wanted| match now {
            ModeNow::Stays => Ok(()),
            ModeNow::Made(Made { mode: Some(mode), .. }) if mode == wanted => Ok(()),
            _ => file.set_mode(wanted),
        });
        set.map_err(|errno| Unset { what: "the mode".to_owned(), errno })
    }

    /// What may not be set stays as it is.
    fn wanted_mode(&self, file: Handle<'_>, now: ModeNow, meta: Meta) -> Result<u32, Errno> {
        let settable = self.rights.mode_bits;
        match (self.keeping.modes, now) {
            (Modes::Ordinary { .. }, ModeNow::Made(Made { allowed, inherited, .. })) => {
                Ok(meta.mode & 0o777 & allowed | inherited)
            }
            (Modes::Ordinary { umask }, _) => Ok(meta.mode & 0o777 & !umask),
            (Modes::Exact, ModeNow::Unknown) if settable != MODE_BITS => {
                Ok(meta.mode & settable | file.mode()? & MODE_BITS & !settable)
            }
            (Modes::Exact, _) => Ok(meta.mode & settable),
        }
    }

    pub(crate) fn set_times(
        &self,
        file: Handle<'_>,
        meta: Meta,
        attributes: Option<&Attributes>,
    ) -> Result<(), Unset> {
        let accessed = attributes.and_then(Attributes::access_time).filter(|_| self.preserve.atimes);
        let times = match (self.keeping.times, accessed) {
            (true, accessed) => with_access_time(meta, accessed),
            (false, Some(accessed)) => access_time_alone(accessed),
            (false, None) => return Ok(()),
        };
        file.set_times(&times).map_err(|errno| Unset { what: "the time".to_owned(), errno })
    }

    /// Sets an access time alone.
    pub(crate) fn set_access_time(
        &self,
        file: Handle<'_>,
        attributes: Option<&Attributes>,
    ) -> Result<(), Errno> {
        match attributes.and_then(Attributes::access_time).filter(|_| self.preserve.atimes) {
            Some(accessed) => file.set_times(&access_time_alone(accessed)),
            None => Ok(()),
        }
    }
}

/// A handle of an open file or directory.
pub(crate) fn open_handle(file: &impl AsFd) -> Handle<'_> {
    Handle::Open(file.as_fd())
}

/// Does something that needs a file or directory its owner may write, as rsync does: gives it that permission
/// meanwhile.
pub(crate) fn while_writable<T>(file: Handle<'_>, change: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let refused = match change() {
        Err(errno @ (Errno::ACCESS | Errno::PERM)) => errno,
        done => return done,
    };
    let mode = file.mode()? & MODE_BITS;
    if mode & OWNER_WRITES != 0 || file.set_mode(mode | OWNER_WRITES).is_err() {
        return Err(refused);
    }
    let (changed, restored) = (change(), file.set_mode(mode));
    restored.and(changed)
}

fn keep_first(result: &mut Result<(), Unset>, next: Result<(), Unset>) {
    if result.is_ok() {
        *result = next;
    }
}
