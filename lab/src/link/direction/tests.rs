use proptest::prelude::*;

use super::*;
use crate::link::spec::LinkSpec;

const MS: Nanos = 1_000_000;

/// 12 Mbit/s, 10 ms one way: a packet of 1500 bytes takes one millisecond on the link.
fn direction(rest: &str) -> Direction<u32> {
    let toml = format!("rtt = '20ms'\nrate = '12Mbit'\nseed = 5\n[forward]\n{rest}");
    let spec = LinkSpec::read(&toml, &[]).expect("valid spec");
    Direction::new(spec.settings(Way::Forward), spec.seed, Way::Forward, &[0, 5 * MS], 0)
}

fn packet(item: u32) -> Arrival<u32> {
    Arrival { item, bytes: 1500, protocol: Protocol::Udp, ports: None, lane: 0 }
}

fn released(direction: &mut Direction<u32>, now: Nanos) -> Vec<(u32, Nanos)> {
    direction.advance(now);
    std::iter::from_fn(|| direction.pop_due(now)).map(|release| (release.item, release.due)).collect()
}

/// One packet each millisecond, the link's rate.
fn arrivals(direction: &mut Direction<u32>, packets: u32) {
    for item in 0..packets {
        direction.arrive(u64::from(item) * MS, packet(item));
    }
}

fn steady(direction: &mut Direction<u32>, packets: u32) -> Vec<(u32, Nanos)> {
    arrivals(direction, packets);
    released(direction, u64::from(packets) * MS * 10)
}

#[test]
fn a_packet_takes_transmission_and_propagation_time() {
    let mut direction = direction("");
    assert_eq!(direction.next_wake(), None);
    assert_eq!(direction.arrive(0, packet(0)), 1);
    assert_eq!(direction.arrive(0, packet(1)), 1);
    assert_eq!(direction.next_wake(), Some(11 * MS), "known before the packet is off the link");
    assert_eq!(released(&mut direction, 11 * MS - 1), []);
    assert_eq!(released(&mut direction, 12 * MS), [(0, 11 * MS), (1, 12 * MS)]);
    assert_eq!(direction.next_wake(), None);
    let far = Arrival { lane: 1, ..packet(2) };
    direction.arrive(20 * MS, far);
    assert_eq!(released(&mut direction, 90 * MS), [(2, 36 * MS)], "a host's access line adds its delay");
    let report = direction.counters().report();
    assert_eq!((report.packets_in, report.packets_out, report.bytes_by_protocol.udp), (3, 3, 4500));
    assert_eq!((report.busy_us, report.queue_bytes_max), (3000, 3000));
}

#[test]
fn each_effect_has_its_own_counter() {
    let mut lossy = direction("loss = '10%'");
    let out = steady(&mut lossy, 10_000).len() as u64;
    let report = lossy.counters().report();
    assert_eq!(report.random_losses + out, 10_000);
    assert!((900..1100).contains(&report.random_losses), "{}", report.random_losses);

    let mut double = direction("duplicate = '10%'\nrate = '24Mbit'");
    let out = steady(&mut double, 10_000);
    let report = double.counters().report();
    assert_eq!(out.len() as u64, 10_000 + report.duplicated);
    assert!((900..1100).contains(&report.duplicated), "{}", report.duplicated);

    let mut damaged = direction("corrupt = '10%'");
    arrivals(&mut damaged, 10_000);
    damaged.advance(20_000 * MS);
    let bad =
        std::iter::from_fn(|| damaged.pop_due(20_000 * MS)).filter(|r| r.integrity != Integrity::Intact);
    assert_eq!(bad.count() as u64, damaged.counters().corrupted);
    assert!((900..1100).contains(&damaged.counters().corrupted));

    let mut policed = direction("policer = { rate = '6Mbit', burst = '15kB' }");
    let out = steady(&mut policed, 10_000).len();
    assert!((5000..5020).contains(&out), "half of the rate and a burst pass: {out}");
}

#[test]
fn only_reordered_packets_are_overtaken() {
    let mut direction = direction("reorder = { share = '10%', delay = '5ms' }");
    let mut order = Vec::new();
    for step in 0..2000u32 {
        let now = u64::from(step) * MS;
        if step < 1000 {
            direction.arrive(now, packet(step));
        }
        order.extend(released(&mut direction, now));
    }
    assert_eq!(order.len(), 1000);
    assert!((70..130).contains(&direction.counters().reordered), "{}", direction.counters().reordered);
    let late =
        order.iter().enumerate().filter(|(place, (item, _))| order[..*place].iter().any(|(i, _)| i > item));
    assert_eq!(late.count() as u64, direction.counters().reordered);
}

#[test]
fn outages_drop_or_hold() {
    let mut drops = direction("outages = [{ at = '100ms', for = '50ms' }]");
    assert_eq!(steady(&mut drops, 1000).len(), 950);
    assert_eq!(drops.counters().outage_drops, 50);
    let mut holds = direction("outages = [{ at = '100ms', for = '50ms', what = 'hold' }]\nqueue = '1000pkt'");
    let out = steady(&mut holds, 200);
    assert_eq!(out.len(), 200);
    assert!(
        out.iter().all(|(_, due)| !(111 * MS..161 * MS).contains(due)),
        "nothing comes out while it holds"
    );
}

