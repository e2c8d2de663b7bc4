//! What is known of a basis without a list: that it has size and time of the file, or is an earlier version
//! that the sender has too.

use super::*;
use fobs_model::options::sync::{Delete, DeleteWhen, Delta as When};

fn run_with(world: &World, alter: fn(&mut SyncOptions), earlier: Option<PathBuf>) -> Delta {
    let (key, terms, mut between) = (NameKey::new([1; 32]), Terms::default(), |_| ());
    let beside = earlier.map_or(Beside::Nothing, Beside::Earlier);
    let play = Play { alter, key, terms, beside, ..Play::ordinary(&mut between) };
    run(world, play)
}

pub(super) fn put(path: &Path, bytes: &[u8], age: u64) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, bytes).expect("our own place");
    set_age(path, age);
}

fn set_age(path: &Path, age: u64) {
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 - age);
    File::open(path).and_then(|file| file.set_modified(time)).expect("our own");
}

/// A tree of files, a third of one size and some of one time: `from/new/...` at the source and `to/old/...`
/// at the destination.
pub(super) fn moved_tree(files: u64) -> (World, u64) {
    let world = World::new();
    let mut bytes = 0;
    for number in 0..files {
        let name = format!("{}/f{number}", number % 7);
        let len = if number % 3 == 0 { 20_000 } else { 600 + (number * number * 37 % 40_000) as usize };
        let data = content(len, number);
        bytes += data.len() as u64;
        put(&world.from(&format!("new/{name}")), &data, number / 5);
        put(&world.to(&format!("old/{name}")), &data, number / 5);
    }
    // Else both tops have one time where they were last changed within a tick of the kernel's clock.
    set_age(&world.from(""), 0);
    (world, bytes)
}

fn expect_moved(world: &World) {
    for name in tree(&world.from("new")) {
        let [is, was] = [world.to("new"), world.from("new")].map(|top| fs::read(top.join(&name.0)));
        assert_eq!(is.ok(), was.ok(), "{name:?}");
    }
}

#[test]
fn a_tree_that_moved_is_made_of_itself_at_the_destination() {
    for when in [None, Some(DeleteWhen::During), Some(DeleteWhen::After)] {
        let (world, bytes) = moved_tree(300);
        let alter: fn(&mut SyncOptions) = match when {
            None => |options| options.track_renames = Renames::All,
            Some(DeleteWhen::After) => |options| {
                options.track_renames = Renames::All;
                options.delete = Some(Delete { when: DeleteWhen::After, max: None });
            },
            Some(_) => |options| {
                options.track_renames = Renames::All;
                options.delete = Some(Delete { when: DeleteWhen::During, max: None });
            },
        };
        let delta = run_with(&world, alter, None);
        expect_moved(&world);
        assert_eq!(world.to("old").exists(), when.is_none(), "{when:?}");
        assert_eq!((delta.supposed, delta.lists, delta.unusable), (300, 0, 0), "{delta:?}");
        assert!(delta.matched == bytes && delta.from.moved == bytes, "{delta:?}");
        assert!(delta.wire < bytes / 50, "{} of {bytes}", delta.wire);
    }
}

#[test]
fn files_that_look_alike_are_found_where_their_directory_was() {
    for (now, before) in [("new", "old"), ("a/in", "in"), ("in", "b/c/in"), ("x/y/z", "x/w/z")] {
        let world = World::new();
        let mut bytes = 0;
        // Of one second and length, in ten directories of five each with four names.
        for number in 0..200 {
            let data = content(2_000, number);
            bytes += data.len() as u64;
            let name = format!("{}/{}/f{}", number % 10, number / 10 % 5, number / 50);
            put(&world.from(&format!("{now}/{name}")), &data, 7);
            put(&world.to(&format!("{before}/{name}")), &data, 7);
        }
        let delta = run_with(&world, |options| options.track_renames = Renames::All, None);
        assert_eq!((delta.supposed, delta.unusable), (200, 0), "{now} {before}: {delta:?}");
        assert_eq!(delta.from.moved, bytes, "{now} {before}: {delta:?}");
    }
}

