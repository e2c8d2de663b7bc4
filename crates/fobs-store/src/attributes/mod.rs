//! What a file has beside its content, mode and time: owner, group, extended attributes (protocol 7.2).
//! POSIX ACLs are the extended attributes [`ACL_ACCESS`] and [`ACL_DEFAULT`].

mod accounts;
mod acl;
mod apply;
mod collect;
mod handle;
mod holes;
mod inherited;
mod links;
mod modes;
mod noted;

use serde::{Deserialize, Serialize};

use rustix::io::Errno;

use crate::stat::NANOSECONDS;
use fobs_filter::XattrRules;

pub(super) use apply::{Applier, HOLD, Unset, open_handle, while_writable};
pub(super) use collect::{Collector, device_len};
pub use fobs_model::options::{FileSystems, Preserve, SymbolicLinks, Unkept};
pub(super) use handle::Handle;
pub(super) use holes::{HOLES_MAX, Part, hash_hole, may_have_holes, part_at, write_zeros};
pub(super) use inherited::left_by_default_acl;
pub(super) use links::{HardLinks, Seen};
pub(super) use modes::{
    Keeping, Made, ModeNow, Modes, access_time_alone, executable_as, timestamps, with_access_time,
};

/// Longest encoded [`Attributes`], bytes: with the longest record beside it they fit a chunk's records.
pub const ATTRIBUTES_LEN_MAX: usize = 192 << 10;
/// Longest value of an extended attribute, bytes (`XATTR_SIZE_MAX` of `linux/limits.h`).
pub const VALUE_LEN_MAX: usize = 64 << 10;
/// Longest name of an extended attribute, bytes (`XATTR_NAME_MAX` of `linux/limits.h`).
pub const NAME_LEN_MAX: usize = 255;
/// Longest name of a user or group, bytes (`LOGIN_NAME_MAX` of `linux/limits.h` is less).
pub const ACCOUNT_NAME_LEN_MAX: usize = 256;
/// All bits of a mode.
pub(super) const MODE_BITS: u32 = 0o7777;
/// Setuid and setgid.
pub(super) const SET_ID_BITS: u32 = 0o6000;
/// The extended attribute that holds an ACL.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// The extended attribute that holds the ACL that a directory gives to what is made in it.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";
/// The namespaces of the other extended attributes; `system.` has the kernel's own.
const NAMESPACES: &[&[u8]] = &[b"user.", b"trusted.", b"security."];

/// The name under which an access time travels among the extended attributes: no file has one of this name.
const ACCESS_TIME: &[u8] = b"fobs.atime";
/// Length of its value, bytes: seconds since 1970 (i64), then nanoseconds (u32), little-endian.
const ACCESS_TIME_LEN: usize = 12;

/// What the transfer keeps of a file beside content, mode and time. A part that is not kept is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// The owner.
    pub user: Option<Account>,
    /// The group.
    pub group: Option<Account>,
    /// Extended attributes and ACLs; none if they are not kept. An empty list removes what there is.
    pub xattrs: Option<Vec<Xattr>>,
}

