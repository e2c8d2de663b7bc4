//! The scenario files of the repository: each is understood, runs, gives the same bytes twice, and can be
//! drawn.

use fobs_sim::time::SEC;
use fobs_sim::{Scenario, SimReport, World, plot};
use std::path::PathBuf;

/// Virtual time that each file is run for here.
const LASTS: u64 = 4 * SEC;

fn scenarios() -> Vec<(String, String)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries =
        std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("a directory that can be read").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .map(|path| {
            let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    found.sort();
    found
}

fn report(name: &str, text: &str, seed: Option<u64>) -> SimReport {
    let mut config = Scenario::parse(name, text).unwrap_or_else(|error| panic!("{name}: {error}")).config;
    config.duration = config.duration.min(LASTS);
    config.seed = seed.unwrap_or(config.seed);
    let mut world = World::new(config).expect("parsing has made it once");
    world.run().unwrap_or_else(|violation| panic!("{name}: {violation}\n{}", world.describe()));
    SimReport::of(&mut world)
}

#[test]
fn every_file_runs_and_gives_the_same_bytes_twice() {
    let all = scenarios();
    assert!(all.len() >= 5, "{} scenarios", all.len());
    for (name, text) in all {
        let (once, again) = (report(&name, &text, None), report(&name, &text, None));
        assert_eq!(once.json(), again.json(), "{name}");
        assert_eq!(once.table(), again.table(), "{name}");
        let svg = plot::svg(&once).expect("it can be drawn");
        assert_eq!(svg, plot::svg(&again).expect("twice"), "{name}");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
        assert!(once.flows.iter().any(|flow| flow.bytes > 0), "{name}: nothing arrives");
    }
}

#[test]
fn another_seed_gives_another_run() {
    let (name, text) =
        scenarios().into_iter().find(|(name, _)| name == "cross-traffic").expect("the file is there");
    assert_ne!(report(&name, &text, Some(1)).json(), report(&name, &text, Some(2)).json());
}
