//! Directories that moved whole.

use super::known::{moved_tree, put};
use super::*;
use fobs_filter::Filter;
use fobs_model::options::sync::{Delete, DeleteWhen, Report};

fn archives(options: &mut SyncOptions) {
    options.track_renames = Renames::All;
    options.delete = Some(Delete::default());
    options.report = Report::Changed;
    let kept = &mut options.preserve;
    (kept.modes, kept.times, kept.group, kept.sparse) = (true, true, true, false);
}

fn run_beside(world: &World, alter: fn(&mut SyncOptions), beside: Beside) -> Delta {
    let (key, terms, mut between) = (NameKey::new([1; 32]), Terms::default(), |_| ());
    let play = Play { alter, key, terms, beside, cutting: Cutting::InPlace, ..Play::ordinary(&mut between) };
    run(world, play)
}

fn asking(world: &World, alter: fn(&mut SyncOptions)) -> Delta {
    run_beside(world, alter, Beside::Paths)
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).expect("it is there").ino()
}

#[track_caller]
fn expect_same_trees(world: &World) {
    let (from, to) = (tree(&world.from("")), tree(&world.to("")));
    assert_eq!(from.keys().collect::<Vec<_>>(), to.keys().collect::<Vec<_>>());
    for path in from.keys().filter(|path| world.from("").join(path).is_file()) {
        let of = |top: PathBuf| {
            let at = top.join(path);
            let stat = fs::metadata(&at).expect("a file");
            (fs::read(&at).expect("a file"), stat.mode(), stat.mtime(), stat.mtime_nsec())
        };
        assert_eq!(of(world.from("")), of(world.to("")), "{path:?}");
    }
}

#[test]
fn a_directory_that_moved_whole_is_renamed_as_one() {
    let (world, _) = moved_tree(300);
    set_mode(&world.from("new/1/f1"), 0o640);
    set_mode(&world.from("new/2"), 0o750);
    let (before, inner) = (inode(&world.to("old")), inode(&world.to("old/3/f3")));
    let delta = asking(&world, archives);
    expect_same_trees(&world);
    assert_eq!((inode(&world.to("new")), inode(&world.to("new/3/f3"))), (before, inner));
    assert_eq!(delta.asked, ["old"], "once");
    assert_eq!((delta.wire < 2000, delta.supposed, delta.unusable), (true, 0, 0), "{delta:?}");
    assert_eq!(delta.failures, Vec::<String>::new());
    // What is told is what is told where files are renamed one by one.
    let (other, _) = moved_tree(300);
    set_mode(&other.from("new/1/f1"), 0o640);
    set_mode(&other.from("new/2"), 0o750);
    let each = run_beside(&other, archives, Beside::Nothing);
    assert!(each.supposed == 300 && each.asked.is_empty(), "{each:?}");
    assert_eq!(delta.items, each.items);
    assert!(delta.deleted_first.contains(&"old/3/f3".to_owned()), "{delta:?}");
    assert_eq!(delta.deleted_first.last().map(String::as_str), Some("old"));
}

#[test]
fn a_directory_moves_below_new_ones_and_out_of_old_ones() {
    let world = World::new();
    for number in 0..40 {
        let data = content(3000 + number, number as u64);
        put(&world.from(&format!("a/new/b/deep/f{number}")), &data, 5);
        put(&world.to(&format!("x/y/z/f{number}")), &data, 5);
    }
    put(&world.from("x/stays"), b"as it is", 5);
    put(&world.to("x/stays"), b"as it is", 5);
    let before = inode(&world.to("x/y/z"));
    let delta = asking(&world, archives);
    expect_same_trees(&world);
    // What was above it seems to be its directory too, as far as the names go.
    assert!(delta.asked.len() == 1 && delta.wire < 2000, "{delta:?}");
    let now = ["a/new/b/deep", "a/new/b", "a/new"].map(|path| inode(&world.to(path)));
    assert!(now.contains(&before), "{delta:?}");
}

#[test]
fn what_differs_in_a_moved_directory_is_sent() {
    let (world, _) = moved_tree(200);
    let changed = scattered(&content(400_000, 77), 2);
    put(&world.to("old/6/large"), &content(400_000, 77), 50);
    put(&world.from("new/6/large"), &changed, 5);
    put(&world.from("new/6/more"), b"it is new", 5);
    put(&world.to("old/6/gone"), b"it is gone", 5);
    let before = inode(&world.to("old"));
    let delta = asking(&world, archives);
    expect_same_trees(&world);
    assert_eq!(inode(&world.to("new")), before);
    assert!(delta.wire < 40_000 && delta.listed == 1, "{delta:?}");
}

