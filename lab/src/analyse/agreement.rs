//! Goodput of the laboratory beside the simulator's, path by path.
//!
//! A path takes part if one flow of FOBS ran over it alone, without competing traffic or faults that the
//! simulator has under another name. It is run again in virtual time with the same rate, delay, queue, loss,
//! size and controller. Goodput is that of the data phase: medians of the valid runs here, of five seeds
//! there.

use std::path::PathBuf;

use toml::Table;

use super::virtual_path::{VirtualPath, simulate_all};
use crate::record::{End, Run};
use crate::report::Spread;
use crate::report::read::{Results, results};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;
/// Keys that a plan's path may have; a plan with others takes no part.
const KNOWN: [&str; 8] = ["name", "rate", "rtt", "bytes", "timeout", "vary", "forward", "seed"];
/// Seconds of virtual time that a copy has.
const SECONDS: f64 = 600.0;
/// Paths whose goodputs differ by at most this share agree.
const AGREES: f64 = 0.1;

/// Options of `agreement`.
#[derive(clap::Args)]
#[command(about = "Compare goodput in the laboratory with the simulator's, path by path")]
pub struct Args {
    /// Result files of `fobs-lab run`
    #[arg(required = true, value_name = "RESULT.jsonl")]
    results: Vec<PathBuf>,
}

/// The valid runs of one controller over one path.
struct Cell {
    path: String,
    controller: String,
    goodput_mbit: Vec<f64>,
    virtual_path: VirtualPath,
}

/// Prints the table.
pub fn run(args: &Args) -> Result<(), String> {
    let mut cells: Vec<Cell> = Vec::new();
    for file in &args.results {
        let results = results(file).map_err(|error| error.to_string())?;
        if is_plain(&results)? {
            results.runs.iter().for_each(|run| add(&mut cells, run));
        }
    }
    let paths: Vec<VirtualPath> = cells.iter().map(|cell| cell.virtual_path.clone()).collect();
    let reports = simulate_all(&paths, SEEDS)?;
    println!(
        "| path | controller | valid runs | laboratory, Mbit/s | simulator, Mbit/s | simulator / laboratory |"
    );
    println!("|---|---|---:|---:|---:|---:|");
    let mut agree = 0;
    for (cell, flows) in cells.iter().zip(&reports) {
        let here = median(cell.goodput_mbit.iter().copied());
        let there = median(flows.iter().map(|flow| flow.goodput_mbit));
        let ratio = there / here;
        agree += usize::from((ratio - 1.0).abs() <= AGREES);
        let (path, controller, runs) = (&cell.path, &cell.controller, cell.goodput_mbit.len());
        println!("| {path} | {controller} | {runs} | {here:.1} | {there:.1} | {ratio:.3} |");
    }
    println!("\n{agree} of {} paths agree within 10%.", cells.len());
    Ok(())
}

/// Whether the simulator has everything that the file's paths have.
fn is_plain(results: &Results) -> Result<bool, String> {
    let plan: Table =
        results.header.plan.parse().map_err(|error| format!("a header's plan is no TOML: {error}"))?;
    let paths = plan.get("path").and_then(|paths| paths.as_array()).map_or(&[][..], Vec::as_slice);
    Ok(paths.iter().filter_map(|path| path.as_table()).all(|path| has_only(path, &KNOWN)))
}

/// Whether a path has these keys only, and nothing but loss in the data's direction.
pub fn has_only(path: &Table, known: &[&str]) -> bool {
    let forward = path.get("forward").and_then(|forward| forward.as_table());
    path.keys().all(|key| known.contains(&key.as_str()))
        && forward.is_none_or(|forward| forward.keys().all(|key| key == "loss"))
}

/// Adds a run to its cell, if FOBS ran alone with nothing but a controller chosen.
fn add(cells: &mut Vec<Cell>, run: &Run) {
    let ([flow], Some(bytes)) = (run.flows.as_slice(), run.bytes) else { return };
    let chosen = flow.options.as_object();
    let plain = chosen.is_none_or(|options| options.keys().all(|key| key == "cc"));
    let alone = run.valid && run.load.is_none() && flow.tool == "fobs" && flow.end == End::Complete && plain;
    let (true, Some(goodput)) = (alone, flow.goodput_bps) else { return };
    let controller = flow.options["cc"].as_str().unwrap_or("auto").to_owned();
    let same = |cell: &&mut Cell| cell.path == run.path && cell.controller == controller;
    if let Some(cell) = cells.iter_mut().find(same) {
        cell.goodput_mbit.push(goodput / 1e6);
        return;
    }
    let virtual_path = VirtualPath {
        rate_bps: run.link.rate_bps,
        rtt_ms: run.link.rtt_ms,
        queue_bytes: run.link.queue_bytes as f64,
        loss: run.link.loss,
        bytes: bytes as f64,
        controller: controller.clone(),
        fixed_bps: None,
        seconds: SECONDS,
    };
    cells.push(Cell { path: run.path.clone(), controller, goodput_mbit: vec![goodput / 1e6], virtual_path });
}

/// The median; not a number where there are no values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_other_faults_than_loss_take_no_part() {
        let path = |text: &str| text.parse::<Table>().unwrap();
        assert!(has_only(&path("rate = \"1Mbit\"\nforward = { loss = \"1%\" }"), &KNOWN));
        assert!(!has_only(&path("forward = { loss = \"1%\", jitter = \"1ms\" }"), &KNOWN));
        assert!(!has_only(&path("rate = \"1Mbit\"\nhost_rate = \"1Mbit\""), &KNOWN));
    }
}
