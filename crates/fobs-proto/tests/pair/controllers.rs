//! What each of the family makes of the same few paths, as a committed table: `tests/golden/controllers.txt`; columns as in
//! `auto`. Every run is a whole transfer, so that each of them is also seen to finish.

use crate::auto::{MBIT, link, millis, object, percent};
use crate::golden;
use crate::path::{MS, PathConfig, SEC};
use crate::world::{End, Hosts, Setup, World};
use fobs_proto::Rate;
use fobs_proto::congestion::{CongestionControl, Controller};
use std::fmt::Write as _;

const SEED: u64 = 1;
/// Virtual time for one transfer: the slowest, linear at 1% loss, sends at a twentieth of the link.
const DEADLINE: u64 = 2000 * SEC;

/// A path of the table.
struct Column {
    name: &'static str,
    data: PathConfig,
    rate: u64,
    megabytes: u32,
}

fn columns() -> Vec<Column> {
    let medium = |quarters| link(100 * MBIT, 26 * MS, quarters);
    let column = |name, data: PathConfig, megabytes| Column { name, rate: data.rate, data, megabytes };
    vec![
        column("100 Mb/s 26 ms", medium(4), 64),
        column("0.1% loss", PathConfig { loss_ppm: 1_000, ..medium(4) }, 64),
        column("1% loss", PathConfig { loss_ppm: 10_000, ..medium(4) }, 64),
        column("queue 1/4 BDP", medium(1), 64),
        column("queue 4 BDP", medium(16), 64),
        column("1 Gb/s 65 ms", link(1000 * MBIT, 65 * MS, 4), 512),
    ]
}

/// Those that adapt; `greedy` needs a host that pushes back, and `fixed` a rate.
fn family() -> Vec<CongestionControl> {
    let adapts =
        |cc: &CongestionControl| !matches!(cc, CongestionControl::Greedy | CongestionControl::Fixed { .. });
    CongestionControl::ALL.into_iter().filter(adapts).collect()
}

fn run(controller: Box<dyn Controller>, column: &Column) -> World {
    let mut setup = Setup::new(SEED, object(column.megabytes), controller);
    setup.acks = PathConfig { mtu: 1500, ..PathConfig::clean(column.data.delay) };
    setup.data = column.data.clone();
    setup.hosts = Hosts::ordinary();
    setup.checked = false;
    setup.deadline = DEADLINE;
    let mut world = World::new(setup);
    assert_eq!(world.run(), End::Complete);
    world
}

fn row(cc: CongestionControl) -> String {
    let mut row = format!("{:<12}", cc.name());
    for column in columns() {
        let world = run(cc.controller(1200).expect("it needs no rate"), &column);
        let (share, waste) = (percent(world.goodput_share(column.rate)), percent(world.waste()));
        let queue = millis(world.data.median_queue_delay());
        write!(row, " | {share:>6} {waste:>6} {queue:>6}").expect("a string");
    }
    row + "\n"
}

/// One line of numbers every so often, for people: `FOBS_CC=cubic FOBS_COLUMN=0 FOBS_TRACE=<ms> cargo test ... one_controller`.
#[test]
fn one_controller() {
    let Ok(name) = std::env::var("FOBS_CC") else { return };
    let cc: CongestionControl = name.parse().expect("FOBS_CC names a controller");
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let column = &columns()[number("FOBS_COLUMN").unwrap_or(0)];
    let every = number("FOBS_TRACE").unwrap_or(100) as u64 * MS;
    let mut setup =
        Setup::new(SEED, object(column.megabytes), cc.controller(1200).expect("it needs no rate"));
    setup.acks = PathConfig { mtu: 1500, ..PathConfig::clean(column.data.delay) };
    setup.data = column.data.clone();
    setup.hosts = Hosts::ordinary();
    setup.checked = false;
    setup.deadline = DEADLINE;
    let mut world = World::new(setup);
    let (mut at, mut before) = (0, 0);
    while !world.receiver.is_complete() {
        at += every;
        world.run_until(at);
        let got = world.receiver.stats().bytes;
        let controller = world.sender.controller();
        println!(
            "{:>7} ms {:>10} window {:>9} pacing {:>14} got {:>5} Mbit/s, {:>9} in flight, rtt {:?}, {:?}",
            at / MS,
            controller.state(),
            controller.congestion_window(),
            controller.pacing_rate().unwrap_or(Rate::ZERO).to_string(),
            (got - before) * 8 * 1000 / every,
            world.sender.bytes_in_flight(),
            world.sender.rtt().latest().unwrap_or_default(),
            (world.sender.stats().packets_lost, world.data.stats().dropped),
        );
        before = got;
    }
}

#[test]
fn each_controller_does_as_the_golden_table_says() {
    let rows = std::thread::scope(|threads| {
        let rows: Vec<_> = family().into_iter().map(|cc| threads.spawn(move || row(cc))).collect();
        rows.into_iter().map(|thread| thread.join().expect("a row of the table")).collect::<String>()
    });
    let mut table = String::from("Goodput as % of the link, waste in %, median delay in the queue in ms\n\n");
    write!(table, "{:<12}", "").expect("a string");
    for column in columns() {
        write!(table, " |{:^21}", column.name).expect("a string");
    }
    writeln!(table, "\n{:<12}{}", "", " |  good%  waste  queue".repeat(columns().len())).expect("a string");
    golden::compare("controllers", &(table + &rows));
}
