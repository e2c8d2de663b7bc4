//! The receiving side's streams: frames come out, and reports of what was taken go back.

mod thread;

pub use thread::out_of_range;

use super::door::StreamSetup;
use crate::Clock;
use crate::thread::spawn;
use fobs_channel::secure::datagram::Direction;
use fobs_model::error::{Error, Result};
use fobs_proto::Timestamp;
use fobs_proto::wire::{Ack, FRAME_HEADER_LEN, FRAME_LEN_MAX, FrameHeader};
use fobs_sys::Waker;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Frames that wait for the session's thread, at most 8 MiB: what arrives in 6 ms at 10 Gbit/s. Beyond, the
/// streams are not read, and TCP holds the sender back.
const FRAMES_MAX: usize = 128;
/// Failures of streams that wait for the session's thread; nobody reads more.
const FAILURES_MAX: usize = 64;

/// A frame that has come: the plaintext of its record.
pub(crate) struct FrameIn {
    stream: u16,
    pub(crate) header: FrameHeader,
    plain: Vec<u8>,
}

impl FrameIn {
    /// Its packets' data; the header was checked against its length.
    pub(crate) fn data(&self) -> &[u8] {
        self.plain.get(FRAME_HEADER_LEN..).unwrap_or_default()
    }
}

/// The session's thread's end.
pub struct Incoming {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Frames that were taken from the exchange together.
    frames: VecDeque<FrameIn>,
}

struct Shared {
    exchange: Mutex<Exchange>,
    /// Wakes the streams' thread.
    waker: Waker,
    /// Wakes the session's thread.
    owner: Waker,
}

#[derive(Default)]
struct Exchange {
    frames: VecDeque<FrameIn>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    /// Frames that the session's thread has taken since the last look, by stream.
    taken: BTreeMap<u16, u64>,
    /// The newest ack, until a stream takes it.
    ack: Option<Ack>,
    /// An authentic frame that no sender sends.
    failure: Option<Error>,
    /// Why streams failed, or could not be made.
    failures: Vec<String>,
    /// Streams that are open.
    open: u32,
    /// When the peer's newest authentic record came.
    heard: Option<Timestamp>,
    ending: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        // A thread that panicked left whole frames.
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Incoming {
    /// Starts the thread of the streams; it wakes `owner` when frames have come. `alarm` is dropped when it
    /// ends.
    pub(crate) fn start(
        setup: StreamSetup,
        clock: Clock,
        owner: Waker,
        alarm: impl Send + 'static,
    ) -> Result<Incoming> {
        let waker = Waker::new().map_err(|error| super::no_waker(&error))?;
        let shared = Arc::new(Shared { exchange: Mutex::default(), waker: waker.clone(), owner });
        let pool = super::pool::Pool::new(setup, Direction::Receiver, waker);
        let receiving = thread::Receiving::new(pool, shared.clone(), clock);
        let thread = spawn("fobs-streams", move || {
            let _alarm = alarm;
            receiving.run();
        })?;
        Ok(Incoming { shared, thread: Some(thread), frames: VecDeque::new() })
    }

    /// The next frame.
    ///
    /// # Errors
    /// `Protocol` if the peer sent what no sender sends.
    pub(crate) fn next(&mut self) -> Result<Option<FrameIn>> {
        if self.frames.is_empty() {
            let mut exchange = self.shared.lock();
            if let Some(error) = exchange.failure.take() {
                return Err(error);
            }
            std::mem::swap(&mut self.frames, &mut exchange.frames);
            if self.frames.len() >= FRAMES_MAX {
                // It has stopped reading.
                self.shared.waker.wake();
            }
        }
        Ok(self.frames.pop_front())
    }

    /// A frame was taken: its sender is to know.
    pub(crate) fn taken(&self, frame: FrameIn) {
        let mut exchange = self.shared.lock();
        *exchange.taken.entry(frame.stream).or_default() += 1;
        if exchange.spare.len() < FRAMES_MAX {
            exchange.spare.push(frame.plain);
        }
    }

    /// Sends reports of what was taken, with this ack if there is one.
    pub(crate) fn report(&self, ack: Option<Ack>) {
        let mut exchange = self.shared.lock();
        let nobody_takes_it = ack.is_none() || exchange.open == 0;
        if nobody_takes_it && exchange.taken.is_empty() {
            return;
        }
        if ack.is_some() {
            exchange.ack = ack;
        }
        self.shared.waker.wake();
    }

    /// Why streams failed since the last call.
    pub(crate) fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().failures)
    }

    /// When the peer's newest authentic record came.
    pub(crate) fn heard(&self) -> Option<Timestamp> {
        self.shared.lock().heard
    }
}

impl Exchange {
    /// A buffer for a record.
    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(FRAME_LEN_MAX))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.shared.lock().ending = true;
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}
