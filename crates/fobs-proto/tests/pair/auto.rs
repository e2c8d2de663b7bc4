//! What `auto` makes of many paths, as a table that is committed and reviewed like code: `tests/golden/auto.txt`.
//!
//! Both hosts are ordinary (`Hosts::ordinary`): late wake-ups, batches, coarse stamps. Shares are of what the link carries,
//! IP and UDP headers counted, from the first data packet sent to the last chunk verified; with full packets of a 1500-byte
//! path 96.27% is all there is.

use crate::golden;
use crate::path::{Change, MS, Nanos, PathConfig, SEC, US};
use crate::rng::Rng;
use crate::world::{End, Hosts, Setup, World};
use fobs_proto::congestion::Auto;
use std::fmt::Write as _;

pub const MBIT: u64 = 1_000_000;
const SEED: u64 = 1;
/// Queues are not shallower than this many bytes, whatever the bandwidth-delay product: 40 full packets.
const QUEUE_MIN: u64 = 60_000;
const LOSSES_PPM: [u32; 4] = [0, 1_000, 10_000, 50_000];

/// Chunks of an object of so many MiB, each with its trailer (protocol 7.1).
pub fn object(megabytes: u32) -> Vec<u32> {
    let mut left = u64::from(megabytes) << 20;
    let mut chunks = vec![];
    while left > 0 {
        let data = left.min(4 << 20);
        chunks.push(data as u32 + 44);
        left -= data;
    }
    chunks
}

/// A link with a queue of so many quarters of the bandwidth-delay product.
pub fn link(rate: u64, rtt: Nanos, queue_quarters: u64) -> PathConfig {
    let product = (u128::from(rate) * u128::from(rtt) / 8 / u128::from(SEC)) as u64;
    PathConfig::link(rate, rtt / 2, (product * queue_quarters / 4).max(QUEUE_MIN))
}

fn world(data: PathConfig, megabytes: u32) -> World {
    let mut setup = Setup::new(SEED, object(megabytes), Box::new(Auto::new(1200)));
    setup.acks = PathConfig { mtu: 1500, ..PathConfig::clean(data.delay) };
    setup.data = data;
    setup.hosts = Hosts::ordinary();
    setup.checked = false;
    setup.deadline = 1000 * SEC;
    World::new(setup)
}

fn run(data: PathConfig, megabytes: u32) -> World {
    let mut world = world(data, megabytes);
    if std::env::var("FOBS_TRACE").is_ok() {
        trace(&mut world);
    }
    assert_eq!(world.run(), End::Complete);
    world
}

pub fn percent(of_10_000: u64) -> String {
    format!("{}.{:02}", of_10_000 / 100, of_10_000 % 100)
}

pub fn millis(ns: Nanos) -> String {
    format!("{}.{}", ns / MS, ns % MS / (MS / 10))
}

/// Rows of one rate.
fn grid(rate: u64, megabytes: u32) -> String {
    let mut table = String::new();
    for rtt in [200 * US, 26 * MS, 65 * MS, 200 * MS] {
        for queue_quarters in [1, 4, 16] {
            let queue =
                ["1/4", "1", "4"][[1, 4, 16].iter().position(|q| *q == queue_quarters).expect("listed")];
            write!(table, "{:>5} {:>6} {queue:>4}", rate / MBIT, millis(rtt)).expect("a string");
            for loss_ppm in LOSSES_PPM {
                let world = run(PathConfig { loss_ppm, ..link(rate, rtt, queue_quarters) }, megabytes);
                let (share, waste) = (percent(world.goodput_share(rate)), percent(world.waste()));
                let queue = millis(world.data.median_queue_delay());
                write!(table, " | {share:>6} {waste:>6} {queue:>6}").expect("a string");
            }
            table.push('\n');
        }
    }
    table
}

/// A path that changes, or that is not ours alone.
struct Scene {
    name: &'static str,
    data: PathConfig,
    megabytes: u32,
    /// What there is for us to take: bits per second, from when on.
    available: Vec<(Nanos, u64)>,
}

fn scene(name: &'static str, data: PathConfig, megabytes: u32, available: &[(Nanos, u64)]) -> Scene {
    Scene { name, data, megabytes, available: available.to_vec() }
}

