//! What controllers make of many paths and of each other, as tables that are committed and reviewed like
//! code: `tests/golden/*.txt`. They hold whole percents, milliseconds and Mbit/s of medians over seeds.
//!
//! `FOBS_GOLDEN=write cargo test -p fobs-sim --features long --test golden` writes all of them anew;
//! read the difference before you commit it. New members of the family and new files in `scenarios/paths/`
//! get their rows without a change here.

#![cfg_attr(not(feature = "long"), allow(dead_code, reason = "the long tests use more of it"))]

#[path = "../sim/support/mod.rs"]
mod support;

mod auto;
mod controllers;
#[cfg(feature = "long")]
mod fairness;
mod paths;

use fobs_proto::Rate;
use fobs_proto::congestion::CongestionControl;
use fobs_sim::flow::Traffic;
use fobs_sim::flow::fobs::{FobsConfig, Object};
use fobs_sim::flow::tcp::{Algorithm, TcpConfig};
use fobs_sim::scene::Played;
use fobs_sim::time::MS;
use fobs_sim::world::FlowView;
use std::path::PathBuf;
use support::median;

/// Columns of grids: loss per million and queue in quarters of the bandwidth-delay product.
const CELLS: [(&str, u32, u64); 6] = [
    ("clean", 0, 4),
    ("0.1% loss", 1_000, 4),
    ("1% loss", 10_000, 4),
    ("5% loss", 50_000, 4),
    ("queue 1/4", 0, 1),
    ("queue 4", 0, 16),
];
/// Seeds of every cell.
const SEEDS: [u64; 3] = [1, 2, 3];
const MBIT: u64 = 1_000_000;
const MB: u64 = 1_000_000;

/// Compares a table with the committed one, line by line, or writes it anew.
fn compare(name: &str, table: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var("FOBS_GOLDEN").is_ok_and(|what| what == "write") {
        std::fs::write(&path, table).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differ: Vec<String> = table
        .lines()
        .zip(golden.lines())
        .filter(|(got, wanted)| got != wanted)
        .map(|(got, wanted)| format!("- {wanted}\n+ {got}"))
        .collect();
    let same = differ.is_empty() && table.lines().count() == golden.lines().count();
    assert!(
        same,
        "{name}.txt differs; if the change is meant, write the tables anew with\n\
         FOBS_GOLDEN=write cargo test -p fobs-sim --features long --test golden\n{}",
        differ.join("\n")
    );
}

/// A sender at one end of a cell.
#[derive(Debug, Clone, Copy)]
enum Contestant {
    Fobs(CongestionControl),
    Tcp(Algorithm),
}

impl Contestant {
    fn all() -> Vec<Contestant> {
        let tcp = Algorithm::ALL.iter().copied().map(Contestant::Tcp);
        CongestionControl::ALL.map(Contestant::Fobs).into_iter().chain(tcp).collect()
    }

    fn name(self) -> String {
        match self {
            Contestant::Fobs(cc) => cc.name().to_owned(),
            Contestant::Tcp(algorithm) => format!("tcp {}", algorithm.name()),
        }
    }

    /// A flow of `bytes` (endless for `None`) over a link of `rate`; `fixed` sends at nine tenths of the
    /// link.
    fn traffic(self, rate: u64, bytes: Option<u64>) -> Traffic {
        match self {
            Contestant::Fobs(cc) => {
                let cc = cc.with_rate(Rate::bits_per_second(rate * 9 / 10));
                Traffic::Fobs(Box::new(FobsConfig::new(Object::Bytes(bytes.unwrap_or(1 << 50)), cc)))
            }
            Contestant::Tcp(algorithm) => Traffic::Tcp(TcpConfig { bytes, ..TcpConfig::endless(algorithm) }),
        }
    }
}

/// The figures of a cell: those of the first flow and of the bottleneck.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Share of the link, percent.
    share: f64,
    /// Waste, percent.
    waste: f64,
    /// Median delay in the queue, milliseconds.
    queue: f64,
}

impl Figures {
    const HEAD: &str = " good waste queue";

    fn of(played: &mut Played) -> Figures {
        let share = played.share(0) * 100.0;
        let FlowView { figures, .. } = played.flow(0);
        let queue = played.bottleneck().queue_delay.0 as f64 / MS as f64;
        Figures { share, waste: figures.waste() * 100.0, queue }
    }

    /// The median of each figure, as a cell of a table.
    fn cell(all: &[Figures]) -> String {
        let [share, waste, queue] = [
            median(all, |figures| figures.share),
            median(all, |figures| figures.waste),
            median(all, |figures| figures.queue),
        ];
        format!(" {share:>4.0} {waste:>5.0} {queue:>5.0}")
    }
}
