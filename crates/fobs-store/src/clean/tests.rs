use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::*;

/// What was reported, by file name.
fn run(directory: &Path, options: CleanOptions) -> Vec<(PathBuf, Fate)> {
    let mut found = Vec::new();
    clean(directory, options, &mut |leftover| found.push((leftover.path, leftover.fate))).expect("readable");
    found
}

const ALL: CleanOptions = CleanOptions { recursive: true, dry_run: false };

#[test]
fn old_temporaries_go_and_everything_else_stays() {
    let place = tempfile::tempdir().expect("a directory");
    let top = place.path();
    fs::create_dir(top.join("d")).expect("a directory");
    let ours = [".old.fobs-abc123", "d/.old.fobs-abc123", ".new.fobs-abc124"];
    let users = ["x", ".x.fobs-journal", ".config.fobs-backup"];
    for name in ours.into_iter().chain(users) {
        fs::write(top.join(name), b"content").expect("a file");
    }
    fs::write(top.join(".empty.fobs-journal"), b"").expect("a file");
    for name in ours {
        fs::set_permissions(top.join(name), Permissions::from_mode(0o1600)).expect("own file");
    }
    for name in [".old.fobs-abc123", "d/.old.fobs-abc123", ".config.fobs-backup"] {
        let file = File::options().write(true).open(top.join(name)).expect("the file");
        file.set_modified(SystemTime::now() - Duration::from_secs(7200)).expect("its time");
    }
    let dry = run(top, CleanOptions { recursive: false, dry_run: true });
    let expected = [
        (".empty.fobs-journal", Fate::Foreign),
        (".x.fobs-journal", Fate::Foreign),
        (".config.fobs-backup", Fate::Foreign),
        (".new.fobs-abc124", Fate::Recent),
        (".old.fobs-abc123", Fate::Found),
    ];
    assert_eq!(dry, expected.map(|(name, fate)| (top.join(name), fate)));
    assert_eq!(run(top, ALL).iter().filter(|(_, fate)| *fate == Fate::Removed).count(), 2);
    for (name, stays) in [
        (".old.fobs-abc123", false),
        ("d/.old.fobs-abc123", false),
        (".new.fobs-abc124", true),
        ("x", true),
        (".x.fobs-journal", true),
        (".config.fobs-backup", true),
        (".empty.fobs-journal", true),
    ] {
        assert_eq!(top.join(name).exists(), stays, "{name}");
    }
}

#[test]
fn a_directory_that_cannot_be_read_is_an_error() {
    let place = tempfile::tempdir().expect("a directory");
    let error = clean(&place.path().join("none"), ALL, &mut |_| ()).expect_err("it is not there");
    assert_eq!(error.kind, ErrorKind::NoSource);
}
