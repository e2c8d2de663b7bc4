//! What a push says of a destination that it makes, of what rules leave out and of what stays, as rsync says
//! it:
//! the same lines, once each.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::case::Case;
use super::sshd::HOST;
use super::sync_lines::{Bench, is_installed};
use super::sync_trees::set_time;

/// Each file with its time.
const SOURCE: &[(&str, i64)] = &[("a/both", 1_000_000), ("a/new", 1_000_000), ("a/deep/file", 1_000_000)];
const TARGET: &[(&str, i64)] =
    &[("both", 2_000_000), ("only/keep", 1_000_000), ("only/goes", 1_000_000), ("only/in/keep", 1_000_000)];

/// Of the contents of a directory, into one that is there.
const THERE: &[&str] = &[
    "-av --info=skip -u",
    "-avi --info=skip --existing",
    "-a --info=skip,name --ignore-existing",
    "-av --info=skip --max-size=1",
    "-av --info=skip --min-size=7",
    "-av --safe-links",
    "-ai --safe-links --info=symsafe0",
    "-a --delete --exclude=keep",
    "-av --delete --exclude=keep",
    "-aq --delete --exclude=keep",
    "-an --delete --exclude=/only/in/keep",
    "-a --delete --max-delete=0",
    "-a -u -ii",
    "-a --copy-unsafe-links --info=none -i",
];

/// Of these sources, to a destination that is not there.
const MADE: &[(&str, &[&str], &str)] = &[
    ("-av", &["a"], "new"),
    ("-ai", &["a"], "new/"),
    ("-a", &["a"], "new"),
    ("-a --out-format=%n", &["a"], "new"),
    ("-avn", &["a"], "new"),
    ("-avn --mkpath", &["a"], "new/deep"),
    ("-av --mkpath", &["a/"], "new/deep/er"),
    ("-av --mkpath", &["a/new"], "new/deep"),
    ("-av --mkpath", &["a/new"], "new/deep/"),
    ("-av --mkpath", &["a/new"], "new"),
    ("-av", &["a/new", "a/both"], "new"),
    ("-av", &["a/new"], "new"),
    ("-av", &["a/new"], "new/"),
    ("-aR --info=name", &["a/new"], "new"),
    ("-av", &["none", "a/new"], "new/"),
    ("-av", &["none"], "new/"),
    ("-a", &["none"], "new/"),
    ("-av", &["none"], "new"),
    ("-av --delay-updates", &["a"], "new"),
    ("-avk", &["to-a"], "new"),
    ("-ak", &["to-a/new"], "new"),
    ("-a --copy-unsafe-links", &["out"], "new"),
];

fn make(top: &Path, files: &[(&str, i64)]) {
    for (name, time) in files {
        let path = top.join(name);
        fs::create_dir_all(path.parent().expect("it is below")).expect("our own place");
        fs::write(&path, name).expect("our own place");
        set_time(&path, *time);
    }
    settle(top);
}

/// Gives each directory the same time.
fn settle(top: &Path) {
    for entry in fs::read_dir(top).expect("our own place").flatten() {
        if entry.file_type().expect("it is there").is_dir() {
            settle(&entry.path());
        }
    }
    set_time(top, 1_000_000);
}

/// The lines of a push without those about bytes and time, sorted, each once; the code; and what is there
/// then.
fn run(bench: &Bench<'_>, program: &str, line: &str, sources: &[&str], target: &Path) -> Said {
    let options = bench.line(line);
    // As it was given, with the slash at its end.
    let target_word = format!("{HOST}:{}", target.to_str().expect("ASCII"));
    let done = match program {
        "rsync" => bench.rsync(&options, sources, &target_word),
        _ => bench.fobs(&options, sources, &target_word),
    };
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let counts = |line: &&str| !line.starts_with("sent ") && !line.contains("speedup is");
    let mut lines: Vec<String> = text.lines().filter(counts).map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    (lines, done.code, done.stderr)
}

type Said = (Vec<String>, Option<i32>, String);

/// What differs between two runs at one place, which `prepare` makes anew for each.
fn difference(
    bench: &Bench<'_>,
    (line, sources, target): (&str, &[&str], &Path),
    prepare: &dyn Fn(),
) -> Option<String> {
    let play = |program| {
        prepare();
        run(bench, program, line, sources, target)
    };
    let (theirs, ours) = (play("rsync"), play("fobs"));
    (theirs.0 != ours.0 || theirs.1 != ours.1)
        .then(|| format!("{line} {sources:?} {}:\n  rsync {theirs:?}\n  fobs {ours:?}", target.display()))
}

/// A source with links, and the place of the targets.
fn trees(bench: &Bench<'_>) -> PathBuf {
    let here = bench.place("");
    make(&here, SOURCE);
    symlink("/etc/hostname", here.join("a/out")).expect("a fresh link");
    symlink("a/new", here.join("to-new")).expect("a fresh link");
    symlink("a", here.join("to-a")).expect("a fresh link");
    symlink("/etc/hostname", here.join("out")).expect("a fresh link");
    settle(&here);
    bench.sshd.root.join("said")
}

