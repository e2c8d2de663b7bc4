//! Lines of rsync as people have them in scripts, played with both programs over one sshd: equal trees, and
//! equal success.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::case::{Case, peer_path};
use super::files::Random;
use super::net::Side;
use super::process::Finished;
use super::remote::{Carrier, Direction, Route};
use super::sshd::{HOST, Sshd};
use super::sync_found::FOUND;
use super::sync_public::{APART, LINES, PUBLIC};
use super::sync_trees::{Abilities, change_tree, just_now, listing, make_tree, set_time};

/// Lines that are refused by name, for what is not built.
const NOT_BUILT: &[&str] = &["-a --write-batch=b", "-aN", "-a --crtimes", "-a --read-batch=b"];

/// Words of a line, without the quotes of the shell that it was written for.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut open, mut inside) = (None, false);
    for letter in line.chars() {
        match (open, letter) {
            (None, ' ') => inside = false,
            (None, '\'' | '"') => {
                open = Some(letter);
                if !std::mem::replace(&mut inside, true) {
                    words.push(String::new());
                }
            }
            (Some(quote), letter) if quote == letter => open = None,
            _ => {
                if !std::mem::replace(&mut inside, true) {
                    words.push(String::new());
                }
                words.last_mut().expect("one was begun").push(letter);
            }
        }
    }
    words
}

#[test]
fn lines_are_divided_into_words() {
    assert_eq!(words("-a  -e 'x y' --a=\"it's\" b"), ["-a", "-e", "x y", "--a=it's", "b"]);
}

/// A sshd, a source, and the two programs.
pub(super) struct Bench<'a> {
    case: &'a Case,
    pub(super) sshd: Sshd,
    seed: u64,
    /// What has a later time was made by a run, or by the test for one of two runs, maybe in another second.
    pub(super) opened: i64,
}

