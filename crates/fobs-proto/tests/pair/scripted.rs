//! Scenes with a script: one thing goes wrong at a time, at a known moment.

use crate::auto::object;
use crate::path::{Change, MS, PathConfig, SEC};
use crate::world::{End, Hosts, Setup, World};
use fobs_proto::Rate;
use fobs_proto::congestion::{Auto, Controller, Fixed, Greedy};
use fobs_proto::sender::{PacketOut, ScheduleKind};
use fobs_proto::wire::{DATA_OVERHEAD, Header};
use std::collections::BTreeMap;
use std::time::Duration;

const PAYLOAD: u32 = 1172;

fn auto() -> Box<dyn Controller> {
    Box::new(Auto::new(1200))
}

fn fixed(bits: u64) -> Box<dyn Controller> {
    Box::new(Fixed::new(Rate::bits_per_second(bits)))
}

fn complete(setup: Setup) -> World {
    let mut world = World::new(setup);
    assert_eq!(world.run(), End::Complete);
    world
}

fn is_data(packet: &PacketOut) -> bool {
    matches!(packet.header, Header::Data(_))
}

#[test]
fn objects_of_every_awkward_size_arrive() {
    let full = (4 << 20) + 44;
    for chunks in [
        vec![1],
        vec![PAYLOAD - 1],
        vec![PAYLOAD],
        vec![PAYLOAD + 1],
        vec![64 * PAYLOAD],
        vec![full],
        vec![full, 1],
        vec![1, full],
        vec![(4 << 20) + (256 << 10) + 44],
        vec![45; 200],
        vec![PAYLOAD, PAYLOAD + 1, PAYLOAD - 1, 1],
    ] {
        for schedule in [ScheduleKind::LossDriven, ScheduleKind::Circular] {
            let mut setup = Setup::new(1, chunks.clone(), auto());
            setup.schedule = schedule;
            setup.data = PathConfig::link(100_000_000, 10 * MS, 1 << 20);
            complete(setup);
        }
    }
}

#[test]
fn one_byte_takes_one_way() {
    let world = complete(Setup::new(1, vec![1], auto()));
    assert_eq!(world.verified, Some(10 * MS));
}

#[test]
fn the_loss_of_the_last_packets_costs_no_timer() {
    // The link fails for the moment in which the object ends; the copies of the tail come after it.
    let setup = || {
        let mut setup = Setup::new(1, vec![100 * PAYLOAD], fixed(10_000_000));
        setup.data.mtu = 1228;
        setup
    };
    let clean = complete(setup());
    let last = clean.log.iter().filter(|(_, p)| is_data(p)).nth(99).expect("100 packets").0;
    let mut setup = setup();
    setup.data.outages = vec![(last - 2 * MS, last + MS / 10)];
    let world = complete(setup);
    assert!(world.sender.stats().packets_lost > 0, "nothing was lost");
    let (soonest, took) = (clean.verified.expect("complete"), world.verified.expect("complete"));
    assert!(took < soonest + 10 * MS, "{} ms after {} ms", took / MS, soonest / MS);
}

#[test]
fn lost_acks_cost_no_data_once_a_bitmap_comes() {
    // 300 ms without acks at a rate that the window allows: everything arrived, nearly nothing is sent again.
    let mut setup = Setup::new(1, object(8), fixed(50_000_000));
    setup.acks.outages = vec![(200 * MS, 500 * MS)];
    let world = complete(setup);
    let stats = world.sender.stats();
    assert!(stats.packets_sent < stats.packets_needed * 5 / 4, "{stats:?}");
    assert!(world.verified.expect("complete") < 2500 * MS, "{}", world.describe());
}

#[test]
fn no_ack_ever_before_a_late_first_one() {
    let mut setup = Setup::new(1, object(4), auto());
    setup.acks.outages = vec![(0, 3 * SEC)];
    let world = complete(setup);
    assert!(world.verified.expect("complete") < 7 * SEC, "{}", world.describe());
}

#[test]
fn five_seconds_of_nothing_are_survived_at_the_same_size() {
    let mut setup = Setup::new(1, object(32), auto());
    setup.data = PathConfig::link(100_000_000, 10 * MS, 1 << 20);
    setup.data.outages = vec![(SEC, 6 * SEC)];
    setup.acks.outages = vec![(SEC, 6 * SEC)];
    let world = complete(setup);
    // 32 MB take 2.8 s; the longest probe timeout is 2 s.
    assert!(world.verified.expect("complete") < (6 + 2 + 3) * SEC, "{}", world.describe());
    assert_eq!(world.sender.payload_size(), 1472 - DATA_OVERHEAD as u16, "an outage is no black hole");
    let stats = world.sender.stats();
    assert!(stats.packets_sent - stats.packets_needed <= 1200, "the outage was flooded: {stats:?}");
}

