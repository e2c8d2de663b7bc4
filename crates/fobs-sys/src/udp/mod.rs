//! UDP as fast as the Linux kernel does it, and honest about what it dropped.
//!
//! A [`UdpSocket`] stays unconnected. [`UdpSocket::send`] puts out a [`Burst`] of datagrams, many with one
//! system call and one walk through the kernel where it can cut them itself (GSO, `UDP_SEGMENT`).
//! [`UdpSocket::recv`] fills a [`RecvBatch`] (`recvmmsg`), whose datagrams it may have merged (GRO). Neither
//! blocks nor allocates; to sleep there is [`wait`](crate::wait::wait()). Every datagram the kernel refuses
//! to send is an error of `send`; every one it drops at the receiving socket is in
//! [`UdpSocket::socket_drops`].

mod address;
mod control;
mod recv;
mod send;
mod socket;
#[cfg(test)]
mod tests;

pub use recv::{Datagram, Datagrams, RecvBatch};
pub use send::{Burst, SendError};
pub use socket::{UdpOptions, UdpSocket};

/// Explicit congestion notification: the last two bits of the IP header's traffic class (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ecn {
    /// The sender does not take marks.
    #[default]
    NotEct,
    /// ECN-capable, codepoint 1 (L4S, RFC 9331).
    Ect1,
    /// ECN-capable, codepoint 0 (the classic one).
    Ect0,
    /// Congestion experienced: marked by a router.
    Ce,
}

impl Ecn {
    /// The two bits.
    fn to_bits(self) -> u8 {
        match self {
            Ecn::NotEct => 0b00,
            Ecn::Ect1 => 0b01,
            Ecn::Ect0 => 0b10,
            Ecn::Ce => 0b11,
        }
    }

    /// From a whole traffic class byte.
    fn from_traffic_class(class: u8) -> Ecn {
        match class & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}
