//! What not every user may set, names in two encodings, and where files wait: lines of rsync, played with
//! both programs over one sshd.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, Timespec, Timestamps, lgetxattr, makedev, mknodat};

use super::case::Case;
use super::needs;
use super::net::Side;
use super::sshd::HOST;
use super::sync_lines::{Bench, is_installed};
use super::sync_trees::just_now;

const NOTE: &str = "user.rsync.%stat";

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("our own place");
    fs::write(path, content).expect("our own place");
}

fn attribute(path: &Path, name: &str) -> Option<String> {
    let mut value = vec![0; 4096];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    Some(String::from_utf8_lossy(&value[..len]).into_owned())
}

fn there(path: &Path) -> String {
    format!("{HOST}:{}/", path.display())
}

/// Path, type, mode, owner, group, size, device, target and note of all below a directory.
fn tree(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).expect("it is there").flatten() {
            let path = entry.path();
            let meta = path.symlink_metadata().expect("it is there");
            if meta.is_dir() {
                waiting.push(path.clone());
            }
            let size = if meta.is_dir() { 0 } else { meta.size() };
            let mtime = if meta.is_symlink() { 0 } else { meta.mtime() };
            let name = path.strip_prefix(top).expect("below").as_os_str().as_bytes().escape_ascii();
            let (target, note) = (fs::read_link(&path).ok(), attribute(&path, NOTE));
            let (mode, owner) = (meta.mode(), (meta.uid(), meta.gid()));
            found.push(format!(
                "{name} {mode:o} {owner:?} {size} {} {mtime} {target:?} {note:?}",
                meta.rdev()
            ));
        }
    }
    found.sort();
    found
}

/// A tree with all that only root can make.
fn everything(case: &Case) -> PathBuf {
    let source = case.local("source");
    write(&source.join("d/file"), "content");
    write(&source.join("setuid"), "program");
    symlink("d/file", source.join("link")).expect("a fresh link");
    let open = fs::File::open(&source).expect("our own");
    for (name, kind, device) in
        [("fifo", FileType::Fifo, 0), ("null", FileType::CharacterDevice, makedev(1, 3))]
    {
        mknodat(&open, name, kind, Mode::from_raw_mode(0o644), device).expect("root");
    }
    chown(source.join("d/file"), Some(1234), Some(2345)).expect("root");
    chown(source.join("d"), Some(77), Some(88)).expect("root");
    fs::set_permissions(source.join("setuid"), fs::Permissions::from_mode(0o4755)).expect("our own");
    fs::set_permissions(source.join("d/file"), fs::Permissions::from_mode(0o444)).expect("our own");
    source
}

#[test]
fn notes_of_fake_super_are_read_by_both_programs() {
    const TEST: &str = "notes_of_fake_super_are_read_by_both_programs";
    if !needs::given(TEST) || !is_installed() {
        return;
    }
    let case = Case::new(TEST);
    let bench = Bench::open(&case);
    let source = everything(&case);
    let from = format!("{}/", source.display());
    let (theirs, ours) = (bench.sshd.root.join("theirs"), bench.sshd.root.join("ours"));
    let noted = words("-aXi -M--fake-super");
    bench.rsync(&noted, &[&from], &there(&theirs)).expect_success();
    bench
        .fobs(&words("-aX --rsync-path=rsync --remote-option=--fake-super"), &[&from], &there(&ours))
        .expect_success();
    assert_eq!(tree(&ours), tree(&theirs));
    assert_eq!(attribute(&ours.join("d/file"), NOTE).as_deref(), Some("100444 0,0 1234:2345"));
    assert!(ours.join("null").is_file() && ours.join("link").symlink_metadata().expect("a file").is_file());
    // Neither has anything to do with what the other stored.
    for (target, by) in [(&theirs, "rsync's"), (&ours, "our own")] {
        let again = bench.fobs(&noted, &[&from], &there(target)).expect_success();
        assert_eq!(String::from_utf8_lossy(&again.stdout), "", "{by}");
    }
    let again = bench.rsync(&noted, &[&from], &there(&ours)).expect_success();
    assert_eq!(String::from_utf8_lossy(&again.stdout), "");
    // And both have all of it back from the other.
    for (run, target, back) in [(true, &ours, "r"), (false, &theirs, "f")] {
        let to = case.local(back);
        let (from, to_text) = (there(target), format!("{}/", to.display()));
        let done = if run {
            bench.rsync(&noted, &[&from], &to_text)
        } else {
            bench.fobs(&noted, &[&from], &to_text)
        };
        done.expect_success();
        assert_eq!(tree(&to), tree(&source), "{back}");
    }
}

