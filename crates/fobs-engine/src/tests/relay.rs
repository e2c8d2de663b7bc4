//! A relay in the datagrams' path.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket as PlainSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fobs_proto::wire::{Ack, DataHeader, Header, decode_packet_number};

use super::support::{End, keys};
use fobs_channel::secure::datagram::{Direction, Opener, Sealer, TAG_LEN};

/// How often a relay looks whether it is to end.
const RELAY_LOOK: Duration = Duration::from_millis(10);

/// What the relay does with a datagram.
pub enum Out {
    /// Delivered as if it came from the peer.
    Peer(Vec<u8>),
    /// Delivered from an unknown address.
    Stranger(Vec<u8>),
    /// The client's, delivered from another address, as after a NAT has forgotten its mapping: what the
    /// server still sends to the first one vanishes.
    Rebound(Vec<u8>),
}

/// Maps a datagram of one end to the datagrams that reach the other.
pub type Datagrams = Box<dyn FnMut(End, &[u8]) -> Vec<Out> + Send>;

/// Passes datagrams between client and server.
pub struct Relay {
    /// Where the client finds it.
    pub address: SocketAddr,
    path: Arc<Path>,
    threads: Vec<JoinHandle<()>>,
}

/// What the relay's threads share.
struct Path {
    over: AtomicBool,
    rebound: AtomicBool,
    client: End,
    server: SocketAddr,
    caller: OnceLock<SocketAddr>,
    decide: Mutex<Datagrams>,
    /// Towards the client.
    before: PlainSocket,
    /// Towards the server, before and after the mapping is forgotten.
    behind: [PlainSocket; 2],
    stranger: PlainSocket,
    /// Lengths of the datagrams that came to the stranger.
    at_stranger: Mutex<Vec<usize>>,
}

impl Path {
    /// Reads one datagram from `hear` and passes it on.
    fn forward(&self, hear: &PlainSocket, buffer: &mut [u8]) {
        let Ok((len, from)) = hear.recv_from(buffer) else { return };
        let of = |socket: &PlainSocket| socket.local_addr().unwrap() == hear.local_addr().unwrap();
        if of(&self.stranger) {
            return self.at_stranger.lock().unwrap().push(len);
        }
        let rebound = self.rebound.load(Ordering::Relaxed);
        if of(&self.behind[0]) && rebound {
            return;
        }
        let (end, speak, to) = if of(&self.before) {
            self.caller.get_or_init(|| from);
            (self.client, &self.behind[usize::from(rebound)], self.server)
        } else {
            let caller = *self.caller.get().expect("the client speaks first");
            (if self.client == End::Sender { End::Receiver } else { End::Sender }, &self.before, caller)
        };
        for out in (*self.decide.lock().unwrap())(end, &buffer[..len]) {
            // A peer that is gone gets nothing.
            let _ = match out {
                Out::Peer(datagram) => speak.send_to(&datagram, to),
                Out::Stranger(datagram) => self.stranger.send_to(&datagram, to),
                Out::Rebound(datagram) => {
                    self.rebound.store(true, Ordering::Relaxed);
                    self.behind[1].send_to(&datagram, to)
                }
            };
        }
    }
}

impl Relay {
    pub fn start(client: End, server: SocketAddr, decide: Datagrams) -> Relay {
        let socket = || {
            let socket = PlainSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(RELAY_LOOK)).unwrap();
            socket
        };
        let path = Arc::new(Path {
            over: AtomicBool::new(false),
            rebound: AtomicBool::new(false),
            client,
            server,
            caller: OnceLock::new(),
            decide: Mutex::new(decide),
            before: socket(),
            behind: [socket(), socket()],
            stranger: socket(),
            at_stranger: Mutex::default(),
        });
        let address = path.before.local_addr().unwrap();
        let ears: [fn(&Path) -> &PlainSocket; 4] =
            [|path| &path.before, |path| &path.behind[0], |path| &path.behind[1], |path| &path.stranger];
        let threads = ears.map(|ear| {
            let path = path.clone();
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while !path.over.load(Ordering::Relaxed) {
                    path.forward(ear(&path), &mut buffer);
                }
            })
        });
        Relay { address, path, threads: threads.into() }
    }

    /// Lengths of the datagrams that have come to the stranger.
    pub fn at_stranger(&self) -> Vec<usize> {
        self.path.at_stranger.lock().unwrap().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.path.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let joined = thread.join();
            assert!(joined.is_ok() || thread::panicking(), "the relay failed");
        }
    }
}

/// The end that sent a datagram, as far as its header shows.
pub fn data_header(datagram: &[u8]) -> Option<DataHeader> {
    match Header::decode(datagram) {
        Ok((Header::Data(header), _)) => Some(header),
        _ => None,
    }
}

