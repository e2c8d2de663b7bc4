//! What a copy and `fobs doctor` say of large files: by which way they were read and written, on which file
//! systems; and what a copy may hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::case::Case;
use super::files::{hash, write_random};
use super::needs;
use super::net::Side;
use super::remote::{Carrier, Direction, Route};

/// A large file, of an odd size.
const BYTES: u64 = (65 << 20) + 12_345;

/// The rows of one end, as file system, way, reason and bytes.
fn rows(done: &Value, end: &str) -> Vec<(String, String, String, u64)> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let row = |row: &Value| {
        let bytes = row["bytes"].as_u64().expect("a figure");
        (text(row, "file_system"), text(row, "way"), text(row, "why"), bytes)
    };
    done["storage"][end].as_array().unwrap_or_else(|| panic!("{end}: {done}")).iter().map(row).collect()
}

#[test]
fn a_copy_says_how_its_large_files_were_read_and_written() {
    let case = Case::new("a_copy_says_how_its_large_files_were_read_and_written");
    for direction in [Direction::Push, Direction::Pull] {
        let route = Route::open(&case, Carrier::Daemon, direction);
        write_random(&route.source_path("large"), BYTES, &mut case.random());
        fs::write(route.source_path("small"), "small").expect("our own place");
        for flags in [&["--fsync"][..], &[], &["--cache"]] {
            let done = case.run(&mut route.copy(flags, "large", "copy")).expect_success().done();
            assert_eq!(hash(&route.source_path("large")), hash(&route.target_path("copy")));
            for end in ["read", "written"] {
                let rows = rows(&done, end);
                let bytes: u64 = rows.iter().map(|row| row.3).sum();
                assert_eq!(bytes, BYTES, "{flags:?} {end}: {rows:?}");
                let asked = |row: &(String, String, String, u64)| (&*row.1, &*row.2) == ("cached", "asked");
                assert_eq!(rows.iter().all(asked), flags == ["--cache"], "{flags:?} {end}: {rows:?}");
                assert!(rows.iter().all(|row| row.0 != "unknown"), "{rows:?}");
            }
        }
        // Nothing is said of small ones.
        let done = case.run(&mut route.copy(&[], "small", "copy-of-it")).expect_success().done();
        assert_eq!(done["storage"], Value::Null);
        let mut person = route.plain_cp(&["-v", "--cache"]);
        let said =
            case.run(person.arg(route.source("large")).arg(route.target("copy"))).expect_success().said();
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("large files")).collect();
        let [line] = lines[..] else { panic!("one line a copy: {said}") };
        assert!(line.starts_with("fobs: large files read: ") && line.contains("; written: "), "{line}");
        assert_eq!(line.matches("through the page cache (--cache)").count(), 2, "{line}");
        let mut quiet = route.plain_cp(&[]);
        let said =
            case.run(quiet.arg(route.source("large")).arg(route.target("copy"))).expect_success().said();
        assert!(!said.contains("large files"), "{said}");
        drop(route);
        case.start_over();
    }
}

#[test]
fn a_fallback_is_told_with_its_file_system() {
    let Some(case) = in_memory("a_fallback_is_told_with_its_file_system") else { return };
    let route = Route::open(&case, Carrier::Daemon, Direction::Push);
    write_random(&route.source_path("large"), BYTES, &mut case.random());
    let done = case.run(&mut route.copy(&["--fsync"], "large", "copy")).expect_success().done();
    for (end, best, why) in [("read", "uncached", "already_cached"), ("written", "direct", "no_other")] {
        let rows = rows(&done, end);
        let [row] = &rows[..] else { panic!("all of it went one way: {rows:?}") };
        assert_eq!((&*row.0, row.3), ("tmpfs", BYTES));
        if row.1 == best {
            eprintln!("skipped: this kernel has the best way in memory, too");
        } else {
            assert_eq!((&*row.1, &*row.2), ("cached", why), "{end}");
        }
    }
}

/// A case whose files are in memory, where that is so.
fn in_memory(name: &'static str) -> Option<Case> {
    let shm = Path::new("/dev/shm");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_tmpfs = mounts.lines().any(|line| line.contains(" /dev/shm tmpfs "));
    is_tmpfs.then(|| Case::within(name, shm))
}

#[test]
fn doctor_says_how_large_files_are_stored_and_what_a_copy_may_hold() {
    let case = Case::new("doctor_says_how_large_files_are_stored_and_what_a_copy_may_hold");
    let mut command = case.fobs(Side::Client);
    let finished = case.run(command.args(["doctor", "--dir"]).arg(case.local(""))).expect_success();
    let text = String::from_utf8(finished.stdout).expect("text");
    let line = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("  {name:15} ")));
        line.unwrap_or_else(|| panic!("{name}: {text}"))
    };
    assert!(line("disk").contains("; large files on this "), "{text}");
    let memory = line("memory");
    assert!(memory.contains("a copy may hold ") && memory.ends_with(" at 100 ms"), "{text}");
}

/// A control group of memory without a limit, within one that has one; both go when dropped.
pub struct Groups {
    outer: PathBuf,
    inner: PathBuf,
}

impl Groups {
    /// Of version 2 or 1; none where this process may not make any.
    pub fn make(name: &str, limit: u64) -> Option<Groups> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |controllers: &str| {
            let mut lines = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
            let is_it = |(of, _): &(&str, &str)| of.split(',').any(|one| one == controllers);
            lines.find(is_it).map(|(_, path)| path.to_owned())
        };
        let (top, file) = match path("memory") {
            Some(path) => (format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"),
            // A group that has processes has no groups with controllers: these are beside it.
            None => ("/sys/fs/cgroup".to_owned(), "memory.max"),
        };
        let outer = Path::new(&top).join(format!("fobs-e2e-{name}-{}", std::process::id()));
        let groups = Groups { inner: outer.join("inner"), outer };
        fs::create_dir(&groups.outer).ok()?;
        fs::write(groups.outer.join(file), limit.to_string()).ok()?;
        fs::create_dir(&groups.inner).ok()?;
        Some(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // A group whose last process has just ended may take a moment.
        for group in [&self.inner, &self.outer] {
            for _ in 0..200 {
                if fs::remove_dir(group).is_ok() || !group.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn a_copy_holds_an_eighth_of_the_control_groups_around_it() {
    const NAME: &str = "a_copy_holds_an_eighth_of_the_control_groups_around_it";
    const LIMIT: u64 = 1 << 30;
    if !needs::given(NAME) {
        return;
    }
    let case = Case::new(NAME);
    let groups = Groups::make(NAME, LIMIT).expect("it was possible");
    // Not in a host of the case: its /sys has no control groups.
    let mut shell = Command::new("sh");
    shell.env("HOME", case.path("home")).env("FOBS_SYSTEM_CONFIG", "/dev/null");
    shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(groups.inner.join("cgroup.procs"));
    shell.arg(super::case::fobs_path()).args(["doctor", "--json", "--dir"]).arg(case.local(""));
    let finished = case.run(&mut shell).expect_success();
    let found: Value = serde_json::from_slice(&finished.stdout).expect("one object");
    let memory = &found["facts"]["here"]["memory"];
    let [available, copy] = ["available", "copy"].map(|name| memory[name].as_u64().expect("a figure"));
    assert!(available <= LIMIT, "{memory}");
    assert!((64 << 20..=LIMIT / 8).contains(&copy), "{memory}");
}
