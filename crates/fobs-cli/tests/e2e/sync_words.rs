//! What `fobs sync` prints, beside what rsync prints of the same trees: line by line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::case::Case;
use super::net::Side;
use super::sshd::HOST;
use super::sync_lines::{Bench, is_installed};
use super::sync_trees::{listing, set_time};

/// Options whose text is compared, in its order.
const LINES: &[&str] = &[
    "-ai",
    "-aii --force",
    "-ain --delete",
    "-ai --delete-after",
    "-rlti",
    "-av",
    "-av --delete",
    "-avn --delete",
    "-avi --delete",
    "-rv",
    "-a --stats",
    "-avh --stats --delete",
    "-a --no-h --stats",
    "-a --out-format=%n%L",
    "-a --out-format='<<CHANGED>>%i %n%L' --delay-updates -F",
    "-a --delete --out-format='%o %i %B %l %U %G %M %f'",
    "-a --info=name,del --delete",
    "-am --delete -v",
    "-aHi",
    "-a --info=stats2,flist0",
    "-ad --no-r -v",
    "--list-only",
    "-a --list-only",
    "-r --list-only --exclude=*.o",
    "-aq",
    "-a8i",
    "-a --out-format=x%Py%u%n",
];

/// Entries of a source, in no order; a directory ends with a slash, a link has what it leads to.
const SOURCE: &[&str] = &[
    "new",
    "same",
    "longer",
    "mode",
    "b",
    "a b",
    "B",
    "z",
    "d/",
    "d/new",
    "d/same",
    "d/e/",
    "d/e/deep",
    "d.x",
    "d-x/",
    "d-x/file",
    "empty/",
    "made/",
    "made/one",
    "made/two/",
    "made/two/three",
    "x.o",
    "made/x.o",
    "\u{e4}",
    "q\\#012",
    "link -> same",
    "d/link -> ../new",
    "fifo |",
];
/// What a target has of it, or has besides.
const TARGET: &[&str] = &[
    "same",
    "longer",
    "mode",
    "b",
    "z",
    "old",
    "olds/",
    "olds/one",
    "olds/two/",
    "olds/two/three",
    "d/",
    "d/same",
    "d/old",
    "d/e/",
    "d/e/deep",
    "d/e/old",
    "d/gone/",
    "d-x/",
    "d-x/file",
    "d-x/Old",
    "empty/",
    "link -> z",
    "keep.o",
];

/// Makes entries; those in a target differ in size, time or mode as their names say.
fn make(top: &Path, entries: &[&str], is_target: bool) {
    fs::create_dir_all(top).expect("our own place");
    for entry in entries {
        if let Some((link, to)) = entry.split_once(" -> ") {
            std::os::unix::fs::symlink(to, top.join(link)).expect("a fresh link");
            set_time(&top.join(link), if is_target { 5_000_000 } else { 6_000_000 });
        } else if let Some(fifo) = entry.strip_suffix(" |") {
            mknodat(CWD, top.join(fifo), FileType::Fifo, Mode::from_raw_mode(0o644), 0)
                .expect("a fresh fifo");
        } else if entry.ends_with('/') {
            fs::create_dir_all(top.join(entry)).expect("our own place");
        } else {
            let longer = if is_target && entry.starts_with("longer") { "and more" } else { "" };
            fs::write(top.join(entry), format!("of {entry}{longer}")).expect("our own place");
            let mode = if is_target && *entry == "mode" { 0o600 } else { 0o644 };
            fs::set_permissions(top.join(entry), fs::Permissions::from_mode(mode)).expect("our own place");
            set_time(&top.join(entry), if is_target && *entry == "b" { 2_000_000 } else { 1_000_000 });
        }
    }
    let directories = entries.iter().filter(|entry| entry.ends_with('/'));
    for path in directories.map(|entry| top.join(entry)).chain([top.to_path_buf()]) {
        let is_other = is_target && !path.ends_with("empty");
        set_time(&path, if is_other { 3_000_000 } else { 4_000_000 });
    }
}

fn source(bench: &Bench<'_>) -> PathBuf {
    let source = bench.place("words");
    make(&source, SOURCE, false);
    source
}

