//! Runs that have no journal, and what the next one of the same command makes of what they left.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use super::super::faults::{Call, Lasts, forget, plan, plan_for};
use super::super::names::{self, Taken};
use super::super::*;
use super::support::*;
use fobs_model::error::{Error, ErrorKind};

/// Data of a chunk, bytes.
const CHUNK: usize = 128 << 10;
/// Several chunks.
const BIG: usize = 5 * CHUNK + 777;
/// Longer than what has no journal and no lock counts as in use.
const LONG: Duration = Duration::from_secs(2 * 3600);

fn world() -> World {
    let world = World::new();
    world.write("d/a", &content(3_000, 1));
    world.write("d/big", &content(BIG, 2));
    world
}

fn open_sink(world: &World) -> Result<Sink, Error> {
    let shape = SourceShape::Paths { count: 1, contents: false };
    Sink::open(SinkSpec {
        keep: Partial::Keep,
        names: vec![b"d".to_vec()],
        ..sink_spec(&world.to(""), shape)
    })
}

/// Why a run has no journal, or what the journal lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lacks {
    Nothing,
    /// There is no room for its name.
    Journal,
    /// The file system has no locks.
    Locks,
    /// Its lock fails, as that of a network's file system may.
    Lock,
    /// Nothing can be written into it.
    Records,
}

/// A run that has begun.
struct Begun {
    source: Source,
    sink: Sink,
}

impl Begun {
    fn new(world: &World, lacks: Lacks) -> Begun {
        match lacks {
            Lacks::Nothing => {}
            Lacks::Journal => plan(Call::Name, 0, Errno::NOSPC),
            Lacks::Locks => plan_for(Call::Lock, 0, Errno::OPNOTSUPP, Lasts::On),
            Lacks::Lock => plan(Call::Lock, 0, Errno::NOLCK),
            Lacks::Records => plan_for(Call::Record, 0, Errno::NOSPC, Lasts::On),
        }
        let mut source = open(&[&world.from("d")]);
        source.tell_identities();
        Begun { source, sink: open_sink(world).expect("the destination is free") }
    }

    fn store(&mut self, chunks: usize) {
        let (mut buf, mut scratch) = (vec![0; CHUNK_LEN_MAX], Vec::new());
        for _ in 0..chunks {
            let filled = self.source.next_chunk(&mut buf, CHUNK).expect("the source can be read");
            let verified = verify(&buf[..filled.len], &mut scratch).expect("our own chunks verify");
            let stored = self.sink.apply(&buf[..filled.len], verified, &scratch, &mut |_| ());
            stored.expect("it can be stored");
        }
    }

    fn end(mut self) {
        let ended = transfer_in(&mut self.source, self.sink, |_| CHUNK, |_| ()).expect("it goes through");
        assert_eq!((ended.sink_failures, ended.told_failures), (Vec::new(), Vec::new()));
        forget();
    }
}

/// The temporary files and journals that are there.
fn ours(top: &Path) -> Vec<PathBuf> {
    tree(top).into_keys().filter(|path| path.to_string_lossy().contains(".fobs-")).collect()
}

/// What a run of three chunks has under a temporary name; the run ends.
fn in_between(world: &World, lacks: Lacks) -> PathBuf {
    let mut begun = Begun::new(world, lacks);
    begun.store(3);
    let names: Vec<_> = ours(&world.to("")).into_iter().filter(|path| path.starts_with("d")).collect();
    let [name] = &names[..] else { panic!("{names:?}") };
    drop(begun);
    forget();
    assert_eq!(ours(&world.to("")), Vec::<PathBuf>::new(), "it ends in order");
    world.to("").join(name)
}

#[track_caller]
fn expect_whole(world: &World, what: &str) {
    assert_eq!(tree(&world.to("")), tree(&world.from("")), "{what}");
}

#[test]
fn what_a_kill_leaves_without_a_journal_goes_with_the_same_command() {
    type Leaves = fn(&Path);
    let marked: Leaves = |path| {
        fs::write(path, b"the first bytes").expect("the name is free");
        set_mode(path, 0o1600);
    };
    let dressed: Leaves = |path| {
        fs::write(path, b"the first bytes").expect("the name is free");
        set_mode(path, 0o444);
    };
    let link: Leaves = |path| symlink("target", path).expect("the name is free");
    for (what, leaves) in [("unfinished", marked), ("not renamed", dressed), ("a link", link)] {
        for lacks in [Lacks::Journal, Lacks::Nothing, Lacks::Records] {
            let world = world();
            let left = in_between(&world, Lacks::Journal);
            leaves(&left);
            Begun::new(&world, lacks).end();
            expect_whole(&world, &format!("{what}, then {lacks:?}"));
        }
    }
    let world = world();
    let left = in_between(&world, Lacks::Journal);
    let other = left.with_file_name(".big.fobs-master");
    marked(&other);
    Begun::new(&world, Lacks::Journal).end();
    assert!(other.exists(), "another command's");
}