/// Removes a tree, if it is there.
fn remove(place: &Path) {
    if place.exists() {
        fs::remove_dir_all(place).expect("ours");
    }
}

#[test]
fn what_is_left_out_and_what_stays_is_said_as_by_rsync() {
    if !is_installed() {
        return;
    }
    let case = Case::new("what_is_left_out_and_what_stays_is_said_as_by_rsync");
    let bench = Bench::open(&case);
    let place = trees(&bench);
    let prepare = || {
        remove(&place);
        make(&place, TARGET);
    };
    let apart: Vec<String> =
        THERE.iter().filter_map(|line| difference(&bench, (line, &["a/"], &place), &prepare)).collect();
    assert!(apart.is_empty(), "{} of {} differ:\n{}", apart.len(), THERE.len(), apart.join("\n"));
}

/// A tree of entries that are like the target's in another way each.
fn alike(top: &Path, is_source: bool) {
    make(top, &[("same", 1_000_000), ("sum", 1_000_000), ("size", 1_000_000), ("time", 1_000_000)]);
    make(top, &[("mode", 1_000_000), ("in/same", 1_000_000), (if is_source { "kind" } else { "kind/x" }, 1)]);
    let place = |name: &str| top.join(name);
    symlink("same", place("link")).expect("a fresh link");
    symlink(if is_source { "sum" } else { "size" }, place("other-link")).expect("a fresh link");
    symlink("same", place("timed-link")).expect("a fresh link");
    ["link", "other-link"].iter().for_each(|name| set_time(&place(name), 1_000_000));
    set_time(&place("timed-link"), if is_source { 1_000_000 } else { 2_000_000 });
    if !is_source {
        fs::write(place("sum"), "mus").expect("ours");
        fs::write(place("size"), "longer").expect("ours");
        fs::set_permissions(place("mode"), fs::Permissions::from_mode(0o600)).expect("ours");
        set_time(&place("time"), 2_000_000);
        ["sum", "size"].iter().for_each(|name| set_time(&place(name), 1_000_000));
    }
    settle(top);
}

#[test]
fn what_is_there_is_told_by_its_likeness_as_by_rsync() {
    if !is_installed() {
        return;
    }
    let case = Case::new("what_is_there_is_told_by_its_likeness_as_by_rsync");
    let bench = Bench::open(&case);
    alike(&bench.place("like"), true);
    let place = bench.sshd.root.join("likeness");
    let prepare = || {
        remove(&place);
        alike(&place, false);
    };
    let lines = ["-a", "-rl", "-rlt", "-ac", "-rlpc", "-rlp --size-only", "-aI", "-an"];
    let levels = ["skip2,name", "skip", "skip2,name2"];
    let told =
        lines.iter().flat_map(|line| levels.map(|level| format!("{line} --info={level} --ignore-existing")));
    let apart: Vec<String> =
        told.filter_map(|line| difference(&bench, (&line, &["like/"], &place), &prepare)).collect();
    assert!(apart.is_empty(), "{} differ:\n{}", apart.len(), apart.join("\n"));
}

#[test]
fn directories_that_are_made_for_a_destination_are_said_as_by_rsync() {
    if !is_installed() {
        return;
    }
    let case = Case::new("directories_that_are_made_for_a_destination_are_said_as_by_rsync");
    let bench = Bench::open(&case);
    let place = trees(&bench);
    let prepare = || {
        remove(&place);
        fs::create_dir_all(&place).expect("our own place");
    };
    let played = MADE.iter().filter_map(|(line, sources, target)| {
        let target = PathBuf::from(format!("{}/{target}", place.display()));
        difference(&bench, (line, sources, &target), &prepare)
    });
    let apart: Vec<String> = played.collect();
    assert!(apart.is_empty(), "{} of {} differ:\n{}", apart.len(), MADE.len(), apart.join("\n"));
}

#[test]
fn a_destination_in_which_nothing_changes_keeps_its_time() {
    let case = Case::new("a_destination_in_which_nothing_changes_keeps_its_time");
    let bench = Bench::open(&case);
    trees(&bench);
    let top = bench.sshd.root.join("kept");
    make(&top.join("a"), &[("new", 1_000_000)]);
    make(&top, &[("note", 1_000_000)]);
    let at = format!("{HOST}:{}", top.display());
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(3_000_000);
    for (line, sources, code) in [
        // Something changes in a directory below.
        ("-rt", &["a"][..], 0),
        ("-a --existing", &["to-new"], 0),
        ("-a", &["none"], 23),
        ("-rt --exclude=*", &["a"], 0),
    ] {
        set_time(&top, 3_000_000);
        bench.fobs(&bench.line(line), sources, &at).expect_code(code);
        let found = fs::metadata(&top).and_then(|found| found.modified()).expect("it is there");
        assert_eq!(found, time, "{line} {sources:?}");
    }
    // A new name does change it.
    set_time(&top, 3_000_000);
    bench.fobs(&bench.line("-a"), &["a/both"], &at).expect_success();
    assert_ne!(fs::metadata(&top).and_then(|found| found.modified()).expect("it is there"), time);
}
