//! Deltas of files that do not have the name of what comes.

use super::*;

/// A file that comes as `name`, where the destination's side has `old` at a path relative to its directory.
fn world_with(name: &str, new: &[u8], at: &str, old: &[u8]) -> World {
    let world = World::new();
    world.write(name, new);
    let standing = world.to(at);
    fs::create_dir_all(standing.parent().expect("a directory")).expect("our own place");
    fs::create_dir_all(world.to("")).expect("our own place");
    fs::write(&standing, old).expect("a file");
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    File::open(standing).and_then(|file| file.set_modified(long_ago)).expect("own file");
    world
}

pub(super) fn altered(world: &World, alter: fn(&mut SyncOptions)) -> Delta {
    let (key, terms, mut between) = (NameKey::new([1; 32]), Terms::default(), |_| ());
    run(world, Play { alter, key, terms, ..Play::ordinary(&mut between) })
}

#[test]
fn a_changed_file_is_made_of_that_of_link_dest() {
    let old = content(LEN, 1);
    let world = world_with("f", &scattered(&old, 5), "../yesterday/f", &old);
    let delta = altered(&world, |options| options.link_dest = vec![b"../yesterday".to_vec()]);
    expect_equal(&world);
    assert!(delta.listed == 1 && delta.matched > LEN as u64 * 9 / 10, "{delta:?}");
    assert_eq!(fs::read(world.to("../yesterday/f")).expect("it stays"), old);
    // Without a word of it, nothing of there is used.
    let world = world_with("f", &scattered(&old, 5), "../yesterday/f", &old);
    assert_eq!(ordinary(&world).listed, 0);
    expect_equal(&world);
}

#[test]
fn a_new_name_is_made_of_a_similar_one_if_wanted() {
    let old = content(LEN, 1);
    let new = scattered(&old, 5);
    for (at, is_found) in [
        ("backup-2026-11-01.tar", true),
        ("backup-2026-11-01.sql", false),
        (".backup-2026-11-02.tar.fobs-abcdef", false),
        ("elsewhere/backup-2026-11-01.tar", false),
    ] {
        let world = world_with("backup-2026-11-02.tar", &new, at, &old);
        let delta = altered(&world, |options| options.fuzzy = true);
        assert_eq!(fs::read(world.to("backup-2026-11-02.tar")).expect("it came"), new);
        assert_eq!(fs::read(world.to(at)).expect("it stays"), old, "{at}");
        assert_eq!(delta.listed == 1 && delta.matched > LEN as u64 * 9 / 10, is_found, "{at}: {delta:?}");
    }
    let world = world_with("backup-2026-11-02.tar", &new, "backup-2026-11-01.tar", &old);
    assert_eq!(ordinary(&world).listed, 0, "it was not asked for");
}

#[test]
fn a_file_that_moved_is_made_of_itself_before_it_is_deleted() {
    let old = content(LEN, 1);
    let world = world_with("new", &old, "a name like no other", &old);
    // Of the same time: it was renamed.
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    File::open(world.from("new")).and_then(|file| file.set_modified(long_ago)).expect("own file");
    let delta = altered(&world, |options| options.fuzzy = true);
    assert_eq!(fs::read(world.to("new")).expect("it came"), old);
    assert!(delta.wire < LEN as u64 / 50 && delta.matched == LEN as u64, "{delta:?}");
}

#[test]
fn the_other_names_of_a_basis_keep_what_they_have() {
    let old = content(LEN, 1);
    let new = scattered(&old, 5);
    let world = world_of(&old, &new);
    fs::hard_link(world.to("f"), world.to("g")).expect("own directory");
    let delta = ordinary(&world);
    assert_eq!(fs::read(world.to("f")).expect("it came"), new);
    assert_eq!(fs::read(world.to("g")).expect("it stays"), old);
    assert!(delta.matched > LEN as u64 * 9 / 10, "{delta:?}");
    // The source's own inode: a sync onto a further name of what is read.
    let world = world_of(&old, &old);
    fs::remove_file(world.to("f")).expect("own file");
    fs::hard_link(world.from("f"), world.to("f")).expect("own directories");
    ordinary(&world);
    assert_eq!(fs::read(world.from("f")).expect("it stays"), old);
    assert_eq!(fs::read(world.to("f")).expect("it stays"), old);
}

