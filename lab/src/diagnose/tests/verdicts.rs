//! The shipped models on windows that they were not trained on, and training from scratch.
//!
//! The figures of the shipped model on real windows are in docs/classifier.md; these bars are wide, and show
//! that the way from file to verdict works.

use fobs_diagnose::splice::{INDISTINCT, splices};

use super::*;
use crate::diagnose::score::{Length, Scores};
use crate::diagnose::train::{TrainError, train};
use crate::diagnose::validate::validate;

const SEED: u64 = 20;

#[test]
fn the_shipped_model_separates_receiver_and_network() {
    let mut classifier = Classifier::shipped(Method::Signature);
    let networks = networks(4, 70_000, SEED);
    for length in [0, 10_000] {
        let cut = |windows: &[Window], lost| -> Vec<Window> {
            let all = windows.iter().flat_map(|window| window.slices(length));
            all.filter(|window| window.signature.lost() >= lost).collect()
        };
        let (receiver, _) = shares(&mut classifier, &cut(&receivers(), 16));
        assert!(receiver >= 0.9, "length {length}: {receiver} of the receiver's windows found");
        let (false_alarms, network) = shares(&mut classifier, &cut(&congestion(&networks), 8));
        assert!(
            false_alarms <= 0.02,
            "length {length}, seed {SEED}: {false_alarms} of congestion blamed on the receiver"
        );
        assert!(network >= 0.92, "length {length}, seed {SEED}: {network} of congestion found");
    }
}

#[test]
fn the_papers_method_works_on_long_windows() {
    let mut paper = Classifier::shipped(Method::Paper);
    let random: Vec<Window> = (0..10).filter_map(|i| generate("bern", 70_000, SEED + i)).collect();
    for window in &random {
        // Above this rate, random loss is more complex than any block (docs/classifier.md).
        if window.signature.loss_rate() > 0.01 {
            assert_eq!(paper.classify(&window.signature).verdict, Verdict::Network, "run {}", window.run);
        }
    }
    let (receiver, network) = shares(&mut paper, &receivers());
    assert!(receiver > network, "{receiver} receiver, {network} network");
}

#[test]
fn mixed_windows_are_not_blamed_on_the_receiver() {
    let mut classifier = Classifier::shipped(Method::Signature);
    let all: Vec<Window> = receivers().into_iter().chain(congestion(&networks(3, 70_000, SEED))).collect();
    let mixed = splices(&all.iter().collect::<Vec<_>>(), 300, SEED);
    assert_eq!(mixed.len(), 300, "seed {SEED}");
    let (receiver, _) = shares(&mut classifier, &mixed);
    assert!(receiver <= 0.03, "seed {SEED}: {receiver}");
}

#[test]
fn training_is_deterministic_and_the_model_works() {
    let windows: Vec<Window> = receivers().into_iter().chain(networks(12, 20_000, SEED)).collect();
    let model = train(&windows, 5, "a test").expect("enough windows");
    assert_eq!(model, train(&windows, 5, "a test").expect("enough windows"));
    let mut classifier = Classifier::signature(&model).expect("usable");
    let (receiver, _) = shares(&mut classifier, &receivers());
    assert!(receiver >= 0.7, "{receiver} of the receiver's windows found again");
    let unseen = congestion(&networks(3, 20_000, SEED + 500_000));
    let (false_alarms, _) = shares(&mut classifier, &unseen);
    assert!(false_alarms <= 0.05, "seed {SEED}: {false_alarms} of congestion blamed on the receiver");
}

#[test]
fn validation_judges_every_window_once() {
    let windows: Vec<Window> = receivers().into_iter().chain(networks(6, 70_000, SEED)).collect();
    let validations = validate(&windows, &[0], 5).expect("enough windows");
    let count = |scores: &Scores, cause| -> u32 {
        let rows = scores.rows().filter(|(of, ..)| *of == cause);
        rows.flat_map(|(.., row)| row.bands).map(|tally| tally.total()).sum()
    };
    let validation = &validations[0].1;
    let lossy = |cause| windows.iter().filter(|w| w.cause == Some(cause) && w.signature.lost() > 0).count();
    assert_eq!(count(&validation.folds, Cause::Cpu) as usize, lossy(Cause::Cpu));
    assert_eq!(count(&validation.folds, Cause::Net) as usize, lossy(Cause::Net));
    assert_eq!(count(&validation.scenarios, Cause::Net) as usize, congestion(&windows).len());
    assert!(validation.folds.bars(Length::Long).iter().all(|bar| bar.value.is_some()));
}

#[test]
fn too_few_windows_make_no_model() {
    let few = &receivers()[..3];
    let error = train(few, 1, "").expect_err("too few");
    assert!(matches!(error, TrainError::TooFew { network: 0, .. }), "{error}");
    let blackouts: Vec<Window> = networks(9, 20_000, SEED)
        .into_iter()
        .filter(|window| INDISTINCT.contains(&window.scenario.as_str()))
        .chain(receivers())
        .collect();
    train(&blackouts, 1, "").expect_err("blackouts teach nothing about the network");
}
