//! Situations of public reports about rsync, syncthing, borg, restic, rclone and lsyncd in which something
//! was lost, left over or never ended, by their own command lines.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use super::case::Case;
use super::files::{hash, names, write_random};
use super::needs;
use super::process::{Finished, Running};
use super::remote::{Carrier, Direction, Route};
use super::walls::Mounted;

/// Some 10 s of transfer at [`RATE`].
const BYTES: u64 = 64 << 20;
const RATE: &str = "50Mbit";

fn sync(route: &Route<'_>, options: &[&str]) -> Command {
    let mut command = route.sync(&options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>());
    command.arg(route.source("tree/")).arg(route.target("tree/"));
    command
}

/// Begins a sync and returns it in its middle.
fn in_its_middle(case: &Case, route: &Route<'_>, options: &[&str]) -> Running {
    let mut running = case.start(&mut sync(route, &[options, &["--json", "--rate", RATE]].concat()));
    running.wait_until_data_flows();
    running
}

/// The same command once more, as soon as the other end has noticed that the first one ended.
fn again(case: &Case, route: &Route<'_>, options: &[&str]) -> Finished {
    let mut done = None;
    case.wait_for("the sync goes on", || {
        done = Some(case.run(&mut sync(route, options)));
        done.as_ref().is_some_and(|done| done.code == Some(0))
    });
    done.expect("it is over")
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("it is there").ino()
}

/// syncthing #1890 and #8187: the source is gone before the file has come whole, and a temporary one stays.
#[test]
fn what_is_unfinished_goes_when_its_source_is_gone() {
    let case = Case::new("what_is_unfinished_goes_when_its_source_is_gone");
    for direction in [Direction::Push, Direction::Pull] {
        let route = Route::open(&case, Carrier::Daemon, direction);
        let file = route.source_path("tree/d/file");
        fs::create_dir_all(file.parent().expect("it is in one")).expect("our own place");
        fs::write(route.source_path("tree/d/other"), "stays").expect("our own place");
        write_random(&file, BYTES, &mut case.random());
        in_its_middle(&case, &route, &["-a"]).kill();
        let left = |name: &std::ffi::OsString| name.to_string_lossy().starts_with(".file.fobs-");
        assert!(names(&route.target_path("tree/d")).iter().any(left), "there is something to find");
        fs::remove_file(&file).expect("it is there");
        again(&case, &route, &["-a"]);
        assert_eq!(names(&route.target_path("tree")), ["d"]);
        assert_eq!(names(&route.target_path("tree/d")), ["other"]);
        drop(route);
        case.start_over();
    }
}

/// rsync #236: a killed `-u --inplace --partial -a` leaves a newer file, which the next run passes over.
#[test]
fn an_update_in_place_goes_on_after_a_kill() {
    let case = Case::new("an_update_in_place_goes_on_after_a_kill");
    let route = Route::open(&case, Carrier::Daemon, Direction::Pull);
    let (file, copy) = (route.source_path("tree/test"), route.target_path("tree/test"));
    for (path, bytes, seconds) in [(&file, BYTES, 2_000_000_000), (&copy, 2024, 1_000_000_000)] {
        fs::create_dir_all(path.parent().expect("it is in one")).expect("our own place");
        write_random(path, bytes, &mut case.random());
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(path).and_then(|it| it.set_modified(time)).expect("own file");
    }
    let before = (inode(&copy), hash(&copy));
    let options = ["-u", "--inplace", "--partial", "-a"];
    in_its_middle(&case, &route, &options).kill();
    assert_eq!((inode(&copy), hash(&copy)), before, "what was there is whole until all has come");
    again(&case, &route, &options);
    assert_eq!((inode(&copy), hash(&copy)), (before.0, hash(&file)));
    assert_eq!(names(&route.target_path("tree")), ["test"]);
}

