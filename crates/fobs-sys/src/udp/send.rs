//! Sending bursts of datagrams.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::{fmt, io, ptr};

use libc::{iovec, mmsghdr, msghdr};
use rustix::io::Errno;

use super::Ecn;
use super::address::RawAddress;
use super::control::ControlBuffer;
use super::socket::{SEGMENTS_MAX, UdpSocket, is_transient, last_errno};

/// Maximum payload of one send, bytes: an IPv4 packet of 65,535 bytes less its headers (IPv6 allows 20 more).
const SEND_BYTES_MAX: usize = 65_507;
const SEND_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// One or more datagrams to one peer.
#[derive(Debug, Clone, Copy)]
pub struct Burst<'a> {
    /// Destination.
    pub to: SocketAddr,
    /// The datagrams, concatenated. An empty slice sends nothing.
    pub data: &'a [u8],
    /// Length of each datagram, bytes; only the last may be shorter.
    pub segment_len: usize,
    /// ECN mark of all datagrams.
    pub ecn: Ecn,
}

/// Why the kernel accepted no datagram of a burst.
#[derive(Debug)]
pub enum SendError {
    /// The send buffer is full; wait until the socket is writable.
    WouldBlock,
    /// The datagrams exceed UDP's maximum or the device's MTU (`EMSGSIZE`).
    TooLarge,
    /// This host's queue or memory is full (`ENOBUFS`, `ENOMEM`): the datagrams are dropped; send slower.
    NoBuffers,
    /// The peer is unreachable at present (`ENETUNREACH`, `EHOSTUNREACH`, `ECONNREFUSED` and similar).
    Refused,
    /// Any other error: misuse, a local firewall, a wrong address family.
    Io(io::Error),
}