/// A user or group of the source's host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its number, never `u32::MAX`, which the kernel takes for "leave it".
    pub id: u32,
    /// Its name; none with `--numeric-ids` or where it has none.
    pub name: Option<String>,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xattr {
    /// Its name with its namespace, raw bytes.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Its value.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

impl Attributes {
    /// The bytes of a record.
    ///
    /// # Errors
    /// They break a rule or are longer than `ATTRIBUTES_LEN_MAX`.
    pub fn encode(&self) -> Result<Vec<u8>, &'static str> {
        self.check()?;
        let bytes = postcard::to_allocvec(self).map_err(|_| "attributes cannot be encoded")?;
        if bytes.len() <= ATTRIBUTES_LEN_MAX { Ok(bytes) } else { Err(TOO_LONG) }
    }

    /// Reads a record's bytes; allocates no more than they are long.
    ///
    /// # Errors
    /// They are longer than `ATTRIBUTES_LEN_MAX`, are not attributes or break a rule.
    pub fn decode(bytes: &[u8]) -> Result<Attributes, &'static str> {
        if bytes.len() > ATTRIBUTES_LEN_MAX {
            return Err(TOO_LONG);
        }
        match postcard::take_from_bytes::<Attributes>(bytes) {
            Ok((attributes, [])) => attributes.check().map(|()| attributes),
            _ => Err("attributes cannot be read"),
        }
    }

    /// The access time, where that is kept.
    pub(crate) fn access_time(&self) -> Option<(i64, u32)> {
        let xattr = self.xattrs.iter().flatten().find(|xattr| xattr.name == ACCESS_TIME)?;
        let (seconds, nanoseconds) = xattr.value.split_first_chunk()?;
        Some((i64::from_le_bytes(*seconds), u32::from_le_bytes(*nanoseconds.first_chunk()?)))
    }

    /// Bytes that they take.
    pub(crate) fn memory(&self) -> usize {
        let xattrs = self.xattrs.iter().flatten();
        let of_xattr = |xattr: &Xattr| size_of::<Xattr>() + xattr.name.len() + xattr.value.len();
        size_of::<Attributes>() + 2 * ACCOUNT_NAME_LEN_MAX + xattrs.map(of_xattr).sum::<usize>()
    }

    /// The rules for attributes, checked by both sides.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        for account in self.user.iter().chain(&self.group) {
            account.check()?;
        }
        self.xattrs.iter().flatten().try_for_each(Xattr::check)
    }
}

impl Account {
    fn check(&self) -> Result<(), &'static str> {
        if self.id == u32::MAX {
            return Err("the number of a user or group is 2^32 - 1");
        }
        match self.name.as_deref() {
            Some(name) if name.is_empty() || name.len() > ACCOUNT_NAME_LEN_MAX || name.contains('\0') => {
                Err("the name of a user or group is empty, too long or has a NUL byte in it")
            }
            _ => Ok(()),
        }
    }
}

impl Xattr {
    fn check(&self) -> Result<(), &'static str> {
        if self.name.len() > NAME_LEN_MAX || self.name.contains(&0) {
            return Err("the name of an extended attribute is too long or has a NUL byte in it");
        }
        if self.name == ACCESS_TIME {
            let nanoseconds = self.value.last_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            let is_time =
                self.value.len() == ACCESS_TIME_LEN && nanoseconds.is_some_and(|it| it < NANOSECONDS);
            return if is_time { Ok(()) } else { Err("an access time cannot be read") };
        }
        if !is_kept(&self.name) {
            return Err("an extended attribute is in a namespace that is not copied");
        }
        if self.value.len() <= VALUE_LEN_MAX {
            Ok(())
        } else {
            Err("the value of an extended attribute is longer than 64 KiB")
        }
    }
}

impl Xattr {
    /// An access time, as it travels.
    pub(crate) fn of_access_time(seconds: i64, nanoseconds: u32) -> Xattr {
        let value = [&seconds.to_le_bytes()[..], &nanoseconds.to_le_bytes()].concat();
        Xattr { name: ACCESS_TIME.to_vec(), value }
    }

    /// Whether it is one of a file, and no access time.
    pub(crate) fn is_of_file(&self) -> bool {
        self.name != ACCESS_TIME
    }

    /// Gives an access ACL the permissions of a mode.
    pub(crate) fn take_mode(&mut self, mode: u32) {
        if self.name == ACL_ACCESS
            && let Some(changed) = acl::with_mode(&self.value, mode)
        {
            self.value = changed;
        }
    }
}

/// Whether an extended attribute of this name is an ACL.
pub fn is_acl(name: &[u8]) -> bool {
    name == ACL_ACCESS || name == ACL_DEFAULT
}

/// Whether an extended attribute of this name can be in [`Attributes`].
pub fn is_kept(name: &[u8]) -> bool {
    let in_namespace = |space: &&[u8]| name.len() > space.len() && name.starts_with(space);
    is_acl(name) || NAMESPACES.iter().any(in_namespace)
}

const TOO_LONG: &str = "the attributes of a file are longer than 192 KiB";

/// Which extended attributes are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptXattrs<'a> {
    pub(super) preserve: &'a Preserve,
    /// Without root's rights only what any user may see and set is kept, as in rsync.
    pub(super) is_root: bool,
    pub(super) rules: &'a XattrRules,
}

