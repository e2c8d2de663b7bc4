//! Hosts in virtual time: they are asked for their room, answer late or not at all, and none is ever filled.

use std::collections::BTreeMap;

use fobs_rng::Rng;

use super::super::*;
use super::{add, at, code, spec};

/// For how long an answer is good, ms.
const GOOD_MS: u64 = 30_000;
/// Questions at once.
const AT_ONCE_MAX: usize = 4;
/// All of these worlds are at rest by then, ms.
const END_MS: u64 = 10 * 24 * 3_600_000;

/// A host that is asked.
struct Asked {
    id: JobId,
    place: Option<String>,
    before: Measured,
    /// When it looks at its disk, and when its answer is here, ms.
    looks_ms: u64,
    answers_ms: u64,
    free_bytes: Option<u64>,
}

struct Hosts {
    seed: u64,
    rng: Rng,
    schedule: Schedule,
    /// Bytes of each disk, and what is written of it.
    sizes: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
    /// The host and the disk of each job, what it is to write, and what it has.
    jobs: BTreeMap<JobId, (String, u64, u64)>,
    running: BTreeMap<JobId, u64>,
    asked: Vec<Asked>,
    questions: u64,
}

impl Hosts {
    fn random(seed: u64) -> Hosts {
        let mut rng = Rng::new(seed);
        let limit = u32::try_from(rng.range(1, 8)).expect("small");
        let places = ["a disk 1", "a disk 2", "b disk 1"];
        let sizes: BTreeMap<String, u64> =
            places.map(|name| (name.to_owned(), rng.range(1_000, 100_000))).into();
        let mut world = Hosts {
            seed,
            schedule: Schedule::new(Limits { total: limit, per_host: 64, per_source: 64 }),
            sizes,
            used: BTreeMap::new(),
            jobs: BTreeMap::new(),
            running: BTreeMap::new(),
            asked: Vec::new(),
            questions: 0,
            rng,
        };
        for id in 1..=world.rng.range(1, 40) {
            let place = world.rng.pick(&places).to_owned();
            let bytes = world.rng.range(0, world.sizes[&place] * 11 / 10);
            let (there, host) = (Some("there".into()), place[..1].to_owned());
            let spec = Spec { room_there: there, destinations: vec![host], ..spec() };
            // Some were adopted while they ran, with room for all of them.
            let held: u64 = world.running.keys().map(|id| world.jobs[id].1).sum();
            if world.rng.chance(0.1) && held + bytes <= world.sizes[&place] {
                let begin = Begin { phase: Phase::Running, ..Begin::new(&spec, 0) };
                world.schedule.add(JobId(id), &spec, begin);
                world.running.insert(JobId(id), world.rng.range(50, 5_000));
            } else {
                add(&mut world.schedule, id, &spec, 0);
            }
            world.jobs.insert(JobId(id), (place, bytes, 0));
        }
        world
    }

    fn free(&self, place: &str) -> u64 {
        self.sizes[place] - self.used.get(place).copied().unwrap_or(0)
    }

    /// Asks and hears, as the keeper does.
    fn talk(&mut self, now: Moment) {
        for Inquiry { id, place } in self.schedule.inquiries(now) {
            let is_same = |asked: &Asked| asked.id == id || place.is_some() && asked.place == place;
            let is_asked = self.asked.iter().any(is_same);
            if is_asked || self.asked.len() >= AT_ONCE_MAX {
                continue;
            }
            let left = self.jobs.iter().filter(|(id, _)| self.schedule.begin_of(**id).is_some());
            let left = left.map(|(id, (_, bytes, moved))| (*id, bytes - moved)).collect();
            let looks_ms = now.ms + self.rng.range(0, 10_000);
            let answers_ms = looks_ms + self.rng.range(0, 10_000);
            let before = Measured { left, read_ms: now.ms, ..Measured::default() };
            self.asked.push(Asked { id, place, before, looks_ms, answers_ms, free_bytes: None });
            self.questions += 1;
        }
        for asked in &mut self.asked {
            let place = &self.jobs[&asked.id].0;
            if asked.free_bytes.is_none() && asked.looks_ms <= now.ms {
                asked.free_bytes = Some(self.sizes[place] - self.used.get(place).copied().unwrap_or(0));
            }
        }
        let (answered, rest) = self.asked.drain(..).partition(|asked| asked.answers_ms <= now.ms);
        self.asked = rest;
        for Asked { id, before, free_bytes, .. } in answered {
            let (place, bytes, moved) = self.jobs[&id].clone();
            self.schedule.told(
                Told {
                    id,
                    place,
                    free_bytes: free_bytes.expect("it looks before it answers"),
                    until_ms: now.ms + GOOD_MS,
                    left_bytes: Some(bytes - moved),
                    before,
                },
                now,
            );
        }
    }