#[test]
fn access_times_are_kept_where_that_is_asked_for() {
    const TEST: &str = "access_times_are_kept_where_that_is_asked_for";
    if !is_installed() {
        return;
    }
    let case = Case::new(TEST);
    let bench = Bench::open(&case);
    let source = case.local("source");
    write(&source.join("d/old"), "content");
    write(&source.join("other"), "content");
    let old = |path: &Path, seconds: i64| {
        let at = |tv_sec| Timespec { tv_sec, tv_nsec: 5 };
        let times = Timestamps { last_access: at(seconds), last_modification: at(1_000_000_000) };
        rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("our own");
    };
    old(&source.join("d/old"), 900_000_000);
    old(&source.join("other"), 900_000_001);
    let from = format!("{}/", source.display());
    let (theirs, ours) = (bench.sshd.root.join("theirs"), bench.sshd.root.join("ours"));
    let accessed = |top: &Path| ["d/old", "other"].map(|name| top.join(name).metadata().expect(name).atime());
    bench.rsync(&words("-rtUU"), &[&from], &there(&theirs)).expect_success();
    bench.fobs(&words("-rtUU"), &[&from], &there(&ours)).expect_success();
    assert_eq!((accessed(&ours), accessed(&theirs)), ([900_000_000, 900_000_001], accessed(&source)));
    // A time that is another one is set, and named, by both alike.
    old(&source.join("d/old"), 900_000_002);
    let line = words("-rtUUi");
    let told =
        |done: super::process::Finished| String::from_utf8_lossy(&done.expect_success().stdout).into_owned();
    let their_lines = told(bench.rsync(&line, &[&from], &there(&theirs)));
    let our_lines = told(bench.fobs(&line, &[&from], &there(&ours)));
    assert_eq!((our_lines.as_str(), our_lines.clone()), (".f......u.. d/old\n", their_lines));
    assert_eq!(accessed(&ours), accessed(&source));
}

#[test]
fn names_are_converted_between_two_encodings() {
    const TEST: &str = "names_are_converted_between_two_encodings";
    if !is_installed() {
        return;
    }
    let case = Case::new(TEST);
    let bench = Bench::open(&case);
    let source = case.local("source");
    for name in ["caf\u{e9}/\u{fc}ber", "caf\u{e9}/plain", "\u{df}.tmp", "deep/\u{e4}/\u{f6}"] {
        write(&source.join(name), name);
    }
    symlink("caf\u{e9}/\u{fc}ber", source.join("\u{f1}")).expect("a fresh link");
    let from = format!("{}/", source.display());
    let (theirs, ours) = (bench.sshd.root.join("theirs"), bench.sshd.root.join("ours"));
    // What is deleted has a name of the other encoding.
    for target in [&theirs, &ours] {
        write(&target.join(std::ffi::OsStr::from_bytes(b"g\xe9ne")), "goes");
    }
    let line = words("-a --delete --exclude=\u{df}* --iconv=utf8,iso88591");
    let set = |done: super::process::Finished| done.expect_success();
    set(bench.rsync(&line, &[&from], &there(&theirs)));
    set(bench.fobs(&line, &[&from], &there(&ours)));
    assert_eq!(tree(&ours), tree(&theirs));
    let latin = std::ffi::OsStr::from_bytes(b"caf\xe9/\xfcber");
    assert_eq!(
        fs::read(ours.join(latin)).expect("its name is of one byte a letter"),
        "caf\u{e9}/\u{fc}ber".as_bytes()
    );
    let again =
        set(bench.fobs(&words("-ai --iconv=utf8,iso88591 --exclude=\u{df}*"), &[&from], &there(&ours)));
    assert_eq!(String::from_utf8_lossy(&again.stdout), "");
    let back = case.local("back");
    set(bench.fobs(&line, &[&there(&ours)], &format!("{}/", back.display())));
    let without = tree(&source).into_iter().filter(|line| !line.contains(".tmp")).collect::<Vec<_>>();
    assert_eq!(tree(&back), without);
    // A letter that the other encoding lacks: the others come, with a partial transfer's code.
    write(&source.join("\u{65e5}"), "no");
    for done in [bench.rsync(&line, &[&from], &there(&theirs)), bench.fobs(&line, &[&from], &there(&ours))] {
        assert_eq!(done.code, Some(23), "{}", done.stderr);
    }
}

