//! Files that changed, sent as patches of what the receiver has: what is stored is the source's, whatever
//! becomes of the basis meanwhile.

mod elsewhere;
mod here;
mod in_place;
mod known;
mod long;
mod play;
mod remembered;
mod rotated;
mod short;
mod trees;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use proptest::prelude::*;

use super::super::delta::{Cutting, Lists, MISLEADING, NameKey, Offers, Pays, Segment};
use super::super::survey::{Changes, Checksums, Compare, ListingForm, Parts, PathQuestions, decode_batch};
use super::super::*;
use super::support::*;
use fobs_model::deltas::Matched;
use fobs_model::options::sync::{self, Enter, Renames, SyncOptions};
use fobs_model::options::{Overwrite, Preserve, Privileges, Sight, Stamps, Terms};
use play::*;

/// Cases of a property: more in the long tier.
fn cases(usual: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if cfg!(feature = "long") { 500 } else { usual })
}

/// `from/f` is new, `to/f` old.
fn world_of(old: &[u8], new: &[u8]) -> World {
    let world = World::new();
    world.write("f", new);
    fs::write(world.to("f"), old).expect("a file");
    // Another time: it is not up to date whatever its size.
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    File::open(world.to("f")).and_then(|file| file.set_modified(long_ago)).expect("own file");
    world
}

#[track_caller]
fn expect_equal(world: &World) {
    assert_eq!(fs::read(world.to("f")).expect("a file"), fs::read(world.from("f")).expect("a file"));
    assert_eq!(tree(&world.to("")).len(), 1, "nothing else is left");
}

/// However files are listed.
const CUTTINGS: [Cutting; 2] = [Cutting::ByContent, Cutting::InPlace];

const LEN: usize = 3_000_000;

/// With this number of writes of 4 kB.
fn scattered(old: &[u8], writes: usize) -> Vec<u8> {
    let mut new = old.to_vec();
    for write in 0..writes {
        let at = (write * 2 + 1) * old.len() / (2 * writes + 1);
        new[at..at + 4096].copy_from_slice(&content(4096, 1000 + write as u64));
    }
    new
}

#[test]
fn a_changed_file_sends_what_changed() {
    let old = content(LEN, 1);
    let front = [&content(5, 2)[..], &old].concat();
    let cut = old[100_001..].to_vec();
    let swapped = [&old[LEN / 2..], &old[..LEN / 2]].concat();
    let grown = [&old[..], &content(10_000, 3)].concat();
    for (what, new) in [
        ("nothing", old.clone()),
        ("writes", scattered(&old, 5)),
        ("in front", front),
        ("cut", cut),
        ("swapped", swapped),
        ("grown", grown),
    ] {
        let world = world_of(&old, &new);
        let delta = ordinary(&world);
        expect_equal(&world);
        assert_eq!((delta.unusable, delta.listed, delta.failures.len()), (0, 1, 0), "{what}");
        assert!(delta.wire < LEN as u64 / 15 && delta.lists < LEN as u64 / 100, "{what}: {delta:?}");
        assert!(delta.matched > new.len() as u64 * 9 / 10, "{what}: {delta:?}");
        if new.starts_with(&old) {
            assert_eq!(delta.matched, old.len() as u64, "{what}: the last piece ends with the basis");
        }
    }
}

#[test]
fn a_name_that_misleads_costs_a_chunk_and_no_file() {
    let old = content(LEN, 1);
    // Pieces of zeros are all as long as each other, and those of ones too.
    let new = [vec![1; LEN / 2], content(LEN / 3, 4)].concat();
    for (old, new) in [(vec![0; LEN], vec![1; LEN]), (old, new)] {
        let world = world_of(&old, &new);
        let delta = play(&world, NameKey::new(MISLEADING));
        expect_equal(&world);
        if old[0] == old[1] {
            assert!(delta.unusable > 0, "{delta:?}");
        }
    }
}

#[test]
fn holes_stay_holes() {
    let old = content(LEN, 1);
    let world = world_of(&old, b"");
    let file = File::create(world.from("f")).expect("own file");
    file.write_all_at(&old[..1 << 20], 0).expect("it can be written");
    file.write_all_at(&old[1 << 20..], 64 << 20).expect("it can be written");
    file.sync_all().expect("own file");
    let delta = ordinary(&world);
    expect_equal(&world);
    assert!(delta.matched > LEN as u64 * 8 / 10, "{delta:?}");
    let stored = |path: &Path| fs::metadata(path).expect("a file").blocks();
    if stored(&world.from("f")) < (8 << 20) / 512 {
        assert!(stored(&world.to("f")) < (8 << 20) / 512);
    }
}

