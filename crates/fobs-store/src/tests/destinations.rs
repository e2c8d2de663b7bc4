//! Destination paths, modes and times.

use fobs_model::options::Preserve;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::super::record::{Meta, Record};
use super::super::*;
use super::support::*;
use crate::SourceShape;
use fobs_model::error::{Error, ErrorKind};
use fobs_model::options::Privileges;

fn refused(destination: &Path, shape: SourceShape) -> Error {
    match Sink::open(sink_spec(destination, shape)) {
        Ok(_) => panic!("{} was taken", destination.display()),
        Err(error) => error,
    }
}

fn sources(count: u32) -> SourceShape {
    SourceShape::Paths { count, contents: false }
}

#[test]
fn scp_rules() {
    // Sources, destination, and what must then be there.
    let cases: [(&[&str], &str, &str); 12] = [
        (&["f"], "", "f"),
        (&["f"], "existing", "existing/f"),
        (&["f"], "new", "new"),
        (&["f"], "old", "old"),
        (&["f"], "new/", "new/f"),
        (&["d"], "existing", "existing/d/x"),
        (&["d"], "new", "new/x"),
        (&["d/"], "new", "new/x"),
        (&["d/."], "existing", "existing/x"),
        (&["f", "d"], "existing", "existing/d/x"),
        (&["f", "d"], "new/", "new/d/x"),
        (&["f", "d/"], "new", "new/f"),
    ];
    for (sources, destination, expected) in cases {
        let world = World::new();
        world.write("f", b"file");
        world.write("d/x", b"in a directory");
        fs::create_dir(world.to("existing")).expect("a directory");
        fs::write(world.to("old"), b"old").expect("a file");
        let sources: Vec<_> = sources.iter().map(|source| world.from(source)).collect();
        let sources: Vec<&Path> = sources.iter().map(|source| source.as_path()).collect();
        copy(&sources, &world.to(destination)).assert_clean();
        let there = fs::read(world.to(expected));
        let content = if expected.ends_with('x') { &b"in a directory"[..] } else { b"file" };
        assert_eq!(there.expect("it is there"), content, "{sources:?} to {destination}");
    }
}

#[test]
fn destinations_that_cannot_be() {
    let world = World::new();
    fs::write(world.to("file"), b"").expect("a file");
    let contents = SourceShape::Paths { count: 1, contents: true };
    let stream = SourceShape::Stream;
    for (destination, shape, words) in [
        ("file", sources(2), "not a directory"),
        ("file", contents, "not a directory"),
        ("file/", sources(1), "not a directory"),
        ("file/x", sources(1), "not a directory"),
        ("new", sources(2), "does not exist"),
        ("no/new", sources(1), "does not exist; create it first"),
        ("no/new/", sources(1), "does not exist; create it first"),
        ("no/new", contents, "does not exist; create it first"),
        ("no/..", sources(1), "No such file"),
        ("", stream, "name the file"),
    ] {
        let error = refused(&world.to(destination), shape);
        assert_eq!(error.kind, ErrorKind::Destination, "{destination}: {error}");
        assert!(error.message.contains(words), "{destination}: {error}");
    }
    assert_eq!(tree(&world.to("")).len(), 1);
}

#[test]
fn unwritable_directories_are_refused_at_once() {
    let world = World::new();
    set_mode(&world.to(""), 0o555);
    let outcome = Sink::open(sink_spec(&world.to(""), sources(1)));
    let below = Sink::open(sink_spec(&world.to("new/"), sources(1)));
    set_mode(&world.to(""), 0o755);
    if is_root() {
        return;
    }
    for error in [outcome.err().expect("it is read-only"), below.err().expect("it is read-only")] {
        assert_eq!(error.kind, ErrorKind::Destination);
        assert!(error.message.contains("Permission denied"), "{error}");
    }
}

#[test]
fn a_tree_cannot_replace_a_file() {
    let world = World::new();
    world.write("d/x", b"x");
    fs::write(world.to("file"), b"old").expect("a file");
    let mut source = open(&[&world.from("d")]);
    let sink = sink(&world.to("file"), source.shape());
    let error = transfer_with(&mut source, sink, |_| ()).expect_err("it is a file");
    assert_eq!(error.kind, ErrorKind::Destination);
    assert_eq!(fs::read(world.to("file")).expect("it is there"), b"old");
}