#[test]
fn delayed_updates_get_their_names_together() {
    let case = Case::new("delayed_updates_get_their_names_together");
    let bench = Bench::open(&case);
    let source = case.local("source");
    write(&source.join("a/small"), "new");
    write(&source.join("b/small"), "new");
    fs::write(source.join("b/large"), vec![7; 3 << 20]).expect("our own place");
    let target = bench.sshd.root.join("target");
    write(&target.join("a/small"), "old version");
    let (from, to) = (format!("{}/", source.display()), there(&target));
    let line = words("-a --delay-updates --bwlimit=1m");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| bench.fobs(&line, &[&from], &to).expect_success());
        let end = Instant::now() + Duration::from_secs(60);
        let waits = |name: &str| target.join(name).exists();
        while !waits("a/.~tmp~/small")
            && !waits("b/.~tmp~/small")
            && Instant::now() < end
            && !run.is_finished()
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Whatever waits has not its name; a run that is over by now says nothing.
        if waits("a/.~tmp~/small") {
            assert_eq!(fs::read(target.join("a/small")).expect("the old one"), b"old version");
        }
        run.join().expect("it ends");
    });
    assert_eq!(fs::read(target.join("a/small")).expect("it is there"), b"new");
    assert_eq!(tree(&target), tree(&source), "and no directory is left");
    let done = bench.fobs(&words("-ai --delay-updates"), &[&from], &to).expect_success();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "");
    bench.fobs(&words("-a --inplace --delay-updates"), &[&from], &to).expect_code(1);
}

#[test]
fn files_are_written_in_another_file_system_and_come_whole() {
    let case = Case::new("files_are_written_in_another_file_system_and_come_whole");
    let bench = Bench::open(&case);
    let source = case.local("source");
    write(&source.join("d/file"), "content");
    write(&source.join("e/file"), "another of that name");
    let memory = tempfile::tempdir_in("/dev/shm").expect("a file system of its own");
    let target = bench.sshd.root.join("target");
    fs::create_dir_all(target.join("tmp")).expect("our own place");
    let (from, to) = (format!("{}/", source.display()), there(&target));
    for place in [memory.path().to_str().expect("plain"), "tmp"] {
        fs::remove_dir_all(target.join("d")).ok();
        let line = vec!["-a".to_owned(), format!("--temp-dir={place}")];
        bench.fobs(&line, &[&from], &to).expect_success();
        assert_eq!(fs::read(target.join("d/file")).expect("it is there"), b"content");
        assert_eq!(fs::read(target.join("e/file")).expect("it is there"), b"another of that name");
    }
    assert_eq!(fs::read_dir(memory.path()).expect("ours").count(), 0);
    assert_eq!(fs::read_dir(target.join("tmp")).expect("ours").count(), 0);
    let done = bench.fobs(&words("-a -Tnone"), &[&from], &to).expect_code(1);
    assert!(done.stderr.contains("--temp-dir"), "{}", done.stderr);
}

#[test]
fn devices_are_read_and_written_as_files() {
    const TEST: &str = "devices_are_read_and_written_as_files";
    if !needs::given(TEST) || !is_installed() {
        return;
    }
    let case = Case::new(TEST);
    let bench = Bench::open(&case);
    let source = everything(&case);
    let from = format!("{}/null", source.display());
    for (line, number) in [("-a --copy-devices", 1), ("-a --no-D --copy-devices", 2)] {
        let (theirs, ours) =
            (bench.sshd.root.join(format!("theirs{number}")), bench.sshd.root.join(format!("ours{number}")));
        let began = just_now();
        bench.rsync(&words(line), &[&from], &there(&theirs)).expect_success();
        bench.fobs(&words(line), &[&from], &there(&ours)).expect_success();
        let facts = |top: &Path| {
            let meta = top.join("null").symlink_metadata().expect("it is there");
            (meta.is_file(), meta.size(), meta.mode(), meta.mtime() >= began)
        };
        assert_eq!((facts(&ours), facts(&ours).0), (facts(&theirs), true), "{line}");
    }
    // Into a device: it stays one.
    let target = bench.sshd.root.join("device");
    fs::create_dir(&target).expect("our own place");
    let open = fs::File::open(&target).expect("our own");
    mknodat(&open, "setuid", FileType::CharacterDevice, Mode::from_raw_mode(0o644), makedev(1, 3))
        .expect("root");
    let from = format!("{}/setuid", source.display());
    bench.fobs(&words("-a --write-devices"), &[&from], &there(&target)).expect_success();
    let device = |path: &Path| path.symlink_metadata().expect("it is there").rdev();
    assert_eq!(device(&target.join("setuid")), makedev(1, 3));
    bench.fobs(&words("-a"), &[&from], &there(&target)).expect_success();
    assert_eq!(device(&target.join("setuid")), 0, "without the option it is replaced");
}

