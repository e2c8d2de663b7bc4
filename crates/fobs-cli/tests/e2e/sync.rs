//! `fobs sync` beside the installed rsync: the same random trees and options end in equal trees and equal
//! lists of changes.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::ops::Range;
use std::os::unix::fs::lchown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::case::Case;
use super::files::Random;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};
use super::sync_deltas::{Version, plant};
use super::sync_trees::{
    Abilities, Entry, FileKind, LONG_AGO, change_tree, just_now, listing, make_tree, pick,
};

/// Seeds of an ordinary run, and of a long one.
const SEEDS: u64 = if cfg!(feature = "long") { 500 } else { 20 };
/// How long rsync may take; a tree of this test takes it far less than one.
const RSYNC_SECONDS: &str = "20";
/// Its exit codes after which nothing is compared: an error of its own protocol (`RERR_PROTOCOL`), and that
/// of `timeout`.
const RSYNC_FAILED: [i32; 2] = [2, 124];
/// Seeds in one case, which has a deadline.
const SEEDS_A_CASE: usize = 20;

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

/// What both programs do: their options, and the directories that those name.
struct Task {
    options: Vec<String>,
    /// The names of `--files-from`.
    names: Option<String>,
    /// Whether there is a tree for `--link-dest`.
    basis: bool,
}

impl Task {
    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|given| given == option)
    }

    /// Whether a letter is among those of `-HAX` and the like.
    fn keeps_owners(&self) -> bool {
        (self.has_letter('o') || self.has_letter('a')) && !self.has("--no-o")
    }

    fn has_letter(&self, letter: char) -> bool {
        self.options.iter().any(|given| !given.starts_with("--") && given.contains(letter))
    }
}

/// The draws of one kind of choice: a new kind, or one more draw of another, shifts none of them.
fn stream(seed: u64, kind: &str) -> Random {
    // FNV-1a (Fowler, Noll and Vo) of the kind's name, begun with the seed.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    Random::new(kind.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, hash))
}

fn task(seed: u64) -> Task {
    let kept = ["-a", "-a", "-a", "-rlt", "-rl", "-rlpt", "-rtp", "-r", "-a --no-p", "-dlt"];
    let mut options = vec![pick(&mut stream(seed, "kept"), &kept).to_owned()];
    let deletes = ["--delete", "--delete-after", "--delete-before", "--delete --delete-excluded", "--del"];
    for (one_in, of) in [
        (2, &deletes[..]),
        (4, &["-c", "-I", "--size-only", "-u"][..]),
        (8, &["--max-size=2k", "--min-size=100", "--max-size=1KB-1 --min-size=1"]),
        (6, &["--existing", "--ignore-existing", "--existing --ignore-existing"]),
        (8, &["-n"]),
        (8, &["-O", "-J", "-OJ"]),
        (8, &["--modify-window=1", "--modify-window=2"]),
        (4, &["--chmod=D755,F644", "--chmod=go-w", "--chmod=u=rwX,go=rX", "-A", "-HAX"]),
        (4, &["-H", "-X", "-HX"]),
        (6, &["-o", "-g", "-og", "-D", "--no-o", "--no-g", "--no-D"]),
        (8, &["-S", "-x", "-Sx"]),
        (6, &["--backup", "--backup --suffix=.old"]),
        (6, &["--remove-source-files"]),
        (3, &["--no-whole-file", "-W", "--no-whole-file -y"]),
    ] {
        let mut random = stream(seed, of[0]);
        if random.below(one_in) == 0 {
            options.push(pick(&mut random, of).to_owned());
        }
    }
    if options.iter().any(|option| option.contains('H')) {
        // rsync 3.5.0 hangs with it where something else has the name of a directory; and what these look at
        // is the first of a file's names, which is another one here (docs/guide.md).
        options.retain(|option| !option.contains("existing") && option != "-u");
    }
    if ["FOBS_TEST_BIN", "FOBS_TEST_PEER_BIN"].iter().any(|other| std::env::var_os(other).is_some()) {
        // 0.2.0 refuses them.
        options.retain(|option| !option.contains("-size=") && !option.contains("-y"));
    }
    options.push("-i".to_owned());
    let options = options.iter().flat_map(|words| words.split(' ').map(str::to_owned));
    let options = options.chain(patterns(&mut stream(seed, "--filter"))).collect();
    let mut random = stream(seed, "--files-from");
    let names = (random.below(6) == 0).then(|| {
        let some = ["a", "b", "dir", "dir/a", "dir/keep", "e e", "z.o", "keep", "dir/dir/a"];
        some.iter().filter(|_| random.below(2) == 0).map(|name| format!("{name}\n")).collect()
    });
    Task { options, names, basis: stream(seed, "--link-dest").below(6) == 0 }
}

