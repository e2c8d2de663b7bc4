//! The names of journals.

use rustix::process::geteuid;

use super::format::ClientId;
use fobs_model::name::ComponentBuf;
use fobs_model::name::ours::{journal_of, journal_of_several};

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
pub(crate) fn journal_name(top: Top<'_>) -> ComponentBuf {
    match top {
        Top::As(name) => journal_of(name),
        Top::Names([name]) => journal_of(name),
        _ => journal_of_several(blake3::Hash::from_bytes(hash_of(top))),
    }
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

/// Who a client with this key is; without one, who logs in as this process's user. `within` tells logins
/// apart that see different parts of it.
pub fn client_id(key: Option<&[u8; 32]>, within: &[u8]) -> ClientId {
    let mut hasher = blake3::Hasher::new_derive_key("FOBS journal 1: client");
    match key {
        Some(key) => hasher.update(key),
        None => hasher.update(&geteuid().as_raw().to_le_bytes()),
    };
    hasher.update(within);
    let mut id = ClientId::default();
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_names_does_not_matter() {
        let names = [b"b".to_vec(), b"a".to_vec()];
        let swapped = [b"a".to_vec(), b"b".to_vec()];
        assert_eq!(journal_name(Top::Names(&names[..1])), journal_name(Top::As(b"b")));
        assert_eq!(journal_name(Top::Names(&names)), journal_name(Top::Names(&swapped)));
        assert_ne!(journal_name(Top::Names(&names)), journal_name(Top::Contents));
    }

    #[test]
    fn another_source_under_the_same_name_is_another_transfer() {
        let (a, b) = ([b"a".to_vec()], [b"b".to_vec()]);
        assert_ne!(key(Top::As(b"x"), &a), key(Top::As(b"x"), &b));
        assert_ne!(key(Top::As(b"a"), &a), key(Top::Names(&a), &a));
    }
}
