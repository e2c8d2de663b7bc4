//! Doors within one process: pairs of loopback connections, and what may happen to them.

use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use fobs_proto::session::{StreamTarget, TransportChoice};
use fobs_sys::Waker;

use super::support::{End, keys};
use crate::streams::{Allotment, Door, DoorEvent, NewStream, StreamIo, StreamSetup};
use fobs_model::error::{Error, ErrorKind};
use fobs_model::options::TcpTuning;

/// What becomes of bytes on a stream.
pub enum Fate {
    Pass,
    /// This number of them pass, then the connection ends at both sides.
    Cut(usize),
    /// They go nowhere, and neither does anything behind them; the connection stays.
    Stall,
}

/// Decides about bytes that an end wrote on the stream of an index.
pub type Meddler = Box<dyn FnMut(u16, End, &mut Vec<u8>) -> Fate + Send>;

/// Makes the streams of a session.
#[derive(Clone)]
pub struct Doors(Arc<Mutex<DoorState>>);

struct DoorState {
    wanted: u32,
    open: BTreeSet<u16>,
    made: u32,
    /// At most this number are made in all.
    most: u32,
    /// Whether the newest refusal was told.
    refused: bool,
    events: [VecDeque<DoorEvent>; 2],
    wakers: [Option<Waker>; 2],
    meddler: Option<Arc<Mutex<Meddler>>>,
    /// Connections that are stalled.
    kept: Arc<Mutex<Vec<TcpStream>>>,
    /// Most that were open at once.
    open_max: usize,
    allotment: Allotment,
}

struct DoorOf(Doors, End);

pub fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

impl Doors {
    pub fn new() -> Doors {
        Doors(Arc::new(Mutex::new(DoorState {
            wanted: 0,
            open: BTreeSet::new(),
            made: 0,
            most: u32::MAX,
            refused: false,
            events: Default::default(),
            wakers: Default::default(),
            meddler: None,
            kept: Arc::default(),
            open_max: 0,
            allotment: Allotment::default(),
        })))
    }

    /// Everything passes the meddler.
    pub fn meddling(meddler: impl FnMut(u16, End, &mut Vec<u8>) -> Fate + Send + 'static) -> Doors {
        let doors = Doors::new();
        doors.0.lock().unwrap().meddler = Some(Arc::new(Mutex::new(Box::new(meddler))));
        doors
    }

    /// At most this number of streams can be made.
    pub fn at_most(self, streams: u32) -> Doors {
        self.0.lock().unwrap().most = streams;
        self
    }

    /// How many were made, and the most that were open at once.
    pub fn counts(&self) -> (u32, usize) {
        let state = self.0.lock().unwrap();
        (state.made, state.open_max)
    }

    pub fn setup(&self, end: End) -> StreamSetup {
        StreamSetup {
            choice: TransportChoice::Auto,
            target: StreamTarget::Found { remembered: None },
            door: Box::new(DoorOf(self.clone(), end)),
            keys: keys().streams,
            allotment: self.0.lock().unwrap().allotment,
            tuning: TcpTuning::default(),
        }
    }

    /// How frames are given to streams.
    pub fn allotted(self, allotment: Allotment) -> Doors {
        self.0.lock().unwrap().allotment = allotment;
        self
    }

    /// Opens a stream at one end; the test has its other end.
    pub fn inject(&self, end: End, index: u16) -> TcpStream {
        let (ours, theirs) = pair();
        let mut state = self.0.lock().unwrap();
        state.tell(end, DoorEvent::Opened(NewStream { index, io: StreamIo::Tcp(theirs) }));
        ours
    }

    /// Makes what is missing.
    fn make(&self) {
        let mut state = self.0.lock().unwrap();
        while state.open.len() < state.wanted as usize {
            if state.made >= state.most {
                if !std::mem::replace(&mut state.refused, true) {
                    let error = Error::new(ErrorKind::Connect, "the test makes no more streams");
                    state.tell(End::Sender, DoorEvent::Failed(error.clone()));
                }
                return;
            }
            state.made += 1;
            let index = u16::try_from(state.made).unwrap();
            state.open.insert(index);
            state.open_max = state.open_max.max(state.open.len());
            let [at_sender, at_receiver] = match &state.meddler {
                None => {
                    let (one, other) = pair();
                    [one, other]
                }
                Some(meddler) => {
                    let ((sender, from_sender), (receiver, from_receiver)) = (pair(), pair());
                    pump(index, End::Sender, &from_sender, &from_receiver, meddler, &state.kept);
                    pump(index, End::Receiver, &from_receiver, &from_sender, meddler, &state.kept);
                    [sender, receiver]
                }
            };
            for (end, socket) in [(End::Sender, at_sender), (End::Receiver, at_receiver)] {
                state.tell(end, DoorEvent::Opened(NewStream { index, io: StreamIo::Tcp(socket) }));
            }
        }
    }
}

impl DoorState {
    fn tell(&mut self, end: End, event: DoorEvent) {
        self.events[end as usize].push_back(event);
        if let Some(waker) = &self.wakers[end as usize] {
            waker.wake();
        }
    }
}

/// Passes what `from` has to `to`, as the meddler says.
fn pump(
    index: u16,
    end: End,
    from: &TcpStream,
    to: &TcpStream,
    meddler: &Arc<Mutex<Meddler>>,
    kept: &Arc<Mutex<Vec<TcpStream>>>,
) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let (meddler, kept) = (meddler.clone(), kept.clone());
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let mut bytes = buffer[..count].to_vec();
            let fate = (*meddler.lock().unwrap())(index, end, &mut bytes);
            match fate {
                Fate::Pass => {
                    if to.write_all(&bytes).is_err() {
                        break;
                    }
                }
                Fate::Cut(passing) => {
                    let _ = to.write_all(&bytes[..passing.min(bytes.len())]);
                    break;
                }
                Fate::Stall => return kept.lock().unwrap().extend([from, to]),
            }
        }
        for socket in [from, to] {
            let _ = socket.shutdown(Shutdown::Both);
        }
    });
}

impl Door for DoorOf {
    fn attach(&mut self, waker: Waker) {
        self.0.0.lock().unwrap().wakers[self.1 as usize] = Some(waker);
    }

    fn want(&mut self, open_at_once: u32) {
        self.0.0.lock().unwrap().wanted = open_at_once;
        self.0.make();
    }

    fn closed(&mut self, index: u16) {
        if self.1 == End::Sender {
            self.0.0.lock().unwrap().open.remove(&index);
            self.0.make();
        }
    }

    fn poll(&mut self) -> Option<DoorEvent> {
        self.0.0.lock().unwrap().events[self.1 as usize].pop_front()
    }
}

/// What makes streams at one end.
pub fn streams_of(streams: Option<&(Doors, TransportChoice)>, end: End) -> Option<StreamSetup> {
    let (doors, choice) = streams?;
    Some(StreamSetup { choice: *choice, ..doors.setup(end) })
}
