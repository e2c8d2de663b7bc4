//! Plays many cases beside each other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::arena::Arena;
use super::cases::Catalogue;
use super::judge::{Breach, Rule};
use super::named;
use super::play::Outcome;
use super::program::Program;

/// What is played.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server.
    pub program: Program,
    /// How many cases of the catalogue, besides the named ones.
    pub cases: usize,
    /// Which of them.
    pub seed: u64,
    /// Only those whose names hold this.
    pub only: Option<String>,
    /// Worlds beside each other.
    pub jobs: usize,
    /// How long a server may be silent before the client goes on.
    pub quiet: Duration,
}

/// A case that broke a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its name.
    pub case: String,
    /// What it broke.
    pub breach: Breach,
}

/// What came of all cases.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Cases in the catalogue.
    pub known: usize,
    /// Cases played, the named ones among them.
    pub played: usize,
    /// Those that the server took to their end.
    pub through: usize,
    /// Those that it ended.
    pub ended: usize,
    /// Those in which it waited for more.
    pub waited: usize,
    /// Rules that were broken.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
    /// Most memory that one of them took of the server, bytes, beyond what it had; and most CPU time.
    pub memory_max: u64,
    /// Likewise.
    pub cpu_max: Duration,
}

/// Names of all cases, in the order in which a seed has them played.
pub fn names(seed: u64, only: Option<&str>) -> impl Iterator<Item = String> {
    let catalogue = Catalogue::new();
    catalogue.numbers(seed, only).into_iter().map(move |number| catalogue.name(number))
}

/// Plays a plan. `tell` is called for every case that broke a rule, and now and then.
///
/// # Errors
/// Where a world or a server cannot be made.
pub fn run(plan: &Plan, tell: &(dyn Fn(&Tally, Option<&Finding>) + Sync)) -> io::Result<Tally> {
    let begun = Instant::now();
    let catalogue = Catalogue::new();
    let mut numbers = catalogue.numbers(plan.seed, plan.only.as_deref());
    let known = numbers.len();
    numbers.truncate(plan.cases);
    numbers.shrink_to_fit();
    let named: Vec<_> = named::every()
        .into_iter()
        .filter(|it| plan.only.as_ref().is_none_or(|only| it.name.contains(only)))
        .collect();
    let tally = Mutex::new(Tally { known, ..Tally::default() });
    let next = AtomicUsize::new(0);
    let worker = || -> io::Result<()> {
        let mut arena = Arena::new(&plan.program, plan.quiet)?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (name, played) = match (named.get(index), numbers.get(index.wrapping_sub(named.len()))) {
                (Some(it), _) => (it.name.clone(), it.play(&mut arena).map(|breaches| (breaches, None))),
                (None, Some(number)) => {
                    let case = catalogue.case(*number);
                    let played = arena.play(&case).map(|verdicts| {
                        let of = (verdicts.played.outcome, verdicts.memory, verdicts.cpu);
                        (verdicts.breaches, Some(of))
                    });
                    (case.name, played)
                }
                (None, None) => return Ok(()),
            };
            let (breaches, outcome) = match played {
                Ok(played) => played,
                Err(error) => {
                    // Whatever the case before has left: the next one has a world and a server of its own.
                    arena = Arena::new(&plan.program, plan.quiet)?;
                    (
                        vec![Breach { rule: Rule::Life, what: format!("it could not be played: {error}") }],
                        None,
                    )
                }
            };
            let Ok(mut tally) = tally.lock() else { return Ok(()) };
            tally.played += 1;
            if let Some((outcome, memory, cpu)) = outcome {
                match outcome {
                    Outcome::Through => tally.through += 1,
                    Outcome::Ended => tally.ended += 1,
                    Outcome::Waits => tally.waited += 1,
                }
                tally.memory_max = tally.memory_max.max(memory);
                tally.cpu_max = tally.cpu_max.max(cpu);
            }
            tally.took = begun.elapsed();
            for breach in breaches {
                let finding = Finding { case: name.clone(), breach };
                tell(&tally, Some(&finding));
                tally.findings.push(finding);
            }
            tell(&tally, None);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs.max(1)).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker failed"))))
    })?;
    let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Tally { took: begun.elapsed(), ..tally })
}
