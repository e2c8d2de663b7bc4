//! Sinks that end early, and what the next one of the same transfer makes of it.

mod others;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, lchown, symlink};
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};

use super::super::journal::{Top, journal_name};
use super::super::record::{Meta, Record};
use super::super::survey::{Checksums, Compare, Rules, decode_batch};
use super::super::tree_hash::GROUP;
use super::super::*;
use super::support::*;
use fobs_model::error::{Error, ErrorKind};

/// Data of a chunk, bytes.
const CHUNK: usize = 2 * GROUP as usize;
/// No multiple of anything, and several chunks.
const BIG: usize = 5 * CHUNK + GROUP as usize + 777;
/// The sources, in their order.
const NAMES: [&str; 3] = ["a", "big", "d"];

fn names() -> Vec<Vec<u8>> {
    NAMES.map(|name| name.as_bytes().to_vec()).to_vec()
}

/// The journal of a copy of the sources.
fn journal() -> String {
    String::from_utf8(journal_name(Top::Names(&names())).into_bytes()).expect("it is text")
}

/// Small files around a big one; their bytes.
fn make_tree(world: &World) -> u64 {
    let sizes = [("a", 3_000), ("big", BIG), ("d/z", 70_000), ("d/empty", 0)];
    for (number, (path, len)) in sizes.into_iter().enumerate() {
        world.write(path, &content(len, number as u64));
    }
    sizes.iter().map(|(_, len)| *len as u64).sum()
}

fn open_sink(world: &World, keep: Partial) -> Result<Sink, Error> {
    let shape = SourceShape::Paths { count: NAMES.len() as u32, contents: false };
    Sink::open(SinkSpec { keep, names: names(), ..sink_spec(&world.to(""), shape) })
}

/// What a run did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Run {
    /// File bytes sent, and those that an earlier run had stored.
    sent: u64,
    resumed: u64,
    chunks: usize,
    complete: bool,
}

/// Copies the sources until `chunks` are stored, or to its end.
fn run(world: &World, keep: Partial, chunks: usize) -> (Run, Option<Sink>) {
    let from = NAMES.map(|name| world.from(name));
    let mut source =
        Source::open(spec(&from.each_ref().map(PathBuf::as_path))).expect("the sources can be read");
    source.tell_identities();
    let mut sink = open_sink(world, keep).expect("the destination is free");
    let mut run = Run::default();
    if sink.history().is_some() {
        run.resumed = decide(&mut source, &mut sink);
    }
    let (mut buf, mut scratch) = (vec![0; CHUNK_LEN_MAX], Vec::new());
    while run.chunks < chunks {
        let filled = source.next_chunk(&mut buf, CHUNK).expect("the source can be read");
        let chunk = &buf[..filled.len];
        let verified = verify(chunk, &mut scratch).expect("our own chunks verify");
        sink.apply(chunk, verified, &scratch, &mut |event| match event {
            SinkEvent::FileFailed(error) | SinkEvent::SourceFailed(error) => panic!("{error:?}"),
            SinkEvent::Resumed(bytes) => run.resumed += bytes,
            _ => {}
        })
        .expect("it can be stored");
        run.sent += filled.data_bytes;
        run.chunks += 1;
        if filled.is_final {
            sink.finish(&mut |_| ()).expect("it is whole").1.acknowledged();
            return (Run { complete: true, ..run }, None);
        }
    }
    (run, Some(sink))
}

/// Has the sink decide what the source sends; the bytes of files that it has.
fn decide(source: &mut Source, sink: &mut Sink) -> u64 {
    let answers = Answers::default();
    let mut lister = source.survey(Box::new(answers.clone()), Checksums::Omitted).expect("a tree");
    let mut compare = Compare::new(sink, Rules::default());
    let mut done = 0;
    while let Some(batch) = lister.next_batch().expect("the source can be read") {
        for (row, listed) in decode_batch(&batch.bytes).expect("our own").iter().zip(batch.entries) {
            let ruling = compare.rule(row);
            let choice = compare.carry_out(row, ruling, &|| false).expect("there is room");
            done += if choice.decision == survey::Decision::Done { row.identity.size } else { 0 };
            answers.0.lock().expect("not poisoned").push_back((listed, choice));
        }
    }
    done
}

/// Everything arrived, and nothing else is there.
#[track_caller]
fn expect_whole(world: &World) {
    assert_eq!(tree(&world.to("")), tree(&world.from("")));
}

/// The journal and the temporary files that are there.
fn ours(world: &World) -> Vec<PathBuf> {
    tree(&world.to("")).into_keys().filter(|path| path.to_string_lossy().contains(".fobs-")).collect()
}

fn partial(world: &World) -> Option<PathBuf> {
    let is_partial = |path: &PathBuf| path.to_string_lossy().starts_with(".big.");
    ours(world).into_iter().find(is_partial).map(|path| world.to("").join(path))
}

