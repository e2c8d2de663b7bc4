//! A lane: a thread that does nothing but empty the socket into memory.
//!
//! Where other processes use the receiving thread's CPU, its socket overflows while the thread waits for its
//! time slice. Reading a datagram costs a fraction of decrypting, placing and acknowledging it, so a thread
//! that only reads finishes within its slice, is scheduled early the next time, and moves to an idle CPU
//! where there is one. Datagrams wait here, in order, in more memory than an unprivileged socket is granted.
//! Nothing changes on the wire.

use super::Clock;
use super::thread::be_punctual;
use fobs_proto::Timestamp;
use fobs_proto::session::HEARTBEAT;
use fobs_sys::{Datagram, Ecn, Interest, RecvBatch, UdpSocket, Waker, confine, wait};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes and datagrams that wait at most; a full lane leaves the rest in the socket. There are two such
/// stores: one is filled while the other is emptied. Twice 16 MiB hold a quarter of a second at 1 Gbit/s,
/// seven turns of a scheduler that gives each of eight processes 4 ms, and together with the chunks
/// ([`super::CHUNKS_MAX`]) fit into the memory that a process may use.
const STORE_BYTES: usize = 16 << 20;
const STORE_DATAGRAMS: usize = 1 << 16;

/// The receiving thread's end.
#[derive(Debug)]
pub(super) struct Lane {
    shared: Arc<Shared>,
    /// Wakes the lane's thread.
    stop: Waker,
    thread: Option<JoinHandle<()>>,
    /// Datagrams handed over by the lane's thread, and how many of them are taken.
    taken: Store,
    next: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<LaneState>,
    /// There is room again, or the lane ends.
    room: Condvar,
}

#[derive(Debug)]
struct LaneState {
    store: Store,
    ending: bool,
    failure: Option<io::Error>,
}

/// Datagrams one behind the other.
#[derive(Debug)]
struct Store {
    bytes: Vec<u8>,
    datagrams: Vec<Stored>,
}

/// A [`Datagram`] without its bytes.
#[derive(Debug, Clone, Copy)]
struct Stored {
    /// Where its bytes end; they begin where the bytes before end.
    end: usize,
    /// When it was taken from the socket.
    read: Timestamp,
    from: SocketAddr,
    ecn: Ecn,
    arrived_ns: Option<u64>,
    drops: u32,
    merged: u16,
}

impl Store {
    fn new() -> io::Result<Store> {
        let mut bytes = Vec::new();
        // Reserved, not touched: pages are mapped as they are filled.
        bytes.try_reserve_exact(STORE_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Store { bytes, datagrams: Vec::new() })
    }

    fn has_room(&self, datagram: &Datagram<'_>) -> bool {
        self.bytes.len() + datagram.data.len() <= STORE_BYTES && self.datagrams.len() < STORE_DATAGRAMS
    }

    fn push(&mut self, datagram: &Datagram<'_>, read: Timestamp) {
        self.bytes.extend_from_slice(datagram.data);
        let Datagram { from, ecn, arrived_ns, drops, merged, .. } = *datagram;
        let end = self.bytes.len();
        self.datagrams.push(Stored { end, read, from, ecn, arrived_ns, drops, merged });
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
    }
}