#[test]
fn a_deletion_looks_for_moved_files_once_there_is_enough_that_is_new() {
    let alter: fn(&mut SyncOptions) = |options| {
        options.track_renames = Renames::WhereCheap;
        options.delete = Some(Delete::default());
    };
    let (world, bytes) = moved_tree(300);
    assert!(bytes > 2 << 20);
    let delta = run_with(&world, alter, None);
    expect_moved(&world);
    assert!(delta.matched > bytes - (1 << 20) - 50_000 && delta.matched < bytes, "{delta:?}");
    let (world, bytes) = moved_tree(20);
    assert!(bytes < 1 << 20);
    assert_eq!(run_with(&world, alter, None).supposed, 0);
    expect_moved(&world);
}

/// rsync's `--delete` makes room before the files come that need it: a destination that is nearly full.
#[test]
fn what_nothing_is_made_of_is_deleted_before_files_come() {
    for max in [None, Some(1000)] {
        let (world, _) = moved_tree(60);
        for name in ["gone", "old/gone", "other/d/gone", "old-er/gone"] {
            put(&world.to(name), &content(123_457, 5), 99);
        }
        let alter: fn(&mut SyncOptions) = match max {
            None => |options| {
                options.track_renames = Renames::All;
                options.delete = Some(Delete { when: DeleteWhen::During, max: None });
            },
            Some(_) => |options| {
                options.track_renames = Renames::All;
                options.delete = Some(Delete { when: DeleteWhen::During, max: Some(1000) });
            },
        };
        let mut delta = run_with(&world, alter, None);
        delta.deleted_first.sort();
        let gone = ["gone", "old-er", "old-er/gone", "old/gone", "other", "other/d", "other/d/gone"];
        assert_eq!(delta.deleted_first, gone);
        assert_eq!((delta.supposed, delta.unusable, &delta.failures[..]), (60, 0, &[][..]), "{delta:?}");
        expect_moved(&world);
        assert!(!world.to("old").exists(), "what they were made of goes at the end");
    }
}

#[test]
fn an_access_time_is_no_basis() {
    let world = World::new();
    put(&world.from("f"), &content(50_000, 1), 5);
    put(&world.to("f"), &content(50_000, 2), 9);
    let long_ago = fs::FileTimes::new().set_accessed(std::time::SystemTime::UNIX_EPOCH);
    File::open(world.from("f")).and_then(|file| file.set_times(long_ago)).expect("own file");
    let delta = run_with(&world, |options| options.preserve.atimes = true, None);
    expect_equal(&world);
    assert_eq!((delta.supposed, delta.unusable), (0, 0), "{delta:?}");
}

#[test]
fn contents_say_what_moved_where_they_are_compared() {
    let (world, bytes) = moved_tree(40);
    for name in tree(&world.to("old")) {
        let path = world.to("old").join(&name.0);
        if path.is_file() {
            let data = fs::read(&path).expect("own file");
            put(&path, &data, 77_777);
        }
    }
    // Of one size, and another content.
    put(&world.from("new/other"), &content(5000, 1), 5);
    put(&world.to("old/other"), &content(5000, 2), 5);
    let delta = run_with(
        &world,
        |options| {
            options.track_renames = Renames::All;
            options.rules.compare = sync::Compare::Content;
        },
        None,
    );
    expect_moved(&world);
    assert_eq!((delta.supposed, delta.unusable, delta.from.moved), (40, 0, bytes), "{delta:?}");
}

#[test]
fn what_only_looks_like_it_moved_is_sent() {
    let world = World::new();
    for number in 0..40 {
        let (same, size) = (number % 2 == 0, 200_000 + number as usize);
        put(&world.from(&format!("new/{number}")), &content(size, number), number);
        put(&world.to(&format!("old/{number}")), &content(size, if same { number } else { 1000 }), number);
    }
    let delta = run_with(&world, |options| options.track_renames = Renames::All, None);
    expect_moved(&world);
    // After some mistakes nothing is supposed any more.
    assert!((1..=8).contains(&delta.unusable) && delta.failures.is_empty(), "{delta:?}");
}

