//! One side's end of the data plane: a socket, the keys of both directions, and where the peer is.

use super::lane::Lane;
use super::remedy::Mendable;
use super::{Clock, UDP_SILENCE_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::secure::datagram::{Cipher, Direction, Opener, Sealer, SessionSecret};
use crate::secure::replay::ReplayWindow;
use fobs_proto::receiver::{EcnCodepoint, PacketMeta, SocketNote};
use fobs_proto::sender::{Body, PacketOut};
use fobs_proto::wire::{AEAD_TAG_LEN, DataHeader, Header, decode_packet_number};
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::{Burst, Datagram, Ecn, Interest, RecvBatch, SendError, UdpSocket, Waker, wait};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Room for one burst: what one GSO send may carry.
const OUT_LEN: usize = 65_507;
/// What probes are filled with.
static PADDING: [u8; OUT_LEN] = [0; OUT_LEN];
/// Slots of a receive batch. With GRO each may hold 44 packets; eight of them are 0.8 ms at 5 Gbit/s, which is as long as acks
/// should wait for each other.
const BATCH_SLOTS: usize = 8;
/// As many datagrams are taken from a lane at once.
const LANE_BATCH: usize = BATCH_SLOTS * 44;
/// Addresses at which the peer is looked for.
const CANDIDATES_MAX: usize = 4;
/// What the side that was called waits beyond [`UDP_SILENCE_MAX`].
const CALLED_WAIT: Duration = Duration::from_secs(2);
/// Datagrams of a burst that also go to the other candidates until the peer has been heard.
const GREETING_LEN: usize = 1;

/// What a link is made of.
pub(crate) struct LinkSetup {
    pub(crate) socket: UdpSocket,
    pub(crate) waker: Waker,
    pub(crate) clock: Clock,
    pub(crate) secret: SessionSecret,
    pub(crate) cipher: Cipher,
    /// What this side emits.
    pub(crate) direction: Direction,
    /// Where the peer may be; empty if it speaks first.
    pub(crate) candidates: Vec<SocketAddr>,
}

/// An authenticated packet.
pub(crate) struct Incoming<'a> {
    pub(crate) header: Header,
    pub(crate) meta: PacketMeta,
    pub(crate) body: IncomingBody<'a>,
}

/// Where the body of a packet is, as it was opened.
#[derive(Clone, Copy)]
pub(crate) enum IncomingBody<'a> {
    /// In the place that [`Inbox::vacancy`] named; how many bytes.
    InPlace(usize),
    /// Here, until the next packet.
    Here(&'a [u8]),
}

impl IncomingBody<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            IncomingBody::InPlace(len) => *len,
            IncomingBody::Here(bytes) => bytes.len(),
        }
    }
}

/// Whoever takes what a link receives. A function does, if it has no places of its own.
pub(crate) trait Inbox {
    /// The place for the `len` bytes that a data packet claims to bring, to be opened straight into: what is written there is
    /// worth nothing until the packet is taken, and if it is a forgery it never is. `None` for a buffer of the link's.
    fn vacancy(&mut self, _header: &DataHeader, _len: usize) -> Option<&mut [u8]> {
        None
    }

    /// Takes an authenticated packet.
    fn take(&mut self, now: Timestamp, packet: Incoming<'_>);
}

impl<F: FnMut(Timestamp, Incoming<'_>)> Inbox for F {
    fn take(&mut self, now: Timestamp, packet: Incoming<'_>) {
        self(now, packet);
    }
}

/// A sealed burst, waiting in the link's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sealed {
    start: usize,
    end: usize,
    segment_len: usize,
}

impl Sealed {
    pub(crate) fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Datagrams that have not left.
    pub(crate) fn datagrams(&self) -> usize {
        (self.end - self.start).div_ceil(self.segment_len.max(1))
    }
}

/// The link.
pub(crate) struct Link {
    socket: Arc<UdpSocket>,
    waker: Waker,
    clock: Clock,
    sealer: Sealer,
    hearing: Hearing,
    candidates: Vec<SocketAddr>,
    intake: Intake,
    out: Box<[u8]>,
}

/// How datagrams get here.
enum Intake {
    /// This thread asks the socket.
    Socket(RecvBatch),
    /// Another one does.
    Lane(Lane),
}

/// Tells what the peer sent from everything else, and knows where it is.
struct Hearing {
    clock: Clock,
    opener: Opener,
    replay: ReplayWindow,
    largest: Option<u64>,
    /// Whether the socket counts what it drops.
    counts_drops: bool,
    peer: Option<SocketAddr>,
    last_heard: Option<Timestamp>,
    /// For bodies that have no place of their own.
    opened: Box<[u8]>,
    rejected: u64,
}

