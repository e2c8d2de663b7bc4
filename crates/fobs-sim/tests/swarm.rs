//! Random worlds by the hundred. A failure prints its seed and the command that runs it again; `FOBS_SEED=<seed>` runs one here,
//! `FOBS_WORLDS=<n>` that many.

use fobs_sim::flow::Outcome;
use fobs_sim::swarm::{Verdict, play};
use std::sync::atomic::{AtomicU64, Ordering};

/// Worlds of an ordinary test run.
const WORLDS: u64 = 500;

#[test]
fn no_world_breaks_a_rule_and_every_world_ends() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    if let Some(seed) = number("FOBS_SEED") {
        println!("{}", play(seed).unwrap_or_else(|failure| panic!("{failure}")).line());
        return;
    }
    let (worlds, next) = (number("FOBS_WORLDS").unwrap_or(WORLDS), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let verdicts: Vec<Verdict> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&next, worlds))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a world failed; see above")).collect()
    });
    // The draw must not have become harmless.
    let count = |outcome| verdicts.iter().filter(|verdict| verdict.outcome == outcome).count() as u64;
    assert!(count(Outcome::Complete) > worlds * 3 / 4, "{} of {worlds} complete", count(Outcome::Complete));
    if worlds >= WORLDS {
        for outcome in [Outcome::Crashed, Outcome::DiskFull, Outcome::DiskFailed, Outcome::GaveUp] {
            assert!(count(outcome) > 0, "none of {worlds} worlds ended {:?}", outcome.word());
        }
    }
}

fn work(next: &AtomicU64, worlds: u64) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= worlds {
            return verdicts;
        }
        verdicts.push(play(seed).unwrap_or_else(|failure| panic!("{failure}")));
    }
}
