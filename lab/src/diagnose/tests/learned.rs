//! A model trained after a copy, on generated congestion that its trial does not contain.

use fobs_diagnose::learn::learn;
use fobs_diagnose::model::MixtureFile;
use fobs_sim::signatures;

use super::*;

const SEED: u64 = 77;
/// Windows from one transfer.
const PER_TRANSFER: u64 = 8;

fn slow_receiver(seed: u64) -> Window {
    let (signature, run) = (signatures::slow_receiver(seed), seed / PER_TRANSFER);
    Window { signature, cause: Some(Cause::Cpu), scenario: "ledger".to_owned(), run, host_lost: None }
}

/// Hosts of that kind: some fail the strict trial and keep the shipped model.
const HOSTS: u64 = 8;
/// Share of unseen congestion that a passed trial on 96 windows may newly blame.
const NEWLY_BLAMED_MAX: f64 = 0.01;

#[test]
fn learning_hardly_blames_more_congestion_on_the_receiver() {
    let shipped = MixtureFile::shipped();
    let host = |seed| (0..192).map(|i| slow_receiver(seed + i)).collect::<Vec<Window>>();
    let seeds = (0..HOSTS).map(|host| SEED + 1000 * host);
    let learned: Vec<MixtureFile> = seeds.filter_map(|seed| learn(&shipped, &host(seed)).ok()).collect();
    assert!(learned.len() >= 3, "{} of {HOSTS} hosts learned", learned.len());
    let unseen = congestion(&networks(20, 20_000, SEED));
    assert!(unseen.len() > 300, "{} windows", unseen.len());
    let blamed = |model: &MixtureFile| shares(&mut Classifier::signature(model).expect("usable"), &unseen).0;
    let before = blamed(&shipped);
    for model in &learned {
        let after = blamed(model);
        assert!(after <= before + NEWLY_BLAMED_MAX, "{before} before, {after} after");
    }
}
