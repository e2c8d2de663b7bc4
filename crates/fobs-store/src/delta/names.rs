//! Names of pieces.

/// What a piece is known by: 16 bytes of BLAKE3, keyed. Nobody can prepare two pieces with one name without
/// the key of the session, and one that occurs by chance costs a chunk sent whole.
pub type PieceName = [u8; 16];

/// The key with which all names are the same, so that pieces match that are different.
#[cfg(any(test, feature = "testing"))]
pub const MISLEADING: [u8; 32] = [0; 32];

/// The key of a session's names.
#[derive(Clone)]
pub struct NameKey {
    key: [u8; 32],
    /// Bytes of a name that count: fewer only in tests, so that names mislead.
    counting: usize,
}

impl NameKey {
    /// With the key that both ends derive.
    pub fn new(key: [u8; 32]) -> NameKey {
        #[cfg(any(test, feature = "testing"))]
        if key == MISLEADING {
            return NameKey { key, counting: 0 };
        }
        NameKey { key, counting: size_of::<PieceName>() }
    }

    pub(crate) fn name(&self, piece: &[u8]) -> PieceName {
        let hash = blake3::keyed_hash(&self.key, piece);
        let mut name = [0; size_of::<PieceName>()];
        name[..self.counting].copy_from_slice(&hash.as_bytes()[..self.counting]);
        name
    }
}

impl std::fmt::Debug for NameKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NameKey(..)")
    }
}
