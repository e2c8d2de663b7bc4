//! Names of pieces.

use super::cut::Average;

/// What a piece is known by: 8 bytes of BLAKE3, keyed, the first of which are listed. Nobody can prepare two
/// pieces with one name without the key of the session, and one that occurs by chance costs a chunk sent
/// whole.
pub type PieceName = u64;

/// How many bytes of a name are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameLen(u8);

/// What may be listed of a name, bytes.
const LENS: std::ops::RangeInclusive<u8> = 2..=8;
/// Number of files, as a logarithm, of which one is expected to have a chance match of names: rsync's number.
const CHANCE: u32 = 10;
/// Lengths of pieces are random, too, and are compared with the names: bits less than the average has.
const LENGTH: u32 = 4;

impl NameLen {
    /// For the list of a basis of `listed` bytes, in which the pieces of `sought` bytes are looked for.
    pub fn of(listed: u64, sought: u64, average: Average) -> NameLen {
        let log = u32::from(average.log());
        let pieces = |bytes: u64| u64::BITS - (bytes >> log).leading_zeros();
        let bits = (CHANCE + pieces(listed) + pieces(sought)).saturating_sub(log - LENGTH);
        // At most 17 bytes.
        NameLen(bits.div_ceil(8) as u8).bounded()
    }

    /// Likewise where each piece is compared with the one that has its place, and lengths are equal anyway.
    pub fn in_place(listed: u64, average: Average) -> NameLen {
        let pieces = u64::BITS - (listed >> average.log()).leading_zeros();
        // At most 10 bytes.
        NameLen((CHANCE + pieces).div_ceil(8) as u8).bounded()
    }

    fn bounded(self) -> NameLen {
        NameLen(self.0.clamp(*LENS.start(), *LENS.end()))
    }

    /// The one with this number of bytes, as it is sent.
    pub fn from_bytes(bytes: u8) -> Option<NameLen> {
        LENS.contains(&bytes).then_some(NameLen(bytes))
    }

    /// Bytes.
    pub fn bytes(self) -> u8 {
        self.0
    }

    /// What is listed of a name.
    pub(super) fn listed(self, name: PieceName) -> PieceName {
        name & (PieceName::MAX >> (PieceName::BITS - 8 * u32::from(self.0)))
    }
}

/// The key with which all names are the same, so that pieces match that are different.
#[cfg(any(test, feature = "testing"))]
pub const MISLEADING: [u8; 32] = [0; 32];

/// The key of a session's names.
#[derive(Clone)]
pub struct NameKey([u8; 32]);

impl NameKey {
    /// With the key that both ends derive.
    pub fn new(key: [u8; 32]) -> NameKey {
        NameKey(key)
    }

    pub(crate) fn name(&self, piece: &[u8]) -> PieceName {
        #[cfg(any(test, feature = "testing"))]
        if self.0 == MISLEADING {
            return 0;
        }
        let hash = blake3::keyed_hash(&self.0, piece);
        let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
        PieceName::from_le_bytes(*first)
    }
}

impl std::fmt::Debug for NameKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NameKey(..)")
    }
}
