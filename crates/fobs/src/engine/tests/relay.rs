//! A relay in the datagrams' path.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket as PlainSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fobs_proto::wire::{DataHeader, Header, decode_packet_number};

use super::support::{CIPHER, End, SECRET};
use crate::secure::datagram::{Direction, Opener, Sealer, SessionSecret, TAG_LEN};

/// How often a relay looks whether it is to end.
const RELAY_LOOK: Duration = Duration::from_millis(10);

/// What the relay does with a datagram.
pub enum Out {
    /// Delivered as if it came from the peer.
    Peer(Vec<u8>),
    /// Delivered from an unknown address.
    Stranger(Vec<u8>),
}

/// Maps a datagram of one end to the datagrams that reach the other.
pub type Datagrams = Box<dyn FnMut(End, &[u8]) -> Vec<Out> + Send>;
/// Passes datagrams between client and server.
pub struct Relay {
    /// Where the client finds it.
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    pub fn start(client: End, server: SocketAddr, decide: Datagrams) -> Relay {
        let socket = || {
            let socket = PlainSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(RELAY_LOOK)).unwrap();
            socket
        };
        let (before, behind, stranger) = (socket(), socket(), Arc::new(socket()));
        let address = before.local_addr().unwrap();
        let (over, decide) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(decide)));
        let caller: Arc<OnceLock<SocketAddr>> = Arc::default();
        let both =
            [(before.try_clone().unwrap(), behind.try_clone().unwrap(), true), (behind, before, false)];
        let threads = both.map(|(hear, speak, from_client)| {
            let (over, decide, caller, stranger) =
                (over.clone(), decide.clone(), caller.clone(), stranger.clone());
            let server_end = if client == End::Sender { End::Receiver } else { End::Sender };
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while !over.load(Ordering::Relaxed) {
                    let Ok((len, from)) = hear.recv_from(&mut buffer) else { continue };
                    let (end, to) = match from_client {
                        true => {
                            caller.get_or_init(|| from);
                            (client, server)
                        }
                        false => (server_end, *caller.get().expect("the client speaks first")),
                    };
                    let passed = (*decide.lock().unwrap())(end, &buffer[..len]);
                    for out in passed {
                        // A peer that is gone gets nothing.
                        let _ = match out {
                            Out::Peer(datagram) => speak.send_to(&datagram, to),
                            Out::Stranger(datagram) => stranger.send_to(&datagram, to),
                        };
                    }
                }
            })
        });
        Relay { address, over, threads: threads.into() }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
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
    Box::new(move |from, datagram| match open.load(Ordering::Relaxed) {
        true => vec![Out::Peer(datagram.to_vec())],
        false => held(from, datagram),
    })
}

/// Changes packets before they are sealed, as a faulty memory would: a relay that has the keys.
pub struct FaultyMemory {
    opener: Opener,
    sealer: Sealer,
    largest: u64,
}

impl FaultyMemory {
    pub fn new() -> FaultyMemory {
        let secret = SessionSecret::new(SECRET);
        FaultyMemory {
            opener: Opener::new(&secret, CIPHER, Direction::Sender),
            sealer: Sealer::new(&secret, CIPHER, Direction::Sender),
            largest: 0,
        }
    }

    /// The datagram with the first bit of its payload changed.
    pub fn change(&mut self, datagram: &[u8]) -> Vec<u8> {
        let (header, truncated) = Header::decode(datagram).unwrap();
        let number = decode_packet_number(truncated, self.largest + 1);
        self.largest = self.largest.max(number);
        let mut changed = datagram.to_vec();
        let (clear, sealed) = changed.split_at_mut(header.len());
        let mut body = vec![0; sealed.len() - TAG_LEN];
        assert!(self.opener.open(number, clear, sealed, &mut body), "the keys fit");
        body[0] ^= 1;
        self.sealer.seal(number, clear, &body, sealed);
        changed
    }
}
