use super::*;
use crate::Clock;
use crate::tests::support::{World, content, wait_until};
use fobs_store::{CHUNK_LEN_MAX, chunk_room};
use fobs_sys::Waker;
use std::sync::mpsc::{Sender, channel};

/// Most bytes of file data in a chunk of these tests.
const DATA_MAX: usize = 3 << 20;

/// A thread that reads a source, and what goes in and out.
struct Running {
    grants: Sender<Grant>,
    letters: Receiver<ToSender>,
}

impl Running {
    fn start(source: Source) -> Running {
        let (grants, orders) = channel();
        let (post, letters) = Post::new(Waker::new().expect("a waker"));
        start(source, orders, post, Throttle::default(), WorkMeter::new(Clock::start())).expect("a thread");
        Running { grants, letters }
    }

    fn grant(&self, data_max: usize) {
        let buffer = PageBuffer::new(CHUNK_LEN_MAX).expect("memory");
        // The thread may have ended with the final chunk.
        let _ = self.grants.send(Grant { buffer, data_max });
    }

    fn filled(&self) -> Filled {
        match self.letters.recv_timeout(Duration::from_secs(30)).expect("it reads") {
            ToSender::Filled(filled) => *filled,
            ToSender::ReadFailed(error) => panic!("{error}"),
            ToSender::Control(_) | ToSender::LaneEnded { .. } => panic!("there is no other thread"),
        }
    }
}

fn hash_of(buffer: &[u8], chunk: &FilledChunk) -> blake3::Hash {
    blake3::hash(&buffer[..chunk.len])
}

/// Large files between small ones: with all grants at once, few, and of changing sizes, the chunks are
/// those that one thread makes.
#[test]
fn hands_change_nothing_about_the_chunks() {
    let world = World::new();
    for (name, len) in [("a", 5), ("b", (65 << 20) + 77), ("c", 1 << 20), ("d", (64 << 20) + 1), ("e", 0)] {
        world.write(name, &content(len, 7));
    }
    let sizes = [DATA_MAX, DATA_MAX, 64 << 10, DATA_MAX + 1, 1 << 20, DATA_MAX];
    let size_of = |chunk: usize| if chunk < 12 { DATA_MAX } else { sizes[chunk % sizes.len()] };
    let mut plain = world.source();
    let (mut expected, mut buffer) = (Vec::new(), vec![0; chunk_room(DATA_MAX + 1)]);
    let root = loop {
        let filled = plain.next_chunk(&mut buffer, size_of(expected.len())).expect("it can be read");
        expected.push(hash_of(&buffer, &filled));
        if filled.is_final {
            break plain.root();
        }
    };
    for outstanding in [1, 2, 9, expected.len()] {
        let running = Running::start(world.source());
        (0..outstanding).for_each(|chunk| running.grant(size_of(chunk)));
        for (chunk, hash) in expected.iter().enumerate() {
            let filled = running.filled();
            assert_eq!(&hash_of(&filled.buffer, &filled.chunk), hash, "chunk {chunk}, {outstanding} at once");
            assert_eq!(filled.root, filled.chunk.is_final.then_some(root));
            running.grant(size_of(chunk + outstanding));
        }
    }
}

#[test]
fn the_next_parts_of_a_large_file_are_read_by_hands() {
    let world = World::new();
    world.write("large", &content(70 << 20, 3));
    let (hands, mut source) = (Hands::at_most(hands_max()), world.source());
    if !hands.are_possible() {
        eprintln!("skipped: one core has no hands");
        return;
    }
    let buffer = || PageBuffer::new(CHUNK_LEN_MAX).expect("memory");
    source.next_chunk(&mut buffer(), DATA_MAX).expect("it can be read");
    let lend = |before| hands.read(buffer(), source.stretch(before, DATA_MAX).expect("it is inside"));
    let lent = [0, DATA_MAX as u64].map(lend);
    // Until a hand has done them, the first of those that wait could be taken back unread.
    wait_until("hands begin", || hands.waiting() == 0);
    for awaited in &lent {
        let back = hands.take_back(awaited).expect("no hand fails");
        assert!(back.read.is_some());
    }
    assert!(hands.count() > 0);
}

#[test]
fn what_no_hand_has_begun_comes_back_at_once() {
    let world = World::new();
    world.write("large", &content(70 << 20, 3));
    let mut source = world.source();
    let buffer = || PageBuffer::new(CHUNK_LEN_MAX).expect("memory");
    source.next_chunk(&mut buffer(), DATA_MAX).expect("it can be read");
    let hands = Hands::at_most(0);
    let awaited = hands.read(buffer(), source.stretch(0, DATA_MAX).expect("it is inside"));
    let back = hands.take_back(&awaited).expect("it was never taken");
    assert!(back.read.is_none() && back.buffer.len() >= chunk_room(DATA_MAX));
}
