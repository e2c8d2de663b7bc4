//! Training for one pair of hosts: what it gains on a host that the shipped model does not know, and what it
//! never does.

use fobs_diagnose::learn::{GROUP_WINDOWS_MIN, NotLearned, learn};
use fobs_diagnose::model::MixtureFile;
use fobs_diagnose::{Cause, Random, Window, congestion, window};
use fobs_proto::loss_cause::{Features, Signature, Verdict};
use fobs_sim::signatures;
use std::path::PathBuf;

const SEED: u64 = 77;
/// Windows of each cause from one transfer.
const PER_TRANSFER: u64 = 8;

fn slow_receiver(seed: u64) -> Window {
    labelled(signatures::slow_receiver(seed), Cause::Cpu, seed)
}

fn labelled(signature: Signature, cause: Cause, seed: u64) -> Window {
    let run = seed / PER_TRANSFER;
    Window { signature, cause: Some(cause), scenario: "ledger".to_owned(), run, host_lost: None }
}

fn host(count: u64, seed: u64) -> Vec<Window> {
    (0..count).map(|i| slow_receiver(seed + i)).collect()
}

/// Number of windows that a model calls the receiver's.
fn blamed(model: &MixtureFile, windows: &[Window]) -> usize {
    let model = model.build().expect("usable");
    let features = windows.iter().filter_map(|window| Features::of(&window.signature));
    features.filter(|features| model.diagnose(features).verdict() == Verdict::Receiver).count()
}

/// Hosts of that kind in a test: their windows differ, and a trial that is not passed leaves the shipped
/// model.
const HOSTS: u64 = 8;
/// Hosts that must pass it: the trial is strict, some fail it by a window.
const LEARNED_MIN: usize = 3;

#[test]
fn an_unknown_host_is_learned_and_known_ones_stay_known() {
    let shipped = MixtureFile::shipped();
    let seeds = (0..HOSTS).map(|host| SEED + 1000 * host);
    let learned: Vec<(u64, MixtureFile)> =
        seeds.filter_map(|seed| Some((seed, learn(&shipped, &host(192, seed)).ok()?))).collect();
    assert!(learned.len() >= LEARNED_MIN, "{} of {HOSTS} hosts learned", learned.len());
    for (seed, own) in &learned {
        assert_eq!(own, &learn(&shipped, &host(192, *seed)).expect("deterministic"));
        assert_eq!(own.sub_causes[..shipped.sub_causes.len()], shipped.sub_causes[..]);
        let unseen = host(100, seed + 500_000);
        let (before, after) = (blamed(&shipped, &unseen), blamed(own, &unseen));
        assert!(
            after >= before + 40,
            "seed {seed}: {before} of 100 found with the shipped model, {after} with its own"
        );
        let known = recorded();
        let (before, after) = (blamed(&shipped, &known), blamed(own, &known));
        assert!(
            after >= before,
            "seed {seed}: recorded receivers' windows found: {before} before, {after} after"
        );
    }
}

#[test]
fn windows_that_the_shipped_model_knows_teach_nothing() {
    let shipped = MixtureFile::shipped();
    let known: Vec<Window> =
        recorded().into_iter().filter(|window| blamed(&shipped, std::slice::from_ref(window)) == 1).collect();
    assert!(known.len() > GROUP_WINDOWS_MIN, "{} windows", known.len());
    assert_eq!(learn(&shipped, &known), Err(NotLearned::NoBetter));
}

#[test]
fn too_few_windows_or_transfers_teach_nothing() {
    let shipped = MixtureFile::shipped();
    let few = host(GROUP_WINDOWS_MIN as u64 - 1, SEED);
    assert!(matches!(learn(&shipped, &few), Err(NotLearned::TooFew { network: 0, .. })));
    let mut one = host(64, SEED);
    one.iter_mut().for_each(|window| window.run = 3);
    assert!(matches!(learn(&shipped, &one), Err(NotLearned::TooFew { transfers: 1, .. })));
    assert_eq!(learn(&shipped, &[]), Err(NotLearned::TooFew { receiver: 0, network: 0, transfers: 0 }));
}

#[test]
fn false_claims_of_a_receiver_teach_nothing() {
    let shipped = MixtureFile::shipped();
    let labelled = |(window, i): (Window, u64)| labelled(window.signature, Cause::Cpu, i);
    let claims: Vec<Window> = congestion::windows().into_iter().zip(0..).map(labelled).collect();
    assert!(claims.len() > 2 * GROUP_WINDOWS_MIN);
    let refused = learn(&shipped, &claims);
    assert!(matches!(refused, Err(NotLearned::TooFew { .. })), "{refused:?}");
}

#[test]
fn blackouts_teach_nothing_about_the_network() {
    let shipped = MixtureFile::shipped();
    let mut random = Random::new(SEED);
    // Shorter ones resemble network losses, and are labelled so.
    let mut blackout = |i| {
        let (start, lost) = (random.below(16_000) as u64, 65 + random.below(3000) as u64);
        labelled(Signature::from_gaps(20_000, 1, [(start, lost)]).expect("inside"), Cause::Net, i)
    };
    let blackouts: Vec<Window> = (0..200).map(&mut blackout).collect();
    assert!(blackouts.len() > 2 * GROUP_WINDOWS_MIN);
    let refused = learn(&shipped, &blackouts);
    assert!(matches!(refused, Err(NotLearned::TooFew { .. })), "seed {SEED}: {refused:?}");
}

/// Recorded windows of receivers without CPU time, cut as in a transfer.
fn recorded() -> Vec<Window> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/receiver.jsonl");
    let windows = window::read_all(&[path]).expect("the recorded windows");
    windows.iter().flat_map(|window| window.slices(10_000)).collect()
}
