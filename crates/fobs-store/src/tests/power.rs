//! Power cuts of recorded runs. What a receiver does to its file system is noted call by call; from that
//! every state can be made that a cut may leave (`cuts`), and the same command, run again on each, must
//! complete the tree: no file wrong, nothing left over. Nothing here knows what a journal is.

mod cuts;
mod errnos;
mod model;
mod play;

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fobs_rng::Rng;
use rustix::io::Errno;

use self::cuts::{Cut, cut};
use self::play::{Fault, Left, Recorded, Scene};
use super::super::faults::{Call, Lasts};
use crate::recorder::Op;

/// States of each recorded run.
const STATES: usize = 40;
/// Recorded runs.
const RUNS: usize = if cfg!(feature = "long") { 2000 } else { 75 };
/// Least states of all of them.
const ALL_STATES: usize = if cfg!(feature = "long") { 100_000 } else { 3000 };
/// Recorded runs that go on from such a state, of 100.
const SECOND_RUNS: usize = 40;
const THREADS: usize = 2;
/// Recorded runs in which the device refuses to keep something.
const SCENES_REFUSED: u64 = if cfg!(feature = "long") { 200 } else { 6 };
/// Calls after that, before any of which a run is cut.
const CALLS_AFTER: usize = 16;
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
        let cut = draw_cut(recorded, rng);
        try_state(scene, recorded, cut, rng, &format!("seed {seed}, state {number}"));
    }
    STATES
}

fn try_state(scene: &Scene, recorded: &Recorded, (how, at): (Cut, usize), rng: &mut Rng, which: &str) {
    let left = left_by(recorded, how, at, rng);
    if let Err(why) = play::go_on(scene, &left) {
        panic!(
            "{which}, {how:?} after {at} of {} calls: {why}\n{scene:?}\n{}\nleft:\n{}",
            recorded.log.ops.len(),
            recorded.log.describe(at),
            left.files.describe(),
        );
    }
}

/// Cuts soon after the device has begun to refuse to keep anything; their number.
fn try_refusals(seed: u64) -> usize {
    let mut tried = 0;
    for spared in 0.. {
        let mut rng = Rng::new(seed);
        // A run changes the destination: each begins with one of its own.
        let scene = Scene::draw(&mut rng);
        let fault = Fault { call: Call::Sync, spared, errno: Errno::IO, lasts: Lasts::On };
        let run = Recorded::of(&scene, None, Some(fault), seed);
        let is_refusal = |op: &Op| matches!(op, Op::SyncFailed { .. });
        let Some(first) = run.log.ops.iter().position(is_refusal) else { break };
        for at in first..=run.log.ops.len().min(first + CALLS_AFTER) {
            for how in [Cut::Kill, Cut::Power] {
                if how == Cut::Power && at > run.log.promised() {
                    continue;
                }
                try_state(&scene, &run, (how, at), &mut rng, &format!("seed {seed}, refused {spared}"));
                tried += 1;
            }
        }
    }
    tried
}

#[test]
fn a_cut_after_the_device_refused_leaves_nothing_over() {
    let tried: usize = (0..SCENES_REFUSED).map(try_refusals).sum();
    println!("{tried} states");
    assert!(tried > 100, "devices are asked more often: {tried}");
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
    let failed = Mutex::new(Vec::new());
    let only = std::env::var("FOBS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= runs.end || (only.is_some() && run > runs.start) {
                        return;
                    }
                    let seed = only.unwrap_or(run as u64);
                    // The others are tried too: what they have in common is what is wrong.
                    match catch_unwind(|| try_scene(seed)) {
                        Ok(count) => drop(tried.fetch_add(count, Ordering::Relaxed)),
                        Err(_) => failed.lock().expect("not poisoned").push(seed),
                    }
                }
            });
        }
    });
    let (tried, failed) = (tried.into_inner(), failed.into_inner().expect("not poisoned"));
    println!("{tried} states");
    assert!(failed.is_empty(), "runs {failed:?} failed, as said above");
    assert!(only.is_some() || runs != (0..RUNS) || tried >= ALL_STATES);
}
