//! Receiving batches of datagrams.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::{fmt, io, ptr};

use libc::{iovec, mmsghdr};
use rustix::io::Errno;

use super::Ecn;
use super::address::RawAddress;
use super::control::ControlBuffer;
use super::socket::{UdpSocket, is_transient, last_errno};
use crate::clock::{monotonic_ns, realtime_ns};

/// Size of a slot, bytes: no UDP payload is larger, merged or not.
const SLOT_LEN: usize = 64 << 10;
/// Slots of [`RecvBatch::default`]: 1 MiB. More than 16 x 64 KiB of merged datagrams rarely wait.
const SLOTS_DEFAULT: usize = 16;
/// Maximum number of slots. Their headers take 5 KiB of stack.
const SLOTS_MAX: usize = 64;
/// Attempts of one [`UdpSocket::recv`] when signals or ICMP errors come before data.
const ATTEMPTS_MAX: usize = 8;

/// A received datagram.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Sender's address.
    pub from: SocketAddr,
    /// The payload, mutable so that it can be decrypted in place.
    pub data: &'a mut [u8],
    /// ECN mark.
    pub ecn: Ecn,
    /// Arrival at this host, nanoseconds of [`monotonic_ns`]; `None` without a kernel timestamp. Merged
    /// datagrams share one timestamp.
    pub arrived_ns: Option<u64>,
    /// The socket's drop counter when this datagram was queued, modulo 2^32; merged datagrams count once
    /// (`SO_RXQ_OVFL`).
    pub drops: u32,
    /// Number of datagrams merged with this one as the first; 0 for the others.
    pub merged: u16,
}

/// Buffers for one [`UdpSocket::recv`]. Allocated once: receiving allocates and clears nothing.
pub struct RecvBatch {
    /// All slots, contiguous.
    buffer: Box<[u8]>,
    slot_len: usize,
    names: Box<[RawAddress]>,
    controls: Box<[ControlBuffer]>,
    /// Metadata of each slot; `None` if it is unusable. Only the first `filled` are valid.
    received: Box<[Option<Received>]>,
    filled: usize,
    drops: Option<u32>,
    truncated: u64,
}

/// Metadata of the payload in a slot.
#[derive(Debug, Clone, Copy)]
struct Received {
    len: usize,
    /// Length of each datagram but the last, bytes, at least 1.
    segment_len: usize,
    from: SocketAddr,
    ecn: Ecn,
    arrived_ns: Option<u64>,
    drops: u32,
}

impl Received {
    /// Number of datagrams.
    fn datagrams(&self) -> usize {
        self.len.div_ceil(self.segment_len).max(1)
    }
}

