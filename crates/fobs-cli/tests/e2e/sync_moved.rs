//! Directories that moved whole, in situations of real hosts: mounts, hard links, filters, backups, a kill in
//! the middle; beside what the installed rsync ends with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::case::Case;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};
use super::sync_deltas::content;

/// Files of the tree: more than a directory needs to be renamed as one.
const FILES: u64 = 60;

fn put(path: &Path, bytes: &[u8], age_s: u64) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, bytes).expect("our own place");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - age_s);
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("own file");
}

/// A directory of files in three directories.
fn grow(top: &Path) {
    let bytes = content(3);
    for number in 0..FILES {
        let len = 700 + 300 * number as usize;
        put(&top.join(format!("{}/f{number}", number % 3)), &bytes[..len], number);
    }
}

/// What a tree has: of each path its kind and mode, its content, and the first path of the same file.
fn tree(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>, PathBuf)> {
    fn add(at: &Path, top: &Path, to: &mut BTreeMap<PathBuf, (u32, Vec<u8>, PathBuf)>, first: &mut Firsts) {
        let mut names: Vec<_> =
            fs::read_dir(at).expect("a directory").map(|it| it.expect("a name").path()).collect();
        names.sort();
        for path in names {
            let stat = fs::symlink_metadata(&path).expect("it is there");
            let below = path.strip_prefix(top).expect("it is in it").to_owned();
            let bytes = if stat.is_file() { fs::read(&path).expect("a file") } else { Vec::new() };
            let first_path = first.entry((stat.dev(), stat.ino())).or_insert_with(|| below.clone()).clone();
            to.insert(below, (stat.mode(), bytes, first_path));
            if stat.is_dir() {
                add(&path, top, to, first);
            }
        }
    }
    let mut all = BTreeMap::new();
    add(top, top, &mut all, &mut Firsts::new());
    all
}

/// The first path of each file.
type Firsts = BTreeMap<(u64, u64), PathBuf>;

fn words(options: &[&str]) -> Vec<String> {
    options.iter().map(|word| (*word).to_owned()).collect()
}

fn rsync_is_installed() -> bool {
    let is_there =
        Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        println!("SKIPPED: rsync is not installed");
    }
    is_there
}

/// What is done to the source and the destination before a sync.
type Prepare = fn(&Path, &Path);

/// What of rsync's outcome is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alike {
    /// The tree and the lines.
    All,
    /// The tree: of lines about hard links, backups and filters the order of names decides.
    Tree,
}

const NOTHING: Prepare = |_, _| ();

/// How a sync differs from `-a -i --delete --track-renames`, and what is compared.
const PLAYS: [(&[&str], Prepare, Alike); 10] = [
    (&[], NOTHING, Alike::All),
    (&["-n"], NOTHING, Alike::All),
    (
        &["--exclude=*.log"],
        |from, to| {
            put(&from.join("now/1/here.log"), b"left out here", 5);
            put(&to.join("then/1/there.log"), b"protected there", 5);
        },
        Alike::Tree,
    ),
    (
        &["--filter=hide *.tmp"],
        |from, to| {
            put(&from.join("now/1/here.tmp"), b"hidden here", 5);
            put(&to.join("then/1/there.tmp"), b"not protected there", 5);
        },
        Alike::Tree,
    ),
    (
        &["--filter=protect then/2/**"],
        |_, to| put(&to.join("then/2/more"), b"protected there", 5),
        Alike::Tree,
    ),
    (&["--backup", "--suffix=.old"], NOTHING, Alike::Tree),
    (&["--backup", "--backup-dir=../kept"], NOTHING, Alike::Tree),
    (&[], |_, to| put(&to.join("now"), b"a file has the name", 5), Alike::Tree),
    (&[], |_, to| put(&to.join("now/2/other"), b"the name is there, with something else", 5), Alike::Tree),
    (
        &["-H"],
        |from, to| {
            for (top, name) in [(from, "now"), (to, "then")] {
                let link = |one: &str, other: &str| {
                    fs::hard_link(top.join(name).join(one), top.join(other)).expect("own file");
                };
                fs::create_dir_all(top.join("beside")).expect("own place");
                link("0/f0", &format!("{name}/1/again"));
                link("1/f1", "beside/f1");
            }
        },
        Alike::Tree,
    ),
];

