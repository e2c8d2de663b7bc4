//! Faults of sources and destinations: each ends in a clear error for its path, and nothing else is lost.

use fobs_model::options::Preserve;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::super::attributes::Collector;
use super::super::faults::{Call, plan};
use super::super::record::{Meta, Record};
use super::super::walk::{Entry, Named, NamedLinks, Walk};
use super::super::*;
use super::support::*;
use fobs_model::error::ErrorKind;
use fobs_model::options::Privileges;

/// The walk over a directory.
fn walk(directory: &Path) -> Walk {
    let named = Named::look(&Base::Ambient, (0, bytes(directory)), true, NamedLinks::Followed)
        .map_err(|(_, failure)| failure);
    let collector = Arc::new(Collector::new(Preserve::default(), Privileges::OfTheUser, Default::default()));
    Walk::new(
        Base::Ambient,
        vec![named.expect("it can be read")],
        collector,
        &fobs_model::budget::MemoryBudget::default(),
    )
}

#[test]
fn a_full_destination_fails_what_does_not_fit() {
    let Some(full) = with_tmpfs("faults::a_full_destination_fails_what_does_not_fit", "size=1m") else {
        return;
    };
    let world = World::new();
    let (small, big) = (content(100_000, 1), content(900_000, 2));
    for name in ["a", "b"] {
        world.write(&format!("tree/{name}"), &small);
    }
    // Fits no more beside the small ones; the other is longer than everything.
    for (name, len) in [("first", 900_000), ("second", 3_000_000)] {
        world.write(&format!("tree/d/{name}"), &content(len, 3));
    }
    world.write("tree/d/e/f", &small);
    fs::write(full.join("taken"), &big).expect("it fits");
    fs::remove_file(full.join("taken")).expect("it was made");
    let outcome = copy(&[&world.from("tree")], &full);
    let mut failed: Vec<_> = outcome.sink_failures.iter().map(|it| show_path(&it.path)).collect();
    failed.sort();
    assert_eq!(failed, ["tree/d/first", "tree/d/second"], "{outcome:?}");
    for failure in &outcome.sink_failures {
        assert!(failure.message.contains("No space left") && failure.message.contains("make room"));
    }
    let names: Vec<_> = tree(&full).into_keys().map(|path| path.to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["tree", "tree/a", "tree/b", "tree/d", "tree/d/e", "tree/d/e/f"]);
    assert_eq!(outcome.root, outcome.summary.root);
}

#[test]
fn a_read_only_destination_is_refused_at_once() {
    let Some(mounted) = with_tmpfs("faults::a_read_only_destination_is_refused_at_once", "ro") else {
        return;
    };
    let shape = SourceShape::Paths { count: 1, contents: false };
    for destination in [mounted.clone(), mounted.join("new")] {
        let error = Sink::open(sink_spec(&destination, shape)).err().expect("it cannot be written");
        assert_eq!(error.kind, ErrorKind::Destination);
        assert!(error.message.contains("Read-only file system"), "{error}");
    }
}

#[test]
fn a_write_that_fails_fails_its_file_alone() {
    for (errno, advice) in [
        (Errno::IO, "check the disk"),
        (Errno::DQUOT, "the quota is used up"),
        (Errno::NOSPC, "make room"),
        (Errno::FBIG, "ulimit -f"),
    ] {
        let world = World::new();
        let (one, two) = (world.write("1", &content(3 << 20, 1)), world.write("2", &content(3 << 20, 2)));
        fs::write(world.to("1"), b"from before").expect("a file");
        plan(Call::Write, 1, errno);
        let outcome = copy(&[&one, &two], &world.to(""));
        let [failure] = &outcome.sink_failures[..] else { panic!("{outcome:?}") };
        assert!(failure.path == b"1" && failure.message.contains(advice), "{failure:?}");
        assert_eq!(fs::read(world.to("1")).expect("it is there"), b"from before");
        let names: Vec<_> = tree(&world.to("")).into_keys().collect();
        assert_eq!(names, [Path::new("1"), Path::new("2")], "and nothing else is left");
        assert_eq!(outcome.root, outcome.summary.root);
    }
}

#[test]
fn a_file_that_is_not_synced_gets_no_name() {
    let world = World::new();
    let (one, two) = (world.write("1", b"1"), world.write("2", b"2"));
    plan(Call::Sync, 0, Errno::IO);
    let outcome = copy_synced(&[&one, &two], &world.to(""));
    let [failure] = &outcome.sink_failures[..] else { panic!("{outcome:?}") };
    assert!(failure.path == b"1" && failure.message.contains("have the device keep"), "{failure:?}");
    let names: Vec<_> = tree(&world.to("")).into_keys().collect();
    assert_eq!(names, [Path::new("2")]);
}