#[test]
fn cross_traffic_takes_its_share_of_the_link() {
    let mut half = direction("cross = [{ kind = 'poisson', rate = '6Mbit' }]\nqueue = '20pkt'");
    // Both together are well above what the link carries, and out of step with it.
    for item in 0..10_000 {
        half.arrive(u64::from(item) * 997_000, packet(item));
    }
    half.advance(9_970 * MS);
    let report = half.counters().report();
    assert!(report.queue_drops > 500 && report.cross_drops > 500, "both find the queue full");
    let taken = (report.packets_in - report.queue_drops) * 1500 + report.cross_bytes;
    let capacity = 9_970 * 1500;
    assert!(taken.abs_diff(capacity) <= 21 * 1500, "{taken} of {capacity} and a queue");
}

#[test]
fn cross_traffic_is_processed_on_an_idle_path() {
    let mut direction = direction("cross = [{ kind = 'poisson', rate = '6Mbit' }]");
    assert_eq!(direction.next_wake(), Some(CROSS_STRETCH));
    direction.advance(10_000 * MS);
    assert_eq!(direction.next_wake(), Some(10_000 * MS + CROSS_STRETCH));
    let bytes = direction.counters().cross_bytes;
    assert!((7_000_000..8_000_000).contains(&bytes), "half of 12 Mbit/s for 10 s: {bytes}");
}

#[test]
fn changes_take_effect_at_once_and_reset_starts_again() {
    let mut direction = direction("loss = '10%'");
    let losses = |direction: &mut Direction<u32>, from: u64| -> Vec<u32> {
        (0..1000).map(|n| direction.arrive((from + n) * MS, packet(0))).collect()
    };
    let first = losses(&mut direction, 0);
    direction.reset(2000 * MS);
    assert_eq!(direction.counters().report().packets_in, 0);
    assert_eq!(losses(&mut direction, 2000), first, "the same draws after a reset");
    let clean = LinkSpec::read("rtt = '40ms'\nrate = '12Mbit'", &[]).expect("valid");
    direction.reconfigure(4000 * MS, clean.settings(Way::Forward));
    assert!(losses(&mut direction, 4000).iter().all(|&copies| copies == 1));
    released(&mut direction, 9000 * MS);
    direction.arrive(10_000 * MS, packet(7));
    assert_eq!(released(&mut direction, 11_000 * MS), [(7, 10_021 * MS)], "the new delay");
}

proptest! {
    /// Whatever the settings and the arrivals: nothing is lost without a name, times do not go back in a
    /// lane, and nothing leaves early.
    #[test]
    fn every_packet_is_accounted_for(
        seed in any::<u64>(),
        loss in 0.0..0.3f64,
        duplicate in 0.0..0.3f64,
        share in 0.0..0.3f64,
        jitter in 0u64..20,
        cross in 3u64..20,
        gaps in proptest::collection::vec((0u64..4000, 40u32..1500, 0usize..2), 1..300),
    ) {
        let toml = format!(
            "rtt = '20ms'\nrate = '12Mbit'\nseed = {}\n[forward]\nloss = {loss}\nduplicate = {duplicate}\n\
             reorder = {{ share = {share}, delay = '3ms' }}\njitter = '{jitter}ms'\nqueue = '20pkt'\n\
             policer = {{ rate = '8Mbit', burst = '10kB' }}\noutages = [{{ at = '50ms', for = '20ms' }}]\n\
             cross = [{{ kind = 'on_off', rate = '{cross}Mbit', on = '5ms', off = '5ms' }}]",
            seed >> 1
        );
        let spec = LinkSpec::read(&toml, &[]).expect("valid spec");
        let mut direction = Direction::new(spec.settings(Way::Forward), spec.seed, Way::Forward, &[0, MS], 0);
        let (mut now, mut live, mut out) = (0, 0u64, 0u64);
        for (item, &(gap, bytes, lane)) in (0u32..).zip(&gaps) {
            now += gap * 1000;
            let protocol = Protocol::Tcp;
            live += u64::from(direction.arrive(now, Arrival { item, bytes, protocol, ports: None, lane }));
            while let Some(release) = direction.pop_due(now) {
                prop_assert!(release.due <= now && release.due >= 10 * MS);
                out += 1;
            }
        }
        while out < live {
            let wake = direction.next_wake().expect("packets under way");
            prop_assert!(wake < now + 1_000 * MS);
            now = now.max(wake);
            direction.advance(now);
            while direction.pop_due(now).is_some() {
                out += 1;
            }
        }
        let report = direction.counters().report();
        prop_assert_eq!(report.packets_out, live);
        let drops = report.queue_drops + report.policer_drops + report.random_losses + report.outage_drops;
        prop_assert_eq!(report.packets_in + report.duplicated, live + drops);
    }
}