impl Lane {
    /// Starts a thread that reads `socket`; no other thread may from now on. It wakes `owner` when a datagram
    /// has come. It is as punctual as the calling thread, and has its priority.
    pub(super) fn start(
        socket: Arc<UdpSocket>,
        slots: usize,
        clock: Clock,
        owner: Waker,
    ) -> io::Result<Lane> {
        let (taken, store) = (Store::new()?, Store::new()?);
        let state = LaneState { store, ending: false, failure: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), room: Condvar::new() });
        let stop = Waker::new()?;
        let filler = Filler { socket, clock, shared: shared.clone(), stop: stop.clone(), owner };
        let thread = confine::spawn("fobs-lane", move || filler.run(RecvBatch::new(slots)))?;
        Ok(Lane { shared, stop, thread: Some(thread), taken, next: 0 })
    }

    /// Calls `take` with each datagram and the time at which it was read, in order of arrival, at most `max`
    /// times. Returns their number.
    pub fn receive(
        &mut self,
        max: usize,
        mut take: impl FnMut(Timestamp, Datagram<'_>),
    ) -> io::Result<usize> {
        if self.next == self.taken.datagrams.len() {
            self.refill()?;
        }
        let end = self.taken.datagrams.len().min(self.next.saturating_add(max));
        let mut start = self.next.checked_sub(1).map_or(0, |last| self.taken.datagrams[last].end);
        for stored in &self.taken.datagrams[self.next..end] {
            let Stored { end, read, from, ecn, arrived_ns, drops, merged } = *stored;
            let data = &mut self.taken.bytes[start..end];
            start = end;
            take(read, Datagram { from, data, ecn, arrived_ns, drops, merged });
        }
        let count = end - self.next;
        self.next = end;
        Ok(count)
    }

    /// Swaps the emptied store for the one being filled.
    fn refill(&mut self) -> io::Result<()> {
        self.taken.clear();
        self.next = 0;
        let mut state = self.shared.lock();
        if let (true, Some(error)) = (state.store.datagrams.is_empty(), state.failure.take()) {
            return Err(error);
        }
        std::mem::swap(&mut self.taken, &mut state.store);
        self.shared.room.notify_one();
        Ok(())
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.shared.lock().ending = true;
        self.shared.room.notify_one();
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        // A thread that panicked left whole datagrams.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lane's own thread.
struct Filler {
    socket: Arc<UdpSocket>,
    clock: Clock,
    shared: Arc<Shared>,
    stop: Waker,
    owner: Waker,
}

impl Filler {
    fn run(self, mut batch: RecvBatch) {
        be_punctual();
        while !self.shared.lock().ending {
            let came = self.socket.recv(&mut batch).and_then(|count| {
                if count > 0 {
                    self.hand_over(&mut batch);
                    return Ok(());
                }
                wait(&self.socket, &self.stop, Some(HEARTBEAT), Interest::Readable).map(|_| ())
            });
            if let Err(error) = came {
                self.shared.lock().failure = Some(error);
                return self.owner.wake();
            }
        }
    }

    /// Stores a batch, and waits where there is no room.
    fn hand_over(&self, batch: &mut RecvBatch) {
        let read = self.clock.now();
        let mut state = self.shared.lock();
        let had_none = state.store.datagrams.is_empty();
        for datagram in batch.datagrams() {
            while !state.store.has_room(&datagram) && !state.ending {
                self.owner.wake();
                state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.ending {
                return;
            }
            state.store.push(&datagram, read);
        }
        drop(state);
        if had_none {
            self.owner.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp_options;
    use fobs_sys::Burst;
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    /// Only a failing test waits so long.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A lane, and a socket to send to it from.
    struct World {
        lane: Lane,
        owner: Waker,
        to: Arc<UdpSocket>,
        from: UdpSocket,
        clock: Clock,
    }

    impl World {
        fn new() -> World {
            let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), &udp_options(None)).unwrap();
            let (to, from) = (Arc::new(bind()), bind());
            let (clock, owner) = (Clock::start(), Waker::new().unwrap());
            let lane = Lane::start(to.clone(), 8, clock, owner.clone()).unwrap();
            World { lane, owner, to, from, clock }
        }

        fn send(&self, data: &[u8]) {
            let to = self.to.local_addr();
            let burst = Burst { to, data, segment_len: data.len(), ecn: Ecn::Ect0 };
            assert_eq!(self.from.send(&burst).unwrap(), 1);
        }

        /// Waits until `count` datagrams are in the lane's store.
        fn await_stored(&self, count: usize) {
            let end = Instant::now() + PATIENCE;
            while self.lane.shared.lock().store.datagrams.len() < count {
                assert!(Instant::now() < end, "the lane has not taken {count} datagrams");
                std::thread::yield_now();
            }
        }

        /// Takes `count` datagrams as their owner does: with sleeps for the waker only.
        fn take(&mut self, count: usize, mut each: impl FnMut(Timestamp, &Datagram<'_>)) {
            let mut taken = 0;
            while taken < count {
                let came = self.lane.receive(7, |read, datagram| each(read, &datagram)).unwrap();
                assert!(came <= 7, "{came}");
                taken += came;
                if came == 0 {
                    let ready = wait(&self.to, &self.owner, Some(PATIENCE), Interest::Waker).unwrap();
                    assert!(ready.woken, "{taken} of {count} came");
                }
            }
        }
    }

    #[test]
    fn everything_is_handed_over_in_order_with_what_the_kernel_says() {
        let mut world = World::new();
        let sent: Vec<Vec<u8>> = (0..100u8).map(|i| vec![i; 1 + usize::from(i) * 13]).collect();
        sent.iter().for_each(|data| world.send(data));
        let (from, clock) = (world.from.local_addr(), world.clock);
        let mut came = Vec::new();
        world.take(100, |read, datagram| {
            assert_eq!((datagram.from, datagram.ecn), (from, Ecn::Ect0));
            let arrived = clock.at(datagram.arrived_ns.expect("this kernel stamps"));
            assert!(arrived <= read && read <= clock.now(), "{arrived:?} {read:?}");
            came.push(datagram.data.to_vec());
        });
        assert_eq!(came, sent);
        assert_eq!(world.lane.receive(7, |_, _| panic!("there is no more")).unwrap(), 0);
    }

    #[test]
    fn a_full_lane_leaves_the_rest_to_the_socket() {
        let mut world = World::new();
        for sent in 0..STORE_DATAGRAMS {
            world.send(&(sent as u32).to_le_bytes());
            if sent % 64 == 63 {
                // No faster than the lane, so that the socket drops nothing.
                world.await_stored(sent + 1);
            }
        }
        let more = 64;
        (0..more).for_each(|more| world.send(&((STORE_DATAGRAMS + more) as u32).to_le_bytes()));
        assert_eq!(world.lane.shared.lock().store.datagrams.len(), STORE_DATAGRAMS);
        let mut next = 0u32;
        world.take(STORE_DATAGRAMS + more, |_, datagram| {
            assert_eq!(*datagram.data, next.to_le_bytes());
            next += 1;
        });
    }

    #[test]
    fn a_lane_that_waits_for_room_ends_with_its_owner() {
        let world = World::new();
        let datagram = vec![1; 16 << 10];
        let fit = STORE_BYTES / datagram.len();
        for sent in 0..fit {
            world.send(&datagram);
            world.await_stored(sent + 1);
        }
        world.send(&datagram);
        assert_eq!(world.lane.shared.lock().store.bytes.len(), STORE_BYTES);
        // The test would not end.
        drop(world.lane);
    }
}