#[test]
fn a_moved_basis_may_change_at_any_moment() {
    for (how, meddle) in MEDDLING {
        for moment in 0..3 {
            let world = World::new();
            let data = content(LEN, 1);
            put(&world.from("new"), &data, 5);
            put(&world.to("old"), &data, 5);
            let basis = world.to("old");
            let mut between = |number: usize| {
                if number == moment {
                    meddle(&basis);
                }
            };
            let (key, terms) = (NameKey::new([1; 32]), Terms::default());
            let alter: fn(&mut SyncOptions) = |options| options.track_renames = Renames::All;
            let chunks = usize::MAX;
            let play = Play { alter, key, terms, chunks, ..Play::ordinary(&mut between) };
            let delta = run(&world, play);
            assert!(fs::read(world.to("new")).expect("it came") == data, "{how}, {moment}");
            assert_eq!(delta.failures, Vec::<String>::new(), "{how}, {moment}");
        }
    }
}

/// Weights of 2 bytes, of which one in fifty is another.
pub(super) fn trained(old: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    for number in 0..old.len() / 2 {
        if blake3::hash(&number.to_le_bytes()).as_bytes()[0] < 5 {
            new[2 * number] ^= blake3::hash(&(number + 1).to_le_bytes()).as_bytes()[0] | 1;
        }
    }
    new
}

#[test]
fn weights_of_a_version_that_both_have_send_what_differs() {
    let old = content(2 * LEN, 1);
    let new = trained(&old);
    let world = world_of(&old, &new);
    // Every piece is another one: a list is of no use.
    let listed = ordinary(&world);
    expect_equal(&world);
    assert!(listed.matched < 100_000, "{listed:?}");
    for is_file in [true, false] {
        let world = world_of(&old, &new);
        let earlier = if is_file { world.to("../v1.bin") } else { world.to("../v1") };
        let at = if is_file { earlier.clone() } else { earlier.join("f") };
        put(&at, &old, 0);
        let delta = run_with(&world, |_| (), Some(earlier));
        expect_equal(&world);
        // Their places, lengths and bytes as they are would be 3.2%.
        assert!(delta.wire < new.len() as u64 * 26 / 1000 && delta.unusable == 0, "{delta:?}");
        assert!(delta.from.same_name > new.len() as u64 * 9 / 10, "{delta:?}");
    }
}

#[test]
fn an_earlier_version_that_is_another_one_costs_some_chunks() {
    let old = content(2 * LEN, 1);
    let new = scattered(&old, 5);
    for (what, earlier) in [
        ("another", content(2 * LEN, 2)),
        ("a byte", [&old[..LEN], b"!", &old[LEN + 1..]].concat()),
        ("shorter", old[..LEN / 2].to_vec()),
        ("longer", [&old[..], &old].concat()),
        ("moved", [&b"!"[..], &old].concat()),
        ("empty", Vec::new()),
    ] {
        let world = world_of(&old, &new);
        let at = world.to("../v1.bin");
        put(&at, &earlier, 0);
        let delta = run_with(&world, |options| options.delta = When::Always, Some(at));
        expect_equal(&world);
        assert!(delta.unusable <= 8 && delta.failures.is_empty(), "{what}: {delta:?}");
    }
}

#[test]
fn what_an_interrupted_run_left_of_another_version_is_used() {
    let old = content(LEN, 1);
    let world = World::new();
    put(&world.from("f"), &old, 10);
    let (key, terms, mut between) = (NameKey::new([1; 32]), Terms::default(), |_| ());
    let play = Play { key, terms, data_max: 512 << 10, chunks: 4, ..Play::ordinary(&mut between) };
    run(&world, play);
    assert!(!world.to("f").exists());
    let new = scattered(&old, 3);
    put(&world.from("f"), &new, 0);
    let delta = ordinary(&world);
    expect_equal(&world);
    assert!(delta.from.unfinished > 1_500_000 && delta.resumed == 0, "{delta:?}");
}

