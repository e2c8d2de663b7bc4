//! Every congestion control over the paths of a plan: in virtual time, or as the laboratory's valid runs have
//! it.
//!
//! In virtual time a path has its rate, round trip, loss, size and time-out and a queue of one
//! bandwidth-delay product; `fixed` sends at 95% of the link, a figure that no other controller gets. Paths
//! with anything else (competing traffic, faults) are left out. Figures are medians of the seeds or runs.

use std::path::{Path, PathBuf};

use fobs_proto::congestion::CongestionControl;
use toml::Table;

use super::agreement::{has_only, median};
use super::virtual_path::{VirtualPath, simulate_all};
use crate::plan::variants;
use crate::record::End;
use crate::report::read::results;
use crate::units::{Rate, Share, Size, Time};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
/// Rate of `fixed`, as a share of the link's.
const FIXED_SHARE: f64 = 0.95;
/// Keys that a path may have.
const KNOWN: [&str; 7] = ["name", "rate", "rtt", "bytes", "timeout", "vary", "forward"];
/// Smallest queue, bytes: 20 packets.
const QUEUE_MIN_BYTES: f64 = 30_000.0;
/// Most paths of a plan.
const PATHS_MAX: usize = 2000;
/// `auto` is named where its share is below that of the best other controller by more than this.
const TOLERANCE: f64 = 0.03;

/// Options of `controllers`.
#[derive(clap::Args)]
#[command(about = "Run every controller over the paths of a plan in virtual time")]
pub struct Args {
    /// The plan
    #[arg(long, value_name = "PLAN.toml", default_value = "lab/plans/grid.toml")]
    plan: PathBuf,
    /// Tables of the valid runs in these result files instead
    #[arg(long, value_name = "RESULT.jsonl", num_args = 1.., conflicts_with_all = ["plan", "cc"])]
    lab: Vec<PathBuf>,
    /// Only this controller; may be given more than once
    #[arg(long, value_name = "NAME")]
    cc: Vec<String>,
}

/// What a controller did on a path.
#[derive(Clone, Debug, PartialEq)]
struct Cell {
    path: String,
    controller: String,
    /// Median share of the link's rate.
    share: f64,
    /// Median waste; not a number where a run does not report it.
    waste: f64,
    /// Whether every run moved everything in time.
    complete: bool,
}

/// What a table shows of its cells.
type Figure = fn(&Cell) -> f64;

/// Rows and columns in their order, and what stands where they meet.
#[derive(Default)]
struct Grid {
    paths: Vec<String>,
    controllers: Vec<String>,
    cells: Vec<Cell>,
}

/// Prints the tables.
pub fn run(args: &Args) -> Result<(), String> {
    let grid = if args.lab.is_empty() { simulated(&args.plan, &args.cc)? } else { measured(&args.lab)? };
    print!("{}", grid.text());
    Ok(())
}

/// Every controller over every path in virtual time.
fn simulated(plan: &Path, chosen: &[String]) -> Result<Grid, String> {
    let name = plan.display();
    let text = std::fs::read_to_string(plan).map_err(|error| format!("cannot read {name}: {error}"))?;
    let plan: Table = text.parse().map_err(|error| format!("{name}: {error}"))?;
    let controllers: Vec<String> = match chosen {
        [] => CongestionControl::ALL.map(|control| control.name().to_owned()).into(),
        chosen => chosen.to_vec(),
    };
    let (mut grid, mut jobs) = (Grid { controllers, ..Grid::default() }, Vec::new());
    for (path, template) in paths(&plan).map_err(|error| format!("{name}: {error}"))? {
        for controller in &grid.controllers {
            let fixed_bps = (controller == "fixed").then_some(FIXED_SHARE * template.rate_bps);
            jobs.push(VirtualPath { controller: controller.clone(), fixed_bps, ..template.clone() });
        }
        grid.paths.push(path);
    }
    let reports = simulate_all(&jobs, SEEDS)?;
    for (index, (job, flows)) in jobs.iter().zip(&reports).enumerate() {
        grid.cells.push(Cell {
            path: grid.paths[index / grid.controllers.len()].clone(),
            controller: job.controller.clone(),
            share: median(flows.iter().map(|flow| flow.goodput_mbit * 1e6 / job.rate_bps)),
            waste: median(flows.iter().map(|flow| flow.waste)),
            complete: flows.iter().all(|flow| flow.outcome == "complete"),
        });
    }
    Ok(grid)
}

