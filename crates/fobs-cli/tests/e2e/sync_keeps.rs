//! What a sync must not delete or change, beside the installed rsync: what it did not look at, what arrives
//! late, and what a directory gives to what is made in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::case::Case;
use super::needs;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};

fn words(options: &[&str]) -> Vec<String> {
    options.iter().map(|option| (*option).to_owned()).collect()
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, content).expect("our own place");
}

/// Everything below a directory, with the content of files and the targets of links.
fn contents(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).expect("it is there").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(top).expect("below").to_string_lossy().into_owned();
            if let Ok(target) = fs::read_link(&path) {
                found.insert(name, format!("-> {}", target.display()));
            } else if path.is_dir() {
                waiting.push(path);
                found.insert(name, String::new());
            } else {
                found.insert(name, fs::read_to_string(&path).expect("text"));
            }
        }
    }
    found
}

/// A file system of its own.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: PathBuf) -> Mounted {
        fs::create_dir_all(&path).expect("our own place");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&path).status();
        assert!(mounted.expect("mount is installed").success(), "{}", path.display());
        Mounted(path)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn rsync(case: &Case, options: &[&str], from: &Path, to: &Path) -> bool {
    if !needs::program_exists("rsync") {
        return false;
    }
    let mut command = case.command(Side::Client, "rsync");
    command.args(options).arg(format!("{}/", from.display())).arg(format!("{}/", to.display()));
    case.run(&mut command);
    true
}

#[test]
fn a_push_with_x_deletes_nothing_below_what_it_leaves_out() {
    let name = "a_push_with_x_deletes_nothing_below_what_it_leaves_out";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let source = route.source_path("tree");
    let _mounted = [Mounted::at(source.join("home")), Mounted::at(source.join("var/lib"))];
    write(&source.join("home/u"), "of the source");
    write(&source.join("f"), "f");
    for moment in ["--delete", "--delete-before", "--delete-after", "--delete-delay"] {
        let (ours, theirs) = (route.target_path("tree"), case.path("rsync"));
        for top in [&ours, &theirs] {
            for path in ["home/u", "home/in/v", "var/lib/w", "var/gone", "gone"] {
                write(&top.join(path), "of the target");
            }
        }
        let mut command = route.sync(&words(&["-ax", moment]));
        case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
        let found = contents(&ours);
        for kept in ["home/u", "home/in/v", "var/lib/w"] {
            assert_eq!(found.get(kept).map(String::as_str), Some("of the target"), "{moment}: {found:?}");
        }
        assert!(!found.contains_key("gone") && !found.contains_key("var/gone"), "{moment}: {found:?}");
        if rsync(&case, &["-ax", moment], &source, &theirs) {
            assert_eq!(found, contents(&theirs), "{moment}");
        }
        fs::remove_dir_all(&ours).expect("own directory");
        fs::remove_dir_all(&theirs).expect("own directory");
    }
}

#[test]
fn a_pull_with_x_empties_no_mounted_file_system() {
    let name = "a_pull_with_x_empties_no_mounted_file_system";
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, Direction::Pull);
    let source = route.source_path("tree");
    write(&source.join("f"), "f");
    let (ours, theirs) = (route.target_path("tree"), case.path("rsync"));
    let mount = |place: &str| [&ours, &theirs].map(|top| Mounted::at(top.join(place)));
    let _mounted = [mount("mnt"), mount("gone/mnt")];
    for moment in ["--delete", "--delete-before", "--delete-after"] {
        for top in [&ours, &theirs] {
            ["mnt/in/x", "gone/mnt/y", "gone/z"].iter().for_each(|path| write(&top.join(path), "kept"));
        }
        let mut command = route.sync(&words(&["-ax", moment]));
        case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
        let found = contents(&ours);
        assert!(found.contains_key("mnt/in/x") && found.contains_key("gone/mnt/y"), "{moment}: {found:?}");
        assert!(!found.contains_key("gone/z"), "{moment}: {found:?}");
        if rsync(&case, &["-ax", moment], &source, &theirs) {
            assert_eq!(found, contents(&theirs), "{moment}");
        }
    }
    let mut command = route.sync(&words(&["-a", "--delete"]));
    let done = case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_code(23);
    assert!(done.stderr.contains("cannot delete 'mnt': a file system is mounted there"), "{}", done.stderr);
}

