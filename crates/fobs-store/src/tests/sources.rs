//! Sources: their paths, and files that change or fail while they are read.

use std::fs::{self, File, OpenOptions};
use std::io::Cursor;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::super::own::OWN_MODE;
use super::super::*;
use super::support::*;
use fobs_model::error::ErrorKind;

fn refused(spec: SourceSpec) -> fobs_model::error::Error {
    match Source::open(spec) {
        Ok(_) => panic!("the source was taken"),
        Err(error) => error,
    }
}

#[test]
fn sources_that_cannot_be() {
    let world = World::new();
    world.write("d/x", b"x");
    let file = world.write("f", b"f");
    let directory = world.from("d");
    let missing = world.from("missing");

    let error = refused(spec(&[&missing]));
    assert_eq!(error.kind, ErrorKind::NoSource);
    assert!(error.message.contains("missing'") && error.message.contains("No such file"), "{error}");
    assert_eq!(refused(spec(&[])).kind, ErrorKind::NoSource);
    assert_eq!(refused(spec(&[&world.from("f/")])).kind, ErrorKind::NoSource);

    let error = refused(SourceSpec { recursive: false, ..spec(&[&directory]) });
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("d' is a directory; give -r to copy it"), "{error}");

    // If one can be read, the others are reported.
    let spec = SourceSpec { recursive: false, ..spec(&[&missing, &directory, &file]) };
    let mut source = Source::open(spec).expect("one can be read");
    assert_eq!(source.shape(), SourceShape::Paths { count: 3, contents: false });
    let sink = sink(&world.to(""), source.shape());
    let outcome = transfer(&mut source, sink);
    let failed: Vec<_> = outcome.source_failures.iter().map(|failure| show_path(&failure.path)).collect();
    assert_eq!(failed, ["missing", "d"]);
    assert_eq!(outcome.stored.len(), 1);
    assert_eq!(outcome.root, outcome.summary.root);
}

#[test]
fn sources_of_one_name_are_found() {
    let same = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        same_name(&paths).map(|(first, second)| (show_path(first), show_path(second)))
    };
    assert_eq!(same(&["a/x", "b/y", "b/x", "c/x"]), Some(("a/x".to_owned(), "b/x".to_owned())));
    assert_eq!(same(&["x", "x"]), Some(("x".to_owned(), "x".to_owned())));
    assert_eq!(same(&["a/x", "b/x/", "b/.", "a/", ".."]), None);
}

#[test]
fn links_that_are_named_are_followed() {
    let world = World::new();
    world.write("d/x", b"x");
    world.write("f", b"f");
    symlink("f", world.from("to-file")).expect("a link");
    symlink("d", world.from("to-directory")).expect("a link");
    copy(&[&world.from("to-file"), &world.from("to-directory")], &world.to("")).assert_clean();
    let nodes = tree(&world.to(""));
    assert_eq!(nodes[Path::new("to-file")], Node::File(b"f".to_vec()));
    assert_eq!(nodes[Path::new("to-directory/x")], Node::File(b"x".to_vec()));
}

#[test]
fn unfinished_files_of_copies_are_left_out_of_trees_and_named() {
    let world = World::new();
    let leftover = world.write("d/.f.fobs-0a1b2c", b"half of it");
    set_mode(&leftover, OWN_MODE);
    let old_journal = world.write("d/.f.fobs-journal", b"FOBSJRNL of an older release");
    set_mode(&old_journal, 0o600);
    for users in ["d/f.fobs-0a1b2c", "d/.config.fobs-backup", "d/.x.fobs-master"] {
        world.write(users, b"the user's own");
    }
    symlink("x", world.from("d/.l.fobs-0a1b2c")).expect("the user's own");
    fs::create_dir(world.from("d/.d.fobs-0a1b2c")).expect("the user's own");
    let outcome = copy(&[&world.from("d")], &world.to(""));
    outcome.assert_clean();
    let arrived = tree(&world.to("d")).into_keys().collect::<Vec<_>>();
    let users =
        [".config.fobs-backup", ".d.fobs-0a1b2c", ".l.fobs-0a1b2c", ".x.fobs-master", "f.fobs-0a1b2c"];
    assert_eq!(arrived, users.map(Path::new));
    let notice = outcome.notice.expect("what was left out is told");
    assert!(notice.contains("'d/.f.fobs-0a1b2c'") && notice.contains("'d/.f.fobs-journal'"), "{notice}");

    // Named by itself, it is meant.
    copy(&[&leftover], &world.to("named")).assert_clean();
    assert_eq!(fs::read(world.to("named")).expect("it is there"), b"half of it");
}

