//! A middlebox: treats UDP otherwise than TCP, and closes TCP ports, as firewalls and traffic shapers do.

use super::clock::Nanos;
use super::counters::Protocol;
use super::outage::Outages;
use super::queue::TokenBucket;
use super::spec::Middlebox as Spec;

/// What stands between a UDP or TCP packet and the path; every other packet passes.
#[derive(Debug, Clone)]
pub struct Middlebox {
    outages: Outages,
    policer: Option<TokenBucket>,
    largest: u32,
    tcp_port: Option<u16>,
}

impl Middlebox {
    /// `tcp_port`: the only one that is open, if one is named. `origin` is the time that outages count from.
    pub fn new(spec: &Spec, tcp_port: Option<u16>, origin: Nanos) -> Middlebox {
        Middlebox {
            outages: Outages::new(spec.outages.clone(), origin),
            policer: spec.policer.map(|policer| TokenBucket::new(policer, origin)),
            largest: spec.largest.unwrap_or(u32::MAX),
            tcp_port,
        }
    }

    /// Whether it lets the packet pass, whose IP length is `bytes`.
    pub fn passes(&mut self, now: Nanos, protocol: Protocol, ports: Option<(u16, u16)>, bytes: u32) -> bool {
        match (protocol, self.tcp_port) {
            (Protocol::Udp, _) => {}
            (Protocol::Tcp, Some(open)) => return ports.is_some_and(|(from, to)| from == open || to == open),
            _ => return true,
        }
        let admitted = bytes <= self.largest && !self.outages.drops(now);
        admitted && self.policer.as_mut().is_none_or(|policer| policer.passes(now, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn middlebox(json: &str) -> Middlebox {
        Middlebox::new(&serde_json::from_str(json).expect("a middlebox"), None, 10 * SECOND)
    }

    #[test]
    fn only_udp_is_blocked() {
        let mut firewall = middlebox(r#"{"outages":[{"at":"1s","for":"2s"}]}"#);
        let mut passes = |protocol, s: u64| firewall.passes(s * SECOND, protocol, None, 100);
        assert!(passes(Protocol::Udp, 10) && !passes(Protocol::Udp, 11) && !passes(Protocol::Udp, 12));
        assert!(passes(Protocol::Udp, 13) && passes(Protocol::Tcp, 12) && passes(Protocol::Icmp, 12));
    }

    #[test]
    fn only_large_udp_packets_are_dropped() {
        let mut firewall = middlebox(r#"{"largest":1280}"#);
        let mut passes = |protocol, bytes| firewall.passes(0, protocol, None, bytes);
        assert!(passes(Protocol::Udp, 1280) && !passes(Protocol::Udp, 1281) && passes(Protocol::Tcp, 1500));
    }

    #[test]
    fn only_udp_is_held_to_the_rate() {
        let mut shaper = middlebox(r#"{"policer":{"rate":"8Mbit","burst":"1500B"}}"#);
        let mut passes =
            |protocol, ms: u64| shaper.passes(10 * SECOND + ms * 1_000_000, protocol, None, 1000);
        assert!(passes(Protocol::Udp, 0) && !passes(Protocol::Udp, 0), "a burst of 1500 bytes");
        assert!(passes(Protocol::Udp, 1) && !passes(Protocol::Udp, 1), "1000 bytes in a millisecond");
        assert!(passes(Protocol::Tcp, 1));
    }

    #[test]
    fn only_one_tcp_port_is_open() {
        let mut firewall = Middlebox::new(&Spec::default(), Some(22), 0);
        let mut passes = |protocol, ports| firewall.passes(0, protocol, ports, 100);
        assert!(passes(Protocol::Tcp, Some((50_000, 22))) && passes(Protocol::Tcp, Some((22, 50_000))));
        assert!(!passes(Protocol::Tcp, Some((50_000, 23))) && !passes(Protocol::Tcp, None));
        assert!(passes(Protocol::Udp, Some((50_000, 23))) && passes(Protocol::Icmp, None));
    }
}
