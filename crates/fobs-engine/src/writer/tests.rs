use super::*;
use crate::Clock;
use crate::tests::support::{Control, World};
use fobs_channel::control::ControlChannel;
use fobs_model::event::EventSink;
pub use fobs_store::{CHUNK_LEN_MAX, Source, SourceSpec, UNKNOWN_KIND};
use fobs_sys::Waker;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

static CHECKED: AtomicUsize = AtomicUsize::new(0);

fn counting(chunk: &[u8], scratch: &mut Vec<u8>, offers: Option<&Offers>) -> Result<Verified, VerifyError> {
    CHECKED.fetch_add(1, Ordering::SeqCst);
    verify_with(chunk, scratch, offers)
}

struct NoEvents;

impl EventSink for NoEvents {
    fn event(&self, _event: fobs_model::event::Event) {}
}

fn compressed(mut source: Source) -> Vec<(PageBuffer, usize)> {
    let mut chunks = Vec::new();
    loop {
        let mut buffer = PageBuffer::new(CHUNK_LEN_MAX).expect("memory");
        let filled = source.next_chunk(&mut buffer, 64 << 10).expect("it can be read");
        assert!(needs_scratch(&buffer[..filled.len]), "a chunk of zeros is compressed");
        chunks.push((buffer, filled.len));
        if filled.is_final {
            return chunks;
        }
    }
}

#[test]
fn early_compressed_chunks_are_verified_once() {
    let world = World::new();
    world.write("zeros", &vec![0; 300_000]);
    let spec = SourceSpec { compress: true, ..world.source_spec() };
    let source = Source::open(spec).expect("it is there");
    let sink = world.sink(&source);
    let chunks = compressed(source);
    let count = chunks.len();
    assert!(count > 3, "{count} chunks");

    let (_control, ControlChannel { writer, .. }, _receiver) = Control::start(None);
    let reporter = Reporter::new(Arc::new(NoEvents), writer);
    let (post, letters) = Post::new(Waker::new().expect("a waker"));
    let (work, orders) = sync_channel(count + 1);
    let meter = WorkMeter::new(Clock::start());
    let thread =
        start_with(sink, orders, post, Throttle::default(), reporter, meter, counting).expect("a thread");
    for (chunk, (buffer, len)) in (0..).zip(chunks).collect::<Vec<_>>().into_iter().rev() {
        work.send(ToWriter::Chunk { chunk, buffer, len }).expect("the writer lives");
    }
    work.send(ToWriter::Finish).expect("the writer lives");
    thread.join().expect("no panic");

    let stored = letters.try_iter().filter(|letter| matches!(letter, ToReceiver::Stored { .. })).count();
    assert_eq!((stored, CHECKED.load(Ordering::SeqCst)), (count, count));
    world.expect_copied();
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
    let (_control, ControlChannel { writer, .. }, _receiver) = Control::start(None);
    let reporter = Reporter::new(Arc::new(NoEvents), writer);
    let (post, letters) = Post::new(Waker::new().expect("a waker"));
    let (work, orders) = sync_channel(1);
    let meter = WorkMeter::new(Clock::start());
    let throttle = Throttle::default();
    let thread =
        start_with(sink, orders, post, throttle, reporter, meter, of_a_newer_version).expect("a thread");
    let buffer = PageBuffer::new(CHUNK_LEN_MAX).expect("memory");
    work.send(ToWriter::Chunk { chunk: 0, buffer, len: 100 }).expect("the writer lives");
    let letter = letters.recv().expect("it says why");
    let ToReceiver::StoreFailed(error) = letter else { panic!("asked for again") };
    assert!(
        error.kind == ErrorKind::Protocol && error.message.contains("a kind that this version"),
        "{error}"
    );
    drop(work);
    thread.join().expect("no panic");
}
