//! Random worlds: the seed draws the object, the configuration and which faults there are (swarm testing: each world has a few
//! faults, not all of them). The rules of `world` must hold in every one, and every one must end.

use crate::path::{Change, MS, Nanos, PathConfig, SEC, US};
use crate::rng::Rng;
use crate::world::{End, Hosts, Setup, World};
use fobs_proto::Rate;
use fobs_proto::congestion::{Auto, CongestionControl, Controller, Fixed, Greedy};
use fobs_proto::receiver::ReceiverConfig;
use fobs_proto::sender::ScheduleKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const WORLDS: u64 = 300;
/// Most faults end here; from then on the world must finish within the deadline.
const FAULTS_END: Nanos = 4 * SEC;
/// What a world may take beyond that and its turns: probe timeouts of up to 2 s, mismatches, a slow start after the faults.
const DEADLINE: Nanos = 60 * SEC;
/// What those take longer that come back slowly from the faults, or not at all: 6 MB at the least rate there is.
const FAMILY_DEADLINE: Nanos = 700 * SEC;
/// A turn of all the chunks that may be under way takes at most this many times what it must: reports get lost, too.
const TURN_FACTOR: u64 = 8;

#[test]
fn swarm() {
    each_seed("swarm", |seed| run(draw(seed)));
}

/// The same worlds with the controllers of the family in turn.
#[test]
fn family_in_a_swarm() {
    let family = CongestionControl::ALL.map(|cc| cc.with_rate(Rate::bits_per_second(20_000_000)));
    each_seed("family_in_a_swarm", |seed| {
        let cc = family[seed as usize % family.len()];
        // Without a host that pushes back `greedy` is a flood; it has its own worlds in the other swarm.
        if cc != CongestionControl::Greedy {
            let mut setup = draw(seed);
            setup.controller = cc.controller(1200).expect("a rate is given");
            setup.deadline += FAMILY_DEADLINE;
            run(setup);
        }
    });
}