impl Bench<'_> {
    pub(super) fn open(case: &Case) -> Bench<'_> {
        let opened = just_now();
        let bench = Bench { case, sshd: Sshd::start(case), seed: case.seed(), opened };
        fs::create_dir_all(case.path("local")).expect("our own place");
        bench
    }

    /// Likewise where the directory of the other side is its home.
    pub(super) fn open_at_home(case: &Case) -> Bench<'_> {
        let home = case.path("served").display().to_string();
        let states =
            ["CACHE", "STATE", "CONFIG"].map(|kind| format!("XDG_{kind}_HOME={home}-state ")).concat();
        let forced =
            format!("ForceCommand=cd {home} && HOME={home} {states}exec sh -c \"$SSH_ORIGINAL_COMMAND\"");
        let sshd = Sshd::start_as(case, |mut command| {
            command.arg("-o").arg(forced);
            command
        });
        fs::create_dir_all(case.path("local")).expect("our own place");
        Bench { case, sshd, seed: case.seed(), opened: just_now() }
    }

    pub(super) fn ssh(&self) -> String {
        format!("ssh -F {}", self.sshd.config.display())
    }

    fn make(&self, top: &Path, change: u64) {
        let abilities = Abilities { links: false, ..Abilities::try_out(&self.case.path("local")) };
        make_tree(top, &mut Random::new(self.seed), 2, abilities);
        change_tree(top, &mut Random::new(self.seed ^ change), 2, abilities);
    }

    fn source(&self) -> PathBuf {
        let source = self.case.local("source");
        if !source.exists() {
            self.make(&source, 1);
            for (name, content) in [
                ("note.txt", "kept"),
                ("core", "of CVS"),
                ("long", "abcdef"),
                ("short", "abcdef"),
                (".gitignore", "ignored\n"),
                ("ignored", "x"),
                ("dir2/.rsync-filter", "- hidden\n"),
                ("dir2/hidden", "x"),
                ("dir2/.cvsignore", "secret other\n"),
                ("dir2/secret", "x"),
                ("dir2/shown", "x"),
                ("empty/also/.keep", ""),
            ] {
                let path = source.join(name);
                fs::create_dir_all(path.parent().expect("below")).expect("our own place");
                fs::write(&path, content).expect("our own place");
                set_time(&path, 1_500_000_000);
            }
        }
        source
    }

    /// A place of the client.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.case.local(name)
    }

    /// A target at the other end, the same one for both programs.
    fn target(&self, name: &str) -> PathBuf {
        let target = self.sshd.root.join(name);
        self.make(&target, 2);
        // What replaces a third user's file without -p gets less of its mode than with rsync (guide.md).
        let us = rustix::process::geteuid().as_raw().to_string();
        let own = self.case.run(self.case.command(Side::Server, "chown").args(["-hR", &us]).arg(&target));
        own.expect_success();
        fs::write(target.join("long"), "abcdefghi").expect("our own place");
        fs::write(target.join("short"), "abc").expect("our own place");
        // That of the source is another one, whichever second it is.
        let top = fs::File::open(&target).expect("our own place");
        top.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("our own place");
        target
    }

    pub(super) fn line(&self, line: &str) -> Vec<String> {
        let (excludes, log) = (self.case.local("excludes"), self.case.local("run.log"));
        let [excludes, log] = [excludes, log].map(|path| path.display().to_string());
        let named = [("SSH", self.ssh()), ("EXCLUDES", excludes), ("LOG", log)];
        let full = |word: String| named.iter().fold(word, |word, (name, value)| word.replace(name, value));
        words(line).into_iter().map(full).collect()
    }

    /// What public lines name: a file of patterns, and an earlier backup beside the targets.
    fn furnish(&self) {
        fs::write(self.case.local("excludes"), "*.tmp\n/secret\ncache/\n").expect("our own place");
        self.make(&self.sshd.root.join("prev"), 1);
    }

    /// Sources may be relative to the client's own place.
    pub(super) fn rsync(&self, line: &[String], sources: &[&str], target: &str) -> Finished {
        let mut command = self.case.command(Side::Client, "timeout");
        command.args(["25", "rsync"]).env("RSYNC_RSH", self.ssh());
        command.current_dir(self.case.local(""));
        self.case.run(command.args(line).args(sources).arg(target))
    }

    pub(super) fn fobs(&self, line: &[String], sources: &[&str], target: &str) -> Finished {
        let mut command = self.case.fobs(Side::Client);
        command.arg("sync").env("RSYNC_RSH", self.ssh());
        command.args(line).arg("--fobs-path").arg(peer_path());
        // The network of the test lets only these pass.
        let (first, last) = self.case.net.udp_ports();
        command.arg(format!("--udp-ports={first}-{last}"));
        command.current_dir(self.case.local(""));
        self.case.run(command.args(sources).arg(target))
    }

    /// Plays a line with both, of the whole source; says what differs.
    fn play(&self, number: usize, line: &str) -> Option<String> {
        let is_whole = line.contains("--relative") || words(line).iter().any(|word| word.starts_with("-rR"));
        // Whole paths begin there, and not in directories that others change.
        let cut = if is_whole { "./" } else { "" };
        let source = format!("{}/{cut}", self.source().display());
        self.play_of(number, line, &[&source])
    }

    /// Plays a line with both; says what differs.
    fn play_of(&self, number: usize, line: &str, sources: &[&str]) -> Option<String> {
        let (theirs, ours) = (self.target(&format!("theirs{number}")), self.target(&format!("ours{number}")));
        let at = |path: &Path| format!("{HOST}:{}/", path.display());
        let options = self.line(line);
        let their_run = self.rsync(&options, sources, &at(&theirs));
        let our_run = self.fobs(&options, sources, &at(&ours));
        let told = format!(
            "{line} {sources:?}: rsync {:?} {}; fobs {:?} {}",
            their_run.code, their_run.stderr, our_run.code, our_run.stderr
        );
        // rsync enters directories that --ignore-existing leaves out, and fails there; and a link that leads
        // back, until the kernel ends it.
        let accidents = ["Not a directory (20)", "Too many levels of symbolic links"];
        if accidents.iter().any(|accident| their_run.stderr.contains(accident)) {
            return None;
        }
        // rsync 3.5.0 hangs with -L where something else has the name of a directory.
        if their_run.code == Some(124) {
            return None;
        }
        if (their_run.code == Some(0)) != (our_run.code == Some(0)) {
            return Some(told);
        }
        // With --delete rsync has deleted by then what it passed before it found that; here nothing is.
        if their_run.stderr.contains("symlink has no referent") && line.contains("del") {
            return None;
        }
        let (our_tree, their_tree) = (listing(&ours, None, self.opened), listing(&theirs, None, self.opened));
        let paths = our_tree.keys().chain(their_tree.keys());
        let apart: Vec<_> = paths.filter(|path| our_tree.get(*path) != their_tree.get(*path)).collect();
        let first =
            apart.first().map(|path| format!("{:?} {:?}", our_tree.get(*path), their_tree.get(*path)));
        (!apart.is_empty()).then(|| format!("{told}\n  {apart:?}\n  {first:?}"))
    }
}

