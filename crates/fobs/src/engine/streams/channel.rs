//! A stream inside the control channel: records wait here between the thread of the streams and those that
//! read and write the control channel.

use fobs_sys::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Records that wait in each direction: one to write while the next one is made, and little that a message
/// has to wait for.
const RECORDS_MAX: usize = 2;

/// The end of the streams' thread. Dropping it ends the stream.
pub(crate) struct ChannelLane {
    shared: Arc<Shared>,
}

/// The control channel's end. Clones share it; [`close`](Self::close) ends the stream.
#[derive(Clone)]
pub(crate) struct ChannelPort {
    shared: Arc<Shared>,
}

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// There is no room now: here it is again.
    Full(Vec<u8>),
    /// The other end is gone.
    Closed,
}

#[derive(Default)]
struct Shared {
    state: Mutex<LaneState>,
    /// There is room for an incoming record again, or the stream has ended.
    room: Condvar,
}

#[derive(Default)]
struct LaneState {
    incoming: VecDeque<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
    closed: bool,
    /// Wakes the streams' thread.
    waker: Option<Waker>,
    /// Tells the control channel that a record waits for it.
    notify: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        // A thread that panicked left whole records.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let notify = {
            let mut state = self.lock();
            state.closed = true;
            state.outgoing.clear();
            if let Some(waker) = &state.waker {
                waker.wake();
            }
            state.notify.take()
        };
        self.room.notify_all();
        if let Some(notify) = notify {
            notify();
        }
    }
}

impl ChannelLane {
    /// Both ends. `notify` is called, from the streams' thread, when a record waits to be written and when
    /// the stream has ended; it must not block.
    pub(crate) fn new(notify: impl Fn() + Send + Sync + 'static) -> (ChannelLane, ChannelPort) {
        let shared = Arc::new(Shared::default());
        shared.lock().notify = Some(Arc::new(notify));
        (ChannelLane { shared: shared.clone() }, ChannelPort { shared })
    }

    /// Wakes this from now on when a record has come, when there is room again, and at the end.
    pub(super) fn attach(&self, waker: Waker) {
        waker.wake();
        self.shared.lock().waker = Some(waker);
    }

    /// Hands a record (what stands behind the length) to the control channel.
    pub(super) fn offer(&self, record: Vec<u8>) -> Taken {
        let notify = {
            let mut state = self.shared.lock();
            if state.closed {
                return Taken::Closed;
            }
            if state.outgoing.len() >= RECORDS_MAX {
                return Taken::Full(record);
            }
            state.outgoing.push_back(record);
            state.notify.clone()
        };
        if let Some(notify) = notify {
            notify();
        }
        Taken::Yes
    }

    /// Whether [`offer`](Self::offer) would take a record.
    pub(super) fn has_room(&self) -> bool {
        let state = self.shared.lock();
        !state.closed && state.outgoing.len() < RECORDS_MAX
    }

    /// The next record of the peer.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let record = self.shared.lock().incoming.pop_front();
        if record.is_some() {
            self.shared.room.notify_one();
        }
        record
    }

    /// Whether the control channel has ended the stream; records may still wait.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }
}

impl Drop for ChannelLane {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl ChannelPort {
    /// Hands over a record of the peer, and waits while earlier ones wait. False once the stream has ended.
    pub(crate) fn deliver(&self, record: Vec<u8>) -> bool {
        let mut state = self.shared.lock();
        while state.incoming.len() >= RECORDS_MAX && !state.closed {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return false;
        }
        state.incoming.push_back(record);
        if let Some(waker) = &state.waker {
            waker.wake();
        }
        true
    }

    /// The next record to write.
    pub(crate) fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.shared.lock();
        let record = state.outgoing.pop_front()?;
        if let Some(waker) = &state.waker {
            waker.wake();
        }
        Some(record)
    }

    /// Ends the stream.
    pub(crate) fn close(&self) {
        self.shared.close();
    }

    /// Whether the stream has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn pair() -> (ChannelLane, ChannelPort, Arc<AtomicU32>) {
        let notified = Arc::new(AtomicU32::new(0));
        let counter = notified.clone();
        let (lane, port) = ChannelLane::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        (lane, port, notified)
    }

    #[test]
    fn records_wait_in_order_within_a_bound() {
        let (lane, port, notified) = pair();
        for number in 0..RECORDS_MAX as u8 {
            assert_eq!(lane.offer(vec![number]), Taken::Yes);
        }
        assert!(!lane.has_room());
        assert_eq!(lane.offer(vec![9]), Taken::Full(vec![9]));
        assert_eq!(notified.load(Ordering::SeqCst), RECORDS_MAX as u32);
        assert_eq!(port.next(), Some(vec![0]));
        assert!(lane.has_room());
        assert!(port.deliver(vec![1]) && port.deliver(vec![2]));
        assert_eq!((lane.take(), lane.take(), lane.take()), (Some(vec![1]), Some(vec![2]), None));
    }

    #[test]
    fn a_full_lane_makes_the_control_channel_wait() {
        let (lane, port, _) = pair();
        let delivering = port.clone();
        let thread = std::thread::spawn(move || (0..100).all(|number| delivering.deliver(vec![number])));
        for number in 0..100 {
            let record = loop {
                match lane.take() {
                    Some(record) => break record,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(record, [number]);
        }
        assert!(thread.join().unwrap());
    }

    #[test]
    fn either_end_ends_the_stream() {
        let (lane, port, notified) = pair();
        (0..RECORDS_MAX).for_each(|_| assert!(port.deliver(vec![1])));
        let waiting = port.clone();
        let thread = std::thread::spawn(move || waiting.deliver(vec![2]));
        drop(lane);
        // It would wait for ever.
        assert!(!thread.join().unwrap());
        assert!(port.is_closed() && notified.load(Ordering::SeqCst) == 1);

        let (lane, port, _) = pair();
        assert!(port.deliver(vec![3]));
        port.close();
        assert!(lane.is_closed() && !lane.has_room());
        assert_eq!(lane.offer(vec![1]), Taken::Closed);
        assert_eq!(lane.take(), Some(vec![3]), "what came before the end is there");
    }
}
