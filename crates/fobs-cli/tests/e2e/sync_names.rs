//! Names of `-R` and `--files-from` that begin in several directories or end in a slash, sources of equal
//! names, and further names of one file: played with rsync, from here to here and over ssh.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::case::Case;
use super::files::Random;
use super::net::Side;
use super::sshd::HOST;
use super::sync_lines::{Bench, is_installed};
use super::sync_trees::{just_now, listing, set_time};

/// What `-R` and plain sources name, relative to the client's place.
const SOURCES: &[(&str, &[&str])] = &[
    ("-aR", &["p/./d/x", "q/./d/y"]),
    ("-aR --delete", &["p/./d", "q/./d/y"]),
    ("-aR --delete", &["p/./d/x", "q/./d"]),
    ("-aR", &["q/./d", "p/./d/x"]),
    ("-aR", &["p/./", "q/./d"]),
    ("-aR", &["q/./d", "p/./"]),
    ("-aR --delete", &["p/./", "q/./d/y"]),
    ("-aR", &["src/dir", "q/./d"]),
    ("-R -d", &["p/./d/", "q/./d/x"]),
    ("-dR", &["src/./dir", "src/./dir/sub/"]),
    ("-dR --delete", &["src/dir/"]),
    ("-aR", &["none/./x", "q/./d"]),
    ("-aR", &["p/./none", "q/./d"]),
    ("-aR --no-implied-dirs", &["p/./d/x", "q/./d/y"]),
    ("-aR --no-implied-dirs", &["q/./d/y"]),
    ("-aRm --delete", &["q/./d", "src/./dir", "src/e"]),
    ("-aR --delete-excluded --exclude=y", &["p/./d", "q/./d"]),
    ("-aR", &["p/./d/y", "q/./d/x", "p/./d/x"]),
    ("-a", &["p/d", "q/d"]),
    ("-a --delete", &["p/d", "q/d", "q"]),
    ("-a", &["q/d/x", "p/d/x"]),
    ("-a", &["p/d", "q/"]),
    ("-a", &["p/d", "p/d"]),
    ("-rt", &["src/top", "q/d/x", "p/d", "src/top"]),
    ("-dm --delete", &["src/", "p/"]),
];

/// Names of `--files-from`, one `|` for each end of a line.
const LISTS: &[&str] = &[
    "dir",
    "dir/",
    "dir|dir/a",
    ".",
    "./",
    "dir/sub/..",
    "dir/|dir/sub/",
    "dir/sub/",
    "top/",
    "link/",
    "link|flink/",
    "none/|top",
    "dir/sub/c|dir/",
    "/dir/",
    "dir/./a|e/../dir/./sub/c",
    "dir/./sub/|e/./x|./dir/./a",
];
const LIST_OPTIONS: &[&str] =
    &["-a", "-t", "-ar", "-a --delete", "-t --no-d", "-a --delete --exclude=a", "-am", "-a --no-R", "-aH"];

/// Writes the sources below a place.
fn write(top: &Path) {
    for (path, content) in [
        ("src/dir/a", "1"),
        ("src/dir/b", "22"),
        ("src/dir/sub/c", "333"),
        ("src/dir/sub/deep/.keep", ""),
        ("src/e/x", "of e"),
        ("src/top", "of the top"),
        ("p/d/x", "p's x"),
        ("p/d/y", "p's y"),
        ("q/d/x", "q's x, longer"),
        ("q/d/y", "q's y, longer"),
    ] {
        let path = top.join(path);
        fs::create_dir_all(path.parent().expect("below")).expect("our own place");
        fs::write(&path, content).expect("our own place");
        set_time(&path, 1_500_000_000);
    }
    symlink("dir", top.join("src/link")).expect("a fresh link");
    symlink("top", top.join("src/flink")).expect("a fresh link");
    for (path, mode) in [("q/d", 0o700), ("p/d", 0o755)] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).expect("our own place");
        set_time(&top.join(path), 1_400_000_000);
    }
}

/// What the destination has before.
fn write_before(top: &Path) {
    for path in ["zzz", "dir/zzz", "dir/sub/zzz", "d/old/f", "e/zzz"] {
        let path = top.join(path);
        fs::create_dir_all(path.parent().expect("below")).expect("our own place");
        fs::write(path, "before").expect("our own place");
    }
}

/// Where a line is played.
#[derive(Debug, Clone, Copy)]
enum Ways {
    Here,
    Push,
    Pull,
}

