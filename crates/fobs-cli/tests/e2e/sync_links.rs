//! `fobs sync --link-dest`: what is linked, what is sent, and where the directory may be.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::case::Case;
use super::daemon::{Daemon, Key, Spec};
use super::process::Finished;
use super::remote::{Carrier, Direction, Route};

fn inode(path: &Path) -> u64 {
    path.symlink_metadata().expect("it is there").ino()
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, content).expect("our own place");
}

/// Three days of backups of a tree that changes in between.
fn check(direction: Direction, name: &'static str) {
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    let source = route.source_path("tree");
    for path in ["same", "changes", "mode", "dir/same", "dir/goes"] {
        write(&source.join(path), path);
    }
    symlink("same", source.join("link")).expect("a fresh link");
    fs::hard_link(source.join("dir/same"), source.join("second")).expect("a second name");
    let run = |options: &[&str], target: &str| {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let mut command = route.sync(&options);
        case.run(command.arg(route.source("tree/")).arg(route.target(target)))
    };
    let lines = |done: &Finished| -> Vec<String> {
        let mut lines: Vec<_> = String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let done = run(&["-aH", "--link-dest=../none"], "one").expect_success();
    assert!(done.stderr.contains("for --link-dest does not exist"), "{}", done.stderr);

    write(&source.join("changes"), "changed to another size");
    fs::set_permissions(source.join("mode"), fs::Permissions::from_mode(0o600)).expect("own file");
    fs::remove_file(source.join("dir/goes")).expect("own file");
    write(&source.join("new"), "new");
    run(&["-aH", "--link-dest=../one", "--link-dest=../none"], "two").expect_success();
    let (one, two) = (route.target_path("one"), route.target_path("two"));
    for path in ["same", "dir/same", "second", "link"] {
        assert_eq!(inode(&two.join(path)), inode(&one.join(path)), "{path} is linked");
    }
    for path in ["changes", "mode"] {
        assert_ne!(inode(&two.join(path)), inode(&one.join(path)), "{path} is its own");
    }
    assert_eq!(fs::read(two.join("changes")).expect("it was sent"), b"changed to another size");
    assert_eq!(fs::read(one.join("changes")).expect("it stays"), b"changes");
    assert_eq!(fs::metadata(one.join("mode")).expect("it stays").mode() & 0o777, 0o644);
    assert!(two.join("new").exists() && !two.join("dir/goes").exists() && one.join("dir/goes").exists());

    // What is linked already stays, and is not listed.
    let done = run(&["-aHi", "--link-dest=../one"], "two").expect_success();
    assert_eq!(lines(&done), Vec::<String>::new());
    // A file of its own gives way to a link, without a word.
    fs::remove_file(two.join("same")).expect("own file");
    fs::copy(source.join("same"), two.join("same")).expect("own file");
    let file = fs::File::options().write(true).open(two.join("same")).expect("own file");
    file.set_modified(fs::metadata(source.join("same")).expect("own file").modified().expect("a time"))
        .expect("own file");
    run(&["-aHO", "--link-dest=../one"], "two").expect_success();
    assert_eq!(inode(&two.join("same")), inode(&one.join("same")));
}

/// A link that is named is the source itself, as in rsync; with a slash, what it leads to.
fn check_named_link(direction: Direction, name: &'static str) {
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    write(&route.source_path("tree/file"), "content");
    for (link, target) in [("to-file", "tree/file"), ("to-tree", "tree"), ("to-nothing", "absent")] {
        symlink(target, route.source_path(link)).expect("a fresh link");
    }
    let run = |options: &str, sources: &[&str], target: &str| {
        let mut command = route.sync(&[options.to_owned()]);
        command.args(sources.iter().map(|source| route.source(source)));
        case.run(command.arg(route.target(target)))
    };
    run("-a", &["to-file", "to-tree", "to-nothing"], "links/").expect_success();
    for (link, target) in [("to-file", "tree/file"), ("to-tree", "tree"), ("to-nothing", "absent")] {
        let made = fs::read_link(route.target_path("links").join(link)).expect("it is a link");
        assert_eq!(made, Path::new(target));
    }
    run("-a", &["to-tree/"], "contents").expect_success();
    assert_eq!(fs::read(route.target_path("contents/file")).expect("it is sent"), b"content");
    run("-rt", &["to-file"], "without/").expect_success();
    assert!(route.target_path("without/to-file").symlink_metadata().is_err(), "-l is not given");
}

#[test]
fn a_pushed_link_that_is_named_stays_a_link() {
    check_named_link(Direction::Push, "a_pushed_link_that_is_named_stays_a_link");
}

#[test]
fn a_pulled_link_that_is_named_stays_a_link() {
    check_named_link(Direction::Pull, "a_pulled_link_that_is_named_stays_a_link");
}

#[test]
fn a_push_links_what_is_unchanged() {
    check(Direction::Push, "a_push_links_what_is_unchanged");
}

#[test]
fn a_pull_links_what_is_unchanged() {
    check(Direction::Pull, "a_pull_links_what_is_unchanged");
}

#[test]
fn a_key_links_only_what_it_may_write() {
    let case = Case::new("a_key_links_only_what_it_may_write");
    let (key, identity) = (Key::generate(&case, "client"), Key::generate(&case, "server"));
    let daemon = Daemon::start_with(&case, Spec::new(&case, &[("read-write,path=\"ann\"", &key)], &identity));
    write(&case.local("tree/file"), "content");
    write(&daemon.root.join("ann/old/file"), "content");
    write(&daemon.root.join("bob/file"), "content");
    let run = |directory: &str| {
        let mut command = daemon.sync(&case);
        command.args(["-a", "--link-dest", directory]).arg(case.local("tree/"));
        case.run(command.arg(daemon.url("ann/new")))
    };
    for outside in ["../../bob", "/bob", "../../../etc", "../../none", "../.."] {
        let done = run(outside).expect_code(5);
        assert!(!daemon.root.join("ann/new/file").exists(), "{outside}: {}", done.stderr);
    }
    for inside in ["../old", "/ann/old", "../../ann/./old/"] {
        run(inside).expect_success();
    }
}

#[test]
fn a_backup_stays_in_the_subtree_of_its_key() {
    let case = Case::new("a_backup_stays_in_the_subtree_of_its_key");
    let (key, identity) = (Key::generate(&case, "client"), Key::generate(&case, "server"));
    let daemon = Daemon::start_with(&case, Spec::new(&case, &[("read-write,path=\"ann\"", &key)], &identity));
    write(&case.local("ann"), "new");
    write(&daemon.root.join("ann"), "old content");
    write(&daemon.root.join("anna"), "another's");
    let run = |options: &[&str]| {
        let mut command = daemon.sync(&case);
        case.run(command.args(options).arg(case.local("ann")).arg(daemon.url("ann")))
    };
    let refused = run(&["-a", "-b", "--suffix=a"]).expect_code(5);
    assert!(refused.stderr.contains("no right"), "{}", refused.stderr);
    assert_eq!(fs::read(daemon.root.join("anna")).expect("it stays"), b"another's");
    assert_eq!(fs::read(daemon.root.join("ann")).expect("it stays"), b"old content");
    run(&["-a"]).expect_success();
    assert_eq!(fs::read(daemon.root.join("ann")).expect("it is replaced"), b"new");
}

#[test]
fn further_names_follow_a_file_that_is_sent_again() {
    let case = Case::new("further_names_follow_a_file_that_is_sent_again");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let source = route.source_path("tree");
    write(&source.join("a"), "content");
    for name in ["b", "z"] {
        fs::hard_link(source.join("a"), source.join(name)).expect("one more name");
    }
    // Without times every run sends the file again.
    for _ in 0..2 {
        let mut command = route.sync(&["-rH".to_owned()]);
        case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
        let target = route.target_path("tree");
        let inodes = ["a", "b", "z"].map(|name| inode(&target.join(name)));
        assert!(inodes.iter().all(|one| *one == inodes[0]), "{inodes:?}");
    }
}

#[test]
fn a_followed_link_stands_for_a_fifo_or_device_too() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_followed_link_stands_for_a_fifo_or_device_too");
        let route = Route::open(&case, Carrier::Ssh, direction);
        let source = route.source_path("tree");
        write(&source.join("in/file"), "f");
        let make = |name: &str, kind, device| {
            mknodat(CWD, source.join(name), kind, Mode::from_raw_mode(0o640), device).expect("as root");
        };
        make("in/fifo", FileType::Fifo, 0);
        make("in/null", FileType::CharacterDevice, makedev(1, 3));
        for (link, target) in [("one", "in/fifo"), ("two", "in/fifo"), ("device", "in/null")] {
            symlink(target, source.join(link)).expect("a fresh link");
        }
        for (options, target) in [("-aL", "plain"), ("-aHL", "linked"), ("-rlptL", "without")] {
            let mut command = route.sync(&[options.to_owned()]);
            case.run(command.arg(route.source("tree/")).arg(route.target(target))).expect_success();
        }
        for target in ["plain", "linked"] {
            let at = |name: &str| route.target_path(target).join(name);
            let kind = |name: &str| fs::symlink_metadata(at(name)).expect(name).file_type();
            assert!(kind("one").is_fifo() && kind("two").is_fifo() && kind("device").is_char_device());
            assert_eq!(fs::metadata(at("device")).expect("it is there").rdev(), makedev(1, 3));
            assert_eq!(fs::metadata(at("one")).expect("it is there").mode() & 0o777, 0o640);
            assert_ne!(inode(&at("one")), inode(&at("in/fifo")), "{target}: it has one name at the source");
        }
        let without = route.target_path("without");
        assert!(without.join("in/file").exists() && fs::symlink_metadata(without.join("one")).is_err());
    }
}

#[test]
fn a_backup_outlives_the_sync_that_made_it() {
    let case = Case::new("a_backup_outlives_the_sync_that_made_it");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let (source, target) = (route.source_path("tree"), route.target_path("tree"));
    write(&source.join("dir/file"), "new content");
    symlink("new", source.join("dir/way")).expect("a fresh link");
    write(&target.join("dir/file"), "old");
    write(&target.join("dir/way"), "made way for a link");
    write(&target.join("dir/gone"), "not at the source");
    write(&target.join("dir/other~"), "of an earlier sync");
    for when in ["--delete", "--delete-after"] {
        let mut command = route.sync(&["-a", when, "--delete-excluded", "--backup"].map(str::to_owned));
        case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
        if when == "--delete" {
            for (name, content) in
                [("file~", "old"), ("way~", "made way for a link"), ("gone~", "not at the source")]
            {
                let kept = fs::read_to_string(target.join("dir").join(name)).unwrap_or_default();
                assert_eq!(kept, content, "{name}");
            }
            assert!(!target.join("dir/other~").exists(), "nothing protects it");
        }
    }
    assert!(!target.join("dir/file~").exists(), "the second sync deletes the first one's");
}
