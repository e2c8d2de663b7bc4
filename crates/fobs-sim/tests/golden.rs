//! What every controller makes of many paths, and of neighbours, as tables that are committed and reviewed like code:
//! `tests/golden/*.txt`. `FOBS_GOLDEN=write cargo test -p fobs-sim --test golden` writes them anew; read the difference before you
//! commit it.
//!
//! The lists are those of `CongestionControl::ALL` and `Algorithm::ALL`: a new member has its rows without a change here. Hosts are
//! ordinary, the bottleneck carries 100 Mbit/s behind interfaces of 200.

use fobs_proto::Rate;
use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::tcp::{Algorithm, TcpConfig};
use fobs_sim::flow::{FlowConfig, Traffic};
use fobs_sim::host::HostConfig;
use fobs_sim::link::{Faults, LinkConfig};
use fobs_sim::report::jain;
use fobs_sim::rng::Chance;
use fobs_sim::time::{MS, Nanos, SEC};
use fobs_sim::topology::Dumbbell;
use fobs_sim::world::{Config, World};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

const SEED: u64 = 1;
const RATE: u64 = 100_000_000;
/// An object that nobody finishes.
const ENDLESS: Object = Object::Bytes(1 << 50);
/// How long a cell of the grid runs, from the first packet.
const CELL_LASTS: Nanos = 10 * SEC;
const RTTS: [Nanos; 3] = [10 * MS, 65 * MS, 200 * MS];
/// Queues in quarters of the bandwidth-delay product.
const QUEUES: [(u64, &str); 3] = [(1, "1/4"), (4, "1"), (16, "4")];
const LOSSES: [(&str, u32); 4] =
    [("clean", 0), ("0.1% loss", 1_000), ("1% loss", 10_000), ("5% loss", 50_000)];

/// Whatever can be at one end of a cell.
#[derive(Clone, Copy)]
enum Contestant {
    Fobs(CongestionControl),
    Tcp(Algorithm),
}

impl Contestant {
    fn all() -> Vec<Contestant> {
        let tcp = Algorithm::ALL.map(Contestant::Tcp);
        CongestionControl::ALL.map(Contestant::Fobs).into_iter().chain(tcp).collect()
    }

    fn name(self) -> String {
        match self {
            Contestant::Fobs(cc) => cc.name().to_owned(),
            Contestant::Tcp(algorithm) => format!("tcp {}", algorithm.name()),
        }
    }

    fn traffic(self) -> Traffic {
        match self {
            Contestant::Fobs(cc) => {
                let cc = cc.with_rate(Rate::bits_per_second(RATE * 9 / 10));
                Traffic::Fobs(Box::new(FobsConfig::new(ENDLESS, cc)))
            }
            Contestant::Tcp(algorithm) => Traffic::Tcp(TcpConfig::endless(algorithm)),
        }
    }
}

/// Flows through one bottleneck, each between hosts of its own, joining at these times.
fn world(
    rtt: Nanos,
    queue_quarters: u64,
    loss: Chance,
    flows: &[(Contestant, Nanos)],
    lasts: Nanos,
) -> World {
    let product = RATE / 8 * rtt / SEC;
    let queue = (product * queue_quarters / 4).max(30_000);
    let faults = Faults { loss, ..Faults::default() };
    let bottleneck = LinkConfig { faults, ..LinkConfig::new("bottleneck", RATE, rtt / 2, queue) };
    let back = LinkConfig::wire("back", rtt / 2);
    let bell = Dumbbell { pairs: flows.len(), interface_rate: 2 * RATE, bottleneck, back };
    let mut config = Config::new("golden", SEED, lasts);
    config.sample = lasts;
    config.edges = bell.edges();
    for (i, (contestant, start)) in flows.iter().enumerate() {
        let (from, to) = (format!("s{i}"), format!("r{i}"));
        config.hosts.push(HostConfig::ordinary(&from));
        config.hosts.push(HostConfig::ordinary(&to));
        let flow = FlowConfig::new(&contestant.name(), &from, &to, contestant.traffic());
        config.flows.push(FlowConfig { start: *start, ..flow });
    }
    World::new(config).expect("hosts and routes exist")
}

fn run_until(world: &mut World, at: Nanos) {
    world.run_until(at).unwrap_or_else(|violation| panic!("{violation}\n{}", world.describe()));
}

