//! Files that changed, sent as patches of what the receiver has: what is stored is the source's, whatever
//! becomes of the basis meanwhile.

mod elsewhere;
mod here;
mod in_place;
mod known;
mod long;
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

/// How a run differs from the ordinary one.
struct Play<'p> {
    alter: fn(&mut SyncOptions),
    key: NameKey,
    terms: Terms,
    /// Data of a chunk, bytes.
    data_max: usize,
    beside: Beside,
    /// How files of one length may be listed.
    cutting: Cutting,
    /// Ends after this number of chunks.
    chunks: usize,
    /// Called with the number of each chunk before it is stored.
    between: &'p mut dyn FnMut(usize),
}

/// What an end has beside the two trees.
enum Beside {
    Nothing,
    /// The sender: an earlier version.
    Earlier(PathBuf),
    /// The receiver: the directory of the sources.
    Sources(PathBuf),
    /// The receiver: it may ask what the sources have.
    Paths,
}

/// What it did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Delta {
    /// Bytes on the wire, those of patches that were of no use too.
    wire: u64,
    matched: u64,
    /// Patches that were of no use.
    unusable: usize,
    /// Rows whose basis was listed, and bytes of the lists and answers.
    listed: usize,
    lists: u64,
    /// Rows of which something is supposed.
    supposed: usize,
    /// What was deleted before anything was stored.
    deleted_first: Vec<String>,
    /// What was there, by the file that it came from.
    from: Matched,
    resumed: u64,
    failures: Vec<String>,
    /// What is told of entries.
    items: Vec<String>,
    /// Directories of which the sender was asked.
    asked: Vec<String>,
}

fn play(world: &World, key: NameKey) -> Delta {
    play_with(world, key, Cutting::InPlace)
}

fn play_with(world: &World, key: NameKey, cutting: Cutting) -> Delta {
    let mut between = |_| ();
    let terms = Terms::default();
    run(
        world,
        Play {
            alter: |_| (),
            key,
            terms,
            data_max: 1 << 20,
            beside: Beside::Nothing,
            cutting,
            chunks: usize::MAX,
            between: &mut between,
        },
    )
}

fn ordinary(world: &World) -> Delta {
    play(world, NameKey::new([1; 32]))
}

/// Syncs `from/` to `to` as both ends of a session do.
fn run(world: &World, play: Play<'_>) -> Delta {
    let mut options = SyncOptions {
        preserve: Preserve { sparse: true, ..Preserve::as_cp(true) },
        directories: Enter::All,
        ..SyncOptions::default()
    };
    (play.alter)(&mut options);
    let options = Arc::new(options);
    let compares = options.rules.compare == sync::Compare::Content;
    let checksums = if compares { Checksums::Listed } else { Checksums::Omitted };
    let form = ListingForm { checksums, parts: Parts::Told };
    let from = format!("{}/", world.from("").display());
    let mut source = Source::open(SourceSpec {
        preserve: options.preserve.clone(),
        sync: Some(options.clone()),
        ..spec(&[Path::new(&from)])
    })
    .expect("a source can be read");
    source.tell_identities();
    if let Beside::Earlier(earlier) = &play.beside {
        let place = std::os::unix::ffi::OsStrExt::as_bytes(earlier.as_os_str());
        source.has_earlier(EarlierFiles::at(&Base::Ambient, place).expect("it can be read"));
    }
    let spec = SinkSpec {
        preserve: options.preserve.clone(),
        terms: play.terms,
        keep: Partial::Keep,
        link_dest: options.link_dest.clone(),
        ..sink_spec(&world.to(""), source.shape())
    };
    let mut sink = Sink::open(spec).expect("the destination can be written");
    sink.follow(&options);
    if let Beside::Sources(directory) = &play.beside {
        sink.finds_sources(&SourcesHere::open(&[directory]));
    }
    let mut compare =
        Compare::for_sync(&mut sink, options, Privileges::OfTheUser).expect("the options are possible");
    compare.offer(&mut sink);
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    if let Beside::Paths = play.beside {
        compare.may_ask_about_paths();
        if compare.wants_path_questions() {
            compare.asks(questions(source.places().expect("a tree"), asked.clone()));
        }
    }
    let offers = sink.offers();
    if play.cutting == Cutting::InPlace {
        offers.iter().for_each(Offers::may_be_in_place);
    }
    let (lists, answered) = answering(source.budget(), offers.clone(), play.key.clone());
    source.match_with(lists.clone(), play.key.clone(), Pays::new(sync::Delta::Always));
    let (mut delta, answers) = (Delta::default(), Answers::default());
    let mut lister = source.survey(Box::new(answers.clone()), form).expect("a tree");
    while let Some(batch) = lister.next_batch().expect("the source can be read") {
        let rows = decode_batch(&batch.bytes).expect("our own");
        for (at, (row, listed)) in rows.iter().zip(batch.entries).enumerate() {
            compare.rename_whole(row, &rows[at + 1..], 0, &|| false);
            let ruling = compare.rule(row);
            let choice = compare.carry_out(row, ruling, &|| false).expect("within bounds");
            delta.listed += usize::from(choice.changes.contains(Changes::LISTED));
            delta.supposed += usize::from(choice.changes.contains(Changes::SUPPOSED));
            delta.items.extend(compare.item(row, &choice).map(|item| told(&item)));
            answers.0.lock().expect("not poisoned").push_back((listed, choice));
        }
    }
    compare.delete(&mut |deleted| match deleted {
        Deleted::Gone(found) => delta.deleted_first.push(String::from_utf8_lossy(&found.path).into_owned()),
        other => delta.failures.push(format!("{other:?}")),
    });
    delta.lists = list(offers.as_ref(), &lists, &play.key);
    store((&mut source, &lists), sink, offers.as_ref(), play, &mut delta);
    delta.lists += answered.bytes.load(Ordering::Relaxed);
    delta.asked = std::mem::take(&mut *asked.lock().expect("not poisoned"));
    delta
}

