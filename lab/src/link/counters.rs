//! Counters of the path and the validity of a run: the JSON that records keep.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clock::Nanos;

/// Rule of validity: 99% of packets are written at most this much after they are due, ns. It is half a
/// percent of a round trip of 65 ms and below the delay of a host's scheduler; ticks of 50 us on an idle core
/// need a third.
pub const LATENESS_P99_MAX: Nanos = 300_000;
/// Rule of validity: 99.9% are written within a tenth of the base round trip, or within 4 ms on a short path.
/// A controller takes more frequent long stalls for the path's; a single one, as in a virtual machine, is
/// harmless.
const LATENESS_P999_SHARE: f64 = 0.1;
const LATENESS_P999_FLOOR: Nanos = 4_000_000;

/// Maximum of histograms, as of delays: two minutes; longer times count as that.
const HISTOGRAM_MAX_US: u64 = 120_000_000;
/// Significant digits: accurate to 1%.
const HISTOGRAM_DIGITS: u8 = 2;

/// Counters of one direction since the last reset. Packets are IP packets of at most the MTU; bytes are whole
/// IP packets.
#[derive(Debug, Clone, Default)]
pub struct DirectionCounters {
    pub packets: ByProtocol,
    pub bytes: ByProtocol,
    pub packets_out: u64,
    pub bytes_out: u64,
    pub queue_drops: u64,
    pub red_drops: u64,
    pub policer_drops: u64,
    pub random_losses: u64,
    pub outage_drops: u64,
    pub middlebox_drops: u64,
    pub corrupted: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub queue_bytes_max: u64,
    pub cross_bytes: u64,
    pub cross_drops: u64,
    /// Time that the bottleneck was transmitting, cross traffic included.
    pub busy: Nanos,
    queue_delay: Delays,
}

impl DirectionCounters {
    pub fn arrived(&mut self, protocol: Protocol, bytes: u32) {
        *self.packets.of(protocol) += 1;
        *self.bytes.of(protocol) += u64::from(bytes);
    }

    pub fn waited(&mut self, time: Nanos) {
        self.queue_delay.record(time);
    }

    pub fn report(&self) -> DirectionReport {
        DirectionReport {
            packets_in: self.packets.sum(),
            bytes_in: self.bytes.sum(),
            packets_out: self.packets_out,
            bytes_out: self.bytes_out,
            queue_drops: self.queue_drops,
            red_drops: self.red_drops,
            policer_drops: self.policer_drops,
            random_losses: self.random_losses,
            outage_drops: self.outage_drops,
            middlebox_drops: self.middlebox_drops,
            corrupted: self.corrupted,
            duplicated: self.duplicated,
            reordered: self.reordered,
            queue_bytes_max: self.queue_bytes_max,
            queue_delay_us: self.queue_delay.report(),
            cross_bytes: self.cross_bytes,
            cross_drops: self.cross_drops,
            packets_by_protocol: self.packets,
            bytes_by_protocol: self.bytes,
            busy_us: self.busy / 1000,
            more: BTreeMap::new(),
        }
    }
}

/// Transport protocol of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Icmp,
    Other,
}

/// One counter for each protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ByProtocol {
    pub tcp: u64,
    pub udp: u64,
    pub icmp: u64,
    pub other: u64,
}

impl ByProtocol {
    fn of(&mut self, protocol: Protocol) -> &mut u64 {
        match protocol {
            Protocol::Tcp => &mut self.tcp,
            Protocol::Udp => &mut self.udp,
            Protocol::Icmp => &mut self.icmp,
            Protocol::Other => &mut self.other,
        }
    }

    pub fn sum(&self) -> u64 {
        self.tcp + self.udp + self.icmp + self.other
    }
}

/// A histogram of times.
#[derive(Debug, Clone)]
pub struct Delays(Histogram<u64>);

impl Default for Delays {
    fn default() -> Delays {
        let histogram = Histogram::new_with_max(HISTOGRAM_MAX_US, HISTOGRAM_DIGITS);
        Delays(histogram.unwrap_or_else(|_| unreachable!("two digits up to two minutes are a histogram")))
    }
}

impl Delays {
    pub fn record(&mut self, time: Nanos) {
        self.0.saturating_record(time / 1000);
    }

    pub fn report(&self) -> DelayReport {
        let at = |quantile| self.0.value_at_quantile(quantile);
        DelayReport { p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999), max: self.0.max() }
    }
}