/// borg #10387: a run that goes on breaks a group of hard links up, whichever of its names is missing.
#[test]
fn names_of_one_file_stay_together_when_a_run_goes_on() {
    let case = Case::new("names_of_one_file_stay_together_when_a_run_goes_on");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let (source, target) = (route.source_path("tree"), route.target_path("tree"));
    fs::create_dir_all(&source).expect("our own place");
    fs::write(source.join("a"), "content").expect("a file");
    ["b", "c"].iter().for_each(|name| fs::hard_link(source.join("a"), source.join(name)).expect("a name"));
    case.run(&mut sync(&route, &["-aH"])).expect_success();
    for missing in ["a", "b", "c"] {
        for becomes in [None, Some("another file")] {
            fs::remove_file(target.join(missing)).expect("it is there");
            if let Some(content) = becomes {
                fs::write(target.join(missing), content).expect("the name is free");
            }
            case.run(&mut sync(&route, &["-aH"])).expect_success();
            let inodes = ["a", "b", "c"].map(|name| inode(&target.join(name)));
            assert!(inodes.iter().all(|it| *it == inodes[0]), "{missing} {becomes:?}: {inodes:?}");
            assert_eq!(fs::read_to_string(target.join(missing)).expect("it is there"), "content");
        }
    }
}

/// restic #875: what replaces a longer file keeps its end.
#[test]
fn a_shorter_file_has_its_length_whatever_was_there() {
    let case = Case::new("a_shorter_file_has_its_length_whatever_was_there");
    let route = Route::open(&case, Carrier::Daemon, Direction::Pull);
    let (file, copy) = (route.source_path("tree/fstab"), route.target_path("tree/fstab"));
    for path in [&file, &copy] {
        fs::create_dir_all(path.parent().expect("it is in one")).expect("our own place");
    }
    fs::write(&file, "short").expect("our own place");
    for options in [&["-a"][..], &["-a", "--inplace"], &["-a", "-c"], &["-a", "--delta=always", "--inplace"]]
    {
        write_random(&copy, 185_488, &mut case.random());
        case.run(&mut sync(&route, options)).expect_success();
        assert_eq!(fs::read_to_string(&copy).expect("it is there"), "short", "{options:?}");
    }
}

/// rclone #1261, rsync #304 and #359: a file that is moved or copied onto itself is gone.
#[test]
fn what_is_copied_or_moved_onto_itself_stays() {
    let case = Case::new("what_is_copied_or_moved_onto_itself_stays");
    let mut route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let daemon = route.daemon();
    let (root, url) = (daemon.root.clone(), daemon.url(""));
    let place = root.join("d");
    fs::create_dir_all(&place).expect("our own place");
    fs::write(place.join("f"), "precious").expect("our own place");
    let run = |mut command: Command, words: &[PathBuf]| case.run(command.args(words));
    let there = |path: &str| PathBuf::from(format!("{url}{path}"));
    run(daemon.cp(&case), &[place.join("f"), there("d/f")]);
    run(daemon.cp(&case), &[there("d/f"), place.join("f")]);
    run(daemon.cp(&case), &["-r".into(), place.clone(), there("")]);
    for options in [&["-a"][..], &["-a", "--inplace"], &["-va", "--progress", "--remove-source-files"]] {
        let words = |from: PathBuf, to: PathBuf| {
            options.iter().map(PathBuf::from).chain([from, to]).collect::<Vec<_>>()
        };
        run(daemon.sync(&case), &words(place.clone(), there("")));
        run(daemon.sync(&case), &words(place.join("f"), there("d/")));
        run(daemon.sync(&case), &words(there("d"), root.clone()));
    }
    assert_eq!(fs::read_to_string(place.join("f")).expect("it is there"), "precious");
    assert_eq!(names(&place), ["f"]);
}

