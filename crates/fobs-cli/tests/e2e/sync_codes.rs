//! Exit codes of `fobs sync`, each provoked in rsync, too, where that is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::case::{Case, fobs_path};
use super::needs;
use super::net::Side;
use super::sync_lines::is_installed;

/// Most runs of a line in which rsync must end once with the code that it has for it. With four busy loops
/// beside it on two cores, one of 152 runs ended with another code.
const RSYNC_RUNS_MAX: u32 = 10;

/// A place with sources and remote shells that fail in their own ways.
struct Place<'a> {
    case: &'a Case,
    top: PathBuf,
}

impl Place<'_> {
    fn make(case: &Case) -> Place<'_> {
        let top = case.path("place");
        fs::create_dir_all(top.join("src/d")).expect("our own place");
        for (name, content) in [("src/a", "a"), ("src/b", "b"), ("src/d/c", "c"), ("file", "x")] {
            fs::write(top.join(name), content).expect("our own place");
        }
        for (name, script) in [
            ("rsh", "shift; exec sh -c \"$*\""),
            ("silent", "exec sleep 30"),
            ("ends", "exit 7"),
            ("noise", "exec head -c 100000 /dev/zero"),
        ] {
            let path = top.join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("our own place");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own place");
        }
        Place { case, top }
    }

    /// The exit code of one of both programs; what the line made at the destination is gone before.
    fn code(&self, program: &str, before: &str, line: &str) -> (Option<i32>, String) {
        let (top, _) = (&self.top, fs::remove_dir_all(self.top.join("dst")));
        let full = line.replace("TOP", &top.display().to_string());
        let run = match program {
            "fobs" if full.contains("fobs://") => format!("{} sync {full}", fobs_path().display()),
            "fobs" => format!("{0} sync --fobs-path {0} {full}", fobs_path().display()),
            _ => format!("{program} {full}"),
        };
        let mut shell = self.case.command(Side::Client, "sh");
        shell.args(["-c", &format!("cd {} && {before} {run}", top.display())]);
        let done = self.case.run(&mut shell);
        (done.code, done.stderr)
    }

    /// Plays a line; says what differs.
    fn play(&self, code: i32, before: &str, ours: &str, theirs: &str) -> Option<String> {
        let (got, said) = self.code("fobs", before, ours);
        if got != Some(code) {
            return Some(format!("{ours}: {got:?} and not {code}: {said}"));
        }
        if !is_installed() {
            return None;
        }
        let (mut got, mut said) = self.code("rsync", before, theirs);
        // Where its peer ends, rsync has one of several codes, by what it happens to notice first.
        for _ in 1..RSYNC_RUNS_MAX {
            if got == Some(code) {
                break;
            }
            (got, said) = self.code("rsync", before, theirs);
        }
        (got != Some(code)).then(|| format!("rsync {theirs}: {got:?} and not {code}: {said}"))
    }
}

/// What both programs end with; TOP is the place.
const LINES: &[(i32, &str)] = &[
    (0, "-a src/ dst/"),
    (0, "-a --link-dest=TOP/none src/ dst/"),
    (0, "-a --link-dest=TOP/file src/ dst/"),
    (0, "-a --copy-dest=TOP/file src/ dst/"),
    (1, "-a --nonsense src/ dst/"),
    (1, "-a --max-size=abc src/ dst/"),
    (1, "-a --files-from=none src/ dst/"),
    (1, "-a --temp-dir=TOP/none src/ dst/"),
    (1, "-a -Tnone -e TOP/rsh src/ h:TOP/dst/"),
    (1, "-a -Tnone -e TOP/rsh h:TOP/src/ dst/"),
    (1, "-a h:a h:b"),
    (2, "-a -e TOP/noise src/ h:dst/"),
    (3, "-a src/ file"),
    (3, "-a -e TOP/rsh src/a src/b h:TOP/file"),
    (3, "-a -e TOP/rsh h:TOP/src/ file"),
    (3, "-a src/ file/below/"),
    (3, "-a src/a none/such/file"),
    (4, "-a --iconv=klingon,utf-8 src/ dst/"),
    (4, "-a --checksum-choice=klingon src/ dst/"),
    (4, "-az --compress-choice=klingon src/ dst/"),
    (11, "-a src/ none/such/place/"),
    (11, "-a -e TOP/rsh src/ h:TOP/none/such/place/"),
    (11, "-a -e TOP/rsh h:TOP/src/ none/such/place/"),
    (11, "-a src/a none/such/"),
    (11, "-a --exclude-from=none src/ dst/"),
    (11, "-a --include-from=none src/ dst/"),
    (11, "-a --filter='. none' src/ dst/"),
    (12, "-a -e TOP/ends src/ h:dst/"),
    (12, "-a -e TOP/ends h:src/ dst/"),
    (14, "-a -e TOP/none src/ h:dst/"),
    (23, "-a none dst/"),
    (23, "-a none/ dst/"),
    (23, "-a src/a none dst/"),
    (23, "-a -e TOP/rsh src/a none h:TOP/dst/"),
    (23, "-a -e TOP/rsh h:TOP/none dst/"),
    (23, "-a -e TOP/rsh h:TOP/src/a :TOP/none dst/"),
    (23, "none"),
    (30, "-a --timeout=1 -e TOP/silent src/ h:dst/"),
];