/// Plays a line with both programs; says what differs.
fn play(bench: &Bench<'_>, number: usize, (line, sources): (&str, &[&str]), ways: Ways) -> Option<String> {
    let mut trees = Vec::new();
    let mut runs = Vec::new();
    for program in ["theirs", "ours"] {
        let target = bench.place(&format!("{program}{number}"));
        fs::create_dir(&target).expect("our own place");
        write_before(&target);
        let from = |source: &&str| match ways {
            Ways::Here | Ways::Push => (*source).to_owned(),
            Ways::Pull => format!("{HOST}:{}/{source}", bench.place("").display()),
        };
        let to = match ways {
            Ways::Here | Ways::Pull => format!("{}/", target.display()),
            Ways::Push => format!("{HOST}:{}/", target.display()),
        };
        let sources: Vec<String> = sources.iter().map(from).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let line = bench.line(line);
        let run = if program == "ours" {
            bench.fobs(&line, &sources, &to)
        } else {
            bench.rsync(&line, &sources, &to)
        };
        trees.push(listing(&target, None, bench.opened));
        runs.push(run);
    }
    let apart: Vec<_> = trees[0]
        .keys()
        .chain(trees[1].keys())
        .filter(|path| trees[0].get(*path) != trees[1].get(*path))
        .collect();
    // rsync's own check of what a pull may bring knows only names with their paths.
    if runs[0].stderr.contains("rejecting unrequested file-list name") {
        return None;
    }
    let is_same = apart.is_empty() && runs[0].code == runs[1].code;
    let [theirs, ours] = [&runs[0], &runs[1]].map(|run| format!("{:?} {}", run.code, run.stderr));
    (!is_same).then(|| format!("{ways:?} {line} {sources:?}: {apart:?}\n  rsync {theirs}\n  fobs {ours}"))
}

/// Plays some lines, or all in a long run.
fn play_some(test: &'static str, lines: &[(String, Vec<&str>)], one_of: usize) {
    if !is_installed() {
        return;
    }
    let case = Case::new(test);
    let bench = Bench::open(&case);
    write(&bench.place(""));
    let mut random = Random::new(case.seed());
    let mut apart = Vec::new();
    for (number, (line, sources)) in lines.iter().enumerate() {
        let list = line.split_once("NAMES").map(|(_, list)| list.replace('|', "\n") + "\n");
        let line = match &list {
            Some(list) => {
                let file = bench.place(&format!("list{number}"));
                fs::write(&file, list).expect("our own place");
                line.split_once("NAMES")
                    .map(|(line, _)| format!("{line}{}", file.display()))
                    .expect("it has one")
            }
            None => line.clone(),
        };
        let draw = random.below(one_of as u64 * 2);
        let ways: &[Ways] = match draw {
            _ if cfg!(feature = "long") => &[Ways::Here, Ways::Push, Ways::Pull],
            0 => &[Ways::Push],
            1 => &[Ways::Pull],
            _ => &[Ways::Here],
        };
        for (at, way) in ways.iter().enumerate() {
            apart.extend(play(&bench, number * 3 + at, (&line, sources), *way));
        }
    }
    assert!(apart.is_empty(), "{} lines differ:\n{}", apart.len(), apart.join("\n"));
}

#[test]
fn sources_with_paths_in_common_become_what_rsync_makes() {
    let lines: Vec<_> =
        SOURCES.iter().map(|(line, sources)| ((*line).to_owned(), sources.to_vec())).collect();
    play_some("sources_with_paths_in_common_become_what_rsync_makes", &lines, 4);
}

#[test]
fn names_with_a_slash_mean_contents_as_with_rsync() {
    let mut lines = Vec::new();
    for (at, list) in LISTS.iter().enumerate() {
        for (offset, options) in LIST_OPTIONS.iter().enumerate() {
            if cfg!(feature = "long") || (at + offset) % 3 == 0 {
                lines.push((format!("{options} --files-from=NAMES{list}"), vec!["src"]));
            }
        }
    }
    play_some("names_with_a_slash_mean_contents_as_with_rsync", &lines, 12);
}

