//! The sending side's streams: frames go in, and what became of them comes out.

mod deliveries;
mod thread;

use super::Allotment;
use super::door::StreamSetup;
use crate::Clock;
use crate::thread::spawn;
use fobs_channel::secure::datagram::Direction;
use fobs_model::error::Result;
use fobs_model::sample::StreamsSample;
use fobs_proto::Timestamp;
use fobs_proto::wire::Ack;
use fobs_sys::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Frames that wait for a free stream, at most: 8 MiB, what all streams take at once.
const QUEUE_MAX: usize = 128;
/// Beside one frame for each stream, as many wait as leave within this time: the session's thread may be
/// busy with datagrams for as long.
const QUEUE_TIME: Duration = Duration::from_millis(5);
/// Acks that wait for the session's thread, at most: more than come between two of its turns. Older ones
/// report nothing that newer ones do not.
const ACKS_MAX: usize = 64;
/// Failures that wait for the session's thread; nobody reads more.
const FAILURES_MAX: usize = 64;

/// A frame on its way to a stream: the plaintext of its record.
pub(crate) struct FrameJob {
    /// Its name in the machine.
    pub(crate) id: u64,
    /// Its place in the data, in units of a full frame.
    pub(crate) part: u64,
    /// Kind, header and data.
    pub(crate) plain: Vec<u8>,
}

/// What happened since the last look.
#[derive(Debug, Default)]
pub(crate) struct OutNews {
    /// Frames that the receiver has taken.
    pub(crate) delivered: Vec<u64>,
    /// Frames whose stream has ended.
    pub(crate) lost: Vec<u64>,
    /// Frames on slow streams.
    pub(crate) late: Vec<u64>,
    pub(crate) acks: VecDeque<Ack>,
    /// Why streams failed, or could not be made.
    pub(crate) failures: Vec<String>,
}

impl OutNews {
    fn is_empty(&self) -> bool {
        let frames = [&self.delivered, &self.lost, &self.late];
        frames.iter().all(|ids| ids.is_empty()) && self.acks.is_empty() && self.failures.is_empty()
    }

    /// Adds what is newer.
    fn append(&mut self, mut newer: OutNews) {
        self.delivered.append(&mut newer.delivered);
        self.lost.append(&mut newer.lost);
        self.late.append(&mut newer.late);
        self.acks.append(&mut newer.acks);
        let too_many = self.acks.len().saturating_sub(ACKS_MAX);
        self.acks.drain(..too_many);
        self.failures.append(&mut newer.failures);
        self.failures.truncate(FAILURES_MAX);
    }
}

/// The session's thread's end.
pub(crate) struct Outgoing {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
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
    queue: VecDeque<FrameJob>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    news: OutNews,
    figures: StreamFigures,
    wanted: u32,
    /// How many frames may wait in the queue.
    target: usize,
    /// The streams' thread has nothing to write, and sleeps.
    hungry: bool,
    /// Datagrams have room, and there is nothing to send but what is in frames.
    datagrams_idle: bool,
    ending: bool,
}

/// The state of the streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamFigures {
    /// Open, the one in the control channel included.
    pub(crate) open: u32,
    /// Of those, TCP connections.
    pub(crate) connections: u32,
    /// Most connections that were open at once.
    pub(crate) connections_max: u32,
    /// When the peer's newest authentic record came.
    pub(crate) heard: Option<Timestamp>,
    /// Frames taken by the receiver from the control channel, and from connections, bytes of records.
    pub(crate) channel_bytes: u64,
    pub(crate) connection_bytes: u64,
    /// What the kernel reports.
    pub(crate) sample: StreamsSample,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        // A thread that panicked left whole frames.
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing {
    /// Starts the thread of the streams; it wakes `owner` when there is news, or room. `alarm` is dropped
    /// when it ends.
    pub(crate) fn start(
        setup: StreamSetup,
        clock: Clock,
        owner: Waker,
        alarm: impl Send + 'static,
    ) -> Result<Outgoing> {
        let waker = Waker::new().map_err(|error| super::no_waker(&error))?;
        let shared = Arc::new(Shared { exchange: Mutex::default(), waker: waker.clone(), owner });
        let allotment: Allotment = setup.allotment;
        let pool = super::pool::Pool::new(setup, Direction::Sender, waker);
        let sending = thread::Sending::new(pool, shared.clone(), clock, allotment);
        let thread = spawn("fobs-streams", move || {
            let _alarm = alarm;
            sending.run();
        })?;
        Ok(Outgoing { shared, thread: Some(thread) })
    }

    /// How many more frames are taken now.
    pub(crate) fn room(&self) -> usize {
        let exchange = self.shared.lock();
        exchange.target.saturating_sub(exchange.queue.len())
    }

    /// An empty buffer for a frame.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        self.shared.lock().spare.pop().unwrap_or_default()
    }

    /// Takes a frame, within [`room`](Self::room).
    pub(crate) fn put(&self, frame: FrameJob) {
        let mut exchange = self.shared.lock();
        exchange.queue.push_back(frame);
        if std::mem::take(&mut exchange.hungry) {
            self.shared.waker.wake();
        }
    }

    /// Whether datagrams have room while there is nothing to send but what is in frames: then slow streams
    /// are not waited for.
    pub(crate) fn set_datagrams_idle(&self, idle: bool) {
        let mut exchange = self.shared.lock();
        if std::mem::replace(&mut exchange.datagrams_idle, idle) != idle && idle {
            self.shared.waker.wake();
        }
    }

    /// Sets how many connections are to be open at once.
    pub(crate) fn want(&self, streams: u32) {
        let mut exchange = self.shared.lock();
        if std::mem::replace(&mut exchange.wanted, streams) != streams {
            self.shared.waker.wake();
        }
    }

    /// What happened since the last call.
    pub(crate) fn take_news(&self) -> OutNews {
        std::mem::take(&mut self.shared.lock().news)
    }

    pub(crate) fn figures(&self) -> StreamFigures {
        self.shared.lock().figures.clone()
    }

    /// When the peer's newest authentic record came.
    pub(crate) fn heard(&self) -> Option<Timestamp> {
        self.shared.lock().figures.heard
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.shared.lock().ending = true;
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}