pub(super) fn is_installed() -> bool {
    Command::new("rsync").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The lines of a list that this run plays, with their numbers: all in a long one, those that
/// `FOBS_TEST_LINES` names (`40-79`), or by the seed every nth, `one_of`.
fn chosen<'a>(lines: &[&'a str], test: &'static str, one_of: usize) -> Vec<(usize, &'a str)> {
    let numbered = lines.iter().copied().enumerate();
    let range = std::env::var("FOBS_TEST_LINES").ok();
    let range = range.as_deref().and_then(|text| text.split_once('-'));
    match range {
        Some((first, last)) => {
            let number = |text: &str| text.parse().expect("two numbers");
            let range = number(first)..=number(last);
            numbered.filter(|(at, _)| range.contains(at)).collect()
        }
        None if cfg!(feature = "long") => numbered.collect(),
        None => numbered.skip(Case::new(test).seed() as usize % one_of).step_by(one_of).collect(),
    }
}

/// Plays lines with both programs, and says each that differs as it comes.
fn play_all(test: &'static str, lines: &[(usize, &str)]) {
    let mut apart = Vec::new();
    for lines in lines.chunks(20) {
        let case = Case::new(test);
        let bench = Bench::open(&case);
        bench.furnish();
        for (number, line) in lines {
            if let Some(why) = bench.play(*number, line) {
                eprintln!("line {number} differs: {why}");
                apart.push(*line);
            }
        }
    }
    assert!(apart.is_empty(), "{} of {} lines differ:\n{}", apart.len(), lines.len(), apart.join("\n"));
}

#[test]
fn lines_of_scripts_end_as_with_rsync() {
    const TEST: &str = "lines_of_scripts_end_as_with_rsync";
    if is_installed() {
        play_all(TEST, &chosen(LINES, TEST, 9));
    }
}

#[test]
fn public_lines_end_as_with_rsync() {
    const TEST: &str = "public_lines_end_as_with_rsync";
    if is_installed() {
        let mut lines = chosen(PUBLIC, TEST, 24);
        lines.retain(|(_, line)| !APART.iter().any(|(apart, _)| apart == line));
        play_all(TEST, &lines);
    }
}

#[test]
fn further_public_lines_end_as_with_rsync() {
    const TEST: &str = "further_public_lines_end_as_with_rsync";
    if is_installed() {
        let mut lines = chosen(FOUND, TEST, 20);
        lines.retain(|(_, line)| !APART.iter().any(|(apart, _)| apart == line));
        play_all(TEST, &lines);
    }
}

#[test]
fn four_hundred_lines_are_collected_and_each_that_differs_has_a_reason() {
    let mut all: Vec<&str> = PUBLIC.iter().chain(LINES).chain(FOUND).copied().collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() >= 400, "{} lines", all.len());
    assert!(APART.iter().all(|(_, why)| !why.is_empty()));
    assert!(APART.len() * 100 <= all.len() * 3, "{} lines differ", APART.len());
}