/// Share of the link in %, waste in %, median delay in the queue in ms.
fn cell(rtt: Nanos, queue_quarters: u64, loss_ppm: u32, contestant: Contestant) -> String {
    let mut world = world(rtt, queue_quarters, Chance::ppm(loss_ppm), &[(contestant, 0)], CELL_LASTS);
    run_until(&mut world, CELL_LASTS);
    let figures = world.flow(0).figures;
    let share = figures.delivered as f64 * 8.0 / (RATE as f64 * CELL_LASTS as f64 / SEC as f64);
    let queue = world.link(0).queue_delay.0 as f64 / MS as f64;
    format!(" | {:>5.1} {:>6.2} {:>6.1}", share * 100.0, figures.waste() * 100.0, queue)
}

fn grid_of(contestant: Contestant) -> String {
    let mut block = String::new();
    for rtt in RTTS {
        for (quarters, queue) in QUEUES {
            write!(block, "{:<14} {:>4} {queue:>4}", contestant.name(), rtt / MS).expect("a string");
            for (_, loss_ppm) in LOSSES {
                block += &cell(rtt, quarters, loss_ppm, contestant);
            }
            block.push('\n');
        }
    }
    block + "\n"
}

/// Runs `work` for every contestant on all cores; blocks in the order of the list.
fn blocks(work: impl Fn(Contestant) -> String + Sync) -> String {
    let (all, next) = (Contestant::all(), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let mut done: Vec<(usize, String)> = std::thread::scope(|scope| {
        let work_through = || {
            let mut blocks = Vec::new();
            while let Some((i, contestant)) = all.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed))
            {
                blocks.push((i, work(*contestant)));
            }
            blocks
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work_through)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a world failed; see above")).collect()
    });
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, block)| block).collect()
}

fn compare(file: &str, table: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var("FOBS_GOLDEN").is_ok_and(|what| what == "write") {
        std::fs::write(&path, table).expect("the golden table can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (got, wanted) in table.lines().zip(golden.lines()) {
        assert_eq!(got, wanted, "if that is better, write {file} anew with FOBS_GOLDEN=write");
    }
    assert_eq!(table.lines().count(), golden.lines().count(), "{file} has other rows");
}

#[test]
fn every_controller_does_as_the_grid_says() {
    let mut table = String::from(
        "Goodput over 10 s as % of 100 Mbit/s, waste in %, median delay in the queue in ms\n\n                        ",
    );
    for (name, _) in LOSSES {
        write!(table, " |{name:^20}").expect("a string");
    }
    write!(
        table,
        "\n{:<14} {:>4} {:>4}{}\n\n",
        "",
        "RTT",
        "BDP",
        " | good%  waste  queue".repeat(LOSSES.len())
    )
    .expect("a string");
    table += &blocks(grid_of);
    compare("grid.txt", &table);
}

/// Bytes that each flow got between two moments.
fn shares(flows: &[(Contestant, Nanos)], from: Nanos, until: Nanos) -> Vec<f64> {
    let mut world = world(26 * MS, 4, Chance::NEVER, flows, until);
    run_until(&mut world, from);
    let before: Vec<u64> = (0..flows.len()).map(|i| world.flow(i).figures.delivered).collect();
    run_until(&mut world, until);
    (0..flows.len()).map(|i| (world.flow(i).figures.delivered - before[i]) as f64).collect()
}

fn fairness_of(contestant: Contestant) -> String {
    let mut row = format!("{:<14}", contestant.name());
    for algorithm in [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr] {
        let shares = shares(&[(Contestant::Tcp(algorithm), 0), (contestant, 3 * SEC)], 10 * SEC, 30 * SEC);
        write!(row, " {:>6.1}", shares[0] * 100.0 / (shares[0] + shares[1])).expect("a string");
    }
    for count in [2, 4, 8] {
        let flows: Vec<_> = (0..count).map(|i| (contestant, i * 2 * SEC)).collect();
        let last = (count - 1) * 2 * SEC;
        write!(row, " {:>6.3}", jain(&shares(&flows, last + 5 * SEC, last + 15 * SEC))).expect("a string");
    }
    row + "\n"
}

#[test]
fn every_controller_treats_others_as_the_fairness_table_says() {
    let mut table = String::from(
        "100 Mbit/s, 26 ms, queue of one bandwidth-delay product. Left: what a TCP flow keeps, % of what both get, 10 to 30 s \
         after it\nbegan, when the flow of the row joins it after 3 s. Right: Jain's index of 2, 4 and 8 flows of the row that join \
         every 2 s, from 5 to\n15 s after the last.\n\n",
    );
    let heads = ["reno", "cubic", "bbr", "2", "4", "8"];
    writeln!(table, "{:<14}{}", "", heads.map(|head| format!(" {head:>6}")).concat()).expect("a string");
    table += &blocks(fairness_of);
    compare("fairness.txt", &table);
}
