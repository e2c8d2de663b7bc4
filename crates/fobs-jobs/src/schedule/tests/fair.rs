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

#[test]
fn users_have_equal_shares_whatever_priority_and_labels_they_choose() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let total = u32::try_from(rng.range(2, 6)).expect("small");
        let mut schedule = Schedule::new(Limits { total, per_host: 64, per_source: 64 });
        let mut users: BTreeMap<JobId, u32> = BTreeMap::new();
        let submit =
            |schedule: &mut Schedule, rng: &mut Rng, users: &mut BTreeMap<JobId, u32>, user: u32, now| {
                let id = JobId(users.len() as u64 + 1);
                // The first one is greedy: highest priority, and a label for each job.
                let (priority, label) = if user == 0 { (10, id.to_string()) } else { (0, String::new()) };
                let priority =
                    if user == 0 { priority } else { i8::try_from(rng.range(0, 20)).expect("small") - 10 };
                let spec = Spec { priority, label, ..spec() };
                schedule.add_of(id, &spec, Some(user), Begin::new(&spec, now));
                users.insert(id, user);
            };
        for user in 0..10 {
            for _ in 0..if user == 0 { 100 } else { 8 } {
                submit(&mut schedule, &mut rng, &mut users, user, 0);
            }
        }
        let (mut had, mut ends) = (BTreeMap::<u32, u64>::new(), BTreeMap::new());
        let mut now = 0;
        while now < 24 * HOUR_MS {
            for action in schedule.tick(at(now)) {
                let Action::Start(id) = action else { panic!("seed {seed}: {action:?}") };
                let took = rng.range(20_000, LONGEST_MS);
                ends.insert((now + took, id), took);
            }
            let Some(((end, id), took)) = ends.pop_first() else { panic!("seed {seed}: nothing runs") };
            now = end;
            let user = users[&id];
            *had.entry(user).or_default() += took;
            schedule.ended(id, &code(0), at(now));
            submit(&mut schedule, &mut rng, &mut users, user, now);
        }
        let (least, most) = (had.values().min().expect("some"), had.values().max().expect("some"));
        assert!(had.len() == 10 && most - least <= 3 * LONGEST_MS, "seed {seed}: from {least} to {most} ms");
    }
}

#[test]
fn a_user_orders_his_own_jobs_by_priority() {
    let mut schedule = Schedule::new(Limits { total: 1, per_host: 1, per_source: 1 });
    let mut add = |id, user, priority| {
        let spec = Spec { priority, ..spec() };
        schedule.add_of(JobId(id), &spec, Some(user), Begin::new(&spec, 0));
    };
    add(1, 7, -3);
    add(2, 7, 3);
    add(3, 8, 0);
    let mut began = Vec::new();
    for now in [0, HOUR_MS, 2 * HOUR_MS] {
        let [Action::Start(id)] = schedule.tick(at(now))[..] else { panic!("one begins") };
        began.push(id.0);
        schedule.ended(id, &code(0), at(now + 1000));
    }
    assert_eq!(began, [2, 3, 1]);
}
