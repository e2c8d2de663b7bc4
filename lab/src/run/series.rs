//! Rates over time: sampled while flows run, and what follows from them for flows that run at the same time.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::namespace::Devices;
use super::over::Over;

/// Time between samples: a few round trips of most paths, and a hundred packets at 10 Mbit/s.
const INTERVAL: Duration = Duration::from_millis(100);
/// Points that a record keeps: more than any figure is wide. Longer series are thinned out.
const POINTS_MAX: usize = 600;

/// Seconds after the run's start (end of an interval), bits per second in the interval.
pub type Series = Vec<[f64; 2]>;

/// Samples the byte counters of hosts until [`Sampler::finish`].
pub struct Sampler {
    over: Over,
    thread: JoinHandle<Vec<(Instant, Vec<u64>)>>,
}

impl Sampler {
    /// Starts to sample.
    pub fn start(mut hosts: Vec<Devices>) -> Sampler {
        let over = Over::default();
        let watch = over.watch();
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            while !watch.is_over() {
                let received = hosts.iter_mut().map(|host| host.received_bytes().unwrap_or(0));
                samples.push((Instant::now(), received.collect()));
                thread::park_timeout(INTERVAL);
            }
            samples
        });
        Sampler { over, thread }
    }

    /// The series of each host, in the order in which they were given; time counts from `start`.
    pub fn finish(self, start: Instant, hosts: usize) -> Vec<Series> {
        drop(self.over);
        self.thread.thread().unpark();
        let samples = self.thread.join().unwrap_or_default();
        let seconds = |at: Instant| at.saturating_duration_since(start).as_secs_f64();
        // The last sample before the start is the base of the first interval: nothing has moved since.
        let first = samples.iter().rposition(|(at, _)| *at <= start).unwrap_or(0);
        let during = &samples[first.min(samples.len())..];
        (0..hosts)
            .map(|host| {
                let points = during.iter().map(|(at, received)| (seconds(*at), received[host]));
                rates(&points.collect::<Vec<_>>())
            })
            .collect()
    }
}

/// Rates between samples of a byte counter.
fn rates(samples: &[(f64, u64)]) -> Series {
    let step = samples.len().div_ceil(POINTS_MAX).max(1);
    let kept: Vec<&(f64, u64)> = samples.iter().step_by(step).collect();
    let pairs = kept.windows(2).filter(|pair| pair[1].0 > pair[0].0);
    pairs
        .map(|pair| [pair[1].0, pair[1].1.saturating_sub(pair[0].1) as f64 * 8.0 / (pair[1].0 - pair[0].0)])
        .collect()
}

/// Times to the millisecond and whole bits: what a figure can show, and a third of the digits.
pub fn rounded(series: &[[f64; 2]]) -> Series {
    series.iter().map(|[time, rate]| [(time * 1e3).round() / 1e3, rate.round()]).collect()
}

/// Mean rate within `from..until`; intervals that are only partly in it count for that part. None if the
/// series does not reach into it.
pub fn mean_rate(series: &[[f64; 2]], from: f64, until: f64) -> Option<f64> {
    let (mut bits, mut time, mut before) = (0.0, 0.0, 0.0);
    for [end, rate] in series {
        let part = end.min(until) - f64::max(before, from);
        if part > 0.0 {
            bits += rate * part;
            time += part;
        }
        before = *end;
    }
    (time > 0.0).then(|| bits / time)
}

/// Jain's index of fairness (Jain, Chiu, Hawe 1984): 1 if all are equal, 1/n if one has everything.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (rates.len() > 1 && squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_rates() {
        assert_eq!(rates(&[(0.0, 0), (0.1, 125_000), (0.2, 125_000)]), [[0.1, 1e7], [0.2, 0.0]]);
        assert!(rates(&[(0.0, 7)]).is_empty() && rates(&[]).is_empty());
        let long: Vec<(f64, u64)> = (0..10_000).map(|n| (f64::from(n), 1000 * n as u64)).collect();
        let thinned = rates(&long);
        assert!(thinned.len() <= POINTS_MAX && thinned.len() > POINTS_MAX / 2, "{}", thinned.len());
        assert!(thinned.iter().all(|[_, rate]| *rate == 8000.0));
        assert_eq!(rounded(&[[0.123_456, 1.5]]), [[0.123, 2.0]]);
    }

    #[test]
    fn a_mean_counts_parts_of_intervals() {
        let series = [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]];
        assert_eq!(mean_rate(&series, 0.0, 3.0), Some(20.0));
        assert_eq!(mean_rate(&series, 0.5, 1.5), Some(15.0));
        assert_eq!(mean_rate(&series, 2.0, 9.0), Some(30.0));
        assert_eq!(mean_rate(&series, 3.0, 9.0), None);
        assert_eq!(mean_rate(&[], 0.0, 1.0), None);
    }

    #[test]
    fn jains_index_is_one_for_equals_and_none_for_one() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0]), Some(0.5));
        assert_eq!(jain(&[1.0]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
