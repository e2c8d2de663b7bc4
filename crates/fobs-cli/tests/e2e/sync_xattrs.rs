//! Extended attributes by rules for their names (`-f '-x user.*'`), beside rsync: equal attributes, equal
//! lines of `-i`, equal exit codes.

use std::fs;
use std::path::Path;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};

use super::case::Case;
use super::process::Finished;
use super::remote::Direction;
use super::sshd::HOST;
use super::sync_lines::{Bench, is_installed};
use super::sync_trees::set_time;

/// A line and its direction; from here to here without.
const SCENES: &[(&str, Option<Direction>)] = &[
    ("-aiX -f '-x user.skip'", None),
    ("-aiX -f '-x user.skip' --delete", Some(Direction::Push)),
    ("-aiX -f '-xs user.skip'", Some(Direction::Push)),
    ("-aiX --filter='exclude,xs user.skip' -f '-xr user.own' --delete", Some(Direction::Push)),
    ("-aiX -f '-x! user.*'", Some(Direction::Pull)),
    ("-aiX -f '-xr *'", Some(Direction::Pull)),
    ("-aiX -f '+x user.keep' -f '-x *'", None),
    ("-aiX --filter=': .rules'", None),
    ("-aX --filter=': .rules' --delete", Some(Direction::Push)),
    ("-aiX --filter='dir-merge,- .rules'", None),
    ("-aiX -f '. EXCLUDES'", Some(Direction::Pull)),
    ("-aiX -f '-xp user.s?ip' -f '-x trusted.**' --delete-excluded", None),
    ("-aiX -f '-x dir' -f '-x user/*'", Some(Direction::Pull)),
    ("-ai -f '-x user.skip'", Some(Direction::Pull)),
    ("-aiXn -f '-x user.skip'", None),
    ("-aiX --fake-super", None),
    ("-aX --fake-super -f '-x user.keep' -f '-x system.*'", None),
    ("-aX -M--fake-super", Some(Direction::Push)),
    ("-aXX", Some(Direction::Push)),
    ("-aiXX", None),
    ("-aXX --fake-super", None),
    ("-aX -f 'x user.skip'", None),
];

const SOURCE: &[(&str, &[&str])] = &[
    ("file", &["user.keep", "user.skip", "trusted.t", "user.rsync.%note", "user.rsync.of-ours"]),
    ("dir", &["user.keep", "user.skip", "trusted.t"]),
    ("dir/inner", &["user.skip", "user.cache"]),
    ("dir/deep", &["user.cache"]),
    ("dir/deep/file", &["user.cache", "user.keep"]),
    ("plain", &["user.cache"]),
];
const TARGET: &[(&str, &[&str])] = &[
    ("file", &["user.own", "user.skip"]),
    ("dir", &["user.own", "user.cache"]),
    ("dir/inner", &["user.own", "user.cache"]),
    ("gone", &["user.skip"]),
];

fn make(top: &Path, entries: &[(&str, &[&str])], value: &str) {
    fs::create_dir_all(top.join("dir/deep")).expect("our own place");
    fs::write(top.join("dir/.rules"), "-x user.cache\n- user.cache\n").expect("our own place");
    set_time(&top.join("dir/.rules"), 1_000_000);
    for (name, attributes) in entries {
        let path = top.join(name);
        if !path.is_dir() {
            fs::write(&path, name).expect("our own place");
            set_time(&path, 1_000_000);
        }
        for attribute in *attributes {
            lsetxattr(&path, *attribute, value.as_bytes(), XattrFlags::empty()).expect("root may");
        }
    }
    for directory in ["dir/deep", "dir", ""] {
        set_time(&top.join(directory), 1_000_000);
    }
}

/// The attributes of everything below a place, by path and name.
fn attributes(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        let mut names = vec![0; 4096];
        let len = llistxattr(&path, &mut names[..]).expect("it is there");
        for name in names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0; 256];
            let len = lgetxattr(&path, name, &mut value[..]).expect("it has it");
            let shown = path.strip_prefix(top).expect("below").display().to_string();
            found.push(format!("{shown} {} {}", name.escape_ascii(), value[..len].escape_ascii()));
        }
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("it is there").flatten();
            waiting.extend(entries.map(|entry| entry.path()));
        }
    }
    found.sort();
    found
}

fn play(bench: &Bench<'_>, number: usize, (line, direction): (&str, Option<Direction>)) -> Option<String> {
    let run = |program: &str| -> (Finished, Vec<String>) {
        let (here, there) = (bench.place(program), bench.sshd.root.join(program));
        let pull = direction == Some(Direction::Pull);
        let (from, to) = match direction {
            None => (here.clone(), here),
            Some(Direction::Push) => (here, there),
            Some(Direction::Pull) => (there, here),
        };
        let (from, to) = (from.join(format!("{number}/src")), to.join(format!("{number}/dst")));
        make(&from, SOURCE, "new");
        make(&to, TARGET, "old");
        let named = |path: &Path, is_there: bool| {
            if is_there { format!("{HOST}:{}/", path.display()) } else { format!("{}/", path.display()) }
        };
        let source = named(&from, pull);
        let target = named(&to, direction == Some(Direction::Push));
        let options = bench.line(line);
        let done = match program {
            "theirs" => bench.rsync(&options, &[&source], &target),
            _ => bench.fobs(&options, &[&source], &target),
        };
        (done, attributes(&to))
    };
    let ((theirs, their_tree), (ours, our_tree)) = (run("theirs"), run("ours"));
    let lines = |done: &Finished| {
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        // Deletions come at other moments.
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let is_same = theirs.code == ours.code && lines(&theirs) == lines(&ours) && their_tree == our_tree;
    (!is_same).then(|| {
        let apart = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        format!(
            "{line} {direction:?}: rsync {:?} {} {:?} {:?}; fobs {:?} {} {:?} {:?}",
            theirs.code,
            theirs.stderr,
            apart(&their_tree, &our_tree),
            lines(&theirs),
            ours.code,
            ours.stderr,
            apart(&our_tree, &their_tree),
            lines(&ours)
        )
    })
}

#[test]
fn names_of_attributes_are_chosen_as_by_rsync() {
    if !is_installed() {
        return;
    }
    let case = Case::new("names_of_attributes_are_chosen_as_by_rsync");
    let bench = Bench::open(&case);
    fs::write(bench.place("excludes"), "-xs user.skip\n-xr user.own\n").expect("our own place");
    let played = SCENES.iter().enumerate().filter_map(|(number, scene)| play(&bench, number, *scene));
    let apart: Vec<String> = played.collect();
    assert!(apart.is_empty(), "{} of {} differ:\n{}", apart.len(), SCENES.len(), apart.join("\n"));
}

/// A rule for both ends protects at the destination of a push, too; rsync tells the other end of rules only
/// with `--delete` or `-m`.
#[test]
fn a_push_removes_no_attribute_that_a_rule_excludes() {
    let case = Case::new("a_push_removes_no_attribute_that_a_rule_excludes");
    let bench = Bench::open(&case);
    let (from, to) = (bench.place("src"), bench.sshd.root.join("dst"));
    make(&from, SOURCE, "new");
    make(&to, TARGET, "old");
    let target = format!("{HOST}:{}/", to.display());
    bench
        .fobs(&bench.line("-aX -f '-x user.own'"), &[&format!("{}/", from.display())], &target)
        .expect_success();
    let kept = attributes(&to);
    for expected in ["file user.own old", "file user.skip new", "dir user.own old"] {
        assert!(kept.iter().any(|line| line == expected), "{expected}: {kept:?}");
    }
}
