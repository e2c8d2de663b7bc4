use super::*;
use crate::Clock;
use crate::tests::support::{Control, World};
use fobs_channel::control::ControlChannel;
use fobs_model::event::EventSink;
use fobs_rng::Rng;
use fobs_store::{CHUNK_LEN_MAX, SinkSpec, Source, SourceSpec, UNKNOWN_KIND, needs_scratch};
use fobs_sys::Waker;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

static CHECKED: AtomicUsize = AtomicUsize::new(0);

fn counting(chunk: &[u8], scratch: &mut Vec<u8>, offers: Option<&Offers>) -> Result<Verified, VerifyError> {
    CHECKED.fetch_add(1, Ordering::SeqCst);
    verify_with(chunk, scratch, offers)
}

struct NoEvents;

impl EventSink for NoEvents {
    fn event(&self, _event: fobs_model::event::Event) {}
}

/// All chunks of a source, at most this much data in each.
fn chunks_of(mut source: Source, data_max: usize) -> Vec<(PageBuffer, usize)> {
    let mut chunks = Vec::new();
    loop {
        let mut buffer = PageBuffer::new(CHUNK_LEN_MAX).expect("memory");
        let filled = source.next_chunk(&mut buffer, data_max).expect("it can be read");
        chunks.push((buffer, filled.len));
        if filled.is_final {
            return chunks;
        }
    }
}

/// A thread that stores into a world's destination, and its letters.
struct Storing {
    store: Store,
    letters: mpsc::Receiver<ToReceiver>,
    thread: JoinHandle<Option<Suspended>>,
    _control: Arc<Control>,
}

impl Storing {
    fn start(sink: Sink, check: Check) -> Storing {
        let (control, ControlChannel { writer, .. }, _receiver) = Control::start(None);
        let reporter = Reporter::new(Arc::new(NoEvents), writer);
        let (post, letters) = Post::new(Waker::new().expect("a waker"));
        let meter = WorkMeter::new(Clock::start());
        let (store, thread) =
            start_with(sink, post, Throttle::default(), reporter, meter, check).expect("a thread");
        Storing { store, letters, thread, _control: control }
    }

    /// The next letter; the test fails rather than wait for ever.
    fn letter(&self) -> ToReceiver {
        self.letters.recv_timeout(Duration::from_secs(20)).expect("the writer says what it does")
    }

    /// All is stored: the journal goes with the last letter.
    fn finish(self) {
        self.store.finish();
        assert!(self.thread.join().expect("no panic").is_none(), "nothing is kept for later");
    }
}

#[test]
fn early_compressed_chunks_are_verified_once() {
    let world = World::new();
    world.write("zeros", &vec![0; 300_000]);
    let spec = SourceSpec { compress: true, ..world.source_spec() };
    let source = Source::open(spec).expect("it is there");
    let sink = world.sink(&source);
    let chunks = chunks_of(source, 64 << 10);
    assert!(chunks.iter().all(|(buffer, len)| needs_scratch(&buffer[..*len])), "zeros are compressed");
    let count = chunks.len();
    assert!(count > 3, "{count} chunks");

    let storing = Storing::start(sink, counting);
    for (chunk, (buffer, len)) in (0..).zip(chunks).collect::<Vec<_>>().into_iter().rev() {
        storing.store.chunk(chunk, buffer, len);
    }
    let mut stored = 0;
    while stored < count {
        stored += usize::from(matches!(storing.letter(), ToReceiver::Stored { .. }));
    }
    storing.finish();
    assert_eq!(CHECKED.load(Ordering::SeqCst), count);
    world.expect_copied();
}

static ALL_ARRIVED: AtomicBool = AtomicBool::new(false);
static BY_A_HAND: AtomicBool = AtomicBool::new(false);

