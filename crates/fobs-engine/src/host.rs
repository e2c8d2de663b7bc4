//! Packets that the receiving host drops before its sockets: read while packets are missing, reported with
//! the samples, and used as evidence only.
//!
//! The counters are of all packets of the host, so no loss is attributed by them: they may count other flows'
//! packets, and a full ring or backlog is a shared queue, as any on the path, to which the sender should back
//! off. But while they rise, losses that the socket's counter does not cover are not surely the network's
//! either.

use fobs_sys::confine::{Errand, outside};
use fobs_sys::{HostDropMeter, HostDrops};
use std::net::SocketAddr;

/// Reads the counters while packets are missing.
#[derive(Debug, Default)]
pub(super) struct HostWatch {
    meter: Option<HostDropMeter>,
    begun: bool,
    missing: u64,
    seen: HostDrops,
}

impl HostWatch {
    /// A heartbeat has passed; `missing` packets are missing by now. Counting begins as soon as the peer is
    /// known.
    pub(super) fn on_heartbeat(&mut self, peer: Option<SocketAddr>, missing: u64) {
        if !self.begun {
            let Some(peer) = peer else { return };
            self.begun = true;
            self.meter = outside(Errand::Counters, move || HostDropMeter::towards(peer));
        }
        if missing > self.missing
            && let Some(meter) = self.meter.clone()
            && let Some(drops) = outside(Errand::Counters, move || meter.read())
        {
            self.seen = drops;
        }
        self.missing = missing;
    }

    /// Packets dropped, as of the last reading.
    pub(super) fn drops(&self) -> HostDrops {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_only_while_packets_of_a_known_peer_are_missing() {
        let mut watch = HostWatch::default();
        watch.on_heartbeat(None, 5);
        assert!(!watch.begun);
        let peer = "127.0.0.1:9".parse().ok();
        watch.on_heartbeat(peer, 5);
        assert!(watch.begun && watch.meter.is_some());
        watch.seen = HostDrops { interface: 7, backlog: 3 };
        watch.on_heartbeat(peer, 5);
        assert_eq!(watch.drops(), HostDrops { interface: 7, backlog: 3 }, "nothing new is missing");
        watch.on_heartbeat(peer, 6);
        assert_eq!(watch.drops().interface, 0, "loopback drops nothing");
    }
}
