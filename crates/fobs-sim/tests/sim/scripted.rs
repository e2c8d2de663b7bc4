//! One thing goes wrong at a time, at a known moment.

use fobs_proto::Rate;
use fobs_proto::congestion::CongestionControl;
use fobs_proto::wire::Header;
use fobs_sim::Scene;
use fobs_sim::flow::Outcome;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::link::{Change, Discipline};
use fobs_sim::log::Event;
use fobs_sim::rng::Chance;
use fobs_sim::scene::Played;
use fobs_sim::time::{MS, Nanos, SEC, US};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const MBIT: u64 = 1_000_000;
/// Data bytes of a packet before the path's packet size is known.
const PAYLOAD: u32 = 1172;
/// Length of a full chunk with its trailer (protocol 7.1).
const FULL: u32 = (4 << 20) + 44;
/// Data packets that timers and the redundant tail may repeat although nothing was lost.
const SPARE: u64 = 8;

fn auto(object: Object) -> FobsConfig {
    FobsConfig::new(object, CongestionControl::Auto)
}

fn fixed(object: Object, rate: u64) -> FobsConfig {
    FobsConfig::new(object, CongestionControl::Fixed { bits_per_second: rate })
}

fn greedy(object: Object) -> FobsConfig {
    FobsConfig { payload: Some(1024), ..FobsConfig::new(object, CongestionControl::Greedy) }
}

fn mebibytes(count: u64) -> Object {
    Object::Bytes(count << 20)
}

/// A transfer between ideal hosts over a path without a limit to speak of.
fn wire(config: FobsConfig) -> Scene {
    link(10_000 * MBIT, config).queue(1 << 30)
}

/// A transfer between ideal hosts over a link of 20 ms with a queue of a mebibyte.
fn link(rate: u64, config: FobsConfig) -> Scene {
    Scene::new(rate, 20 * MS).queue(1 << 20).lasts(120 * SEC).fobs(config).between_ideal_hosts()
}

/// Runs a scene to its end; how long the transfer took.
fn complete(scene: Scene) -> (Played, Nanos) {
    let mut played = scene.start();
    played.world.keep_log();
    played.run_until(120 * SEC);
    let view = played.flow(0);
    assert_eq!(view.outcome, Outcome::Complete, "{}", played.world.describe());
    let (began, ended) = (view.figures.began.expect("it began"), view.figures.ended.expect("it ended"));
    (played, ended - began)
}

/// Data packets that were sent: when, and their headers.
fn data_packets(played: &Played) -> impl Iterator<Item = (Nanos, fobs_proto::wire::DataHeader)> {
    played.log().iter().filter_map(|entry| match entry.event {
        Event::Sent { header: Header::Data(header), .. } => Some((entry.at, header)),
        _ => None,
    })
}

#[test]
fn objects_of_every_awkward_size_arrive() {
    for chunks in [
        vec![1],
        vec![PAYLOAD - 1],
        vec![PAYLOAD],
        vec![PAYLOAD + 1],
        vec![64 * PAYLOAD],
        vec![FULL],
        vec![FULL, 1],
        vec![1, FULL],
        vec![FULL + (256 << 10)],
        vec![45; 200],
        vec![PAYLOAD, PAYLOAD + 1, PAYLOAD - 1, 1],
    ] {
        for circular in [false, true] {
            complete(link(100 * MBIT, FobsConfig { circular, ..auto(Object::Chunks(chunks.clone())) }));
        }
    }
}

#[test]
fn one_byte_takes_one_way() {
    let (_, took) = complete(wire(auto(Object::Chunks(vec![1]))));
    assert!((10 * MS..10 * MS + 10 * US).contains(&took), "{took} ns");
}

#[test]
fn the_loss_of_the_last_packets_costs_no_timer() {
    let scene = || wire(fixed(Object::Chunks(vec![100 * PAYLOAD]), 10 * MBIT)).link(|link| link.mtu = 1228);
    let (clean, soonest) = complete(scene());
    // The places of the last three data packets among all that leave the sender; the copies of the tail come
    // after them.
    let sent = clean.log().iter().filter_map(|entry| match entry.event {
        Event::Sent { header: Header::Ack, .. } | Event::Stored { .. } => None,
        Event::Sent { header, .. } => Some(header),
    });
    let places: Vec<u64> =
        (0..).zip(sent).filter(|(_, header)| matches!(header, Header::Data(_))).map(|(i, _)| i).collect();
    let (played, took) = complete(scene().drop(places[97..100].iter().copied()));
    assert_eq!(played.bottleneck().stats.lost, clean.bottleneck().stats.lost + 3);
    assert!(took < soonest + 10 * MS, "{} ms after {} ms", took / MS, soonest / MS);
}

#[test]
fn lost_acks_cost_no_data_once_a_bitmap_comes() {
    // At a rate that the window allows for 300 ms without acks.
    let (mut played, took) = complete(wire(fixed(mebibytes(8), 50 * MBIT)).ack_outage(200 * MS, 500 * MS));
    assert!(played.flow(0).figures.waste() < 0.25, "{:?}", played.flow(0).figures);
    assert!(took < 2500 * MS, "{} ms", took / MS);
}