impl Link {
    pub(crate) fn new(setup: LinkSetup) -> Link {
        let (ours, theirs) = match setup.direction {
            Direction::Sender => (Direction::Sender, Direction::Receiver),
            Direction::Receiver => (Direction::Receiver, Direction::Sender),
        };
        let mut candidates = setup.candidates;
        candidates.truncate(CANDIDATES_MAX);
        let hearing = Hearing {
            clock: setup.clock,
            opener: Opener::new(&setup.secret, setup.cipher, theirs),
            replay: ReplayWindow::new(),
            largest: None,
            counts_drops: setup.socket.counts_drops(),
            peer: candidates.first().copied(),
            last_heard: None,
            opened: vec![0; OUT_LEN].into_boxed_slice(),
            rejected: 0,
        };
        Link {
            socket: Arc::new(setup.socket),
            waker: setup.waker,
            clock: setup.clock,
            sealer: Sealer::new(&setup.secret, setup.cipher, ours),
            hearing,
            candidates,
            intake: Intake::Socket(RecvBatch::new(BATCH_SLOTS)),
            out: vec![0; OUT_LEN].into_boxed_slice(),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// When the peer was last heard; `None` before that.
    pub(crate) fn last_heard(&self) -> Option<Timestamp> {
        self.hearing.last_heard
    }

    /// The address to send to, where it is known.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.hearing.peer
    }

    /// Whether that is known.
    pub(crate) fn has_peer(&self) -> bool {
        self.hearing.peer.is_some()
    }

    /// How long the peer may stay unheard at the start. The side that was called waits a little longer: the caller's own
    /// sentence names the server as its user knows it.
    pub(crate) fn silence_max(&self) -> Duration {
        if self.candidates.is_empty() { UDP_SILENCE_MAX + CALLED_WAIT } else { UDP_SILENCE_MAX }
    }

    /// Datagrams dropped because they were malformed, replayed or forged.
    pub(crate) fn rejected(&self) -> u64 {
        self.hearing.rejected
    }

    /// The kernel's count of datagrams dropped at the socket, as of now; `None` where it does not count them.
    pub(crate) fn socket_drops(&self) -> Option<u32> {
        if self.socket.counts_drops() { self.socket.socket_drops().ok() } else { None }
    }

    /// Bytes of the socket's receive buffer, as the kernel charges them.
    pub(crate) fn recv_buffer(&self) -> usize {
        self.socket.recv_buffer()
    }

    /// Bytes of IP and UDP headers on the way to the peer.
    pub(crate) fn ip_overhead(&self) -> u16 {
        match self.socket.local_addr() {
            SocketAddr::V4(_) => 28,
            SocketAddr::V6(_) => 48,
        }
    }

    /// Takes what is waiting: hands over every authenticated packet, and returns how many datagrams there were.
    pub(crate) fn receive(&mut self, inbox: &mut impl Inbox) -> Result<usize> {
        let Link { socket, clock, hearing, intake, .. } = self;
        let count = match intake {
            Intake::Socket(batch) => socket.recv(batch).inspect(|&count| {
                if count > 0 {
                    let now = clock.now();
                    batch.for_each(|datagram| hearing.take(now, datagram, inbox));
                }
            }),
            // When it was read is what tells how late this host reads.
            Intake::Lane(lane) => {
                lane.receive(LANE_BATCH, |read, datagram| hearing.take(read, datagram, inbox))
            }
        };
        count.map_err(|error| {
            Error::new(
                ErrorKind::Socket,
                format!("cannot receive on the UDP socket {}: {error}", self.socket.local_addr()),
            )
        })
    }

    /// Seals a burst into the link's buffer; `chunk_bytes` shows a range of a chunk.
    pub(crate) fn seal<'a>(
        &mut self,
        packets: &[PacketOut],
        chunk_bytes: impl Fn(ChunkId, Range<usize>) -> &'a [u8],
    ) -> Sealed {
        let mut end = 0;
        for packet in packets {
            let datagram = &mut self.out[end..end + packet.datagram_len()];
            let header_len = packet.header.encode(packet.number, datagram);
            let (header, sealed) = datagram.split_at_mut(header_len);
            let body_len = sealed.len() - AEAD_TAG_LEN;
            let body = match packet.body {
                Body::Chunk { chunk, offset, .. } => {
                    let offset = offset as usize;
                    chunk_bytes(chunk, offset..offset + body_len)
                }
                Body::Padding { .. } => &PADDING[..body_len],
            };
            self.sealer.seal(packet.number, header, body, sealed);
            end += packet.datagram_len();
        }
        Sealed { start: 0, end, segment_len: packets.first().map_or(1, PacketOut::datagram_len) }
    }