/// Quantiles in microseconds, accurate to 1%.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DelayReport {
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// [`DirectionCounters`] as written to records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectionReport {
    pub packets_in: u64,
    pub bytes_in: u64,
    pub packets_out: u64,
    pub bytes_out: u64,
    pub queue_drops: u64,
    pub red_drops: u64,
    pub policer_drops: u64,
    pub random_losses: u64,
    pub outage_drops: u64,
    /// UDP packets that a middlebox did not let pass.
    pub middlebox_drops: u64,
    pub corrupted: u64,
    pub duplicated: u64,
    /// Packets delayed for reordering.
    pub reordered: u64,
    /// Cross traffic included.
    pub queue_bytes_max: u64,
    /// From arrival to the first bit on the link, µs.
    pub queue_delay_us: DelayReport,
    pub cross_bytes: u64,
    pub cross_drops: u64,
    /// Arrivals by protocol.
    pub packets_by_protocol: ByProtocol,
    pub bytes_by_protocol: ByProtocol,
    /// Time that the bottleneck was transmitting, µs, cross traffic included.
    pub busy_us: u64,
    /// Unknown members, from a record that a later version wrote.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// Counters of the whole path since the last reset, as written to records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub forward: DirectionReport,
    pub backward: DirectionReport,
    pub elapsed_s: f64,
    /// Packets that a TUN device dropped before the emulator read them.
    pub host_drops: u64,
    /// Packets that the emulator could not store or write: its own limits.
    pub emulator_drops: u64,
    /// Packets without a destination on the other side (multicast, a wrong address).
    pub strays: u64,
    /// Delay of writes after packets were due.
    pub lateness_us: DelayReport,
    /// CPU time of the emulator's thread, which includes the receiving side of the kernel.
    pub cpu_s: f64,
    pub wakeups: u64,
    /// Writes to devices: far fewer than packets if merging works.
    pub writes: u64,
    pub valid: bool,
    pub invalid_because: Vec<String>,
}

impl Counters {
    /// Applies the rules of validity, which are defined only here.
    pub fn judge(&mut self, base_rtt: Nanos) {
        let mut because = Vec::new();
        let late = self.lateness_us;
        if late.p99 > LATENESS_P99_MAX / 1000 {
            because.push(format!("p99 of lateness is {} us, above {} us", late.p99, LATENESS_P99_MAX / 1000));
        }
        let most = LATENESS_P999_FLOOR.max((base_rtt as f64 * LATENESS_P999_SHARE) as u64) / 1000;
        if late.p999 > most {
            because.push(format!("p99.9 of lateness is {} us, above {most} us", late.p999));
        }
        if self.host_drops > 0 {
            because.push(format!(
                "the devices dropped {} packets before the emulator saw them",
                self.host_drops
            ));
        }
        if self.emulator_drops > 0 {
            because.push(format!("the emulator dropped {} packets at its own limits", self.emulator_drops));
        }
        self.valid = because.is_empty();
        self.invalid_because = because;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(change: impl FnOnce(&mut Counters)) -> Counters {
        let mut counters = Counters::default();
        change(&mut counters);
        counters.judge(65_000_000);
        counters
    }

    #[test]
    fn a_run_is_invalid_for_each_reason_by_name() {
        assert!(judged(|_| ()).valid);
        assert!(judged(|counters| counters.lateness_us.p99 = 300).valid);
        assert!(judged(|counters| counters.lateness_us.p999 = 6_500).valid);
        assert!(judged(|counters| counters.lateness_us.max = 60_000).valid);
        let because = |change: fn(&mut Counters)| {
            let counters = judged(change);
            assert!(!counters.valid && counters.invalid_because.len() == 1, "{:?}", counters.invalid_because);
            counters.invalid_because[0].clone()
        };
        assert!(because(|counters| counters.lateness_us.p99 = 301).contains("p99"));
        assert!(because(|counters| counters.lateness_us.p999 = 6_501).contains("6500 us"));
        assert!(because(|counters| counters.host_drops = 1).contains("devices"));
        assert!(because(|counters| counters.emulator_drops = 1).contains("own limits"));
    }

    #[test]
    fn current_and_older_counters_are_read() {
        let counters = judged(|counters| counters.forward.bytes_by_protocol.udp = 7);
        let text = serde_json::to_string(&counters).expect("writes");
        assert_eq!(serde_json::from_str::<Counters>(&text).expect("reads"), counters);
        assert!(serde_json::from_str::<Counters>("{\"valid\": true}").expect("reads").valid);
    }

    #[test]
    fn quantiles_are_within_a_percent() {
        let mut delays = Delays::default();
        (1..=10_000u64).for_each(|us| delays.record(us * 1000));
        let report = delays.report();
        assert!((4950..=5050).contains(&report.p50) && (9800..=10_000).contains(&report.p99), "{report:?}");
        delays.record(u64::MAX);
        assert!(delays.report().max >= HISTOGRAM_MAX_US);
    }
}
