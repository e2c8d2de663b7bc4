//! Physics of single links, against what can be computed by hand.

use super::*;
use crate::packet::{Cargo, Way};
use crate::rng::Chance;
use crate::time::{MS, SEC, US};

fn packet(len: u32) -> Packet {
    Packet { flow: 0, way: Way::Data, hop: 0, ecn: Ecn::Capable, damaged: false, len, cargo: Cargo::Filler }
}

fn link(config: LinkConfig) -> Link {
    Link::new(config, Rng::new(1))
}

/// Offers `count` packets of 1500 bytes, one every `gap`; when each that passed arrived, and whether it was
/// marked.
fn offer(link: &mut Link, count: u64, gap: Nanos) -> Vec<(Nanos, bool)> {
    let mut arrivals = Vec::new();
    let mut sent = 0;
    loop {
        let entry = (sent < count).then_some(sent * gap);
        let next = [entry, link.departs_at(), link.arrives_at()].into_iter().flatten().min();
        let Some(now) = next else { break };
        if link.arrives_at() == Some(now) {
            let packet = link.pop_arrival(now).expect("due now");
            arrivals.push((now, packet.ecn == Ecn::Marked));
        } else if link.departs_at() == Some(now) {
            link.on_departure(now);
        } else {
            link.enqueue(now, packet(1500));
            sent += 1;
        }
        let stats = link.stats();
        let out = stats.delivered + stats.dropped_full + stats.dropped_early + stats.policed + stats.lost;
        assert_eq!(
            stats.entered + stats.copied,
            out + stats.wire_full + link.inside(),
            "a packet without a fate"
        );
        assert!(link.backlog() <= link.config().queue);
    }
    arrivals
}

#[test]
fn packets_arrive_after_serialisation_and_delay() {
    // 1500 bytes at 12 Mbit/s are 1 ms.
    let mut link = link(LinkConfig::new("l", 12_000_000, 10 * MS, 1_000_000));
    let arrivals = offer(&mut link, 3, 0);
    assert_eq!(arrivals.iter().map(|a| a.0).collect::<Vec<_>>(), [11 * MS, 12 * MS, 13 * MS]);
    assert_eq!(link.queue_delay(0.5), MS);
}

#[test]
fn a_full_queue_drops_the_tail() {
    let mut link = link(LinkConfig::new("l", 12_000_000, 0, 15_000));
    assert_eq!(offer(&mut link, 100, 0).len(), 10);
    assert_eq!((link.stats().dropped_full, link.stats().queue_max), (90, 15_000));
}

#[test]
fn a_change_of_rate_holds_for_the_packet_in_service() {
    let mut link = link(LinkConfig::new("l", 12_000_000, 0, 15_000));
    link.enqueue(0, packet(1500));
    link.change(500 * US, Change::Rate(1_200_000));
    assert_eq!(link.departs_at(), Some(500 * US + 5 * MS), "half of it is left, at a tenth of the rate");
    link.change(MS, Change::Rate(0));
    assert_eq!(link.departs_at(), None);
    assert_eq!(link.arrives_at(), Some(MS));
}

#[test]
fn a_shorter_route_overtakes_a_longer_one() {
    let mut link = link(LinkConfig::wire("l", 50 * MS));
    link.enqueue(0, packet(100));
    link.change(MS, Change::Delay(10 * MS));
    link.enqueue(MS, packet(200));
    assert_eq!(link.pop_arrival(11 * MS).map(|p| p.len), Some(200));
    assert!(link.pop_arrival(11 * MS).is_none());
    assert_eq!(link.pop_arrival(50 * MS).map(|p| p.len), Some(100));
}

#[test]
fn red_keeps_the_average_between_its_thresholds() {
    let red = Discipline::Red { low: 30_000, high: 90_000, probability_max: 0.1 };
    let config = LinkConfig { discipline: red, ..LinkConfig::new("l", 12_000_000, 0, 1_000_000) };
    // 10% more than the link carries: RED drops about a tenth, long before the queue is full.
    let mut red_link = link(config.clone());
    offer(&mut red_link, 20_000, 900 * US);
    let stats = red_link.stats();
    assert_eq!(stats.dropped_full, 0);
    let share = stats.dropped_early as f64 / 20_000.0;
    assert!((0.08..0.12).contains(&share), "{share} dropped");
    assert!((60_000..200_000).contains(&stats.queue_max), "{}", stats.queue_max);
    // The same with marks.
    let mut marking = link(LinkConfig { ecn: true, ..config });
    let arrivals = offer(&mut marking, 2_000, 900 * US);
    assert_eq!(arrivals.len(), 2_000, "nothing is dropped that can be marked");
    assert!(arrivals.iter().any(|(_, marked)| *marked));
}