fn scenes() -> Vec<Scene> {
    let base = || link(100 * MBIT, 26 * MS, 4);
    let changes = |what: Change| PathConfig { changes: vec![(2 * SEC, what)], ..base() };
    let policed = |rtt, rate, depth| PathConfig { policer: Some((rate, depth)), ..link(1000 * MBIT, rtt, 4) };
    let beside_tcp =
        |quarters| PathConfig { cross: 40 * MBIT, cross_yields: true, ..link(100 * MBIT, 26 * MS, quarters) };
    let (all, half) = (100 * MBIT, 50 * MBIT);
    vec![
        scene("the rate halves", changes(Change::Rate(half)), 64, &[(0, all), (2 * SEC, half)]),
        scene("the rate doubles", changes(Change::Rate(2 * all)), 96, &[(0, all), (2 * SEC, 2 * all)]),
        scene("ten times the rate", changes(Change::Rate(10 * all)), 512, &[(0, all), (2 * SEC, 10 * all)]),
        scene("a tenth of the rate", changes(Change::Rate(all / 10)), 48, &[(0, all), (2 * SEC, all / 10)]),
        scene(
            "a hundredth of the rate",
            changes(Change::Rate(all / 100)),
            26,
            &[(0, all), (2 * SEC, all / 100)],
        ),
        scene("5% loss begins", changes(Change::Loss(50_000)), 64, &[(0, all)]),
        scene("half is taken", PathConfig { cross: half, ..base() }, 64, &[(0, half)]),
        scene("half is taken later", changes(Change::Cross(half)), 64, &[(0, all), (2 * SEC, half)]),
        scene(
            "half is given back",
            PathConfig { cross: half, ..changes(Change::Cross(0)) },
            64,
            &[(0, half), (2 * SEC, all)],
        ),
        scene("TCP beside, 1/4 BDP", beside_tcp(1), 128, &[(0, all)]),
        scene("TCP beside, 1 BDP", beside_tcp(4), 128, &[(0, all)]),
        scene("TCP beside, 4 BDP", beside_tcp(16), 128, &[(0, all)]),
        scene("policer, 256 kB", policed(26 * MS, all, 256_000), 64, &[(0, all)]),
        scene("policer, 4 MB", policed(26 * MS, all, 4_000_000), 64, &[(0, all)]),
        scene("policer, 65 ms", policed(65 * MS, 5 * all, 1_000_000), 256, &[(0, 5 * all)]),
        scene(
            "outage of 5 s",
            PathConfig { outages: vec![(2 * SEC, 7 * SEC)], ..base() },
            64,
            &[(0, all), (2 * SEC, 0), (7 * SEC, all)],
        ),
        scene("marks above 30 kB", PathConfig { mark_above: Some(30_000), ..base() }, 64, &[(0, all)]),
        scene("a train ten times too fast", fooled(1000 * MBIT), 64, &[(0, all)]),
        scene("a train ten times too slow", fooled(10 * MBIT), 64, &[(0, all)]),
        scene("bursts of all of it", bursts(), 512, &[(0, 500 * MBIT)]),
        scene("jitter of 5 ms", PathConfig { jitter: 5 * MS, ..base() }, 64, &[(0, all)]),
        scene("2% come 3 ms late", PathConfig { reorder: (20_000, 3 * MS), ..base() }, 64, &[(0, all)]),
        scene(
            "losses of 20 in a row",
            PathConfig { loss_bursts: Some((300, 50_000)), ..base() },
            64,
            &[(0, all)],
        ),
        scene("two hosts, 6 Gbit/s", two_hosts(200 * US, 4_000_000), 1024, &[(0, 60 * all)]),
        scene("two hosts, 1 MB queue", two_hosts(500 * US, 1_000_000), 1024, &[(0, 60 * all)]),
        scene("10 Gbit/s, 65 ms", link(10_000 * MBIT, 65 * MS, 4), 2048, &[(0, 100 * all)]),
        scene("1 Mbit/s, 100 ms", link(MBIT, 100 * MS, 4), 2, &[(0, MBIT)]),
    ]
}

/// The first train arrives at `rate`, and after it the link is one of 100 Mbit/s: as if hosts had stalled and hurried.
fn fooled(rate: u64) -> PathConfig {
    PathConfig { rate, changes: vec![(100 * MS, Change::Rate(100 * MBIT))], ..link(100 * MBIT, 65 * MS, 4) }
}

/// Somebody sends at the rate of the link for 100 ms on average, and pauses for as long; exponential, never yields.
fn bursts() -> PathConfig {
    let mut rng = Rng::new(SEED);
    let (mut at, mut on, mut changes) = (0, false, Vec::new());
    while at < 60 * SEC {
        on = !on;
        changes.push((at, Change::Cross(if on { 1000 * MBIT } else { 0 })));
        let uniform = (rng.range(1, 1 << 52) as f64) / (1u64 << 52) as f64;
        at += (-uniform.ln() * 100.0 * MS as f64) as u64;
    }
    PathConfig { changes, ..link(1000 * MBIT, 65 * MS, 4) }
}

/// A pair of hosts without a link between them to speak of: the receiving CPU is the narrow place, its socket the queue.
fn two_hosts(rtt: Nanos, socket: u64) -> PathConfig {
    PathConfig { queue: socket, ..link(6000 * MBIT, rtt, 4) }
}

fn play(scene: Scene) -> String {
    let world = run(scene.data, scene.megabytes);
    let (from, to) = (world.began, world.verified.expect("complete"));
    let mut bits = 0u128;
    for (i, (since, rate)) in scene.available.iter().enumerate() {
        let until = scene.available.get(i + 1).map_or(to, |next| next.0.min(to));
        bits += u128::from(until.saturating_sub((*since).max(from))) * u128::from(*rate) / u128::from(SEC);
    }
    let sent = u128::from(object(scene.megabytes).iter().map(|n| u64::from(*n)).sum::<u64>()) * 8;
    let share = percent((sent * 10_000 / bits) as u64);
    let (waste, queue) = (percent(world.waste()), millis(world.data.median_queue_delay()));
    let other = world.data.cross_bytes() * 8 * 1000 / to;
    format!("{:<24} {share:>6} {waste:>6} {queue:>6} {other:>6}\n", scene.name)
}