/// The names of a plan's paths and the paths themselves, without a controller: by table, then round trip,
/// then loss.
fn paths(plan: &Table) -> Result<Vec<(String, VirtualPath)>, String> {
    let tables = plan.get("path").and_then(|paths| paths.as_array()).ok_or("there is no [[path]]")?;
    let mut all = Vec::new();
    for table in tables.iter().filter_map(|table| table.as_table()).filter(|table| has_only(table, &KNOWN)) {
        let mut made = Vec::new();
        for variant in variants(table, "name", PATHS_MAX)? {
            made.push(path(&variant.table)?);
        }
        made.sort_by(|(_, one), (_, other)| {
            let key = |path: &VirtualPath| [path.rate_bps, path.rtt_ms, path.loss];
            key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal)
        });
        all.extend(made);
    }
    Ok(all)
}

fn path(table: &Table) -> Result<(String, VirtualPath), String> {
    let name = text(table, "name")?;
    let rate: Rate = quantity(table, "rate")?;
    let rtt: Time = quantity(table, "rtt")?;
    let bytes: Size = quantity(table, "bytes")?;
    let timeout: Time = quantity(table, "timeout")?;
    let forward = table.get("forward").and_then(|forward| forward.as_table());
    let loss: Share = forward.map_or(Ok(Share::default()), |forward| quantity(forward, "loss"))?;
    let rate_bps = rate.bits_per_second() as f64;
    let path = VirtualPath {
        rate_bps,
        rtt_ms: rtt.millis(),
        queue_bytes: (rate_bps / 8.0 * rtt.seconds()).max(QUEUE_MIN_BYTES),
        loss: loss.fraction(),
        bytes: bytes.bytes() as f64,
        controller: String::new(),
        fixed_bps: None,
        seconds: timeout.seconds(),
    };
    Ok((name.to_owned(), path))
}

fn text<'a>(table: &'a Table, key: &str) -> Result<&'a str, String> {
    let value = table.get(key).and_then(|value| value.as_str());
    value.ok_or_else(|| format!("a path has no {key} (or it is no text)"))
}

fn quantity<T: std::str::FromStr<Err = crate::units::UnitError>>(
    table: &Table,
    key: &str,
) -> Result<T, String> {
    text(table, key)?.parse().map_err(|error: crate::units::UnitError| format!("{key}: {error}"))
}