fn several_sources(direction: Direction, name: &'static str) {
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    for (path, content) in [("one/a", "1"), ("one/in/x", "1"), ("two/b", "2"), ("two/in/y", "2")] {
        write(&route.source_path(path), content);
    }
    write(&route.target_path("all/in/gone"), "gone");
    for moment in ["--delete", "--delete-before", "--delete-after"] {
        for round in ["first", "second"] {
            let mut command = route.sync(&words(&["-a", moment]));
            command.arg(route.source("one/")).arg(route.source("two/")).arg(route.target("all"));
            case.run(&mut command).expect_success();
            let names: Vec<String> = contents(&route.target_path("all")).into_keys().collect();
            assert_eq!(names, ["a", "b", "in", "in/x", "in/y"], "{moment}, {round}");
        }
    }
}

#[test]
fn contents_of_several_sources_stay_when_pushed_again() {
    several_sources(Direction::Push, "contents_of_several_sources_stay_when_pushed_again");
}

#[test]
fn contents_of_several_sources_stay_when_pulled_again() {
    several_sources(Direction::Pull, "contents_of_several_sources_stay_when_pulled_again");
}

#[test]
fn late_deletions_follow_new_filter_files_as_those_of_rsync() {
    let name = "late_deletions_follow_new_filter_files_as_those_of_rsync";
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let source = route.source_path("tree");
        write(&source.join("sub/.filt"), "- keep*\n");
        write(&source.join("sub/in/f"), "f");
        let (ours, theirs) = (route.target_path("tree"), case.path("rsync"));
        for top in [&ours, &theirs] {
            for path in ["sub/keep1", "sub/in/keep2", "sub/gone", "keep3"] {
                write(&top.join(path), "k");
            }
        }
        let options = ["-a", "--delete-after", "--filter=: .filt"];
        let mut command = route.sync(&words(&options));
        case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
        let found = contents(&ours);
        assert!(found.contains_key("sub/keep1") && found.contains_key("sub/in/keep2"), "{found:?}");
        assert!(!found.contains_key("sub/gone") && !found.contains_key("keep3"), "{found:?}");
        if rsync(&case, &options, &source, &theirs) {
            assert_eq!(found, contents(&theirs));
        }
    }
}

#[test]
fn what_a_filter_file_may_leave_out_is_never_sent() {
    let name = "what_a_filter_file_may_leave_out_is_never_sent";
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Ssh, direction);
        let source = route.source_path("tree");
        for path in ["link", "gone", "named/.rsync-filter", "plain"] {
            write(&source.join(path).join("secret"), "s");
            write(&source.join(path).join("open"), "o");
        }
        write(&source.join("rules"), "- secret\n");
        write(&source.join("plain/.rsync-filter"), "- secret\n");
        symlink("../rules", source.join("link/.rsync-filter")).expect("a link");
        symlink("nowhere", source.join("gone/.rsync-filter")).expect("a link");
        let (ours, theirs) = (route.target_path("tree"), case.path("rsync"));
        let sync = || {
            let mut command = route.sync(&words(&["-aF"]));
            case.run(command.arg(route.source("tree/")).arg(route.target("tree")))
        };
        sync().expect_success();
        assert!(!ours.join("link/secret").exists() && !ours.join("plain/secret").exists());
        if rsync(&case, &["-aF"], &source, &theirs) {
            assert_eq!(contents(&ours), contents(&theirs));
        }
        write(&source.join("bad/deep/secret"), "s");
        write(&source.join("bad/.rsync-filter"), "- secret\nno rule\n");
        let done = sync().expect_code(23);
        assert!(done.stderr.contains("cannot use the filter file 'bad/.rsync-filter'"), "{}", done.stderr);
        assert_eq!(contents(&ours.join("bad")).len(), 0, "{direction:?}: {}", done.stderr);
    }
}

#[test]
fn a_third_users_link_is_no_filter_file() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("a_third_users_link_is_no_filter_file");
        let route = Route::open(&case, Carrier::Ssh, direction);
        let source = route.source_path("tree");
        for path in ["theirs/file", "ours/file"] {
            write(&source.join(path), "content");
        }
        write(&source.join("rules"), "- file\n");
        for (place, owner) in [("theirs", Some(65_534)), ("ours", None)] {
            let link = source.join(place).join(".rsync-filter");
            symlink("../rules", &link).expect("a link");
            std::os::unix::fs::lchown(&link, owner, owner).expect("root may");
        }
        let mut command = route.sync(&words(&["-aF"]));
        case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
        let ours = route.target_path("tree");
        assert!(ours.join("theirs/file").exists() && !ours.join("ours/file").exists(), "{direction:?}");
        let theirs = case.path("rsync");
        if rsync(&case, &["-aF"], &source, &theirs) {
            assert_eq!(contents(&ours), contents(&theirs));
        }
    }
}