/// Lines of changes, without direction and order.
fn changes(output: &[u8], task: &Task) -> BTreeSet<String> {
    let (deletes_before, is_dry) = (task.has("--delete-before"), task.has("-n"));
    // Backups that --delete-excluded does not protect are replaced here, and deleted and made again there.
    let backs_up = task.has("--backup") && (task.basis || task.has("--delete-excluded"));
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
        // The backups that only this program makes there are deleted later.
        .filter(|line| !(backs_up && line.starts_with("*deleting") && is_backup(Path::new(line))))
        .filter_map(|line| plain(&line, task))
        .collect()
}

/// Whether a path is that of a backup.
fn is_backup(path: &Path) -> bool {
    ["~", ".old"].iter().any(|suffix| path.as_os_str().as_encoded_bytes().ends_with(suffix.as_bytes()))
}

/// A line without what may differ.
fn plain(line: &str, task: &Task) -> Option<String> {
    match line.get(1..2) {
        // Which of a file's names comes first is the order of the directory here, of the alphabet there.
        Some("f" | "L" | "S" | "D") if task.has_letter('H') => None,
        // Permissions are a part of an ACL, and either may be shown.
        Some("f")
            if task.has_letter('A') && (line.get(5..6) == Some("p") || line.get(9..10) == Some("a")) =>
        {
            Some(format!("{}p{}.{}", &line[..5], &line[6..9], &line[10..]))
        }
        // Another user's file that gets an owner is sent here, and dressed there (docs/security.md).
        Some("f") if line.starts_with('>') && line.get(2..4) == Some("..") && line.get(6..7) == Some("o") => {
            Some(line.replacen('>', ".", 1))
        }
        // What differs from the file of --link-dest in its attributes only is copied there and sent here.
        Some("f") if task.basis && line.starts_with('c') => Some(line.replacen('c', ">", 1)),
        _ => Some(line.to_owned()),
    }
}

type Outcome = (Option<i32>, BTreeSet<String>, String);

fn rsync(case: &Case, task: &Task, from: &Path, to: &Path) -> Outcome {
    // It hangs now and then by itself.
    let mut command = case.command(Side::Client, "timeout");
    command
        .args([RSYNC_SECONDS, "rsync"])
        .args(&task.options)
        .arg(format!("{}/", from.display()))
        .arg(format!("{}/", to.display()));
    let done = case.run(&mut command);
    (done.code, changes(&done.stdout, task), done.stderr)
}

fn sync(route: &Route<'_>, case: &Case, task: &Task, from: &str, to: &str) -> Outcome {
    let mut command = route.sync(&task.options);
    command.arg(route.source(format!("{from}/"))).arg(route.target(format!("{to}/")));
    let done = case.run(&mut command);
    (done.code, changes(&done.stdout, task), done.stderr)
}

fn is_installed() -> bool {
    Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Which tree is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Target,
}

/// A path that is compared.
struct At<'a> {
    path: &'a Path,
    /// Whether `--ignore-existing` leaves it where the source has a directory.
    is_left: bool,
    /// What the source has there.
    source: Option<&'a Entry>,
}

