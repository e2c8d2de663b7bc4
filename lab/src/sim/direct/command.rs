//! The command line and output of `fobs-lab sim direct`.

use std::path::PathBuf;

use clap::ValueHint;
use fobs_diagnose::window::read_all;

use super::{Link, Physical, Row, simulate};
use crate::diagnose::args::MethodArgs;
use crate::diagnose::{classifier, unreadable};
use crate::failure::{EXIT_INTERNAL, Failure};
use crate::output::print;

/// Simulate a transfer at 10 Gbit/s that recorded losses drive, to measure the benefit of a classifier of
/// losses.
///
/// Each recorded window stands for one window of a virtual transfer with HighSpeed TCP's response. One such
/// transfer ignores losses that the classifier attributes to the receiver, the other ignores none
/// (docs/simulator.md).
#[derive(Debug, clap::Args)]
pub struct DirectArgs {
    /// Long-term loss rates, reached by clean windows between the recorded ones [default: recorded windows in
    /// order]
    #[arg(long, value_name = "P", value_delimiter = ',')]
    loss_rate: Vec<f64>,

    /// Number of windows in each transfer
    #[arg(long, value_name = "N", default_value_t = 16_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    windows: u32,

    /// Seed that selects the windows
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    method: MethodArgs,

    /// Print one JSON object per loss rate
    #[arg(long)]
    json: bool,

    /// Window files, as for fobs-lab diagnose
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: &DirectArgs) -> Result<(), Failure> {
    let recorded = read_all(&args.files).map_err(unreadable)?;
    let mut classifier = classifier(&args.method)?;
    let rates: Vec<Option<f64>> = if args.loss_rate.is_empty() {
        vec![None]
    } else {
        args.loss_rate.iter().copied().map(Some).collect()
    };
    let link = Link::default();
    let mut table = String::from(
        "loss rate  events / in range  receiver  network  inconclusive  with, Mbit/s  ledger, Mbit/s  without, Mbit/s  ratio\n",
    );
    for loss_rate in rates {
        let physical = Physical { loss_rate, windows: args.windows, seed: args.seed };
        let row = simulate(&recorded, &physical, &link, &mut classifier)
            .map_err(|error| Failure::new(error.to_string()))?;
        if args.json {
            let line = serde_json::to_string(&row).map_err(|error| {
                Failure::with_code(EXIT_INTERNAL, format!("cannot print a row as JSON: {error}"))
            })?;
            print(&format!("{line}\n"))?;
        } else {
            table.push_str(&line(&row));
        }
    }
    if args.json { Ok(()) } else { print(&table) }
}

/// A row in the columns of `seeds/001` Table 1.
fn line(row: &Row) -> String {
    let share = |count: u32| 100.0 * f64::from(count) / f64::from(row.in_range.max(1));
    format!(
        "{:<9.6}  {:>8} / {:<8}  {:>7.2}%  {:>6.2}%  {:>11.2}%  {:>12.1}  {:>14}  {:>15.1}  {:>5.1}\n",
        row.loss_rate,
        row.events,
        row.in_range,
        share(row.receiver),
        share(row.network),
        share(row.inconclusive),
        row.with_bps / 1e6,
        row.ledger_bps.map_or_else(|| "-".to_owned(), |rate| format!("{:.1}", rate / 1e6)),
        row.without_bps / 1e6,
        row.with_bps / row.without_bps,
    )
}