fn target(bench: &Bench<'_>, name: &str) -> PathBuf {
    let target = bench.sshd.root.join(name);
    make(&target, TARGET, true);
    target
}

/// What no two runs have in common: bytes on the wire, and how long something took.
fn plain(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let moves = ["sent ", "Total bytes ", "File list ", "Literal data", "Matched data"];
    let lines = text.lines().map(|line| {
        let known = moves.iter().find(|start| line.starts_with(**start));
        match (known, line.find("  speedup is ")) {
            (Some(start), _) => format!("{start}.."),
            (None, Some(at)) => {
                let dry = if line.ends_with("(DRY RUN)") { " (DRY RUN)" } else { "" };
                format!("{}{dry}", &line[..at])
            }
            (None, None) => line.to_owned(),
        }
    });
    lines.collect()
}

/// The first difference, of deletions, of what is left out, and of the rest: in rsync's output these overtake
/// each other, each in its order.
fn difference(ours: &[String], theirs: &[String]) -> Option<String> {
    type Kind = fn(&String) -> bool;
    let is_deletion: Kind =
        |line| ["*deleting", "deleting ", "del. "].iter().any(|start| line.starts_with(start));
    let is_skipped: Kind = |line| line.starts_with("skipping ");
    let is_said: Kind = |line| line.starts_with("cannot delete non-empty");
    let of = |lines: &[String], wanted: &dyn Fn(&String) -> bool| -> Vec<String> {
        lines.iter().filter(|line| wanted(line) && !is_said(line)).cloned().collect()
    };
    let rest = |line: &String| !is_deletion(line) && !is_skipped(line);
    let kinds: [&dyn Fn(&String) -> bool; 3] = [&is_deletion, &is_skipped, &rest];
    kinds.iter().find_map(|kind| first_difference(&of(ours, kind), &of(theirs, kind)))
}

fn first_difference(ours: &[String], theirs: &[String]) -> Option<String> {
    let at = (0..ours.len().max(theirs.len())).find(|at| ours.get(*at) != theirs.get(*at))?;
    let shown = |lines: &[String]| {
        lines[at.saturating_sub(1).min(lines.len())..(at + 3).min(lines.len())].join("\n    ")
    };
    Some(format!("at line {at} ours\n    {}\n  theirs\n    {}", shown(ours), shown(theirs)))
}

#[test]
fn a_push_prints_what_rsync_prints() {
    if !is_installed() {
        return;
    }
    let mut apart = Vec::new();
    let case = Case::new("a_push_prints_what_rsync_prints");
    let bench = Bench::open(&case);
    let source = format!("{}/", source(&bench).display());
    for (number, line) in LINES.iter().enumerate() {
        let [theirs, ours] = ["theirs", "ours"].map(|name| target(&bench, &format!("{name}{number}")));
        let at = |path: &std::path::Path| format!("{HOST}:{}/", path.display());
        let options = bench.line(line);
        let their_run = bench.rsync(&options, &[&source], &at(&theirs));
        let our_run = bench.fobs(&options, &[&source], &at(&ours));
        let found = difference(&plain(&our_run.stdout), &plain(&their_run.stdout));
        let codes = (our_run.code != their_run.code)
            .then(|| format!("code {:?}, theirs {:?} {}", our_run.code, their_run.code, their_run.stderr));
        apart.extend(found.or(codes).map(|what| format!("{line}: {what} {}", our_run.stderr)));
    }
    assert!(apart.is_empty(), "{} of {} lines differ:\n{}", apart.len(), LINES.len(), apart.join("\n"));
}