/// What keeps a directory from being renamed: what is done before, and how the sync differs.
type Obstacle = (&'static str, fn(&World), fn(&mut SyncOptions));

const OBSTACLES: [Obstacle; 8] = [
    (
        "the source still has it",
        |world| put(&world.from("old/0/f0"), &fs::read(world.to("old/0/f0")).expect("own file"), 0),
        archives,
    ),
    ("something has the new name", |world| put(&world.to("new/there"), b"it is there", 5), archives),
    (
        "a link has the new name",
        |world| {
            std::os::unix::fs::symlink("old", world.to("new")).expect("own directory");
        },
        archives,
    ),
    (
        "others give names there",
        |world| {
            [world.from(""), world.to("")].iter().for_each(|directory| set_mode(directory, 0o777));
        },
        archives,
    ),
    (
        "a limit",
        |_| (),
        |options| {
            archives(options);
            options.delete = Some(Delete { when: DeleteWhen::During, max: Some(10_000) });
        },
    ),
    (
        "it is deleted at the end",
        |_| (),
        |options| {
            archives(options);
            options.delete = Some(Delete { when: DeleteWhen::After, max: None });
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
    (
        "only new files come",
        |_| (),
        |options| {
            archives(options);
            options.rules.present = sync::Present::Left;
        },
    ),
];

#[test]
fn what_must_not_be_renamed_whole_is_taken_apart() {
    for (what, prepare, alter) in OBSTACLES {
        let (world, _) = moved_tree(60);
        prepare(&world);
        let before = inode(&world.to("old"));
        let delta = asking(&world, alter);
        for name in tree(&world.from("new")).keys() {
            let [is, was] = [world.to("new"), world.from("new")].map(|top| fs::read(top.join(name)).ok());
            assert!(is == was, "{what}: {name:?}");
        }
        assert_ne!(inode(&world.to("new")), before, "{what}");
        assert_eq!(delta.failures, Vec::<String>::new(), "{what}");
        if what == "the source still has it" {
            assert_eq!((delta.asked.len(), inode(&world.to("old"))), (1, before), "{what}");
        }
    }
}

/// A rule protects what is at the destination: it keeps its place.
#[test]
fn what_a_rule_protects_stays_where_it_is() {
    let (world, _) = moved_tree(60);
    put(&world.to("old/5/kept.log"), b"a log of the destination", 5);
    let before = inode(&world.to("old"));
    let alter: fn(&mut SyncOptions) = |options| {
        archives(options);
        let mut filter = Filter::default();
        filter.add_rule(b"- *.log", &mut |_| unreachable!()).expect("a rule");
        options.filter = filter.rules();
    };
    let delta = asking(&world, alter);
    assert_eq!(fs::read(world.to("old/5/kept.log")).expect("it stays"), b"a log of the destination");
    assert!(inode(&world.to("old")) == before && !world.to("new/5/kept.log").exists());
    // What lies beside it and has nothing that is protected moves by itself.
    assert!(delta.failures.iter().all(|told| told.starts_with("Kept")), "{delta:?}");
    assert!(!delta.asked.contains(&"old".to_owned()), "{delta:?}");
    for name in tree(&world.from("new")).keys() {
        let [is, was] = [world.to("new"), world.from("new")].map(|top| fs::read(top.join(name)).ok());
        assert!(is == was, "{name:?}");
    }
}

#[test]
fn a_dry_run_renames_nothing_and_says_the_same() {
    let (world, _) = moved_tree(100);
    let before = inode(&world.to("old"));
    let dry: fn(&mut SyncOptions) = |options| {
        archives(options);
        options.dry_run = true;
    };
    let said = asking(&world, dry);
    assert_eq!((inode(&world.to("old")), world.to("new").exists()), (before, false));
    let done = asking(&world, archives);
    expect_same_trees(&world);
    assert_eq!(said.items, done.items);
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(said.deleted_first), sorted(done.deleted_first));
}

#[test]
fn a_few_files_are_not_worth_a_question() {
    let (world, _) = moved_tree(4);
    let delta = asking(&world, archives);
    expect_same_trees(&world);
    assert_eq!((delta.asked.len(), delta.failures.len()), (0, 0), "{delta:?}");
}

#[test]
fn many_directories_that_moved_are_asked_about_within_bounds() {
    let world = World::new();
    for directory in 0..90 {
        for number in 0..20 {
            let data = content(600 + number, directory * 100 + number as u64);
            put(&world.from(&format!("new-{directory}/{directory}-{number}")), &data, 5);
            put(&world.to(&format!("old-{directory}/{directory}-{number}")), &data, 5);
        }
    }
    let delta = asking(&world, archives);
    expect_same_trees(&world);
    assert!(delta.asked.len() <= 64 && delta.failures.is_empty(), "{:?}", delta.asked);
}

#[test]
fn a_source_tells_what_it_has_and_no_other_paths() {
    let world = World::new();
    put(&world.from("a/b"), b"here", 5);
    std::os::unix::fs::symlink("/", world.from("a/link")).expect("own directory");
    let contents = format!("{}/", world.from("").display());
    let itself = contents.trim_end_matches('/').to_owned();
    for (source, prefix) in [(contents, ""), (itself, "from/")] {
        let source = Source::open(spec(&[Path::new(&source)])).expect("a source can be read");
        let places = source.places().expect("a tree");
        let has = |path: &str| places.has(format!("{prefix}{path}").as_bytes());
        assert_eq!((has("a"), has("a/b"), has("a/link")), (Some(true), Some(true), Some(true)));
        assert_eq!((has("c"), has("a/c"), has("a/b/c")), (Some(false), Some(false), Some(false)));
        for path in ["", "/", "a//b", "../x", "a/../../x", "/etc", "a\0b"] {
            assert_eq!(places.has(path.as_bytes()), None, "{path:?}");
        }
        assert_eq!(places.has(&[b'a'; 5000]), None);
        if !prefix.is_empty() {
            assert_eq!((places.has(b"from"), places.has(b"other")), (Some(true), Some(false)));
        }
    }
}