/// Whether two entries differ in more than docs/guide.md says they may.
fn differ(
    At { path, is_left, source }: At<'_>,
    ours: Option<&Entry>,
    theirs: Option<&Entry>,
    task: &Task,
    end: End,
) -> bool {
    match (ours, theirs) {
        // What a link replaces is kept here.
        (Some(_), None) => !((task.basis || task.has_letter('H')) && task.has("--backup") && is_backup(path)),
        // A link that --link-dest has goes from the source here, and stays there.
        (None, Some(theirs)) => {
            let is_linked = task.basis && task.has("--remove-source-files");
            !(is_linked && end == End::Source && theirs.kind() != FileKind::File)
        }
        (Some(ours), Some(theirs)) => {
            let mut ours = ours.clone();
            // rsync gives what it left the directory's time.
            if is_left || task.options.iter().any(|option| option.starts_with("--modify-window")) {
                ours.take_time(theirs);
            }
            if task.has("--no-p") && task.has_letter('X') && !ours.xattrs_are_empty() {
                // rsync gives a file whose extended attributes it sets the source's mode.
                ours.take_mode(theirs);
            }
            if task.basis && source.is_some_and(|source| ours.has_content_of(source)) {
                // Sent here, and linked or copied from the directory of --link-dest there, whose file has the
                // size and time alone; and which of a file's names is looked for there is the order.
                ours.take_file(theirs);
            }
            let keeps_times = task.has_letter('t') || task.has_letter('a');
            if task.has_letter('H') && !keeps_times && ours.has_content_of(theirs) {
                // The first of a file's names was sent here, and was the same already there.
                ours.take_time(theirs);
                ours.take_owner(theirs);
            }
            let keeps_modes = (task.has_letter('p') || task.has_letter('a')) && !task.has("--no-p");
            if !keeps_modes && (task.has_letter('H') || ours.is_narrower(theirs)) {
                // The mode of the first of a file's names is kept, and the order differs; a third user's file
                // lets others do no more than the source's here.
                ours.take_mode(theirs);
            }
            ours != *theirs
        }
        (None, None) => false,
    }
}

/// What differs between two trees.
fn difference(
    (ours, theirs): (&Path, &Path),
    source: &Path,
    beside: &str,
    began: i64,
    task: &Task,
    end: End,
) -> Vec<String> {
    let beside = |top: &Path| top.parent().map(|parent| parent.join(beside));
    let (ours, theirs) =
        (listing(ours, beside(ours).as_deref(), began), listing(theirs, beside(theirs).as_deref(), began));
    let sources = listing(source, None, began);
    let all: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    all.into_iter()
        .filter(|path| {
            let is_left = task.has("--ignore-existing") && end == End::Target && source.join(path).is_dir();
            let at = At { path, is_left, source: sources.get(*path) };
            differ(at, ours.get(*path), theirs.get(*path), task, end)
        })
        .map(|path| {
            format!("{}:\n  ours {:?}\n  rsync's {:?}", path.display(), ours.get(path), theirs.get(path))
        })
        .collect()
}

/// Whether what rsync did, and said, cannot be compared.
fn is_incomparable(task: &Task, round: &str, said: &str) -> bool {
    // It enters directories that --ignore-existing leaves out, and fails there; a dry run of it looks for
    // attributes of what it did not link.
    let accidents = ["Not a directory (20)", "mkstemp", "gen_entry_copy_xattrs"];
    // What --link-dest has went from the source here, and stayed there.
    let moved = round == "second" && task.basis && task.has("--remove-source-files");
    moved || accidents.iter().any(|accident| said.contains(accident))
}

/// Makes root the owner of all that is in a tree, without a change of its modes.
fn give_to_root(top: &Path) {
    let stat = top.symlink_metadata().expect("it is there");
    lchown(top, Some(0), None).expect("root can");
    if stat.is_dir() {
        fs::read_dir(top).expect("own directory").flatten().for_each(|entry| give_to_root(&entry.path()));
    }
    if !stat.is_symlink() {
        // A change of owner takes setuid and setgid away.
        fs::set_permissions(top, stat.permissions()).expect("own file");
    }
}

