//! How a sender cuts its object: small chunks where few bytes are in flight, so that the CPU still has in its
//! cache what it hashed when it seals it; large ones where many are, so that
//! [`CHUNKS_MAX`] chunks suffice, and with more memory more of them.

use super::limits::{CHUNKS_MAX, HOST_DELAY};
use crate::object::CHUNK_DATA_MAX;
use crate::sender::Sender;

/// Data of the smallest chunks, bytes: 1 MiB instead of 4 MiB takes both ends together 3 to 4% less CPU time
/// per byte over a veth pair with segmented packets, and 0 to 5% less with super-packets. 256 KiB cost 4%
/// more than 1 MiB (measured).
pub(crate) const CHUNK_DATA_MIN: u32 = 1 << 20;
/// Round trips' worth of bytes to hold: one in flight, two being retransmitted, one waiting for its turn at
/// the receiver.
const ROUND_TRIPS: u64 = 4;
/// Chunks beyond those: being read and hashed, being verified and stored, and enough between them that
/// neither CPU waits for the other. With 6 both ends take 2% less CPU time and leave 5% more of it idle; with
/// 20 they take 3% more (measured).
const CHUNKS_FOR_DISKS: u32 = 12;
/// Most data in the first chunks, bytes. The first is small so that the first packet leaves early; together
/// they hold 4 MiB, so that a large file's later full chunks are each one subtree of its hash tree.
const FIRST_CHUNKS: [u32; 3] = [256 << 10, 768 << 10, 3 << 20];

/// How much of its object a sender holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// Chunks to hold.
    pub chunks: u32,
    /// File data in the next of them, bytes: a power of two from 1 MiB to [`CHUNK_DATA_MAX`].
    pub data_max: u32,
}

impl Holding {
    /// For a path with `in_flight` bytes in flight at once, in at most `chunks_max` chunks.
    pub fn for_bytes(in_flight: u64, chunks_max: u32) -> Holding {
        let wanted = in_flight.saturating_mul(ROUND_TRIPS);
        let chunks = |data_max: u32| {
            let chunks = u32::try_from(wanted / u64::from(data_max)).unwrap_or(u32::MAX);
            chunks.saturating_add(CHUNKS_FOR_DISKS)
        };
        let mut data_max = CHUNK_DATA_MIN;
        // More small ones would not stay in a cache, however much memory there is.
        let few = chunks_max.min(CHUNKS_MAX);
        while data_max < CHUNK_DATA_MAX && chunks(data_max) > few {
            data_max *= 2;
        }
        Holding { chunks: chunks(data_max).min(chunks_max), data_max }
    }
}

/// Most data in the `place`-th chunk of an object, bytes, whatever the path: the first chunks are smaller.
pub fn first_chunk_data_max(place: u64) -> u32 {
    usize::try_from(place).ok().and_then(|place| FIRST_CHUNKS.get(place)).copied().unwrap_or(CHUNK_DATA_MAX)
}

/// Bytes that a sender has in flight at once: its window, or less where the pacer does not fill it, and what
/// is in frames.
pub fn round_trip_bytes(machine: &Sender) -> u64 {
    let framed = machine.frames_outstanding().bytes;
    if !machine.route().has_datagrams() {
        return framed;
    }
    let (controller, rtt) = (machine.controller(), machine.rtt());
    let path = rtt.smoothed().saturating_sub(HOST_DELAY).max(rtt.min().unwrap_or_default());
    let paced = controller.pacing_rate().map_or(u64::MAX, |rate| rate.bytes_in(path));
    controller.congestion_window().min(paced).saturating_add(framed)
}

#[cfg(test)]
mod tests {
    use super::super::{MEMORY_DEFAULT_MAX, chunks_within, memory_within};
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn chunks_grow_with_the_bytes_in_flight() {
        let holding = |chunks, data_max| Holding { chunks, data_max };
        let of = |in_flight| Holding::for_bytes(in_flight, CHUNKS_MAX);
        assert_eq!(of(0), holding(12, CHUNK_DATA_MIN));
        // 1 Gbit/s and 65 ms.
        assert_eq!(of(8 * MIB), holding(44, CHUNK_DATA_MIN));
        assert_eq!(of(16 * MIB), holding(44, 2 * CHUNK_DATA_MIN));
        assert_eq!(of(32 * MIB), holding(44, CHUNK_DATA_MAX));
        assert_eq!(of(u64::MAX), holding(CHUNKS_MAX, CHUNK_DATA_MAX));
        assert_eq!(Holding::for_bytes(0, 2), holding(2, CHUNK_DATA_MAX));
    }

    #[test]
    fn four_round_trips_are_held_if_there_is_room() {
        for in_flight in (0..200 * MIB).step_by(100_003) {
            let Holding { chunks, data_max } = Holding::for_bytes(in_flight, CHUNKS_MAX);
            assert!(data_max.is_power_of_two() && (CHUNK_DATA_MIN..=CHUNK_DATA_MAX).contains(&data_max));
            let held = u64::from(chunks) * u64::from(data_max);
            assert!(held >= ROUND_TRIPS * in_flight || chunks == CHUNKS_MAX, "{in_flight}: {held}");
        }
    }

    #[test]
    fn the_memory_bounds_the_chunks() {
        for memory in [64 * MIB, 256 * MIB, 1000 * MIB, 16 << 30] {
            let held = u64::from(chunks_within(memory)) * u64::from(crate::object::CHUNK_LEN_MAX);
            assert!(held <= memory && held > memory * 3 / 4, "{memory}: {held}");
        }
        assert_eq!((chunks_within(0), chunks_within(u64::MAX)), (chunks_within(64 * MIB), 13_492));
        assert_eq!(CHUNKS_MAX, 52);
    }

    #[test]
    fn an_eighth_of_what_is_available_is_used_within_bounds() {
        for (available, memory) in [
            (0, 64 * MIB),
            (500 * MIB, 64 * MIB),
            (2048 * MIB, 256 * MIB),
            (4096 * MIB, 512 * MIB),
            (8192 * MIB, 1024 * MIB),
            (u64::MAX, MEMORY_DEFAULT_MAX),
        ] {
            assert_eq!(memory_within(available), memory, "{available}");
        }
    }

    /// 10 Gbit/s at 100 ms have 125 MB in flight; four round trips of them are to be held.
    #[test]
    fn the_most_memory_holds_a_long_fast_path() {
        let most = chunks_within(MEMORY_DEFAULT_MAX);
        let Holding { chunks, data_max } = Holding::for_bytes(125_000_000, most);
        assert!(u64::from(chunks) * u64::from(data_max) >= ROUND_TRIPS * 125_000_000);
        assert!(chunks < most, "{chunks} of {most}");
    }

    #[test]
    fn the_first_chunks_together_hold_one_full_chunk() {
        let first: u32 = (0..3).map(first_chunk_data_max).sum();
        assert_eq!((first, first_chunk_data_max(3)), (CHUNK_DATA_MAX, CHUNK_DATA_MAX));
    }
}
