//! Random sessions of several lanes over random paths with faults: no rule is broken, and after the faults
//! each completes. `FOBS_SEED` plays one of them, `FOBS_WORLDS` as many from there on.

use crate::support::number;
use fobs_sim::rng::Rng;
use fobs_sim::{Scenario, SimReport, World};
use std::fmt::Write as _;

/// Worlds that are played without a wish.
const WORLDS: u64 = if cfg!(feature = "long") { 3000 } else { 150 };
/// Faults end then, seconds.
const CALM: u64 = 8;
/// A world ends then, seconds: 30 MB over the slowest path take 120 s.
const LASTS: u64 = 300;

/// A number between two, uniform in the logarithm.
fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    let share = rng.range(0, 1000) as f64 / 1000.0;
    low * (high / low).powf(share)
}

/// A path between the two hosts, and its faults.
fn path(rng: &mut Rng, id: usize) -> String {
    let (rate, delay) = (between(rng, 2.0, 200.0), between(rng, 0.1, 100.0));
    let queue = between(rng, 5.0, 200.0);
    let mut text = format!(
        "[[link]]\nfrom = \"a\"\nto = \"r{id}\"\nrate_mbit = 2000\ndelay_ms = 0\n\
         [[link]]\nname = \"path{id}\"\nfrom = \"r{id}\"\nto = \"b\"\nrate_mbit = {rate:.3}\n\
         delay_ms = {delay:.3}\nqueue_ms = {queue:.3}\n"
    );
    for (key, most) in [("loss", 0.02), ("duplication", 0.02), ("corruption", 0.01)] {
        if rng.range(0, 3) == 0 {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(text, "{key} = {:.4}", between(rng, 0.0001, most));
        }
    }
    if rng.range(0, 4) == 0 {
        let _ = writeln!(text, "reordering = 0.05\nreordering_ms = {:.3}", between(rng, 0.1, 20.0));
    }
    let outages: Vec<String> = (0..rng.range(0, 3))
        .map(|at| {
            let from = at * 2500 + rng.range(0, 1500);
            format!("[{}, {}]", from as f64 / 1e3, (from + rng.range(10, 900)) as f64 / 1e3)
        })
        .collect();
    if rng.range(0, 3) == 0 {
        let _ = writeln!(text, "outages_s = [[{}, 1000]]", rng.range(0, 4000) as f64 / 1e3);
    } else if !outages.is_empty() {
        let _ = writeln!(text, "outages_s = [{}]", outages.join(", "));
    }
    text
}

/// A world of one session.
fn world(seed: u64) -> String {
    let mut rng = Rng::stream(seed, 47);
    let rng = &mut rng;
    let paths = rng.range(1, 4) as usize;
    let mut text = format!("seed = {seed}\nduration_s = {LASTS}\n[[change]]\nat_s = {CALM}\ncalm = true\n");
    for host in ["a", "b"] {
        let _ = writeln!(text, "[[host]]\nname = \"{host}\"\ncompetitors = {}", rng.range(0, 2));
    }
    (0..paths).for_each(|id| text.push_str(&path(rng, id)));
    let lanes: Vec<String> = (0..rng.range(2, 6) as usize)
        .map(|lane| if lane < paths { lane } else { rng.range(0, paths as u64 - 1) as usize })
        .map(|path| format!("[\"a\", \"r{path}\", \"b\"]"))
        .collect();
    let cc = ["auto", "auto", "auto", "cubic", "bbr"][rng.range(0, 4) as usize];
    let _ = writeln!(
        text,
        "[[flow]]\nname = \"copy\"\nkind = \"fobs\"\nfrom = \"a\"\nto = \"b\"\ncc = \"{cc}\"\nsize_mb = {:.4}\n\
         chunks = {}\nlanes = [{}]",
        between(rng, 0.001, 30.0),
        rng.range(2, 60),
        lanes.join(", ")
    );
    text
}

/// Plays a world; why it is not as it should be.
fn play(seed: u64) -> Result<SimReport, String> {
    let text = world(seed);
    let of = |what: String| format!("seed {seed}: {what}\n{text}");
    let config = Scenario::parse("lanes", &text).map_err(|error| of(error.to_string()))?.config;
    let mut world = World::new(config).map_err(|error| of(error.to_string()))?;
    world.run().map_err(|violation| of(format!("{violation}\n{}", world.describe())))?;
    let report = SimReport::of(&mut world);
    let complete = report.flows.iter().any(|flow| flow.outcome == "complete");
    if complete { Ok(report) } else { Err(of(format!("it does not complete\n{}", world.describe()))) }
}

#[test]
fn random_sessions_of_lanes_complete() {
    let first = number("FOBS_SEED");
    let worlds = number("FOBS_WORLDS").unwrap_or(if first.is_some() { 1 } else { WORLDS });
    let seeds: Vec<u64> = (0..worlds).map(|n| first.unwrap_or(0) + n).collect();
    let played = crate::support::each(&seeds, |seed| play(*seed));
    let mut sums = [0u64; 4];
    for report in played {
        let report = report.unwrap_or_else(|what| panic!("{what}"));
        let session = &report.sessions[0];
        for (sum, figure) in sums.iter_mut().zip([
            session.taken_over,
            session.given_up,
            session.withdrawn,
            session.lanes as u64,
        ]) {
            *sum += figure;
        }
    }
    println!("{sums:?} chunks taken over, of silent lanes, withdrawn; lanes");
    let every = worlds < WORLDS || sums.iter().all(|sum| *sum > 0);
    assert!(every, "the worlds show all that a schedule does: {sums:?}");
}