#[test]
fn a_file_that_becomes_something_else_fails_by_name() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("vanishes", |path| fs::remove_file(path).expect("it was there")),
        ("becomes a directory", |path| {
            fs::remove_file(path).expect("it was there");
            fs::create_dir(path).expect("a directory");
        }),
        ("becomes a link", |path| {
            fs::remove_file(path).expect("it was there");
            symlink("/etc/passwd", path).expect("a link");
        }),
        ("becomes a fifo", |path| {
            fs::remove_file(path).expect("it was there");
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("a fifo");
        }),
    ];
    for (what, change) in changes {
        let world = World::new();
        let file = world.write("tree/f", b"f");
        let mut walk = walk(&world.from("tree"));
        walk.postpone_opening();
        let found = walk.find(|entry| matches!(entry, Entry::Found { .. }));
        let Some(Entry::Found { path, unopened, .. }) = found else { panic!("{what}") };
        change(&file);
        let Entry::Failed(failure) = unopened.open(path, walk.collector()) else { panic!("{what}") };
        assert_eq!(failure.path, b"tree/f", "{what}");
    }
}

#[test]
fn a_directory_that_becomes_a_link_is_not_entered() {
    let world = World::new();
    world.write("tree/f", b"f");
    world.write("tree/d/inside", b"inside");
    world.write("elsewhere/secret", b"secret");
    let mut walk = walk(&world.from("tree"));
    // The directory's names are read before it is entered.
    assert!(walk.any(|entry| matches!(entry, Entry::File { .. })));
    fs::remove_dir_all(world.from("tree/d")).expect("it was there");
    symlink("../elsewhere", world.from("tree/d")).expect("a link");
    let rest: Vec<_> = walk.collect();
    let failures = rest.iter().filter(|entry| matches!(entry, Entry::Failed(it) if it.path == b"tree/d"));
    let files = rest.iter().filter(|entry| matches!(entry, Entry::File { .. }));
    // Whether the link's name was read as one is the file system's choice.
    let links = rest.iter().filter(|entry| matches!(entry, Entry::Symlink { .. }));
    assert_eq!((failures.count() + links.count(), files.count()), (1, 0));
}

#[test]
fn names_that_are_too_long_fail_alone() {
    let world = World::new();
    let meta = Meta { mode: 0o644, ..Meta::default() };
    let (long, longest) = ([b'n'; 256], [b'n'; 255]);
    // As deep as a record allows, and deeper than the destination's own path leaves room for.
    let deep = "d/".repeat(2000) + "f";
    let file = |path| [Record::File { path, meta, size: 0 }, Record::End];
    let records = [file(&long[..]), file(&longest[..]), file(deep.as_bytes())].concat();
    let mut sink = sink(&world.to(""), SourceShape::Paths { count: 1, contents: true });
    let events = feed(&mut sink, &chunk_of(&records, b"")).expect("only those paths fail");
    let failed = events.iter().filter(|event| matches!(event, SinkEvent::FileFailed(_))).count();
    assert_eq!(failed, 2, "{events:?}");
    let SinkEvent::FileFailed(failure) = &events[0] else { panic!("{events:?}") };
    assert!(failure.message.contains("give it a shorter name"), "{failure:?}");
    assert_eq!(
        fs::read_dir(world.to(""))
            .expect("it")
            .filter(|entry| { entry.as_ref().is_ok_and(|entry| entry.file_name().len() == 255) })
            .count(),
        1
    );
}

#[test]
fn odd_names_arrive_as_they_are() {
    let world = World::new();
    // Composed and decomposed, which look alike; cases; bytes that end lines, ring bells or are no text.
    let names: [&[u8]; 8] = [
        "\u{e9}".as_bytes(),
        "e\u{301}".as_bytes(),
        b"A",
        b"a",
        b"new\nline",
        b"\x07\x1b[2J",
        b"\xff\xfe",
        b" ",
    ];
    for name in names {
        let name = std::ffi::OsStr::from_bytes(name).to_owned();
        fs::create_dir_all(world.from("tree")).expect("a directory");
        fs::write(world.from("tree").join(&name), name.as_encoded_bytes()).expect("a file");
    }
    copy(&[&world.from("tree")], &world.to("")).assert_clean();
    assert_eq!(tree(&world.from("")), tree(&world.to("")));
}

#[test]
fn a_write_that_fails_when_the_file_is_closed_fails_the_file() {
    // As of NFS and FUSE, whose servers have no room.
    let world = World::new();
    world.write("tree/a", &content(300_000, 1));
    world.write("tree/b", &content(300_000, 2));
    plan(Call::Close, 0, Errno::NOSPC);
    let into = world.to("into");
    fs::create_dir(&into).expect("our own place");
    let outcome = copy(&[&world.from("tree")], &into);
    let [failure] = &outcome.sink_failures[..] else { panic!("one of them: {outcome:?}") };
    assert!(failure.message.contains("No space left") && failure.message.contains("tree/"), "{failure:?}");
    let names: Vec<_> = tree(&into).into_keys().collect();
    assert_eq!(names.len(), 2, "the directory and the other file: {names:?}");
    assert!(!into.join(show_path(&failure.path)).exists());
}