#[test]
fn a_running_one_without_a_journal_keeps_its_file() {
    for lacks in [Lacks::Journal, Lacks::Nothing] {
        let world = world();
        let mut first = Begun::new(&world, Lacks::Journal);
        first.store(3);
        Begun::new(&world, lacks).end();
        assert_eq!(ours(&world.to("")).len(), 1, "the first one's");
        first.end();
        expect_whole(&world, &format!("beside one with {lacks:?}"));
    }
}

#[test]
fn without_locks_age_tells_what_is_left() {
    for is_old in [false, true] {
        let world = world();
        let left = in_between(&world, Lacks::Locks);
        fs::write(&left, b"the first bytes").expect("the name is free");
        set_mode(&left, 0o1600);
        if is_old {
            let time = SystemTime::now() - LONG;
            File::open(&left).and_then(|file| file.set_modified(time)).expect("own file");
        }
        Begun::new(&world, Lacks::Locks).end();
        assert_eq!(left.exists(), !is_old, "it may be in use");
        let _ = fs::remove_file(&left);
        expect_whole(&world, "no journal stays that nobody can lock");
    }
}

#[test]
fn a_journal_that_takes_nothing_still_locks() {
    let world = world();
    let mut first = Begun::new(&world, Lacks::Records);
    first.store(3);
    let error = open_sink(&world).err().expect("it is in use");
    assert_eq!(error.kind, ErrorKind::Destination);
    let names = ours(&world.to(""));
    first.end();
    expect_whole(&world, "and goes with its end");
    // As a kill leaves it: the journal in which nothing stands, and the file.
    for name in &names {
        fs::write(world.to("").join(name), b"").expect("the name is free");
        set_mode(&world.to("").join(name), 0o1600);
    }
    Begun::new(&world, Lacks::Nothing).end();
    let left: Vec<_> = ours(&world.to("")).into_iter().filter(|path| !path.starts_with("d")).collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "the journal is found again");
}

#[test]
fn a_lock_that_fails_loses_no_names_of_what_is_left() {
    let world = world();
    let mut first = Begun::new(&world, Lacks::Nothing);
    first.store(3);
    drop(first);
    let names = ours(&world.to(""));
    assert_eq!(names.len(), 2);
    // A power cut before the journal's first sync: its inode is there, its content is not.
    names.iter().for_each(|name| fs::write(world.to("").join(name), b"").expect("own file"));
    fs::remove_file(world.from("d/big")).expect("it is there");
    Begun::new(&world, Lacks::Lock).end();
    assert_eq!(ours(&world.to("")), names, "without it nothing tells whose they are");
    world.write("d/big", &content(BIG, 2));
    Begun::new(&world, Lacks::Nothing).end();
    expect_whole(&world, "the next one finds them");
}

#[test]
fn a_journal_that_cannot_be_opened_is_not_ignored() {
    let world = world();
    let mut first = Begun::new(&world, Lacks::Nothing);
    first.store(3);
    drop(first);
    let before = ours(&world.to(""));
    assert_eq!(before.len(), 2);
    plan(Call::Open, 0, Errno::MFILE);
    let error = open_sink(&world).err().expect("what it says is not known");
    forget();
    assert!(error.message.contains("open the journal") && error.message.contains("ulimit -n"), "{error}");
    assert_eq!(ours(&world.to("")), before, "and nothing is touched");
    Begun::new(&world, Lacks::Nothing).end();
    expect_whole(&world, "the next one goes on");
}

#[test]
fn a_partial_file_whose_source_is_gone_goes_with_the_journal() {
    let world = world();
    let mut first = Begun::new(&world, Lacks::Nothing);
    first.store(3);
    drop(first);
    assert_eq!(ours(&world.to("")).len(), 2);
    fs::remove_file(world.from("d/big")).expect("it is there");
    Begun::new(&world, Lacks::Nothing).end();
    expect_whole(&world, "nothing is left");
}

#[test]
fn a_copy_by_name_finds_what_its_earlier_one_left() {
    let world = World::new();
    fs::write(world.to("old"), content(3 << 20, 1)).expect("a file");
    let copy = |go_on: &mut dyn FnMut() -> Result<(), Error>| {
        let (from, to) = (bytes(&world.to("old")), bytes(&world.to("new")));
        names::copy(&Base::Ambient, &from, &to, Taken::Replaced, go_on)
    };
    let mut seen = Vec::new();
    let stopped = copy(&mut || {
        seen = ours(&world.to(""));
        Err(Error::new(ErrorKind::Interrupted, "enough"))
    });
    assert!(stopped.is_err() && ours(&world.to("")).is_empty());
    let [name] = &seen[..] else { panic!("{seen:?}") };
    fs::write(world.to("").join(name), b"left").expect("the name is free");
    set_mode(&world.to("").join(name), 0o1600);
    copy(&mut || Ok(())).expect("it can be copied");
    assert_eq!(ours(&world.to("")), Vec::<PathBuf>::new());
    assert_eq!(fs::read(world.to("new")).expect("it is there"), content(3 << 20, 1));
}