#[test]
fn a_copy_goes_on_at_every_chunk_boundary() {
    let total = {
        let world = World::new();
        let total = make_tree(&world);
        let (all, _) = run(&world, Partial::Keep, usize::MAX);
        assert_eq!((all.sent, all.resumed, all.complete), (total, 0, true));
        expect_whole(&world);
        for stop in 1..all.chunks {
            let world = World::new();
            make_tree(&world);
            let (first, sink) = run(&world, Partial::Keep, stop);
            let kept = sink.expect("it is not complete").suspend().map_or(0, |kept| kept.bytes);
            assert_eq!(kept, first.sent, "after {stop} chunks");
            let (second, _) = run(&world, Partial::Keep, usize::MAX);
            assert_eq!((second.resumed, second.sent + second.resumed), (kept, total), "after {stop} chunks");
            expect_whole(&world);
        }
        total
    };
    // One chunk a run: each goes on where the one before ended.
    let world = World::new();
    make_tree(&world);
    let mut sent = 0;
    loop {
        let (one, sink) = run(&world, Partial::Keep, 1);
        assert_eq!(one.resumed, sent);
        sent += one.sent;
        drop(sink);
        if one.complete {
            break;
        }
    }
    assert_eq!(sent, total);
    expect_whole(&world);
}

#[test]
fn a_partial_file_that_lost_something_is_sent_anew() {
    // As after a device that was not asked to keep it yet.
    for (at, len) in [(0, 1), (GROUP, 4096), (2 * GROUP - 1, 1)] {
        for byte in [0, 0xa5] {
            let world = World::new();
            let total = make_tree(&world);
            let (first, sink) = run(&world, Partial::Keep, 3);
            drop(sink);
            let partial = partial(&world).expect("the big file has begun");
            let file = File::options().write(true).open(&partial).expect("it is ours");
            file.write_all_at(&vec![byte; len], at).expect("it is so long");
            let (second, _) = run(&world, Partial::Keep, usize::MAX);
            assert!(second.resumed < first.sent && second.resumed + second.sent == total, "{second:?}");
            expect_whole(&world);
        }
    }
}

#[test]
fn a_source_that_was_rewritten_and_given_its_old_time_is_sent_anew() {
    let world = World::new();
    let total = make_tree(&world);
    let (first, sink) = run(&world, Partial::Keep, 3);
    drop(sink);
    let source = world.from("big");
    let before = fs::metadata(&source).expect("it is there");
    let file = File::options().write(true).open(&source).expect("own file");
    file.write_all_at(&content(BIG, 99), 0).expect("own file");
    file.set_modified(before.modified().expect("a time")).expect("own file");
    let after = fs::metadata(&source).expect("it is there");
    let seen = |it: &fs::Metadata| (it.len(), it.mtime(), it.mtime_nsec(), it.ino());
    assert_eq!(seen(&before), seen(&after), "nothing else tells");
    let (second, _) = run(&world, Partial::Keep, usize::MAX);
    assert!(second.resumed < first.sent && second.resumed + second.sent == total, "{second:?}");
    expect_whole(&world);
}

#[test]
fn what_was_written_of_a_chunk_that_did_not_end_is_not_trusted() {
    for torn in [1, 1_000, GROUP, CHUNK as u64 - 1] {
        let world = World::new();
        let total = make_tree(&world);
        let (first, sink) = run(&world, Partial::Keep, 3);
        drop(sink);
        let partial = partial(&world).expect("the big file has begun");
        let file = File::options().write(true).open(&partial).expect("it is ours");
        let len = first.sent - 3_000;
        file.write_all_at(&vec![0xaa; torn as usize], len).expect("there is room");
        let (second, _) = run(&world, Partial::Keep, usize::MAX);
        assert_eq!((second.resumed, second.sent), (first.sent, total - first.sent), "{torn}");
        expect_whole(&world);
    }
}