    /// Seals a packet whose body the caller has written.
    pub(crate) fn seal_body(&mut self, number: u64, header: Header, body: &[u8]) -> Sealed {
        let header_len = header.encode(number, &mut self.out);
        let end = header_len + body.len() + AEAD_TAG_LEN;
        let (header, sealed) = self.out[..end].split_at_mut(header_len);
        self.sealer.seal(number, header, body, sealed);
        Sealed { start: 0, end, segment_len: end }
    }

    /// Sends what is left of a burst; what the kernel did not take stays in `sealed`.
    pub(crate) fn send(&mut self, sealed: &mut Sealed, ecn: Ecn) -> std::result::Result<(), SendError> {
        let Some(peer) = self.hearing.peer else { return Ok(()) };
        if self.hearing.last_heard.is_none() && self.candidates.len() > 1 {
            self.greet(*sealed);
        }
        while !sealed.is_empty() {
            let burst = Burst {
                to: peer,
                data: &self.out[sealed.start..sealed.end],
                segment_len: sealed.segment_len,
                ecn,
            };
            let sent = self.socket.send(&burst)?;
            sealed.start = (sealed.start + sent * sealed.segment_len).min(sealed.end);
        }
        Ok(())
    }

    /// Until the peer is heard it may be at any of its addresses: the others get the first datagram of a burst.
    fn greet(&mut self, sealed: Sealed) {
        let end = sealed.end.min(sealed.start + GREETING_LEN * sealed.segment_len);
        for to in self.candidates.iter().filter(|to| Some(**to) != self.hearing.peer) {
            // A candidate that cannot be reached is what the others are for.
            let _ = self.socket.send(&Burst {
                to: *to,
                data: &self.out[sealed.start..end],
                segment_len: sealed.segment_len,
                ecn: Ecn::NotEct,
            });
        }
    }

    /// Waits for datagrams, the waker, room to send (if asked) or the time.
    pub(crate) fn wait(&self, timeout: Duration, interest: Interest) -> Result<()> {
        // A lane calls the waker; the socket's datagrams are its own.
        let interest = match (&self.intake, interest) {
            (Intake::Lane(_), Interest::Readable) => Interest::Waker,
            _ => interest,
        };
        wait(&self.socket, &self.waker, Some(timeout), interest).map(|_| ()).map_err(|error| {
            Error::new(ErrorKind::Socket, format!("cannot wait for the UDP socket: {error}"))
        })
    }
}

impl Hearing {
    /// Hands over a datagram that was taken from the socket at `now`, if it is the peer's and new.
    fn take(&mut self, now: Timestamp, datagram: Datagram<'_>, inbox: &mut impl Inbox) {
        let Ok((header, truncated)) = Header::decode(datagram.data) else {
            self.rejected += 1;
            return;
        };
        let number = decode_packet_number(truncated, self.largest.map_or(0, |n| n + 1));
        if !self.replay.check(number) {
            self.rejected += 1;
            return;
        }
        let len = datagram.data.len();
        let (clear, sealed) = datagram.data.split_at(header.len());
        let body_len = sealed.len().saturating_sub(AEAD_TAG_LEN).min(OUT_LEN);
        let place = match header {
            Header::Data(header) => inbox.vacancy(&header, body_len),
            Header::Probe | Header::Ack => None,
        };
        let in_place = place.is_some();
        let place = place.unwrap_or(&mut self.opened[..body_len]);
        if !self.opener.open(number, clear, sealed, place) {
            self.rejected += 1;
            return;
        }
        self.replay.insert(number);
        if self.largest.is_none_or(|largest| number > largest) {
            self.largest = Some(number);
            self.peer = Some(datagram.from);
        }
        self.last_heard = Some(now);
        let meta = PacketMeta {
            number,
            arrived: datagram.arrived_ns.map_or(now, |ns| self.clock.at(ns)),
            len: len as u16,
            ecn: match datagram.ecn {
                Ecn::Ce => EcnCodepoint::Ce,
                Ecn::Ect0 => EcnCodepoint::Ect0,
                Ecn::Ect1 | Ecn::NotEct => EcnCodepoint::NotEct,
            },
            socket: SocketNote {
                drops: self.counts_drops.then_some(datagram.drops),
                merged: datagram.merged,
            },
        };
        let body = match in_place {
            true => IncomingBody::InPlace(body_len),
            false => IncomingBody::Here(&self.opened[..body_len]),
        };
        inbox.take(now, Incoming { header, meta, body });
    }
}

impl Mendable for Link {
    fn buffer(&self) -> usize {
        self.socket.recv_buffer()
    }

    fn enlarge(&self, bytes: usize) -> io::Result<usize> {
        self.socket.set_recv_buffer(bytes)
    }

    fn add_lane(&mut self) -> io::Result<()> {
        if let Intake::Socket(_) = self.intake {
            let lane = Lane::start(self.socket.clone(), BATCH_SLOTS, self.clock, self.waker.clone())?;
            self.intake = Intake::Lane(lane);
        }
        Ok(())
    }
}
