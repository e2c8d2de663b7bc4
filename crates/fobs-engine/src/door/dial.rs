//! Connects in the background: as many streams as are wanted, with pauses that grow where that fails.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fobs_sys::{Waker, begin_connect};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::streams::{DoorEvent, NewStream, STREAMS_MAX, StreamIo};
use fobs_channel::secure::stream::StreamPass;
use fobs_model::error::{Error, ErrorKind};
use fobs_sys::confine;

/// How long connecting may take: a lost first segment and its repetition (RFC 6298: 1 s) fit.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// Connections that are being made at once. A daemon has room for 32 strangers of one network.
const DIALS_MAX: usize = 16;
/// How often the thread looks at what is wanted while connections are being made.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// First and longest pause after a failure.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A stream that ends within this time counts as one that could not be made: another one right away would
/// end likewise.
const SHORT_LIFE: Duration = Duration::from_secs(5);

/// Where the server takes streams.
pub struct Target {
    /// Finds the addresses, best first. Called once, in the dialer's thread: it may ask name servers.
    pub addresses: Box<dyn FnOnce() -> Vec<SocketAddr> + Send>,
    /// For messages.
    pub name: String,
    /// What shows that a stream is of this session.
    pub pass: StreamPass,
}

/// The dialer. Dropping it ends its thread.
pub struct Dialer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<DialState>,
    changed: Condvar,
}