/// A basis that changes while it is used: how, and whether the file is then another one.
type Meddling = (&'static str, fn(&Path));
const MEDDLING: [Meddling; 5] = [
    ("overwritten", |basis| fs::write(basis, content(LEN, 9)).expect("own file")),
    ("cut", |basis| {
        File::options().write(true).open(basis).and_then(|file| file.set_len(700_000)).expect("own file");
    }),
    ("emptied", |basis| fs::write(basis, b"").expect("own file")),
    ("removed", |basis| fs::remove_file(basis).expect("own file")),
    ("a byte", |basis| {
        let file = File::options().write(true).open(basis).expect("own file");
        file.write_all_at(b"!", LEN as u64 - 10).expect("own file");
    }),
];

#[test]
fn a_basis_may_change_at_any_moment() {
    let old = content(LEN, 1);
    let new = scattered(&old, 5);
    for (how, meddle) in MEDDLING {
        for (moment, cutting) in
            [0, 1, 2].into_iter().flat_map(|moment| CUTTINGS.map(|cutting| (moment, cutting)))
        {
            let world = world_of(&old, &new);
            let basis = world.to("f");
            let mut between = |number: usize| {
                if number == moment {
                    meddle(&basis);
                }
            };
            let (key, terms) = (NameKey::new([1; 32]), Terms::default());
            let play = Play { key, terms, cutting, ..Play::ordinary(&mut between) };
            let delta = run(&world, play);
            expect_equal(&world);
            // What is open stays what it is where only its name goes.
            let stays = how == "removed" || shares_blocks(&world);
            assert_eq!(delta.unusable == 0, stays, "{how}, {moment}: {delta:?}");
            assert_eq!(delta.failures, Vec::<String>::new());
        }
    }
}

#[test]
fn a_half_built_file_goes_on() {
    let old = content(LEN, 1);
    let new = scattered(&old, 5);
    let (key, terms) = (NameKey::new([1; 32]), Terms::default());
    for chunks in 1..4 {
        let world = world_of(&old, &new);
        let mut between = |_| ();
        run(
            &world,
            Play { key: key.clone(), terms, data_max: 512 << 10, chunks, ..Play::ordinary(&mut between) },
        );
        assert_eq!(fs::read(world.to("f")).expect("it stands"), old, "until all of it is there");
        let delta = ordinary(&world);
        expect_equal(&world);
        assert_eq!(delta.resumed, (chunks * 512) as u64 * 1024);
        assert!(delta.wire < LEN as u64 / 15 && delta.listed == 1, "{delta:?}");
    }
}

#[test]
fn a_client_that_may_not_look_gets_no_lists() {
    let old = content(LEN, 1);
    for (sight, overwrite) in
        [(Sight::Own, Overwrite::Replace), (Sight::Own, Overwrite::Refuse), (Sight::Whole, Overwrite::Refuse)]
    {
        let world = world_of(&old, &scattered(&old, 5));
        let terms = Terms { sight, overwrite, stamps: Stamps::Senders };
        let (key, mut between) = (NameKey::new([1; 32]), |_| ());
        let play = Play { key, terms, ..Play::ordinary(&mut between) };
        let delta = run(&world, play);
        assert_eq!((delta.listed, delta.lists, delta.matched), (0, 0, 0), "{sight:?} {overwrite:?}");
    }
}

#[test]
fn what_others_can_put_there_is_no_basis() {
    let old = content(LEN, 1);
    let world = world_of(&old, &scattered(&old, 5));
    // At both ends, or the sync takes it from them before it looks at the file.
    [world.from(""), world.to("")].iter().for_each(|directory| set_mode(directory, 0o777));
    let delta = ordinary(&world);
    expect_equal(&world);
    assert_eq!((delta.listed, delta.matched), (0, 0));
    // A link, whatever it leads to.
    let world = world_of(&old, &scattered(&old, 5));
    fs::rename(world.to("f"), world.from("../elsewhere")).expect("own file");
    std::os::unix::fs::symlink(world.from("../elsewhere"), world.to("f")).expect("own directory");
    let delta = ordinary(&world);
    assert_eq!((delta.listed, delta.matched), (0, 0));
    assert_eq!(fs::read(world.from("../elsewhere")).expect("it stands"), old);
}

/// An edit, by random numbers.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Insert,
    Delete,
    Overwrite,
    Swap,
    Repeat,
    Zero,
}

fn edited(mut data: Vec<u8>, edits: &[(Edit, usize, usize, u64)]) -> Vec<u8> {
    for &(edit, at, len, seed) in edits {
        let at = at % (data.len() + 1);
        let end = (at + len).min(data.len());
        match edit {
            Edit::Insert => drop(data.splice(at..at, content(len, seed))),
            Edit::Delete => drop(data.drain(at..end)),
            Edit::Overwrite => data[at..end].copy_from_slice(&content(end - at, seed)),
            Edit::Swap => {
                let part: Vec<u8> = data.drain(at..end).collect();
                let to = seed as usize % (data.len() + 1);
                data.splice(to..to, part);
            }
            Edit::Repeat => {
                let part = data[at..end].to_vec();
                data.splice(at..at, part);
            }
            Edit::Zero => data[at..end].fill(0),
        }
    }
    data
}

fn edit() -> impl Strategy<Value = (Edit, usize, usize, u64)> {
    let kind = prop::sample::select(vec![
        Edit::Insert,
        Edit::Delete,
        Edit::Overwrite,
        Edit::Swap,
        Edit::Repeat,
        Edit::Zero,
    ]);
    (kind, any::<usize>(), prop_oneof![1_usize..64, 1_usize..200_000], any::<u64>())
}

proptest! {
    #![proptest_config(cases(48))]
    #[test]
    fn any_edit_arrives(
        len in prop_oneof![0_usize..40_000, 0_usize..900_000],
        edits in prop::collection::vec(edit(), 0..6),
        groups in 1_usize..20,
        misleading: bool,
        back: bool,
        cutting in prop::sample::select(CUTTINGS.to_vec()),
    ) {
        let old = content(len, 5);
        let new = edited(old.clone(), &edits);
        let (old, new) = if back { (new, old) } else { (old, new) };
        let world = world_of(&old, &new);
        let (terms, mut between) = (Terms::default(), |_| ());
        let key = if misleading { NameKey::new(MISLEADING) } else { NameKey::new([3; 32]) };
        let play = Play { alter: |_| (), key, terms, data_max: groups << 16, beside: Beside::Nothing, cutting, chunks: usize::MAX, between: &mut between };
        let delta = run(&world, play);
        prop_assert_eq!(fs::read(world.to("f")).expect("a file"), new);
        prop_assert_eq!(delta.failures, Vec::<String>::new());
        prop_assert!(misleading || delta.unusable == 0);
    }
}