#[test]
fn special_files_are_left_out_and_named() {
    let world = World::new();
    world.write("d/x", b"x");
    let directory = File::open(world.from("d")).expect("a directory");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(&directory, "fifo", rustix::fs::FileType::Fifo, mode, 0).expect("a fifo");
    let _socket = std::os::unix::net::UnixListener::bind(world.from("d/socket")).expect("a socket");
    let outcome = copy(&[&world.from("d")], &world.to(""));
    let mut failed: Vec<_> = outcome.source_failures.iter().map(|failure| show_path(&failure.path)).collect();
    failed.sort();
    assert_eq!(failed, ["d/fifo", "d/socket"]);
    assert!(outcome.source_failures[0].message.contains("not a regular file"));
    assert_eq!(tree(&world.to("")).len(), 2);

    let error = refused(spec(&[&world.from("d/fifo")]));
    assert_eq!(error.kind, ErrorKind::NoSource);
    assert_eq!(refused(spec(&[Path::new("/dev/zero")])).kind, ErrorKind::NoSource);
}

#[test]
fn unreadable_files_fail_alone() {
    let world = World::new();
    world.write("d/closed/x", b"x");
    let secret = world.write("d/secret", b"secret");
    world.write("d/y", b"y");
    set_mode(&secret, 0o000);
    set_mode(&world.from("d/closed"), 0o000);
    let outcome = copy(&[&world.from("d")], &world.to(""));
    set_mode(&world.from("d/closed"), 0o755);
    if is_root() {
        return;
    }
    let mut failed: Vec<_> = outcome.source_failures.iter().map(|failure| show_path(&failure.path)).collect();
    failed.sort();
    assert_eq!(failed, ["d/closed", "d/secret"]);
    assert_eq!(outcome.stored.len(), 1);
    assert_eq!(refused(spec(&[&secret])).kind, ErrorKind::NoSource);
}

#[test]
fn a_file_that_cannot_be_read_on_fails_alone() {
    // Opens like a regular file and fails at the first read: nothing is mapped at address 0.
    let memory = Path::new("/proc/self/mem");
    let world = World::new();
    let file = world.write("f", b"f");
    let outcome = copy(&[memory, &file], &world.to(""));
    assert_eq!(outcome.source_failures.len(), 1, "{outcome:?}");
    assert_eq!(outcome.source_failures[0].path, b"mem");
    assert_eq!(outcome.stored.len(), 1);
    assert_eq!(tree(&world.to("")).len(), 1);

    // If every file fails, the object is empty and complete.
    let outcome = copy(&[memory], &world.to("new"));
    assert_eq!((outcome.summary.files, outcome.summary.bytes, outcome.chunk_lens.len()), (0, 0, 1));
    assert_eq!(outcome.root, outcome.summary.root);
    assert_eq!(tree(&world.to("")).len(), 1);
}

#[test]
fn a_stream_that_fails_midway_is_discarded() {
    for len in [0, 1, 100_000, 256 << 10, 1 << 20, 6 << 20] {
        let world = World::new();
        let reader = Pieces { data: Cursor::new(content(len, 1)), fails: true };
        let mut source = Source::from_stream(Box::new(reader), false).expect("a stream");
        let sink = sink(&world.to("f"), source.shape());
        let outcome = transfer(&mut source, sink);
        assert_eq!(outcome.source_failures.len(), 1, "{len}");
        assert!(outcome.source_failures[0].message.contains("the line went dead"));
        assert_eq!(outcome.summary.files, 0);
        assert_eq!(tree(&world.to("")).len(), 0, "{len}: the temporary file is gone");
    }
}

/// Copies `f` of 6 MiB beside others, changing it when its first part has been read.
fn copy_while(change: impl Fn(&File)) -> (World, Outcome) {
    let world = World::new();
    let file = world.write("f", &content(6 << 20, 1));
    let after = world.write("g", b"g");
    let handle = OpenOptions::new().write(true).open(&file).expect("a file");
    let mut source = open(&[&file, &after]);
    let sink = sink(&world.to(""), source.shape());
    let outcome = transfer_with(&mut source, sink, |chunk| {
        if chunk == 1 {
            change(&handle);
        }
    });
    (world, outcome.expect("the transfer goes through"))
}

/// `f` failed by name and left nothing; the others arrived.
fn assert_f_failed(world: &World, outcome: &Outcome, what: &str) {
    let [failure] = &outcome.source_failures[..] else { panic!("{what}: {outcome:?}") };
    assert_eq!(failure.path, b"f", "{what}");
    assert!(failure.message.contains("'f': it changed while it was read"), "{what}: {}", failure.message);
    assert_eq!(outcome.root, outcome.summary.root, "{what}");
    assert_eq!(tree(&world.to("")).into_keys().collect::<Vec<_>>(), [Path::new("g")], "{what}");
}