#[test]
fn a_partial_file_that_is_not_what_was_stored_begins_anew() {
    let cut = |path: &PathBuf| {
        File::options().write(true).open(path).expect("it is ours").set_len(GROUP).expect("it can shrink");
    };
    let replace = |path: &PathBuf| {
        let other = path.with_extension("other");
        fs::copy(path, &other).expect("a fresh name");
        fs::rename(other, path).expect("it is ours");
    };
    let link = |path: &PathBuf| {
        fs::remove_file(path).expect("it is ours");
        symlink("/etc/hostname", path).expect("a fresh name");
    };
    let second_name = |path: &PathBuf| {
        fs::hard_link(path, path.with_extension("other")).expect("one file system");
        fs::rename(path.with_extension("other"), path.with_file_name("big-too")).expect("it is ours");
    };
    let open_to_all = |path: &PathBuf| set_mode(path, 0o602);
    // As if another user had been given the number of the one that is gone.
    let give = |path: &PathBuf| {
        if is_root() { lchown(path, Some(1_234_567), None).expect("root can") } else { link(path) }
    };
    let changes: [(&str, Act<'_, PathBuf>); 6] = [
        ("cut", &cut),
        ("replaced", &replace),
        ("a link", &link),
        ("of two names", &second_name),
        ("written by others", &open_to_all),
        ("of another user", &give),
    ];
    for (what, change) in changes {
        let world = World::new();
        let total = make_tree(&world);
        drop(run(&world, Partial::Keep, 3));
        change(&partial(&world).expect("the big file has begun"));
        let (second, _) = run(&world, Partial::Keep, usize::MAX);
        assert_eq!((second.resumed, second.sent), (3_000, total - 3_000), "{what}");
        let _ = fs::remove_file(world.to("big-too"));
        expect_whole(&world);
    }
}

#[test]
fn a_complete_file_that_changed_is_sent_again() {
    let world = World::new();
    let total = make_tree(&world);
    let (first, sink) = run(&world, Partial::Keep, 3);
    drop(sink);
    fs::write(world.to("a"), "of another program").expect("it is ours");
    let (second, _) = run(&world, Partial::Keep, usize::MAX);
    assert_eq!((second.resumed, second.sent), (first.sent - 3_000, total - first.sent + 3_000));
    expect_whole(&world);
}

#[test]
fn without_partial_files_nothing_stays() {
    let world = World::new();
    let total = make_tree(&world);
    for keep in [Partial::Keep, Partial::Discard] {
        drop(run(&world, keep, 3));
        assert_eq!(ours(&world).is_empty(), keep == Partial::Discard);
    }
    let complete: Vec<_> = tree(&world.to("")).into_keys().collect();
    assert_eq!(complete, [PathBuf::from("a")], "what is complete");
    let (second, _) = run(&world, Partial::Keep, usize::MAX);
    assert_eq!((second.sent, second.resumed), (total, 0), "and forgotten");
    expect_whole(&world);
}

/// What happens to the left-overs of a copy.
type Act<'a, T> = &'a dyn Fn(&T);

/// Something under a journal's name, and what it was before a copy met it.
struct Planted {
    what: &'static str,
    plant: fn(&World, PathBuf),
}

const REFUSED: [Planted; 8] = [
    Planted {
        what: "a link",
        plant: |world, at| symlink(world.write("precious", b"precious"), at).expect("a fresh name"),
    },
    Planted {
        what: "a link to nothing",
        plant: |world, at| symlink(world.from("precious"), at).expect("a fresh name"),
    },
    Planted {
        what: "a second name",
        plant: |world, at| {
            fs::hard_link(world.write("precious", b"precious"), at).expect("one file system");
        },
    },
    Planted {
        what: "a fifo",
        plant: |_, at| mknodat(CWD, at, FileType::Fifo, Mode::RWXU, 0).expect("anyone can"),
    },
    Planted { what: "a directory", plant: |_, at| fs::create_dir(at).expect("a fresh name") },
    Planted {
        what: "a socket",
        plant: |_, at| mknodat(CWD, at, FileType::Socket, Mode::RWXU, 0).expect("anyone can"),
    },
    Planted { what: "garbage", plant: |_, at| fs::write(at, content(50_000, 1)).expect("a fresh name") },
    Planted {
        what: "another version",
        plant: |_, at| {
            fs::write(at, [&b"FOBSJRNL"[..], &[9, 0, 0, 0], &[0; 5_000]].concat()).expect("a name")
        },
    },
];

#[test]
fn what_is_no_journal_of_ours_is_refused_and_stays() {
    for Planted { what, plant } in REFUSED {
        let world = World::new();
        make_tree(&world);
        plant(&world, world.to(&journal()));
        let before = fs::symlink_metadata(world.to(&journal())).expect("it was made");
        let outside = fs::read(world.from("precious")).ok();
        let error = open_sink(&world, Partial::Keep).map(|_| ()).expect_err(what);
        assert_eq!(error.kind, ErrorKind::Destination, "{what}");
        assert!(error.message.contains(&journal()), "{what}: {error}");
        if what == "another version" {
            assert!(error.message.contains("version 9") && error.message.contains("fobs clean"), "{error}");
        }
        let after = fs::symlink_metadata(world.to(&journal())).expect("it stays");
        assert_eq!(
            (before.ino(), before.len(), before.mtime_nsec()),
            (after.ino(), after.len(), after.mtime_nsec())
        );
        assert_eq!(fs::read(world.from("precious")).ok(), outside, "{what}");
        assert_eq!(fs::read_dir(world.to("")).expect("it is there").count(), 1, "{what}");
    }
}

#[test]
fn a_journal_of_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let world = World::new();
    make_tree(&world);
    drop(run(&world, Partial::Keep, 3));
    lchown(world.to(&journal()), Some(1_234_567), None).expect("root can");
    let before = fs::read(world.to(&journal())).expect("it is there");
    let error = open_sink(&world, Partial::Keep).map(|_| ()).expect_err("it could be forged");
    assert!(error.message.contains("not a regular file of this user"), "{error}");
    assert_eq!(fs::read(world.to(&journal())).expect("it stays"), before);
}