#[test]
fn a_file_that_is_updated_in_place_is_made_of_itself() {
    let old = content(LEN, 1);
    let new = [&b"in front"[..], &scattered(&old, 5)].concat();
    let world = world_of(&old, &new);
    fs::hard_link(world.to("f"), world.to("g")).expect("own directory");
    let delta = run_with(&world, |options| options.rules.in_place = true, None);
    for name in ["f", "g"] {
        assert!(fs::read(world.to(name)).expect("it stands") == new, "{name}: it is the same file");
    }
    let inode = |name: &str| fs::metadata(world.to(name)).expect("it stands").ino();
    assert_eq!(inode("f"), inode("g"));
    assert!(delta.matched > LEN as u64 * 9 / 10 && delta.unusable == 0, "{delta:?}");
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn any_edit_of_an_earlier_version_arrives(
        len in 16_384_usize..900_000,
        edits in prop::collection::vec(edit(), 0..6),
        others in prop::collection::vec(edit(), 0..3),
        groups in 1_usize..20,
    ) {
        let old = content(len, 5);
        let new = edited(old.clone(), &edits);
        let world = world_of(&old, &new);
        let earlier = world.to("../v1.bin");
        // What the sender takes for the receiver's, which it need not be.
        put(&earlier, &edited(old, &others), 0);
        let (key, terms, mut between) = (NameKey::new([3; 32]), Terms::default(), |_| ());
        let (data_max, chunks, beside) = (groups << 16, usize::MAX, Beside::Earlier(earlier));
        let play = Play { alter: |_| (), key, terms, data_max, beside, cutting: Cutting::ByContent, chunks, between: &mut between };
        let delta = run(&world, play);
        prop_assert_eq!(fs::read(world.to("f")).expect("a file"), new);
        prop_assert_eq!(delta.failures, Vec::<String>::new());
        prop_assert!(!others.is_empty() || delta.unusable == 0);
    }

    #[test]
    fn whatever_looks_like_it_moved_arrives(
        files in prop::collection::vec((512_usize..70_000, any::<bool>(), any::<bool>()), 1..20),
        groups in 1_usize..20,
    ) {
        let world = World::new();
        for (number, (len, is_same, is_same_name)) in files.iter().enumerate() {
            let name = if *is_same_name { number.to_string() } else { format!("was-{number}") };
            let data = content(*len, number as u64);
            put(&world.from(&format!("new/{number}")), &data, 5);
            put(&world.to(&format!("old/{name}")), &content(*len, if *is_same { number as u64 } else { 99 }), 5);
        }
        let (key, terms, mut between) = (NameKey::new([3; 32]), Terms::default(), |_| ());
        let (data_max, chunks) = (groups << 16, usize::MAX);
        let alter: fn(&mut SyncOptions) = |options| {
            options.track_renames = Renames::All;
            options.delete = Some(Delete::default());
        };
        let play = Play { alter, key, terms, data_max, beside: Beside::Nothing, cutting: Cutting::ByContent, chunks, between: &mut between };
        let delta = run(&world, play);
        expect_moved(&world);
        prop_assert!(!world.to("old").exists());
        prop_assert_eq!(delta.failures, Vec::<String>::new());
    }
}

/// What a sync with `-a --delete` keeps.
fn archives(options: &mut SyncOptions) {
    options.track_renames = Renames::All;
    options.delete = Some(Delete::default());
    let kept = &mut options.preserve;
    (kept.modes, kept.times, kept.group, kept.sparse) = (true, true, true, false);
}