#[test]
fn a_black_hole_lays_chunks_out_anew() {
    let mut setup = Setup::new(1, object(32), auto());
    setup.data = PathConfig::link(100_000_000, 10 * MS, 1 << 20);
    setup.data.changes = vec![(SEC, Change::Mtu(1400))];
    let world = complete(setup);
    assert_eq!(world.sender.payload_size(), 1200 - DATA_OVERHEAD as u16);
    let again =
        world.log.iter().filter(|(_, p)| matches!(p.header, Header::Data(h) if h.attempt > 0)).count();
    assert!(again > 0, "no chunk was laid out anew");
    assert!(world.verified.expect("complete") < 5 * SEC, "{}", world.describe());
}

#[test]
fn the_packet_size_is_found_in_one_round_trip() {
    for (mtu, datagram) in [(1500, 1472), (1400, 1352), (9000, 8972), (1228, 1200)] {
        let mut setup = Setup::new(1, object(16), auto());
        setup.data = PathConfig { mtu, ..PathConfig::link(1_000_000_000, 10 * MS, 1 << 22) };
        setup.acks.mtu = 1228;
        let mut world = World::new(setup);
        // The first train, its acks, the probes right behind it, theirs.
        world.run_until(45 * MS);
        assert_eq!(world.sender.payload_size(), datagram - DATA_OVERHEAD as u16, "MTU {mtu}");
        assert_eq!(world.run(), End::Complete);
        let largest = world.log.iter().filter(|(_, p)| is_data(p)).map(|(_, p)| p.datagram_len()).max();
        assert_eq!(largest, Some(usize::from(datagram)), "MTU {mtu}");
    }
}

#[test]
fn mismatches_are_sent_again_until_the_attempts_are_used_up() {
    for (times, end) in [(1, End::Complete), (2, End::Complete), (3, End::Complete), (4, End::GaveUp)] {
        for schedule in [ScheduleKind::LossDriven, ScheduleKind::Circular] {
            let mut setup = Setup::new(1, vec![500_000; 5], auto());
            setup.schedule = schedule;
            setup.mismatches = BTreeMap::from([(2, times), (4, times)]);
            setup.hosts.verify = 3 * MS;
            assert_eq!(World::new(setup).run(), end, "{times} mismatches, {schedule:?}");
        }
    }
}

#[test]
fn a_mismatch_that_crosses_a_new_layout_does_not_strand_the_chunk() {
    // Acks are lost while the path shrinks: the sender lays a complete chunk out anew, the receiver acknowledges that as known,
    // and only then finds that the chunk is bad.
    for verify in [100, 300, 600, 1200, 2400] {
        let mut setup = Setup::new(1, vec![4 << 20; 3], fixed(100_000_000));
        setup.data.mtu = 1500;
        setup.data.changes = vec![(300 * MS, Change::Mtu(1300))];
        setup.acks.outages = vec![(250 * MS, 700 * MS)];
        setup.hosts.verify = verify * MS;
        setup.mismatches = BTreeMap::from([(0, 1), (1, 1)]);
        complete(setup);
    }
}

#[test]
fn a_slow_disk_stalls_the_sender_by_credit() {
    let mut setup = Setup::new(1, vec![1 << 20; 24], auto());
    setup.data = PathConfig::link(1_000_000_000, 5 * MS, 1 << 20);
    setup.receiver.chunks_max = 4;
    setup.hosts.store = 100 * MS;
    let world = complete(setup);
    // 24 chunks, one every 100 ms; the last is verified when the one four before it is stored.
    let took = world.verified.expect("complete");
    assert!((2000 * MS..2600 * MS).contains(&took), "{} ms", took / MS);
    let stats = world.sender.stats();
    assert!(
        stats.packets_sent <= stats.packets_needed + 8,
        "waiting for credit is no reason to repeat: {stats:?}"
    );
}

#[test]
fn the_circular_schedule_never_sends_again_before_everything_was_sent_as_often() {
    for seed in 0..8 {
        let mut setup = Setup::new(seed, vec![60_000; 12], Box::new(Greedy::new()));
        setup.schedule = ScheduleKind::Circular;
        setup.burst = Some(Greedy::BURST);
        setup.payload_size = Some(1024);
        setup.hosts.back_pressure = true;
        setup.data = PathConfig { loss_ppm: 300_000, ..PathConfig::link(20_000_000, 10 * MS, 20_000) };
        setup.acks.loss_ppm = 100_000;
        setup.sender_chunks_max = 5;
        setup.receiver.chunks_max = 4;
        let mut world = World::new(setup);
        let (mut seen, mut sent) = (0, BTreeMap::<(u32, u16), u32>::new());
        let mut repeats = 0;
        while !world.sender.is_complete() {
            world.step();
            for (_, packet) in &world.log[seen..] {
                let Header::Data(h) = packet.header else { continue };
                let times = sent.entry((h.chunk, h.packet_index)).or_default();
                *times += 1;
                repeats += u32::from(*times > 1);
                let times = *times;
                // What the receiver lacks is certainly unacknowledged.
                let behind =
                    sent.iter().find(|((chunk, index), n)| **n + 1 < times && world.lacks(*chunk, *index));
                assert_eq!(behind, None, "seed {seed}: {h:?} for the {times}th time");
            }
            seen = world.log.len();
        }
        assert!(repeats > 100, "seed {seed}: hardly anything was repeated");
    }
}

