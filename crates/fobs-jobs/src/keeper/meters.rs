//! What a keeper counts, as OpenMetrics text. Counters begin with the keeper, as scrapers expect.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::job::Phase;
use crate::schedule::Limits;
use crate::store::StoreError;

/// Most labels of jobs that have series of their own: clients choose them. Further ones are counted together.
const LABELS_MAX: usize = 50;
/// What those are called.
const OTHER: &str = "(other)";
/// Bounds of waiting times, s: from a turn at once to a day.
const WAITS_S: [f64; 9] = [1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0];

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByLabel {
    label: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByEnd {
    label: String,
    phase: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByPhase {
    phase: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Release {
    version: &'static str,
}

/// The counters of one keeper.
#[derive(Debug)]
pub(super) struct Meters {
    registry: Mutex<Registry>,
    labels: Mutex<BTreeSet<String>>,
    jobs: Family<ByPhase, Gauge>,
    at_once_max: Gauge,
    submitted: Family<ByLabel, Counter>,
    ended: Family<ByEnd, Counter>,
    moved: Family<ByLabel, Counter>,
    waits: Family<ByLabel, Histogram, fn() -> Histogram>,
}

impl Default for Meters {
    fn default() -> Meters {
        let histogram: fn() -> Histogram = || Histogram::new(WAITS_S);
        let meters = Meters {
            registry: Mutex::default(),
            labels: Mutex::default(),
            jobs: Family::default(),
            at_once_max: Gauge::default(),
            submitted: Family::default(),
            ended: Family::default(),
            moved: Family::default(),
            waits: Family::new_with_constructor(histogram),
        };
        meters.register();
        meters
    }
}

impl Meters {
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let fobs = registry.sub_registry_with_prefix("fobs");
        fobs.register("jobs", "Jobs that are kept, by phase", self.jobs.clone());
        fobs.register("jobs_running_max", "Most jobs that run at once", self.at_once_max.clone());
        fobs.register("jobs_submitted", "Jobs taken, by label", self.submitted.clone());
        let ended = "Runs of jobs that are over, by label and how they ended";
        fobs.register("jobs_ended", ended, self.ended.clone());
        let moved = "Bytes that attempts have moved, once they are over";
        fobs.register_with_unit("jobs_moved", moved, Unit::Bytes, self.moved.clone());
        let waits = "From when a run was due to its first attempt, by label";
        fobs.register_with_unit("jobs_wait", waits, Unit::Seconds, self.waits.clone());
        let release = Family::<Release, Gauge>::default();
        release.get_or_create(&Release { version: env!("CARGO_PKG_VERSION") }).set(1);
        fobs.register("jobs_build_info", "The version of fobs", release);
    }

    /// A label as its series has it.
    fn label(&self, label: &str) -> ByLabel {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        if labels.contains(label) || labels.len() < LABELS_MAX {
            labels.insert(label.to_owned());
            return ByLabel { label: label.to_owned() };
        }
        ByLabel { label: OTHER.to_owned() }
    }

    pub(super) fn submitted(&self, label: &str) {
        self.submitted.get_or_create(&self.label(label)).inc();
    }

    /// The first attempt of a run begins.
    pub(super) fn waited(&self, label: &str, ms: u64) {
        self.waits.get_or_create(&self.label(label)).observe(ms as f64 / 1000.0);
    }

    /// An attempt is over.
    pub(super) fn moved(&self, label: &str, bytes: u64) {
        self.moved.get_or_create(&self.label(label)).inc_by(bytes);
    }

    /// A run is over.
    pub(super) fn ended(&self, label: &str, phase: &'static str) {
        let ByLabel { label } = self.label(label);
        self.ended.get_or_create(&ByEnd { label, phase }).inc();
    }

    /// All of it.
    pub(super) fn text(&self, counts: &[(Phase, u64)], limits: Limits) -> Result<String, StoreError> {
        for phase in Phase::ALL {
            let count = counts.iter().find(|(one, _)| one == phase).map_or(0, |(_, count)| *count);
            let gauge = self.jobs.get_or_create(&ByPhase { phase: phase.name() });
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.at_once_max.set(i64::from(limits.total));
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        text::encode(&mut text, &registry).map_err(|error| StoreError::Other(error.to_string()))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_a_bound_and_break_no_line() {
        let meters = Meters::default();
        for number in 0..LABELS_MAX + 7 {
            meters.submitted(&format!("lab {number}"));
        }
        meters.submitted("lab 3");
        meters.ended("a\"b\\c\nd", "done");
        let text = meters.text(&[(Phase::Waiting, 3)], Limits::default()).expect("text");
        assert!(text.contains("fobs_jobs_submitted_total{label=\"lab 3\"} 2\n"), "{text}");
        assert!(text.contains("fobs_jobs_submitted_total{label=\"(other)\"} 7\n"), "{text}");
        assert_eq!(text.matches("fobs_jobs_submitted_total{").count(), LABELS_MAX + 1);
        assert!(text.contains("fobs_jobs{phase=\"waiting\"} 3\n"), "{text}");
        assert!(text.contains("fobs_jobs{phase=\"failed\"} 0\n"), "{text}");
        assert!(text.contains("fobs_jobs_ended_total{label=\"(other)\",phase=\"done\"} 1\n"), "{text}");
        let fresh = Meters::default();
        fresh.ended("a\"b\\c\nd", "done");
        let text = fresh.text(&[], Limits::default()).expect("text");
        assert!(text.contains(r#"label="a\"b\\c\nd""#), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
