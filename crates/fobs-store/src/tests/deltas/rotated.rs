//! Files that take the names of others, as logs do that are rotated.

use super::known::put;
use super::*;
use fobs_model::options::sync::Delete;

fn renames(options: &mut SyncOptions) {
    options.track_renames = Renames::All;
    (options.preserve.times, options.preserve.sparse) = (true, false);
}

fn deletes(options: &mut SyncOptions) {
    renames(options);
    options.delete = Some(Delete::default());
}

fn run_with(world: &World, alter: fn(&mut SyncOptions)) -> Delta {
    let mut between = |_| ();
    run(world, Play { alter, ..Play::ordinary(&mut between) })
}

/// Puts what the destination has, and what the source has: a name, which content, and how old it is.
fn world_with(there: &[(&str, u64)], here: &[(&str, u64)]) -> World {
    let world = World::new();
    for (name, which) in there {
        put(&world.to(name), &log(*which), 100 * which);
    }
    for (name, which) in here {
        put(&world.from(name), &log(*which), 100 * which);
    }
    world
}

/// Long, and short enough to be kept in memory.
fn log(which: u64) -> Vec<u8> {
    let len = if which.is_multiple_of(2) { 300_000 } else { 9_000 };
    content(len + which as usize, which)
}

#[track_caller]
fn expect_alike(world: &World, names: &[(&str, u64)]) {
    for (name, which) in names {
        assert!(fs::read(world.to(name)).expect("it came") == log(*which), "{name}");
    }
}

#[test]
fn logs_that_are_rotated_are_not_sent_again() {
    let there = [("log", 3), ("log.1", 4), ("log.2", 5), ("log.3", 6), ("log.4", 7)];
    // `log` begins anew; the last name is new.
    let here = [("log.1", 3), ("log.2", 4), ("log.3", 5), ("log.4", 6), ("log.5", 7)];
    for begins in [&b""[..], b"a line\n", &[b'l'; 5000]] {
        let world = world_with(&there, &here);
        put(&world.from("log"), begins, 1);
        let delta = run_with(&world, renames);
        expect_alike(&world, &here);
        assert_eq!(fs::read(world.to("log")).expect("it came"), begins);
        assert_eq!((delta.supposed, delta.unusable), (5, 0), "{delta:?}");
        assert!(delta.wire < 10_000 && delta.failures.is_empty(), "{delta:?}");
    }
}

#[test]
fn a_file_that_takes_the_name_of_another_is_not_sent() {
    for alter in [renames, deletes] {
        let here = [("b", 4)];
        let world = world_with(&[("a", 4), ("b", 6)], &here);
        let delta = run_with(&world, alter);
        expect_alike(&world, &here);
        assert!(delta.wire < 2000 && delta.unusable == 0 && delta.failures.is_empty(), "{delta:?}");
    }
}

#[test]
fn names_that_are_swapped_are_swapped() {
    let here = [("a", 6), ("b", 4), ("c", 2)];
    let world = world_with(&[("a", 4), ("b", 6), ("c", 2)], &here);
    let delta = run_with(&world, renames);
    expect_alike(&world, &here);
    assert!(delta.wire < 2000 && delta.unusable == 0, "{delta:?}");
}

#[test]
fn a_file_that_only_looks_like_one_replaced_is_sent() {
    let here = [("log.1", 4), ("log.2", 8)];
    let world = world_with(&[("log", 4), ("log.1", 8)], &here);
    // Of the same size and time, and other content.
    put(&world.to("log"), &content(log(4).len(), 99), 400);
    put(&world.from("log"), &log(2), 1);
    let delta = run_with(&world, renames);
    expect_alike(&world, &here);
    assert!(delta.unusable >= 1 && delta.failures.is_empty(), "{delta:?}");
}

#[test]
fn what_is_copied_whatever_its_time_is_not_made_of_itself() {
    let there = [("a", 4)];
    let world = world_with(&there, &there);
    let delta = run_with(&world, |options| {
        renames(options);
        options.rules.compare = sync::Compare::Nothing;
    });
    expect_alike(&world, &there);
    assert_eq!(delta.supposed, 0, "{delta:?}");
}