#[test]
fn greedy_wastes_little_on_a_link_that_pushes_back() {
    for (rtt, most) in [(26, 300), (65, 300)] {
        let mut setup = Setup::new(1, object(40), Box::new(Greedy::new()));
        setup.schedule = ScheduleKind::Circular;
        setup.burst = Some(Greedy::BURST);
        setup.payload_size = Some(1024);
        setup.hosts = Hosts { back_pressure: true, ..Hosts::ordinary() };
        setup.data = PathConfig::link(100_000_000, rtt * MS / 2, 64_000);
        setup.acks = PathConfig::clean(rtt * MS / 2);
        setup.checked = false;
        let world = complete(setup);
        assert!(world.waste() <= most, "{rtt} ms: {} of 10,000 wasted", world.waste());
        assert!(world.goodput_share(100_000_000) >= 9000, "{rtt} ms: {}", world.goodput_share(100_000_000));
    }
}

#[test]
fn greedy_never_pauses_before_completion() {
    let mut setup = Setup::new(1, vec![400_000], Box::new(Greedy::new()));
    setup.schedule = ScheduleKind::Circular;
    setup.burst = Some(Greedy::BURST);
    setup.payload_size = Some(1024);
    setup.hosts.back_pressure = true;
    setup.hosts.verify = 50 * MS;
    setup.data = PathConfig::link(50_000_000, 20 * MS, 30_000);
    setup.acks = PathConfig::clean(20 * MS);
    let world = complete(setup);
    let end = world.verified.expect("complete");
    let times: Vec<_> =
        world.log.iter().filter(|(at, p)| is_data(p) && *at < end - 50 * MS).map(|(at, _)| *at).collect();
    let longest = times.windows(2).map(|w| w[1] - w[0]).max().expect("packets");
    assert!(longest < MS, "a pause of {longest} ns");
}

#[test]
fn duplicates_of_data_and_acks_change_nothing() {
    for replay_window in [true, false] {
        let mut setup = Setup::new(1, vec![1 << 20; 4], auto());
        setup.data = PathConfig { duplicate_ppm: 300_000, ..PathConfig::link(100_000_000, 10 * MS, 1 << 20) };
        setup.acks.duplicate_ppm = 500_000;
        setup.replay_window = replay_window;
        let world = complete(setup);
        let stats = world.sender.stats();
        assert!(stats.packets_sent <= stats.packets_needed + 8, "{stats:?}");
    }
}

#[test]
fn marks_slow_auto_down_without_a_loss() {
    let run = |mark_above| {
        let mut setup = Setup::new(1, object(32), auto());
        setup.data = PathConfig { mark_above, ..PathConfig::link(100_000_000, 13 * MS, 1 << 20) };
        setup.acks = PathConfig::clean(13 * MS);
        setup.hosts = Hosts::ordinary();
        setup.checked = false;
        complete(setup)
    };
    let (unmarked, marked) = (run(None), run(Some(12_000)));
    assert!(
        marked.data.median_queue_delay() < unmarked.data.median_queue_delay(),
        "marks did not shorten the queue"
    );
    assert_eq!(marked.sender.stats().packets_lost, 0);
    assert!(marked.goodput_share(100_000_000) > 8500, "{}", marked.goodput_share(100_000_000));
}

#[test]
fn a_rate_limit_is_kept() {
    let mut setup = Setup::new(1, object(8), auto());
    setup.rate_limit = Some(Rate::bits_per_second(20_000_000));
    setup.data = PathConfig::link(1_000_000_000, 10 * MS, 1 << 20);
    let world = complete(setup);
    let bytes: usize = world.log.iter().map(|(_, p)| p.datagram_len()).sum();
    let (first, last) = (world.log[0].0, world.log[world.log.len() - 1].0);
    let limit = Rate::bits_per_second(20_000_000).bytes_in(Duration::from_nanos(last - first));
    assert!(bytes as u64 <= limit + 70_000, "{bytes} bytes where {limit} were allowed");
    assert!(bytes as u64 * 10 >= limit * 9, "{bytes} bytes where {limit} were allowed");
}

#[test]
fn a_window_longer_than_24_bits_of_numbers_stays_in_step() {
    // All acks vanish while data flows at a fixed rate: the window ends it long before numbers could be mistaken.
    let mut setup = Setup::new(1, object(64), fixed(200_000_000));
    setup.acks.outages = vec![(100 * MS, 4 * SEC)];
    setup.checked = false;
    complete(setup);
}
