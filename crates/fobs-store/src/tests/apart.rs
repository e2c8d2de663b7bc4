//! Parts of a file that several threads write: whatever their order, and whichever fails.

use std::fs;

use fobs_model::event::FileError;
use rustix::io::Errno;

use super::super::faults::{Call, forget, plan};
use super::super::*;
use super::beside::Beside;
use super::support::*;
use crate::temporary::beside::write_beside;

/// Data of a chunk, bytes.
const CHUNK: usize = 128 << 10;
/// Several chunks.
const BIG: usize = 9 * CHUNK + 777;

/// What a run came to.
#[derive(Default)]
struct Run {
    failures: Vec<FileError>,
    /// Most chunks that were begun at a time.
    beside: usize,
    calls: u32,
}

/// Two files into one directory.
fn world() -> World {
    let world = World::new();
    world.write("big", &content(BIG, 1));
    world.write("other", &content(BIG / 2, 2));
    world
}

/// Copies them; `spared` writes succeed before one fails.
fn copy_beside(world: &World, seed: u64, fails: Option<(u32, Errno)>) -> Run {
    let (big, other) = (world.from("big"), world.from("other"));
    let mut source = open(&[&big, &other]);
    let mut sink = Sink::open(SinkSpec {
        keep: Partial::Keep,
        names: vec![b"big".to_vec(), b"other".to_vec()],
        ..sink_spec(&world.to(""), source.shape())
    })
    .expect("the destination is free");
    let (mut buf, mut scratch, mut run) = (vec![0; CHUNK_LEN_MAX], Vec::new(), Run::default());
    let mut beside = Beside::new(seed);
    write_beside(true);
    if let Some((spared, errno)) = fails {
        plan(Call::Write, spared, errno);
    }
    let mut note = |event| match event {
        SinkEvent::FileFailed(error) => run.failures.push(error),
        SinkEvent::SourceFailed(error) => panic!("seed {seed}: {error:?}"),
        _ => {}
    };
    loop {
        let filled = source.next_chunk(&mut buf, CHUNK).expect("the source can be read");
        let chunk = &buf[..filled.len];
        let verified = verify(chunk, &mut scratch).expect("our own chunks verify");
        beside.store(&mut sink, (chunk, verified, &scratch), &mut note, &mut || ()).expect("it goes on");
        run.beside = run.beside.max(beside.begun());
        if filled.is_final {
            break;
        }
    }
    let root = source.root();
    let (summary, closing) = sink.finish(&mut note).expect("it comes to its end");
    closing.acknowledged();
    assert_eq!(summary.root, root, "seed {seed}");
    write_beside(false);
    run.calls = u32::from(!forget());
    run
}

#[test]
fn parts_in_any_order_are_the_file() {
    let mut most = 0;
    for seed in 0..20 {
        let world = world();
        let run = copy_beside(&world, seed, None);
        assert!(run.failures.is_empty(), "seed {seed}: {:?}", run.failures);
        assert_eq!(tree(&world.to("")), tree(&world.from("")), "seed {seed}");
        most = most.max(run.beside);
    }
    assert!(most >= 3, "{most} parts at a time");
}

#[test]
fn each_write_that_fails_fails_its_file_alone() {
    for errno in [Errno::NOSPC, Errno::IO] {
        let mut failed = 0;
        for spared in 0.. {
            let world = world();
            fs::write(world.to("big"), b"from before").expect("a file");
            let run = copy_beside(&world, spared.into(), Some((spared, errno)));
            let Some(failure) = run.failures.first() else {
                assert_eq!(tree(&world.to("")), tree(&world.from("")));
                break;
            };
            failed += 1;
            assert_eq!(run.failures.len(), 1, "{spared}: {:?}", run.failures);
            let path = show_path(&failure.path);
            assert!(failure.message.contains(&path), "{failure:?}");
            // The other one is whole, what had the name is there still, and nothing else is.
            let there = tree(&world.to(""));
            let names: Vec<_> = there.keys().map(|name| name.display().to_string()).collect();
            if path == "big" {
                assert_eq!(fs::read(world.to("big")).expect("it is there"), b"from before", "{spared}");
                assert_eq!(fs::read(world.to("other")).ok(), fs::read(world.from("other")).ok());
                assert_eq!(names, ["big", "other"], "{spared}");
            } else {
                assert_eq!(fs::read(world.to("big")).ok(), fs::read(world.from("big")).ok());
                assert_eq!(names, ["big"], "{spared}");
            }
        }
        // A write for each chunk and each end of a file.
        assert!(failed >= 14, "{failed} writes failed");
    }
}

