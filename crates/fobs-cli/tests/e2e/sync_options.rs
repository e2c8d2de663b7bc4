//! Options of `fobs sync` that few lines have, beside rsync: equal trees at both ends, and equal exit codes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::case::Case;
use super::process::Finished;
use super::remote::{Carrier, Direction, Route};
use super::sshd::HOST;
use super::sync_lines::{Bench, is_installed};
use super::sync_trees::{listing, set_time};

/// A line, its sources below the place `src`, and the direction.
type Scene = (&'static str, &'static [&'static str], Direction);

const SCENES: &[Scene] = &[
    ("-a --compare-dest=../older", &["src/"], Direction::Push),
    ("-a --compare-dest=../older --compare-dest=../oldest --delete", &["src/"], Direction::Push),
    ("-ac --compare-dest=../older", &["src/"], Direction::Pull),
    ("-aH --compare-dest=../older", &["src/"], Direction::Push),
    ("-an --compare-dest=../older", &["src/"], Direction::Push),
    ("-a --copy-dest=../older", &["src/"], Direction::Push),
    ("-aH --copy-dest=../older --copy-dest=../oldest --delete", &["src/"], Direction::Pull),
    ("-a --delete-missing-args", &["src/a", "src/gone", "src/d"], Direction::Push),
    ("-a --delete-missing-args --force", &["src/a", "src/gone", "src/full"], Direction::Pull),
    ("-an --delete-missing-args", &["src/gone", "src/a"], Direction::Push),
    ("-aR --delete-missing-args", &["src/./d/gone", "src/./d/x"], Direction::Push),
    ("-a --delete-missing-args --files-from=NAMES", &["src/"], Direction::Push),
    ("-a --delete-missing-args --files-from=NAMES", &["src/"], Direction::Pull),
    ("-a --ignore-missing-args --files-from=HOST:THERE", &["src/"], Direction::Push),
    ("-a --ignore-missing-args --files-from=:THERE", &["src/"], Direction::Pull),
    // rsync gives modes and times of such a directory to the link, or fails.
    ("-rlK", &["src/"], Direction::Push),
    ("-rlK --delete --filter='P /real/'", &["src/"], Direction::Push),
    ("-rl --keep-dirlinks --delete-after --filter='P /real/'", &["src/"], Direction::Pull),
    ("-lptgoD", &["src", "src/a"], Direction::Push),
    ("-q", &["src/"], Direction::Push),
    ("-tv", &["src/d", "src/b", "src/p/"], Direction::Pull),
    ("-aR --no-implied-dirs", &["src/./d/e/deep"], Direction::Push),
    ("-aR --no-i-d", &["src/./p/q/r", "src/./p"], Direction::Pull),
    ("-rR --no-implied-dirs", &["src/./p/q/r"], Direction::Push),
    ("-a --munge-links", &["src/"], Direction::Push),
    ("-a --munge-links", &["src/"], Direction::Pull),
    ("-a --munge-links --delete --existing", &["src/"], Direction::Pull),
    ("-a --open-noatime", &["src/"], Direction::Push),
    ("-a --open-noatime", &["src/"], Direction::Pull),
];

/// Entries with what they hold; a directory ends with a slash, a link has what it leads to.
const SOURCE: &[(&str, &str)] = &[
    ("a", "equal"),
    ("b", "new of b"),
    ("large", "L"),
    ("d/", ""),
    ("d/x", "equal"),
    ("d/y", "of y"),
    ("d/e/", ""),
    ("d/e/deep", "deep"),
    ("p/q/", ""),
    ("p/q/r", "of r"),
    ("led/", ""),
    ("led/in", "in a directory that a link leads to"),
    ("l", "-> a"),
    ("munged", "-> /rsyncd-munged/../far"),
];
const OLDER: &[(&str, &str)] =
    &[("a", "equal"), ("b", "old of b"), ("large", "L"), ("d/", ""), ("d/x", "equal"), ("l", "-> a")];
const TARGET: &[(&str, &str)] = &[
    ("a", "other"),
    ("gone", "to go"),
    ("full/", ""),
    ("full/x", "kept"),
    ("d/", ""),
    ("d/gone", "to go"),
    ("d/x", "older"),
    ("real/", ""),
    ("real/in", "old"),
    ("real/more", "to go with --delete"),
    ("led", "-> real"),
    ("l", "-> b"),
];

fn make(top: &Path, entries: &[(&str, &str)], mode: u32) {
    fs::create_dir_all(top).expect("our own place");
    for (name, content) in entries {
        let path = top.join(name);
        if let Some(target) = content.strip_prefix("-> ") {
            symlink(target, &path).expect("a fresh link");
            set_time(&path, 1_000_000);
        } else if name.ends_with('/') {
            fs::create_dir_all(&path).expect("our own place");
        } else {
            let text =
                if *content == "L" { "line of a large file\n".repeat(9000) } else { (*content).to_owned() };
            fs::write(&path, text).expect("our own place");
            set_time(&path, if content.contains("old") { 500_000 } else { 1_000_000 });
        }
    }
    for (name, _) in entries.iter().filter(|(name, _)| name.ends_with('/')) {
        fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).expect("our own place");
        set_time(&top.join(name), i64::from(mode));
    }
}

/// Both ends of one program's run: the source, and the directory in which the target lies.
struct Ends {
    source: PathBuf,
    around: PathBuf,
}

impl Ends {
    fn make(bench: &Bench<'_>, program: &str, number: usize, direction: Direction) -> Ends {
        let (here, there) = (bench.place(program), bench.sshd.root.join(program));
        let name = number.to_string();
        let [source, around] = match direction {
            Direction::Push => [here.join(name.as_str()), there.join(name.as_str())],
            Direction::Pull => [there.join(name.as_str()), here.join(name.as_str())],
        };
        make(&source.join("src"), SOURCE, 0o750);
        make(&around.join("older"), OLDER, 0o750);
        make(&around.join("oldest"), &[("b", "new of b")], 0o750);
        make(&around.join("dst"), TARGET, 0o700);
        for at in [bench.place("names"), bench.sshd.root.join("names")] {
            fs::write(at, "a\nd/gone\nd/x\nb\n").expect("our own place");
        }
        Ends { source, around }
    }
}

fn play(bench: &Bench<'_>, number: usize, scene: &Scene) -> Option<String> {
    let (line, sources, direction) = scene;
    let run = |program: &str| -> (Finished, Ends) {
        let ends = Ends::make(bench, program, number, *direction);
        let there = |path: PathBuf, is_there: bool| {
            let path = path.display();
            if is_there { format!("{HOST}:{path}") } else { path.to_string() }
        };
        let is_pull = *direction == Direction::Pull;
        let sources: Vec<String> =
            sources.iter().map(|name| there(ends.source.join(name), is_pull)).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let target = there(ends.around.join("dst/"), !is_pull);
        let names = bench.place("names").display().to_string();
        let far = bench.sshd.root.join("names").display().to_string();
        let line = line.replace("NAMES", &names).replace("THERE", &far).replace("HOST", HOST);
        let options = bench.line(&line);
        let done = match program {
            "theirs" => bench.rsync(&options, &sources, &target),
            _ => bench.fobs(&options, &sources, &target),
        };
        (done, ends)
    };
    let ((theirs, their_ends), (ours, our_ends)) = (run("theirs"), run("ours"));
    let told = format!(
        "{line} {direction:?}: rsync {:?} {}; fobs {:?} {}",
        theirs.code, theirs.stderr, ours.code, ours.stderr
    );
    if theirs.code != ours.code {
        return Some(told);
    }
    for (our_top, their_top) in
        [(&our_ends.source, &their_ends.source), (&our_ends.around, &their_ends.around)]
    {
        let (ours, theirs) = (listing(our_top, None, bench.opened), listing(their_top, None, bench.opened));
        let all = ours.keys().chain(theirs.keys());
        let apart: Vec<_> = all.filter(|path| ours.get(*path) != theirs.get(*path)).collect();
        if let Some(first) = apart.first() {
            return Some(format!("{told}\n  {apart:?}\n  {:?} {:?}", ours.get(*first), theirs.get(*first)));
        }
    }
    None
}

#[test]
fn rare_options_do_what_they_do_in_rsync() {
    if !is_installed() {
        return;
    }
    let case = Case::new("rare_options_do_what_they_do_in_rsync");
    let bench = Bench::open(&case);
    // All in the second tier.
    let one_of = if cfg!(feature = "long") { 1 } else { 5 };
    let some = SCENES.iter().enumerate().skip(case.seed() as usize % one_of).step_by(one_of);
    let played = some.filter_map(|(number, scene)| play(&bench, number, scene));
    let apart: Vec<String> = played.collect();
    assert!(apart.is_empty(), "{} of {} differ:\n{}", apart.len(), SCENES.len(), apart.join("\n"));
}

#[test]
fn files_are_read_without_a_new_access_time() {
    let case = Case::new("files_are_read_without_a_new_access_time");
    let route = Route::open(&case, Carrier::Ssh, Direction::Push);
    let file = route.source_path("tree/file");
    for (option, is_kept) in [("--open-noatime", true), ("--no-open-noatime", false)] {
        fs::create_dir_all(route.source_path("tree")).expect("our own place");
        fs::write(&file, "content").expect("our own place");
        // Long before the last change, so that any read gives a new one, wherever the system keeps them.
        set_time(&file, 1_000_000);
        let before = fs::metadata(&file).expect("it is there").atime();
        let mut command = route.sync(&["-aI".to_owned(), option.to_owned()]);
        case.run(command.arg(route.source("tree/")).arg(route.target("copy/"))).expect_success();
        let after = fs::metadata(&file).expect("it is there").atime();
        assert!(!is_kept || after == before, "{option}: {before} {after}");
    }
}

#[test]
fn links_of_the_destination_are_followed_only_within_it() {
    for carrier in [Carrier::Ssh, Carrier::Daemon] {
        let case = Case::new("links_of_the_destination_are_followed_only_within_it");
        let route = Route::open(&case, carrier, Direction::Push);
        let (source, target) = (route.source_path("tree"), route.target_path("tree"));
        let outside = route.target_path("outside");
        for directory in ["out", "up", "back", "safe", "through"] {
            fs::create_dir_all(source.join(directory)).expect("our own place");
            fs::write(source.join(directory).join("file"), directory).expect("our own place");
        }
        fs::create_dir_all(&outside).expect("our own place");
        fs::create_dir_all(target.join("real/sub")).expect("our own place");
        for (link, to) in [
            ("out", outside.to_str().expect("text")),
            ("up", "../outside"),
            ("back", "."),
            ("safe", "real/sub"),
            ("hop", "../outside"),
            ("through", "hop/sub"),
        ] {
            symlink(to, target.join(link)).expect("a fresh link");
        }
        let mut command = route.sync(&["-aK".to_owned(), "--delete".to_owned()]);
        let done = case.run(command.arg(route.source("tree/")).arg(route.target("tree/"))).expect_code(23);
        assert!(fs::read_dir(&outside).expect("it is there").next().is_none(), "{carrier:?}");
        for link in ["out", "up", "back", "through"] {
            assert!(target.join(link).is_symlink(), "{carrier:?} {link} stays");
            assert!(done.stderr.contains(&format!("'{link}'")), "{link}: {}", done.stderr);
        }
        // What a link leads to is no less the source's than the link.
        let stored = fs::read_to_string(target.join("real/sub/file")).expect("it was stored");
        assert_eq!((stored.as_str(), target.join("safe").is_symlink()), ("safe", true), "{carrier:?}");
    }
}
