//! UDP sockets with the kernel's batching and complete drop counters.
//!
//! A [`UdpSocket`] is unconnected. [`UdpSocket::send`] sends a [`Burst`] of datagrams, with one system call
//! where the kernel can segment it (GSO, `UDP_SEGMENT`). [`UdpSocket::recv`] fills a [`RecvBatch`]
//! (`recvmmsg`) with datagrams, which the kernel may have merged (GRO). Neither blocks nor allocates;
//! [`wait`](crate::wait::wait()) sleeps. Datagrams that the kernel refuses to send are an error of `send`;
//! datagrams dropped at the receiving socket are counted by [`UdpSocket::socket_drops`].

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

/// Explicit congestion notification: the last two bits of the traffic class of the IP header (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable, codepoint 1 (L4S, RFC 9331).
    Ect1,
    /// ECN-capable, codepoint 0 (classic ECN).
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

    /// The mark in a traffic class byte.
    fn from_traffic_class(class: u8) -> Ecn {
        match class & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}
