//! What `auto` makes of many paths, as a table that is committed and reviewed like code.

use crate::path::{MS, Nanos, PathConfig, SEC, US};
use crate::world::{End, Hosts, Setup, World};
use fobs_proto::congestion::Auto;
use std::fmt::Write as _;

const MBIT: u64 = 1_000_000;
/// Data of a full chunk, and the trailer that every chunk has (protocol 7.1).
const CHUNK: u32 = (4 << 20) + 44;
/// Queues are not shallower than this many bytes, whatever the bandwidth-delay product: 40 full packets.
const QUEUE_MIN: u64 = 60_000;

/// A cell of the grid.
#[derive(Debug, Clone, Copy)]
struct Cell {
    rate: u64,
    rtt: Nanos,
    loss_ppm: u32,
    /// Queue in quarters of the bandwidth-delay product.
    queue_quarters: u64,
    megabytes: u32,
}

struct Outcome {
    goodput: u64,
    waste: u64,
    queue: Nanos,
    dropped: u64,
}

pub fn object(megabytes: u32) -> Vec<u32> {
    let mut left = u64::from(megabytes) << 20;
    let mut chunks = vec![];
    while left > 0 {
        let data = left.min(4 << 20) as u32;
        chunks.push(data + 44);
        left -= u64::from(data);
    }
    assert!(chunks.iter().all(|n| *n <= CHUNK));
    chunks
}

pub fn path_setup(seed: u64, megabytes: u32, data: PathConfig) -> Setup {
    let mut setup = Setup::new(seed, object(megabytes), Box::new(Auto::new(1200)));
    setup.acks = PathConfig { mtu: 1500, ..PathConfig::clean(data.delay) };
    setup.data = data;
    setup.hosts = Hosts::ordinary();
    setup.checked = false;
    setup.deadline = 1000 * SEC;
    setup
}

fn run(cell: Cell) -> Outcome {
    let bdp = (u128::from(cell.rate) * u128::from(cell.rtt) / 8 / u128::from(SEC)) as u64;
    let queue = (bdp * cell.queue_quarters / 4).max(QUEUE_MIN);
    let mut data = PathConfig::link(cell.rate, cell.rtt / 2, queue);
    data.loss_ppm = cell.loss_ppm;
    let mut world = World::new(path_setup(1, cell.megabytes, data));
    assert_eq!(world.run(), End::Complete, "{cell:?}");
    Outcome {
        goodput: world.goodput_share(cell.rate),
        waste: world.waste(),
        queue: world.data.median_queue_delay(),
        dropped: world.data.stats().dropped * 10_000 / world.data.stats().entered,
    }
}

#[test]
fn grid() {
    let mut table = String::new();
    for (rate, rtts, megabytes) in
        [(10 * MBIT, [200 * US, 26 * MS, 65 * MS, 200 * MS], 64), (100 * MBIT, [200 * US, 26 * MS, 65 * MS, 200 * MS], 64), (1000 * MBIT, [200 * US, 26 * MS, 65 * MS, 200 * MS], 256)]
    {
        for rtt in rtts {
            for queue_quarters in [1, 4, 16] {
                write!(table, "{:>5} {:>6} {:>2} ", rate / MBIT, rtt / US, queue_quarters).unwrap();
                for loss_ppm in [0, 1_000, 10_000, 50_000] {
                    let o = run(Cell { rate, rtt, loss_ppm, queue_quarters, megabytes });
                    write!(table, "| {:>5} {:>5} {:>4} {:>5} ", o.goodput, o.waste, o.dropped, o.queue / 100_000).unwrap();
                }
                table.push('\n');
                println!("{}", table.lines().last().unwrap());
            }
        }
    }
}

/// One path, with a trace of the controller.
#[test]
fn trace() {
    let Ok(spec) = std::env::var("FOBS_TRACE") else { return };
    let n: Vec<u64> = spec.split(',').map(|n| n.parse().unwrap()).collect();
    let (rate, rtt, loss, quarters, mb) = (n[0] * MBIT, n[1] * US, n[2] as u32, n[3], n[4] as u32);
    let bdp = rate / 8 * rtt / SEC;
    let mut data = PathConfig::link(rate, rtt / 2, (bdp * quarters / 4).max(QUEUE_MIN));
    data.loss_ppm = loss;
    let mut world = World::new(path_setup(1, mb, data));
    let every = n.get(5).copied().unwrap_or(rtt / 4 / US).max(1000) * US;
    let mut t = 0;
    let mut last = 0;
    while !world.receiver.is_complete() || !world.sender.is_complete() {
        t += every;
        world.run_until(t);
        let r = world.receiver.stats().bytes;
        println!(
            "{:>8.1} ms {:>9} pace {:>8.2} got {:>8.2} Mbit/s flight {:>9} srtt {:>7.2} ms lost {:>6} sent {:>7} drop {:>5}",
            t as f64 / 1e6,
            world.sender.controller().state(),
            world.sender.controller().pacing_rate().unwrap().as_bytes() as f64 * 8.0 / 1e6,
            (r - last) as f64 * 8.0 / every as f64 * 1e3,
            world.sender.bytes_in_flight(),
            world.sender.rtt().latest().unwrap_or_default().as_secs_f64() * 1e3,
            world.sender.stats().packets_lost,
            world.sender.stats().packets_sent,
            world.data.stats().dropped,
        );
        last = r;
        if t > 900 * SEC { break }
    }
    println!("goodput {} waste {}", world.goodput_share(rate), world.waste());
}
