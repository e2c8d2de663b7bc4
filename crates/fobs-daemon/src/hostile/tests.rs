//! A sample of hostile clients against this build: every named attack, and some of the catalogue.

mod child;

use std::sync::LazyLock;
use std::time::Duration;

use super::baseline::good_sessions;
use super::judge::Rule;
use super::program::Program;
use super::run::{Finding, Plan, Tally, run};

/// Cases of the catalogue in a regular run; the feature `long` plays more against this build, and `make
/// hostile` against the release's `fobs`.
const CASES: usize = if cfg!(feature = "long") { 20_000 } else { 160 };
/// The seed of the sample; with `long` not that of `make hostile`, so that `make test-long` plays both.
const SEED: u64 = if cfg!(feature = "long") { 2 } else { 1 };
/// Worlds beside each other.
const JOBS: usize = 2;
/// How long a server may be silent before the client goes on.
const QUIET: Duration = Duration::from_millis(300);

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

/// Shows what broke these rules.
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
        "{} findings with seed {SEED}; `fobs-lab hostile --only NAME` plays one again:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

#[test]
fn good_sessions_go_through_where_the_right_allows_them() {
    // 20 sessions, over ssh and over TLS, there with the whole root and with a part.
    assert!(good_sessions(&Program::ThisTest).unwrap() > 40);
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
