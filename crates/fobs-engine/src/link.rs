//! One side's end of the data plane: a socket, the keys of both directions, and the peer's address.

mod named;
mod peer;

pub use peer::PathValidation;
pub(super) use peer::{PATH_DATAGRAM_LEN, PathPacket};

use self::peer::PeerAddress;
use super::Clock;
use super::lane::Lane;
use super::remedy::Mendable;
use fobs_channel::secure::datagram::{Direction, Opener, Sealer};
use fobs_channel::secure::random_bytes;
use fobs_channel::secure::replay::ReplayWindow;
use fobs_channel::secure::schedule::DatagramKeys;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_proto::receiver::{EcnCodepoint, PacketMeta, SocketNote};
use fobs_proto::sender::{BURST_BYTES_MAX, BURST_MAX, Body, PacketOut};
use fobs_proto::session::Side;
use fobs_proto::wire::{AEAD_TAG_LEN, DataHeader, Header, decode_packet_number};
use fobs_proto::{ChunkId, Timestamp};
use fobs_sys::{Burst, Datagram, Ecn, Interest, RecvBatch, SendError, UdpSocket, Waker, wait};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Room for one burst, bytes.
const OUT_LEN: usize = BURST_BYTES_MAX as usize;
/// Slots of a receive batch. With GRO each may hold a burst of the sender; eight of 44 packets are 0.8 ms at
/// 5 Gbit/s, which is as long as acks should wait for each other.
const BATCH_SLOTS: usize = 8;
/// Datagrams taken from a lane at once: as many.
const LANE_BATCH: usize = BATCH_SLOTS * BURST_MAX as usize;
/// Addresses at which the peer is tried.
const CANDIDATES_MAX: usize = 4;
/// Parts of a link.
pub struct LinkSetup {
    /// Bound, not connected.
    pub socket: UdpSocket,
    /// Ends the sleep of the thread that has the link.
    pub waker: Waker,
    /// The time of the session.
    pub clock: Clock,
    /// Keys of both directions.
    pub keys: DatagramKeys,
    /// The direction of this side's packets.
    pub direction: Direction,
    /// Which side this is: a client may know no address of its server.
    pub side: Side,
    /// Addresses that the peer may have; empty if it sends first.
    pub candidates: Vec<SocketAddr>,
    /// Others that it may have because it says so: until it is heard they get a few bytes, no more.
    pub named: Vec<SocketAddr>,
    /// How another address of the peer is treated.
    pub validation: PathValidation,
}

/// An authenticated packet.
pub struct Incoming<'a> {
    /// Its header.
    pub header: Header,
    pub(crate) meta: PacketMeta,
    pub(crate) body: IncomingBody<'a>,
}

/// Where the decrypted body of a packet is.
#[derive(Clone, Copy)]
pub(crate) enum IncomingBody<'a> {
    /// In the place that [`Inbox::vacancy`] gave; its length, bytes.
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