fn compare(case: &Case, route: &Route<'_>, seed: u64) {
    let place = |what: &str| format!("{what}{seed}");
    let (our_source, their_source) =
        (route.source_path(place("source")), case.path("rsync").join(place("source")));
    let (ours, theirs) = (route.target_path(place("target")), case.path("rsync").join(place("target")));
    fs::create_dir_all(case.path("rsync")).expect("our own place");
    let abilities = Abilities::try_out(&case.path("rsync"));
    let [tree, source, target, basis] =
        ["tree", "source", "target", "basis"].map(|of| stream(seed, of).next());
    let mut task = task(seed);
    // Which of a file's names is dealt with first is the order of the directory here, of the alphabet there:
    // a file with several of them at the destination before would differ.
    let abilities = Abilities { links: false, acls: abilities.acls && task.has_letter('A'), ..abilities };
    let make = |top: &Path, seeds: &[u64], abilities: Abilities| {
        make_tree(top, &mut Random::new(seeds[0]), 2, abilities);
        seeds[1..].iter().for_each(|seed| change_tree(top, &mut Random::new(*seed), 2, abilities));
    };
    let linked = Abilities { links: task.has_letter('H'), ..abilities };
    [&our_source, &their_source].iter().for_each(|top| make(top, &[tree, source], linked));
    [&ours, &theirs].iter().for_each(|top| make(top, &[tree, target], abilities));
    let beside = place("basis");
    if task.basis {
        let of = |top: &Path| top.parent().expect("it has one").join(&beside);
        [of(&ours), of(&theirs)].iter().for_each(|top| make(top, &[tree, source, basis], abilities));
        if abilities.root && !task.keeps_owners() {
            // A third user's file in that user's directory is linked there, and sent here (docs/security.md).
            [of(&ours), of(&theirs)].iter().for_each(|top| give_to_root(top));
        }
        task.options.push(format!("--link-dest=../{beside}"));
    }
    if let Some(names) = &task.names {
        let file = case.path(place("names"));
        fs::write(&file, names).expect("our own place");
        task.options.push(format!("--files-from={}", file.display()));
    }
    plant_for(&task, seed, [&our_source, &their_source], [&ours, &theirs]);
    let began = just_now();
    for round in ["first", "second"] {
        let theirs_done = rsync(case, &task, &their_source, &theirs);
        let ours_done = sync(route, case, &task, &place("source"), &place("target"));
        if theirs_done.0.is_some_and(|code| RSYNC_FAILED.contains(&code)) {
            eprintln!("seed {seed}: rsync itself failed with {:?}: {}", theirs_done.0, theirs_done.2);
            break;
        }
        let (deletes_last, failed) = (task.has("--delete-after"), theirs_done.0 == Some(23));
        if (task.names.is_some() || (deletes_last && failed)) && ours_done.2.contains("nothing was deleted") {
            // A name of --files-from that is missing keeps everything here, and so does what was not stored.
            break;
        }
        if is_incomparable(&task, round, &theirs_done.2) {
            break;
        }
        let told = format!(
            "seed {seed}, {round} run of {:?}\nnames {:?}\nrsync: {:?} {}\nfobs: {:?} {}",
            task.options, task.names, theirs_done.0, theirs_done.2, ours_done.0, ours_done.2
        );
        let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
            one.difference(other).cloned().collect::<Vec<_>>()
        };
        let apart = (only(&ours_done.1, &theirs_done.1), only(&theirs_done.1, &ours_done.1));
        assert_eq!(apart, (Vec::new(), Vec::new()), "lists of ours and rsync's; {told}");
        for (our, their, end) in [(&ours, &theirs, End::Target), (&our_source, &their_source, End::Source)] {
            let differ = difference((our, their), &our_source, &beside, began, &task, end);
            assert!(differ.is_empty(), "trees:\n{}\n{told}", differ.join("\n"));
        }
        assert_eq!(theirs_done.0 == Some(0), ours_done.0 == Some(0), "exit codes; {told}");
    }
    [our_source, their_source, ours, theirs].iter().for_each(|top| fs::remove_dir_all(top).expect("ours"));
}