#[test]
fn a_copy_as_another_user_has_that_users_rights() {
    const TEST: &str = "a_copy_as_another_user_has_that_users_rights";
    if !needs::given(TEST) {
        return;
    }
    let case = Case::new(TEST);
    let (source, target) = (case.local("source"), case.local("target"));
    write(&source.join("open"), "content");
    write(&source.join("secret"), "of root");
    fs::set_permissions(source.join("secret"), fs::Permissions::from_mode(0o600)).expect("our own");
    fs::create_dir(&target).expect("our own place");
    chown(&target, Some(65_534), Some(65_534)).expect("root");
    for place in target.ancestors().take_while(|place| place.starts_with(case.local(""))) {
        let mode = place.metadata().expect("ours").mode() | 0o055;
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).expect("our own");
    }
    let mut command = case.fobs(Side::Client);
    command.args(["sync", "-rt", "--copy-as=65534:65534"]);
    let done = case.run(command.arg(format!("{}/", source.display())).arg(format!("{}/", target.display())));
    done.expect_code(23);
    let made = target.join("open").metadata().expect("it may be read by all");
    assert_eq!((made.uid(), made.gid()), (65_534, 65_534));
    assert!(!target.join("secret").exists(), "that user may not read it");
}

#[test]
fn a_host_without_an_address_is_pulled_from() {
    let case = Case::new("a_host_without_an_address_is_pulled_from");
    let (source, shell) = (case.local("source"), case.local("shell"));
    write(&source.join("d/file"), "content");
    // As docker exec: a name of its own, and a command.
    fs::write(&shell, "#!/bin/sh\n[ \"$1\" = -i ] && shift\nshift\nexec sh -c \"$*\"\n")
        .expect("our own place");
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).expect("our own");
    let run = |from: String, to: String| {
        let mut command = case.fobs(Side::Client);
        command.args(["sync", "-a", "--timeout=30", "-e"]).arg(format!("{} -i", shell.display()));
        command.arg("--fobs-path").arg(super::case::peer_path());
        case.run(command.arg(from).arg(to)).expect_success()
    };
    let pulled = case.local("pulled");
    run(format!("no-such-host.invalid:{}/", source.display()), format!("{}/", pulled.display()));
    assert_eq!(fs::read(pulled.join("d/file")).expect("it is there"), b"content");
    let pushed = case.local("pushed");
    run(format!("{}/", source.display()), format!("no-such-host.invalid:{}/", pushed.display()));
    assert_eq!(fs::read(pushed.join("d/file")).expect("it is there"), b"content");
}

#[test]
fn backups_are_named_where_that_is_asked_for() {
    let case = Case::new("backups_are_named_where_that_is_asked_for");
    let (source, target) = (case.local("source"), case.local("target"));
    let run = |line: &str| {
        let mut command = case.fobs(Side::Client);
        command.arg("sync").args(words(line));
        command.arg(format!("{}/", source.display())).arg(format!("{}/", target.display()));
        let done = case.run(&mut command).expect_success();
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    write(&source.join("d/file"), "content");
    write(&source.join("new"), "content");
    write(&target.join("d/file"), "older");
    let told = run("-rb --info=backup,name");
    assert!(told.contains("d/file\nbacked up d/file to d/file~\n") && told.contains("new\n"), "{told}");
    assert_eq!(told.matches("backed up").count(), 1, "{told}");
    write(&source.join("d/file"), "newer content");
    let told = run("-ri --backup --backup-dir=old --suffix=.o --info=backup");
    assert!(told.contains("backed up d/file to old/d/file.o\n"), "{told}");
    assert!(target.join("old/d/file.o").exists());
    write(&source.join("d/file"), "content again");
    assert!(!run("-rb --info=name").contains("backed up"));
}

#[test]
fn the_limit_of_deletions_counts_missing_arguments() {
    let case = Case::new("the_limit_of_deletions_counts_missing_arguments");
    let (source, target) = (case.local("source"), case.local("target"));
    fs::create_dir_all(&source).expect("our own place");
    for name in ["a", "b", "c"] {
        write(&target.join(name), "goes");
    }
    let run = |line: &str| {
        let mut command = case.fobs(Side::Client);
        command.arg("sync").args(words(line)).args(["a", "b", "c"].map(|name| source.join(name)));
        command.arg(format!("{}/", target.display()));
        case.run(&mut command)
    };
    let left = || fs::read_dir(&target).expect("ours").count();
    run("-r --delete-missing-args --max-delete=2").expect_code(25);
    assert_eq!(left(), 1);
    run("-r --delete-missing-args --max-delete=0").expect_code(25);
    assert_eq!(left(), 1);
    run("-r --delete-missing-args --max-delete=1").expect_success();
    assert_eq!(left(), 0);
}
