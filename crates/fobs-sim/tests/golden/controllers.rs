//! Every controller alone on a path.

use crate::support::each;
use crate::{Contestant, Figures, MB, MBIT, SEEDS, compare};
use fobs_sim::Scene;
use fobs_sim::rng::Chance;
use fobs_sim::time::{MS, Nanos, SEC};
use std::fmt::Write as _;

/// A path of a table.
struct Column {
    name: &'static str,
    rate: u64,
    rtt: Nanos,
    /// Queue in quarters of the bandwidth-delay product.
    quarters: u64,
    loss_ppm: u32,
}

const MEDIUM: Column = Column { name: "", rate: 100 * MBIT, rtt: 26 * MS, quarters: 4, loss_ppm: 0 };

/// Of whole transfers: 20 MB, and 100 MB over the fast path.
const COLUMNS: [Column; 6] = [
    Column { name: "100 Mb/s 26 ms", ..MEDIUM },
    Column { name: "0.1% loss", loss_ppm: 1_000, ..MEDIUM },
    Column { name: "1% loss", loss_ppm: 10_000, ..MEDIUM },
    Column { name: "queue 1/4 BDP", quarters: 1, ..MEDIUM },
    Column { name: "queue 4 BDP", quarters: 16, ..MEDIUM },
    Column { name: "1 Gb/s 65 ms", rate: 1000 * MBIT, rtt: 65 * MS, ..MEDIUM },
];

/// Virtual time for one transfer: the slowest send at a fiftieth of the link.
const PATIENCE: Nanos = 2_000 * SEC;

const RTTS: [Nanos; 3] = [10 * MS, 65 * MS, 200 * MS];
/// How long a cell of the grid runs.
const CELL_LASTS: Nanos = 10 * SEC;

fn scene(column: &Column, seed: u64) -> Scene {
    Scene::new(column.rate, column.rtt)
        .seed(seed)
        .queue_quarters(column.quarters)
        .interface_rate(2 * column.rate)
        .link(|link| link.faults.loss = Chance::ppm(column.loss_ppm))
}

/// Runs every row's cells over the seeds; `cell` gets row, column and seed.
fn table(rows: usize, columns: usize, cell: impl Fn(usize, usize, u64) -> Figures + Sync) -> Vec<String> {
    let runs: Vec<(usize, usize, u64)> = (0..rows)
        .flat_map(|row| (0..columns).flat_map(move |column| SEEDS.map(|seed| (row, column, seed))))
        .collect();
    let figures = each(&runs, |(row, column, seed)| cell(*row, *column, *seed));
    let rows = figures.chunks(columns * SEEDS.len());
    rows.map(|row| row.chunks(SEEDS.len()).map(|cell| format!(" |{}", Figures::cell(cell))).collect())
        .collect()
}

fn heads(width: usize, names: &[&str]) -> String {
    let count = names.len();
    let names: String = names.iter().map(|name| format!(" |{name:^17}")).collect();
    let figures = format!(" |{}", Figures::HEAD).repeat(count);
    format!("{:width$}{names}\n{:width$}{figures}\n", "", "")
}

#[test]
fn every_controller_completes_as_the_table_says() {
    let contestants = Contestant::all();
    let rows = table(contestants.len(), COLUMNS.len(), |row, column, seed| {
        let (contestant, column) = (contestants[row], &COLUMNS[column]);
        let bytes = if column.rate > 100 * MBIT { 100 * MB } else { 20 * MB };
        let traffic = contestant.traffic(column.rate, Some(bytes));
        let mut played = scene(column, seed).lasts(PATIENCE).flow(traffic).play();
        assert!(played.flow(0).outcome.is_complete(), "{} over {}", contestant.name(), column.name);
        Figures::of(&mut played)
    });
    let mut text =
        String::from("Whole transfers: goodput and waste in %, median delay in the queue in ms.\n\n");
    text += &heads(14, &COLUMNS.map(|column| column.name));
    for (contestant, row) in contestants.iter().zip(rows) {
        writeln!(text, "{:<14}{row}", contestant.name()).expect("a string");
    }
    compare("controllers", &text);
}

#[test]
#[cfg(feature = "long")]
fn every_controller_does_as_the_grid_says() {
    let contestants = Contestant::all();
    let lines: Vec<(Contestant, Nanos)> =
        contestants.iter().flat_map(|contestant| RTTS.map(|rtt| (*contestant, rtt))).collect();
    let rows = table(lines.len(), crate::CELLS.len(), |row, column, seed| {
        let ((contestant, rtt), (_, loss_ppm, quarters)) = (lines[row], crate::CELLS[column]);
        let path = Column { rtt, loss_ppm, quarters, ..MEDIUM };
        let traffic = contestant.traffic(path.rate, None);
        Figures::of(&mut scene(&path, seed).lasts(CELL_LASTS).flow(traffic).play())
    });
    let mut text = String::from(
        "The first 10 s at 100 Mbit/s: goodput and waste in %, median delay in the queue in ms. Queues in \
         bandwidth-delay\nproducts, one where nothing else is said.\n\n",
    );
    text += &heads(18, &crate::CELLS.map(|cell| cell.0));
    for ((contestant, rtt), row) in lines.iter().zip(rows) {
        writeln!(text, "{:<14}{:>4}{row}", contestant.name(), rtt / MS).expect("a string");
    }
    compare("grid", &text);
}
