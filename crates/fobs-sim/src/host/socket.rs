//! A socket's receive buffer: bounded by what the kernel charges for each datagram, and dropping what does
//! not fit.

use crate::time::Nanos;
use std::collections::VecDeque;

/// What the kernel charges for a datagram beside its bytes: 2304 bytes for 1472 (measured).
const CHARGE: u64 = 832;

/// Datagrams that wait for their thread.
#[derive(Debug)]
pub(crate) struct Socket<T> {
    waiting: VecDeque<(Nanos, u32, T)>,
    charged: u64,
    buffer: u64,
    drops: u64,
}

impl<T> Socket<T> {
    /// A socket with a receive buffer of `buffer` bytes, as the kernel charges them.
    pub(crate) fn new(buffer: u64) -> Socket<T> {
        Socket { waiting: VecDeque::new(), charged: 0, buffer, drops: 0 }
    }

    /// A datagram of `len` bytes arrives; false if there is no room for it.
    pub(crate) fn push(&mut self, at: Nanos, len: u32, datagram: T) -> bool {
        let charge = u64::from(len) + CHARGE;
        // As the kernel: what is there must be below the limit, the newcomer may exceed it.
        if self.charged >= self.buffer {
            self.drops += 1;
            return false;
        }
        self.charged += charge;
        self.waiting.push_back((at, len, datagram));
        true
    }

    /// The oldest datagram, and when it arrived.
    pub(crate) fn pop(&mut self) -> Option<(Nanos, u32, T)> {
        let (at, len, datagram) = self.waiting.pop_front()?;
        self.charged -= u64::from(len) + CHARGE;
        Some((at, len, datagram))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Datagrams dropped so far.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }

    /// Whether the buffer holds no more than it may: its limit and one datagram.
    pub(crate) fn is_within_bounds(&self) -> bool {
        self.charged <= self.buffer + u64::from(u16::MAX) + CHARGE
    }

    /// Everything is forgotten: the process is gone.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.charged = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_8_mib_holds_3641_full_datagrams() {
        let mut socket = Socket::new(8 << 20);
        let held = (0..5000).filter(|i| socket.push(*i, 1472, ())).count();
        assert_eq!(held, 3641);
        assert_eq!(socket.drops(), 5000 - 3641);
        assert!(socket.is_within_bounds());
        assert_eq!(socket.pop(), Some((0, 1472, ())));
        assert!(socket.push(1, 1472, ()));
        socket.clear();
        assert!(socket.is_empty() && socket.pop().is_none());
    }
}