fn each_seed(test: &str, run: impl Fn(u64)) {
    if let Ok(seed) = std::env::var("FOBS_SEED") {
        run(seed.parse().expect("FOBS_SEED is a number"));
        return;
    }
    let worlds = std::env::var("FOBS_WORLDS").map_or(WORLDS, |n| n.parse().expect("FOBS_WORLDS is a number"));
    for seed in 0..worlds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("world {seed} failed; FOBS_SEED={seed} cargo test -p fobs-proto --test pair {test}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn run(setup: Setup) {
    let hopeless = setup.mismatches.values().any(|n| *n > 3);
    let mut world = World::new(setup);
    let end = world.run();
    assert!(hopeless || end == End::Complete, "{}", world.describe());
}

fn draw(seed: u64) -> Setup {
    let rng = &mut Rng::new(seed ^ 0x5eed);
    let greedy = rng.chance(150_000);
    let rates = [2_000_000, 20_000_000, 100_000_000, 1_000_000_000, 0];
    let rate = rng.pick(if greedy { &rates[..3] } else { &rates[..] });
    let rtt = rng.pick(&[200 * US, 5 * MS, 30 * MS, 120 * MS]);
    // What a slow link carries in a few seconds.
    let bytes_max = if rate == 0 { 6_000_000 } else { (rate / 8 * 3).min(6_000_000) };
    let mut setup = Setup::new(seed, object(rng, bytes_max), controller(rng, rate, greedy));
    // The circle repeats as fast as the link allows: without a limit a run would be all repeats.
    if rate > 0 && rate < 1_000_000_000 && rng.chance(300_000) {
        setup.schedule = ScheduleKind::Circular;
    }
    setup.burst = rng.pick(&[None, None, Some(1), Some(2), Some(10)]);
    setup.payload_size = rng.pick(&[None, None, None, Some(512), Some(1024), Some(1300)]);
    setup.rate_limit = rng.pick(&[None, None, None, Some(Rate::bits_per_second(30_000_000))]);
    setup.sender_chunks_max = rng.range(2, 40) as usize;
    setup.receiver = ReceiverConfig {
        ack_every: rng.pick(&[1, 2, 10, 64, 64, 64, 500]),
        ack_delay_max: Duration::from_micros(rng.pick(&[100, 1_000, 5_000, 5_000, 25_000])),
        chunks_max: rng.range(1, 40) as u32,
    };
    setup.hosts = Hosts {
        sender_late: rng.pick(&[0, 100 * US, 3 * MS]),
        receiver_wake: rng.pick(&[(0, 0), (50 * US, 100 * US), (0, 4 * MS)]),
        verify: rng.pick(&[0, 2 * MS, 100 * MS]),
        store: rng.pick(&[0, 2 * MS, 40 * MS]),
        back_pressure: false,
    };
    // Greedy fills any queue with what is known already: on a slow link each turn would take as long as the queue.
    let queue = rng.pick(if greedy { &[20_000] } else { &[20_000, 100_000, 1_000_000][..] });
    // A size that is given must pass; only senders that probe meet a path that shrinks.
    let probes = setup.payload_size.is_none();
    setup.data = path(rng, rate, rtt / 2, queue, probes);
    setup.acks = path(rng, if rate == 0 { 0 } else { rate.max(20_000_000) }, rtt / 2, 1_000_000, false);
    // Greedy without back-pressure would fill one moment with the whole object, again and again.
    if greedy {
        setup.burst = Some(Greedy::BURST);
        setup.hosts.back_pressure = true;
        setup.schedule = ScheduleKind::Circular;
    }
    for _ in 0..rng.pick(&[0, 0, 1, 3]) {
        let chunk = rng.range(0, setup.chunks.len() as u64 - 1) as u32;
        setup.mismatches.insert(chunk, rng.range(1, 2) as u8);
    }
    setup.replay_window = !rng.chance(200_000);
    setup.deadline = FAULTS_END + DEADLINE + TURN_FACTOR * turns(&setup, rtt, rate);
    setup
}

/// How long the object takes if each turn of chunks waits for the one before it.
fn turns(setup: &Setup, rtt: Nanos, rate: u64) -> Nanos {
    let hosts = &setup.hosts;
    let at_once = (setup.receiver.chunks_max as usize).min(setup.sender_chunks_max) as u64;
    let chunks = setup.chunks.len() as u64;
    let bytes: u64 = setup.chunks.iter().map(|n| u64::from(*n)).sum();
    let link = (bytes * 8 * SEC).checked_div(rate).unwrap_or(0);
    let turn = rtt + hosts.verify + 2 * hosts.sender_late + hosts.receiver_wake.1 + 30 * MS;
    chunks.div_ceil(at_once) * turn + chunks * hosts.store + link
}

fn object(rng: &mut Rng, bytes_max: u64) -> Vec<u32> {
    let mut left = rng.range(1, bytes_max);
    let largest = rng.pick(&[700, 5_000, 100_000, 1_000_000, 4_000_000]);
    let mut chunks = vec![];
    while left > 0 && chunks.len() < 400 {
        let len = rng.range(1, largest).min(left);
        chunks.push(len as u32);
        left -= len;
    }
    chunks
}

fn controller(rng: &mut Rng, rate: u64, greedy: bool) -> Box<dyn Controller> {
    match rng.range(0, 4) {
        _ if greedy => Box::new(Greedy::new()),
        0 => Box::new(Fixed::new(Rate::bits_per_second(if rate == 0 { 200_000_000 } else { rate * 9 / 10 }))),
        _ => Box::new(Auto::new(1200)),
    }
}

fn path(rng: &mut Rng, rate: u64, delay: Nanos, queue: u64, shrinks: bool) -> PathConfig {
    let mut path =
        PathConfig { mtu: rng.pick(&[1500, 1500, 1400, 9000]), ..PathConfig::link(rate, delay, queue) };
    if rng.chance(400_000) {
        path.loss_ppm = rng.pick(&[1_000, 20_000, 100_000, 400_000]);
    }
    if rng.chance(150_000) {
        path.loss_bursts = Some((rng.pick(&[200, 3_000]), rng.pick(&[30_000, 300_000])));
    }
    if rng.chance(150_000) {
        path.duplicate_ppm = rng.pick(&[10_000, 300_000]);
    }
    if rng.chance(200_000) {
        path.reorder = (rng.pick(&[1_000, 50_000, 500_000]), rng.pick(&[MS, 20 * MS]));
    }
    if rng.chance(200_000) {
        path.jitter = rng.pick(&[200 * US, 5 * MS]);
    }
    for _ in 0..rng.pick(&[0, 0, 0, 1, 3]) {
        let from = rng.range(0, FAULTS_END);
        path.outages.push((from, (from + rng.range(MS, 2 * SEC)).min(FAULTS_END)));
    }
    if rng.chance(150_000) {
        path.mark_above = Some(10_000);
    }
    if shrinks && rng.chance(150_000) {
        path.changes.push((rng.range(0, FAULTS_END - 1), Change::Mtu(1300)));
    }
    path.changes.push((FAULTS_END, Change::Calm));
    path
}
