//! Lines with sources of their own (homes, patterns, quotes, names that begin with `-`), played with both
//! programs over one sshd: equal trees at both ends, and equal exit codes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::case::Case;
use super::sshd::HOST;
use super::sync_lines::{Bench, is_installed};
use super::sync_public::ROWS;
use super::sync_trees::{listing, set_time};

const THERE: &[&str] = &[
    "a.conf",
    "b.conf",
    ".hidden.conf",
    "a1",
    "a2",
    "a3",
    "star*",
    "br{a,b}",
    "-n",
    "-dash/f",
    "dir/x.conf",
    "dir/y.txt",
    "sub/deep/q.conf",
    "with space/in side",
    "ways/way/in",
    "nodirs/here",
    "empty/",
];
const HERE: &[&str] =
    &["l1.conf", "l2.conf", "we ird", "-loc", "here/l", "here/sub/k", "way", "empty/", "out/"];

/// Targets whose times are not compared after a failure.
const TRIED: &[&str] = &["", "out", "ways"];

fn make(top: &Path, entries: &[&str]) {
    for entry in entries {
        let path = top.join(entry);
        if entry.ends_with('/') {
            fs::create_dir_all(&path).expect("our own place");
        } else {
            fs::create_dir_all(path.parent().expect("it is below")).expect("our own place");
            fs::write(&path, entry).expect("our own place");
        }
    }
    for entry in entries.iter().flat_map(|entry| Path::new(entry).ancestors()) {
        set_time(&top.join(entry), 1_000_000);
    }
}

fn clear(top: &Path) {
    for entry in fs::read_dir(top).expect("our own place").flatten() {
        let path = entry.path();
        let gone = if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        gone.expect("our own place");
    }
}

fn play(bench: &Bench<'_>, (line, sources, target): (&str, &[&str], &str)) -> Option<String> {
    let (here, there) = (bench.place(""), bench.sshd.root.clone());
    let run = |program: &str| {
        clear(&here);
        clear(&there);
        make(&there, THERE);
        symlink("none", there.join("dang")).expect("a fresh link");
        make(&here, HERE);
        let named = |word: &str| word.replacen("host:", &format!("{HOST}:"), 1);
        let sources: Vec<String> = sources.iter().map(|word| named(word)).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let (options, target) = (bench.line(line), named(target));
        let done = match program {
            "rsync" => bench.rsync(&options, &sources, &target),
            _ => bench.fobs(&options, &sources, &target),
        };
        let trees = [&here, &there].map(|top| listing(top, None, bench.opened));
        (done, trees)
    };
    let ((theirs, their_trees), (ours, our_trees)) = (run("rsync"), run("fobs"));
    let told = format!(
        "{line} {sources:?} {target}: rsync {:?} {}; fobs {:?} {}",
        theirs.code, theirs.stderr, ours.code, ours.stderr
    );
    if theirs.code != ours.code {
        return Some(told);
    }
    let our_run_failed = ours.code != Some(0);
    for (ours, theirs) in our_trees.iter().zip(&their_trees) {
        // After a failure, a directory that was not sent has the time at which something was tried in it.
        let is_tried = |path: &Path| our_run_failed && TRIED.iter().any(|tried| path == Path::new(tried));
        let all = ours.keys().chain(theirs.keys()).filter(|path| !is_tried(path));
        let apart: Vec<_> = all.filter(|path| ours.get(*path) != theirs.get(*path)).collect();
        if let Some(first) = apart.first() {
            return Some(format!("{told}\n  {apart:?}\n  {:?} {:?}", ours.get(*first), theirs.get(*first)));
        }
    }
    None
}

#[test]
fn rows_with_sources_of_their_own_end_as_with_rsync() {
    if !is_installed() {
        return;
    }
    let case = Case::new("rows_with_sources_of_their_own_end_as_with_rsync");
    let bench = Bench::open_at_home(&case);
    // All in the second tier.
    let one_of = if cfg!(feature = "long") { 1 } else { 4 };
    let some = ROWS.iter().skip(case.seed() as usize % one_of).step_by(one_of);
    let apart: Vec<String> = some.filter_map(|row| play(&bench, *row)).collect();
    assert!(apart.is_empty(), "{} of {} differ:\n{}", apart.len(), ROWS.len(), apart.join("\n"));
}