#[test]
fn a_daemons_root_is_never_left() {
    let world = World::new();
    let root = || Base::Beneath {
        root: OwnedFd::from(File::open(world.to("")).expect("a directory")),
        links: Links::Inside,
    };
    symlink("../from", world.to("out")).expect("a link");
    symlink("/etc", world.to("absolute")).expect("a link");
    fs::create_dir(world.to("inner")).expect("a directory");
    let open = |destination: &[u8]| {
        let destination = Path::new(OsStr::from_bytes(destination));
        Sink::open(SinkSpec { base: root(), ..sink_spec(destination, sources(1)) })
    };
    for bad in [
        &b".."[..],
        b"../from",
        b"/..",
        b"inner/../../x",
        b"out",
        b"out/x",
        b"out/",
        b"absolute/x",
        b"/../new/",
    ] {
        let error = open(bad).err().unwrap_or_else(|| panic!("{} was taken", show_path(bad)));
        assert_eq!(error.kind, ErrorKind::Denied, "{}: {error}", show_path(bad));
    }
    for good in [&b""[..], b"/", b"///", b"inner", b"/inner/new", b"/inner/../inner"] {
        open(good).unwrap_or_else(|error| panic!("{}: {error}", show_path(good)));
    }
    let file = world.write("f", b"file");
    let mut source = super::support::open(&[&file]);
    transfer(&mut source, open(b"/inner/new").expect("inside")).assert_clean();
    assert_eq!(fs::read(world.to("inner/new")).expect("it is there"), b"file");

    // Reading is no different.
    let look = |path: &[u8]| {
        let paths = vec![path.to_vec()];
        Source::open(SourceSpec {
            privileges: Privileges::OfTheUser,
            budget: fobs_model::budget::MemoryBudget::default(),
            sync: None,
            base: root(),
            paths,
            recursive: true,
            preserve: Preserve::default(),
            compress: false,
        })
    };
    for bad in [&b".."[..], b"../from/f", b"out/f", b"absolute/passwd", b"/../from"] {
        let error = look(bad).err().unwrap_or_else(|| panic!("{} was read", show_path(bad)));
        assert_eq!(error.kind, ErrorKind::Denied, "{}: {error}", show_path(bad));
    }
    assert_eq!(look(b"/etc/passwd").err().expect("not there").kind, ErrorKind::NoSource);
    let mut source = look(b"/inner/").expect("inside");
    let spec = SinkSpec { base: root(), ..sink_spec(Path::new("/copy"), source.shape()) };
    transfer(&mut source, Sink::open(spec).expect("inside")).assert_clean();
    assert_eq!(fs::read(world.to("copy/new")).expect("it is there"), b"file");
    assert_eq!(tree(&world.from("")).len(), 1);
}

#[test]
fn modes_as_cp_gives_them() {
    let world = World::new();
    let umask = {
        let probe = world.to("probe");
        fs::create_dir(&probe).expect("a directory");
        0o777 & !mode_of(&probe)
    };
    for mode in [0o644, 0o600, 0o777, 0o4755, 0o2711, 0o444] {
        let name = format!("{mode:o}");
        set_mode(&world.write(&format!("tree/{name}"), b"x"), mode);
        // What is replaced keeps its mode.
        set_mode(&world.write(&format!("tree/old-{name}"), b"x"), mode);
        fs::create_dir_all(world.to("tree")).expect("a directory");
        let old = world.to(&format!("tree/old-{name}"));
        fs::write(&old, b"old").expect("a file");
        set_mode(&old, 0o640);
    }
    fs::create_dir(world.from("tree/private")).expect("a directory");
    set_mode(&world.from("tree/private"), 0o750);
    copy(&[&world.from("tree")], &world.to("")).assert_clean();
    for mode in [0o644, 0o600, 0o777, 0o4755, 0o2711, 0o444] {
        let name = format!("{mode:o}");
        assert_eq!(mode_of(&world.to(&format!("tree/{name}"))), mode & 0o777 & !umask, "{name}");
        assert_eq!(mode_of(&world.to(&format!("tree/old-{name}"))), 0o640, "{name}");
    }
    assert_eq!(mode_of(&world.to("tree/private")), 0o750 & !umask);
}