#[test]
fn a_journal_that_says_nothing_of_this_copy_is_begun_anew() {
    let of_another_place = |world: &World| {
        let elsewhere = World::new();
        make_tree(&elsewhere);
        drop(run(&elsewhere, Partial::Keep, 3));
        fs::copy(elsewhere.to(&journal()), world.to(&journal())).expect("a fresh name");
    };
    let torn = |world: &World| {
        drop(run(world, Partial::Keep, 3));
        let journal = File::options().write(true).open(world.to(&journal())).expect("it is ours");
        journal.set_len(30).expect("it can shrink");
        fs::remove_file(world.to("a")).expect("it is ours");
        fs::remove_file(partial(world).expect("the big file has begun")).expect("it is ours");
    };
    let empty = |world: &World| drop(File::create(world.to(&journal())).expect("a fresh name"));
    let plants: [(&str, Act<'_, World>); 3] =
        [("of another place", &of_another_place), ("torn when it was made", &torn), ("empty", &empty)];
    for (what, plant) in plants {
        let world = World::new();
        let total = make_tree(&world);
        plant(&world);
        assert!(world.to(&journal()).exists(), "{what}");
        let (all, _) = run(&world, Partial::Keep, usize::MAX);
        assert_eq!((all.sent, all.resumed), (total, 0), "{what}");
        expect_whole(&world);
    }
}

/// A sink that stores the one source as `x`.
fn open_as_x(world: &World, source: &str, keep: Partial) -> Sink {
    let shape = SourceShape::Paths { count: 1, contents: false };
    let names = vec![source.as_bytes().to_vec()];
    let spec = SinkSpec { keep, names, ..sink_spec(&world.to("x"), shape) };
    Sink::open(spec).expect("the destination is free")
}

/// Stores the first half of the source `other`.
fn feed_half(sink: &mut Sink) {
    let meta = Meta { mode: 0o644, mtime_s: 1, mtime_ns: 2 };
    let begun = [
        Record::Identity { mtime_s: 1, mtime_ns: 2, inode: 3 },
        Record::File { path: b"other", meta, size: 2 * GROUP },
        Record::Extent { offset: 0, len: GROUP as u32 },
    ];
    feed(sink, &chunk_of(&begun, &[7; GROUP as usize])).expect("a beginning");
}

#[test]
fn what_a_kill_left_before_the_first_state_is_not_forgotten() {
    let killed = || {
        let world = World::new();
        let mut sink = open_as_x(&world, "other", Partial::Keep);
        let stateless = fs::read(world.to(".x.fobs-journal")).expect("it is there");
        feed_half(&mut sink);
        drop(sink);
        // The thread that syncs holds the lock for one more call.
        let journal = File::open(world.to(".x.fobs-journal")).expect("it is there");
        flock(&journal, FlockOperation::LockExclusive).expect("it ends");
        fs::write(world.to(".x.fobs-journal"), stateless).expect("it is ours");
        assert_eq!(ours(&world).len(), 2);
        world
    };
    // The same copy, which ends before it has stored anything, and goes on.
    let world = killed();
    let before = ours(&world);
    drop(open_as_x(&world, "other", Partial::Keep));
    assert_eq!(ours(&world), before, "a new journal would make other names");
    let mut sink = open_as_x(&world, "other", Partial::Keep);
    feed_half(&mut sink);
    assert_eq!(ours(&world), before);
    // Copies that do not go on with it.
    for (source, keep) in [("other", Partial::Discard), ("file", Partial::Keep), ("file", Partial::Discard)] {
        let world = killed();
        drop(open_as_x(&world, source, keep));
        assert_eq!(ours(&world), Vec::<PathBuf>::new(), "{source} {keep:?}");
    }
}

#[test]
fn a_journal_of_another_source_under_that_name_is_begun_anew() {
    let world = World::new();
    let mut sink = open_as_x(&world, "other", Partial::Keep);
    feed_half(&mut sink);
    assert_eq!(sink.suspend().map(|kept| kept.bytes), Some(GROUP));
    assert_eq!(ours(&world).len(), 2);
    let mut sink = open_as_x(&world, "file", Partial::Keep);
    assert!(sink.history().is_none());
    assert_eq!(ours(&world), [PathBuf::from(".x.fobs-journal")], "the other one's partial file is gone");
    drop(sink);
    assert_eq!(tree(&world.to("")).len(), 0);
}
