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
