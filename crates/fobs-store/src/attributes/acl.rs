//! ACLs in the form of the kernel (`linux/posix_acl_xattr.h`): a version, then entries of tag, permissions
//! and number.

/// Of the form, little-endian.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();
/// Length of an entry, bytes.
const ENTRY_LEN: usize = 8;

/// Tags of the entries that a mode has too.
const USER_OBJ: u16 = 0x01;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// An access ACL with the permissions of a mode, as chmod(2) changes one: those of the group go to its mask
/// where it has one. `None`: it is no ACL.
pub(super) fn with_mode(value: &[u8], mode: u32) -> Option<Vec<u8>> {
    let (entries, rest) = value.strip_prefix(&VERSION)?.as_chunks::<ENTRY_LEN>();
    if !rest.is_empty() {
        return None;
    }
    let tag = |entry: &[u8; ENTRY_LEN]| u16::from_le_bytes([entry[0], entry[1]]);
    let of_group = if entries.iter().any(|entry| tag(entry) == MASK) { MASK } else { GROUP_OBJ };
    let mut changed = VERSION.to_vec();
    for entry in entries {
        let mut entry = *entry;
        let shift = match tag(&entry) {
            USER_OBJ => Some(6),
            tag if tag == of_group => Some(3),
            OTHER => Some(0),
            _ => None,
        };
        if let Some(shift) = shift {
            entry[2..4].copy_from_slice(&((mode >> shift & 0o7) as u16).to_le_bytes());
        }
        changed.extend(entry);
    }
    Some(changed)
}

/// What rsync writes in place of permissions that the mode has.
const NO_ENTRY: u32 = 0x80;
/// Tags of entries for one user or group.
const USER: u16 = 0x02;
const GROUP: u16 = 0x08;
/// What marks the entry of a user in rsync's form; that of a group has none.
const NAMED_USER: u32 = 1 << 31;

/// An ACL as rsync notes it: the permissions of owner, group, mask and others, then number and permissions of
/// each further user and group. `None`: it is no ACL.
pub(super) fn noted_acl(value: &[u8]) -> Option<Vec<u8>> {
    let (entries, rest) = value.strip_prefix(&VERSION)?.as_chunks::<ENTRY_LEN>();
    if !rest.is_empty() {
        return None;
    }
    let mut fixed = [NO_ENTRY; 4];
    let mut named = Vec::new();
    for &[tag0, tag1, may0, may1, ref id @ ..] in entries {
        let may = u32::from(u16::from_le_bytes([may0, may1]) & 0o7);
        match u16::from_le_bytes([tag0, tag1]) {
            USER_OBJ => fixed[0] = may,
            GROUP_OBJ => fixed[1] = may,
            MASK => fixed[2] = may,
            OTHER => fixed[3] = may,
            USER => named.push((*id, may | NAMED_USER)),
            GROUP => named.push((*id, may)),
            _ => return None,
        }
    }
    let mut noted = fixed.map(u32::to_le_bytes).concat();
    named.iter().for_each(|(id, may)| noted.extend([*id, may.to_le_bytes()].concat()));
    Some(noted)
}

/// An ACL of the kernel's form from one as rsync notes it; `mode` has what is left out there.
pub(super) fn read_noted_acl(noted: &[u8], mode: u32) -> Option<Vec<u8>> {
    let (fixed, named) = noted.split_at_checked(16)?;
    let (named, rest) = named.as_chunks::<ENTRY_LEN>();
    let (fixed, _) = fixed.as_chunks::<4>();
    let [owner, group, mask, others] = fixed else { return None };
    if !rest.is_empty() {
        return None;
    }
    let number = |bytes: &[u8; 4]| Some(u32::from_le_bytes(*bytes)).filter(|may| *may != NO_ENTRY);
    let entry = |tag: u16, may: u32, id: [u8; 4]| {
        let may = (may & 0o7) as u16;
        [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id].concat()
    };
    const NOBODY: [u8; 4] = u32::MAX.to_le_bytes();
    let mut value = VERSION.to_vec();
    let of = |is_user: bool| {
        named.iter().filter_map(move |[id0, id1, id2, id3, may @ ..]| {
            let may = u32::from_le_bytes(*may);
            let tag = if is_user { USER } else { GROUP };
            (is_user == (may & NAMED_USER != 0)).then(|| entry(tag, may, [*id0, *id1, *id2, *id3]))
        })
    };
    value.extend(entry(USER_OBJ, number(owner).unwrap_or(mode >> 6), NOBODY));
    value.extend(of(true).flatten());
    value.extend(entry(GROUP_OBJ, number(group).unwrap_or(mode >> 3), NOBODY));
    value.extend(of(false).flatten());
    // The kernel takes no entry of one user without a mask.
    match number(mask) {
        Some(mask) => value.extend(entry(MASK, mask, NOBODY)),
        None if !named.is_empty() => value.extend(entry(MASK, mode >> 3, NOBODY)),
        None => {}
    }
    value.extend(entry(OTHER, number(others).unwrap_or(mode), NOBODY));
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16)]) -> Vec<u8> {
        let entry = |(tag, permissions): &(u16, u16)| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &u32::MAX.to_le_bytes()].concat()
        };
        [VERSION.to_vec(), entries.iter().flat_map(entry).collect()].concat()
    }

    #[test]
    fn a_mode_changes_an_acl_as_chmod_does() {
        let masked = [(USER_OBJ, 6), (2, 4), (GROUP_OBJ, 4), (MASK, 4), (OTHER, 4)];
        let expected = [(USER_OBJ, 7), (2, 4), (GROUP_OBJ, 4), (MASK, 6), (OTHER, 0)];
        assert_eq!(with_mode(&acl(&masked), 0o2760), Some(acl(&expected)));
        let plain = [(USER_OBJ, 6), (GROUP_OBJ, 4), (OTHER, 4)];
        assert_eq!(with_mode(&acl(&plain), 0o510), Some(acl(&[(USER_OBJ, 5), (GROUP_OBJ, 1), (OTHER, 0)])));
        assert_eq!(with_mode(&acl(&plain)[1..], 0o600), None);
        assert_eq!(with_mode(&[&acl(&plain)[..], &[1]].concat(), 0o600), None);
    }
}
