//! Training scored on windows that were left out of it.

use std::collections::BTreeSet;

use fobs_diagnose::splice::{is_congestion, splices};
use fobs_diagnose::{Cause, Window};

use super::classify::Classifier;
use super::score::Scores;
use super::train::{TrainError, train};

/// Parts of cross-validation; each is judged by a model trained on the others.
const FOLDS: usize = 5;
/// Spliced windows that are judged in each part.
const SPLICED: usize = 500;

/// Scores on windows that were left out of training.
#[derive(Debug, Clone, Default)]
pub struct Validation {
    /// One part left out at a time; the windows of a recording, and the slices of a window, are in one part.
    pub folds: Scores,
    /// One congestion scenario left out at a time, with one part of the other windows.
    pub scenarios: Scores,
}

/// Scores windows cut to each of `lengths` (packets; 0: uncut) by models that were not trained on them.
pub fn validate(
    windows: &[Window],
    lengths: &[u32],
    seed: u64,
) -> Result<Vec<(u32, Validation)>, TrainError> {
    let mut validations: Vec<(u32, Validation)> =
        lengths.iter().map(|length| (*length, Validation::default())).collect();
    for part in 0..FOLDS {
        let (out, kept): (Vec<_>, Vec<_>) =
            windows.iter().enumerate().partition(|(index, window)| fold(*index, window) == part);
        let kept: Vec<Window> = kept.into_iter().map(|(_, window)| window.clone()).collect();
        let mut classifier = classifier(&kept, seed)?;
        for (length, validation) in &mut validations {
            let cut: Vec<Window> = out.iter().flat_map(|(_, window)| window.slices(*length)).collect();
            let mixed = splices(&cut.iter().collect::<Vec<_>>(), SPLICED, seed ^ (part as u64 + 77));
            for window in cut.iter().chain(&mixed) {
                validation.folds.add(window, classifier.classify(&window.signature).verdict);
            }
        }
    }
    let scenarios: BTreeSet<&str> = windows
        .iter()
        .filter(|window| is_congestion(window))
        .map(|window| window.scenario.as_str())
        .collect();
    for (part, scenario) in scenarios.into_iter().enumerate() {
        let kept = windows
            .iter()
            .enumerate()
            .filter(|(index, window)| window.scenario != scenario && fold(*index, window) != part % FOLDS);
        let kept: Vec<Window> = kept.map(|(_, window)| window.clone()).collect();
        let mut classifier = classifier(&kept, seed)?;
        for (length, validation) in &mut validations {
            for window in windows.iter().filter(|window| window.scenario == scenario) {
                for window in window.slices(*length) {
                    validation.scenarios.add(&window, classifier.classify(&window.signature).verdict);
                }
            }
        }
    }
    Ok(validations)
}

fn classifier(windows: &[Window], seed: u64) -> Result<Classifier, TrainError> {
    let model = train(windows, seed, "")?;
    Ok(Classifier::signature(&model).expect("training makes usable models"))
}

/// The part of a window. Windows of one recording are similar and share a part; simulated ones are
/// independent.
fn fold(index: usize, window: &Window) -> usize {
    match window.cause {
        Some(Cause::Cpu | Cause::Hybrid) => (window.run / 2 + window.run) as usize % FOLDS,
        _ => index % FOLDS,
    }
}
