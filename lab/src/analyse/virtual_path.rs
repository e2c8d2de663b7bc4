//! A path of the laboratory in virtual time: one flow of FOBS from host to host over one bottleneck.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use fobs_sim::report::FlowReport;
use fobs_sim::{Scenario, SimReport, World};

/// Rate of the hosts' own device: the laboratory's hosts send into theirs as fast as they can.
const DEVICE_MBIT: f64 = 10_000.0;

/// One flow over one path, to be simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualPath {
    /// Bits per second of the bottleneck.
    pub rate_bps: f64,
    /// Round trip without queues, milliseconds.
    pub rtt_ms: f64,
    /// Bytes of the bottleneck's queue.
    pub queue_bytes: f64,
    /// Share of packets lost at random in the data's direction.
    pub loss: f64,
    /// Bytes to move.
    pub bytes: f64,
    /// `--cc`.
    pub controller: String,
    /// Rate of the controller `fixed`, bits per second.
    pub fixed_bps: Option<f64>,
    /// The simulation ends after this time.
    pub seconds: f64,
}

impl VirtualPath {
    fn scenario(&self) -> String {
        let fixed = self.fixed_bps.map_or_else(String::new, |rate| format!("rate_mbit = {:?}\n", rate / 1e6));
        format!(
            "duration_s = {:?}\n\n\
             [[link]]\nfrom = \"a\"\nto = \"west\"\nrate_mbit = {DEVICE_MBIT:?}\ndelay_ms = 0\n\n\
             [[link]]\nfrom = \"west\"\nto = \"b\"\nrate_mbit = {:?}\ndelay_ms = {:?}\nqueue_kb = {:?}\nloss = {:?}\n\n\
             [[flow]]\nkind = \"fobs\"\nfrom = \"a\"\nto = \"b\"\ncc = \"{}\"\nsize_mb = {:?}\n{fixed}",
            self.seconds,
            self.rate_bps / 1e6,
            self.rtt_ms / 2.0,
            self.queue_bytes / 1e3,
            self.loss,
            self.controller,
            self.bytes / 1e6,
        )
    }

    /// What the flow did, with this seed.
    ///
    /// # Errors
    /// One sentence: the path is out of the simulator's bounds, or a rule of the protocol was broken.
    pub fn simulate(&self, seed: u64) -> Result<FlowReport, String> {
        let mut config = Scenario::parse("path", &self.scenario()).map_err(|error| error.to_string())?.config;
        config.seed = seed;
        let mut world = World::new(config).map_err(|error| error.to_string())?;
        world.run().map_err(|violation| format!("seed {seed}: a rule broke {violation}"))?;
        let flow = SimReport::of(&mut world).flows.into_iter().next();
        flow.ok_or_else(|| "the simulation has no flow".to_owned())
    }
}

/// Simulates every path with every seed, on all processors; the reports are in the order of the paths, then
/// the seeds.
///
/// # Errors
/// That of the first simulation that failed.
pub fn simulate_all(
    paths: &[VirtualPath],
    seeds: std::ops::RangeInclusive<u64>,
) -> Result<Vec<Vec<FlowReport>>, String> {
    let jobs: Vec<(usize, u64)> =
        (0..paths.len()).flat_map(|path| seeds.clone().map(move |seed| (path, seed))).collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((path, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = paths[*path].simulate(*seed);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((*path, *seed, report));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(path, seed, _)| (*path, *seed));
    let mut reports = vec![Vec::new(); paths.len()];
    for (path, _, report) in done {
        reports[path].push(report?);
    }
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_simulated_with_each_seed() {
        let path = VirtualPath {
            rate_bps: 1e8,
            rtt_ms: 20.0,
            queue_bytes: 250_000.0,
            loss: 0.0001,
            bytes: 1e6,
            controller: "fixed".to_owned(),
            fixed_bps: Some(5e7),
            seconds: 10.0,
        };
        let reports = simulate_all(&[path.clone(), path], 1..=2).unwrap();
        assert_eq!(reports.len(), 2);
        assert_eq!(reports[0], reports[1], "the same seeds give the same reports");
        assert!(reports[0].iter().all(|flow| flow.outcome == "complete" && flow.goodput_mbit > 10.0));
    }

    #[test]
    fn a_path_out_of_bounds_is_refused_by_its_key() {
        let path = VirtualPath {
            rate_bps: 1e8,
            rtt_ms: 20.0,
            queue_bytes: 250_000.0,
            loss: 2.0,
            bytes: 1e6,
            controller: "auto".to_owned(),
            fixed_bps: None,
            seconds: 10.0,
        };
        let error = simulate_all(&[path], 1..=1).unwrap_err();
        assert!(error.contains("loss"), "{error}");
    }
}
