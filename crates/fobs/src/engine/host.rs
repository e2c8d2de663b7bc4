//! What the receiving host drops before its sockets: read while packets are missing, told with the samples, and evidence only.
//!
//! The counters are of all packets of the host, so they are no part of the ledger: what they count may be others', and a
//! full ring or backlog is a queue that others share, as any on the path, which the sender does well to give way to. But
//! where they rise, a window that the socket's counter has no part in is not surely the network's either.

use fobs_sys::{HostDropMeter, HostDrops};
use std::net::SocketAddr;

/// Looks while something is missing.
#[derive(Debug, Default)]
pub(super) struct HostWatch {
    meter: Option<HostDropMeter>,
    begun: bool,
    missing: u64,
    seen: HostDrops,
}

impl HostWatch {
    /// A heartbeat has passed; so many packets are missing by now. Begins to count where the peer is known first.
    pub(super) fn on_heartbeat(&mut self, peer: Option<SocketAddr>, missing: u64) {
        if !self.begun {
            let Some(peer) = peer else { return };
            self.begun = true;
            self.meter = HostDropMeter::towards(peer);
        }
        if missing > self.missing
            && let Some(drops) = self.meter.as_ref().and_then(HostDropMeter::read)
        {
            self.seen = drops;
        }
        self.missing = missing;
    }

    /// What was dropped, as of the last look.
    pub(super) fn drops(&self) -> HostDrops {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_the_peer_and_looks_only_while_something_is_missing() {
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