#[test]
fn whole_paths_are_kept_as_with_rsync() {
    if !is_installed() {
        return;
    }
    let case = Case::new("whole_paths_are_kept_as_with_rsync");
    let bench = Bench::open(&case);
    let top = bench.source().display().to_string();
    let (file, directory, cut) =
        (format!("{top}/dir2/shown"), format!("{top}/empty"), format!("{top}/./dir2/shown"));
    let mut apart = Vec::new();
    for (number, (line, sources)) in [
        ("-aR", &["source/dir2/shown", "source/empty"][..]),
        ("-aR --delete", &["source/dir2/", "source/note.txt"]),
        ("-aR", &[&file, &directory]),
        ("-aR --delete", &[&cut]),
        ("-avR", &["source/./dir2", "source/./empty/also"]),
        ("-R", &["source/./dir2", "source/./note.txt"]),
        ("-dR", &["source/./dir2", "source/./long"]),
        ("-rtR --exclude=dir2", &["source/./dir2", "source/./dir2/shown"]),
        ("-aR", &["./source/./"]),
        ("-aR", &["source/./none", "source/./long"]),
    ]
    .into_iter()
    .enumerate()
    {
        apart.extend(bench.play_of(number, line, sources));
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
    // From the other host.
    for (program, run) in [("theirs", true), ("ours", false)] {
        let (from, to) = (format!("{HOST}:{top}/./dir2"), case.local(program));
        fs::create_dir(&to).expect("our own place");
        let (line, to) = (["-aR".to_owned()], format!("{}/", to.display()));
        let done = if run { bench.rsync(&line, &[&from], &to) } else { bench.fobs(&line, &[&from], &to) };
        done.expect_success();
    }
    assert_eq!(listing(&case.local("ours"), None, 0), listing(&case.local("theirs"), None, 0));
}

#[test]
fn lines_that_are_not_built_are_refused_before_anything_starts() {
    let case = Case::new("lines_that_are_not_built_are_refused_before_anything_starts");
    for line in NOT_BUILT {
        let mut command = case.fobs(Side::Client);
        let done = case.run(command.arg("sync").args(words(line)).args(["nowhere/", "host:"])).expect_code(1);
        assert!(done.stderr.contains("is not built"), "{line}: {}", done.stderr);
    }
}

#[test]
fn a_letter_for_figures_is_help_only_alone() {
    let case = Case::new("a_letter_for_figures_is_help_only_alone");
    let run = |words: &[&str]| case.run(case.fobs(Side::Client).arg("sync").args(words));
    let help = run(&["-h"]).expect_success();
    assert!(help.stdout.starts_with(b"Bring a tree"), "{}", help.said());
    assert_eq!(help.stdout, run(&["-h"]).stdout);
    // The lines of -v, as rsync 3.5 has them.
    let figures = "sending incremental file list\n\nsent 0 bytes  received 0 bytes  0.00 bytes/sec\n\
                   total size is 0  speedup is 0.00\n";
    for (words, stdout) in
        [(&["-avh", "none"][..], figures), (&["-h", "none"], ""), (&["-hh", "none", "b"], "")]
    {
        let done = run(words).expect_code(23);
        assert_eq!(String::from_utf8_lossy(&done.stdout), stdout, "{words:?}: {}", done.said());
        assert!(done.stderr.contains("'none'"), "{words:?}: {}", done.said());
    }
}

#[test]
fn an_append_leaves_what_is_not_shorter() {
    for option in ["--append", "--append-verify"] {
        let case = Case::new("an_append_leaves_what_is_not_shorter");
        let route = Route::open(&case, Carrier::Ssh, Direction::Push);
        for (name, content, before) in [
            ("short", "abcdef", Some("abc")),
            ("other", "abcdef", Some("xyz")),
            ("equal", "abcdef", Some("ABCDEF")),
            ("long", "abcdef", Some("ABCDEFGHI")),
            ("new", "abcdef", None),
        ] {
            for (path, text) in
                [(route.source_path("tree"), Some(content)), (route.target_path("tree"), before)]
            {
                fs::create_dir_all(&path).expect("our own place");
                text.into_iter().for_each(|text| fs::write(path.join(name), text).expect("our own place"));
            }
        }
        let mut command = route.sync(&["-rl".to_owned(), "-I".to_owned(), option.to_owned()]);
        case.run(command.arg(route.source("tree/")).arg(route.target("tree/"))).expect_success();
        let content = |name: &str| fs::read_to_string(route.target_path("tree").join(name)).expect(name);
        let all = ["short", "other", "equal", "long", "new"].map(content);
        assert_eq!(all, ["abcdef", "abcdef", "ABCDEF", "ABCDEFGHI", "abcdef"], "{option}");
    }
}

#[test]
fn links_that_are_followed_end_where_they_lead_back() {
    for direction in [Direction::Push, Direction::Pull] {
        let case = Case::new("links_that_are_followed_end_where_they_lead_back");
        let route = Route::open(&case, Carrier::Ssh, direction);
        let source = route.source_path("tree");
        fs::create_dir_all(source.join("d/deep")).expect("our own place");
        fs::create_dir_all(route.target_path("")).expect("our own place");
        fs::create_dir_all(route.source_path("beside")).expect("our own place");
        fs::write(source.join("d/deep/file"), "content").expect("our own place");
        fs::write(route.source_path("beside/file"), "of a neighbour").expect("our own place");
        for (target, link) in
            [("..", "d/deep/up"), ("d/deep", "in"), ("../beside", "out"), ("none", "dangling")]
        {
            std::os::unix::fs::symlink(target, source.join(link)).expect("a fresh link");
        }
        let run = |options: &[&str], to: &str| {
            let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
            let mut command = route.sync(&options);
            case.run(command.arg(route.source("tree/")).arg(route.target(to)))
        };
        let all = run(&["-aL"], "all/").expect_code(23);
        for named in ["d/deep/up", "dangling", "leads back"] {
            assert!(all.stderr.contains(named), "{direction:?} {named}: {}", all.stderr);
        }
        let content = |path: &str| fs::read_to_string(route.target_path(path)).expect(path);
        assert_eq!(
            (content("all/in/file"), content("all/out/file")),
            ("content".into(), "of a neighbour".into())
        );
        run(&["-a", "--copy-unsafe-links"], "unsafe/").expect_success();
        assert_eq!(content("unsafe/out/file"), "of a neighbour");
        assert!(
            route.target_path("unsafe/in").is_symlink() && route.target_path("unsafe/d/deep/up").is_symlink()
        );
        run(&["-a", "--safe-links"], "safe/").expect_success();
        assert!(route.target_path("safe/in").is_symlink());
        assert!(fs::symlink_metadata(route.target_path("safe/out")).is_err());
    }
}

#[test]
fn a_restricted_root_is_not_left_through_links() {
    let case = Case::new("a_restricted_root_is_not_left_through_links");
    let route = Route::open(&case, Carrier::Daemon, Direction::Pull);
    let source = route.source_path("tree");
    fs::create_dir_all(&source).expect("our own place");
    fs::write(case.path("secret"), "of this host").expect("our own place");
    fs::write(source.join("plain"), "content").expect("our own place");
    std::os::unix::fs::symlink(case.path("secret"), source.join("out")).expect("a fresh link");
    std::os::unix::fs::symlink("../../secret", source.join("up")).expect("a fresh link");
    fs::create_dir_all(case.path("local")).expect("our own place");
    let mut command = route.sync(&["-aL".to_owned()]);
    let done = case.run(command.arg(route.source("tree/")).arg(route.target("copy/"))).expect_code(23);
    assert_eq!(super::files::names(&route.target_path("copy")), ["plain"], "{}", done.stderr);
}

#[test]
fn another_remote_shell_is_given_host_and_command() {
    if !is_installed() {
        return;
    }
    let case = Case::new("another_remote_shell_is_given_host_and_command");
    let (source, shell) = (case.local("source"), case.path("box"));
    fs::create_dir_all(source.join("d")).expect("our own place");
    fs::write(source.join("d/file"), "content").expect("our own place");
    let log = case.path("called");
    // As `docker exec -i`: options, a name that is no host, and words that no shell reads.
    let script = format!("#!/bin/sh\necho \"$1 $2\" >> {}\nshift 2\nexec \"$@\"\n", log.display());
    fs::write(&shell, script).expect("our own place");
    case.run(case.command(Side::Client, "chmod").arg("755").arg(&shell)).expect_success();
    let rsh = format!("{} 'an argument'", shell.display());
    let from = format!("{}/", source.display());
    for (program, name) in [("rsync", "theirs"), ("fobs", "ours")] {
        let target = case.path(name);
        fs::create_dir(&target).expect("our own place");
        let mut command = if program == "rsync" {
            case.command(Side::Client, "rsync")
        } else {
            let mut command = case.fobs(Side::Client);
            command.args(["sync", "--fobs-path"]).arg(super::case::fobs_path());
            command
        };
        command.args(["-a", "-e", &rsh]).arg(&from).arg(format!("no-such-box:{}", target.display()));
        case.run(&mut command).expect_success();
        assert_eq!(fs::read(target.join("d/file")).expect("it arrived"), b"content", "{program}");
    }
    let called = fs::read_to_string(&log).expect("it was run");
    let expected = "an argument no-such-box";
    assert!(called.lines().count() >= 2 && called.lines().all(|line| line == expected), "{called}");
}