#[test]
fn exact_modes_and_times_with_p() {
    let world = World::new();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::new(12_345, 5);
    let file = world.write("tree/inner/file", b"x");
    let big = world.write("tree/inner/big", &content(5 << 20, 1));
    symlink("file", world.from("tree/inner/link")).expect("a link");
    let set_time = |path: &Path, time| {
        let file = File::open(path).expect("it can be opened");
        file.set_times(FileTimes::new().set_modified(time)).expect("its time can be set");
    };
    set_time(&file, time);
    set_time(&big, before_1970);
    set_mode(&file, 0o4751);
    set_time(&world.from("tree/inner"), time);
    set_mode(&world.from("tree/inner"), 0o555);
    set_time(&world.from("tree"), before_1970);
    for round in ["new", "over what is there, read-only directory and all"] {
        copy_preserving(&[&world.from("tree")], &world.to("")).assert_clean();
        assert_eq!(mode_of(&world.to("tree/inner/file")), 0o4751, "{round}");
        assert_eq!(mode_of(&world.to("tree/inner")), 0o555, "{round}");
        for (path, time) in [
            ("tree/inner/file", time),
            ("tree/inner/big", before_1970),
            ("tree/inner", time),
            ("tree", before_1970),
        ] {
            let metadata = fs::metadata(world.to(path)).expect("it is there");
            assert_eq!(metadata.modified().expect("a time"), time, "{path} {round}");
        }
        let modified = |path| fs::symlink_metadata(path).expect("a link").modified().expect("a time");
        assert_eq!(modified(world.to("tree/inner/link")), modified(world.from("tree/inner/link")), "{round}");
    }
    assert_eq!(tree(&world.from("tree")), tree(&world.to("tree")));
    // So that it can be removed.
    set_mode(&world.from("tree/inner"), 0o755);
    set_mode(&world.to("tree/inner"), 0o755);
}

#[test]
fn files_that_cannot_be_written_fail_alone() {
    if is_root() {
        return;
    }
    let world = World::new();
    world.write("tree/a/x", b"x");
    world.write("tree/b/y", b"y");
    fs::create_dir_all(world.to("tree/a")).expect("a directory");
    set_mode(&world.to("tree/a"), 0o555);
    let outcome = copy(&[&world.from("tree")], &world.to(""));
    set_mode(&world.to("tree/a"), 0o755);
    assert_eq!(outcome.sink_failures.len(), 1, "{outcome:?}");
    assert_eq!(outcome.sink_failures[0].path, b"tree/a/x");
    assert_eq!(outcome.stored.len(), 1);
    // The root covers what was verified; the failure is reported separately.
    assert_eq!(outcome.root, outcome.summary.root);
}

#[test]
fn a_longer_file_is_replaced_whole() {
    let world = World::new();
    let file = world.write("f", b"short");
    fs::write(world.to("f"), content(100_000, 1)).expect("a file");
    copy(&[&file], &world.to("f")).assert_clean();
    assert_eq!(fs::read(world.to("f")).expect("it is there"), b"short");
}

#[test]
fn streams_take_one_file() {
    let world = World::new();
    let file = world.write("f", b"file");
    let written = Shared::default();
    let mut source = open(&[&file]);
    let sink = Sink::to_stream(Box::new(written.clone()), source.shape()).expect("one file");
    transfer(&mut source, sink).assert_clean();
    assert_eq!(*written.0.lock().expect("not poisoned"), b"file");

    assert!(Sink::to_stream(Box::new(Shared::default()), sources(2)).is_err());
    let meta = Meta::default();
    let records = [Record::File { path: b"a", meta, size: 0 }, Record::End].repeat(2);
    let mut sink = Sink::to_stream(Box::new(Shared::default()), sources(1)).expect("one file");
    let error = feed(&mut sink, &chunk_of(&records, b"")).expect_err("two files");
    assert_eq!(error.kind, ErrorKind::Destination);
    let mut sink = Sink::to_stream(Box::new(Shared::default()), sources(1)).expect("one file");
    let error =
        feed(&mut sink, &chunk_of(&[Record::Directory { path: b"d" }], b"")).expect_err("a directory");
    assert_eq!(error.kind, ErrorKind::Destination);
}

#[test]
fn devices_are_written_to() {
    let world = World::new();
    let file = world.write("f", &content(100_000, 1));
    copy(&[&file], Path::new("/dev/null")).assert_clean();
    let mut source = open(&[&file]);
    let full = sink(Path::new("/dev/full"), source.shape());
    let error = transfer_with(&mut source, full, |_| ()).expect_err("it is full");
    assert_eq!(error.kind, ErrorKind::FileIo);
    assert!(error.message.contains("No space left"), "{error}");
}

#[test]
fn a_stream_becomes_a_file() {
    let world = World::new();
    let reader = std::io::Cursor::new(b"streamed".to_vec());
    let mut source = Source::from_stream(Box::new(reader), true).expect("a stream");
    let sink = sink(&world.to("named"), source.shape());
    transfer(&mut source, sink).assert_clean();
    assert_eq!(fs::read(world.to("named")).expect("it is there"), b"streamed");
}
