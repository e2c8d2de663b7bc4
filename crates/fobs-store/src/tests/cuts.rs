//! What a kill or a power cut left of an earlier run, as the next one finds it.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use super::super::journal::{Top, journal_name};
use super::super::record::{Meta, Record};
use super::super::tree_hash::GROUP;
use super::super::*;
use super::support::*;
use super::syncs::sync_once;
use fobs_model::name::BackupSuffix;
use fobs_model::name::ours::is_journal;
use fobs_model::options::Preserve;
use fobs_model::options::sync::{Enter, SyncOptions};

const LEN: usize = 3_000_000;

fn options(modes: bool) -> SyncOptions {
    let preserve = Preserve { modes, ..Preserve::as_cp(true) };
    SyncOptions { preserve, directories: Enter::All, ..SyncOptions::default() }
}

/// A file of the source's size and time with zeros in it.
fn leave_zeros(path: &Path, source: &Path) {
    fs::write(path, vec![0; LEN]).expect("our own place");
    let modified = fs::metadata(source).and_then(|found| found.modified()).expect("it is there");
    let file = File::options().write(true).open(path).expect("own file");
    file.set_times(FileTimes::new().set_modified(modified)).expect("own file");
}

/// What a power cut leaves of a journal that the device did not keep: its name.
fn leave_journal(world: &World) -> std::path::PathBuf {
    let name = String::from_utf8(journal_name(Top::Contents).into_bytes()).expect("text");
    let path = world.to("").join(name);
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).open(&path).expect("a fresh file");
    path
}

#[test]
fn a_sync_takes_nothing_that_a_power_cut_left_for_whole() {
    let world = World::new();
    let source = world.write("tree/file", &content(LEN, 1));
    fs::create_dir_all(world.to("")).expect("our own place");
    leave_zeros(&world.to("before"), &source);
    world.write("tree/before", &content(LEN, 2));
    leave_zeros(&world.to("before"), &world.from("tree/before"));
    // Births are as coarse as the kernel's clock.
    std::thread::sleep(Duration::from_millis(50));
    let journal = leave_journal(&world);
    leave_zeros(&world.to("file"), &source);
    sync_once(&world.from("tree"), &world.to(""), &options(true));
    assert_eq!(fs::read(world.to("file")).expect("it is there"), content(LEN, 1));
    // What was there before that run is unchanged by size and time, as ever.
    assert_eq!(fs::read(world.to("before")).expect("it is there"), vec![0; LEN]);
    assert!(!journal.exists());
}

/// The backup that the broken run made is of the version before it; the file that it left is none.
#[test]
fn what_a_broken_run_left_replaces_no_backup() {
    let world = World::new();
    let source = world.write("tree/file", &content(LEN, 1));
    fs::create_dir_all(world.to("")).expect("our own place");
    fs::write(world.to("other"), b"the older other").expect("our own place");
    world.write("tree/other", &content(LEN, 2));
    std::thread::sleep(Duration::from_millis(50));
    leave_journal(&world);
    leave_zeros(&world.to("file"), &source);
    fs::write(world.to("file~"), b"the older file").expect("our own place");
    let backup = Some(BackupSuffix::new(b"~".to_vec()).expect("a suffix"));
    sync_once(&world.from("tree"), &world.to(""), &SyncOptions { backup, ..options(true) });
    let content_of = |name: &str| fs::read(world.to(name)).expect(name);
    assert_eq!((content_of("file"), content_of("file~")), (content(LEN, 1), b"the older file".to_vec()));
    assert_eq!((content_of("other"), content_of("other~")), (content(LEN, 2), b"the older other".to_vec()));
}

/// What its user put in a place after the broken run is theirs, though it is as young as what that run made.
#[test]
fn what_was_made_after_a_broken_run_is_kept_as_a_backup() {
    let world = World::new();
    world.write("tree/file", &content(LEN, 1));
    world.write("tree/link", &content(LEN, 2));
    fs::create_dir_all(world.to("")).expect("our own place");
    leave_journal(&world);
    fs::write(world.to("file"), b"their own").expect("our own place");
    symlink("file", world.to("link")).expect("our own place");
    let backup = Some(BackupSuffix::new(b"~".to_vec()).expect("a suffix"));
    sync_once(&world.from("tree"), &world.to(""), &SyncOptions { backup, ..options(true) });
    assert_eq!(fs::read(world.to("file~")).expect("a backup"), b"their own");
    assert_eq!(fs::read_link(world.to("link~")).expect("a backup"), Path::new("file"));
}

#[test]
fn a_file_is_no_longer_than_what_was_written_of_it() {
    let world = World::new();
    let mut sink = sink(&world.to("x"), SourceShape::Paths { count: 1, contents: false });
    let meta = Meta { mode: 0o644, mtime_s: 1, mtime_ns: 2 };
    let begun = [
        Record::Identity { mtime_s: 1, mtime_ns: 2, inode: 3 },
        Record::File { path: b"x", meta, size: LEN as u64 },
        Record::Extent { offset: 0, len: GROUP as u32 },
    ];
    feed(&mut sink, &chunk_of(&begun, &[7; GROUP as usize])).expect("a beginning");
    let lengths: Vec<u64> = fs::read_dir(world.to(""))
        .expect("it is there")
        .flatten()
        .filter(|entry| entry.file_name() != "x" && !is_journal(entry.file_name().as_encoded_bytes()))
        .map(|entry| entry.metadata().expect("it is there").len())
        .collect();
    assert_eq!(lengths, [GROUP], "after a power cut a full length would pass for a whole file");
}

#[test]
fn a_directory_that_a_kill_left_gets_its_permissions() {
    let world = World::new();
    world.write("tree/dir/file", b"content");
    set_mode(&world.from("tree/dir"), 0o755);
    fs::create_dir_all(world.to("")).expect("our own place");
    // As this program leaves it, and as another program makes it.
    for (mode, expected) in [(0o1700, 0o755), (0o700, 0o700)] {
        fs::create_dir_all(world.to("dir")).expect("our own place");
        set_mode(&world.to("dir"), mode);
        sync_once(&world.from("tree"), &world.to(""), &options(false));
        let found = mode_of(&world.to("dir"));
        let umask = fs::metadata(world.to("dir/file")).expect("it is there").mode() & 0o044;
        assert!(umask == 0o044, "these tests run with the usual umask");
        assert_eq!(found, expected, "{mode:o}");
        fs::remove_dir_all(world.to("dir")).expect("own directory");
    }
}
