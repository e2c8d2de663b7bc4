//! Packets dropped at this host's socket, estimated from the kernel's count of buffers (protocol 6.4).
//!
//! The kernel notes with every buffer that it queues how many it has dropped before, so the drops between two
//! buffers lie in one gap of packet numbers. That is exact where a buffer holds one datagram. Where the
//! kernel merges datagrams (GRO) it counts a merged buffer once: its packets are estimated from the gap, less
//! the share that the network loses elsewhere, and bounded by the lengths of merged buffers at present.

use super::PacketMeta;
use crate::{PacketNumber, Timestamp};
use std::time::Duration;

/// Buffers whose lengths are remembered, and whose longest bounds the length of a dropped one: some
/// milliseconds at 10 Gbit/s, tens of them at 1. (With 32, sizes mixed up to 44 were counted 0.24% too low.)
const SIZES: usize = 256;
/// How much longer than the queued ones a dropped buffer may have been: long ones are dropped first, because
/// the kernel checks whether they fit. (At 1, sizes mixed up to 44 were counted 0.15% too low.)
const LONGER: f64 = 1.5;
/// Weight of the newest buffer in the mean length: a dropped buffer resembles those queued just before.
const MEAN_SHARE: f64 = 1.0 / 8.0;
/// Packets after which the network's losses count half: long enough for a loss rate of 0.001, short enough to
/// follow.
const QUIET_PACKETS: f64 = 65_536.0;
/// Bytes charged to the socket for a byte of payload: 1.57 for single datagrams of 1472 bytes, 1.02 for
/// merged ones (measured). Between them: lags of starved receivers and of others lie far apart
/// (`loss_cause::witness`).
const CHARGE: f64 = 1.3;
/// Shortest time over which the arrival rate is taken.
const RATE_SPAN: Duration = Duration::from_millis(20);

/// The estimate.
#[derive(Debug)]
pub(super) struct DropLedger {
    expected: PacketNumber,
    /// The kernel's count when the newest packet was queued, and as of now.
    queued: Option<u32>,
    pending: u32,
    sizes: Sizes,
    /// Packets that arrived and that were missing where nothing was dropped here.
    quiet: (f64, f64),
    settled: f64,
    reported: u64,
    lateness: Lateness,
}

/// Lengths of the newest buffers, packets.
#[derive(Debug)]
struct Sizes {
    newest: [u16; SIZES],
    next: usize,
    mean: f64,
}

/// How late packets are read.
#[derive(Debug, Default)]
struct Lateness {
    buffer_bytes: u64,
    /// Of the packets that arrived within the time in which the buffer fills, the latest: when it arrived,
    /// and how long after that it was read. Not the newest: a buffer that has just run over took that in
    /// shortly before it was read.
    latest: (Timestamp, Duration),
    /// Bytes per second, and since when and how many are counted for the next value.
    rate: f64,
    since: Option<(Timestamp, u64)>,
    /// Before the newest gap, thousandths of the time in which the buffer fills.
    before_gap: Option<u16>,
}

impl DropLedger {
    pub(super) fn new() -> DropLedger {
        DropLedger {
            expected: 0,
            queued: None,
            pending: 0,
            sizes: Sizes { newest: [1; SIZES], next: 0, mean: 1.0 },
            quiet: (0.0, 0.0),
            settled: 0.0,
            reported: 0,
            lateness: Lateness::default(),
        }
    }

    /// The number after the largest that arrived.
    pub(super) fn expected(&self) -> PacketNumber {
        self.expected
    }

    /// The socket's buffer holds `bytes`, as the kernel charges them.
    pub(super) fn on_buffer(&mut self, bytes: u64) {
        self.lateness.buffer_bytes = bytes;
    }

