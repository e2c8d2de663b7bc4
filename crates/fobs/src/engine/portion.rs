//! How the sender cuts its object: small chunks where few bytes are under way, so that a CPU still has in its cache what it hashed
//! when it comes to sending it; large ones where much is, so that no more than [`CHUNKS_MAX`] are needed for it.

use super::CHUNKS_MAX;
use crate::storage::CHUNK_DATA_MAX;

/// Data of the smallest chunks, bytes: with chunks of 1 MiB instead of 4 MiB both ends together take 3 to 4% less CPU time per byte over a
/// veth pair whose packets are cut, and 0 to 5% less where super-packets cross it (twice five runs by turns). 256 KiB cost 4% more again.
const SMALL: usize = 1 << 20;
/// Congestion windows to hold: one on its way, one being sent again, one waiting for its turn at the receiver.
const WINDOWS: u64 = 3;
/// Chunks beyond those: two being read, two being sent, two being verified and stored. More would only be cold memory on both sides.
const FOR_DISKS: usize = 6;

/// What the sender holds of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Portion {
    /// Chunks to hold, at most [`CHUNKS_MAX`].
    pub(super) chunks: usize,
    /// File data in the next of them, bytes: a power of two, at most [`CHUNK_DATA_MAX`].
    pub(super) data_max: usize,
}

impl Portion {
    /// For a congestion window of so many bytes.
    pub(super) fn for_window(congestion_window: u64) -> Portion {
        let wanted = usize::try_from(congestion_window.saturating_mul(WINDOWS)).unwrap_or(usize::MAX);
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
    fn chunks_grow_with_the_window() {
        let portion = |chunks, data_max| Portion { chunks, data_max };
        assert_eq!(Portion::for_window(0), portion(6, SMALL));
        assert_eq!(Portion::for_window(5 * MIB), portion(21, SMALL));
        assert_eq!(Portion::for_window(10 * MIB), portion(36, SMALL));
        // 1 Gbit/s and 65 ms: a product of 8 MB.
        assert_eq!(Portion::for_window(16 * MIB), portion(30, 2 * SMALL));
        assert_eq!(Portion::for_window(30 * MIB), portion(28, CHUNK_DATA_MAX));
        assert_eq!(Portion::for_window(u64::MAX), portion(CHUNKS_MAX as usize, CHUNK_DATA_MAX));
    }

    #[test]
    fn three_windows_are_held_as_long_as_there_is_room_for_them() {
        for window in (0..200 * MIB).step_by(100_003) {
            let Portion { chunks, data_max } = Portion::for_window(window);
            assert!(data_max.is_power_of_two() && (SMALL..=CHUNK_DATA_MAX).contains(&data_max), "{window}");
            let held = (chunks * data_max) as u64;
            assert!(held >= WINDOWS * window || chunks == CHUNKS_MAX as usize, "{window}: {held}");
        }
    }
}
