//! How many chunks beyond the stored ones have room: few at first, and more where a path is so long and fast
//! that the sender waits for room though those that arrive are stored at once. How long it takes from telling
//! of room to its use shows that: a round trip, however much room there is, where the sender waited for it;
//! longer with more room where it did not. (Datagrams have no round trip at a receiver; compare dynamic
//! right-sizing of TCP, which takes one from timestamps.)

use std::time::Duration;

use crate::{ChunkId, Timestamp};

/// Most chunks of the first credit: 1.6 bandwidth-delay products of 10 Gbit/s at 100 ms.
const FIRST_MAX: u32 = 52;
/// Chunks that wait to be stored at a disk that keeps up: three writers have as many at work and next.
const BACKLOG_USUAL: u16 = 12;
/// The credit grows by one part of this number at a time: it doubles in some twelve round trips or two dozen.
const STEP_PARTS: u32 = 8;
/// A time to its use is that of before if it is at most one part of this number longer: half of what a step
/// adds where the sender did not wait.
const SAME_PARTS: u32 = 2 * STEP_PARTS;

/// Chunks that have room, from the first that is not stored on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credit {
    chunks: u32,
    most: u32,
    /// First chunk without room, as the sender was told last.
    told: ChunkId,
    /// A chunk that got room then, if it has not come.
    awaited: Option<(ChunkId, Timestamp)>,
    /// Shortest time from telling of a chunk's room to its arrival.
    shortest: Option<Duration>,
}

/// The credit before anything is stored of a receiver that may have room for `most` chunks.
pub fn first_credit(most: u32) -> u32 {
    most.min(FIRST_MAX)
}

impl Credit {
    /// The first one.
    pub(super) fn new(most: u32) -> Credit {
        let chunks = first_credit(most);
        Credit { chunks, most, told: chunks, awaited: None, shortest: None }
    }

    /// How many.
    pub(super) fn chunks(self) -> u32 {
        self.chunks
    }

    /// There is room for `most` from now on.
    pub(super) fn set_most(&mut self, most: u32) {
        *self = Credit { chunks: self.chunks.min(most), most, ..*self };
    }

    /// The sender is told that chunks below `limit` have room.
    pub(super) fn on_told(&mut self, now: Timestamp, limit: ChunkId) {
        if limit > self.told {
            self.told = limit;
            self.awaited = self.awaited.or(Some((limit - 1, now)));
        }
    }

    /// When the sender was told of the room that a packet of this chunk uses; once, and only for a chunk
    /// whose arrival is measured.
    pub(super) fn awaited(&mut self, chunk: ChunkId) -> Option<Timestamp> {
        self.awaited.take_if(|(awaited, _)| chunk >= *awaited).map(|(_, told_at)| told_at)
    }

    /// Room was used this time after it was told of, while `backlog` chunks are complete and wait to be
    /// stored.
    pub(super) fn on_used(&mut self, taken: Duration, backlog: u16) {
        match self.shortest {
            Some(shortest) if taken >= shortest => {
                if backlog <= BACKLOG_USUAL && taken <= shortest + shortest / SAME_PARTS {
                    self.chunks = (self.chunks + (self.chunks / STEP_PARTS).max(1)).min(self.most);
                }
            }
            _ => self.shortest = Some(taken),
        }
    }

    /// A chunk is stored, while `backlog` others wait for that. Where they are many, more room would only
    /// let more wait.
    pub(super) fn on_stored(&mut self, backlog: u16) {
        if backlog > BACKLOG_USUAL && self.chunks > FIRST_MAX {
            self.chunks -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of a chunk.
    const CHUNK: u64 = 8 * (4 << 20);

    /// A path and a receiver that stores each chunk as it comes.
    struct Path {
        credit: Credit,
        round_trip: Duration,
        stored: u32,
        backlog: u16,
        now: Timestamp,
        /// When the sender hears of room for each chunk.
        heard: Vec<Timestamp>,
    }

    impl Path {
        fn new(round_trip_ms: u64, most: u32) -> Path {
            let credit = Credit::new(most);
            let heard = vec![Timestamp::ZERO; credit.chunks() as usize];
            let round_trip = Duration::from_millis(round_trip_ms);
            Path { credit, round_trip, stored: 0, backlog: 0, now: Timestamp::ZERO, heard }
        }

        /// The next chunks arrive at `bps`, or later where the sender has to wait for room.
        fn pass(&mut self, chunks: u32, bps: u64) {
            for _ in 0..chunks {
                let next = self.now + Duration::from_nanos(CHUNK * 1_000_000_000 / bps);
                self.now = next.max(self.heard[self.stored as usize] + self.round_trip / 2);
                if let Some(told_at) = self.credit.awaited(self.stored) {
                    self.credit.on_used(self.now - told_at, self.backlog);
                }
                self.stored += 1;
                self.credit.on_stored(self.backlog);
                let limit = self.stored + self.credit.chunks();
                self.credit.on_told(self.now, limit);
                let heard = self.now + self.round_trip / 2;
                self.heard.resize((limit as usize).max(self.heard.len()), heard);
            }
        }
    }

    #[test]
    fn it_grows_to_what_a_long_fast_path_needs() {
        // 100 Gbit/s at 50 ms are 149 chunks, at 100 ms more than there is memory for.
        for (round_trip, most, least) in [(50, 1000, 149), (100, 256, 256)] {
            let mut path = Path::new(round_trip, most);
            path.pass(6000, 100_000_000_000);
            let chunks = path.credit.chunks();
            assert!((least..=least * 5 / 4).contains(&chunks), "{chunks} chunks at {round_trip} ms");
        }
    }

    #[test]
    fn it_stays_where_the_path_does_not_need_it() {
        for (round_trip, bps) in [(0, 1_000_000_000), (20, 10_000_000_000), (100, 1_000_000_000)] {
            let mut path = Path::new(round_trip, 1000);
            path.pass(3000, bps);
            let chunks = path.credit.chunks();
            assert!(chunks <= FIRST_MAX + FIRST_MAX / STEP_PARTS, "{chunks} chunks at {round_trip} ms");
        }
    }

    #[test]
    fn a_rate_that_only_rises_is_no_need_of_room() {
        let mut path = Path::new(1, 1000);
        (10..200).for_each(|step| path.pass(8, step * 50_000_000));
        let chunks = path.credit.chunks();
        assert!(chunks <= FIRST_MAX + FIRST_MAX / STEP_PARTS, "{chunks} chunks");
    }

    #[test]
    fn what_waits_for_a_slow_disk_gets_no_more_and_gives_back() {
        let mut path = Path::new(50, 1000);
        path.backlog = BACKLOG_USUAL + 1;
        path.pass(1000, 100_000_000_000);
        assert_eq!(path.credit.chunks(), FIRST_MAX);
        path.backlog = BACKLOG_USUAL;
        path.pass(6000, 100_000_000_000);
        assert!(path.credit.chunks() > 2 * FIRST_MAX, "{} chunks", path.credit.chunks());
        path.backlog = BACKLOG_USUAL + 1;
        path.pass(1000, 100_000_000_000);
        assert_eq!(path.credit.chunks(), FIRST_MAX);
    }

    #[test]
    fn little_memory_is_never_exceeded() {
        for most in [1, 13, FIRST_MAX] {
            let mut path = Path::new(200, most);
            path.pass(2000, 100_000_000_000);
            assert_eq!((path.credit.chunks(), first_credit(most)), (most, most));
        }
    }
}
