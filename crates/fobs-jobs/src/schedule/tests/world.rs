//! A random world of jobs, users' orders and attempts that end at random; it checks every step.

use std::collections::{BTreeMap, BTreeSet};

use fobs_rng::Rng;

use super::super::*;
use super::{at, spec};
use crate::job::Window;

const CODES: &[i32] = &[0, 0, 0, 0, 0, 0, 35, 30, 10, 1, 4, 23];
/// All random worlds are over by then, ms.
const END_MS: u64 = 60 * 24 * 3_600_000;

pub struct World {
    seed: u64,
    rng: Rng,
    limits: Limits,
    schedule: Schedule,
    specs: BTreeMap<JobId, Spec>,
    /// End of each running attempt, ms.
    running: BTreeMap<JobId, u64>,
    over: BTreeMap<JobId, Phase>,
    paused: BTreeSet<JobId>,
    /// When a job of each priority began last.
    began: BTreeMap<i8, u64>,
}

impl World {
    pub fn random(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let limit = |rng: &mut Rng, high| u32::try_from(rng.range(1, high)).expect("small");
        let limits = Limits {
            total: limit(&mut rng, 6),
            per_host: limit(&mut rng, 3),
            per_source: limit(&mut rng, 4),
        };
        let mut world = World {
            seed,
            schedule: Schedule::new(limits),
            limits,
            specs: BTreeMap::new(),
            running: BTreeMap::new(),
            over: BTreeMap::new(),
            paused: BTreeSet::new(),
            began: BTreeMap::new(),
            rng,
        };
        let count = world.rng.range(1, 60);
        for id in 1..=count {
            let spec = world.random_spec(id);
            world.schedule.add(JobId(id), &spec, Begin::new(&spec, 0));
            world.specs.insert(JobId(id), spec);
        }
        world
    }

    fn random_spec(&mut self, id: u64) -> Spec {
        let rng = &mut self.rng;
        let name = |rng: &mut Rng| rng.pick(&["a", "b", "c"]).to_owned();
        let mut after = BTreeSet::new();
        while id > 1 && rng.chance(0.2) {
            after.insert(JobId(rng.range(1, id - 1)));
        }
        let windows = ["20:00-06:00", "08:00-09:00", "00:00-12:00"];
        Spec {
            priority: i8::try_from(rng.range(0, 6)).expect("small") - 3,
            label: name(rng),
            destinations: vec![name(rng)],
            sources: if rng.chance(0.5) { vec![name(rng)] } else { vec![] },
            after: after.into_iter().collect(),
            at_ms: rng.chance(0.2).then(|| rng.range(0, 86_400_000)),
            between: rng.chance(0.2).then(|| Window::parse(rng.pick(&windows)).expect("a window")),
            deadline_ms: rng.chance(0.1).then(|| rng.range(1, 86_400_000)),
            retries: u32::try_from(rng.range(0, 4)).expect("small"),
            ..spec()
        }
    }

    /// Plays until every job is over.
    pub fn play(mut self) {
        let mut now = 0;
        while !self.schedule.is_empty() {
            assert!(now < END_MS, "seed {}: not over: {:?}", self.seed, self.schedule);
            self.order(at(now));
            let actions = self.schedule.tick(at(now));
            self.obey(&actions, at(now));
            assert_eq!(self.schedule.tick(at(now)), [], "seed {}: all was said at once", self.seed);
            self.check_idle(at(now));
            let ends = self.running.iter().map(|(id, end)| (*end, *id)).min();
            let wake = self.schedule.wake_ms(at(now)).into_iter().chain(ends.map(|(end, _)| end)).min();
            // Without either, a paused job is resumed at last.
            now = wake.unwrap_or(now + 3_600_000).max(now + 1);
            let ended: Vec<JobId> =
                self.running.iter().filter(|(_, end)| **end <= now).map(|(id, _)| *id).collect();
            for id in ended {
                self.end(id, at(now));
            }
        }
        assert_eq!(self.over.len(), self.specs.len(), "seed {}: every job is over once", self.seed);
        assert_eq!(self.schedule.running(), 0, "seed {}", self.seed);
    }

    fn order(&mut self, now: Moment) {
        let id = JobId(self.rng.range(1, self.specs.len() as u64));
        if self.rng.chance(0.02)
            && let Some((after, actions)) = self.schedule.cancel(id)
        {
            self.paused.remove(&id);
            match after {
                After::Cancelled => self.is_over(id, Phase::Cancelled),
                After::Stopping(Halt::Cancelled) => {
                    self.running.insert(id, now.ms + 1);
                }
                other => panic!("seed {}: {other:?}", self.seed),
            }
            self.obey(&actions, now);
        } else if self.rng.chance(0.02)
            && let Some(after) = self.schedule.pause(id)
        {
            if after == After::Paused {
                self.paused.insert(id);
            } else {
                self.running.insert(id, now.ms + 1);
            }
        } else if self.rng.chance(0.2) && self.schedule.resume(id, now).is_some() {
            self.paused.remove(&id);
        }
    }

