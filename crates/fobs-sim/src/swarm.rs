//! Random worlds (swarm testing: each has a few kinds of fault, not all of them). The seed draws object,
//! configuration, network, hosts, neighbours and faults. In the safety phase all of it may happen, and no
//! rule may break; then all faults end, and a transfer without an excuse must complete within a bounded time:
//! the liveness phase.

mod draw;

pub use draw::{Plan, draw};

use crate::flow::{FlowFigures, Outcome};
use crate::report::{SimReport, show_seconds};
use crate::time::Nanos;
use crate::world::{FlowView, World};
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
    /// Attempts that the transfer took: one, and one more after each death of an end.
    pub attempts: u64,
    /// Bytes that more than one attempt sent.
    pub again: u64,
}

impl SwarmResult {
    /// One line.
    pub fn line(&self) -> String {
        let at = show_seconds(self.at);
        let attempts =
            if self.attempts > 1 { format!(", {} attempts", self.attempts) } else { String::new() };
        format!("seed {}: {} after {at}, {} packets{attempts}", self.seed, self.outcome.word(), self.packets)
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
    let FlowView { outcome, figures: FlowFigures { attempts, again, .. }, .. } = world.flow(0);
    if !plan.allows(outcome, &world) {
        let at = show_seconds(world.now());
        return Err(format!(
            "the transfer is {} at {at}, which nothing in its world excuses: {}",
            outcome.word(),
            world.describe()
        ));
    }
    let (packets, events) = (world.packets(), world.events());
    Ok(SwarmResult { seed, outcome, at: world.now(), packets, events, attempts, again })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::fobs::{Journaling, Object};
    use crate::flow::{FlowConfig, Traffic};
    use crate::host::DiskConfig;
    use crate::time::SEC;
    use fobs_proto::session::UDP_SILENCE_MAX;

    /// Seeds among which one must show a fault.
    const SEEDS_OF_FAULT: u64 = 200;

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
        plan.config.hosts[1].disk = DiskConfig { rate: 1, cache: 0, ..plan.config.hosts[1].disk.clone() };
        let what = run(plan).expect_err("a byte a second stores no object in time");
        assert!(what.contains("running"), "{what}");
    }

    /// A plan whose transfer completes, for faults of the test's own.
    fn harmless(seed: u64) -> Plan {
        let plan = draw(seed);
        assert_eq!(run(plan.clone()).expect("no rule breaks").outcome, Outcome::Complete);
        plan
    }

    #[test]
    fn random_kills_catch_a_journal_that_claims_too_much() {
        let caught = (0..SEEDS_OF_FAULT).find_map(|seed| {
            let mut plan = draw(seed);
            if let Traffic::Fobs(fobs) = &mut plan.config.flows[0].traffic {
                fobs.journaling = Journaling::TooEarly;
            }
            run(plan).err()
        });
        let what = caught.unwrap_or_else(|| panic!("none of {SEEDS_OF_FAULT} seeds shows the fault"));
        assert!(what.contains("the store gets each byte once") || what.contains("in the store"), "{what}");
    }

    #[test]
    fn giving_up_is_right_if_nothing_passes_from_the_start() {
        let mut plan = harmless(1);
        plan.config.edges.iter_mut().for_each(|edge| edge.link.faults.outages = vec![(0, 60 * SEC)]);
        let result = run(plan).expect("silence excuses it");
        assert_eq!((result.outcome, result.at), (Outcome::Silent, UDP_SILENCE_MAX.as_nanos() as Nanos));
    }

    #[test]
    fn giving_up_after_calm_has_no_excuse() {
        let mut plan = harmless(1);
        // Calm never comes: silence begins once the transfer is at work, and ends with the world.
        plan.config.changes.clear();
        plan.config.flows[0] = endless(&plan.config.flows[0]);
        plan.config.edges.iter_mut().for_each(|edge| edge.link.faults.outages = vec![(3 * SEC, 600 * SEC)]);
        let what = run(plan).expect_err("faults last no longer than until calm");
        assert!(what.contains("silent"), "{what}");
    }

    #[test]
    fn a_path_that_answers_excuses_no_silence() {
        let plan = harmless(1);
        let mut world = World::new(plan.config.clone()).expect("the world of a seed exists");
        world.run_until(SEC).expect("no rule breaks");
        assert!(world.net.passages[0].have_answer() && !plan.allows(Outcome::Silent, &world));
    }

    /// The same flow with more to send than any of these tests lasts, and a timeout within them.
    fn endless(flow: &FlowConfig) -> FlowConfig {
        let mut flow = flow.clone();
        if let Traffic::Fobs(fobs) = &mut flow.traffic {
            fobs.object = Object::Bytes(1 << 50);
            fobs.timeout = 30 * SEC;
        }
        flow
    }
}
