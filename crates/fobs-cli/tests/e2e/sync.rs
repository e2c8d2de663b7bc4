//! `fobs sync` beside the installed rsync: the same random trees and options end in equal trees and equal
//! lists of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::case::Case;
use super::files::Random;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};

/// Seeds of an ordinary run, and of a long one.
const SEEDS: u64 = if cfg!(feature = "long") { 500 } else { 20 };
/// Seeds in one case, which has a deadline.
const SEEDS_A_CASE: u64 = 20;
/// Modification times are this and a few seconds more, in 2020.
const LONG_AGO: i64 = 1_600_000_000;
const NAMES: [&str; 8] = ["a", "b", "c.o", "d.txt", "dir", "e e", "keep", "z.o"];

/// Picks one.
fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

/// Sets the time of anything but a link's target.
fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("own file");
}

fn write_file(path: &Path, random: &mut Random) {
    let len = pick(random, &[0, 1, 5, 5, 5, 70_000]);
    fs::write(path, random.bytes(len)).expect("a fresh file");
    let mode = pick(random, &[0o644, 0o644, 0o600, 0o755]);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own file");
    set_time(path, LONG_AGO + random.below(4) as i64);
}

/// Makes a tree; the same one for the same random numbers.
fn make_tree(top: &Path, random: &mut Random, depth: u32) {
    fs::create_dir_all(top).expect("a directory");
    for name in NAMES {
        let path = top.join(name);
        match random.below(6) {
            0 | 1 => write_file(&path, random),
            2 if depth > 0 => make_tree(&path, random, depth - 1),
            3 => {
                symlink(pick(random, &["a", "nowhere", "../b"]), &path).expect("a fresh link");
                set_time(&path, LONG_AGO + random.below(4) as i64);
            }
            _ => {}
        }
    }
    let mode = pick(random, &[0o755, 0o755, 0o700, 0o775]);
    fs::set_permissions(top, fs::Permissions::from_mode(mode)).expect("own directory");
    set_time(top, LONG_AGO + random.below(4) as i64);
}

/// Changes a tree: some entries go, some become another type, some change.
fn change_tree(top: &Path, random: &mut Random, depth: u32) {
    for name in NAMES {
        let path = top.join(name);
        let Ok(found) = fs::symlink_metadata(&path) else {
            if random.below(8) == 0 {
                write_file(&path, random);
            }
            continue;
        };
        match random.below(8) {
            0 => remove(&path),
            1 => {
                remove(&path);
                write_file(&path, random);
            }
            2 if found.is_file() => set_time(&path, LONG_AGO + random.below(4) as i64),
            3 if found.is_file() => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("own file");
            }
            4 if !found.is_dir() => {
                remove(&path);
                make_tree(&path, random, 0);
            }
            _ if found.is_dir() && depth > 0 => change_tree(&path, random, depth - 1),
            _ => {}
        }
    }
    set_time(top, LONG_AGO + random.below(4) as i64);
}

fn remove(path: &Path) {
    let removed = match fs::symlink_metadata(path).expect("it is there").is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    removed.expect("own file");
}

/// An entry as it is compared; times since the test began are one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    time: Option<i64>,
    content: Vec<u8>,
}

/// Everything at and below a directory.
fn listing(top: &Path, began: i64) -> BTreeMap<PathBuf, Entry> {
    fn add(top: &Path, path: &Path, began: i64, to: &mut BTreeMap<PathBuf, Entry>) {
        let found = fs::symlink_metadata(path).expect("it is there");
        let content = match found.file_type() {
            kind if kind.is_symlink() => {
                fs::read_link(path).expect("a link").into_os_string().into_encoded_bytes()
            }
            kind if kind.is_file() => blake3::hash(&fs::read(path).expect("own file")).as_bytes().to_vec(),
            _ => Vec::new(),
        };
        let time = Some(found.mtime()).filter(|&time| time < began);
        let inner = path.strip_prefix(top).expect("below").to_path_buf();
        to.insert(inner, Entry { mode: found.mode(), time, content });
        if found.is_dir() {
            for entry in fs::read_dir(path).expect("own directory").flatten() {
                add(top, &entry.path(), began, to);
            }
        }
    }
    let mut entries = BTreeMap::new();
    add(top, top, began, &mut entries);
    entries
}