#[test]
fn failures_have_the_exit_codes_of_rsync() {
    let case = Case::new("failures_have_the_exit_codes_of_rsync");
    let place = Place::make(&case);
    let apart: Vec<_> = LINES.iter().filter_map(|(code, line)| place.play(*code, "", line, line)).collect();
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}

#[test]
fn sources_behind_a_colon_are_of_the_first_ones_host() {
    let case = Case::new("sources_behind_a_colon_are_of_the_first_ones_host");
    let place = Place::make(&case);
    let line = "-a -e TOP/rsh h:TOP/src/a :TOP/src/d h:TOP/file dst/";
    assert_eq!(place.play(0, "", line, line), None);
    place.code("fobs", "", line);
    let names = super::files::names(&place.top.join("dst"));
    assert_eq!(names, ["a", "d", "file"]);
}

#[test]
fn signals_end_a_sync_as_rsync() {
    let case = Case::new("signals_end_a_sync_as_rsync");
    let place = Place::make(&case);
    fs::File::create(place.top.join("src/big")).and_then(|file| file.set_len(64 << 20)).expect("room");
    for signal in ["INT", "TERM", "HUP"] {
        let before = format!("timeout --preserve-status -s {signal} 1.5");
        let line = "-a --bwlimit=1m src/ dst/";
        assert_eq!(place.play(20, &before, line, line), None, "{signal}");
    }
}

#[test]
fn connections_fail_with_the_exit_codes_of_rsync() {
    if !needs::given("connections_fail_with_the_exit_codes_of_rsync") {
        return;
    }
    let case = Case::new("connections_fail_with_the_exit_codes_of_rsync");
    let place = Place::make(&case);
    let key = case.path("key");
    case.run(case.fobs(Side::Client).args(["keygen", "--out"]).arg(&key)).expect_success();
    let identity = format!("--identity {}", key.display());
    let apart: Vec<_> = [
        (10, "fobs://127.0.0.1:9/m/ dst/", "rsync://127.0.0.1:9/m/ dst/"),
        (35, "--contimeout=1 fobs://10.77.0.200/m/ dst/", "--contimeout=1 rsync://10.77.0.200/m/ dst/"),
    ]
    .into_iter()
    .filter_map(|(code, ours, theirs)| {
        place.play(code, "", &format!("-a {identity} {ours}"), &format!("-a {theirs}"))
    })
    .collect();
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}

#[test]
fn a_full_device_ends_a_sync_as_rsync() {
    if !needs::given("a_full_device_ends_a_sync_as_rsync") {
        return;
    }
    let case = Case::new("a_full_device_ends_a_sync_as_rsync");
    let place = Place::make(&case);
    let big = vec![b'x'; 3 << 20];
    fs::write(place.top.join("src/big"), big).expect("room");
    let full = "mkdir -p small && mount -t tmpfs -o size=1m none small";
    let before = format!("unshare -m sh -c '{full} && exec \"$@\"' full");
    assert_eq!(place.play(11, &before, "-a src/ small/", "-a src/ small/"), None);
}

#[test]
fn output_that_cannot_be_printed_has_its_code() {
    let case = Case::new("output_that_cannot_be_printed_has_its_code");
    let place = Place::make(&case);
    assert_eq!(place.code("fobs", "", "-a --json src/ dst/ > /dev/full").0, Some(13));
}

/// As osync, rbme and Back In Time wrote their lines before rsync 3.2.4.
#[test]
fn old_lines_have_their_paths_read_as_by_a_shell_there() {
    let case = Case::new("old_lines_have_their_paths_read_as_by_a_shell_there");
    let place = Place::make(&case);
    fs::write(place.top.join("src/two words"), "x").expect("our own place");
    let old = "export RSYNC_OLD_ARGS=1;";
    for (before, line, expected) in [
        ("", "-a --old-args -e TOP/rsh \"h:TOP/src/a TOP/src/d\" dst/", &["a", "d"][..]),
        (old, "-a -e TOP/rsh \"h:'TOP/src/two words' TOP/src/b\" dst/", &["b", "two words"]),
        (old, "-a -e TOP/rsh src/a src/b \"h:'TOP/dst/'\"", &["a", "b"]),
        ("", "-a --old-args -e TOP/rsh src/a 'h:\"TOP/\"dst/'", &["a"]),
        (old, "-a -s -e TOP/rsh \"h:TOP/src/two words\" dst/", &["two words"]),
        ("", "-a -e TOP/rsh \"h:TOP/src/two words\" dst/", &["two words"]),
    ] {
        for program in ["fobs", "rsync"] {
            if program == "rsync" && !is_installed() {
                continue;
            }
            let (code, said) = place.code(program, before, line);
            assert_eq!(code, Some(0), "{program} {line}: {said}");
            assert_eq!(super::files::names(&place.top.join("dst")), expected, "{program} {line}");
        }
    }
    let (code, said) = place.code("fobs", old, "-a -e TOP/rsh src/a \"h:TOP/dst TOP/other\"");
    assert!(code == Some(1) && said.contains("is 2 names"), "{code:?} {said}");
}
