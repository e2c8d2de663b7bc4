//! Disks in virtual time: jobs write to them at random rates, and none may ever be full.

use std::collections::BTreeMap;

use fobs_rng::Rng;

use super::super::*;
use super::code;

/// All worlds of them are at rest by then, ms.
pub const END_MS: u64 = 10 * 24 * 3_600_000;

/// Disks, the jobs that write to them, and their schedule.
pub struct Disks {
    pub seed: u64,
    pub rng: Rng,
    pub schedule: Schedule,
    /// Bytes of each disk, and what is written of it.
    pub sizes: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
    /// The disk of each job, what it is to write, and what it has.
    pub jobs: BTreeMap<JobId, (String, u64, u64)>,
    /// The rate of each job that runs, bytes a second.
    pub running: BTreeMap<JobId, u64>,
}

impl Disks {
    /// Disks of these names, without jobs.
    pub fn random(seed: u64, places: &[&str]) -> Disks {
        let mut rng = Rng::new(seed);
        let limit = u32::try_from(rng.range(1, 8)).expect("small");
        let sizes = places.iter().map(|name| ((*name).to_owned(), rng.range(1_000, 100_000))).collect();
        Disks {
            seed,
            rng,
            schedule: Schedule::new(Limits { total: limit, per_host: 64, per_source: 64 }),
            sizes,
            used: BTreeMap::new(),
            jobs: BTreeMap::new(),
            running: BTreeMap::new(),
        }
    }

    /// A disk for another job, and how much that is to write.
    pub fn draw(&mut self, places: &[&str]) -> (String, u64) {
        let place = self.rng.pick(places).to_owned();
        let bytes = self.rng.range(0, self.sizes[&place] * 11 / 10);
        (place, bytes)
    }

    pub fn free(&self, place: &str) -> u64 {
        self.sizes[place] - self.used.get(place).copied().unwrap_or(0)
    }

    /// What the jobs have still to write that are not over.
    pub fn left(&self) -> BTreeMap<JobId, u64> {
        let open = self.jobs.iter().filter(|(id, _)| self.schedule.begin_of(**id).is_some());
        open.map(|(id, (_, bytes, moved))| (*id, bytes - moved)).collect()
    }

    /// Running jobs write for this time.
    pub fn write(&mut self, ms: u64) {
        for (id, rate) in &self.running {
            let (place, bytes, moved) = self.jobs.get_mut(id).expect("it is one");
            let more = (rate * ms / 1000).min(*bytes - *moved);
            *moved += more;
            *self.used.entry(place.clone()).or_default() += more;
            let (used, size) = (self.used[place], self.sizes[place]);
            assert!(used <= size, "seed {}: {id} has no room: {used} of {size}", self.seed);
        }
    }

    /// A second: jobs begin, write and end.
    pub fn step(&mut self, now: Moment) {
        for action in self.schedule.tick(now) {
            let Action::Start(id) = action else { panic!("seed {}: {action:?}", self.seed) };
            let rate = self.rng.range(50, 5_000);
            self.running.insert(id, rate);
        }
        self.write(1000);
        let ids: Vec<JobId> = self.running.keys().copied().collect();
        for id in ids {
            let (_, bytes, moved) = self.jobs[&id];
            // One fails at times, and goes on later where it stopped.
            let ending = match (bytes == moved, self.rng.chance(0.01)) {
                (true, _) => code(0),
                (false, true) => code(30),
                (false, false) => continue,
            };
            self.running.remove(&id);
            self.schedule.ended(id, &ending, now);
        }
    }

    /// From now on there is room for all.
    pub fn make_room(&mut self) {
        self.sizes.values_mut().for_each(|size| *size += 40 * 110_000);
    }
}