#[test]
fn a_transfer_survives_that_its_first_ack_is_late() {
    let (_, took) = complete(wire(auto(mebibytes(4))).ack_outage(0, 3 * SEC));
    assert!(took < 7 * SEC, "{} ms", took / MS);
}

#[test]
fn an_outage_changes_no_packet_size_and_floods_nothing() {
    let scene = link(100 * MBIT, auto(mebibytes(32))).outage(SEC, 6 * SEC).ack_outage(SEC, 6 * SEC);
    let (mut played, took) = complete(scene);
    // 32 MiB take 2.8 s; the longest probe timeout is 2 s.
    assert!(took < (6 + 2 + 3) * SEC, "{} ms", took / MS);
    let figures = played.flow(0).figures;
    assert_eq!(figures.datagram, 1472);
    assert!(figures.repeated <= 1200, "{figures:?}");
}

#[test]
fn a_black_hole_lays_chunks_out_anew() {
    let (mut played, took) = complete(link(100 * MBIT, auto(mebibytes(32))).change(SEC, Change::Mtu(1400)));
    assert_eq!(played.flow(0).figures.datagram, 1200);
    assert!(data_packets(&played).any(|(_, header)| header.attempt > 0), "no chunk was laid out anew");
    assert!(took < 5 * SEC, "{} ms", took / MS);
}

#[test]
fn the_packet_size_is_found_in_one_round_trip() {
    for (mtu, datagram) in [(1500, 1472), (1400, 1352), (9000, 8972), (1228, 1200)] {
        let mut played = link(1000 * MBIT, auto(mebibytes(16)))
            .queue(1 << 22)
            .link(|link| link.mtu = mtu)
            .back(|back| back.mtu = 1228)
            .start();
        played.world.keep_log();
        // The first train and its acks, the probes right behind it and theirs.
        played.run_until(45 * MS);
        assert_eq!(played.flow(0).figures.datagram, datagram, "MTU {mtu}");
        played.run_until(120 * SEC);
        assert_eq!(played.flow(0).outcome, Outcome::Complete, "MTU {mtu}");
        let largest = played.log().iter().filter_map(|entry| match entry.event {
            Event::Sent { header: Header::Data(_), len, .. } => Some(len),
            _ => None,
        });
        assert_eq!(largest.max(), Some(u32::from(datagram) + 28), "MTU {mtu}");
    }
}

#[test]
fn mismatches_are_sent_again_until_the_third() {
    for (times, outcome) in [(1, Outcome::Complete), (2, Outcome::Complete), (3, Outcome::GaveUp)] {
        for circular in [false, true] {
            let mismatches = BTreeMap::from([(2, times), (4, times)]);
            let config = FobsConfig { mismatches, circular, ..auto(Object::Chunks(vec![500_000; 5])) };
            let mut played = wire(config).play();
            assert_eq!(played.flow(0).outcome, outcome, "{times} mismatches, circular: {circular}");
        }
    }
}

#[test]
fn a_mismatch_during_a_new_layout_strands_no_chunk() {
    // Acks are lost while the path shrinks: the sender lays a complete chunk out anew, the receiver
    // acknowledges that as known, and only then finds that the chunk is bad.
    for verify_ms in [100, 300, 600, 1200, 2400] {
        let mismatches = BTreeMap::from([(0, 1), (1, 1)]);
        let config = FobsConfig { mismatches, ..fixed(Object::Chunks(vec![4 << 20; 3]), 100 * MBIT) };
        let scene = wire(config)
            .change(300 * MS, Change::Mtu(1300))
            .ack_outage(250 * MS, 700 * MS)
            .with(|flow| flow.receiver.hash_rate = (4 << 20) * 1000 / verify_ms);
        complete(scene);
    }
}

#[test]
fn a_slow_disk_stalls_the_sender_by_credit() {
    // A chunk is stored every 100 ms.
    let config = FobsConfig { receiver_chunks: 4, ..auto(Object::Chunks(vec![1 << 20; 24])) };
    let scene = Scene::new(1000 * MBIT, 10 * MS)
        .queue(1 << 20)
        .fobs(config)
        .between_ideal_hosts()
        .with(|flow| flow.receiver.disk.rate = 10 << 20);
    let (mut played, took) = complete(scene);
    // The last of 24 chunks is verified when the one four before it is stored.
    assert!((2000 * MS..2600 * MS).contains(&took), "{} ms", took / MS);
    let repeated = played.flow(0).figures.repeated;
    assert!(repeated <= SPARE, "waiting for credit is no reason to repeat: {repeated} packets");
}