/// One line of numbers every so often, for people: `FOBS_TRACE=<ms> cargo test ... one_scene`.
fn trace(world: &mut World) {
    let every = std::env::var("FOBS_TRACE").ok().and_then(|n| n.parse().ok()).unwrap_or(10) * MS;
    let (mut at, mut before) = (0, 0);
    while !world.receiver.is_complete() {
        at += every;
        world.run_until(at);
        let (got, stats) = (world.receiver.stats().bytes, world.sender.stats());
        println!(
            "{:>7} ms {:>7} {} got {:>5} Mbit/s, {:>9} in flight, rtt {:?}, {} sent, {} lost, {} dropped",
            at / MS,
            world.sender.controller().state(),
            world.sender.controller().pacing_rate().expect("auto paces"),
            (got - before) * 8 * 1000 / every,
            world.sender.bytes_in_flight(),
            world.sender.rtt().latest().unwrap_or_default(),
            stats.packets_sent,
            stats.packets_lost,
            world.data.stats().dropped,
        );
        before = got;
    }
}

/// The pace three of the path's own round trips after its rate has changed, bits per second.
fn pace_after_a_change(from: u64, to: u64, rtt: Nanos, at: Nanos) -> u64 {
    let changes = vec![(at, Change::Rate(to))];
    let mut world = world(PathConfig { changes, ..link(from, rtt, 4) }, 4096);
    world.run_until(at + 3 * rtt);
    world.sender.controller().pacing_rate().expect("auto paces").as_bytes() * 8
}

/// Moments at which the rate changes, over more than one cycle from drain to drain.
const MOMENTS: u64 = 10;
const BETWEEN: Nanos = 263 * MS;

/// A fall shows as a queue, a rise only as room, in which a probe looks for it. One that meets the probe itself is found late
/// (docs/controllers.md): that may be one moment of ten.
#[test]
fn a_change_of_the_rate_is_followed_within_three_round_trips() {
    let follows = |from: u64, to: u64, rtt: Nanos| {
        let paces: Vec<u64> =
            (0..MOMENTS).map(|n| pace_after_a_change(from, to, rtt, 5 * SEC + n * BETWEEN)).collect();
        let right = |pace: &&u64| if to < from { **pace < to } else { (to * 4 / 5..to * 2).contains(*pace) };
        let followed = paces.iter().filter(right).count() as u64;
        let path = format!("{} to {} Mbit/s, {} ms", from / MBIT, to / MBIT, millis(rtt));
        assert!(followed >= MOMENTS - 1, "{path}: {paces:?} bits per second");
    };
    std::thread::scope(|threads| {
        for rtt in [26 * MS, 65 * MS, 200 * MS] {
            threads.spawn(move || {
                for times in [2, 4, 10] {
                    follows(100 * MBIT, 100 * MBIT / times, rtt);
                    follows(100 * MBIT, 100 * MBIT * times, rtt);
                }
                for times in [2, 4] {
                    follows(1000 * MBIT, 1000 * MBIT / times, rtt);
                    follows(1000 * MBIT, 1000 * MBIT * times, rtt);
                }
            });
        }
    });
}

#[test]
fn one_scene() {
    let Ok(wanted) = std::env::var("FOBS_SCENE") else { return };
    let found = scenes().into_iter().find(|s| s.name == wanted);
    println!("{}", play(found.expect("FOBS_SCENE names a scene of the table")));
}

#[test]
fn auto_does_as_the_golden_table_says() {
    let grids = std::thread::scope(|threads| {
        let rows = [(10, 64), (100, 64), (1000, 256)]
            .map(|(mbit, megabytes)| threads.spawn(move || grid(mbit * MBIT, megabytes)));
        rows.map(|thread| thread.join().expect("a row of the grid")).concat()
    });
    let mut table = String::from("Goodput as % of the link, waste in %, median delay in the queue in ms\n\n");
    writeln!(
        table,
        "{:>5} {:>6} {:>4} |{:^22}|{:^22}|{:^22}|{:^22}",
        "", "", "", "clean", "0.1% loss", "1% loss", "5% loss"
    )
    .expect("a string");
    writeln!(table, "{:>5} {:>6} {:>4}{}", "Mb/s", "RTT ms", "BDP", " |  good%  waste   queue".repeat(4))
        .expect("a string");
    table += &grids;
    writeln!(table, "\n{:<24} {:>6} {:>6} {:>6} {:>6}", "", "good%", "waste", "queue", "other Mbit/s")
        .expect("a string");
    for scene in scenes() {
        table += &play(scene);
    }
    golden::compare("auto", &table);
}
