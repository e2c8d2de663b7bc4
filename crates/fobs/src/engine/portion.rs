//! How the sender cuts its object: small chunks where few bytes are under way, so that a CPU still has in its cache what it hashed
//! when it comes to sending it; large ones where much is, so that no more than [`CHUNKS_MAX`] are needed for it.

use super::CHUNKS_MAX;
use crate::storage::CHUNK_DATA_MAX;

/// Data of the smallest chunks, bytes: with chunks of 1 MiB instead of 4 MiB both ends together take 3 to 4% less CPU time per byte over a
/// veth pair whose packets are cut, and 0 to 5% less where super-packets cross it (by turns, four to six runs each, twice). 256 KiB cost
/// 4% more again.
const SMALL: usize = 1 << 20;
/// Round trips' worth of bytes to hold: one on its way, two being sent again, one waiting for its turn at the receiver.
const ROUND_TRIPS: u64 = 4;
/// Chunks beyond those: being read and hashed, being verified and stored, and enough between them that one CPU need not wait for the
/// other. With 6 both ends take 2% less CPU time and leave 5% more of it idle, with 20 they take 3% more, for memory that is cold.
const FOR_DISKS: usize = 12;

/// What the sender holds of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Portion {
    /// Chunks to hold, at most [`CHUNKS_MAX`].
    pub(super) chunks: usize,
    /// File data in the next of them, bytes: a power of two, at most [`CHUNK_DATA_MAX`].
    pub(super) data_max: usize,
}

impl Portion {
    /// For a path on which so many bytes are on their way at once.
    pub(super) fn for_bytes(under_way: u64) -> Portion {
        let wanted = usize::try_from(under_way.saturating_mul(ROUND_TRIPS)).unwrap_or(usize::MAX);
        let chunks = |data_max: usize| (wanted / data_max).saturating_add(FOR_DISKS);
        let mut data_max = SMALL;
        while data_max < CHUNK_DATA_MAX && chunks(data_max) > CHUNKS_MAX as usize {
            data_max *= 2;
        }
        Portion { chunks: chunks(data_max).min(CHUNKS_MAX as usize), data_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn chunks_grow_with_the_path() {
        let portion = |chunks, data_max| Portion { chunks, data_max };
        assert_eq!(Portion::for_bytes(0), portion(12, SMALL));
        assert_eq!(Portion::for_bytes(7 * MIB), portion(40, SMALL));
        // 1 Gbit/s and 65 ms.
        assert_eq!(Portion::for_bytes(8 * MIB), portion(28, 2 * SMALL));
        assert_eq!(Portion::for_bytes(16 * MIB), portion(28, CHUNK_DATA_MAX));
        assert_eq!(Portion::for_bytes(u64::MAX), portion(CHUNKS_MAX as usize, CHUNK_DATA_MAX));
    }

    #[test]
    fn four_round_trips_are_held_as_long_as_there_is_room_for_them() {
        for under_way in (0..200 * MIB).step_by(100_003) {
            let Portion { chunks, data_max } = Portion::for_bytes(under_way);
            assert!(
                data_max.is_power_of_two() && (SMALL..=CHUNK_DATA_MAX).contains(&data_max),
                "{under_way}"
            );
            let held = (chunks * data_max) as u64;
            assert!(held >= ROUND_TRIPS * under_way || chunks == CHUNKS_MAX as usize, "{under_way}: {held}");
        }
    }
}
