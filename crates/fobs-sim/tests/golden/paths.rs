//! `auto` over paths that change, lose, or are shared: the scenario files of `scenarios/paths/`.

use crate::support::{each, median};
use crate::{SEEDS, compare};
use fobs_sim::{Scenario, SimReport, World};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Scenarios that take longer than all the others together.
const LONG: [&str; 3] = ["bursts", "fast", "two-hosts"];

/// The names of all scenarios, and their text.
fn scenarios() -> Vec<(String, String)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/paths");
    let entries = std::fs::read_dir(&directory).expect("scenarios/paths can be read");
    let mut found: Vec<(String, String)> = entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a text file"))
        })
        .collect();
    found.sort();
    found
}

/// Goodput, what the other flows deliver meanwhile, waste and delay in the queue.
fn play(name: &str, text: &str, seed: u64) -> [f64; 4] {
    let mut config = Scenario::parse(name, text).unwrap_or_else(|error| panic!("{name}: {error}")).config;
    config.seed = seed;
    let mut world = World::new(config).expect("parsing has made it once");
    world.run().unwrap_or_else(|violation| panic!("{name}, seed {seed}: {violation}"));
    let report = SimReport::of(&mut world);
    let (flow, others) = report.flows.split_first().expect("a flow");
    assert_eq!(flow.outcome, "complete", "{name}, seed {seed}");
    let others = others.iter().fold(0.0, |sum, flow| sum + flow.goodput_mbit);
    let queue =
        report.links.iter().find(|link| link.name == "bottleneck").map_or(0.0, |link| link.queue_ms_median);
    [flow.goodput_mbit, others, flow.waste * 100.0, queue]
}

fn table(golden: &str, wanted: impl Fn(&str) -> bool) {
    let scenarios: Vec<_> = scenarios().into_iter().filter(|(name, _)| wanted(name)).collect();
    let runs: Vec<_> = scenarios.iter().flat_map(|scenario| SEEDS.map(|seed| (scenario, seed))).collect();
    let figures = each(&runs, |((name, text), seed)| play(name, text, *seed));
    let mut table = String::from("auto over scenarios/paths/*.toml: medians\n\n");
    writeln!(table, "{:<18} {:>6} {:>6} {:>6} {:>8}", "", "Mbit/s", "others", "waste%", "queue ms")
        .expect("a string");
    for ((name, _), seeds) in scenarios.iter().zip(figures.chunks(SEEDS.len())) {
        let [goodput, others, waste, queue] = [0, 1, 2, 3].map(|i| median(seeds, |figures| figures[i]));
        writeln!(table, "{name:<18} {goodput:>6.0} {others:>6.0} {waste:>6.0} {queue:>8.0}")
            .expect("a string");
    }
    compare(golden, &table);
}

#[test]
fn auto_does_as_the_table_of_paths_says() {
    table("paths", |name| !LONG.contains(&name));
}

#[test]
#[cfg(feature = "long")]
fn auto_does_as_the_table_of_long_paths_says() {
    table("paths-long", |name| LONG.contains(&name));
}