#[test]
fn what_moved_is_found_by_size_and_time_if_wanted() {
    let old = content(LEN, 1);
    // Another of the same size and time, and a name that is the same elsewhere.
    for at in ["a/b/c/gone", "a/new"] {
        let world = world_with("new", &old, at, &old);
        let other = world.to("a/b/other");
        fs::create_dir_all(other.parent().expect("a directory")).expect("our own place");
        fs::write(&other, content(LEN - 1, 2)).expect("a file");
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        for file in [&world.from("new"), &other] {
            File::open(file).and_then(|file| file.set_modified(long_ago)).expect("own file");
        }
        let delta = altered(&world, |options| options.track_renames = Renames::All);
        assert_eq!(fs::read(world.to("new")).expect("it came"), old);
        assert!(delta.supposed == 1 && delta.matched == LEN as u64, "{at}: {delta:?}");
        assert!(delta.wire < LEN as u64 / 50, "{at}: {delta:?}");
    }
    // Of another time, a temporary file, and where it was not asked for.
    let world = world_with("new", &old, "a/gone", &old);
    assert_eq!(altered(&world, |options| options.track_renames = Renames::All).supposed, 0);
    let world = world_with("new", &old, "a/.gone.fobs-abcdef", &old);
    File::open(world.from("new"))
        .and_then(|file| file.set_modified(std::time::SystemTime::UNIX_EPOCH))
        .expect("own");
    assert_eq!(altered(&world, |options| options.track_renames = Renames::All).supposed, 0);
    let world = world_with("new", &old, "a/gone", &old);
    File::open(world.from("new"))
        .and_then(|file| file.set_modified(std::time::SystemTime::UNIX_EPOCH))
        .expect("own");
    assert_eq!(ordinary(&world).listed, 0);
}

#[test]
fn what_looks_like_it_moved_and_did_not_is_sent() {
    let world = world_with("new", &content(LEN, 1), "gone", &content(LEN, 2));
    File::open(world.from("new"))
        .and_then(|file| file.set_modified(std::time::SystemTime::UNIX_EPOCH))
        .expect("own");
    let delta = altered(&world, |options| options.track_renames = Renames::All);
    assert_eq!(fs::read(world.to("new")).expect("it came"), content(LEN, 1));
    assert!(delta.supposed == 1 && delta.matched == 0, "{delta:?}");
    // A link out of the destination leads nowhere.
    let world = world_with("new", &content(LEN, 1), "../out/gone", &content(LEN, 1));
    std::os::unix::fs::symlink(world.to("../out"), world.to("in")).expect("own directory");
    std::os::unix::fs::symlink(world.to("../out/gone"), world.to("gone")).expect("own directory");
    File::open(world.from("new"))
        .and_then(|file| file.set_modified(std::time::SystemTime::UNIX_EPOCH))
        .expect("own");
    let delta = altered(&world, |options| options.track_renames = Renames::All);
    assert_eq!((delta.listed, delta.supposed, delta.matched), (0, 0, 0));
}

/// `--append` is about what has the name, and `--fuzzy` about what has another (azlux/log2ram 92).
#[test]
fn a_new_name_is_made_of_a_longer_similar_one_where_files_are_appended_to() {
    let old = content(LEN, 1);
    for new in [&old[..LEN - 100_000], &[&old[..], b"one line more"].concat()] {
        let world = world_with("log-2.txt", new, "log-1.txt", &old);
        let delta = altered(&world, |options| {
            options.fuzzy = true;
            options.rules.appends = true;
        });
        assert!(fs::read(world.to("log-2.txt")).expect("it came") == new);
        assert!(fs::read(world.to("log-1.txt")).expect("it stays") == old);
        assert!(delta.wire < 100_000 && delta.failures.is_empty(), "{delta:?}");
    }
}
