//! A middlebox: treats UDP otherwise than TCP, as firewalls and traffic shapers do.

use super::clock::Nanos;
use super::counters::Protocol;
use super::outage::Outages;
use super::queue::TokenBucket;
use super::spec::Middlebox as Spec;

/// What stands between a UDP packet and the path; every other packet passes.
#[derive(Debug, Clone)]
pub struct Middlebox {
    outages: Outages,
    policer: Option<TokenBucket>,
    largest: u32,
}

impl Middlebox {
    /// `origin` is the time that outages count from.
    pub fn new(spec: &Spec, origin: Nanos) -> Middlebox {
        Middlebox {
            outages: Outages::new(spec.outages.clone(), origin),
            policer: spec.policer.map(|policer| TokenBucket::new(policer, origin)),
            largest: spec.largest.unwrap_or(u32::MAX),
        }
    }

    /// Whether it lets the packet pass, whose IP length is `bytes`.
    pub fn passes(&mut self, now: Nanos, protocol: Protocol, bytes: u32) -> bool {
        if protocol != Protocol::Udp {
            return true;
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
        Middlebox::new(&serde_json::from_str(json).expect("a middlebox"), 10 * SECOND)
    }

    #[test]
    fn only_udp_is_blocked() {
        let mut firewall = middlebox(r#"{"outages":[{"at":"1s","for":"2s"}]}"#);
        let mut passes = |protocol, s: u64| firewall.passes(s * SECOND, protocol, 100);
        assert!(passes(Protocol::Udp, 10) && !passes(Protocol::Udp, 11) && !passes(Protocol::Udp, 12));
        assert!(passes(Protocol::Udp, 13) && passes(Protocol::Tcp, 12) && passes(Protocol::Icmp, 12));
    }

    #[test]
    fn only_large_udp_packets_are_dropped() {
        let mut firewall = middlebox(r#"{"largest":1280}"#);
        let mut passes = |protocol, bytes| firewall.passes(0, protocol, bytes);
        assert!(passes(Protocol::Udp, 1280) && !passes(Protocol::Udp, 1281) && passes(Protocol::Tcp, 1500));
    }

    #[test]
    fn only_udp_is_held_to_the_rate() {
        let mut shaper = middlebox(r#"{"policer":{"rate":"8Mbit","burst":"1500B"}}"#);
        let mut passes = |protocol, ms: u64| shaper.passes(10 * SECOND + ms * 1_000_000, protocol, 1000);
        assert!(passes(Protocol::Udp, 0) && !passes(Protocol::Udp, 0), "a burst of 1500 bytes");
        assert!(passes(Protocol::Udp, 1) && !passes(Protocol::Udp, 1), "1000 bytes in a millisecond");
        assert!(passes(Protocol::Tcp, 1));
    }
}