#[test]
fn a_file_that_shrinks_or_grows_fails_by_name() {
    for len in [5, 1 << 20, (1 << 20) + 1, 3 << 20, (6 << 20) - 1] {
        let (world, outcome) = copy_while(|file| file.set_len(len).expect("it can be cut"));
        assert_f_failed(&world, &outcome, &format!("cut to {len}"));
    }
    for more in [1, 65_536, 2 << 20] {
        let added = content(more, 2);
        let (world, outcome) = copy_while(|file| file.write_all_at(&added, 6 << 20).expect("it can grow"));
        assert_f_failed(&world, &outcome, &format!("{more} more"));
    }
}

#[test]
fn a_file_overwritten_in_place_fails_by_name() {
    for offset in [0, 3 << 20, (6 << 20) - 1] {
        let (world, outcome) = copy_while(|file| {
            let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
            file.write_all_at(b"x", offset).expect("it can be written");
            file.set_modified(modified).expect("its time can be set");
        });
        assert_f_failed(&world, &outcome, &format!("written at {offset}"));
    }
}

#[test]
fn files_that_vanish_are_reported() {
    let world = World::new();
    let (a, b) = (world.write("a", b"a"), world.write("b", b"b"));
    let mut source = open(&[&a, &b]);
    fs::remove_file(&a).expect("it can be removed");
    let sink = sink(&world.to(""), source.shape());
    let outcome = transfer(&mut source, sink);
    assert_eq!(outcome.source_failures.len(), 1);
    assert_eq!(outcome.source_failures[0].path, b"a");
    assert_eq!(outcome.stored.len(), 1);
}

#[test]
fn files_without_a_size_are_read_to_their_end() {
    let world = World::new();
    let outcome = copy(&[Path::new("/proc/cpuinfo")], &world.to(""));
    outcome.assert_clean();
    let text = fs::read(world.to("cpuinfo")).expect("it is there");
    assert!(!text.is_empty());
    assert_eq!(outcome.stored[0].bytes, text.len() as u64);
}

#[test]
fn roots_tell_transfers_apart() {
    let world = World::new();
    let mut roots = Vec::new();
    for content in [&b"one"[..], b"two"] {
        let file = world.write("f", content);
        roots.push(copy(&[&file], &world.to("")).root);
        roots.push(copy(&[&world.from("")], &world.to("")).root);
    }
    roots.sort_unstable();
    roots.dedup();
    assert_eq!(roots.len(), 4);
}

#[test]
fn a_small_buffer_or_a_call_too_many_is_an_error() {
    let world = World::new();
    let file = world.write("f", b"f");
    let mut source = open(&[&file]);
    assert!(source.next_chunk(&mut vec![0; CHUNK_LEN_MAX - 1], CHUNK_DATA_MAX).is_err());
    let mut buf = vec![0; CHUNK_LEN_MAX];
    assert!(source.next_chunk(&mut buf, CHUNK_DATA_MAX).expect("a chunk").is_final);
    assert!(source.next_chunk(&mut buf, CHUNK_DATA_MAX).is_err());
}

#[test]
fn a_small_chunk_needs_no_more_room_than_it_may_take() {
    let world = World::new();
    let data = content(300_000, 5);
    let file = world.write("f", &data);
    let mut source = open(&[&file]);
    let asked = 128 << 10;
    let mut buf = vec![0; chunk_room(asked)];
    assert!(source.next_chunk(&mut buf[1..], asked).is_err());
    let first = source.next_chunk(&mut buf, asked).expect("a chunk");
    assert_eq!((first.data_bytes, &buf[..asked]), (asked as u64, &data[..asked]));
}

/// What is known after the first chunk, which holds 256 KiB.
fn known_at_first(mut source: Source) -> Known {
    let mut buf = vec![0; CHUNK_LEN_MAX];
    assert!(!source.next_chunk(&mut buf, 256 << 10).expect("it can be read").is_final);
    source.known()
}

#[test]
fn the_whole_is_known_once_nothing_more_can_come() {
    let world = World::new();
    let content = vec![7; 1 << 20];
    let file = world.write("d/a", &content);
    let known = known_at_first(Source::open(spec(&[&file])).expect("a file"));
    assert_eq!((known.bytes, known.files, known.scan_complete), (1 << 20, 1, true));
    world.write("d/b", &content);
    let known = known_at_first(Source::open(spec(&[&world.from("d")])).expect("a tree"));
    assert_eq!((known.files, known.scan_complete), (1, false));
    let known = known_at_first(Source::from_stream(Box::new(Cursor::new(content)), false).expect("a stream"));
    assert!(!known.scan_complete);
}