/// lsyncd #290: a directory that became a link takes what it leads to with it.
#[test]
fn a_directory_that_became_a_link_takes_nothing_with_it() {
    let case = Case::new("a_directory_that_became_a_link_takes_nothing_with_it");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let (source, target) = (route.source_path("tree"), route.target_path("tree"));
    for path in ["subdir1/file1", "subdir2/subdir1/file1"] {
        fs::create_dir_all(source.join(path).parent().expect("it is in one")).expect("our own place");
        fs::write(source.join(path), "content").expect("a file");
    }
    for moment in ["--delete", "--delete-before", "--delete-after", "--delete-delay"] {
        case.run(&mut sync(&route, &["-a", moment])).expect_success();
        let link = source.join("subdir2/subdir1");
        fs::remove_dir_all(&link).expect("it is there");
        symlink("../subdir1", &link).expect("the name is free");
        case.run(&mut sync(&route, &["-a", moment])).expect_success();
        assert_eq!(fs::read_link(target.join("subdir2/subdir1")).expect("a link"), Path::new("../subdir1"));
        assert_eq!(names(&target.join("subdir1")), ["file1"], "{moment}");
        fs::remove_file(&link).expect("it is there");
        fs::create_dir(&link).expect("the name is free");
        fs::write(link.join("file1"), "content").expect("a file");
    }
}

/// rsync #603 and #484: what has the name is gone, or is something unfinished, until all has come.
#[test]
fn what_has_the_name_stays_until_all_has_come() {
    let case = Case::new("what_has_the_name_stays_until_all_has_come");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let (file, copy) = (route.source_path("tree/testfile"), route.target_path("tree/testfile"));
    for path in [&file, &copy] {
        fs::create_dir_all(path.parent().expect("it is in one")).expect("our own place");
    }
    write_random(&file, BYTES, &mut case.random());
    symlink("/var/log/messages", &copy).expect("the name is free");
    let options = ["-a", "--size-only", "--partial"];
    let mut running = in_its_middle(&case, &route, &options);
    let leads_to = || fs::read_link(&copy).expect("it is a link still");
    assert_eq!(leads_to(), Path::new("/var/log/messages"));
    running.signal(Signal::INT);
    running.finish().expect_code(20);
    assert_eq!(leads_to(), Path::new("/var/log/messages"));
    again(&case, &route, &options);
    assert_eq!(hash(&copy), hash(&file));
}

/// rsync #71 and #445: into a full file system it goes on for hours, says nothing, and removes the sources.
#[test]
fn a_full_destination_ends_the_run_and_keeps_the_sources() {
    let name = "a_full_destination_ends_the_run_and_keeps_the_sources";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    // Before the daemon starts: a program has the mounts of its start.
    let disk = case.path("served/tree");
    let _disk = Mounted::in_memory(disk.clone());
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let (source, target) = (route.source_path("tree"), route.target_path("tree"));
    assert_eq!(target, disk);
    fs::create_dir_all(&source).expect("our own place");
    for number in 0..6 {
        write_random(&source.join(format!("2020_07_1{number}.tgz")), 6_000_000, &mut case.random());
    }
    let all = names(&source);
    let done = case.run(&mut sync(&route, &["-aP", "--remove-source-files"])).expect_code(11);
    assert!(done.stderr.contains("No space left on device; make room"), "{}", done.stderr);
    let (stay, there) = (names(&source), names(&target));
    assert!(stay.len() >= 3 && !there.is_empty(), "{stay:?} {there:?}");
    assert!(all.iter().all(|name| stay.contains(name) != there.contains(name)), "{stay:?} {there:?}");
}

/// rsync #330: after its `--timeout` the next run begins from scratch if it begins at once.
#[test]
fn a_run_that_timed_out_goes_on_at_once() {
    let case = Case::new("a_run_that_timed_out_goes_on_at_once");
    let mut route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let (file, copy) = (route.source_path("tree/file"), route.target_path("tree/file"));
    fs::create_dir_all(file.parent().expect("it is in one")).expect("our own place");
    write_random(&file, BYTES, &mut case.random());
    let options = ["-a", "--partial", "--timeout", "3"];
    let running = in_its_middle(&case, &route, &options);
    route.daemon().signal(Signal::STOP);
    running.finish().expect_code(30);
    route.daemon().signal(Signal::CONT);
    let done = again(&case, &route, &[&options[..], &["--json"]].concat()).done();
    assert!(done["resumed_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{done}");
    assert_eq!(hash(&copy), hash(&file));
    assert_eq!(names(&route.target_path("tree")), ["file"]);
}