/// Until all chunks have arrived the storing thread stays with its first one; with any later one until a hand
/// has verified one.
fn slow_without_hands(
    chunk: &[u8],
    scratch: &mut Vec<u8>,
    offers: Option<&Offers>,
) -> Result<Verified, VerifyError> {
    let awaited = if ALL_ARRIVED.load(Ordering::SeqCst) { &BY_A_HAND } else { &ALL_ARRIVED };
    if std::thread::current().name() == Some("fobs-verify") {
        BY_A_HAND.store(true, Ordering::SeqCst);
    } else {
        for _ in 0..2000 {
            if awaited.load(Ordering::SeqCst) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(awaited.load(Ordering::SeqCst), "the storing thread is left alone");
    }
    verify_with(chunk, scratch, offers)
}

#[test]
fn hands_verify_what_waits_for_the_storing_thread() {
    if cores() < 2 {
        eprintln!("skipped: one core has no hands");
        return;
    }
    let world = World::new();
    world.write("file", &vec![7; 1_000_000]);
    let source = Source::open(world.source_spec()).expect("it is there");
    let sink = world.sink(&source);
    let chunks = chunks_of(source, 64 << 10);
    let count = chunks.len();
    let storing = Storing::start(sink, slow_without_hands);
    for (chunk, (buffer, len)) in (0..).zip(chunks) {
        storing.store.chunk(chunk, buffer, len);
    }
    ALL_ARRIVED.store(true, Ordering::SeqCst);
    let mut stored = 0;
    while stored < count {
        match storing.letter() {
            ToReceiver::StoreFailed(error) => panic!("{error}"),
            letter => stored += usize::from(matches!(letter, ToReceiver::Stored { .. })),
        }
    }
    storing.finish();
    world.expect_copied();
}

/// One chunk after the other in any order, damaged at first now and then: each is told once as what it is,
/// comes again where it was wrong, and is stored in its turn.
fn play_any_order(seed: u64, compress: bool) {
    let mut rng = Rng::new(seed);
    let world = World::new();
    for file in 0..4 {
        let len = rng.below(700_000);
        let bytes: Vec<u8> = (0..len).map(|i| (i / 600) as u8 ^ rng.below(2) as u8).collect();
        world.write(&format!("file {file}"), &bytes);
    }
    let source = Source::open(SourceSpec { compress, ..world.source_spec() }).expect("it is there");
    let sink = world.sink(&source);
    let chunks = chunks_of(source, 64 << 10);
    let count = chunks.len();
    let storing = Storing::start(sink, verify_with);
    let mut waiting: Vec<_> = (0..).zip(chunks).collect();
    let (mut damaged, mut right) = (BTreeSet::new(), Vec::new());
    while !waiting.is_empty() {
        let (chunk, (mut buffer, len)) = waiting.swap_remove(rng.below(waiting.len()));
        if damaged.len() < 8 && rng.below(3) == 0 {
            let copy = PageBuffer::new(CHUNK_LEN_MAX).expect("memory");
            let whole = std::mem::replace(&mut buffer, copy);
            buffer[..len].copy_from_slice(&whole[..len]);
            let last = len - 1 - rng.below(32);
            buffer[last] ^= 1;
            damaged.insert(chunk);
            right.push((chunk, (whole, len)));
        }
        storing.store.chunk(chunk, buffer, len);
    }
    let (mut stored, mut next) = (0, 0);
    while stored < count {
        match storing.letter() {
            ToReceiver::Verdict { chunk, verdict: ChunkVerification::Mismatch } => {
                assert!(damaged.remove(&chunk), "seed {seed}: chunk {chunk} was right");
                let at = right.iter().position(|(it, _)| *it == chunk).expect("it is kept");
                let (chunk, (buffer, len)) = right.swap_remove(at);
                storing.store.chunk(chunk, buffer, len);
            }
            ToReceiver::Verdict { chunk, .. } => assert!(!damaged.contains(&chunk), "seed {seed}"),
            ToReceiver::Stored { chunk, .. } => {
                assert_eq!(chunk, next, "seed {seed}: stored in order");
                (stored, next) = (stored + 1, next + 1);
            }
            ToReceiver::StoreFailed(error) => panic!("seed {seed}: {error}"),
            _ => {}
        }
    }
    storing.finish();
    world.expect_copied();
}

#[test]
fn chunks_in_any_order_are_stored_in_theirs() {
    for seed in 0..12 {
        play_any_order(seed, seed % 2 == 0);
    }
}

/// With the receiving thread gone, nobody waits: not for the first chunk, and not for a hand.
#[test]
fn without_the_receiving_thread_all_end() {
    let world = World::new();
    world.write("file", &vec![7; 1_000_000]);
    let source = Source::open(world.source_spec()).expect("it is there");
    let sink = world.sink(&source);
    let chunks = chunks_of(source, 64 << 10);
    let Storing { store, letters, thread, _control } = Storing::start(sink, verify_with);
    for (chunk, (buffer, len)) in (0..).zip(chunks).skip(1) {
        store.chunk(chunk, buffer, len);
    }
    drop(store);
    thread.join().expect("no panic");
    // All who verify hold the way to the mailbox.
    while let Ok(letter) = letters.recv_timeout(Duration::from_secs(20)) {
        assert!(!matches!(letter, ToReceiver::Stored { .. }), "the first chunk never came");
    }
    assert_eq!(letters.try_recv().err(), Some(mpsc::TryRecvError::Disconnected));
}

fn of_a_newer_version(
    _chunk: &[u8],
    _scratch: &mut Vec<u8>,
    _offers: Option<&Offers>,
) -> Result<Verified, VerifyError> {
    Err(VerifyError::Malformed(UNKNOWN_KIND))
}

#[test]
fn an_unknown_record_ends_the_session_by_name() {
    let world = World::new();
    world.write("file", &[7; 1000]);
    let sink = world.sink(&Source::open(world.source_spec()).expect("it is there"));
    let storing = Storing::start(sink, of_a_newer_version);
    storing.store.chunk(0, PageBuffer::new(CHUNK_LEN_MAX).expect("memory"), 100);
    let ToReceiver::StoreFailed(error) = storing.letter() else { panic!("asked for again") };
    assert!(
        error.kind == ErrorKind::Protocol && error.message.contains("a kind that this version"),
        "{error}"
    );
    storing.thread.join().expect("no panic");
}

/// A file that is written past the page cache, where the file system of the tests can: its length, bytes.
const LARGE: usize = (64 << 20) + (12 << 20) + 777;

/// A world with one large file, a sink that has the device keep it, and its chunks.
fn large(seed: u64) -> (World, Sink, Vec<(PageBuffer, usize)>) {
    let mut rng = Rng::new(seed);
    let world = World::new();
    let noise: Vec<u8> = (0..LARGE / 8).flat_map(|_| rng.bits().to_le_bytes()).collect();
    world.write("large", &noise);
    world.write("small", b"behind it");
    let source = Source::open(world.source_spec()).expect("it is there");
    let sink = Sink::open(SinkSpec { fsync: true, ..world.sink_spec(&source) }).expect("it is free");
    let chunks = chunks_of(source, 4 << 20);
    (world, sink, chunks)
}

#[test]
fn parts_of_a_large_file_are_written_beside_each_other() {
    let seed = 47;
    let (world, sink, chunks) = large(seed);
    let count = chunks.len() as ChunkId;
    let storing = Storing::start(sink, verify_with);
    let mut rng = Rng::new(seed);
    let mut waiting: Vec<_> = (0..).zip(chunks).collect();
    // As they arrive: nearly in order.
    while !waiting.is_empty() {
        let next = rng.below(waiting.len().min(4));
        let (chunk, (buffer, len)) = waiting.remove(next);
        storing.store.chunk(chunk, buffer, len);
    }
    let mut next = 0;
    while next < count {
        match storing.letter() {
            ToReceiver::Stored { chunk, .. } => {
                assert_eq!(chunk, next, "seed {seed}: stored in order");
                next += 1;
            }
            ToReceiver::StoreFailed(error) => panic!("seed {seed}: {error}"),
            _ => {}
        }
    }
    let begun = storing.store.0.begun_in_all();
    storing.finish();
    world.expect_copied();
    let can = std::fs::File::open(world.to().join("large")).is_ok_and(fobs_store::passes_cache);
    if cores() < 2 || !can {
        eprintln!("skipped: nothing is written beside anything here");
    } else {
        assert!(begun > 4, "seed {seed}: {begun} of {count} chunks were begun");
    }
}

/// Without the receiving thread all end, at any moment, and nothing is written any more when the storing
/// thread has ended.
#[test]
fn an_end_waits_for_what_is_being_written() {
    for seed in 0..2 {
        let (world, sink, chunks) = large(seed);
        let Storing { store, letters, thread, _control } = Storing::start(sink, verify_with);
        let mut last = Rng::new(seed).below(chunks.len() - 2) as ChunkId;
        for (chunk, (buffer, len)) in (0..).zip(chunks) {
            store.chunk(chunk, buffer, len);
        }
        while let Ok(letter) = letters.recv_timeout(Duration::from_secs(20)) {
            if matches!(letter, ToReceiver::Stored { .. }) {
                last = last.saturating_sub(1);
                if last == 0 {
                    break;
                }
            }
        }
        drop((store, letters));
        thread.join().expect("no panic");
        for entry in std::fs::read_dir(world.to()).expect("it is there").flatten() {
            // What came to its end is whole, and nothing of the rest stays.
            let source = world.from().join(entry.file_name());
            let same = std::fs::read(&source).ok() == std::fs::read(entry.path()).ok();
            assert!(source.exists() && same, "seed {seed}: {entry:?}");
        }
    }
}
