//! What a keeper counts, as OpenMetrics text. Counters begin with the keeper, as scrapers expect.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::job::{Owner, Phase};
use crate::schedule::Limits;
use crate::store::{Record, StoreError};

/// Most users and labels of jobs that have series of their own: clients choose labels. Further ones are
/// counted together.
const SERIES_MAX: usize = 50;
/// What those are called.
const OTHER: &str = "(other)";
/// Bounds of waiting times, s: from a turn at once to a day.
const WAITS_S: [f64; 9] = [1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0];

/// Whose jobs are counted.
#[derive(Debug, Clone, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Whose {
    /// The number of the user who handed them in.
    user: String,
    label: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByEnd {
    user: String,
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
    series: Mutex<BTreeSet<Whose>>,
    jobs: Family<ByPhase, Gauge>,
    at_once_max: Gauge,
    submitted: Family<Whose, Counter>,
    ended: Family<ByEnd, Counter>,
    moved: Family<Whose, Counter>,
    waits: Family<Whose, Histogram, fn() -> Histogram>,
}

impl Default for Meters {
    fn default() -> Meters {
        let histogram: fn() -> Histogram = || Histogram::new(WAITS_S);
        let meters = Meters {
            registry: Mutex::default(),
            series: Mutex::default(),
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
        fobs.register("jobs_submitted", "Jobs taken, by user and label", self.submitted.clone());
        let ended = "Runs of jobs that are over, by user, label and how they ended";
        fobs.register("jobs_ended", ended, self.ended.clone());
        let moved = "Bytes that attempts have moved, once they are over";
        fobs.register_with_unit("jobs_moved", moved, Unit::Bytes, self.moved.clone());
        let waits = "From when a run was due to its first attempt, by user and label";
        fobs.register_with_unit("jobs_wait", waits, Unit::Seconds, self.waits.clone());
        let release = Family::<Release, Gauge>::default();
        release.get_or_create(&Release { version: env!("CARGO_PKG_VERSION") }).set(1);
        fobs.register("jobs_build_info", "The version of fobs", release);
    }

    /// A user and a label as their series has them.
    fn whose(&self, owner: Option<Owner>, label: &str) -> Whose {
        // A user's own keeper has that user's jobs.
        let uid = owner.map_or_else(|| rustix::process::getuid().as_raw(), |owner| owner.uid);
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Whose { user: uid.to_string(), label: label.to_owned() };
        if series.contains(&known) || series.len() < SERIES_MAX {
            series.insert(known.clone());
            return known;
        }
        Whose { user: OTHER.to_owned(), label: OTHER.to_owned() }
    }

    pub(super) fn submitted(&self, owner: Option<Owner>, label: &str) {
        self.submitted.get_or_create(&self.whose(owner, label)).inc();
    }

    /// The first attempt of a run begins.
    pub(super) fn waited(&self, record: &Record, ms: u64) {
        self.waits.get_or_create(&self.of(record)).observe(ms as f64 / 1000.0);
    }

    /// An attempt is over.
    pub(super) fn moved(&self, record: &Record, bytes: u64) {
        self.moved.get_or_create(&self.of(record)).inc_by(bytes);
    }

    /// A run is over.
    pub(super) fn ended(&self, record: &Record, phase: &'static str) {
        let Whose { user, label } = self.of(record);
        self.ended.get_or_create(&ByEnd { user, label, phase }).inc();
    }

    fn of(&self, record: &Record) -> Whose {
        self.whose(record.owner, &record.spec.label)
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
    use crate::job::{JobId, Spec};
    use crate::schedule::Begin;
    use crate::store::Standing;

    fn job(uid: u32, label: &str) -> Record {
        let spec = Spec { label: label.to_owned(), ..Spec::new(vec!["cp".into()], "/".into()) };
        let standing = Standing::of(Begin::new(&spec, 0));
        let owner = Some(Owner { uid, gid: 1 });
        Record { id: JobId(1), spec, owner, submitted_ms: 0, standing }
    }

    #[test]
    fn users_and_labels_have_a_bound_and_break_no_line() {
        let meters = Meters::default();
        for number in 0..SERIES_MAX + 7 {
            meters.submitted(Some(Owner { uid: number as u32 % 2, gid: 1 }), &format!("lab {}", number / 2));
        }
        meters.submitted(Some(Owner { uid: 1, gid: 1 }), "lab 3");
        meters.ended(&job(7, "a\"b\\c\nd"), "done");
        let text = meters.text(&[(Phase::Waiting, 3)], Limits::default()).expect("text");
        assert!(text.contains("fobs_jobs_submitted_total{user=\"1\",label=\"lab 3\"} 2\n"), "{text}");
        assert!(text.contains("fobs_jobs_submitted_total{user=\"0\",label=\"lab 3\"} 1\n"), "{text}");
        assert!(text.contains("fobs_jobs_submitted_total{user=\"(other)\",label=\"(other)\"} 7\n"), "{text}");
        assert_eq!(text.matches("fobs_jobs_submitted_total{").count(), SERIES_MAX + 1);
        assert!(text.contains("fobs_jobs{phase=\"waiting\"} 3\n"), "{text}");
        assert!(text.contains("fobs_jobs{phase=\"failed\"} 0\n"), "{text}");
        let others = "fobs_jobs_ended_total{user=\"(other)\",label=\"(other)\",phase=\"done\"} 1\n";
        assert!(text.contains(others), "{text}");
        let fresh = Meters::default();
        fresh.ended(&job(7, "a\"b\\c\nd"), "done");
        let text = fresh.text(&[], Limits::default()).expect("text");
        assert!(text.contains(r#"user="7",label="a\"b\\c\nd""#), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