/// Begins this many parts, writes all but one of them, and ends early: what is before that one is kept.
#[test]
fn an_early_end_keeps_what_has_no_gap_before_it() {
    for missing in 0..4 {
        let world = world();
        let big = world.from("big");
        let mut source = open(&[&big]);
        source.tell_identities();
        let mut sink = Sink::open(SinkSpec {
            keep: Partial::Keep,
            names: vec![b"big".to_vec()],
            ..sink_spec(&world.to(""), source.shape())
        })
        .expect("the destination is free");
        let (mut buf, mut scratch) = (vec![0; CHUNK_LEN_MAX], Vec::new());
        let mut fill = |source: &mut Source| {
            let filled = source.next_chunk(&mut buf, CHUNK).expect("the source can be read");
            let verified = verify(&buf[..filled.len], &mut scratch).expect("our own chunks verify");
            (buf[..filled.len].to_vec(), verified)
        };
        // The first one has the file's record.
        let (chunk, verified) = fill(&mut source);
        sink.apply(&chunk, verified, &[], &mut |_| ()).expect("it can be stored");
        write_beside(true);
        let mut begun = Vec::new();
        for _ in 0..4 {
            let (chunk, verified) = fill(&mut source);
            let Begun::Apart(apart) = sink.begin_next(&chunk, verified, &[]).expect("its turn") else {
                panic!("in turn")
            };
            begun.push((chunk, apart));
        }
        write_beside(false);
        for (chunk, apart) in begun.iter().skip(missing + 1).rev() {
            // On the disk, and behind a gap.
            drop(apart.write(chunk, &[]));
        }
        for (chunk, apart) in begun.iter().take(missing) {
            let written = apart.write(chunk, &[]);
            sink.settle(written, &mut |event| panic!("{event:?}")).expect("it is the oldest");
        }
        let kept = sink.suspend().expect("it is kept");
        let stored = (CHUNK * (1 + missing)) as u64;
        assert_eq!(kept.bytes, stored, "without part {missing}");
        let there = tree(&world.to(""));
        let whole = fs::read(&big).expect("it is there");
        let is_it = |node: &Node| matches!(node, Node::File(bytes) if *bytes == whole[..stored as usize]);
        let lens: Vec<_> = there
            .iter()
            .map(|(path, node)| {
                (path, matches!(node, Node::File(bytes) if whole.starts_with(bytes)), node_len(node))
            })
            .collect();
        assert!(there.values().any(is_it), "without part {missing}: {stored} of {lens:?}");
    }
}

fn node_len(node: &Node) -> usize {
    if let Node::File(bytes) = node { bytes.len() } else { 0 }
}

/// A chunk that is stored in its turn while others are being written would come before them.
#[test]
fn nothing_overtakes_what_is_begun() {
    let world = world();
    let big = world.from("big");
    let mut source = open(&[&big]);
    let mut sink = sink(&world.to(""), source.shape());
    let (mut buf, mut scratch) = (vec![0; CHUNK_LEN_MAX], Vec::new());
    let filled = source.next_chunk(&mut buf, CHUNK).expect("the source can be read");
    let verified = verify(&buf[..filled.len], &mut scratch).expect("our own chunks verify");
    sink.apply(&buf[..filled.len], verified, &[], &mut |_| ()).expect("it can be stored");
    let filled = source.next_chunk(&mut buf, CHUNK).expect("the source can be read");
    let verified = verify(&buf[..filled.len], &mut scratch).expect("our own chunks verify");
    write_beside(true);
    let begun = sink.begin_next(&buf[..filled.len], verified.clone(), &[]);
    write_beside(false);
    assert!(matches!(begun, Ok(Begun::Apart(_))));
    let error = sink.apply(&buf[..filled.len], verified, &[], &mut |_| ()).expect_err("too early");
    assert_eq!(error.kind, fobs_model::error::ErrorKind::Internal);
}