impl UdpSocket {
    /// Replaces the content of `batch` by waiting datagrams, as far as it has room, and returns their number.
    /// 0: none is waiting; pending ICMP errors do not count. Never blocks.
    pub fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        for _ in 0..ATTEMPTS_MAX {
            match batch.fill(self) {
                // None if all were truncated: try again.
                Ok(0) => {}
                Ok(datagrams) => return Ok(datagrams),
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(errno)
                    if is_transient(errno)
                        || matches!(errno, Errno::MSGSIZE | Errno::OPNOTSUPP | Errno::ACCESS) =>
                {
                    self.drain_error_queue();
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(0)
    }
}

impl RecvBatch {
    /// A batch of 1 to 64 slots (clamped) of 64 KiB, each for one datagram or, with GRO, up to 64 merged
    /// ones. The memory is accessed here, so that receiving causes no page faults.
    pub fn new(slots: usize) -> RecvBatch {
        RecvBatch::with_slot_len(slots, SLOT_LEN)
    }

    /// As [`new`](Self::new); tests use small slots to provoke truncation.
    pub(super) fn with_slot_len(slots: usize, slot_len: usize) -> RecvBatch {
        let slots = slots.clamp(1, SLOTS_MAX);
        RecvBatch {
            // Not zero: zeroed memory would be mapped on first access, at 10 us a page.
            buffer: vec![0xff; slots * slot_len].into_boxed_slice(),
            slot_len,
            names: vec![RawAddress::default(); slots].into_boxed_slice(),
            controls: vec![ControlBuffer::new(); slots].into_boxed_slice(),
            received: vec![None; slots].into_boxed_slice(),
            filled: 0,
            drops: None,
            truncated: 0,
        }
    }

    /// Datagrams of the last [`UdpSocket::recv`], in order of arrival.
    pub fn datagrams(&mut self) -> Datagrams<'_> {
        let slots = self.buffer.chunks_exact_mut(self.slot_len).zip(&self.received[..self.filled]);
        Datagrams { slots, current: None }
    }

    /// Calls `f` with each of [`datagrams`](Self::datagrams).
    pub fn for_each(&mut self, f: impl FnMut(Datagram<'_>)) {
        self.datagrams().for_each(f);
    }

    /// The socket's drop counter when the newest datagram was queued, modulo 2^32 (`SO_RXQ_OVFL`). `None`: no
    /// drop. [`UdpSocket::socket_drops`] includes later ones.
    pub fn drops(&self) -> Option<u32> {
        self.drops
    }

    /// Datagrams discarded since the batch was made because their payload, sender or size was incomplete.
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// One `recvmmsg`. Returns the number of datagrams; after an error the batch is empty.
    fn fill(&mut self, socket: &UdpSocket) -> Result<usize, Errno> {
        self.filled = 0;
        let mut slices = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; SLOTS_MAX];
        // SAFETY: an mmsghdr is integers and pointers, for which all zeroes is a value.
        let mut messages: [mmsghdr; SLOTS_MAX] = unsafe { std::mem::zeroed() };
        let slots = self.buffer.chunks_exact_mut(self.slot_len).zip(&mut self.names).zip(&mut self.controls);
        let mut slot_count = 0;
        for (((slot, name), control), (slice, message)) in slots.zip(slices.iter_mut().zip(&mut messages)) {
            *slice = iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            let header = &mut message.msg_hdr;
            header.msg_name = name.as_mut_ptr();
            header.msg_namelen = RawAddress::CAPACITY;
            header.msg_iov = slice;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr();
            header.msg_controllen = ControlBuffer::CAPACITY as _;
            slot_count += 1;
        }
        // SAFETY: name, control and data pointers of the first `slot_count` messages have the lengths given,
        // belong to `self` and `slices`, are not borrowed elsewhere and live through the call.
        let result = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                messages.as_mut_ptr(),
                slot_count,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let filled = usize::try_from(result).map_err(|_| last_errno())?;
        self.filled = filled.min(self.received.len());
        let stamps = StampConverter::new();
        let mut datagrams = 0;
        for (index, message) in messages[..self.filled].iter().enumerate() {
            let received = self.examine(index, message, &stamps);
            self.received[index] = received;
            match received {
                Some(received) => datagrams += received.datagrams(),
                None => self.truncated += 1,
            }
        }
        Ok(datagrams)
    }

    /// Reads the metadata of one slot; `None` if the payload cannot be used.
    fn examine(&mut self, index: usize, message: &mmsghdr, stamps: &StampConverter) -> Option<Received> {
        let header = &message.msg_hdr;
        let len = (message.msg_len as usize).min(self.slot_len);
        let (mut segment_len, mut ecn, mut arrived_ns) = (None, Ecn::NotEct, None);
        for message in self.controls[index].messages(header.msg_controllen as _) {
            match (message.level, message.kind) {
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    ecn = message.u8().map_or(ecn, Ecn::from_traffic_class);
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    ecn = message.i32().map_or(ecn, |class| Ecn::from_traffic_class((class & 0xff) as u8));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => segment_len = message.i32(),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.drops = message.u32().or(self.drops),
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    arrived_ns = message.timespec_ns().map(|stamp_ns| stamps.convert(stamp_ns));
                }
                _ => {}
            }
        }
        // Without its control messages a merged payload cannot be split.
        if header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return None;
        }
        let from = self.names[index].decode(header.msg_namelen)?;
        let segment_len = segment_len.and_then(|len| usize::try_from(len).ok()).unwrap_or(len).max(1);
        // The kernel attaches no counter before the first drop.
        let drops = self.drops.unwrap_or(0);
        Some(Received { len, segment_len, from, ecn, arrived_ns, drops })
    }
}

impl Default for RecvBatch {
    /// 16 slots: 1 MiB.
    fn default() -> RecvBatch {
        RecvBatch::new(SLOTS_DEFAULT)
    }
}

impl fmt::Debug for RecvBatch {
    /// Omits the payload.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBatch")
            .field("slots", &self.received.len())
            .field("filled", &self.filled)
            .field("drops", &self.drops)
            .field("truncated", &self.truncated)
            .finish_non_exhaustive()
    }
}

/// Iterates over the datagrams of a [`RecvBatch`].
pub struct Datagrams<'a> {
    slots: std::iter::Zip<std::slice::ChunksExactMut<'a, u8>, std::slice::Iter<'a, Option<Received>>>,
    /// Remainder of the current slot.
    current: Option<(&'a mut [u8], Received)>,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        let (rest, received, merged) = match self.current.take() {
            Some((rest, received)) => (rest, received, 0),
            // Unusable slots are skipped; an empty payload is one datagram.
            None => self.slots.find_map(|(slot, received)| {
                let received = (*received)?;
                Some((&mut slot[..received.len], received, received.datagrams() as u16))
            })?,
        };
        let (data, rest) = rest.split_at_mut(received.segment_len.min(rest.len()));
        if !rest.is_empty() {
            self.current = Some((rest, received));
        }
        let Received { from, ecn, arrived_ns, drops, .. } = received;
        Some(Datagram { from, data, ecn, arrived_ns, drops, merged })
    }
}

/// Converts kernel timestamps (realtime) to monotonic time, by the present difference of the two clocks.
struct StampConverter {
    now_ns: u64,
    realtime_ns: u64,
}

impl StampConverter {
    fn new() -> StampConverter {
        StampConverter { realtime_ns: realtime_ns(), now_ns: monotonic_ns() }
    }

    /// At most now: the realtime clock may have been set back in between.
    fn convert(&self, stamp_ns: u64) -> u64 {
        self.now_ns.saturating_sub(self.realtime_ns.saturating_sub(stamp_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_converted_by_the_clock_difference() {
        let stamps = StampConverter { now_ns: 1_000, realtime_ns: 50_000 };
        assert_eq!(stamps.convert(49_900), 900);
        assert_eq!(stamps.convert(50_000), 1_000);
        assert_eq!(stamps.convert(50_001), 1_000);
        assert_eq!(stamps.convert(0), 0);
    }
}