#[derive(Default)]
struct DialState {
    wanted: u32,
    /// When those that are open were opened.
    born: BTreeMap<u16, Instant>,
    events: VecDeque<DoorEvent>,
    waker: Option<Waker>,
    ended: bool,
    /// No attempt before this.
    not_before: Option<Instant>,
    /// In a row.
    failures: u32,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, DialState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DialState {
    fn tell(&mut self, event: DoorEvent) {
        self.events.push_back(event);
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// An attempt failed: the next one waits longer, unless streams have worked meanwhile.
    fn pause(&mut self, now: Instant) {
        if self.born.values().any(|born| now.duration_since(*born) >= SHORT_LIFE) {
            self.failures = 0;
        }
        let pause = PAUSE_FIRST.saturating_mul(1 << self.failures.min(8)).min(PAUSE_MAX);
        self.failures += 1;
        self.not_before = Some(now + pause);
    }

    /// How many more are wanted beside those that are open.
    fn missing(&self) -> usize {
        (self.wanted as usize).saturating_sub(self.born.len())
    }
}

impl Dialer {
    /// Starts the thread; it does nothing before streams are wanted.
    pub fn start(target: Target) -> std::io::Result<Dialer> {
        let shared = Arc::new(Shared::default());
        let dialing =
            Dialing { shared: shared.clone(), next: 1, dials: Vec::new(), known: Vec::new(), good: None };
        confine::spawn("fobs-dial", move || dialing.run(target))?;
        Ok(Dialer { shared })
    }

    pub(super) fn attach(&self, waker: Waker) {
        waker.wake();
        self.shared.state().waker = Some(waker);
    }

    /// Sets how many are to be open at once.
    pub(super) fn want(&self, open_at_once: u32) {
        let mut state = self.shared.state();
        if state.wanted != open_at_once.min(STREAMS_MAX) {
            state.wanted = open_at_once.min(STREAMS_MAX);
            self.shared.changed.notify_one();
        }
    }

    /// A stream is closed.
    pub(super) fn closed(&self, index: u16) {
        let now = Instant::now();
        let mut state = self.shared.state();
        let was_unwanted = state.born.len() > state.wanted as usize;
        let Some(born) = state.born.remove(&index) else { return };
        if was_unwanted {
            return;
        }
        if now.duration_since(born) < SHORT_LIFE {
            state.pause(now);
        } else {
            state.failures = 0;
        }
        self.shared.changed.notify_one();
    }

    pub(super) fn poll(&self) -> Option<DoorEvent> {
        self.shared.state().events.pop_front()
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_one();
    }
}

/// A connection that is being made.
struct Dial {
    socket: TcpStream,
    to: SocketAddr,
    deadline: Instant,
}

/// The thread's state.
struct Dialing {
    shared: Arc<Shared>,
    /// The next index. The lane has 0.
    next: u32,
    dials: Vec<Dial>,
    /// The server's addresses.
    known: Vec<SocketAddr>,
    /// The address that answered.
    good: Option<SocketAddr>,
}

impl Dialing {
    fn run(mut self, target: Target) {
        let Target { addresses, name, pass } = target;
        let mut addresses = Some(addresses);
        while let Some(missing) = self.await_work() {
            if let Some(find) = addresses.take() {
                self.known = find();
            }
            let failed = self.dial(missing).err().or_else(|| self.look(&pass));
            if let Some(why) = failed {
                self.fail(&name, &why);
            }
        }
    }

    /// Waits until something is to be done; `None` at the end. How many streams are missing that may be
    /// dialed now.
    fn await_work(&self) -> Option<usize> {
        let mut state = self.shared.state();
        loop {
            if state.ended {
                return None;
            }
            let now = Instant::now();
            let missing = state.missing().saturating_sub(self.dials.len());
            let pause =
                state.not_before.map(|at| at.saturating_duration_since(now)).filter(|left| !left.is_zero());
            if missing > 0 && pause.is_none() {
                return Some(missing);
            }
            if !self.dials.is_empty() {
                return Some(0);
            }
            let wait = pause.filter(|_| missing > 0);
            state = match wait {
                Some(wait) => {
                    self.shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Starts connections. Until one address has answered, all are tried, for one stream.
    fn dial(&mut self, missing: usize) -> Result<(), String> {
        if missing == 0 {
            return Ok(());
        }
        let to: Vec<SocketAddr> = match self.good {
            Some(good) => {
                std::iter::repeat_n(good, missing.min(DIALS_MAX.saturating_sub(self.dials.len()))).collect()
            }
            None if self.dials.is_empty() => self.known.clone(),
            None => return Ok(()),
        };
        if self.good.is_none() && to.is_empty() {
            return Err("no address is known; check -4 and -6 and the host's name".to_owned());
        }
        let deadline = Instant::now() + CONNECT_WAIT;
        let mut failed = None;
        for to in to {
            match begin_connect(&to) {
                Ok(socket) => self.dials.push(Dial { socket, to, deadline }),
                Err(error) => failed = Some(error.to_string()),
            }
        }
        failed.filter(|_| self.dials.is_empty()).map_or(Ok(()), Err)
    }

    /// Waits a little for the connections that are being made. Why one failed, if that matters.
    fn look(&mut self, pass: &StreamPass) -> Option<String> {
        if self.dials.is_empty() {
            return None;
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
        let ready: Vec<bool> = {
            let dials = self.dials.iter();
            let mut waiting: Vec<_> = dials.map(|dial| PollFd::new(&dial.socket, PollFlags::OUT)).collect();
            match poll(&mut waiting, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Some(error.to_string()),
            }
            waiting.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        let now = Instant::now();
        let racing = self.good.is_none();
        let mut failed = None;
        let dials = std::mem::take(&mut self.dials);
        for (dial, ready) in dials.into_iter().zip(ready) {
            if racing && self.good.is_some() {
                // Another address was faster.
                continue;
            }
            match ready.then(|| dial.socket.take_error().and_then(|error| error.map_or(Ok(()), Err))) {
                None if now < dial.deadline => self.dials.push(dial),
                None => failed = Some(format!("no answer within {} s", CONNECT_WAIT.as_secs())),
                Some(Err(error)) => failed = Some(error.to_string()),
                Some(Ok(())) => match self.open(dial.socket, pass) {
                    Ok(()) => self.good = Some(dial.to),
                    Err(why) => failed = Some(why),
                },
            }
        }
        if racing && self.good.is_some() {
            self.dials.clear();
            return None;
        }
        // Of a race only the end counts.
        failed.filter(|_| !racing || self.dials.is_empty())
    }

    /// Says who we are on a new connection, and hands it over.
    fn open(&mut self, mut socket: TcpStream, pass: &StreamPass) -> Result<(), String> {
        let index = u16::try_from(self.next)
            .map_err(|_| "this session has used all 65,535 streams that it may have".to_owned())?;
        self.next += 1;
        let hello = pass.hello(index);
        let greeted = socket.set_nodelay(true).and_then(|()| socket.write(&hello));
        match greeted {
            Ok(count) if count == hello.len() => {}
            Ok(_) => return Err("the connection takes no data".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        let mut state = self.shared.state();
        state.born.insert(index, Instant::now());
        state.tell(DoorEvent::Opened(NewStream { index, io: StreamIo::Tcp(socket) }));
        Ok(())
    }

    /// Tells of a failure, and pauses.
    fn fail(&mut self, name: &str, why: &str) {
        if self.dials.is_empty() {
            // The address may have changed.
            self.good = None;
        }
        let message = format!(
            "no TCP connection for data to {name}: {why}; open that port on the server and the firewalls between"
        );
        let mut state = self.shared.state();
        state.pause(Instant::now());
        state.tell(DoorEvent::Failed(Error::new(ErrorKind::Connect, message)));
    }
}

#[cfg(test)]
mod tests;
