//! The names of journals.

use rustix::process::geteuid;

use super::format::ClientId;
use crate::storage::temporary::{NAME_LEN_MAX, is_temporary};

/// Behind the name of what is copied, in a journal's name.
const SUFFIX: &[u8] = b".fobs-journal";
/// Before the hash, where several names are copied at once.
const HASHED_PREFIX: &[u8] = b".fobs-";
/// Behind the hash.
const HASHED_SUFFIX: &[u8] = b".journal";
/// Hexadecimal digits of the hash.
const HASH_DIGITS: usize = 16;

/// What a transfer puts at the top of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Top<'a> {
    /// The one source becomes this name, whatever its own is.
    As(&'a [u8]),
    /// These names.
    Names(&'a [Vec<u8>]),
    /// Whatever is in a directory.
    Contents,
}

/// The name of the journal of such a transfer.
pub(crate) fn journal_name(top: Top<'_>) -> Vec<u8> {
    match top {
        Top::As(name) => for_one(name),
        Top::Names([name]) => for_one(name),
        _ => {
            let hash = blake3::Hash::from_bytes(hash_of(top)).to_hex();
            [HASHED_PREFIX, &hash.as_bytes()[..HASH_DIGITS], HASHED_SUFFIX].concat()
        }
    }
}

fn for_one(name: &[u8]) -> Vec<u8> {
    let kept = &name[..name.len().min(NAME_LEN_MAX - 1 - SUFFIX.len())];
    [b".", kept, SUFFIX].concat()
}

fn hash_of(top: Top<'_>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("FOBS journal 1: names");
    let mut names: Vec<&[u8]> = match top {
        Top::As(name) => vec![name],
        Top::Names(names) => names.iter().map(Vec::as_slice).collect(),
        Top::Contents => Vec::new(),
    };
    names.sort_unstable();
    for name in names {
        hasher.update(name).update(&[0]);
    }
    *hasher.finalize().as_bytes()
}

/// What a journal's origin says of a transfer: where one source gets another name, another source under that
/// name is another transfer.
pub(crate) fn key(top: Top<'_>, sources: &[Vec<u8>]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("FOBS journal 1: key");
    hasher.update(&[u8::from(matches!(top, Top::As(_)))]).update(&hash_of(top));
    hasher.update(&hash_of(Top::Names(sources)));
    let mut key = [0; 16];
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

/// Who a client with this key is; without one, who logs in as this process's user.
pub fn client_id(key: Option<&[u8; 32]>) -> ClientId {
    let mut hasher = blake3::Hasher::new_derive_key("FOBS journal 1: client");
    match key {
        Some(key) => hasher.update(key),
        None => hasher.update(&geteuid().as_raw().to_le_bytes()),
    };
    let mut id = ClientId::default();
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    id
}

/// What a journal of this name is of, if it is one name, which may be cut.
pub(crate) fn named_by(name: &[u8]) -> Option<&[u8]> {
    name.strip_suffix(SUFFIX)?.strip_prefix(b".")
}

/// Whether a journal has such a name.
pub(crate) fn is_journal(name: &[u8]) -> bool {
    let one = name.strip_suffix(SUFFIX).and_then(|kept| kept.strip_prefix(b"."));
    let hashed = name.strip_suffix(HASHED_SUFFIX).and_then(|kept| kept.strip_prefix(HASHED_PREFIX));
    one.is_some_and(|kept| !kept.is_empty())
        || hashed.is_some_and(|hash| {
            hash.len() == HASH_DIGITS && hash.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        })
}

/// Whether FOBS gives such names to files of its own: temporary ones, and journals.
pub(crate) fn is_ours(name: &[u8]) -> bool {
    name.first() == Some(&b'.') && (is_temporary(name) || is_journal(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_have_names_that_fit_and_are_recognised() {
        let names = [b"b".to_vec(), b"a".to_vec()];
        let swapped = [b"a".to_vec(), b"b".to_vec()];
        let long = [b'n'; NAME_LEN_MAX];
        for top in [Top::As(b"x"), Top::Names(&names[..1]), Top::Names(&names), Top::Contents, Top::As(&long)]
        {
            let name = journal_name(top);
            assert!(is_journal(&name) && is_ours(&name) && name.len() <= NAME_LEN_MAX, "{top:?}");
        }
        assert_eq!(journal_name(Top::As(b"x")), b".x.fobs-journal");
        assert_eq!(journal_name(Top::Names(&names)), journal_name(Top::Names(&swapped)));
        assert_ne!(journal_name(Top::Names(&names)), journal_name(Top::Contents));
        for name in ["x.fobs-journal", ".fobs-journal", ".fobs-.journal", ".fobs-0123456789abcdeF.journal"] {
            assert!(!is_ours(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn another_source_under_the_same_name_is_another_transfer() {
        let (a, b) = ([b"a".to_vec()], [b"b".to_vec()]);
        assert_ne!(key(Top::As(b"x"), &a), key(Top::As(b"x"), &b));
        assert_ne!(key(Top::As(b"a"), &a), key(Top::Names(&a), &a));
    }
}