/// Files of which deltas are made, where the task is about them.
fn plant_for(task: &Task, seed: u64, sources: [&Path; 2], targets: [&Path; 2]) {
    if task.has("--no-whole-file") {
        sources.iter().for_each(|top| plant(top, seed, Version::New));
        targets.iter().for_each(|top| plant(top, seed, Version::Old));
    }
}

/// The seeds of this run: those of `SYNC_SEEDS=FROM-TO` (TO is left out), to run a part or one again.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("SYNC_SEEDS") else { return 0..SEEDS };
    let (from, to) = text.split_once('-').expect("SYNC_SEEDS=FROM-TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

/// Compares the seeds with this remainder by 2 and says which differ, all of them.
fn compare_all(name: &'static str, direction: Direction, remainder: u64) {
    if !is_installed() {
        return;
    }
    let mut failed = Vec::new();
    let all: Vec<u64> = seeds().filter(|seed| seed % 2 == remainder).collect();
    for some in all.chunks(SEEDS_A_CASE) {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        for seed in some.iter().copied() {
            let run = AssertUnwindSafe(|| compare(&case, &route, seed));
            if catch_unwind(run).is_err() {
                failed.push(seed);
            }
        }
    }
    assert_eq!(failed, Vec::<u64>::new(), "the seeds that differ");
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
fn a_limit_of_deletions_ends_as_that_of_rsync() {
    for (direction, name) in [(Direction::Push, "max_delete_push"), (Direction::Pull, "max_delete_pull")] {
        let case = Case::new(name);
        let route = Route::open(&case, Carrier::Daemon, direction);
        let (source, ours) = (route.source_path("tree"), route.target_path("tree"));
        let theirs = case.path("rsync");
        fs::create_dir(&source).expect("a fresh directory");
        fs::write(source.join("kept"), "kept").expect("a fresh file");
        let count = |top: &Path| fs::read_dir(top).expect("it is there").count();
        for (options, limit) in
            [("--delete", 2), ("--delete-before", 0), ("--delete-after", 5), ("--delete -n", 4)]
        {
            for top in [&ours, &theirs] {
                fs::create_dir(top).expect("a fresh directory");
                (0..5).for_each(|number| {
                    fs::write(top.join(format!("gone{number}")), "").expect("a fresh file")
                });
            }
            let mut all: Vec<String> = options.split(' ').map(str::to_owned).collect();
            all.extend(["-a".to_owned(), format!("--max-delete={limit}")]);
            let mut command = route.sync(&all);
            let done = case.run(command.arg(route.source("tree/")).arg(route.target("tree/")));
            let (expected, left) = if limit < 5 { (25, 5 - limit) } else { (0, 0) };
            assert_eq!(done.code, Some(expected), "{options}: {}", done.stderr);
            let said =
                done.stderr.contains(&format!("{left} more would have been deleted: raise --max-delete"));
            assert_eq!(said, expected == 25, "{options}: {}", done.stderr);
            if !options.contains("-n") {
                assert_eq!(count(&ours), 1 + left, "{options}");
            }
            if is_installed() {
                let task = Task { options: all, names: None, basis: false };
                let rsyncs = rsync(&case, &task, &source, &theirs);
                assert_eq!((rsyncs.0, count(&theirs)), (done.code, count(&ours)), "{options}");
            }
            for top in [&ours, &theirs] {
                fs::remove_dir_all(top).expect("own directory");
            }
        }
    }
}

#[test]
fn options_that_are_not_built_end_before_anything_is_done() {
    let case = Case::new("options_that_are_not_built_end_before_anything_is_done");
    let mut command = case.fobs(Side::Client);
    let done = case.run(command.args(["sync", "-a", "--crtimes", "nowhere/", "host:"])).expect_code(1);
    assert!(done.stderr.contains("--crtimes (-N) is not built: "), "{}", done.stderr);
}
