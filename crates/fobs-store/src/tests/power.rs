//! Power cuts of recorded runs. What a receiver does to its file system is noted call by call; from that
//! every state can be made that a cut may leave (`cuts`), and the same command, run again on each, must
//! complete the tree: no file wrong, nothing left over. Nothing here knows what a journal is.

mod cuts;
mod errnos;
mod model;
mod play;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fobs_rng::Rng;
use rustix::io::Errno;

use self::cuts::{Cut, cut};
use self::play::{Fault, Left, Recorded, Scene};
use super::super::faults::{Call, Lasts};

/// States of each recorded run.
const STATES: usize = 40;
/// Recorded runs.
const RUNS: usize = if cfg!(feature = "long") { 1000 } else { 75 };
/// Recorded runs that go on from such a state, of 100.
const SECOND_RUNS: usize = 40;
const THREADS: usize = 2;
/// Runs in which a call fails, of 100.
const FAULTS: usize = 30;

/// What storage answers that fails, is full, was remounted for reading alone, or went away.
const ERRNOS: [Errno; 5] = [Errno::IO, Errno::NOSPC, Errno::ROFS, Errno::STALE, Errno::DQUOT];

fn draw_fault(rng: &mut Rng) -> Fault {
    let calls = [
        Call::Write,
        Call::Sync,
        Call::RenameToNew,
        Call::Name,
        Call::Truncate,
        Call::Attributes,
        Call::Record,
        Call::Lock,
        Call::Any,
    ];
    let lasts = if rng.below(3) == 0 { Lasts::On } else { Lasts::Once };
    // Where the first call of its kind fails, that is mostly the one that makes or locks the journal.
    let spared = if rng.below(4) == 0 { 0 } else { rng.below(30) as u32 };
    Fault { call: rng.pick(&calls), spared, errno: rng.pick(&ERRNOS), lasts }
}

/// States of one run, and of one that goes on from one of them; their number.
fn try_scene(seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let scene = Scene::draw(&mut rng);
    // Where a time could not be set, the next run sends the file again and makes a backup of it, as any does.
    let fault = (rng.below(100) < FAULTS && !scene.has_backups()).then(|| draw_fault(&mut rng));
    let first = Recorded::of(&scene, None, fault, seed);
    let mut tried = try_states(&scene, &first, &mut rng, seed);
    if rng.below(100) < SECOND_RUNS {
        let (how, at) = draw_cut(&first, &mut rng);
        let left = left_by(&first, how, at, &mut rng);
        let fault = (rng.below(100) < FAULTS && !scene.has_backups()).then(|| draw_fault(&mut rng));
        let second = Recorded::of(&scene, Some(left), fault, seed);
        tried += try_states(&scene, &second, &mut rng, seed);
    }
    tried
}

fn draw_cut(recorded: &Recorded, rng: &mut Rng) -> (Cut, usize) {
    let how = if rng.below(4) == 0 { Cut::Kill } else { Cut::Power };
    // Once the journal is gone, what the device has not kept is the user's to ask for (`--fsync`).
    let last = if how == Cut::Kill { recorded.log.ops.len() } else { recorded.log.promised() };
    (how, rng.below(last + 1))
}

fn left_by(run: &Recorded, how: Cut, at: usize, rng: &mut Rng) -> Left {
    let mount = if how == Cut::Kill { run.mount } else { run.mount + 1 };
    Left { files: cut(&run.log, how, at, rng), mount, leaves: run.leaves }
}

fn try_states(scene: &Scene, recorded: &Recorded, rng: &mut Rng, seed: u64) -> usize {
    for number in 0..STATES {
        let (how, at) = draw_cut(recorded, rng);
        let left = left_by(recorded, how, at, rng);
        if let Err(why) = play::go_on(scene, &left) {
            panic!(
                "seed {seed}, state {number}, {how:?} after {at} of {} calls: {why}\n{scene:?}\n{}\nleft:\n{}",
                recorded.log.ops.len(),
                recorded.log.describe(at),
                left.files.describe(),
            );
        }
    }
    STATES
}

/// The runs of this test: those of `POWER_RUNS=FROM-TO` (TO is left out), to play a part.
fn runs() -> std::ops::Range<usize> {
    let Ok(text) = std::env::var("POWER_RUNS") else { return 0..RUNS };
    let (from, to) = text.split_once('-').expect("POWER_RUNS=FROM-TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn every_state_that_a_power_cut_may_leave_is_completed() {
    let runs = runs();
    let (next, tried) = (AtomicUsize::new(runs.start), AtomicUsize::new(0));
    let only = std::env::var("FOBS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= runs.end || (only.is_some() && run > runs.start) {
                        return;
                    }
                    let count = try_scene(only.unwrap_or(run as u64));
                    tried.fetch_add(count, Ordering::Relaxed);
                }
            });
        }
    });
    let tried = tried.into_inner();
    println!("{tried} states");
    let least = RUNS * STATES;
    assert!(only.is_some() || runs != (0..RUNS) || tried >= least);
}