    fn obey(&mut self, actions: &[Action], now: Moment) {
        for action in actions {
            match *action {
                Action::Start(id) => self.start(id, now),
                Action::Stop(id, _) => {
                    self.running.insert(id, now.ms + 1);
                }
                Action::End(id, over) => {
                    if let Over::Predecessor(by) = over {
                        assert!(
                            self.over.get(&by).is_some_and(|phase| *phase != Phase::Done),
                            "seed {}",
                            self.seed
                        );
                    }
                    self.is_over(id, Phase::Failed);
                }
                Action::Skip(id) => panic!("seed {}: {id} does not repeat", self.seed),
            }
        }
    }

    fn start(&mut self, id: JobId, now: Moment) {
        let spec = &self.specs[&id];
        let seed = self.seed;
        assert!(!self.paused.contains(&id) && !self.over.contains_key(&id), "seed {seed}: {id}");
        assert!(spec.between.is_none_or(|window| window.is_open(now.day_second)), "seed {seed}: {id}");
        assert!(spec.at_ms.is_none_or(|at| at <= now.ms), "seed {seed}: {id}");
        assert!(spec.after.iter().all(|id| self.over.get(id) == Some(&Phase::Done)), "seed {seed}: {id}");
        let took = self.rng.range(1, 7_200_000);
        assert_eq!(self.running.insert(id, now.ms + took), None, "seed {seed}: {id} runs twice");
        let to = |name: &String| {
            self.running.keys().filter(|id| self.specs[id].destinations.contains(name)).count()
        };
        let from =
            |name: &String| self.running.keys().filter(|id| self.specs[id].sources.contains(name)).count();
        let spec = &self.specs[&id];
        assert!(self.running.len() <= self.limits.total as usize, "seed {seed}");
        assert!(
            spec.destinations.iter().all(|host| to(host) <= self.limits.per_host as usize),
            "seed {seed}"
        );
        assert!(
            spec.sources.iter().all(|source| from(source) <= self.limits.per_source as usize),
            "seed {seed}"
        );
        // No other one that could have begun instead has a higher priority, unless nothing of this one began
        // for half an hour a step.
        let waited_ms = now.ms - self.began.get(&spec.priority).copied().unwrap_or(0);
        self.began.insert(spec.priority, now.ms);
        let instead = self.schedule.entries.keys().copied().filter(|other| {
            let other = &self.specs[other];
            other.destinations == spec.destinations && other.sources == spec.sources
        });
        for other in instead.filter(|other| self.schedule.why(*other, now).is_some()) {
            let entry = &self.schedule.entries[&other];
            let steps = i64::from(entry.priority()) - i64::from(spec.priority);
            let aged = i64::try_from(waited_ms / AGING_MS).expect("months") >= steps;
            assert!(entry.holds_back(now).is_some() || aged, "seed {seed}: {other} before {id}");
        }
    }

    /// Nothing that may run waits: each has a reason other than its turn, and a time or an event that ends
    /// it.
    fn check_idle(&self, now: Moment) {
        for id in self.specs.keys().filter(|id| !self.over.contains_key(id) && !self.running.contains_key(id))
        {
            let why = self.schedule.why(*id, now);
            let why = why.unwrap_or_else(|| panic!("seed {}: {id} has no reason", self.seed));
            assert_ne!(why, Reason::Turn, "seed {}: {id}", self.seed);
            assert!(why.until_ms().is_none_or(|until| until > now.ms), "seed {}: {id}", self.seed);
        }
    }

    fn end(&mut self, id: JobId, now: Moment) {
        self.running.remove(&id);
        let code = self.rng.pick(CODES);
        let (after, actions) = self.schedule.ended(id, &super::code(code), now);
        match after {
            After::Done => self.is_over(id, Phase::Done),
            After::Failed => self.is_over(id, Phase::Failed),
            After::Cancelled => self.is_over(id, Phase::Cancelled),
            After::Paused => {
                self.paused.insert(id);
            }
            After::Waiting => assert_ne!(code, 0, "seed {}", self.seed),
            other => panic!("seed {}: {other:?}", self.seed),
        }
        self.obey(&actions, now);
    }

    fn is_over(&mut self, id: JobId, phase: Phase) {
        assert_eq!(self.over.insert(id, phase), None, "seed {}: {id} is over twice", self.seed);
    }
}
