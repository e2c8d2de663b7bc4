//! Hosts in virtual time: they are asked for their room, answer late or not at all, and none is ever filled.

use super::super::*;
use super::disks::{Disks, END_MS};
use super::{add, at, code, spec};

/// For how long an answer is good, ms.
const GOOD_MS: u64 = 30_000;
/// Questions at once.
const AT_ONCE_MAX: usize = 4;
const PLACES: [&str; 3] = ["a disk 1", "a disk 2", "b disk 1"];

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

/// A host is named before its disk.
struct Hosts {
    disks: Disks,
    asked: Vec<Asked>,
    questions: u64,
}

impl Hosts {
    fn random(seed: u64) -> Hosts {
        let mut world = Disks::random(seed, &PLACES);
        for id in 1..=world.rng.range(1, 40) {
            let (place, bytes) = world.draw(&PLACES);
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
        Hosts { disks: world, asked: Vec::new(), questions: 0 }
    }

    /// Asks and hears, as the keeper does.
    fn talk(&mut self, now: Moment) {
        for Inquiry { id, place } in self.disks.schedule.inquiries(now) {
            let is_same = |asked: &Asked| asked.id == id || place.is_some() && asked.place == place;
            let is_asked = self.asked.iter().any(is_same);
            if is_asked || self.asked.len() >= AT_ONCE_MAX {
                continue;
            }
            let left = self.disks.left();
            let looks_ms = now.ms + self.disks.rng.range(0, 10_000);
            let answers_ms = looks_ms + self.disks.rng.range(0, 10_000);
            let before = Measured { left, read_ms: now.ms, ..Measured::default() };
            self.asked.push(Asked { id, place, before, looks_ms, answers_ms, free_bytes: None });
            self.questions += 1;
        }
        for asked in &mut self.asked {
            let place = &self.disks.jobs[&asked.id].0;
            if asked.free_bytes.is_none() && asked.looks_ms <= now.ms {
                asked.free_bytes = Some(self.disks.free(place));
            }
        }
        let (answered, rest) = self.asked.drain(..).partition(|asked| asked.answers_ms <= now.ms);
        self.asked = rest;
        for Asked { id, before, free_bytes, .. } in answered {
            let (place, bytes, moved) = self.disks.jobs[&id].clone();
            self.disks.schedule.told(
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

    fn play(mut self) {
        let (mut now, mut rests_ms) = (0, 0);
        while rests_ms < 3_600_000 && !self.disks.schedule.is_empty() {
            assert!(now < END_MS, "seed {}: not at rest: {:?}", self.disks.seed, self.disks.schedule);
            self.talk(at(now));
            self.disks.step(at(now));
            rests_ms = if self.disks.running.is_empty() { rests_ms + 1000 } else { 0 };
            now += 1000;
        }
        for (id, (place, bytes, moved)) in &self.disks.jobs {
            let is_over = self.disks.schedule.begin_of(*id).is_none();
            assert!(!is_over || bytes == moved, "seed {}: {id} is over", self.disks.seed);
            assert!(
                is_over || bytes - moved > self.disks.free(place),
                "seed {}: {id} fits, and waits",
                self.disks.seed
            );
        }
        // A host that is full is not asked all the time.
        let most = (now / GOOD_MS + 2) * self.disks.sizes.len() as u64 + self.disks.jobs.len() as u64;
        assert!(self.questions <= most, "seed {}: {} questions in {now} ms", self.disks.seed, self.questions);
        // Room is made: all of them end.
        self.disks.make_room();
        while !self.disks.schedule.is_empty() {
            assert!(now < 2 * END_MS, "seed {}: not over: {:?}", self.disks.seed, self.disks.schedule);
            self.talk(at(now));
            self.disks.step(at(now));
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