#[test]
fn a_directory_that_moved_ends_as_with_rsync() {
    if !rsync_is_installed() {
        return;
    }
    for direction in [Direction::Push, Direction::Pull] {
        for (number, (options, prepare, alike)) in PLAYS.into_iter().enumerate() {
            let case = Case::new("a_directory_that_moved_ends_as_with_rsync");
            let route = Route::open(&case, Carrier::Daemon, direction);
            let (from, ours) = (route.source_path("from"), route.target_path("to"));
            let theirs = case.path("theirs/to");
            for to in [&ours, &theirs] {
                if from.exists() {
                    fs::remove_dir_all(&from).expect("our own place");
                }
                grow(&from.join("now"));
                grow(&to.join("then"));
                prepare(&from, to);
                let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
                fs::File::open(to).and_then(|top| top.set_modified(long_ago)).expect("own directory");
            }
            let mut command = route.sync(&words(&["-ai", "--delete", "--track-renames"]));
            let done = case.run(command.args(options).arg(route.source("from/")).arg(route.target("to/")));
            let mut command = case.command(Side::Client, "rsync");
            command.args(["-ai", "--delete"]).args(options);
            let expected = case.run(command.arg(from.join("")).arg(theirs.join("")));
            let what = format!("{direction:?} {number} {options:?}: {} {}", done.stderr, expected.stderr);
            assert_eq!(done.code, expected.code, "{what}");
            assert_eq!(tree(&ours), tree(&theirs), "{what}");
            let kept = [&ours, &theirs].map(|to| to.with_file_name("kept"));
            assert_eq!(kept[0].exists(), kept[1].exists(), "{what}");
            if kept[0].exists() {
                assert_eq!(tree(&kept[0]), tree(&kept[1]), "{what}");
            }
            if alike == Alike::All {
                // To rsync on one host a push is a pull.
                let line =
                    |line: &str| line.strip_prefix('<').map_or(line.to_owned(), |rest| format!(">{rest}"));
                let lines = |text: &[u8]| -> BTreeSet<String> {
                    String::from_utf8_lossy(text).lines().map(line).collect()
                };
                assert_eq!(lines(&done.stdout), lines(&expected.stdout), "{what}");
            }
        }
    }
}

/// A file system of its own in memory, as long as this lives.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path) -> Mounted {
        fs::create_dir_all(path).expect("our own place");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "mode=755", "tmpfs"]).arg(path).status();
        assert!(done.expect("it is installed").success(), "mount {}", path.display());
        Mounted(path.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // One that is in use goes with its last user.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_mount_in_a_moved_directory_stays_where_it_is() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: needs root, to mount");
        return;
    }
    for (options, is_kept) in [(&["-x"][..], true), (&[], false)] {
        let case = Case::new("a_mount_in_a_moved_directory_stays_where_it_is");
        // Before the ends have mounts of their own.
        let then = case.path("served/to/then");
        let mounted = Mounted::at(&then.join("1"));
        let route = Route::open(&case, Carrier::Daemon, Direction::Push);
        assert_eq!(route.target_path("to/then"), then);
        grow(&then);
        put(&then.join("1/only there"), b"on the other file system", 5);
        let from = route.source_path("from");
        grow(&from.join("now"));
        let mut command = route.sync(&words(&["-a", "--delete", "--track-renames"]));
        let done = case.run(command.args(options).arg(route.source("from/")).arg(route.target("to/")));
        assert_eq!(
            tree(&route.target_path("to/now")),
            tree(&from.join("now")),
            "{options:?}: {}",
            done.stderr
        );
        assert_eq!(mounted.0.join("only there").exists(), is_kept, "{options:?}: {}", done.stderr);
        assert!(mounted.0.exists(), "a place of a mount cannot be removed");
    }
}

#[test]
fn a_kill_after_the_rename_is_gone_on_from() {
    for (name, direction) in [("killed_push", Direction::Push), ("killed_pull", Direction::Pull)] {
        let case = Case::new(name);
        let mut route = Route::open(&case, Carrier::Daemon, direction);
        let (from, to) = (route.source_path("from"), route.target_path("to"));
        grow(&from.join("now"));
        grow(&to.join("then"));
        let inode = fs::metadata(to.join("then/0/f0")).expect("own file").ino();
        put(&from.join("z"), &content(9), 5);
        let options = words(&["-a", "--delete", "--track-renames", "--json", "--rate=4Mbit"]);
        let sync = |route: &Route<'_>| {
            let mut command = route.sync(&options);
            command.arg(route.source("from/")).arg(route.target("to/"));
            command
        };
        let mut running = case.start(&mut sync(&route));
        case.wait_for("it is renamed", || to.join("now").exists() && !to.join("then").exists());
        running.kill();
        // Both ends at once, as a host that goes down.
        route.daemon().kill();
        route.daemon().start_again(&case);
        let mut last = None;
        case.wait_for("the same command goes on", || {
            let done = case.run(&mut sync(&route));
            let is_over = done.code == Some(0);
            last = Some(done);
            is_over
        });
        assert_eq!(tree(&to), tree(&from), "{name}: {last:?}");
        assert_eq!(fs::metadata(to.join("now/0/f0")).expect("it came").ino(), inode, "{name}");
    }
}
