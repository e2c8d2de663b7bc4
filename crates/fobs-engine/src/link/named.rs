//! Before the peer is heard: it may have any of its addresses, and those that it only names get few bytes.

use super::{Link, Sealed};
use fobs_sys::{Burst, Ecn};
use std::net::SocketAddr;

/// Bytes to all addresses that a peer merely names, until it is heard: a dozen datagrams, so that the loss of
/// one does not decide.
const NAMED_BYTES_MAX: usize = 16 << 10;
/// Datagrams of a burst that also go to the other candidates until the peer's first datagram has come.
const GREETING_LEN: usize = 1;

impl Link {
    /// Until its first datagram the peer may have any of its addresses: the others get the first datagram of
    /// a burst.
    pub(super) fn greet(&mut self, sealed: Sealed) {
        let end = sealed.end.min(sealed.start + GREETING_LEN * sealed.segment_len);
        let others: Vec<SocketAddr> = self.inbound.peer.others().collect();
        for to in others {
            if !self.may_send(to, end - sealed.start) {
                continue;
            }
            // If one candidate cannot be reached, another one can.
            let _ = self.socket.send(&Burst {
                to,
                data: &self.out[sealed.start..end],
                segment_len: sealed.segment_len,
                ecn: Ecn::NotEct,
            });
        }
    }

    /// Whether the peer's address is only named so far: most of what is sent before it is heard is dropped
    /// here.
    pub(crate) fn is_to_greet(&self) -> bool {
        self.peer().is_some_and(|peer| self.is_merely_named(peer))
    }

    pub(super) fn is_merely_named(&self, to: SocketAddr) -> bool {
        !self.inbound.peer.is_heard() && self.named.contains(&to)
    }

    /// Whether `bytes` may go to `to`: any number to the host that was reached or has been heard.
    pub(super) fn may_send(&mut self, to: SocketAddr, bytes: usize) -> bool {
        if !self.is_merely_named(to) {
            return true;
        }
        let within = self.named_bytes + bytes <= NAMED_BYTES_MAX;
        self.named_bytes += if within { bytes } else { 0 };
        within
    }
}