/// Nothing is sent for the n+1st time while the receiver lacks anything that was sent fewer than n times.
#[test]
fn the_circular_schedule_keeps_its_order() {
    for seed in 0..8 {
        let object = Object::Chunks(vec![60_000; 12]);
        let config = FobsConfig { sender_chunks: 5, receiver_chunks: 4, ..greedy(object) };
        let scene = link(20 * MBIT, config).seed(seed).queue(20_000).at_own_interface();
        let lossy = |per_million| {
            move |link: &mut fobs_sim::link::LinkConfig| {
                link.faults.loss = Chance::ppm(per_million);
            }
        };
        let (played, _) = complete(scene.link(lossy(300_000)).back(lossy(100_000)));
        let (mut sent, mut stored) = (BTreeMap::<(u32, u16), u32>::new(), BTreeSet::new());
        let mut repeats = 0;
        for entry in played.log() {
            match entry.event {
                Event::Stored { chunk, packet_index } => _ = stored.insert((chunk, packet_index)),
                Event::Sent { header: Header::Data(header), .. } => {
                    let times = sent.entry((header.chunk, header.packet_index)).or_default();
                    *times += 1;
                    repeats += u32::from(*times > 1);
                    let times = *times;
                    let behind = sent.iter().find(|(place, n)| **n + 1 < times && !stored.contains(*place));
                    assert_eq!(behind, None, "seed {seed}: {header:?} for the {times}th time");
                }
                Event::Sent { .. } => {}
            }
        }
        assert!(repeats > 100, "seed {seed}: hardly anything was repeated");
    }
}

#[test]
fn greedy_wastes_little_where_its_own_link_is_narrow() {
    for rtt in [26 * MS, 65 * MS] {
        let scene = Scene::new(100 * MBIT, rtt).queue(64_000).at_own_interface().fobs(greedy(mebibytes(40)));
        let (mut played, _) = complete(scene);
        let (waste, share) = (played.flow(0).figures.waste(), played.share(0));
        assert!(waste <= 0.03 && share >= 0.9, "{} ms: waste {waste:.3}, share {share:.3}", rtt / MS);
    }
}

#[test]
fn greedy_never_pauses_before_completion() {
    let verify = 50 * MS;
    let scene = Scene::new(50 * MBIT, 40 * MS)
        .queue(30_000)
        .at_own_interface()
        .fobs(greedy(Object::Chunks(vec![400_000])))
        .between_ideal_hosts()
        .with(|flow| flow.receiver.hash_rate = 400_000 * SEC / verify);
    let (mut played, _) = complete(scene);
    let stored = played.flow(0).figures.ended.expect("it ended") - verify;
    let times: Vec<Nanos> = data_packets(&played).map(|(at, _)| at).filter(|at| *at < stored).collect();
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("packets");
    assert!(longest < MS, "a pause of {longest} ns");
}

#[test]
fn duplicates_of_data_and_acks_change_nothing() {
    for replay_window in [true, false] {
        let config = FobsConfig { replay_window, ..auto(Object::Chunks(vec![1 << 20; 4])) };
        let scene = link(100 * MBIT, config)
            .link(|link| link.faults.duplication = Chance::ppm(300_000))
            .back(|back| back.faults.duplication = Chance::ppm(500_000));
        let repeated = complete(scene).0.flow(0).figures.repeated;
        assert!(repeated <= SPARE, "replay window {replay_window}: {repeated} packets repeated");
    }
}

#[test]
fn marks_slow_auto_down_without_a_loss() {
    let run = |discipline| {
        let scene = Scene::new(100 * MBIT, 26 * MS)
            .queue(1 << 20)
            .link(|link| link.discipline = discipline)
            .fobs(auto(mebibytes(32)));
        complete(scene).0
    };
    let (unmarked, mut marked) = (run(Discipline::DropTail), run(Discipline::MarkAbove { bytes: 12_000 }));
    let queue = |played: &Played| played.bottleneck().queue_delay.0;
    assert!(queue(&marked) < queue(&unmarked), "marks did not shorten the queue");
    assert_eq!(marked.flow(0).figures.lost, 0);
    assert!(marked.share(0) > 0.85, "{}", marked.share(0));
}

#[test]
fn a_rate_limit_is_kept() {
    let limit = 20 * MBIT;
    let config = FobsConfig { rate_limit: Some(limit), ..auto(mebibytes(8)) };
    let (played, _) = complete(link(1000 * MBIT, config));
    let sent = played.log().iter().filter_map(|entry| match entry.event {
        Event::Sent { header: Header::Ack, .. } | Event::Stored { .. } => None,
        Event::Sent { len, .. } => Some((entry.at, u64::from(len) - 28)),
    });
    let sent: Vec<(Nanos, u64)> = sent.collect();
    let bytes: u64 = sent.iter().map(|(_, len)| len).sum();
    let time = Duration::from_nanos(sent[sent.len() - 1].0 - sent[0].0);
    let allowed = Rate::bits_per_second(limit).bytes_in(time);
    assert!(bytes <= allowed + 70_000 && bytes * 10 >= allowed * 9, "{bytes} bytes of {allowed}");
}

#[test]
fn four_seconds_without_acks_keep_packet_numbers_in_step() {
    // The window ends the flow long before truncated numbers could be mistaken; the simulator checks each of
    // them.
    complete(wire(fixed(mebibytes(64), 200 * MBIT)).ack_outage(100 * MS, 4 * SEC));
}
