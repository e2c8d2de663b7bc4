//! Disks in virtual time: jobs write to them at random rates, and none is ever full.

use std::collections::BTreeMap;

use fobs_rng::Rng;

use super::super::*;
use super::{add, at, code, spec};

/// Time between two looks at the disks, ms.
const LOOK_MS: u64 = 5000;
/// All of these worlds are at rest by then, ms.
const END_MS: u64 = 10 * 24 * 3_600_000;

struct Disks {
    seed: u64,
    rng: Rng,
    schedule: Schedule,
    /// Bytes of each disk, and what is written of it.
    sizes: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
    /// The disk of each job, what it is to write, and what it has.
    jobs: BTreeMap<JobId, (String, u64, u64)>,
    running: BTreeMap<JobId, u64>,
}

impl Disks {
    fn random(seed: u64) -> Disks {
        let mut rng = Rng::new(seed);
        let limit = u32::try_from(rng.range(1, 8)).expect("small");
        let sizes = ["a", "b"].map(|name| (name.to_owned(), rng.range(1_000, 100_000))).into();
        let mut world = Disks {
            seed,
            schedule: Schedule::new(Limits { total: limit, per_host: 64, per_source: 64 }),
            sizes,
            used: BTreeMap::new(),
            jobs: BTreeMap::new(),
            running: BTreeMap::new(),
            rng,
        };
        for id in 1..=world.rng.range(1, 40) {
            let place = world.rng.pick(&["a", "b"]).to_owned();
            let bytes = world.rng.range(0, world.sizes[&place] * 11 / 10);
            let room = Some("/somewhere".into());
            add(&mut world.schedule, id, &Spec { room, ..spec() }, 0);
            world.jobs.insert(JobId(id), (place, bytes, 0));
        }
        world
    }

    fn free(&self, place: &str) -> u64 {
        self.sizes[place] - self.used.get(place).copied().unwrap_or(0)
    }

    fn look(&mut self, now: Moment) {
        let left = self.jobs.iter().filter(|(id, _)| self.schedule.begin_of(**id).is_some());
        let left = left.map(|(id, (_, bytes, moved))| (*id, bytes - moved)).collect();
        // As in the keeper, time passes between the figures and the look at the disk.
        self.write(1000);
        let places = self.jobs.iter().map(|(id, (place, ..))| (*id, place.clone())).collect();
        let free = ["a", "b"].map(|place| (place.to_owned(), self.free(place))).into();
        self.schedule.set_room(Measured { left, read_ms: now.ms, places, free, until_ms: None });
    }

    /// Running jobs write for this time.
    fn write(&mut self, ms: u64) {
        for (id, rate) in &self.running {
            let (place, bytes, moved) = self.jobs.get_mut(id).expect("it is one");
            let more = (rate * ms / 1000).min(*bytes - *moved);
            *moved += more;
            *self.used.entry(place.clone()).or_default() += more;
            let (used, size) = (self.used[place], self.sizes[place]);
            assert!(used <= size, "seed {}: {id} has no room: {used} of {size}", self.seed);
        }
    }

    fn step(&mut self, now: Moment) {
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

    fn play(mut self) {
        let mut now = 0;
        let mut rests_ms = 0;
        // At rest: nothing runs, and a look at the disks lets nothing begin.
        while rests_ms < 3_600_000 && !self.schedule.is_empty() {
            assert!(now < END_MS, "seed {}: not at rest: {:?}", self.seed, self.schedule);
            if now % LOOK_MS == 0 {
                self.look(at(now));
            }
            self.step(at(now));
            rests_ms = if self.running.is_empty() { rests_ms + 1000 } else { 0 };
            now += 1000;
        }
        self.look(at(now));
        for (id, (place, bytes, moved)) in &self.jobs {
            match self.schedule.why(*id, at(now)) {
                Some(Reason::Room { needed_bytes, free_bytes }) => {
                    assert_eq!(
                        (needed_bytes, free_bytes),
                        (bytes - moved, self.free(place)),
                        "seed {}",
                        self.seed
                    );
                    assert!(needed_bytes > free_bytes, "seed {}: {id} fits, and waits", self.seed);
                }
                None => assert_eq!(bytes, moved, "seed {}: {id} is over", self.seed),
                why => panic!("seed {}: {id}: {why:?}", self.seed),
            }
        }
        // Room is made: all of them end.
        self.sizes.values_mut().for_each(|size| *size += 40 * 110_000);
        while !self.schedule.is_empty() {
            assert!(now < 2 * END_MS, "seed {}: not over: {:?}", self.seed, self.schedule);
            if now % LOOK_MS == 0 {
                self.look(at(now));
            }
            self.step(at(now));
            now += 1000;
        }
    }
}

#[test]
fn no_disk_is_ever_full_and_what_fits_is_not_held_up() {
    for seed in 0..200 {
        Disks::random(seed).play();
    }
}

#[test]
fn a_job_waits_for_room_and_holds_up_no_other() {
    let mut schedule = Schedule::new(Limits::default());
    let writes = Spec { room: Some("/x".into()), ..spec() };
    (1..=4).for_each(|id| add(&mut schedule, id, &writes, 0));
    add(&mut schedule, 5, &spec(), 0);
    assert_eq!(schedule.tick(at(0)), [Action::Start(JobId(5))], "elsewhere: nothing is known of its room");
    assert_eq!(schedule.why(JobId(1), at(0)), Some(Reason::Unmeasured));
    let places = (1..=4).map(|id| (JobId(id), "disk 1".to_owned())).collect();
    let free = |bytes| BTreeMap::from([("disk 1".to_owned(), bytes)]);
    let left = [(1, 60), (2, 50), (3, 40)].map(|(id, bytes)| (JobId(id), bytes)).into();
    schedule.set_room(Measured { places, free: free(100), left, ..Measured::default() });
    let begun = [1, 3, 4].map(|id| Action::Start(JobId(id)));
    assert_eq!(schedule.tick(at(1)), begun, "what is of no known size begins");
    schedule.set_limits(Limits { total: 9, per_host: 9, per_source: 9 });
    let why = Reason::Room { needed_bytes: 50, free_bytes: 0 };
    assert_eq!(schedule.why(JobId(2), at(1)), Some(why.clone()));
    assert_eq!(
        why.to_string(),
        "needs 50 bytes where it writes, and 0 bytes are free beside the jobs that run; make room, and it begins"
    );
    // The first one has written half of it and failed; what it held counts until the disk was looked at.
    schedule.ended(JobId(1), &code(4), at(2));
    assert_eq!(schedule.tick(at(2)), []);
    schedule.set_room(Measured { free: free(90), read_ms: 3, ..Measured::default() });
    assert_eq!(schedule.tick(at(3)), [Action::Start(JobId(2))]);
}

#[test]
fn a_full_destination_is_tried_again() {
    let mut schedule = Schedule::new(Limits::default());
    add(&mut schedule, 1, &spec(), 0);
    schedule.tick(at(0));
    let full = Ending { room: crate::job::RoomThere::Full, ..code(4) };
    assert_eq!(schedule.ended(JobId(1), &full, at(1)).0, After::Waiting);
    assert!(matches!(schedule.why(JobId(1), at(2)), Some(Reason::Retry { failures: 1, .. })));
}