fn patterns(random: &mut Random) -> Vec<String> {
    let rule = |random: &mut Random| {
        pick(
            random,
            &[
                "--exclude=*.o",
                "--include=keep",
                "--exclude=/dir",
                "--exclude=dir/",
                "--filter=P *.txt",
                "--filter=H a",
                "--include=*/",
                "--exclude=a",
                "--filter=R b",
                "--exclude=**/e e",
                "--filter=-! */",
            ],
        )
        .to_owned()
    };
    (0..random.below(3)).map(|_| rule(random)).collect()
}

/// Options that both programs get.
fn options(random: &mut Random) -> Vec<String> {
    let mut options = vec![
        pick(random, &["-a", "-a", "-a", "-rlt", "-rl", "-rlpt", "-rtp", "-r", "-a --no-p", "-dlt"])
            .to_owned(),
    ];
    let deletes = ["--delete", "--delete-after", "--delete-before", "--delete --delete-excluded", "--del"];
    for (one_in, of) in [
        (2, &deletes[..]),
        (4, &["-c", "-I", "--size-only", "-u"][..]),
        (6, &["--existing", "--ignore-existing", "--existing --ignore-existing"]),
        (8, &["-n"]),
        (8, &["-O", "-J", "-OJ"]),
        (8, &["--modify-window=1", "--modify-window=2"]),
        (8, &["--chmod=D755,F644", "--chmod=go-w", "--chmod=u=rwX,go=rX"]),
    ] {
        if random.below(one_in) == 0 {
            options.push(pick(random, of).to_owned());
        }
    }
    options.push("-i".to_owned());
    options.iter().flat_map(|words| words.split(' ').map(str::to_owned)).chain(patterns(random)).collect()
}

/// Lines of changes, without direction and order.
fn changes(output: &[u8], options: &[String]) -> BTreeSet<String> {
    let deletes_before = options.iter().any(|option| option == "--delete-before");
    let is_dry = options.iter().any(|option| option == "-n");
    let text = String::from_utf8_lossy(output);
    text.lines()
        // A notice, not a change.
        .filter(|line| !line.is_empty() && !line.starts_with("cannot delete"))
        .filter(|line| !line.starts_with("skipping non-regular"))
        .map(|line| line.replacen('<', ">", usize::from(line.starts_with('<'))))
        // rsync deletes before it looks at a directory's time, this program after that.
        .filter(|line| !(deletes_before && line.starts_with(".d..t......")))
        // A dry run of rsync lists directories that what is protected in them would keep.
        .filter(|line| !(is_dry && line.starts_with("*deleting") && line.ends_with('/')))
        .collect()
}

fn rsync(case: &Case, options: &[String], from: &Path, to: &Path) -> (Option<i32>, BTreeSet<String>, String) {
    let mut command = case.command(Side::Client, "rsync");
    command.args(options).arg(format!("{}/", from.display())).arg(format!("{}/", to.display()));
    let done = case.run(&mut command);
    (done.code, changes(&done.stdout, options), done.stderr)
}

fn sync(
    route: &Route<'_>,
    case: &Case,
    options: &[String],
    from: &str,
    to: &str,
) -> (Option<i32>, BTreeSet<String>, String) {
    let mut command = route.sync(options);
    command.arg(route.source(format!("{from}/"))).arg(route.target(format!("{to}/")));
    let done = case.run(&mut command);
    (done.code, changes(&done.stdout, options), done.stderr)
}