impl UdpSocket {
    /// Sends a burst and returns the number of datagrams that the kernel accepted, from the front. If it is
    /// less than all, send the rest again; a lasting reason is an error of the next call. Never blocks.
    ///
    /// # Errors
    ///
    /// No datagram was accepted.
    pub fn send(&self, burst: &Burst<'_>) -> Result<usize, SendError> {
        if burst.segment_len == 0 {
            let message = "a burst of zero-length datagrams cannot be sent: give their length";
            return Err(SendError::Io(io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        let mut envelope = Envelope { to: RawAddress::new(burst.to), control: ControlBuffer::new() };
        if burst.ecn != Ecn::NotEct {
            let (level, kind) = match burst.to {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            envelope.control.push(level, kind, &i32::from(burst.ecn.to_bits()).to_ne_bytes());
        }
        let mut rest = burst.data;
        let mut accepted = 0;
        while !rest.is_empty() {
            match self.send_some(&envelope, rest, burst.segment_len) {
                Ok(count) => {
                    accepted += count;
                    rest = &rest[rest.len().min(count * burst.segment_len)..];
                }
                Err(_) if accepted > 0 => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(accepted)
    }

    /// Sends one or more datagrams from the front of `data` (not empty) with one system call, or returns the
    /// error.
    fn send_some(&self, envelope: &Envelope, data: &[u8], segment_len: usize) -> Result<usize, Errno> {
        let segments_max = self.segments_max().min(SEND_BYTES_MAX / segment_len);
        if segments_max <= 1 || data.len() <= segment_len {
            return self.again(|| self.send_each(envelope, data, segment_len));
        }
        let data = &data[..data.len().min(segments_max * segment_len)];
        match self.again(|| self.send_segmented(envelope, data, segment_len)) {
            Err(Errno::IO | Errno::INVAL | Errno::OPNOTSUPP) => {
                // Only datagrams that are accepted one by one but not together prove that GSO failed.
                let count = self.again(|| self.send_each(envelope, data, segment_len))?;
                self.disable_segmentation();
                Ok(count)
            }
            result => result,
        }
    }

    /// Calls `send`, and a second time after a transient error: a pending ICMP error for an earlier datagram
    /// is the result of the next call, which then does nothing else. A second error belongs to this datagram.
    fn again(&self, mut send: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
        match send() {
            Err(errno) if !matches!(errno, Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                let result = send();
                self.drain_error_queue();
                result
            }
            result => result,
        }
    }

    /// Sends `data` with one `sendmsg`, segmented by the kernel: all or nothing.
    fn send_segmented(&self, envelope: &Envelope, data: &[u8], segment_len: usize) -> Result<usize, Errno> {
        // At most half of SEND_BYTES_MAX, since there are at least two segments.
        let segment_size = u16::try_from(segment_len).map_err(|_| Errno::MSGSIZE)?;
        let mut envelope = *envelope;
        envelope.control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment_size.to_ne_bytes());
        let mut slice = to_iovec(data);
        let message = envelope.message(&mut slice);
        // SAFETY: address, control and data of `message` have the lengths given and live through the call,
        // which only reads them.
        let sent = unsafe { libc::sendmsg(self.as_fd().as_raw_fd(), &message, SEND_FLAGS) };
        if sent < 0 { Err(last_errno()) } else { Ok(data.len().div_ceil(segment_len)) }
    }

    /// Sends up to [`SEGMENTS_MAX`] datagrams from the front of `data` with one `sendmmsg`; returns how many
    /// were accepted.
    fn send_each(&self, envelope: &Envelope, data: &[u8], segment_len: usize) -> Result<usize, Errno> {
        let mut envelope = *envelope;
        let mut slices = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; SEGMENTS_MAX];
        // SAFETY: an mmsghdr is integers and pointers, for which all zeroes is a value.
        let mut messages: [mmsghdr; SEGMENTS_MAX] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        for ((datagram, slice), message) in data.chunks(segment_len).zip(&mut slices).zip(&mut messages) {
            *slice = to_iovec(datagram);
            message.msg_hdr = envelope.message(slice);
            count += 1;
        }
        // SAFETY: address, control and data of the first `count` messages have the lengths given and live
        // through the call, which reads them and writes only `msg_len` of each message.
        let sent = unsafe {
            libc::sendmmsg(self.as_fd().as_raw_fd(), messages.as_mut_ptr(), count, SEND_FLAGS as _)
        };
        // The kernel does not return 0 for a non-empty list; as an error it cannot make a caller spin.
        if sent > 0 {
            Ok(sent as usize)
        } else if sent == 0 {
            Err(Errno::AGAIN)
        } else {
            Err(last_errno())
        }
    }
}

/// Address and control messages, common to all datagrams of a burst.
#[derive(Clone, Copy)]
struct Envelope {
    to: RawAddress,
    control: ControlBuffer,
}

impl Envelope {
    /// A message with one slice. It points into `self` and `slice`; the kernel only reads them.
    fn message(&mut self, slice: &mut iovec) -> msghdr {
        // SAFETY: a msghdr is integers and pointers, for which all zeroes is a value.
        let mut message: msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = self.to.as_mut_ptr();
        message.msg_namelen = self.to.len();
        message.msg_iov = slice;
        message.msg_iovlen = 1;
        if self.control.len() > 0 {
            message.msg_control = self.control.as_mut_ptr();
            message.msg_controllen = self.control.len() as _;
        }
        message
    }
}

/// A slice for the kernel to read; the C type has no const.
fn to_iovec(data: &[u8]) -> iovec {
    iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() }
}

impl From<Errno> for SendError {
    fn from(errno: Errno) -> SendError {
        match errno {
            Errno::AGAIN | Errno::INTR => SendError::WouldBlock,
            Errno::MSGSIZE => SendError::TooLarge,
            Errno::NOBUFS | Errno::NOMEM => SendError::NoBuffers,
            errno if is_transient(errno) => SendError::Refused,
            errno => SendError::Io(errno.into()),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::WouldBlock => f.write_str("the UDP send buffer is full: wait until there is room"),
            SendError::TooLarge => {
                f.write_str("a datagram is larger than the outgoing device carries: send smaller packets")
            }
            SendError::NoBuffers => f.write_str("this host's network queue is full: send slower"),
            SendError::Refused => f.write_str("there is no way to the peer: check network and route"),
            SendError::Io(error) => {
                write!(f, "could not send on UDP: {error}; check this host's firewall and addresses")
            }
        }
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SendError::Io(error) => Some(error),
            _ => None,
        }
    }
}
