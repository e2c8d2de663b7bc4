//! Another user who may write in a directory of the destination: what is exchanged there is noticed.
//! `fobs-lab hostile --neighbour` plays it with a second user; here its moments are chosen.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;

use super::super::journal::{Top, journal_name};
use super::super::*;
use super::support::*;
use fobs_model::options::Preserve;

/// A number that no account of a host has.
const USER: u32 = 1_234_567;

fn with_links() -> Preserve {
    Preserve { hard_links: true, ..Preserve::as_cp(true) }
}

/// Sources in this order: `z/second` is one more name of `shared/first`, with several chunks between the two.
const SOURCES: [&str; 3] = ["shared", "large", "z"];

fn linked_tree(world: &World) {
    world.write("shared/first", b"of the source");
    world.write("large", &content(3 << 20, 1));
    fs::create_dir(world.from("z")).expect("a fresh directory");
    fs::hard_link(world.from("shared/first"), world.from("z/second")).expect("one file system");
    fs::create_dir_all(world.to("shared")).expect("fresh directories");
    // Where others may write.
    set_mode(&world.to("shared"), 0o777);
}

/// Copies these; `meddle` is called once, in the middle.
fn copy_and(world: &World, sources: &[&str], meddle: impl Fn(&World)) -> Outcome {
    let from: Vec<_> = sources.iter().map(|source| world.from(source)).collect();
    let from: Vec<_> = from.iter().map(|path| path.as_path()).collect();
    let spec = SourceSpec { preserve: with_links(), ..spec(&from) };
    let mut source = Source::open(spec).expect("the source can be read");
    let spec = SinkSpec { preserve: with_links(), ..sink_spec(&world.to(""), source.shape()) };
    let sink = Sink::open(spec).expect("the destination is free");
    let between = |chunk| {
        if chunk == 3 {
            meddle(world);
        }
    };
    transfer_in(&mut source, sink, |_| 256 << 10, between).expect("no path ends the others")
}

fn replace(path: &Path) {
    // While the other one is there, so that it has another number.
    let other = path.with_extension("other");
    fs::write(&other, "of another user").expect("a fresh name");
    fs::rename(other, path).expect("it is ours");
}

#[test]
fn a_further_name_leads_to_what_was_stored_under_the_first() {
    let world = World::new();
    linked_tree(&world);
    copy_and(&world, &SOURCES, |_| ()).assert_clean();
    let inode = |path: &str| fs::metadata(world.to(path)).expect("it arrived").ino();
    assert_eq!(inode("shared/first"), inode("z/second"));
}

#[test]
fn a_first_name_that_was_exchanged_gains_no_further_name() {
    type Meddle = fn(&World);
    let meddles: [(&str, Meddle); 3] = [
        ("another file", |world| replace(&world.to("shared/first"))),
        ("a link", |world| {
            fs::remove_file(world.to("shared/first")).expect("it is there");
            symlink("/etc/hostname", world.to("shared/first")).expect("a fresh name");
        }),
        ("another directory", |world| {
            fs::rename(world.to("shared"), world.to("moved")).expect("it is ours");
            fs::create_dir(world.to("shared")).expect("a fresh name");
            fs::write(world.to("shared/first"), "of another user").expect("a fresh name");
            if is_root() {
                lchown(world.to("shared"), Some(USER), None).expect("root can");
                lchown(world.to("shared/first"), Some(USER), None).expect("root can");
            }
        }),
    ];
    for (what, meddle) in meddles {
        let world = World::new();
        linked_tree(&world);
        let outcome = copy_and(&world, &SOURCES, meddle);
        let failed: Vec<_> = outcome.sink_failures.iter().map(|it| it.path.clone()).collect();
        assert!(failed.contains(&b"z/second".to_vec()), "{what}: {:?}", outcome.sink_failures);
        assert!(fs::symlink_metadata(world.to("z/second")).is_err(), "{what}");
    }
}

#[test]
fn a_directory_exchanged_between_its_records_fails_alone() {
    let world = World::new();
    world.write("tree/d/a", &content(3 << 20, 1));
    world.write("tree/d/e/b", b"b");
    world.write("tree/f/g", b"g");
    let outcome = copy_and(&world, &["tree"], |world| {
        fs::rename(world.to("tree/d"), world.to("moved")).expect("it is ours");
        fs::create_dir(world.to("tree/d")).expect("a fresh name");
        set_mode(&world.to("tree/d"), 0o711);
    });
    assert!(!outcome.sink_failures.is_empty(), "it is told");
    assert!(outcome.sink_failures.iter().all(|it| it.path.starts_with(b"tree/d")), "{outcome:?}");
    assert_eq!(mode_of(&world.to("tree/d")), 0o711, "what was put there is not dressed");
    assert_eq!(fs::read_dir(world.to("tree/d")).expect("it is there").count(), 0, "and nothing lies in it");
    assert_eq!(fs::read(world.to("tree/f/g")).expect("the others go on"), b"g");
}

#[test]
fn a_mode_that_another_user_chose_is_not_kept() {
    if !is_root() {
        println!("SKIPPED: only root can give a file to another user");
        return;
    }
    for (owner, kept) in [(USER, 0o600), (0, 0o666)] {
        let world = World::new();
        let file = world.write("secret", b"secret");
        set_mode(&file, 0o600);
        fs::write(world.to("secret"), "before").expect("a fresh name");
        set_mode(&world.to("secret"), 0o666);
        lchown(world.to("secret"), Some(owner), None).expect("root can");
        copy(&[&file], &world.to("")).assert_clean();
        assert_eq!(mode_of(&world.to("secret")), kept, "user {owner}");
    }
}

#[test]
fn what_has_a_journals_name_in_a_shared_directory_forbids_nothing() {
    type Plant = fn(&Path);
    let plants: [(&str, Plant); 4] = [
        ("a directory", |at| fs::create_dir(at).expect("a fresh name")),
        ("a link", |at| symlink("/etc/hostname", at).expect("a fresh name")),
        ("another content", |at| fs::write(at, "no journal").expect("a fresh name")),
        ("a file of another user", |at| {
            fs::write(at, "").expect("a fresh name");
            if is_root() {
                lchown(at, Some(USER), None).expect("root can");
            }
        }),
    ];
    for (what, plant) in plants {
        let world = World::new();
        let file = world.write("f", b"f");
        set_mode(&world.to(""), 0o1777);
        let names = vec![b"f".to_vec()];
        let journal = journal_name(Top::Names(&names)).into_bytes();
        let journal = world.to(std::str::from_utf8(&journal).expect("it is text"));
        plant(&journal);
        let before = fs::symlink_metadata(&journal).expect("it was made");
        let mut source = open(&[&file]);
        let spec = SinkSpec { keep: Partial::Keep, names, ..sink_spec(&world.to(""), source.shape()) };
        let mut sink = Sink::open(spec).unwrap_or_else(|error| panic!("{what}: {error}"));
        let notices = sink.take_notices();
        let is_journal_by_us = what == "a file of another user" && !is_root();
        assert_eq!(notices.len(), usize::from(!is_journal_by_us), "{what}: {notices:?}");
        assert!(notices.iter().all(|notice| notice.contains("cannot be resumed")), "{what}: {notices:?}");
        transfer(&mut source, sink).assert_clean();
        assert_eq!(fs::read(world.to("f")).expect("it arrived"), b"f", "{what}");
        if !is_journal_by_us {
            assert_eq!(fs::symlink_metadata(&journal).expect("it stays").ino(), before.ino(), "{what}");
        }
    }
}
