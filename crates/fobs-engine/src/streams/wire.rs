//! What carries a stream's records: a TCP connection or the control channel. It never blocks.

use super::door::StreamIo;
use super::record::{LENGTH_LEN, RecordBuffer, RecordOpener};
use fobs_channel::control::{ChannelLane, Sent};
use fobs_model::options::TcpTuning;
use fobs_sys::{TcpInfo, Waker, set_unsent_max, tcp_info};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that wait unsent in a connection at most: two records. More would only be late elsewhere: what waits
/// here no other stream can take.
const UNSENT_MAX: u32 = 128 << 10;
/// How long a peer may leave bytes unacknowledged before its connection counts as dead, ms: the frames on it
/// have long been sent by others, and a new connection is cheap.
const UNACKED_MAX_MS: u32 = 30_000;

/// Why a stream has ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer closed it, between two records or within one.
    Closed,
    /// The connection failed.
    Broken(String),
    /// A record came that the peer cannot have written there.
    Forged,
    /// The peer wrote what no peer of ours writes.
    Unexpected(&'static str),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Closed => f.write_str("the other side closed it"),
            End::Broken(why) => f.write_str(why),
            End::Forged => f.write_str("a record on it was not authentic"),
            End::Unexpected(what) => write!(f, "the other side sent {what}"),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Broken(error.to_string())
    }
}

/// A carrier with what waits before it.
pub(super) enum Wire {
    Tcp {
        socket: TcpStream,
        input: RecordBuffer,
        /// Sealed records, and how many bytes of them have been written.
        out: Vec<u8>,
        written: usize,
    },
    Channel {
        lane: ChannelLane,
        /// A record with its length, until the channel takes it.
        out: Vec<u8>,
    },
}

impl Wire {
    /// Takes over what the door has made. `waker` wakes the calling thread.
    pub(super) fn new(io: StreamIo, waker: &Waker, tuning: &TcpTuning) -> io::Result<Wire> {
        match io {
            StreamIo::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                socket.set_nodelay(true)?;
                super::tuning::apply(tuning, &socket)?;
                // Where the kernel has no such options, more is late and death is noticed later.
                let _ = set_unsent_max(&socket, UNSENT_MAX);
                let _ = rustix::net::sockopt::set_tcp_user_timeout(&socket, UNACKED_MAX_MS);
                Ok(Wire::Tcp { socket, input: RecordBuffer::default(), out: Vec::new(), written: 0 })
            }
            StreamIo::Channel(lane) => {
                lane.attach(waker.clone());
                Ok(Wire::Channel { lane, out: Vec::new() })
            }
        }
    }

    pub(super) fn is_channel(&self) -> bool {
        matches!(self, Wire::Channel { .. })
    }

    /// What to wait for readiness on.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Tcp { socket, .. } => socket.as_fd(),
            Wire::Channel { lane, .. } => lane.poll_fd(),
        }
    }

    /// Whether everything given has left this program, so that another record may be given.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Wire::Tcp { out, .. } => out.is_empty(),
            Wire::Channel { lane, out } => out.is_empty() && !lane.has_unsent(),
        }
    }

    /// Where the next record is appended, which [`flush`](Self::flush) then writes. Only while
    /// [`is_idle`](Self::is_idle).
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Wire::Tcp { out, .. } | Wire::Channel { out, .. } => out,
        }
    }

    /// Writes what is taken without blocking.
    pub(super) fn flush(&mut self) -> Result<(), End> {
        match self {
            Wire::Tcp { socket, out, written, .. } => {
                while *written < out.len() {
                    match socket.write(&out[*written..]) {
                        Ok(0) => return Err(End::Closed),
                        Ok(count) => *written += count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                out.clear();
                *written = 0;
                Ok(())
            }
            Wire::Channel { lane, out } => {
                if out.is_empty() {
                    return lane.drain().map_err(|error| End::Broken(error.message));
                }
                match lane.try_send(&out[LENGTH_LEN..]) {
                    Ok(Sent::Taken) => out.clear(),
                    Ok(Sent::Full) => {}
                    Err(error) => return Err(End::Broken(error.message)),
                }
                Ok(())
            }
        }
    }

    /// Opens at most `max` records that have come and hands each to `take`; false once there are no more for
    /// now.
    pub fn receive(
        &mut self,
        opener: &mut RecordOpener,
        max: usize,
        mut take: impl FnMut(Vec<u8>) -> Result<(), End>,
        mut buffer: impl FnMut() -> Vec<u8>,
    ) -> Result<bool, End> {
        for _ in 0..max {
            let plain = match self {
                Wire::Tcp { socket, input, .. } => {
                    let Some(sealed) = next_record(socket, input)? else { return Ok(false) };
                    opened(opener, sealed, buffer())?
                }
                Wire::Channel { lane, .. } => match lane.try_recv() {
                    Ok(Some(sealed)) => opened(opener, &sealed, buffer())?,
                    Ok(None) => return Ok(false),
                    Err(error) => return Err(End::Broken(error.message)),
                },
            };
            take(plain)?;
        }
        Ok(true)
    }

    /// What the kernel reports of the connection.
    pub(super) fn info(&self) -> Option<TcpInfo> {
        match self {
            Wire::Tcp { socket, .. } => tcp_info(socket).ok(),
            Wire::Channel { .. } => None,
        }
    }
}

fn opened(opener: &mut RecordOpener, sealed: &[u8], mut plain: Vec<u8>) -> Result<Vec<u8>, End> {
    if opener.open(sealed, &mut plain) { Ok(plain) } else { Err(End::Forged) }
}

/// The next record of a connection; reads until there is one, or nothing more.
fn next_record<'a>(socket: &mut TcpStream, input: &'a mut RecordBuffer) -> Result<Option<&'a [u8]>, End> {
    while !input.has_record().map_err(|_| End::Forged)? {
        match socket.read(input.space()) {
            Ok(0) => return Err(End::Closed),
            Ok(count) => input.filled(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    input.next().map_err(|_| End::Forged)
}
