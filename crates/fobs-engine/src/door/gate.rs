//! Who may open a stream of a session: a peer that knows its secret, and each index once.

use std::collections::{BTreeSet, VecDeque};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use fobs_sys::Waker;

use crate::streams::{NewStream, STREAMS_MAX, StreamIo};
use fobs_channel::secure::stream::{StreamHello, StreamPass, StreamTag};

/// Why a stream was not admitted.
#[derive(Debug)]
pub enum Refusal {
    /// It begins with other bytes.
    NoStream,
    /// No session has this tag (any more).
    Unknown,
    /// The peer that opened it does not know the session's secret.
    Forged,
    /// Its index was used before: an attacker repeats it, or the peer is broken.
    Repeated,
    /// As many are open as may be.
    Full,
    /// Its first bytes did not come.
    Broken(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoStream => f.write_str("it does not begin as one"),
            Refusal::Unknown => f.write_str("no session has its tag; that may have ended"),
            Refusal::Forged => f.write_str("it does not prove that it belongs to its session"),
            Refusal::Repeated => f.write_str("its session has had this one already"),
            Refusal::Full => f.write_str("its session has as many as it may have"),
            Refusal::Broken(error) => write!(f, "its first bytes did not come: {error}"),
        }
    }
}

/// The gate of one session. Clones are the same.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    pass: StreamPass,
    /// Most streams at once.
    open_max: u32,
    state: Mutex<GateState>,
}

#[derive(Default)]
struct GateState {
    /// Every index that was admitted: at most 65,535.
    used: BTreeSet<u16>,
    /// Streams admitted and not closed.
    open: u32,
    /// Those that the engine has not taken yet.
    admitted: VecDeque<NewStream>,
    waker: Option<Waker>,
}

impl Gate {
    /// The gate of the session with this pass; `open_max` bounds the streams that are open at once.
    pub fn new(pass: StreamPass, open_max: u32) -> Gate {
        Gate(Arc::new(Shared { pass, open_max: open_max.min(STREAMS_MAX), state: Mutex::default() }))
    }

    /// Names the session.
    pub fn tag(&self) -> StreamTag {
        self.0.pass.tag()
    }

    /// Admits a stream that began like this.
    pub fn admit(&self, hello: &StreamHello, socket: TcpStream) -> Result<(), Refusal> {
        if hello.tag() != self.tag() {
            return Err(Refusal::Unknown);
        }
        // Index 0 is the lane's, which has no first bytes.
        let index = self.0.pass.check(hello).filter(|index| *index != 0).ok_or(Refusal::Forged)?;
        socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).map_err(Refusal::Broken)?;
        let mut state = self.state();
        if state.used.contains(&index) {
            return Err(Refusal::Repeated);
        }
        if state.open >= self.0.open_max {
            return Err(Refusal::Full);
        }
        state.used.insert(index);
        state.open += 1;
        state.admitted.push_back(NewStream { index, io: StreamIo::Tcp(socket) });
        if let Some(waker) = &state.waker {
            waker.wake();
        }
        Ok(())
    }

    /// Wakes this from now on when a stream was admitted.
    pub(super) fn attach(&self, waker: Waker) {
        waker.wake();
        self.state().waker = Some(waker);
    }

    /// A stream that was admitted and not taken yet.
    pub(super) fn poll(&self) -> Option<NewStream> {
        self.state().admitted.pop_front()
    }

    /// A stream that was admitted is closed.
    pub(super) fn closed(&self, index: u16) {
        let mut state = self.state();
        if state.used.contains(&index) {
            state.open = state.open.saturating_sub(1);
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_channel::secure::schedule::pass_of;
    use std::net::TcpListener;

    fn pass(byte: u8) -> StreamPass {
        pass_of([byte; 32])
    }

    fn hello(byte: u8, index: u16) -> StreamHello {
        StreamHello::parse(&pass(byte).hello(index)).expect("it begins as one")
    }

    fn sockets() -> impl FnMut() -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        move || TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    }

    #[test]
    fn only_the_sessions_own_streams_are_admitted_and_each_once() {
        let (gate, mut socket) = (Gate::new(pass(1), STREAMS_MAX), sockets());
        assert!(matches!(gate.admit(&hello(2, 1), socket()), Err(Refusal::Unknown)));
        let mut forged = pass(1).hello(1);
        forged[41] ^= 1;
        let forged = StreamHello::parse(&forged).unwrap();
        assert!(matches!(gate.admit(&forged, socket()), Err(Refusal::Forged)));
        assert!(matches!(gate.admit(&hello(1, 0), socket()), Err(Refusal::Forged)), "the lane's index");
        assert!(gate.poll().is_none());
        gate.admit(&hello(1, 7), socket()).unwrap();
        assert!(matches!(gate.admit(&hello(1, 7), socket()), Err(Refusal::Repeated)));
        assert_eq!(gate.poll().unwrap().index, 7);
        gate.closed(7);
        assert!(matches!(gate.admit(&hello(1, 7), socket()), Err(Refusal::Repeated)), "closed or not");
        assert!(gate.poll().is_none());
    }

    #[test]
    fn no_more_are_open_at_once_than_may_be() {
        let (gate, mut socket) = (Gate::new(pass(1), 3), sockets());
        (1..=3).for_each(|index| gate.admit(&hello(1, index), socket()).unwrap());
        assert!(matches!(gate.admit(&hello(1, 4), socket()), Err(Refusal::Full)));
        gate.closed(9);
        assert!(matches!(gate.admit(&hello(1, 4), socket()), Err(Refusal::Full)), "nobody had that one");
        gate.closed(2);
        gate.admit(&hello(1, 4), socket()).unwrap();
        assert_eq!(std::iter::from_fn(|| gate.poll()).count(), 4);
    }
}
