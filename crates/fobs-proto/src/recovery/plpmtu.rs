//! The size of datagrams that pass the path (RFC 8899, datagram packetisation layer path MTU discovery).

use crate::Timestamp;
use std::time::Duration;

/// BASE_PLPMTU (RFC 8899 section 5.1.2): UDP payload that every path is taken to carry, bytes.
pub const BASE_DATAGRAM: u16 = 1200;
/// MAX_PROBES (RFC 8899 section 5.1.2).
const PROBES_MAX: u8 = 3;
/// PMTU_RAISE_TIMER (RFC 8899 section 5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// IP packet sizes that occur: 1380 and 1420 (tunnels), 1460 (cloud), 1492 (PPPoE), 1500 (Ethernet), 8996 and
/// 9000 (jumbo frames, as clouds and campuses set them). All are probed at once, in the first flight: a
/// search would cost round trips.
const PACKET_SIZES: [u16; 7] = [1380, 1420, 1460, 1492, 1500, 8996, 9000];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    datagram: u16,
    probes: u8,
    outstanding: bool,
}

/// The search.
#[derive(Debug, Clone)]
pub struct Plpmtu {
    datagram: u16,
    candidates: Vec<Candidate>,
    raise_at: Option<Timestamp>,
}

impl Plpmtu {
    /// A search over a path whose IP and UDP headers take `ip_overhead` bytes (28 or 48).
    pub fn new(ip_overhead: u16) -> Plpmtu {
        let candidates = PACKET_SIZES
            .iter()
            .map(|size| Candidate { datagram: size - ip_overhead, probes: 0, outstanding: false })
            .collect();
        Plpmtu { datagram: BASE_DATAGRAM, candidates, raise_at: None }
    }

    /// No search: datagrams of a given size, unless the path turns out not to carry them.
    pub fn fixed(datagram: u16) -> Plpmtu {
        Plpmtu { datagram, candidates: Vec::new(), raise_at: None }
    }

    /// The largest UDP payload that is known to pass, bytes.
    pub fn datagram(&self) -> u16 {
        self.datagram
    }

    /// The UDP payload to probe now, bytes.
    pub fn poll_probe(&mut self, now: Timestamp) -> Option<u16> {
        if self.raise_at.is_some_and(|at| at <= now) {
            self.raise_at = None;
            self.candidates.iter_mut().for_each(|c| c.probes = 0);
        }
        let current = self.datagram;
        let next = self
            .candidates
            .iter_mut()
            .find(|c| c.datagram > current && !c.outstanding && c.probes < PROBES_MAX);
        if let Some(candidate) = next {
            candidate.probes += 1;
            candidate.outstanding = true;
            return Some(candidate.datagram);
        }
        let searching = self.candidates.iter().any(|c| c.outstanding);
        if !searching && self.raise_at.is_none() && !self.candidates.is_empty() {
            self.raise_at = Some(now + RAISE_AFTER);
        }
        None
    }

    /// A probe of this size arrived.
    pub fn on_acked(&mut self, datagram: u16) {
        self.settle(datagram, |_| {});
        if self.candidates.iter().any(|c| c.datagram == datagram) {
            self.datagram = self.datagram.max(datagram);
        }
    }

    /// A probe of this size was lost.
    pub fn on_lost(&mut self, datagram: u16) {
        self.settle(datagram, |_| {});
    }

    /// The local interface refuses this size: no sense in trying again soon.
    pub fn on_too_large(&mut self, datagram: u16) {
        self.settle(datagram, |c| c.probes = PROBES_MAX);
    }

    /// Packets of the present size no longer pass (RFC 8899 section 4.3): whether the size fell.
    pub fn on_black_hole(&mut self, now: Timestamp) -> bool {
        if self.datagram <= BASE_DATAGRAM {
            return false;
        }
        self.datagram = BASE_DATAGRAM;
        self.candidates.iter_mut().for_each(|c| c.probes = PROBES_MAX);
        self.raise_at = Some(now + RAISE_AFTER);
        true
    }

    fn settle(&mut self, datagram: u16, then: impl Fn(&mut Candidate)) {
        if let Some(candidate) = self.candidates.iter_mut().find(|c| c.datagram == datagram) {
            candidate.outstanding = false;
            then(candidate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(mtu: u16, overhead: u16) -> (Plpmtu, u32) {
        let mut search = Plpmtu::new(overhead);
        let mut probes = 0;
        while let Some(size) = search.poll_probe(Timestamp::ZERO) {
            probes += 1;
            assert!(probes < 50, "the search does not end");
            if size + overhead <= mtu { search.on_acked(size) } else { search.on_lost(size) }
        }
        (search, probes)
    }

    #[test]
    fn finds_the_largest_size_that_passes() {
        for (mtu, overhead, expected) in
            [(1500, 28, 1472), (1500, 48, 1452), (9000, 28, 8972), (1280, 48, 1200), (1450, 28, 1392)]
        {
            assert_eq!(drive(mtu, overhead).0.datagram(), expected, "mtu {mtu}");
        }
        assert!(drive(1500, 28).1 <= 11, "three tries for each size that fails");
    }

    #[test]
    fn every_size_is_probed_in_the_first_flight_and_after_the_timer() {
        let mut search = Plpmtu::new(28);
        let mut flight = vec![];
        while let Some(size) = search.poll_probe(Timestamp::ZERO) {
            flight.push(size);
        }
        assert_eq!(flight.len(), PACKET_SIZES.len());
        for size in flight {
            search.on_too_large(size);
        }
        assert_eq!(search.poll_probe(Timestamp::ZERO), None);
        assert_eq!(search.poll_probe(Timestamp::ZERO + Duration::from_secs(599)), None);
        assert_eq!(search.poll_probe(Timestamp::ZERO + Duration::from_secs(601)), Some(1352));
    }

    #[test]
    fn a_black_hole_falls_back_to_the_base_once() {
        let (mut search, _) = drive(1500, 28);
        assert!(search.on_black_hole(Timestamp::ZERO));
        assert_eq!(search.datagram(), BASE_DATAGRAM);
        assert!(!search.on_black_hole(Timestamp::ZERO));
        assert_eq!(search.poll_probe(Timestamp::ZERO), None);
        let mut fixed = Plpmtu::fixed(1052);
        assert!(!fixed.on_black_hole(Timestamp::ZERO), "below the base there is nothing to fall back to");
        assert_eq!((fixed.datagram(), fixed.poll_probe(Timestamp::ZERO)), (1052, None));
        let mut too_large = Plpmtu::fixed(8028);
        assert!(too_large.on_black_hole(Timestamp::ZERO));
        assert_eq!((too_large.datagram(), too_large.poll_probe(Timestamp::ZERO)), (BASE_DATAGRAM, None));
    }
}