/// An ACL in the format of the kernel: `u::rwx,g::r-x,o::---`, or with `u:1234:rwx` and a mask.
fn default_acl(named: bool) -> Vec<u8> {
    let plain = [(1_u16, 7_u16, u32::MAX), (4, 5, u32::MAX), (0x20, 0, u32::MAX)];
    let more = [(1, 7, u32::MAX), (2, 7, 1234), (4, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 0, u32::MAX)];
    let entries: &[(u16, u16, u32)] = if named { &more } else { &plain };
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, may, number) in entries {
        bytes.extend([&tag.to_le_bytes()[..], &may.to_le_bytes(), &number.to_le_bytes()].concat());
    }
    bytes
}

/// Mode and ACL of what was made.
fn given(top: &Path) -> Vec<(u32, Vec<u8>)> {
    let of = |path: &str| {
        let path = top.join(path);
        let mode = fs::metadata(&path).expect("it was made").permissions().mode() & 0o7777;
        let mut acl = vec![0; 1024];
        let len = getxattr(&path, "system.posix_acl_access", &mut acl[..]).unwrap_or(0);
        acl.truncate(len);
        (mode, acl)
    };
    ["dir", "dir/f", "g"].map(of).to_vec()
}

fn inherits(direction: Direction, name: &'static str) {
    let case = Case::new(name);
    let route = Route::open(&case, Carrier::Daemon, direction);
    write(&route.source_path("tree/dir/f"), "f");
    write(&route.source_path("tree/g"), "g");
    for (path, mode) in [("tree/dir", 0o755), ("tree/dir/f", 0o755), ("tree/g", 0o644)] {
        fs::set_permissions(route.source_path(path), PermissionsExt::from_mode(mode)).expect("own file");
    }
    for (acl, mode) in [(Some(false), 0o750), (Some(true), 0o750), (Some(false), 0o2750), (None, 0o2750)] {
        let make = |top: &Path| {
            fs::create_dir_all(top).expect("our own place");
            fs::set_permissions(top, PermissionsExt::from_mode(mode)).expect("own directory");
            acl.is_none_or(|named| {
                let value = default_acl(named);
                setxattr(top, "system.posix_acl_default", &value, XattrFlags::empty()).is_ok()
            })
        };
        let theirs = case.path("rsync");
        if !make(&theirs) {
            eprintln!("without ACLs: this host's file system has none, so that is not compared");
            continue;
        }
        // What mkdir and open give is the measure: cp(1) asks for the source's mode.
        let sources = [route.source_path("tree/dir"), route.source_path("tree/g")];
        let mut cp = case.command(Side::Client, "cp");
        case.run(cp.arg("-r").args(&sources).arg(&theirs)).expect_success();
        let expected = given(&theirs);
        let target = route.target_path("made");
        for way in ["-r", "-rlt", "-rlt --delete-before", "-rlt --transport tcp", "cp", "cp one by one"] {
            assert!(make(&target));
            let flags: Vec<&str> = way.split(' ').collect();
            match way {
                "cp" => {
                    let mut command = route.cp(&["-r"]);
                    command.arg(route.source("tree/dir")).arg(route.source("tree/g"));
                    case.run(command.arg(route.target("made/"))).expect_success();
                }
                "cp one by one" => {
                    case.run(&mut route.copy(&["-r"], "tree/dir", "made/")).expect_success();
                    case.run(&mut route.copy(&[], "tree/g", "made/g")).expect_success();
                }
                _ => {
                    let mut command = route.sync(&words(&flags));
                    command.arg(route.source("tree/")).arg(route.target("made/"));
                    case.run(&mut command).expect_success();
                }
            }
            assert_eq!(given(&target), expected, "{way} into {mode:o} with {acl:?}");
            fs::remove_dir_all(&target).expect("own directory");
        }
        fs::remove_dir_all(&theirs).expect("own directory");
    }
}

#[test]
fn what_is_pushed_has_what_its_directory_gives() {
    inherits(Direction::Push, "what_is_pushed_has_what_its_directory_gives");
}

#[test]
fn what_is_pulled_has_what_its_directory_gives() {
    inherits(Direction::Pull, "what_is_pulled_has_what_its_directory_gives");
}
