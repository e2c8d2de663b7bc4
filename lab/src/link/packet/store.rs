//! Memory of packets in flight: a ring buffer; each frame stays until its last segment has left.
//!
//! The ring limits the emulator's memory. Frames are freed in order of arrival: the space of a frame that
//! leaves early is reused only after all older ones are freed, which jitter and reordering keep short.

use std::collections::VecDeque;

use super::{FRAME_MAX, Layout};

/// Alignment of frames, bytes: a cache line.
const ALIGNMENT: usize = 64;

/// Identifies a frame; numbers are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameId(u64);

/// The ring.
#[derive(Debug)]
pub struct Store {
    memory: Box<[u8]>,
    /// In order of arrival; the first one is live.
    frames: VecDeque<Frame>,
    first: u64,
    /// Offset of the next frame.
    head: usize,
}

#[derive(Debug)]
struct Frame {
    at: usize,
    bytes: usize,
    layout: Layout,
    /// Segments, including copies, that have not left yet.
    live: u32,
}

impl Store {
    /// A ring of `bytes`, at least two frames.
    pub fn new(bytes: u64) -> Store {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).max(2 * (FRAME_MAX + ALIGNMENT));
        Store {
            memory: vec![0; bytes].into_boxed_slice(),
            frames: VecDeque::with_capacity(4096),
            first: 0,
            head: 0,
        }
    }

    /// Space for the longest frame, or `None` if the ring is full: the path holds more than planned.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        match self.frames.front() {
            None => self.head = 0,
            // Live frames lie before the head: there is space behind it, or at the beginning.
            Some(oldest) if self.head > oldest.at => {
                if self.memory.len() < self.head + FRAME_MAX {
                    if oldest.at <= FRAME_MAX + ALIGNMENT {
                        return None;
                    }
                    self.head = 0;
                }
            }
            Some(oldest) if oldest.at - self.head <= FRAME_MAX + ALIGNMENT => return None,
            Some(_) => {}
        }
        self.memory.get_mut(self.head..self.head + FRAME_MAX)
    }

    /// The id of the frame in [`Store::room`] if it is kept.
    pub fn next_id(&self) -> FrameId {
        FrameId(self.first + self.frames.len() as u64)
    }

    /// Keeps the first `bytes` of [`Store::room`] as a frame with `live` segments (at least one).
    pub fn keep(&mut self, bytes: usize, layout: Layout, live: u32) {
        assert!(bytes <= FRAME_MAX && live > 0, "a frame that fits and has something in it");
        self.frames.push_back(Frame { at: self.head, bytes, layout, live });
        self.head += bytes.next_multiple_of(ALIGNMENT);
    }

    /// A frame with live segments, and its bytes.
    pub fn frame(&self, id: FrameId) -> (&Layout, &[u8]) {
        let frame = &self.frames[(id.0 - self.first) as usize];
        (&frame.layout, &self.memory[frame.at..frame.at + frame.bytes])
    }

    /// Releases `segments` segments of a frame.
    pub fn release(&mut self, id: FrameId, segments: u32) {
        let frame = &mut self.frames[(id.0 - self.first) as usize];
        frame.live -= segments;
        while self.frames.front().is_some_and(|oldest| oldest.live == 0) {
            self.frames.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::link::counters::Protocol;
    use crate::link::packet::{Form, IpVersion, Station};

    fn layout(total: u32) -> Layout {
        Layout {
            version: IpVersion::V4,
            protocol: Protocol::Udp,
            source: Station(None),
            destination: Station(None),
            ports: None,
            total,
            form: Form::Opaque,
        }
    }

    #[test]
    fn a_full_ring_works_again_after_the_oldest_frame_left() {
        let mut store = Store::new(0);
        let mut kept = Vec::new();
        while store.room().is_some() {
            kept.push(store.next_id());
            store.keep(40_000, layout(0), 1);
            assert!(kept.len() < 10);
        }
        store.release(kept[1], 1);
        assert!(store.room().is_none(), "the oldest is still there");
        store.release(kept[0], 1);
        assert!(store.room().is_some());
    }

    proptest! {
        /// Frames of any length, released in almost any order, keep their bytes until then.
        #[test]
        fn bytes_stay_while_a_segment_lives(
            steps in proptest::collection::vec((1usize..FRAME_MAX, 1u32..4, 0usize..8), 1..200),
        ) {
            let mut store = Store::new(400_000);
            let mut live: Vec<(FrameId, u8, usize)> = Vec::new();
            for (step, (bytes, segments, leave)) in steps.into_iter().enumerate() {
                if let Some(room) = store.room() {
                    prop_assert_eq!(room.len(), FRAME_MAX);
                    room[..bytes].fill(step as u8);
                    let id = store.next_id();
                    store.keep(bytes, layout(0), segments);
                    live.extend((0..segments).map(|_| (id, step as u8, bytes)));
                } else {
                    prop_assert!(!live.is_empty(), "an empty ring has room");
                }
                for _ in 0..leave.min(live.len()) {
                    let (id, fill, bytes) = live.remove(leave % live.len());
                    let (_, frame) = store.frame(id);
                    prop_assert!(frame.len() == bytes && frame.iter().all(|&byte| byte == fill));
                    store.release(id, 1);
                }
            }
            for (id, fill, bytes) in live {
                let (_, frame) = store.frame(id);
                prop_assert!(frame.len() == bytes && frame.iter().all(|&byte| byte == fill));
                store.release(id, 1);
            }
            prop_assert!(store.frames.is_empty());
        }
    }
}