    fn step(&mut self, now: Moment) {
        self.talk(now);
        for action in self.schedule.tick(now) {
            let Action::Start(id) = action else { panic!("seed {}: {action:?}", self.seed) };
            let rate = self.rng.range(50, 5_000);
            self.running.insert(id, rate);
        }
        for (id, rate) in &self.running {
            let (place, bytes, moved) = self.jobs.get_mut(id).expect("it is one");
            let more = (*rate).min(*bytes - *moved);
            *moved += more;
            *self.used.entry(place.clone()).or_default() += more;
            let (used, size) = (self.used[place], self.sizes[place]);
            assert!(used <= size, "seed {}: {id} has no room: {used} of {size}", self.seed);
        }
        let ids: Vec<JobId> = self.running.keys().copied().collect();
        for id in ids {
            let (_, bytes, moved) = self.jobs[&id];
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
        let (mut now, mut rests_ms) = (0, 0);
        while rests_ms < 3_600_000 && !self.schedule.is_empty() {
            assert!(now < END_MS, "seed {}: not at rest: {:?}", self.seed, self.schedule);
            self.step(at(now));
            rests_ms = if self.running.is_empty() { rests_ms + 1000 } else { 0 };
            now += 1000;
        }
        for (id, (place, bytes, moved)) in &self.jobs {
            let is_over = self.schedule.begin_of(*id).is_none();
            assert!(!is_over || bytes == moved, "seed {}: {id} is over", self.seed);
            assert!(is_over || bytes - moved > self.free(place), "seed {}: {id} fits, and waits", self.seed);
        }
        // A host that is full is not asked all the time.
        let most = (now / GOOD_MS + 2) * self.sizes.len() as u64 + self.jobs.len() as u64;
        assert!(self.questions <= most, "seed {}: {} questions in {now} ms", self.seed, self.questions);
        // Room is made: all of them end.
        self.sizes.values_mut().for_each(|size| *size += 40 * 110_000);
        while !self.schedule.is_empty() {
            assert!(now < 2 * END_MS, "seed {}: not over: {:?}", self.seed, self.schedule);
            self.step(at(now));
            now += 1000;
        }
    }
}

#[test]
fn no_host_is_ever_filled_and_what_fits_is_not_held_up() {
    for seed in 0..200 {
        Hosts::random(seed).play();
    }
}

fn there() -> Spec {
    Spec { room_there: Some("h:x".into()), destinations: vec!["h".to_owned()], ..spec() }
}

fn told(id: u64, free_bytes: u64, left_bytes: u64, until_ms: u64) -> Told {
    let (id, place) = (JobId(id), "h disk 1".to_owned());
    Told { id, place, free_bytes, until_ms, left_bytes: Some(left_bytes), before: Measured::default() }
}

#[test]
fn a_host_that_does_not_say_holds_up_no_job() {
    let mut schedule = Schedule::new(Limits::default());
    add(&mut schedule, 1, &there(), 0);
    assert_eq!(schedule.tick(at(0)), []);
    assert_eq!(schedule.why(JobId(1), at(0)), Some(Reason::Unmeasured));
    assert_eq!(schedule.inquiries(at(0)), [Inquiry { id: JobId(1), place: None }]);
    schedule.set_untold(JobId(1), 1000);
    assert_eq!(schedule.inquiries(at(1)), []);
    assert_eq!(schedule.tick(at(1)), [Action::Start(JobId(1))]);
    assert!(matches!(schedule.ended(JobId(1), &code(10), at(2)), (After::Waiting, _)));
    // It may say it by now.
    schedule.resume(JobId(1), at(2000));
    assert_eq!(schedule.inquiries(at(2000)).len(), 1);
}

#[test]
fn an_old_answer_is_asked_for_again_before_a_job_begins() {
    let mut schedule = Schedule::new(Limits::default());
    add(&mut schedule, 1, &there(), 0);
    schedule.told(told(1, 100, 60, 1000), at(0));
    assert_eq!(schedule.tick(at(1)), [Action::Start(JobId(1))]);
    add(&mut schedule, 2, &there(), 0);
    assert!(!schedule.takes_known(JobId(2), "h disk 1", Some(50), at(2)), "60 of 100 are held");
    assert!(schedule.takes_known(JobId(2), "h disk 1", Some(30), at(2)));
    let asks = [Inquiry { id: JobId(2), place: Some("h disk 1".to_owned()) }];
    assert_eq!((schedule.inquiries(at(999)), schedule.inquiries(at(1000))), (vec![], asks.to_vec()));
    assert_eq!(schedule.tick(at(1000)), []);
    schedule.told(told(2, 20, 30, 2000), at(1001));
    let why = Reason::Room { needed_bytes: 30, free_bytes: 0 };
    assert_eq!(schedule.why(JobId(2), at(1002)), Some(why));
}
