//! Both ends on one host: the receiver reads large sources itself.

use super::*;

/// Larger than what is read so, and smaller.
const LARGE: usize = LEN;
const SMALL: usize = 100_000;

fn here(
    world: &World,
    alter: fn(&mut SyncOptions),
    sources: PathBuf,
    between: &mut dyn FnMut(usize),
) -> Delta {
    let (key, terms, beside) = (NameKey::new([1; 32]), Terms::default(), Beside::Sources(sources));
    run(world, Play { alter, key, terms, beside, ..Play::ordinary(between) })
}

fn two_files() -> World {
    let world = World::new();
    fs::create_dir(world.from("d")).expect("our own place");
    fs::write(world.from("d/large"), content(LARGE, 1)).expect("our own place");
    fs::write(world.from("small"), content(SMALL, 2)).expect("our own place");
    world
}

fn expect_both(world: &World, large: &[u8]) {
    assert!(fs::read(world.to("d/large")).expect("it came") == large);
    assert!(fs::read(world.to("small")).expect("it came") == content(SMALL, 2));
}

#[test]
fn a_large_source_is_read_by_the_receiver_and_counts_as_sent() {
    for there in [None, Some(LARGE), Some(10)] {
        let world = two_files();
        if let Some(len) = there {
            fs::create_dir(world.to("d")).expect("our own place");
            fs::write(world.to("d/large"), content(len, 3)).expect("our own place");
            let long_ago = std::time::SystemTime::UNIX_EPOCH;
            File::open(world.to("d/large")).and_then(|it| it.set_modified(long_ago)).expect("own file");
        }
        let delta = here(&world, |_| (), world.from(""), &mut |_| ());
        expect_both(&world, &content(LARGE, 1));
        assert_eq!((delta.supposed, delta.listed, delta.unusable), (1, 0, 0), "{there:?}: {delta:?}");
        assert_eq!(delta.matched, 0, "{there:?}: {delta:?}");
        assert!(delta.wire < 2 * SMALL as u64 && delta.failures.is_empty(), "{there:?}: {delta:?}");
    }
}

#[test]
fn what_only_seems_to_be_the_source_costs_chunks_and_no_file() {
    let world = two_files();
    let other = world.to("../other");
    fs::create_dir_all(other.join("d")).expect("our own place");
    fs::write(other.join("d/large"), content(LARGE, 9)).expect("our own place");
    let time = fs::metadata(world.from("d/large")).and_then(|it| it.modified()).expect("own file");
    File::open(other.join("d/large")).and_then(|it| it.set_modified(time)).expect("own file");
    let delta = here(&world, |_| (), other, &mut |_| ());
    expect_both(&world, &content(LARGE, 1));
    assert!(delta.supposed == 1 && delta.unusable > 0, "{delta:?}");
}

#[test]
fn a_source_of_another_time_or_behind_a_link_is_not_read() {
    for how in ["time", "link", "missing", "in place"] {
        let world = two_files();
        let other = world.to("../other");
        fs::create_dir_all(&other).expect("our own place");
        match how {
            "time" => {
                fs::create_dir(other.join("d")).expect("our own place");
                fs::write(other.join("d/large"), content(LARGE, 1)).expect("our own place");
                let long_ago = std::time::SystemTime::UNIX_EPOCH;
                File::open(other.join("d/large")).and_then(|it| it.set_modified(long_ago)).expect("own file");
            }
            "link" => std::os::unix::fs::symlink(world.from("d"), other.join("d")).expect("our own place"),
            _ => {}
        }
        let delta = match how {
            "in place" => here(&world, |options| options.rules.in_place = true, world.from(""), &mut |_| ()),
            _ => here(&world, |_| (), other, &mut |_| ()),
        };
        expect_both(&world, &content(LARGE, 1));
        assert!(delta.supposed == 0 && delta.wire > LARGE as u64, "{how}: {delta:?}");
    }
}

/// What changes while it is read is the one content or the other, or a failure is told.
#[test]
fn a_source_that_changes_meanwhile_is_never_mixed() {
    for (how, change) in MEDDLING {
        for moment in 0..4 {
            let world = two_files();
            let source = world.from("d/large");
            let delta = here(&world, |_| (), world.from(""), &mut |chunk| {
                if chunk == moment {
                    change(&source);
                }
            });
            let stored = fs::read(world.to("d/large")).ok();
            let (old, new) = (Some(content(LARGE, 1)), fs::read(&source).ok());
            let is_whole = stored == old || stored.is_some() && stored == new;
            assert!(is_whole || !delta.failures.is_empty(), "{how}, {moment}: {delta:?}");
            assert!(stored.is_none() || is_whole, "{how}, {moment}: {delta:?}");
        }
    }
}
