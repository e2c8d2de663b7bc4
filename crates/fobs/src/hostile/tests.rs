//! A sample of hostile clients against this build: every named attack, and some hundreds of the catalogue.

mod child;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use super::arena::Arena;
use super::cases::Catalogue;
use super::judge::{Judge, Rule};
use super::play::Outcome;
use super::program::Program;
use super::right::Right;
use super::run::{Finding, Plan, Tally, run};
use super::session::Needs;

/// Cases of the catalogue in a regular run; `fobs-lab hostile` and the feature `long` play many more.
const CASES: usize = if cfg!(feature = "long") { 20_000 } else { 320 };
/// The seed of the sample.
const SEED: u64 = 1;
/// Worlds beside each other.
const JOBS: usize = 2;
/// How long a server may be silent before the client goes on.
const QUIET: Duration = Duration::from_millis(300);
/// How long one takes over a good session.
const PATIENCE: Duration = Duration::from_secs(20);

/// One run for all tests of the catalogue.
static PLAYED: LazyLock<Tally> = LazyLock::new(|| play(CASES, None));

fn play(cases: usize, only: Option<&str>) -> Tally {
    let plan = Plan {
        program: Program::ThisTest,
        cases,
        seed: SEED,
        only: only.map(str::to_owned),
        jobs: JOBS,
        quiet: QUIET,
    };
    run(&plan, &|_, _| ()).unwrap()
}

/// Shows what broke these rules, in cases with names that hold one of `parts`.
#[track_caller]
fn expect_kept(tally: &Tally, rules: &[Rule]) {
    let broken: Vec<String> = tally
        .findings
        .iter()
        .filter(|finding| rules.contains(&finding.breach.rule))
        .map(|Finding { case, breach }| format!("{case}\n    {}: {}", breach.rule, breach.what))
        .collect();
    assert!(
        broken.is_empty(),
        "{} findings; `fobs-lab hostile --only NAME` plays one again:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

#[test]
fn good_sessions_go_through_where_the_right_allows_them() {
    let mut arena = Arena::new(&Program::ThisTest, PATIENCE).unwrap();
    let mut through = BTreeSet::new();
    for (session, way, right) in Catalogue::new().good() {
        let Right { word, privileged, .. } = right;
        let may = match session.needs {
            Needs::Read => word == "read-only",
            Needs::Write => word == "write-only",
            Needs::Change | Needs::Both => word == "read-write",
        };
        // The examination of `probe` takes a second.
        if !may || privileged || session.name == "probe" && right.part {
            continue;
        }
        let mut judge = Judge::default();
        let played = arena.play_steps(way, right, &session.steps, &mut judge).unwrap();
        let last = played.messages.last().map(ToString::to_string).unwrap_or_default();
        let name = format!("{}/{}/{}", way.name(), right.name(), session.name);
        assert_eq!(played.outcome, Outcome::Through, "{name}: {}", last.chars().take(400).collect::<String>());
        assert!(judge.breaches.is_empty(), "{name}: {:?}", judge.breaches);
        through.insert(session.name);
        arena.restore().unwrap();
    }
    assert_eq!(through.len(), 20, "{through:?}");
}

#[test]
fn no_hostile_client_changes_what_is_outside() {
    expect_kept(&PLAYED, &[Rule::Outside]);
}

#[test]
fn no_hostile_client_reads_what_is_outside() {
    expect_kept(&PLAYED, &[Rule::Secrecy]);
}

#[test]
fn no_hostile_client_does_more_than_its_right() {
    expect_kept(&PLAYED, &[Rule::Rights]);
}

#[test]
fn no_hostile_client_ends_the_server() {
    expect_kept(&PLAYED, &[Rule::Life]);
}

#[test]
fn no_hostile_client_takes_memory_or_time() {
    expect_kept(&PLAYED, &[Rule::Memory, Rule::Time]);
}

#[test]
fn hostile_clients_are_answered_in_sentences() {
    expect_kept(&PLAYED, &[Rule::Sentence]);
}

#[test]
fn a_sample_is_taken_to_different_ends() {
    let tally = &*PLAYED;
    assert!(tally.known > 20_000 && tally.played >= CASES.min(tally.known), "{tally:?}");
    assert!(tally.through > CASES / 8 && tally.ended > CASES / 8, "{tally:?}");
}