#[test]
fn a_pull_prints_the_lines_that_rsync_prints() {
    if !is_installed() {
        return;
    }
    let mut apart = Vec::new();
    let case = Case::new("a_pull_prints_the_lines_that_rsync_prints");
    let bench = Bench::open(&case);
    let from = format!("{HOST}:{}/", source(&bench).display());
    for (number, line) in LINES.iter().enumerate() {
        let places = ["theirs", "ours"].map(|name| case.local(format!("{name}{number}")));
        places.iter().for_each(|place| std::fs::create_dir_all(place).expect("our own place"));
        let [theirs, ours] = places.map(|place| format!("{}/", place.display()));
        let options = bench.line(line);
        let their_run = bench.rsync(&options, &[&from], &theirs);
        let our_run = bench.fobs(&options, &[&from], &ours);
        // There two processes print, each what it does.
        let sorted = |text: &[u8]| {
            let mut lines = plain(text);
            lines.sort();
            lines
        };
        let found = difference(&sorted(&our_run.stdout), &sorted(&their_run.stdout));
        apart.extend(found.map(|what| format!("{line}: {what} {}", our_run.stderr)));
    }
    assert!(apart.is_empty(), "{} of {} lines differ:\n{}", apart.len(), LINES.len(), apart.join("\n"));
}

#[test]
fn a_source_alone_is_listed() {
    if !is_installed() {
        return;
    }
    let case = Case::new("a_source_alone_is_listed");
    let bench = Bench::open(&case);
    let top = source(&bench).display().to_string();
    for source in [format!("{HOST}:{top}/"), format!("{HOST}:{top}"), format!("{top}/"), top.clone()] {
        for options in [&["-r"][..], &[], &["-a", "--no-h"], &["-rh"]] {
            let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
            let run = |program: &str| {
                let mut command = match program {
                    "rsync" => case.command(Side::Client, "rsync"),
                    _ => {
                        let mut command = case.fobs(Side::Client);
                        command.arg("sync").arg("--fobs-path").arg(super::case::peer_path());
                        command
                    }
                };
                command.env("RSYNC_RSH", bench.ssh());
                case.run(command.args(&options).arg(&source)).expect_success()
            };
            let (ours, theirs) = (run("fobs"), run("rsync"));
            let found = difference(&plain(&ours.stdout), &plain(&theirs.stdout));
            assert!(found.is_none(), "{options:?} {source}: {}", found.unwrap_or_default());
        }
    }
}

#[test]
fn a_tree_is_brought_up_to_date_on_one_host() {
    if !is_installed() {
        return;
    }
    let case = Case::new("a_tree_is_brought_up_to_date_on_one_host");
    let bench = Bench::open(&case);
    source(&bench);
    for (number, options) in
        ["-ai --delete", "-rltv --force", "-aH --inplace --stats --del", "-ac -n -v --delete"]
            .into_iter()
            .enumerate()
    {
        let targets = ["theirs", "ours"].map(|name| {
            let target = target(&bench, &format!("{name}{number}"));
            let place = case.local(format!("{name}{number}"));
            std::fs::rename(&target, &place).expect("one file system");
            place
        });
        let [theirs, ours] = [0, 1].map(|at| format!("{}/", targets[at].display()));
        // Relative to where both run.
        let their_run = bench.rsync(&bench.line(options), &["words/"], &theirs).expect_success();
        let our_run = bench.fobs(&bench.line(options), &["words/"], &ours).expect_success();
        let found = difference(&plain(&our_run.stdout), &plain(&their_run.stdout));
        assert!(found.is_none(), "{options}: {}", found.unwrap_or_default());
        let [their_tree, our_tree] = [0, 1].map(|at| listing(&targets[at], None, bench.opened));
        assert_eq!(our_tree, their_tree, "{options}");
    }
    let mut copy = case.fobs(Side::Client);
    copy.current_dir(case.local("words")).args(["cp", "-rp", "d", "../copied"]);
    case.run(&mut copy).expect_success();
    let kept = |name: &str| std::fs::read(case.local(name).join("e/deep")).expect("a file");
    assert_eq!(kept("copied"), kept("words/d"));
}