/// What asks the sender about paths, and is answered at once.
fn questions(places: SourcePlaces, asked: Arc<Mutex<Vec<String>>>) -> PathQuestions {
    let own: Arc<OnceLock<PathQuestions>> = Arc::default();
    // Not by itself: nothing of it would ever be let go.
    let answers = own.clone();
    let questions = PathQuestions::new(Box::new(move |path| {
        asked.lock().expect("not poisoned").push(String::from_utf8_lossy(path).into_owned());
        let there = places.has(path).expect("a path that can be");
        answers.get().expect("it is set").answer(there).expect("our own question");
        true
    }));
    own.set(questions.clone()).expect("it is set once");
    questions
}

/// An item as it is told; what of it comes how is not.
fn told(item: &Item) -> String {
    let changes = item.changes.0 & !(Changes::LISTED.0 | Changes::SUPPOSED.0);
    format!("{:?} {changes:#x} {}", item.kind, String::from_utf8_lossy(&item.path))
}

/// Lists all that is offered.
fn list(offers: Option<&Offers>, lists: &Lists, key: &NameKey) -> u64 {
    let mut bytes = 0;
    let Some(offers) = offers else { return 0 };
    offers.are_complete();
    while let Some(job) = offers.next_job() {
        let row = job.row;
        job.list(offers, key, &mut |segment: Segment| {
            bytes += segment.pieces.len() as u64;
            lists.take(segment.part_of(row))
        })
        .expect("our own list");
    }
    bytes
}

fn store(
    (source, lists): (&mut Source, &Lists),
    mut sink: Sink,
    offers: Option<&Offers>,
    play: Play<'_>,
    delta: &mut Delta,
) {
    let (mut buf, mut scratch) = (vec![0; CHUNK_LEN_MAX], Vec::new());
    for number in 0..play.chunks {
        let filled = source.next_chunk(&mut buf, play.data_max).expect("the source can be read");
        (play.between)(number);
        let whole = &buf[..filled.len];
        let patched = filled.patch.as_ref().map(|patch| {
            delta.wire += patch.chunk.len() as u64;
            assert!(patch.chunk.len() < filled.data_bytes as usize, "it is shorter");
            verify_with(&patch.chunk, &mut scratch, offers).map(|verified| (&patch.chunk[..], verified))
        });
        let (chunk, verified) = match patched {
            Some(Ok(patched)) => patched,
            unusable => {
                if unusable.is_some() {
                    delta.unusable += 1;
                    lists.was_mistaken();
                }
                delta.wire += whole.len() as u64;
                (whole, verify(whole, &mut scratch).expect("our own chunks verify"))
            }
        };
        delta.matched += verified.copied_bytes();
        delta.from.add_all(verified.matched());
        sink.apply(chunk, verified, &scratch, &mut |event| match event {
            SinkEvent::FileFailed(error) | SinkEvent::SourceFailed(error) => {
                delta.failures.push(error.message);
            }
            SinkEvent::Resumed(bytes) => delta.resumed += bytes,
            _ => {}
        })
        .expect("it can be stored");
        if filled.is_final {
            sink.finish(&mut |_| ()).expect("it is whole").1.acknowledged();
            return;
        }
    }
    sink.suspend();
}

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
            let play = Play {
                alter: |_| (),
                key,
                terms,
                data_max: 1 << 20,
                beside: Beside::Nothing,
                cutting,
                chunks: usize::MAX,
                between: &mut between,
            };
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
            Play {
                alter: |_| (),
                key: key.clone(),
                terms,
                data_max: 512 << 10,
                beside: Beside::Nothing,
                cutting: Cutting::ByContent,
                chunks,
                between: &mut between,
            },
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
        let play = Play {
            alter: |_| (),
            key,
            terms,
            data_max: 1 << 20,
            beside: Beside::Nothing,
            cutting: Cutting::ByContent,
            chunks: usize::MAX,
            between: &mut between,
        };
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