/// The laboratory's valid runs; rows and columns also have what was valid in no run.
fn measured(files: &[PathBuf]) -> Result<Grid, String> {
    let mut grid = Grid::default();
    // One cell for each run, which are then put together.
    let mut runs: Vec<Cell> = Vec::new();
    for file in files {
        for run in results(file).map_err(|error| error.to_string())?.runs {
            let Some(flow) = run.flows.first() else { continue };
            let controller = flow.options["cc"].as_str().unwrap_or("auto").to_owned();
            for (names, name) in [(&mut grid.paths, &run.path), (&mut grid.controllers, &controller)] {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            if run.valid {
                // A copy that was cut off reports no waste, and no share if not one chunk was complete.
                let waste = flow.report["waste"].as_f64().unwrap_or(f64::NAN);
                let (share, complete) = (flow.share.unwrap_or(0.0), flow.end == End::Complete);
                runs.push(Cell { path: run.path, controller, share, waste, complete });
            }
        }
    }
    for path in &grid.paths {
        for controller in &grid.controllers {
            let these = || runs.iter().filter(|run| run.path == *path && run.controller == *controller);
            if these().next().is_some() {
                grid.cells.push(Cell {
                    path: path.clone(),
                    controller: controller.clone(),
                    share: median(these().map(|run| run.share)),
                    // A median over some of the runs would stand beside a share over all of them.
                    waste: if these().all(|run| run.waste.is_finite()) {
                        median(these().map(|run| run.waste))
                    } else {
                        f64::NAN
                    },
                    complete: these().all(|run| run.complete),
                });
            }
        }
    }
    Ok(grid)
}

impl Grid {
    fn cell(&self, path: &str, controller: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.path == path && cell.controller == controller)
    }

    /// Both tables, and where `auto` is below the best other controller.
    fn text(&self) -> String {
        let mut text = String::new();
        let figures: [(&str, Figure); 2] =
            [("Share of the link, %", |cell| cell.share), ("Waste, %", |cell| cell.waste)];
        for (title, figure) in figures {
            let columns = self.controllers.join(" | ");
            text += &format!("| {title} | {columns} |\n|---|{}\n", "---:|".repeat(self.controllers.len()));
            for path in &self.paths {
                let row = self.controllers.iter().map(|controller| self.cell(path, controller));
                let row: Vec<String> = row.map(|cell| word(cell, figure)).collect();
                text += &format!("| {path} | {} |\n", row.join(" | "));
            }
            text.push('\n');
        }
        text + &self.paths.iter().filter_map(|path| self.behind(path)).collect::<String>()
    }

    /// A sentence if `auto` is behind on this path.
    fn behind(&self, path: &str) -> Option<String> {
        let auto = self.cell(path, "auto")?;
        let others = self.controllers.iter().filter(|controller| *controller != "auto");
        let others = others.filter_map(|controller| self.cell(path, controller));
        let best = others.reduce(|best, other| if other.share > best.share { other } else { best })?;
        let ratio = auto.share / best.share;
        (ratio < 1.0 - TOLERANCE).then(|| {
            let (name, waste) = (&best.controller, 100.0 * best.waste);
            format!("{path}: auto has {ratio:.3} of {name}, whose waste is {waste:.1}%\n")
        })
    }
}

/// A cell of a table; a star marks one that was not complete in time.
fn word(cell: Option<&Cell>, figure: Figure) -> String {
    match cell {
        Some(cell) if !figure(cell).is_nan() => {
            format!("{:.1}{}", 100.0 * figure(cell), if cell.complete { "" } else { "*" })
        }
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_multiplied_out_by_round_trip_then_loss() {
        let plan: Table = r#"
            [[path]]
            name = "{rtt}-{loss}"
            rate = "100Mbit"
            bytes = "1MB"
            timeout = "9s"
            vary = { rtt = ["26ms", "200ms"], "forward.loss" = ["0%", "1%"] }
            [[path]]
            name = "with jitter"
            rate = "1Gbit"
            rtt = "1ms"
            bytes = "1MB"
            timeout = "9s"
            forward = { jitter = "1ms" }
        "#
        .parse()
        .unwrap();
        let paths = paths(&plan).unwrap();
        let names: Vec<&str> = paths.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["26ms-0%", "26ms-1%", "200ms-0%", "200ms-1%"]);
        assert_eq!((paths[3].1.queue_bytes, paths[3].1.loss), (2_500_000.0, 0.01));
    }

    #[test]
    fn auto_is_named_where_it_is_behind() {
        let cell = |controller: &str, share, waste, complete| Cell {
            path: "p".to_owned(),
            controller: controller.to_owned(),
            share,
            waste,
            complete,
        };
        let names = ["auto", "bbr", "cubic", "tfrc"].map(str::to_owned);
        let cells = vec![
            cell("auto", 0.8, f64::NAN, false),
            cell("bbr", 0.9, 0.01, true),
            cell("cubic", 0.1, 0.0, true),
        ];
        let grid = Grid { paths: vec!["p".to_owned()], controllers: names.to_vec(), cells };
        assert_eq!(
            grid.text(),
            "| Share of the link, % | auto | bbr | cubic | tfrc |\n|---|---:|---:|---:|---:|\n\
             | p | 80.0* | 90.0 | 10.0 | - |\n\n\
             | Waste, % | auto | bbr | cubic | tfrc |\n|---|---:|---:|---:|---:|\n\
             | p | - | 1.0 | 0.0 | - |\n\n\
             p: auto has 0.889 of bbr, whose waste is 1.0%\n"
        );
    }
}