#[test]
fn a_log_has_the_lines_of_rsyncs() {
    if !is_installed() {
        return;
    }
    let case = Case::new("a_log_has_the_lines_of_rsyncs");
    let bench = Bench::open(&case);
    let source = format!("{}/", source(&bench).display());
    for (number, format) in ["", " --log-file-format='%o %n %l'", " -i"].into_iter().enumerate() {
        let log = |program: &str| case.local(format!("{program}{number}.log"));
        let run = |program: &str| {
            let target = format!("{HOST}:{}/", target(&bench, &format!("{program}{number}")).display());
            let line = format!("-a --delete --force --log-file={}{format}", log(program).display());
            let options = bench.line(&line);
            let done = match program {
                "rsync" => bench.rsync(&options, &[&source], &target),
                _ => bench.fobs(&options, &[&source], &target),
            };
            done.expect_success();
            let text = std::fs::read(log(program)).expect("it was written");
            let mut lines = plain(&text);
            // Date, time and process.
            lines.iter_mut().for_each(|line| {
                let words: Vec<&str> = line.splitn(4, ' ').collect();
                let rest = words.get(3).copied().unwrap_or_default();
                *line = if rest.starts_with("sent ") { "sent".to_owned() } else { rest.to_owned() };
            });
            lines.sort();
            lines
        };
        let (ours, theirs) = (run("fobs"), run("rsync"));
        let found = difference(&ours, &theirs);
        assert!(found.is_none(), "{format}: {}", found.unwrap_or_default());
    }
}

#[test]
fn progress_is_a_line_that_programs_read() {
    let case = Case::new("progress_is_a_line_that_programs_read");
    let bench = Bench::open(&case);
    let source = format!("{}/", source(&bench).display());
    for (number, (options, per_file)) in
        [("-a --force --info=progress2", false), ("-a --force -P", true)].into_iter().enumerate()
    {
        let target = format!("{HOST}:{}/", target(&bench, &format!("ours{number}")).display());
        let done = bench.fobs(&bench.line(options), &[&source], &target).expect_success();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let last = text.rsplit(['\r', '\n']).find(|line| line.contains("(xfr#")).expect("a line of progress");
        let words: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(words.get(1), Some(&"100%"), "{last}");
        assert!(words[2].ends_with("B/s") && words[5].starts_with("to-chk=0/"), "{last}");
        assert_eq!(text.contains("new\n\r"), per_file, "{text}");
    }
}

#[test]
fn a_destination_that_is_made_is_said_as_by_rsync() {
    if !is_installed() {
        return;
    }
    let case = Case::new("a_destination_that_is_made_is_said_as_by_rsync");
    let bench = Bench::open(&case);
    let source = format!("{}/", source(&bench).display());
    for (number, options) in [
        "-ai",
        "-av",
        "-avn",
        "-ain",
        "-aq",
        "-a --out-format=%n",
        // As Ansible has it: what is linked, and what is made for it.
        "-aHii --link-dest=../theirs1 --out-format='<<CHANGED>>%i %n%L'",
    ]
    .into_iter()
    .enumerate()
    {
        let at = |program: &str| format!("{}/{program}{number}/", bench.sshd.root.display());
        let target = |program: &str| format!("{HOST}:{}", at(program));
        let their_run = bench.rsync(&bench.line(options), &[&source], &target("theirs")).expect_success();
        let our_run = bench.fobs(&bench.line(options), &[&source], &target("ours")).expect_success();
        let ours: Vec<String> =
            plain(&our_run.stdout).iter().map(|line| line.replace("/ours", "/theirs")).collect();
        let found = difference(&ours, &plain(&their_run.stdout));
        assert!(found.is_none(), "{options}: {}", found.unwrap_or_default());
    }
}

#[test]
fn the_version_has_the_form_of_rsyncs() {
    let case = Case::new("the_version_has_the_form_of_rsyncs");
    for letters in ["--version", "-V"] {
        let done = case.run(case.fobs(Side::Client).args(["sync", letters])).expect_success();
        let text = String::from_utf8(done.stdout).expect("text");
        // As programs look for it.
        let (first, rest) = text.split_once('\n').expect("lines");
        assert!(
            first.contains(concat!(" version ", env!("CARGO_PKG_VERSION"), "  protocol version ")),
            "{first}"
        );
        let capabilities = rest.split_once("Capabilities:").expect("the list").1;
        let all: Vec<&str> = capabilities.split(',').map(str::trim).collect();
        assert!(["ACLs", "xattrs", "hardlinks", "append"].iter().all(|one| all.contains(one)), "{text}");
    }
}