#[test]
fn further_names_are_told_of_as_what_they_are() {
    if !is_installed() {
        return;
    }
    let case = Case::new("further_names_are_told_of_as_what_they_are");
    let bench = Bench::open(&case);
    let top = bench.place("many");
    fs::create_dir_all(&top).expect("our own place");
    for (name, kind) in [("f", "file"), ("l", "link"), ("p", "fifo")] {
        let first = top.join(name);
        match kind {
            "file" => fs::write(&first, "content").expect("our own place"),
            "link" => symlink("f", &first).expect("a fresh link"),
            _ => drop(case.run(case.command(Side::Client, "mkfifo").arg(&first)).expect_success()),
        }
        let more = top.join(format!("more-{name}"));
        fs::create_dir(&more).expect("our own place");
        fs::hard_link(&first, more.join(name)).expect("a second name");
    }
    let format = "--out-format=%i %l %M %B".to_owned();
    let line = |options: &str| vec![options.to_owned(), format.clone()];
    let source = format!("{}/", top.display());
    let opened = just_now();
    for options in ["-aH", "-aHii"] {
        for (from, there) in [(source.clone(), true), (format!("{HOST}:{source}"), false)] {
            let said = ["theirs", "ours"].map(|program| {
                let target = bench.place(&format!("{program}-{there}"));
                fs::create_dir_all(&target).expect("our own place");
                let to = if there {
                    format!("{HOST}:{}/", target.display())
                } else {
                    format!("{}/", target.display())
                };
                let run = if program == "ours" {
                    bench.fobs(&line(options), &[&from], &to)
                } else {
                    bench.rsync(&line(options), &[&from], &to)
                };
                let told = String::from_utf8_lossy(&run.expect_success().stdout).into_owned();
                // Directories have sizes of their own file systems.
                let lines =
                    told.lines().filter(|line| line.as_bytes().get(1) != Some(&b'd')).map(str::to_owned);
                let mut lines: Vec<String> = lines.collect();
                lines.sort();
                lines
            });
            assert_eq!(said[1], said[0], "{options}, {from}");
            let trees =
                ["theirs", "ours"].map(|it| listing(&bench.place(&format!("{it}-{there}")), None, opened));
            assert_eq!(trees[0], trees[1], "{options}, {from}");
        }
    }
}

#[test]
fn a_destination_that_does_not_exist_becomes_what_rsync_makes() {
    if !is_installed() {
        return;
    }
    let case = Case::new("a_destination_that_does_not_exist_becomes_what_rsync_makes");
    let bench = Bench::open(&case);
    write(&bench.place(""));
    let mut apart = Vec::new();
    for (number, (line, sources)) in [
        ("-d", &["src/dir"][..]),
        ("-d", &["src/dir/"]),
        ("-a", &["src/top"]),
        ("-a", &["src/dir"]),
        ("-a", &["src/top", "src/dir/a"]),
        ("-t", &["src/top", "src/top"]),
        ("-aR", &["src/top"]),
    ]
    .into_iter()
    .enumerate()
    {
        for (at, (before, way)) in
            [("none", "here"), ("dangling", "here"), ("none", "push"), ("none", "pull"), ("dangling", "pull")]
                .into_iter()
                .enumerate()
        {
            let runs = ["theirs", "ours"].map(|program| {
                let target = bench.place(&format!("{program}{number}-{at}"));
                if before == "dangling" {
                    symlink("nowhere", &target).expect("a fresh link");
                }
                let remote = |path: &str| format!("{HOST}:{}/{path}", bench.place("").display());
                let sources: Vec<String> = sources
                    .iter()
                    .map(|source| if way == "pull" { remote(source) } else { (*source).to_owned() })
                    .collect();
                let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
                let to = target.display().to_string();
                let to = if way == "push" { format!("{HOST}:{to}") } else { to };
                let run = if program == "ours" {
                    bench.fobs(&bench.line(line), &sources, &to)
                } else {
                    bench.rsync(&bench.line(line), &sources, &to)
                };
                let kind = fs::symlink_metadata(&target).map(|it| (it.is_dir(), it.is_symlink())).ok();
                let tree = kind.filter(|it| it.0).map(|_| listing(&target, None, bench.opened));
                (run.code, kind, tree, run.stderr)
            });
            let [theirs, ours] = &runs;
            if (theirs.0, theirs.1, &theirs.2) != (ours.0, ours.1, &ours.2) {
                apart.push(format!("{line} {sources:?} {before} {way}: {theirs:?}\n  {ours:?}"));
            }
        }
    }
    assert!(apart.is_empty(), "{} differ:\n{}", apart.len(), apart.join("\n"));
}

#[test]
fn of_sources_that_are_removed_one_that_did_not_come_stays() {
    let case = Case::new("of_sources_that_are_removed_one_that_did_not_come_stays");
    let bench = Bench::open(&case);
    for (path, content) in [("a/both", "of a"), ("b/both", "of b"), ("b/alone", "of b"), ("c/both", "of c")] {
        let path = bench.place(path);
        fs::create_dir_all(path.parent().expect("below")).expect("our own place");
        fs::write(path, content).expect("our own place");
    }
    let target = bench.place("target");
    let to = format!("{HOST}:{}/", target.display());
    let line = ["-a", "--remove-source-files"].map(str::to_owned);
    bench.fobs(&line, &["a/", "b/", "c/both"], &to).expect_success();
    let read = |path: &str| fs::read_to_string(bench.place(path)).ok();
    assert_eq!(read("target/both").as_deref(), Some("of a"));
    assert_eq!(read("target/alone").as_deref(), Some("of b"));
    assert_eq!((read("a/both"), read("b/alone")), (None, None));
    assert_eq!((read("b/both").as_deref(), read("c/both").as_deref()), (Some("of b"), Some("of c")));
}
