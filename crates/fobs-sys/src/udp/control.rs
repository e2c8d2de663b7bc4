//! Control messages (`cmsg`), the metadata of a datagram, encoded and decoded without `unsafe`.
//!
//! Each has a header (length including the header: `usize`, level: `i32`, type: `i32`, all native) and data;
//! the next message begins at the next multiple of the size of a `usize`.

use std::ops::Range;

/// Size of the header, bytes.
const HEADER_LEN: usize = size_of::<usize>() + 8;
/// Buffer size, bytes: traffic class 24, arrival timestamp 32, drop counter 24, GRO size 24 (on 64 bits), and
/// as much again for additions of newer kernels.
const CAPACITY: usize = 208;

/// A buffer with control messages to send, or for received ones.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub(super) struct ControlBuffer {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl ControlBuffer {
    /// Bytes that the kernel may write at [`as_mut_ptr`](Self::as_mut_ptr).
    pub(super) const CAPACITY: usize = CAPACITY;

    /// An empty buffer.
    pub(super) fn new() -> ControlBuffer {
        ControlBuffer { bytes: [0; CAPACITY], len: 0 }
    }

    /// Appends a message. Ours are at most two, with at most 4 bytes of data each.
    pub(super) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let start = self.len;
        let end = start + HEADER_LEN + data.len();
        let message = &mut self.bytes[start..end];
        let (header, body) = message.split_at_mut(HEADER_LEN);
        header[..size_of::<usize>()].copy_from_slice(&(HEADER_LEN + data.len()).to_ne_bytes());
        header[size_of::<usize>()..][..4].copy_from_slice(&level.to_ne_bytes());
        header[size_of::<usize>() + 4..].copy_from_slice(&kind.to_ne_bytes());
        body.copy_from_slice(data);
        self.len = end.next_multiple_of(size_of::<usize>()).min(CAPACITY);
    }

    /// Length of the messages pushed, bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Pointer for the kernel, which reads [`len`](Self::len) or writes [`CAPACITY`](Self::CAPACITY) bytes.
    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// The messages in the first `len` bytes, which the kernel wrote.
    pub(super) fn messages(&self, len: usize) -> Messages<'_> {
        Messages { rest: &self.bytes[..len.min(CAPACITY)] }
    }
}

/// One control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    /// `SOL_SOCKET`, `IPPROTO_IP`, ...
    pub(super) level: i32,
    /// `cmsg_type`.
    pub(super) kind: i32,
    data: &'a [u8],
}

impl Message<'_> {
    /// The first data byte.
    pub(super) fn u8(&self) -> Option<u8> {
        self.data.first().copied()
    }

    /// The data as one native `i32`.
    pub(super) fn i32(&self) -> Option<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    /// The data as one native `u32`.
    pub(super) fn u32(&self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// The data as a `timespec` of two native words, in nanoseconds.
    pub(super) fn timespec_ns(&self) -> Option<u64> {
        const WORD: usize = size_of::<libc::c_long>();
        let word = |range: Range<usize>| {
            let bytes = self.data.get(range)?.try_into().ok()?;
            u64::try_from(libc::c_long::from_ne_bytes(bytes)).ok()
        };
        word(0..WORD)?.checked_mul(1_000_000_000)?.checked_add(word(WORD..2 * WORD)?)
    }

    fn array<const N: usize>(&self) -> Option<[u8; N]> {
        self.data.first_chunk::<N>().copied()
    }
}

/// Iterates over control messages; ends at the first one that exceeds the buffer.
#[derive(Debug)]
pub(super) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let (len, fields) = self.rest.split_first_chunk::<{ size_of::<usize>() }>()?;
        let (level, fields) = fields.split_first_chunk::<4>()?;
        let (kind, _) = fields.split_first_chunk::<4>()?;
        let len = usize::from_ne_bytes(*len);
        let data = self.rest.get(HEADER_LEN..len)?;
        let next = len.checked_next_multiple_of(size_of::<usize>())?;
        self.rest = self.rest.get(next..).unwrap_or(&[]);
        Some(Message { level: i32::from_ne_bytes(*level), kind: i32::from_ne_bytes(*kind), data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_messages_are_read_back() {
        let mut buffer = ControlBuffer::new();
        buffer.push(1, 2, &7i32.to_ne_bytes());
        buffer.push(3, 4, &9u16.to_ne_bytes());
        buffer.push(-5, 6, &[]);
        let messages: Vec<Message<'_>> = buffer.messages(buffer.len()).collect();
        assert_eq!(messages.len(), 3);
        assert_eq!((messages[0].level, messages[0].kind, messages[0].i32()), (1, 2, Some(7)));
        assert_eq!((messages[1].level, messages[1].kind, messages[1].i32()), (3, 4, None));
        assert_eq!(messages[1].data, 9u16.to_ne_bytes());
        assert_eq!((messages[2].level, messages[2].kind, messages[2].u8()), (-5, 6, None));
    }

    #[test]
    fn headers_agree_with_the_c_struct() {
        assert_eq!(size_of::<libc::cmsghdr>(), HEADER_LEN);
        assert_eq!(std::mem::offset_of!(libc::cmsghdr, cmsg_level), size_of::<usize>());
        assert_eq!(std::mem::offset_of!(libc::cmsghdr, cmsg_type), size_of::<usize>() + 4);
        assert!(align_of::<ControlBuffer>() >= align_of::<libc::cmsghdr>());
    }

    #[test]
    fn stamps_become_nanoseconds() {
        let stamp = |seconds: libc::c_long, nanoseconds: libc::c_long| {
            let data = [seconds.to_ne_bytes(), nanoseconds.to_ne_bytes()].concat();
            Message { level: 0, kind: 0, data: &data }.timespec_ns()
        };
        assert_eq!(stamp(3, 7), Some(3_000_000_007));
        assert_eq!(stamp(-1, 0), None);
        assert_eq!(stamp(libc::c_long::MAX, 0), None);
        assert_eq!(Message { level: 0, kind: 0, data: &[0; 9] }.timespec_ns(), None);
    }

    /// Any bytes: the iteration ends, stays inside the buffer and does not panic.
    #[test]
    fn any_bytes_are_safe() {
        const SEED: u64 = 0x5eed_0001;
        let mut state = SEED;
        for round in 0..20_000 {
            let mut buffer = ControlBuffer::new();
            for byte in &mut buffer.bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Mostly small numbers, so that many lengths are plausible.
                *byte = if state >> 60 < 12 { 0 } else { (state >> 40) as u8 & 0x3f };
            }
            for len in [0, 7, 8, 15, 16, 17, 100, CAPACITY, CAPACITY + 1, usize::MAX] {
                let mut data_len = 0;
                for message in buffer.messages(len) {
                    data_len += message.data.len() + HEADER_LEN;
                    let _ = (message.u8(), message.i32(), message.u32(), message.timespec_ns());
                }
                assert!(data_len <= len.min(CAPACITY), "seed {SEED:#x}, round {round}, {len} bytes");
            }
        }
        for len in [0, 1, 15, usize::MAX, usize::MAX - 3] {
            let mut buffer = ControlBuffer::new();
            buffer.bytes[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(buffer.messages(CAPACITY).count(), 0, "a message of {len} bytes");
        }
    }
}
