//! Random worlds (swarm testing: each has a few kinds of fault, not all of them). The seed draws object,
//! configuration, network, hosts, neighbours and faults. In the safety phase all of it may happen, and no
//! rule may break; then all faults end, and a transfer without an excuse must complete within a bounded time:
//! the liveness phase.

mod draw;

pub use draw::{Plan, draw};

use crate::flow::Outcome;
use crate::report::{SimReport, show_seconds};
use crate::time::Nanos;
use crate::world::World;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a world's FOBS transfer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmResult {
    /// The seed.
    pub seed: u64,
    /// How the transfer ended.
    pub outcome: Outcome,
    /// When.
    pub at: Nanos,
    /// Packets that reached their hosts.
    pub packets: u64,
    /// Events.
    pub events: u64,
}

impl SwarmResult {
    /// One line.
    pub fn line(&self) -> String {
        let at = show_seconds(self.at);
        format!("seed {}: {} after {at}, {} packets", self.seed, self.outcome.word(), self.packets)
    }
}

/// A world in which a rule broke, or that did not end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}: {what}; run it again with: {}", replay(*.seed))]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What happened.
    pub what: String,
}

/// The command that runs one seed again.
pub fn replay(seed: u64) -> String {
    format!("fobs-lab sim swarm --seeds 1 --from {seed}")
}

/// Draws the world of a seed and runs it.
///
/// # Errors
/// A broken rule, a panic of the machines, or a transfer that has no excuse and is not complete in time.
pub fn play(seed: u64) -> Result<SwarmResult, Failure> {
    let fail = |what: String| Failure { seed, what };
    match catch_unwind(AssertUnwindSafe(|| run(draw(seed)))) {
        Ok(done) => done.map_err(fail),
        Err(panic) => Err(fail(format!("a panic: {}", words(&*panic)))),
    }
}

/// Everything that was seen of a seed's world, up to its end or to the rule that broke; `None` if it panics.
pub fn observe(seed: u64) -> Option<SimReport> {
    let run = || {
        let mut world = World::new(draw(seed).config).ok()?;
        // `play` has reported what broke.
        let _ = world.run();
        Some(SimReport::of(&mut world))
    };
    catch_unwind(AssertUnwindSafe(run)).ok().flatten()
}

fn run(plan: Plan) -> Result<SwarmResult, String> {
    let seed = plan.config.seed;
    let deadline = plan.config.duration;
    let mut world = World::new(plan.config.clone()).map_err(|error| error.to_string())?;
    // Not to the end of all flows: the first is the transfer that counts.
    world.run_until(deadline).map_err(|violation| format!("{violation}: {}", world.describe()))?;
    let outcome = world.flow(0).outcome;
    if !plan.allows(outcome) {
        let at = show_seconds(world.now());
        return Err(format!(
            "the transfer is {} at {at}, which nothing in its world excuses: {}",
            outcome.word(),
            world.describe()
        ));
    }
    Ok(SwarmResult { seed, outcome, at: world.now(), packets: world.packets(), events: world.events() })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_seed_and_the_command() {
        let failure = Failure { seed: 17, what: "a rule broke".to_owned() };
        assert_eq!(
            failure.to_string(),
            "seed 17: a rule broke; run it again with: fobs-lab sim swarm --seeds 1 --from 17"
        );
    }

    #[test]
    fn a_world_that_cannot_finish_is_a_failure() {
        let mut plan = draw(1);
        // Nothing passes, and calm never comes.
        plan.config.changes.clear();
        plan.config.edges.iter_mut().for_each(|edge| edge.link.mtu = 20);
        let what = run(plan).expect_err("nothing can arrive");
        assert!(what.contains("running"), "{what}");
    }
}
