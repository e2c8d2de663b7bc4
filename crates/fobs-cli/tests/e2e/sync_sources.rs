//! What a sync takes of its sources: of several the first counts, and with `--remove-source-files` what is
//! stored goes, over both carriers.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::case::Case;
use super::daemon::Daemon;
use super::remote::{Carrier, Direction, Route};

fn words(options: &[&str]) -> Vec<String> {
    options.iter().map(|option| (*option).to_owned()).collect()
}

/// Everything below a directory.
fn paths(top: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(top).expect("it is there").flatten() {
        let name = entry.file_name().into_string().expect("ASCII");
        if entry.file_type().expect("it has one").is_dir() {
            paths.extend(self::paths(&entry.path()).into_iter().map(|inner| format!("{name}/{inner}")));
        }
        paths.push(name);
    }
    paths.sort();
    paths
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, content).expect("our own place");
}

/// A tree in which one file is at the target already, one is excluded, and one cannot be stored.
fn check(carrier: Carrier, direction: Direction, name: &'static str) {
    let case = Case::new(name);
    let route = Route::open(&case, carrier, direction);
    let (source, target) = (route.source_path("tree"), route.target_path("tree"));
    for path in ["new", "dir/new", "dir/same", "left.o", "in-the-way"] {
        write(&source.join(path), path);
    }
    symlink("new", source.join("link")).expect("a fresh link");
    fs::hard_link(source.join("new"), source.join("second")).expect("a second name");
    let run = |options: &[&str]| {
        let mut command = route.sync(&words(options));
        command.arg(route.source("tree/")).arg(route.target("tree/"));
        case.run(&mut command)
    };
    run(&["-a", "--include=dir/", "--include=same", "--exclude=*"]).expect_success();
    assert_eq!(paths(&target), ["dir", "dir/same"]);
    write(&target.join("in-the-way/inner"), "stays");

    let all = paths(&source);
    run(&["-aHn", "--remove-source-files"]);
    assert_eq!(paths(&source), all, "a dry run removes nothing");

    let options = ["-aH", "--fsync", "--remove-source-files", "--exclude=*.o"];
    let done = run(&options).expect_code(23);
    assert!(done.stderr.contains("in-the-way"), "{}", done.stderr);
    assert_eq!(paths(&source), ["dir", "in-the-way", "left.o"]);
    let stored = ["dir", "dir/new", "dir/same", "in-the-way", "in-the-way/inner", "link", "new", "second"];
    assert_eq!(paths(&target), stored);
    for path in ["new", "second", "dir/new", "dir/same"] {
        let content = fs::read_to_string(target.join(path)).expect("it was stored");
        assert_eq!(content, if path == "second" { "new" } else { path });
    }
}

#[test]
fn a_push_over_ssh_removes_what_is_stored() {
    check(Carrier::Ssh, Direction::Push, "a_push_over_ssh_removes_what_is_stored");
}

#[test]
fn a_pull_over_ssh_removes_what_is_stored() {
    check(Carrier::Ssh, Direction::Pull, "a_pull_over_ssh_removes_what_is_stored");
}

#[test]
fn a_directory_that_is_both_ends_loses_nothing() {
    let case = Case::new("a_directory_that_is_both_ends_loses_nothing");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let place = route.target_path("tree");
    write(&place.join("file"), "content");
    fs::hard_link(place.join("file"), place.join("second")).expect("a second name");
    symlink("file", place.join("link")).expect("a fresh link");
    let all = paths(&place);
    let mut command = route.sync(&words(&["-aH", "--remove-source-files"]));
    command.arg(format!("{}/", place.display())).arg(route.target("tree/"));
    let done = case.run(&mut command).expect_code(23);
    assert!(done.stderr.contains("the source itself"), "{}", done.stderr);
    assert_eq!(paths(&place), all);
}

#[test]
fn who_may_only_read_removes_nothing() {
    let case = Case::new("who_may_only_read_removes_nothing");
    let daemon = Daemon::start(&case, "read-only");
    write(&daemon.root.join("tree/file"), "content");
    let mut command = daemon.sync(&case);
    command.args(["-a", "--remove-source-files", &daemon.url("tree/")]).arg(case.local("tree"));
    let done = case.run(&mut command).expect_code(5);
    assert!(
        done.stderr.contains("may not delete: its rights are read-only; leave out --remove-source-files"),
        "{}",
        done.stderr
    );
    assert!(daemon.root.join("tree/file").exists());
}

/// As in rsync: of equal paths the first source's counts, and a directory before anything else.
#[test]
fn of_sources_with_the_same_paths_the_first_counts() {
    let case = Case::new("of_sources_with_the_same_paths_the_first_counts");
    for (carrier, direction) in [(Carrier::Ssh, Direction::Push), (Carrier::Daemon, Direction::Pull)] {
        let route = Route::open(&case, carrier, direction);
        let at = |path: &str| route.source_path(path);
        for (path, content) in [
            ("a/file", "of a"),
            ("b/file", "of b, longer"),
            ("a/first", "no directory"),
            ("b/first/inner", "b"),
            ("a/second/inner", "a"),
            ("b/second", "no directory"),
            ("b/left.o", "of b"),
            ("a/both/one", "1"),
            ("b/both/two", "2"),
            ("c", "of its own name"),
            ("b/c", "of b"),
            ("named/inner", "in a directory with a name"),
        ] {
            write(&at(path), content);
        }
        // What the filter leaves out hides nothing.
        fs::create_dir(at("a/left.o")).expect("our own place");
        symlink("file", at("a/link")).expect("a fresh link");
        write(&at("b/link"), "no link");
        for (path, mode) in [("a/both", 0o711), ("b/both", 0o777), ("a", 0o755), ("b", 0o700)] {
            fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).expect("our own place");
        }
        let run = |more: &[&str]| {
            let mut command = route.sync(&words(&["-a", "--delete", "--exclude=left.o/"]));
            command.args(more);
            for source in ["c", "named", "a/", "b/"] {
                command.arg(route.source(source));
            }
            case.run(command.arg(route.target("tree/"))).expect_success()
        };
        run(&[]);
        let target = route.target_path("tree");
        for (path, content) in [
            ("file", "of a"),
            ("first/inner", "b"),
            ("second/inner", "a"),
            ("left.o", "of b"),
            ("both/one", "1"),
            ("both/two", "2"),
            ("c", "of its own name"),
        ] {
            assert_eq!(fs::read_to_string(target.join(path)).expect(path), content, "{carrier:?}: {path}");
        }
        assert_eq!(fs::read_link(target.join("link")).expect("a link"), Path::new("file"));
        let mode = |path: &str| fs::metadata(target.join(path)).expect("it is there").mode() & 0o777;
        assert_eq!((mode("both"), mode("")), (0o711, 0o755), "{carrier:?}");
        for more in ["--delete", "--delete-after", "--delete-before", "--delete"] {
            let again = run(&[more, "-i"]);
            assert_eq!(
                String::from_utf8_lossy(&again.stdout),
                "",
                "{carrier:?} {more}: nothing is left to do"
            );
        }
    }
}
