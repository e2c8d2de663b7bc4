//! Disks of this host, which the keeper looks at: none is ever full.

use std::collections::BTreeMap;

use super::super::*;
use super::disks::{Disks, END_MS};
use super::{add, at, code, spec};

/// Time between two looks at the disks, ms.
const LOOK_MS: u64 = 5000;
const PLACES: [&str; 2] = ["a", "b"];

/// The keeper of them.
struct Looked(Disks);

impl Looked {
    fn random(seed: u64) -> Looked {
        let mut disks = Disks::random(seed, &PLACES);
        for id in 1..=disks.rng.range(1, 40) {
            let (place, bytes) = disks.draw(&PLACES);
            let room = Some("/somewhere".into());
            add(&mut disks.schedule, id, &Spec { room, ..spec() }, 0);
            disks.jobs.insert(JobId(id), (place, bytes, 0));
        }
        Looked(disks)
    }

    fn look(&mut self, now: Moment) {
        let Looked(disks) = self;
        let left = disks.left();
        // As in the keeper, time passes between the figures and the look at the disk.
        disks.write(1000);
        let places = disks.jobs.iter().map(|(id, (place, ..))| (*id, place.clone())).collect();
        let free = PLACES.map(|place| (place.to_owned(), disks.free(place))).into();
        disks.schedule.set_room(Measured { left, read_ms: now.ms, places, free, until_ms: None });
    }

    fn play(mut self) {
        let mut now = 0;
        let mut rests_ms = 0;
        // At rest: nothing runs, and a look at the disks lets nothing begin.
        while rests_ms < 3_600_000 && !self.0.schedule.is_empty() {
            assert!(now < END_MS, "seed {}: not at rest: {:?}", self.0.seed, self.0.schedule);
            if now % LOOK_MS == 0 {
                self.look(at(now));
            }
            self.0.step(at(now));
            rests_ms = if self.0.running.is_empty() { rests_ms + 1000 } else { 0 };
            now += 1000;
        }
        self.look(at(now));
        for (id, (place, bytes, moved)) in &self.0.jobs {
            match self.0.schedule.why(*id, at(now)) {
                Some(Reason::Room { needed_bytes, free_bytes }) => {
                    assert_eq!(
                        (needed_bytes, free_bytes),
                        (bytes - moved, self.0.free(place)),
                        "seed {}",
                        self.0.seed
                    );
                    assert!(needed_bytes > free_bytes, "seed {}: {id} fits, and waits", self.0.seed);
                }
                None => assert_eq!(bytes, moved, "seed {}: {id} is over", self.0.seed),
                why => panic!("seed {}: {id}: {why:?}", self.0.seed),
            }
        }
        // Room is made: all of them end.
        self.0.make_room();
        while !self.0.schedule.is_empty() {
            assert!(now < 2 * END_MS, "seed {}: not over: {:?}", self.0.seed, self.0.schedule);
            if now % LOOK_MS == 0 {
                self.look(at(now));
            }
            self.0.step(at(now));
            now += 1000;
        }
    }
}

#[test]
fn no_disk_is_ever_full_and_what_fits_is_not_held_up() {
    for seed in 0..200 {
        Looked::random(seed).play();
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
