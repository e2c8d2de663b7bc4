//! Tests of the classifier as a whole, and of the models that are trained here and after a copy.

mod learned;
mod reference;
mod verdicts;

use std::path::PathBuf;

use fobs_diagnose::splice::is_congestion;
use fobs_diagnose::{Cause, Window, window};
use fobs_proto::loss_cause::Verdict;

use super::classify::{Classifier, Method};
use fobs_sim::signatures::{SCENARIOS, generate};

/// Recorded windows of a receiver with too little CPU time (`scripts/record-signatures.sh`).
fn receivers() -> Vec<Window> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/fobs-diagnose/tests/receiver.jsonl");
    window::read_all(&[path]).expect("the recorded windows")
}

/// Generated windows of every scenario, `each` of a kind.
fn networks(each: u64, packets: u32, seed: u64) -> Vec<Window> {
    let make = |scenario| (0..each).filter_map(move |i| generate(scenario, packets, seed + 977 * i));
    SCENARIOS.iter().copied().flat_map(make).collect()
}

fn congestion(windows: &[Window]) -> Vec<Window> {
    windows.iter().filter(|window| is_congestion(window)).cloned().collect()
}

/// Shares of the verdicts receiver and network.
fn shares(classifier: &mut Classifier, windows: &[Window]) -> (f64, f64) {
    let verdicts: Vec<Verdict> =
        windows.iter().map(|window| classifier.classify(&window.signature).verdict).collect();
    let share =
        |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count() as f64 / verdicts.len() as f64;
    (share(Verdict::Receiver), share(Verdict::Network))
}
