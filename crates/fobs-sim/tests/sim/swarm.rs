//! Random worlds by the hundred. A failure prints its seed and the command that runs it again.
//! `FOBS_SEED=<seed>` runs one seed here, `FOBS_WORLDS=<n>` another number of them.

#![cfg_attr(not(feature = "long"), allow(dead_code, reason = "the long tests use more of it"))]

use crate::support::{each, number};
use fobs_sim::flow::Outcome;
use fobs_sim::swarm::{SwarmResult, play};

/// Worlds of an ordinary test run, and of a long one.
const WORLDS: u64 = 500;
const WORLDS_LONG: u64 = 5_000;

fn run(seed: u64) -> SwarmResult {
    play(seed).unwrap_or_else(|failure| panic!("{failure}"))
}

fn swarm(from: u64, worlds: u64) {
    if let Some(seed) = number("FOBS_SEED") {
        println!("{}", run(seed).line());
        return;
    }
    let worlds = number("FOBS_WORLDS").unwrap_or(worlds);
    let seeds: Vec<u64> = (from..from + worlds).collect();
    let verdicts = each(&seeds, |seed| run(*seed));
    // The draw must not have become harmless.
    let count = |outcome| verdicts.iter().filter(|verdict| verdict.outcome == outcome).count() as u64;
    assert!(count(Outcome::Complete) > worlds * 3 / 4, "{} of {worlds} complete", count(Outcome::Complete));
    // Killed transfers are opened again until they are complete.
    let reopened: Vec<_> = verdicts.iter().filter(|verdict| verdict.attempts > 1).collect();
    assert!(reopened.len() as u64 * 10 > worlds, "{} of {worlds} were killed at work", reopened.len());
    assert!(reopened.iter().any(|verdict| verdict.again > 0), "no killed transfer had bytes in flight");
    if let Some(unfinished) = reopened.iter().find(|verdict| verdict.outcome != Outcome::Complete) {
        panic!("{}: nothing excuses a transfer that is opened again", unfinished.line());
    }
    let silent = count(Outcome::Silent);
    assert!(
        silent * 100 <= worlds,
        "{silent} of {worlds} got no answer: the draw must leave one to nearly all"
    );
    if worlds >= WORLDS {
        for outcome in [Outcome::Crashed, Outcome::DiskFull, Outcome::DiskFailed, Outcome::GaveUp] {
            assert!(count(outcome) > 0, "none of {worlds} worlds ended {:?}", outcome.word());
        }
    }
}

#[test]
fn no_world_breaks_a_rule_and_every_world_ends() {
    swarm(0, WORLDS);
}

#[test]
#[cfg(feature = "long")]
fn no_world_of_thousands_breaks_a_rule() {
    swarm(WORLDS, WORLDS_LONG);
}
