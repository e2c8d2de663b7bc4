//! What several test programs share.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads at most.
const THREADS_MAX: usize = 8;

/// Runs `work` on each item, on all cores; the results are in the order of the items.
pub fn each<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let run = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return done };
            done.push((place, work(item)));
        }
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a run failed; see above")).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The median of a figure; of an even number of runs the upper one.
pub fn median<T>(all: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    let mut figures: Vec<f64> = all.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The mean of a figure.
pub fn mean<T>(all: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    all.iter().map(figure).sum::<f64>() / all.len() as f64
}

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