    /// A packet was read.
    pub(super) fn on_packet(&mut self, now: Timestamp, meta: &PacketMeta) {
        let gap = meta.number.saturating_sub(self.expected);
        if let Some(drops) = meta.socket.drops {
            if meta.socket.merged > 0 {
                self.sizes.push(meta.socket.merged);
            }
            let new = drops.wrapping_sub(self.queued.unwrap_or(0));
            self.queued = Some(drops);
            self.pending = self.pending.saturating_sub(new);
            if new > 0 {
                self.settle(gap, new);
            } else if gap > 0 {
                self.quiet.1 += gap as f64;
            } else if meta.number < self.expected {
                self.quiet.1 = (self.quiet.1 - 1.0).max(0.0);
            }
        }
        self.quiet.0 += 1.0;
        if self.quiet.0 > QUIET_PACKETS {
            self.quiet = (self.quiet.0 / 2.0, self.quiet.1 / 2.0);
        }
        self.expected = self.expected.max(meta.number + 1);
        self.lateness.on_packet(now, meta, gap > 0);
    }

    /// The kernel's count as of now: it may know of drops behind the newest packet.
    pub(super) fn on_count(&mut self, drops: u32) {
        self.pending = drops.wrapping_sub(*self.queued.get_or_insert(0));
    }

    /// Packets dropped at the socket so far, never less than before; `None` where nothing counts.
    pub(super) fn packets(&mut self) -> Option<u32> {
        self.queued?;
        let now = self.settled + f64::from(self.pending) * self.sizes.mean;
        self.reported = self.reported.max(now as u64);
        // Modulo 2^32, as the kernel's.
        Some(self.reported as u32)
    }

    /// How late packets before the newest gap were read at worst, thousandths of the time in which the buffer
    /// fills; taken once.
    pub(super) fn take_lag(&mut self) -> Option<u16> {
        self.lateness.before_gap.take()
    }

    fn settle(&mut self, gap: u64, dropped: u32) {
        let (longest, dropped) = (f64::from(self.sizes.longest()), f64::from(dropped));
        let network = self.quiet.1 / (self.quiet.0 + self.quiet.1).max(1.0);
        let by_gap = gap as f64 * (1.0 - network);
        self.settled += if longest <= 1.0 {
            dropped
        } else if by_gap <= dropped * longest * LONGER {
            by_gap.max(dropped)
        } else {
            dropped * self.sizes.mean
        };
    }
}

impl Sizes {
    fn push(&mut self, packets: u16) {
        self.newest[self.next % SIZES] = packets;
        self.next += 1;
        self.mean += MEAN_SHARE * (f64::from(packets) - self.mean);
    }

    fn longest(&self) -> u16 {
        self.newest.iter().copied().max().unwrap_or(1)
    }
}