#[test]
fn codel_brings_a_standing_queue_down_to_its_target() {
    let config =
        LinkConfig { discipline: Discipline::CODEL, ..LinkConfig::new("l", 12_000_000, 0, 10_000_000) };
    // A burst of 100 ms is let through,
    let mut codel = link(config.clone());
    assert_eq!(offer(&mut codel, 100, 0).len(), 100);
    // 5% too much for 20 s is not: the square-root law finds the rate of drops that it takes.
    let mut codel = link(config);
    let arrivals = offer(&mut codel, 20_000, 952 * US);
    let dropped = codel.stats().dropped_early;
    assert!((500..1_100).contains(&dropped), "{dropped} of the 1000 too many");
    assert!(arrivals.len() as u64 + dropped == 20_000);
    assert!(codel.backlog() == 0 && codel.queue_delay(0.9) < 400 * MS, "{}", codel.queue_delay(0.9));
}

#[test]
fn marks_above_a_threshold_drop_nothing() {
    let discipline = Discipline::MarkAbove { bytes: 15_000 };
    let config = LinkConfig { discipline, ..LinkConfig::new("l", 12_000_000, 0, 1_000_000) };
    let mut marking = link(config);
    let arrivals = offer(&mut marking, 100, 0);
    assert_eq!(arrivals.len(), 100);
    assert_eq!(
        arrivals.iter().filter(|(_, marked)| *marked).count(),
        89,
        "all that met more than ten packets"
    );
}

#[test]
fn faults_happen_as_often_as_they_should() {
    let faults = Faults {
        loss: Chance::of(0.02),
        corruption: Chance::of(0.01),
        duplication: Chance::of(0.05),
        ..Faults::default()
    };
    let mut lossy = link(LinkConfig { faults, ..LinkConfig::wire("l", MS) });
    offer(&mut lossy, 50_000, US);
    let stats = lossy.stats();
    assert!((900..1100).contains(&stats.lost), "{} lost", stats.lost);
    assert!((2250..2650).contains(&stats.copied), "{} copied", stats.copied);
}

#[test]
fn bursts_of_losses_have_the_length_that_the_model_says() {
    let bursts = GilbertElliott { begin: Chance::of(0.001), end: Chance::of(0.1), loss: Chance::of(1.0) };
    let faults = Faults { bursts: Some(bursts), ..Faults::default() };
    let mut lossy = link(LinkConfig { faults, ..LinkConfig::wire("l", 0) });
    let arrivals = offer(&mut lossy, 100_000, US);
    let gaps: Vec<u64> = arrivals.windows(2).map(|w| (w[1].0 - w[0].0) / US - 1).filter(|n| *n > 0).collect();
    let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
    assert!((8.0..12.0).contains(&mean), "bursts of {mean} packets instead of 10");
    assert!((70..130).contains(&gaps.len()), "{} bursts instead of 99", gaps.len());
}

#[test]
fn an_outage_and_a_small_mtu_let_nothing_through() {
    let faults = Faults { outages: vec![(10 * MS, 20 * MS)], ..Faults::default() };
    let mut out = link(LinkConfig { faults, mtu: 1400, ..LinkConfig::wire("l", 0) });
    assert_eq!(offer(&mut out, 10, MS).len(), 0, "1500 bytes are too large");
    out.enqueue(15 * MS, packet(1400));
    out.enqueue(20 * MS, packet(1400));
    assert_eq!(out.inside(), 1);
    out.change(SEC, Change::Mtu(9000));
    out.enqueue(SEC, packet(9000));
    assert_eq!(out.inside(), 2);
}

#[test]
fn fq_codel_serves_flows_alike_however_much_each_offers() {
    let config =
        LinkConfig { discipline: Discipline::FQ_CODEL, ..LinkConfig::new("l", 12_000_000, 0, 150_000) };
    let mut link = link(config);
    // The link carries a packet each millisecond. The first flow offers four, the second 0.6, the third 0.2.
    let gaps = [250 * US, 1667 * US, 5 * MS];
    let (mut next, mut arrived) = (gaps, [0u64; 3]);
    let mut waited_most = 0;
    while next[0] < 4 * SEC {
        let flow = (0..3).min_by_key(|flow| next[*flow]).expect("three flows");
        let events = [Some(next[flow]), link.departs_at(), link.arrives_at()];
        let now = events.into_iter().flatten().min().expect("the next packet");
        if link.arrives_at() == Some(now) {
            let packet = link.pop_arrival(now).expect("due now");
            arrived[usize::from(packet.flow)] += 1;
            let at = next[2] - gaps[2];
            waited_most = if packet.flow == 2 { waited_most.max(now - at) } else { waited_most };
        } else if link.departs_at() == Some(now) {
            link.on_departure(now);
        } else {
            link.enqueue(now, Packet { flow: flow as u16, ..packet(1500) });
            next[flow] += gaps[flow];
        }
        assert!(link.backlog() <= link.config().queue);
    }
    // Shares of 0.4, 0.4 and 0.2: max-min fairness.
    for (flow, share) in [(0, 0.4), (1, 0.4), (2, 0.2)] {
        assert!((arrived[flow] as f64 / 4000.0 - share).abs() < 0.02, "{arrived:?}");
    }
    assert!(waited_most < 5 * MS, "a flow within its share waits for a turn only: {waited_most}");
    let stats = link.stats();
    assert!(stats.dropped_early > 10 && stats.dropped_full > 100, "{stats:?}");
}
