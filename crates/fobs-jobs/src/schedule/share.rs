//! Fair shares among labels, and likewise among users: the label that has had the least begins next, among
//! equal priorities.
//!
//! What a label has had is the time of its attempts, ms. An attempt is charged when it begins, by the mean of
//! those before, so that one label does not take all places at once; its own time replaces that at its end. A
//! label without jobs is forgotten, and one that comes anew begins with the least of those that wait: it is
//! neither behind nor ahead for what was before (start-time fair queueing, Goyal 1996).

use std::collections::{BTreeMap, VecDeque};

/// Mean time of an attempt before any has ended, ms.
const MEAN_MS: f64 = 60_000.0;
/// Weight of the newest attempt in the mean: the last ten or so count.
const WEIGHT: f64 = 0.1;

#[derive(Debug)]
pub(super) struct Shares {
    /// Of labels that have jobs.
    labels: BTreeMap<String, Share>,
    mean_ms: f64,
}

#[derive(Debug, Default)]
struct Share {
    jobs: u64,
    /// What it has had, ms.
    had_ms: f64,
    /// What its running attempts were charged, oldest first.
    charged_ms: VecDeque<f64>,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares { labels: BTreeMap::new(), mean_ms: MEAN_MS }
    }
}

impl Shares {
    pub(super) fn of(&self, label: &str) -> f64 {
        self.labels.get(label).map_or(0.0, |share| share.had_ms)
    }

    pub(super) fn knows(&self, label: &str) -> bool {
        self.labels.contains_key(label)
    }

    /// A label has one more job.
    pub(super) fn join(&mut self, label: &str) {
        if let Some(share) = self.labels.get_mut(label) {
            share.jobs += 1;
            return;
        }
        let least = self.labels.values().map(|share| share.had_ms).min_by(f64::total_cmp);
        let share = Share { jobs: 1, had_ms: least.unwrap_or(0.0), charged_ms: VecDeque::new() };
        self.labels.insert(label.to_owned(), share);
    }

    /// A label has one job less.
    pub(super) fn leave(&mut self, label: &str) {
        let Some(share) = self.labels.get_mut(label) else { return };
        share.jobs = share.jobs.saturating_sub(1);
        if share.jobs == 0 {
            self.labels.remove(label);
        }
    }

    /// An attempt begins.
    pub(super) fn charge(&mut self, label: &str) {
        let Some(share) = self.labels.get_mut(label) else { return };
        share.had_ms += self.mean_ms;
        share.charged_ms.push_back(self.mean_ms);
    }

    /// One has ended after this time.
    pub(super) fn settle(&mut self, label: &str, took_ms: u64) {
        let took_ms = took_ms as f64;
        if let Some(share) = self.labels.get_mut(label)
            && let Some(charge) = share.charged_ms.pop_front()
        {
            share.had_ms += took_ms - charge;
        }
        self.mean_ms += WEIGHT * (took_ms - self.mean_ms);
    }
}
