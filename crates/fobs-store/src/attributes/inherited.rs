//! What a directory gives to what is made in it: the permissions of its default ACL, or the umask's.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::ACL_DEFAULT;
use super::handle::Handle;

/// An ACL in the format of the kernel (`linux/posix_acl_xattr.h`): a version, then entries of tag (u16),
/// permissions (u16) and number (u32), little-endian.
const HEADER_LEN: usize = 4;
const ENTRY_LEN: usize = 8;
/// Tags of entries.
const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// The permissions that the default ACL of a directory, which may be open for lookups only, leaves to what is
/// made in it. `None` if it has none.
pub(crate) fn left_by_default_acl(directory: BorrowedFd<'_>) -> Option<u32> {
    match Handle::Held(directory).value(ACL_DEFAULT) {
        Ok(value) => value.map(|value| left_by(&value)),
        Err(Errno::OPNOTSUPP) => None,
        // It may leave nothing: what cannot be known is not given.
        Err(_) => Some(0o700),
    }
}

/// What an ACL allows at most to owner, group and others.
fn left_by(acl: &[u8]) -> u32 {
    let (entries, _) = acl.get(HEADER_LEN..).unwrap_or_default().as_chunks::<ENTRY_LEN>();
    let number = |low, high| u16::from_le_bytes([low, high]);
    let of = |wanted: u16| {
        let mut found = entries.iter().filter(|entry| number(entry[0], entry[1]) == wanted);
        found.next().map(|entry| u32::from(number(entry[2], entry[3]) & 0o7))
    };
    let group = of(MASK).or(of(GROUP)).unwrap_or(0);
    of(OWNER).unwrap_or(0) << 6 | group << 3 | of(OTHERS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_acl_leaves_what_its_mask_does() {
        let acl = |entries: &[(u16, u16)]| {
            let mut bytes = 2_u32.to_le_bytes().to_vec();
            for (tag, may) in entries {
                bytes.extend([&tag.to_le_bytes()[..], &may.to_le_bytes(), &u32::MAX.to_le_bytes()].concat());
            }
            bytes
        };
        for (entries, left) in [
            (&[(OWNER, 7), (GROUP, 5), (OTHERS, 0)][..], 0o750),
            (&[(OWNER, 7), (2, 7), (GROUP, 5), (MASK, 7), (OTHERS, 0)], 0o770),
            (&[(OWNER, 6), (GROUP, 7), (8, 7), (MASK, 4), (OTHERS, 1)], 0o641),
            (&[], 0),
        ] {
            assert_eq!(left_by(&acl(entries)), left, "{entries:?}");
        }
        assert_eq!((left_by(b""), left_by(b"\x02\0\0\0\x01")), (0, 0), "what is torn leaves nothing");
    }
}
