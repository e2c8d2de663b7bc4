//! Shares of a hundred users in virtual time.

use std::collections::BTreeMap;

use fobs_rng::Rng;

use super::super::*;
use super::{HOUR_MS, add, at, code, spec};

const LABELS: u64 = 100;
/// Longest attempt, ms.
const LONGEST_MS: u64 = 300_000;

/// Labels that hand in again and again: every tenth one far more jobs than others, and longer ones.
struct Users {
    seed: u64,
    rng: Rng,
    schedule: Schedule,
    labels: BTreeMap<JobId, u64>,
    /// When each running attempt ends, and how long it takes, ms.
    ends: BTreeMap<(u64, JobId), u64>,
    /// Time that each label has had, ms.
    had: BTreeMap<u64, u64>,
}

impl Users {
    fn new(seed: u64) -> Users {
        let mut rng = Rng::new(seed);
        let total = u32::try_from(rng.range(4, 10)).expect("small");
        let schedule = Schedule::new(Limits { total, per_host: 64, per_source: 64 });
        let (labels, ends, had) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Users { seed, rng, schedule, labels, ends, had }
    }

    fn is_greedy(label: u64) -> bool {
        label.is_multiple_of(10)
    }

    /// A label hands in its first jobs.
    fn join(&mut self, label: u64, now_ms: u64) {
        // The last of them waits for most of a day.
        for _ in 0..if Users::is_greedy(label) { 20 } else { 4 } {
            self.submit(label, now_ms);
        }
    }

    fn submit(&mut self, label: u64, now_ms: u64) {
        let id = self.labels.len() as u64 + 1;
        add(&mut self.schedule, id, &Spec { label: label.to_string(), ..spec() }, now_ms);
        self.labels.insert(JobId(id), label);
    }

    /// Plays until this time; each job that ends is followed by one of its label.
    fn play(&mut self, from_ms: u64, to_ms: u64) {
        let mut now = from_ms;
        loop {
            for action in self.schedule.tick(at(now)) {
                let Action::Start(id) = action else { panic!("seed {}: {action:?}", self.seed) };
                let long = Users::is_greedy(self.labels[&id]);
                let took =
                    if long { self.rng.range(200_000, LONGEST_MS) } else { self.rng.range(20_000, 60_000) };
                self.ends.insert((now + took, id), took);
            }
            let Some((&(end, id), &took)) = self.ends.first_key_value() else {
                panic!("seed {}: nothing runs", self.seed)
            };
            if end > to_ms {
                return;
            }
            self.ends.remove(&(end, id));
            now = end;
            let label = self.labels[&id];
            *self.had.entry(label).or_default() += took;
            self.schedule.ended(id, &code(0), at(now));
            self.submit(label, now);
        }
    }

    /// What labels have had since then lies within a bound that does not grow with time.
    fn check(&self, since: &BTreeMap<u64, u64>, labels: u64) {
        let had =
            |label: u64| self.had.get(&label).copied().unwrap_or(0) - since.get(&label).copied().unwrap_or(0);
        let all: Vec<u64> = (0..labels).map(had).collect();
        let (least, most) = (all.iter().min().expect("some"), all.iter().max().expect("some"));
        // An attempt that was begun on credit, at either end, and one that runs and is not counted yet.
        assert!(most - least <= 3 * LONGEST_MS, "seed {}: from {least} to {most} ms", self.seed);
    }
}

#[test]
fn a_hundred_labels_have_equal_shares() {
    for seed in 0..4 {
        let mut users = Users::new(seed);
        (0..LABELS).for_each(|label| users.join(label, 0));
        users.play(0, 24 * HOUR_MS);
        users.check(&BTreeMap::new(), LABELS);
        // One that comes later has the same from then on: no more for what it has missed, and no less.
        let since = users.had.clone();
        users.join(LABELS, 24 * HOUR_MS);
        users.play(24 * HOUR_MS, 36 * HOUR_MS);
        users.check(&since, LABELS + 1);
    }
}
