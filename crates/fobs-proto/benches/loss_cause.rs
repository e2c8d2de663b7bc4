//! Cost of classifying a window, ns a packet: `cargo bench -p fobs-proto --bench loss_cause`.
//!
//! Windows of 70,000 and 10,000 packets with random single losses and with blocks, at the loss rate of each
//! line. A figure is the median of [`REPEATS`] passes. The bars: 2.5 ns at any loss rate, 0.2 ns below 5e-4.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::time::Instant;

use fobs_proto::loss_cause::complexity::WordCounter;
use fobs_proto::loss_cause::{Features, Signature};
use fobs_rng::Rng;

/// Passes over the windows, of which the median is printed.
const REPEATS: usize = 31;
/// Windows of each kind: one pass takes far longer than the clock's resolution.
const WINDOWS: usize = 24;

fn main() {
    println!("{:>8}{:>10}{:>12}{:>14}{:>14}{:>14}", "packets", "loss", "pattern", "C1", "features", "both");
    for packets in [70_000, 10_000] {
        for loss in [1e-4, 5e-4, 5e-3, 5e-2, 0.2, 0.5] {
            for (pattern, run) in [("single", 1), ("blocks", 100)] {
                let windows: Vec<Signature> =
                    (0..WINDOWS).map(|seed| window(packets, loss, run, seed as u64)).collect();
                let mut words = WordCounter::new();
                let complexity = cost(&windows, |w| words.complexity(w));
                let features = cost(&windows, |w| Features::of(w).map_or(0.0, |f| f.values()[0]));
                let both = complexity + features;
                println!(
                    "{packets:>8}{loss:>10}{pattern:>12}{complexity:>11.3} ns{features:>11.3} ns{both:>11.3} ns"
                );
            }
        }
    }
}

/// Median cost of `work` over the windows, ns a packet.
fn cost(windows: &[Signature], mut work: impl FnMut(&Signature) -> f64) -> f64 {
    let packets: u64 = windows.iter().map(|window| u64::from(window.packets())).sum();
    let mut times: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let start = Instant::now();
            for window in windows {
                black_box(work(black_box(window)));
            }
            start.elapsed().as_nanos() as f64 / packets as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[REPEATS / 2]
}

/// A window with randomly placed runs of `run` lost packets.
fn window(packets: u32, loss: f64, run: u64, seed: u64) -> Signature {
    let mut random = Rng::new(seed);
    let mean_gap = run as f64 * (1.0 - loss) / loss;
    let mut pairs = Vec::new();
    let mut position = 0u64;
    loop {
        let gap = random.exponential(mean_gap).ceil() as u64;
        if position + gap + run > u64::from(packets) {
            break;
        }
        position += gap + run;
        pairs.push((gap, run));
    }
    Signature::from_gaps(u64::from(packets), 1, pairs).expect("runs within the window")
}