fn inodes(top: &Path) -> std::collections::BTreeMap<PathBuf, u64> {
    let files = tree(top).into_keys().map(|path| (path.clone(), top.join(path)));
    let files = files.filter(|(_, path)| path.is_file());
    files.map(|(path, at)| (path, fs::metadata(at).expect("a file").ino())).collect()
}

#[test]
fn what_is_to_be_deleted_gives_its_inode_to_what_moved() {
    let (world, bytes) = moved_tree(200);
    let before = inodes(&world.to("old"));
    set_mode(&world.from("new/1/f1"), 0o640);
    let delta = run_with(&world, archives, None);
    expect_moved(&world);
    assert_eq!(inodes(&world.to("new")), before, "they were renamed");
    assert!(!world.to("old").exists() && delta.matched == bytes && delta.failures.is_empty(), "{delta:?}");
    for path in before.keys() {
        let [is, was] = [world.to("new"), world.from("new")].map(|top| fs::metadata(top.join(path)));
        let of = |it: fs::Metadata| (it.mode(), it.mtime(), it.mtime_nsec());
        assert_eq!(of(is.expect("it came")), of(was.expect("own file")), "{path:?}");
    }
    assert_eq!(tree(&world.to("")).len(), tree(&world.from("")).len(), "nothing else is left");
}

/// What keeps a file from being renamed: what is done before, and how the sync differs.
type Obstacle = (&'static str, fn(&World), fn(&mut SyncOptions));

#[test]
fn what_cannot_be_renamed_is_copied() {
    let obstacles: [Obstacle; 6] = [
        (
            "another name",
            |world| fs::hard_link(world.to("old/0/f0"), world.to("../beside")).expect("own file"),
            |options| archives(options),
        ),
        (
            "it stays at the source",
            |world| put(&world.from("old/0/f0"), &fs::read(world.to("old/0/f0")).expect("own file"), 0),
            |options| archives(options),
        ),
        (
            "modes are not kept",
            |_| (),
            |options| {
                archives(options);
                options.preserve.modes = false;
            },
        ),
        (
            "a limit",
            |_| (),
            |options| {
                archives(options);
                options.delete = Some(Delete { when: DeleteWhen::During, max: Some(1000) });
            },
        ),
        (
            "no deletion",
            |_| (),
            |options| {
                archives(options);
                options.delete = None;
            },
        ),
        ("other content", |world| put(&world.to("old/0/f0"), &vec![1; 600], 0), archives),
    ];
    for (what, prepare, alter) in obstacles {
        let (world, _) = moved_tree(20);
        prepare(&world);
        let before = fs::metadata(world.to("old/0/f0")).expect("own file").ino();
        let delta = run_with(&world, alter, None);
        expect_moved(&world);
        assert_ne!(fs::metadata(world.to("new/0/f0")).expect("it came").ino(), before, "{what}");
        assert_eq!(delta.failures, Vec::<String>::new(), "{what}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_renamed_is_never_a_wrong_one() {
    for (how, meddle) in MEDDLING {
        for moment in 0..4 {
            let world = World::new();
            let data = content(LEN, 1);
            put(&world.from("new"), &data, 5);
            put(&world.to("old"), &data, 5);
            let basis = world.to("old");
            let mut between = |number: usize| {
                if number == moment && basis.exists() {
                    meddle(&basis);
                }
            };
            let (key, terms) = (NameKey::new([1; 32]), Terms::default());
            let (alter, chunks): (fn(&mut SyncOptions), usize) = (archives, usize::MAX);
            let play = Play { alter, key, terms, chunks, ..Play::ordinary(&mut between) };
            let delta = run(&world, play);
            match fs::read(world.to("new")) {
                Ok(stored) => assert!(stored == data, "{how}, {moment}: {:?}", delta.failures),
                Err(_) => {
                    assert_eq!(delta.failures.len(), 1, "{how}, {moment}");
                    assert!(how == "removed" || world.to("old").exists(), "{how}, {moment}: nothing goes");
                }
            }
        }
    }
}