/// Takes the packets that a link receives. A closure is one without places of its own.
pub trait Inbox {
    /// The place for the `len` bytes that a data packet claims to carry, to decrypt straight into: its
    /// content means nothing until the packet is taken, and a forgery never is. `None` for a buffer of the
    /// link's.
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
pub struct Sealed {
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
pub struct Link {
    socket: Arc<UdpSocket>,
    waker: Waker,
    clock: Clock,
    pub(crate) side: Side,
    sealer: Sealer,
    /// Addresses that the peer merely names, and the bytes that went there.
    named: Vec<SocketAddr>,
    named_bytes: usize,
    inbound: Inbound,
    intake: DatagramSource,
    out: Box<[u8]>,
    /// Body of a probe: what it asks for, and zeros.
    probe: Box<[u8]>,
}

/// How datagrams are read.
enum DatagramSource {
    /// By this thread, from the socket.
    Socket(RecvBatch),
    /// By another thread.
    Lane(Lane),
}

/// Tells the peer's datagrams from all others, and knows its address.
struct Inbound {
    clock: Clock,
    opener: Opener,
    replay: ReplayWindow,
    largest: Option<u64>,
    /// Whether the kernel counts the socket's drops.
    counts_drops: bool,
    peer: PeerAddress,
    last_heard: Option<Timestamp>,
    /// Bodies that have no place of their own.
    opened: Box<[u8]>,
    rejected: u64,
}

impl Link {
    /// A link over this socket.
    pub fn new(setup: LinkSetup) -> Link {
        let (sealer, opener) = setup.keys.of_end(setup.direction);
        let mut candidates = setup.candidates;
        candidates.truncate(CANDIDATES_MAX);
        let mut named = setup.named;
        named.truncate(CANDIDATES_MAX - candidates.len());
        candidates.extend(&named);
        let inbound = Inbound {
            clock: setup.clock,
            opener,
            replay: ReplayWindow::new(),
            largest: None,
            counts_drops: setup.socket.counts_drops(),
            peer: PeerAddress::new(setup.validation, candidates, random_bytes),
            last_heard: None,
            opened: vec![0; OUT_LEN].into_boxed_slice(),
            rejected: 0,
        };
        Link {
            socket: Arc::new(setup.socket),
            waker: setup.waker,
            clock: setup.clock,
            side: setup.side,
            sealer,
            named,
            named_bytes: 0,
            inbound,
            intake: DatagramSource::Socket(RecvBatch::new(BATCH_SLOTS)),
            out: vec![0; OUT_LEN].into_boxed_slice(),
            probe: vec![0; OUT_LEN].into_boxed_slice(),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// When the peer's newest datagram came; `None` before the first.
    pub(crate) fn last_heard(&self) -> Option<Timestamp> {
        self.inbound.last_heard
    }

    /// The address to send to, where it is known.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.inbound.peer.current()
    }

    /// Whether the address is known.
    pub(crate) fn has_peer(&self) -> bool {
        self.peer().is_some()
    }

    /// Datagrams dropped because they were malformed, replayed or forged.
    pub fn rejected(&self) -> u64 {
        self.inbound.rejected
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

    /// Reads a batch: hands over every authenticated packet, and returns the number of datagrams.
    pub fn receive(&mut self, inbox: &mut impl Inbox) -> Result<usize> {
        let Link { socket, clock, inbound, intake, .. } = self;
        let count = match intake {
            DatagramSource::Socket(batch) => socket.recv(batch).inspect(|&count| {
                if count > 0 {
                    let now = clock.now();
                    batch.for_each(|datagram| inbound.take(now, datagram, inbox));
                }
            }),
            // The time of reading shows how late this host reads.
            DatagramSource::Lane(lane) => {
                lane.receive(LANE_BATCH, |read, datagram| inbound.take(read, datagram, inbox))
            }
        };
        let count = count.map_err(|error| {
            Error::new(
                ErrorKind::Socket,
                format!("cannot receive on the UDP socket {}: {error}", self.socket.local_addr()),
            )
        })?;
        match self.inbound.opener.spent() {
            None => Ok(count),
            Some(spent) => Err(too_many_forgeries(spent, self.socket.local_addr())),
        }
    }

    /// Seals a burst into the link's buffer; `chunk_bytes` gives a range of a chunk. `None` if a packet is of
    /// a chunk without such a range, or if the burst is too long.
    pub(crate) fn seal<'a>(
        &mut self,
        packets: &[PacketOut],
        chunk_bytes: impl Fn(ChunkId, Range<usize>) -> Option<&'a [u8]>,
    ) -> Option<Sealed> {
        let mut end = 0;
        for packet in packets {
            let datagram = self.out.get_mut(end..end + packet.datagram_len())?;
            let header_len = packet.header.encode(packet.number, datagram);
            let (header, sealed) = datagram.split_at_mut(header_len);
            let body_len = sealed.len() - AEAD_TAG_LEN;
            let body = match packet.body {
                Body::Chunk { chunk, offset, .. } => {
                    let offset = offset as usize;
                    chunk_bytes(chunk, offset..offset + body_len)?
                }
                Body::Probe { ack_ratio, .. } => {
                    self.probe[0] = ack_ratio.exponent();
                    &self.probe[..body_len]
                }
            };
            self.sealer.seal(packet.number, header, body, sealed);
            end += packet.datagram_len();
        }
        Some(Sealed { start: 0, end, segment_len: packets.first().map_or(1, PacketOut::datagram_len) })
    }

    /// Seals a packet with this body.
    pub fn seal_body(&mut self, number: u64, header: Header, body: &[u8]) -> Sealed {
        let header_len = header.encode(number, &mut self.out);
        let end = header_len + body.len() + AEAD_TAG_LEN;
        let (header, sealed) = self.out[..end].split_at_mut(header_len);
        self.sealer.seal(number, header, body, sealed);
        Sealed { start: 0, end, segment_len: end }
    }

    /// Sends the rest of a burst; what the kernel did not take stays in `sealed`.
    pub fn send(&mut self, sealed: &mut Sealed, ecn: Ecn) -> std::result::Result<(), SendError> {
        let Some(peer) = self.peer() else { return Ok(()) };
        self.greet(*sealed);
        if self.is_merely_named(peer) {
            // The others of a burst, and what is beyond the bound, are as if they were lost on the way.
            sealed.end = sealed.end.min(sealed.start + sealed.segment_len);
            if !self.may_send(peer, sealed.end - sealed.start) {
                sealed.start = sealed.end;
            }
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

    /// How often the peer's traffic has moved to another address since its first datagram.
    pub(super) fn moves(&self) -> u64 {
        self.inbound.peer.moves()
    }

    /// A datagram of the peer is wanted soon, to see that the path works.
    pub(super) fn check_path(&mut self, now: Timestamp) {
        self.inbound.peer.check_path(now);
    }

    /// A challenge or a response that is to be sent now, with [`send_path_packet`](Self::send_path_packet).
    pub(super) fn poll_path_packet(&mut self, now: Timestamp) -> Option<PathPacket> {
        self.inbound.peer.poll_packet(now)
    }

    /// Sends a challenge or a response. One that does not leave is one that is lost.
    pub(super) fn send_path_packet(&mut self, number: u64, packet: &PathPacket) {
        // Not the link's buffer: a sealed burst may wait there.
        let mut datagram = [0; PATH_DATAGRAM_LEN];
        let header_len = packet.header.encode(number, &mut datagram);
        let (header, sealed) = datagram.split_at_mut(header_len);
        self.sealer.seal(number, header, &packet.body, sealed);
        let burst =
            Burst { to: packet.to, data: &datagram, segment_len: PATH_DATAGRAM_LEN, ecn: Ecn::NotEct };
        // A challenge or answer that is lost is sent again.
        let _ = self.socket.send(&burst);
    }

    /// Waits for datagrams, the waker, room to send (if `interest` has that) or the timeout.
    pub fn wait(&self, timeout: Duration, interest: Interest) -> Result<()> {
        // The lane reads the socket and wakes this thread.
        let interest = match (&self.intake, interest) {
            (DatagramSource::Lane(_), Interest::Readable) => Interest::Waker,
            _ => interest,
        };
        wait(&self.socket, &self.waker, Some(timeout), interest).map(|_| ()).map_err(|error| {
            Error::new(ErrorKind::Socket, format!("cannot wait for the UDP socket: {error}"))
        })
    }
}

/// A new connection has new keys, so it mends this.
fn too_many_forgeries(spent: u64, at: SocketAddr) -> Error {
    let message = format!(
        "{spent} packets with the numbers of this session came at UDP {at} and were not the peer's, as many as its keys \
         may refuse (RFC 9001 section 6.6); run the command again for new keys, and have the network stop the forgeries"
    );
    Error::new(ErrorKind::Connect, message)
}

impl Inbound {
    /// Hands over a datagram that was read from the socket at `now`, if it is the peer's and new.
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
            Header::Probe | Header::Ack | Header::Challenge | Header::Response => None,
        };
        let in_place = place.is_some();
        let place = place.unwrap_or(&mut self.opened[..body_len]);
        if !self.opener.open(number, clear, sealed, place) {
            self.rejected += 1;
            return;
        }
        self.replay.insert(number);
        let newest = self.largest.is_none_or(|largest| number > largest);
        if newest {
            self.largest = Some(number);
        }
        self.peer.handle_datagram(now, datagram.from, len, newest);
        match header {
            Header::Challenge => self.peer.handle_challenge(&self.opened[..body_len]),
            Header::Response => self.peer.handle_response(datagram.from, &self.opened[..body_len]),
            Header::Data(_) | Header::Ack | Header::Probe => {}
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
        let body = if in_place {
            IncomingBody::InPlace(body_len)
        } else {
            IncomingBody::Here(&self.opened[..body_len])
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
        if let DatagramSource::Socket(_) = self.intake {
            let lane = Lane::start(self.socket.clone(), BATCH_SLOTS, self.clock, self.waker.clone())?;
            self.intake = DatagramSource::Lane(lane);
        }
        Ok(())
    }
}