/// Lets everything pass but data of chunks above the first: so a session is in its middle for as long as it
/// takes.
pub fn hold_back() -> Datagrams {
    Box::new(|_, datagram| match data_header(datagram) {
        Some(header) if header.chunk > 0 => Vec::new(),
        _ => vec![Out::Peer(datagram.to_vec())],
    })
}

/// The same until the gate is opened.
pub fn hold_back_until(open: Arc<AtomicBool>) -> Datagrams {
    let mut held = hold_back();
    Box::new(move |from, datagram| {
        if open.load(Ordering::Relaxed) { vec![Out::Peer(datagram.to_vec())] } else { held(from, datagram) }
    })
}

/// A relay that has the keys of one direction: what it passes on is as genuine as the peer's own.
pub struct Insider {
    opener: Opener,
    sealer: Sealer,
    largest: u64,
}

impl Insider {
    pub fn sender() -> Insider {
        Insider::of(Direction::Sender)
    }

    pub fn receiver() -> Insider {
        Insider::of(Direction::Receiver)
    }

    fn of(direction: Direction) -> Insider {
        let other = match direction {
            Direction::Sender => Direction::Receiver,
            Direction::Receiver => Direction::Sender,
        };
        let (sealer, _) = keys().datagrams.of_end(direction);
        let (_, opener) = keys().datagrams.of_end(other);
        Insider { opener, sealer, largest: 0 }
    }

    /// The number, header and body of a packet.
    fn open(&mut self, datagram: &[u8]) -> (u64, Header, Vec<u8>) {
        let (header, truncated) = Header::decode(datagram).unwrap();
        let number = decode_packet_number(truncated, self.largest + 1);
        self.largest = self.largest.max(number);
        let (clear, sealed) = datagram.split_at(header.len());
        let mut body = vec![0; sealed.len() - TAG_LEN];
        assert!(self.opener.open(number, clear, sealed, &mut body), "the keys fit");
        (number, header, body)
    }

    fn seal(&mut self, number: u64, header: Header, body: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; header.len() + body.len() + TAG_LEN];
        let (clear, sealed) = datagram.split_at_mut(header.len());
        header.encode(number, clear);
        self.sealer.seal(number, clear, body, sealed);
        datagram
    }

    /// The smallest packet there is, under the number of a datagram that is not passed on.
    pub fn ping(&mut self, instead_of: &[u8]) -> Vec<u8> {
        let (number, ..) = self.open(instead_of);
        self.seal(number, Header::Probe, &[])
    }

    /// The same data packet with another header, if `change` returns one, and another body.
    pub fn rewrite_data(
        &mut self,
        datagram: &[u8],
        change: impl FnOnce(&DataHeader, &mut Vec<u8>) -> Option<DataHeader>,
    ) -> Vec<u8> {
        let (number, header, mut body) = self.open(datagram);
        let Header::Data(data) = header else { panic!("{header:?} is no data") };
        let header = change(&data, &mut body).unwrap_or(data);
        self.seal(number, Header::Data(header), &body)
    }

    /// The same ack with another content.
    pub fn rewrite_ack(&mut self, datagram: &[u8], change: impl FnOnce(&mut Ack)) -> Vec<u8> {
        let (number, header, body) = self.open(datagram);
        let mut ack = Ack::decode(&body).expect("an ack");
        change(&mut ack);
        let mut body = Vec::new();
        ack.encode(&mut body);
        self.seal(number, header, &body)
    }
}

/// Changes packets before they are sealed, as a faulty memory would.
pub struct FaultyMemory(Insider);

impl FaultyMemory {
    pub fn new() -> FaultyMemory {
        FaultyMemory(Insider::sender())
    }

    /// The datagram with the first bit of its payload changed.
    pub fn change(&mut self, datagram: &[u8]) -> Vec<u8> {
        self.0.rewrite_data(datagram, |_, body| {
            body[0] ^= 1;
            None
        })
    }
}

/// Spoils the first packets of chunk 1, by its lane's numbers, in as many layouts as `times`.
pub fn spoiling(times: u8) -> Datagrams {
    spoiling_chunk(1, times)
}

/// The same of another chunk, by the first lane's number.
pub fn spoiling_chunk(chunk: u32, times: u8) -> Datagrams {
    spoiling_where(move |number| number == chunk, times)
}

/// The same of all chunks from one on.
pub fn spoiling_from(first: u32, times: u8) -> Datagrams {
    spoiling_where(move |number| number >= first, times)
}

fn spoiling_where(is_spoiled: impl Fn(u32) -> bool + Send + 'static, times: u8) -> Datagrams {
    let mut memory = FaultyMemory::new();
    Box::new(move |_, datagram| match data_header(datagram) {
        Some(header) if is_spoiled(header.chunk) && header.packet_index == 0 && header.attempt < times => {
            vec![Out::Peer(memory.change(datagram))]
        }
        _ => vec![Out::Peer(datagram.to_vec())],
    })
}
