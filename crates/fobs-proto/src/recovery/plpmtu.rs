//! The size of datagrams that pass the path (RFC 8899, datagram packetisation layer path MTU discovery).

use crate::Timestamp;
use std::time::Duration;

/// BASE_PLPMTU (RFC 8899 section 5.1.2): UDP payload that every path is taken to carry, bytes.
pub const BASE_DATAGRAM: u16 = 1200;
/// MIN_PLPMTU: where the base does not pass either, as in a tunnel inside a tunnel, what an IPv4 packet of
/// 576 bytes has room for, which every IPv4 host takes (RFC 1122 section 3.3.2).
pub const LEAST_DATAGRAM: u16 = 548;
/// MAX_PROBES (RFC 8899 section 5.1.2).
const PROBES_MAX: u8 = 3;
/// PMTU_RAISE_TIMER (RFC 8899 section 5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);
/// IP packet sizes that occur: 1380 and 1420 (tunnels), 1460 (cloud), 1492 (PPPoE), 1500 (Ethernet), 8996 and
/// 9000 (jumbo frames, as clouds and campuses set them). All are probed at once, in the first flight: a
/// search would cost round trips.
const PACKET_SIZES: [u16; 7] = [1380, 1420, 1460, 1492, 1500, 8996, 9000];
/// Those that are probed only once the base no longer passes.
const SMALL_PACKET_SIZES: [u16; 7] = [640, 700, 800, 900, 1000, 1100, 1200];
/// Time until a size is tried again that the local host refused as it refuses what it has no room for: a
/// queue of 1000 packets at 100 Mbit/s empties in 120 ms.
const REFUSED_WAIT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    datagram: u16,
    probes: u8,
    outstanding: bool,
    /// Not before this time.
    not_before: Timestamp,
}

impl Candidate {
    fn new(datagram: u16) -> Candidate {
        Candidate { datagram, probes: 0, outstanding: false, not_before: Timestamp::ZERO }
    }
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
        let of = |sizes: [u16; 7]| sizes.into_iter().map(move |size| Candidate::new(size - ip_overhead));
        let small = of(SMALL_PACKET_SIZES).chain([Candidate::new(BASE_DATAGRAM)]);
        Plpmtu {
            datagram: BASE_DATAGRAM,
            candidates: small.chain(of(PACKET_SIZES)).collect(),
            raise_at: None,
        }
    }

    /// No search: datagrams of a given size, unless the path turns out not to carry them.
    pub fn fixed(datagram: u16) -> Plpmtu {
        Plpmtu { datagram, candidates: Vec::new(), raise_at: None }
    }

    /// The largest UDP payload that is known to pass, bytes.
    pub fn datagram(&self) -> u16 {
        self.datagram
    }

    /// What is taken to pass where the present size no longer does; `None` at the least.
    pub fn next_lower(&self) -> Option<u16> {
        [BASE_DATAGRAM, LEAST_DATAGRAM].into_iter().find(|lower| *lower < self.datagram)
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
            .find(|c| c.datagram > current && !c.outstanding && c.probes < PROBES_MAX && c.not_before <= now);
        if let Some(candidate) = next {
            candidate.probes += 1;
            candidate.outstanding = true;
            return Some(candidate.datagram);
        }
        let open = |c: &Candidate| c.datagram > current && (c.outstanding || c.probes < PROBES_MAX);
        let searching = self.candidates.iter().any(open);
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

    /// The local host refused this size and did not say why: its queue may be full, and where a device hands
    /// over to one that takes less, this is how it says so.
    pub fn on_refused(&mut self, now: Timestamp, datagram: u16) {
        self.settle(datagram, |c| c.not_before = now + REFUSED_WAIT);
    }

    /// Packets of the present size no longer pass (RFC 8899 section 4.3): whether the size fell. Sizes from
    /// the least to the old one are probed at once, larger ones after the timer.
    pub fn on_black_hole(&mut self, now: Timestamp) -> bool {
        let Some(lower) = self.next_lower() else { return false };
        let before = std::mem::replace(&mut self.datagram, lower);
        for candidate in &mut self.candidates {
            let between = lower == LEAST_DATAGRAM && candidate.datagram <= before;
            candidate.probes = if between { 0 } else { PROBES_MAX };
        }
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
    fn below_the_base_the_largest_size_that_passes_is_found_too() {
        for (mtu, overhead, expected) in
            [(1227, 28, 1172), (1000, 28, 972), (576, 28, 548), (1280, 48, 1200), (1200, 48, 1152)]
        {
            let mut search = Plpmtu::new(overhead);
            assert_eq!(search.next_lower(), Some(LEAST_DATAGRAM));
            assert!(search.on_black_hole(Timestamp::ZERO));
            let mut probes = 0;
            while let Some(size) = search.poll_probe(Timestamp::ZERO) {
                probes += 1;
                assert!(probes < 50, "the search does not end");
                if size + overhead <= mtu { search.on_acked(size) } else { search.on_lost(size) }
            }
            assert_eq!(search.datagram(), expected, "mtu {mtu}");
        }
    }

    #[test]
    fn a_size_refused_without_a_reason_is_tried_again_later() {
        let mut search = Plpmtu::new(28);
        let at = |ms| Timestamp::ZERO + Duration::from_millis(ms);
        let mut tries = vec![];
        for ms in 0..2000 {
            while let Some(size) = search.poll_probe(at(ms)) {
                if size == 8972 {
                    tries.push(ms);
                }
                if size > 1472 { search.on_refused(at(ms), size) } else { search.on_acked(size) }
            }
        }
        assert_eq!(tries, [0, 200, 400], "a bounded number, apart");
        assert_eq!(search.datagram(), 1472);
        let mut later = vec![];
        while let Some(size) = search.poll_probe(at(700_000)) {
            later.push(size);
        }
        assert_eq!(later, [8968, 8972]);
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
    fn black_holes_fall_back_to_the_base_and_then_to_the_least() {
        let (mut search, _) = drive(1500, 28);
        assert!(search.on_black_hole(Timestamp::ZERO));
        assert_eq!((search.datagram(), search.poll_probe(Timestamp::ZERO)), (BASE_DATAGRAM, None));
        assert!(search.on_black_hole(Timestamp::ZERO));
        assert_eq!((search.datagram(), search.next_lower()), (LEAST_DATAGRAM, None));
        assert!(!search.on_black_hole(Timestamp::ZERO), "less is no size");
        while let Some(size) = search.poll_probe(Timestamp::ZERO) {
            assert!((LEAST_DATAGRAM..=BASE_DATAGRAM).contains(&size), "{size}");
            search.on_lost(size);
        }
        let mut fixed = Plpmtu::fixed(540);
        assert!(!fixed.on_black_hole(Timestamp::ZERO), "below the least there is nothing to fall back to");
        assert_eq!((fixed.datagram(), fixed.poll_probe(Timestamp::ZERO)), (540, None));
        let mut too_large = Plpmtu::fixed(8028);
        assert!(too_large.on_black_hole(Timestamp::ZERO));
        assert_eq!((too_large.datagram(), too_large.poll_probe(Timestamp::ZERO)), (BASE_DATAGRAM, None));
    }
}