fn is_installed() -> bool {
    Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn compare(case: &Case, route: &Route<'_>, seed: u64) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(77));
    let place = |what: &str| format!("{what}{seed}");
    let source = route.source_path(place("source"));
    let (ours, theirs) = (route.target_path(place("ours")), case.path(place("theirs")));
    let tree = random.next();
    for top in [&source, &ours, &theirs] {
        make_tree(top, &mut Random::new(tree), 2);
    }
    change_tree(&source, &mut random, 2);
    let target = random.next();
    for top in [&ours, &theirs] {
        change_tree(top, &mut Random::new(target), 2);
    }
    let options = options(&mut random);
    let began =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs() as i64 - 1;
    for round in ["first", "second"] {
        let theirs_done = rsync(case, &options, &source, &theirs);
        let ours_done = sync(route, case, &options, &place("source"), &place("ours"));
        let told = format!(
            "seed {seed}, {round} run of {options:?}\nrsync: {:?} {}\nfobs: {:?} {}",
            theirs_done.0, theirs_done.2, ours_done.0, ours_done.2
        );
        let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
            one.difference(other).cloned().collect::<Vec<_>>()
        };
        let apart = (only(&ours_done.1, &theirs_done.1), only(&theirs_done.1, &ours_done.1));
        assert_eq!(apart, (Vec::new(), Vec::new()), "lists of ours and rsync's; {told}");
        let (our_tree, their_tree) = (listing(&ours, began), listing(&theirs, began));
        let differ: Vec<_> = our_tree
            .keys()
            .chain(their_tree.keys())
            .filter(|path| our_tree.get(*path) != their_tree.get(*path))
            .map(|path| (path, our_tree.get(path), their_tree.get(path)))
            .collect();
        assert!(differ.is_empty(), "trees of ours and rsync's: {differ:#?}\n{told}");
        assert_eq!(theirs_done.0 == Some(0), ours_done.0 == Some(0), "exit codes; {told}");
    }
    for top in [source, ours, theirs] {
        fs::remove_dir_all(top).expect("own directory");
    }
}

fn compare_all(name: &'static str, direction: Direction, offset: u64) {
    if !is_installed() {
        return;
    }
    let mut seed = 0;
    while seed < SEEDS / 2 {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        for seed in seed..(seed + SEEDS_A_CASE).min(SEEDS / 2) {
            compare(&case, &route, 2 * seed + offset);
        }
        seed += SEEDS_A_CASE;
    }
}

#[test]
fn a_pushed_sync_ends_as_that_of_rsync() {
    compare_all("a_pushed_sync_ends_as_that_of_rsync", Direction::Push, 0);
}

#[test]
fn a_pulled_sync_ends_as_that_of_rsync() {
    compare_all("a_pulled_sync_ends_as_that_of_rsync", Direction::Pull, 1);
}

#[test]
fn a_file_unchanged_by_size_and_time_is_not_read() {
    let case = Case::new("a_file_unchanged_by_size_and_time_is_not_read");
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO as u64);
    for (side, content) in [(route.source_path("tree"), b"source"), (route.target_path("tree"), b"target")] {
        fs::create_dir(&side).expect("a fresh directory");
        fs::write(side.join("file"), content).expect("a fresh file");
        let file = File::options().write(true).open(side.join("file")).expect("own file");
        file.set_times(FileTimes::new().set_modified(old)).expect("own file");
    }
    let mut command = route.sync(&["-a".to_owned()]);
    case.run(command.arg(route.source("tree/")).arg(route.target("tree"))).expect_success();
    assert_eq!(fs::read(route.target_path("tree/file")).expect("it is there"), b"target");
}

#[test]
fn options_that_are_not_built_end_before_anything_is_done() {
    let case = Case::new("options_that_are_not_built_end_before_anything_is_done");
    let mut command = case.fobs(Side::Client);
    let done = case.run(command.args(["sync", "-a", "--fuzzy", "nowhere/", "host:"])).expect_code(1);
    assert!(done.stderr.contains("--fuzzy (-y) is not built: "), "{}", done.stderr);
}