impl Lateness {
    fn on_packet(&mut self, now: Timestamp, meta: &PacketMeta, after_gap: bool) {
        let is_known = self.rate > 0.0 && self.buffer_bytes > 0;
        let fill = if is_known { self.buffer_bytes as f64 / CHARGE / self.rate } else { 0.0 };
        if after_gap && is_known {
            let lag = self.latest.1.as_secs_f64() / fill * 1000.0;
            self.before_gap = Some(lag.min(f64::from(u16::MAX - 1)) as u16);
        }
        let late = now - meta.arrived;
        if late >= self.latest.1 || (meta.arrived - self.latest.0).as_secs_f64() > fill {
            self.latest = (meta.arrived, late);
        }
        let (since, bytes) = self.since.get_or_insert((meta.arrived, 0));
        let span = meta.arrived - *since;
        if span >= RATE_SPAN {
            self.rate = *bytes as f64 / span.as_secs_f64();
            self.since = Some((meta.arrived, 0));
        } else {
            *bytes += u64::from(meta.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EcnCodepoint, SocketNote};
    use super::*;

    /// A socket that merges, and drops on demand.
    struct World {
        ledger: DropLedger,
        number: u64,
        drops: u32,
        lost: u64,
    }

    impl World {
        fn new() -> World {
            World { ledger: DropLedger::new(), number: 0, drops: 0, lost: 0 }
        }

        fn pass(&mut self, packets: u16) {
            for i in 0..packets {
                let socket = SocketNote { drops: Some(self.drops), merged: if i == 0 { packets } else { 0 } };
                let at = Timestamp::from_nanos(self.number * 12_000);
                let ecn = EcnCodepoint::NotEct;
                let meta = PacketMeta { number: self.number, arrived: at, len: 1472, ecn, socket };
                self.ledger.on_packet(at, &meta);
                self.number += 1;
            }
        }

        fn drop(&mut self, packets: u16) {
            self.drops += 1;
            self.number += u64::from(packets);
            self.lost += u64::from(packets);
        }

        fn counted(&mut self) -> f64 {
            f64::from(self.ledger.packets().expect("it counts"))
        }
    }

    #[test]
    fn single_datagrams_are_counted_exactly_beside_network_losses() {
        let mut world = World::new();
        for round in 0..200u64 {
            (0..100).for_each(|_| world.pass(1));
            (0..round % 7).for_each(|_| world.drop(1));
            world.number += round % 5;
        }
        world.pass(1);
        assert_eq!(world.counted(), world.lost as f64);
    }

    #[test]
    fn merged_ones_of_mixed_sizes_are_read_from_the_gaps() {
        let mut world = World::new();
        for round in 0..300u64 {
            for i in 0..40 {
                world.pass(1 + ((round * 13 + i * 29) % 44) as u16);
            }
            for i in 0..round % 9 {
                world.drop(1 + ((round * 31 + i * 17) % 40) as u16);
            }
        }
        world.pass(1);
        assert_eq!(world.counted(), world.lost as f64);
    }

    #[test]
    fn the_networks_share_of_a_gap_is_left_out() {
        let mut world = World::new();
        for round in 0..300u64 {
            for _ in 0..40 {
                world.pass(20);
                world.number += 1;
            }
            for _ in 0..round % 30 {
                world.drop(20);
                world.number += 1;
            }
        }
        world.pass(20);
        let error = world.counted() / world.lost as f64 - 1.0;
        assert!(error.abs() < 0.01, "{error}");
    }

    #[test]
    fn a_long_gap_with_few_drops_is_mostly_the_networks() {
        let mut world = World::new();
        (0..100).for_each(|_| world.pass(10));
        world.drop(10);
        world.number += 5000;
        world.pass(10);
        assert!((9.0..=10.0).contains(&world.counted()), "{}", world.counted());
    }

    #[test]
    fn drops_behind_the_newest_packet_are_estimated_then_settled() {
        let mut world = World::new();
        assert_eq!(world.ledger.packets(), None, "nothing has been counted");
        (0..100).for_each(|_| world.pass(16));
        world.drop(12);
        world.drop(12);
        world.ledger.on_count(world.drops);
        let estimate = world.counted();
        assert!((30.0..=32.0).contains(&estimate), "{estimate}");
        world.pass(16);
        assert_eq!(world.counted(), estimate, "it never goes back");
        world.drop(16);
        world.pass(16);
        assert_eq!(world.counted(), 40.0, "and what was too much is made up for");
    }

    #[test]
    fn lag_is_that_of_the_latest_packet_before_a_gap() {
        let mut ledger = DropLedger::new();
        ledger.on_buffer(1_300_000);
        let mut packet = |number: u64, late_ms: u64| {
            let arrived = Timestamp::from_nanos(number * 1_000_000);
            let (ecn, socket) = (EcnCodepoint::NotEct, SocketNote { drops: Some(0), merged: 1 });
            let meta = PacketMeta { number, arrived, len: 1000, ecn, socket };
            ledger.on_packet(arrived + Duration::from_millis(late_ms), &meta);
            ledger.take_lag()
        };
        // A packet of 1000 bytes a millisecond: the buffer of a million bytes fills in a second.
        for number in 0..100 {
            assert_eq!(packet(number, 1), None);
        }
        assert_eq!(packet(100, 500), None);
        let lag = packet(110, 0).expect("a gap");
        assert!((450..=550).contains(&lag), "{lag}");
        // The buffer is read empty: the last packets waited least.
        for (number, late_ms) in (111..150).zip((0..400).rev().step_by(10)) {
            assert_eq!(packet(number, late_ms), None);
        }
        let lag = packet(160, 0).expect("a gap");
        assert!((350..=550).contains(&lag), "{lag}");
        // A fill's time later the receiver has been prompt for long.
        for number in 161..1500 {
            assert_eq!(packet(number, 1), None);
        }
        assert!(packet(1600, 0).is_some_and(|lag| lag < 10));
    }
}