impl KeptXattrs<'_> {
    /// Whether one of this name is. Rules that take too much work are `E2BIG`.
    pub(super) fn have(&self, name: &[u8]) -> Result<bool, Errno> {
        let keeps_notes = self.preserve.xattr_notes && !self.preserve.fake_super;
        if !is_kept(name) || noted::is_note(name) && !keeps_notes || name.len() > NAME_LEN_MAX {
            return Ok(false);
        }
        if is_acl(name) && self.preserve.acls {
            return Ok(true);
        }
        // As rsync: with rules an ACL is one of the others.
        let allowed =
            if is_acl(name) { self.rules.cover_acls() } else { self.is_root || name.starts_with(b"user.") };
        Ok(self.preserve.xattrs && allowed && self.rules.include(name).ok_or(Errno::TOOBIG)?)
    }

    /// Whether any of the ACLs are, or of the others.
    pub(super) fn have_any(&self, acls: bool) -> bool {
        if acls {
            self.preserve.acls || self.preserve.xattrs && self.rules.cover_acls()
        } else {
            self.preserve.xattrs
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn xattr(name: &[u8], value: usize) -> Attributes {
        let xattr = Xattr { name: name.to_vec(), value: vec![7; value] };
        Attributes { xattrs: Some(vec![xattr]), ..Attributes::default() }
    }

    fn user(id: u32, name: &str) -> Attributes {
        let user = Account { id, name: Some(name.to_owned()) };
        Attributes { user: Some(user), ..Attributes::default() }
    }

    #[test]
    fn attributes_read_back_as_written() {
        for attributes in [
            Attributes::default(),
            user(0, "root"),
            Attributes { group: Some(Account { id: 5, name: None }), ..Attributes::default() },
            Attributes { xattrs: Some(Vec::new()), ..Attributes::default() },
            xattr(ACL_ACCESS, 44),
            xattr(b"user.\xff", VALUE_LEN_MAX),
            Attributes { xattrs: Some(vec![Xattr::of_access_time(-7, 5)]), ..Attributes::default() },
        ] {
            let bytes = attributes.encode().expect("they keep the rules");
            assert_eq!(Attributes::decode(&bytes), Ok(attributes));
        }
    }

    #[test]
    fn attributes_out_of_bounds_are_refused() {
        let long_name = [b"user.".to_vec(), vec![b'n'; NAME_LEN_MAX]].concat();
        for bad in [
            user(u32::MAX, "root"),
            user(1, ""),
            user(1, "a\0"),
            user(1, &"n".repeat(ACCOUNT_NAME_LEN_MAX + 1)),
            xattr(b"", 0),
            xattr(b"user.", 0),
            xattr(b"system.nfs4_acl", 0),
            xattr(b"user.a\0", 0),
            xattr(&long_name, 0),
            xattr(b"user.a", VALUE_LEN_MAX + 1),
            xattr(ACCESS_TIME, ACCESS_TIME_LEN - 1),
            xattr(ACCESS_TIME, ACCESS_TIME_LEN + 1),
            Attributes { xattrs: Some(vec![Xattr::of_access_time(0, NANOSECONDS)]), ..Attributes::default() },
        ] {
            assert!(bad.encode().is_err(), "{bad:?}");
            let bytes = postcard::to_allocvec(&bad).expect("it can be encoded");
            assert!(Attributes::decode(&bytes).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn attributes_are_bounded_in_all() {
        let one = Xattr { name: b"user.a".to_vec(), value: vec![7; VALUE_LEN_MAX] };
        let three = Attributes { xattrs: Some(vec![one; 3]), ..Attributes::default() };
        assert_eq!(three.encode(), Err(TOO_LONG));
        let bytes = postcard::to_allocvec(&three).expect("they can be encoded");
        assert_eq!(Attributes::decode(&bytes), Err(TOO_LONG));
    }

    #[test]
    fn bytes_left_over_are_refused() {
        let mut bytes = user(0, "root").encode().expect("good attributes");
        bytes.push(0);
        assert!(Attributes::decode(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_attributes_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(attributes) = Attributes::decode(&bytes) {
                prop_assert!(attributes.encode().is_ok());
            }
        }
    }
}
