//! What a name does that every check let pass: the raw system calls of storing, with names that lead out.
//!
//! Each is played under every version of Landlock that there was, and without: there it succeeds, so the test
//! would see a wall that is not there.

use super::*;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, linkat, mkdirat, mknodat, openat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// An attack from the served directory on the one beside it.
type Attack = fn(&OwnedFd) -> std::result::Result<(), Errno>;

/// Those that change something outside, and the version from which on they are stopped.
const CHANGES: [(&str, u32, Attack); 9] = [
    // A backup's suffix with slashes: `ab` becomes `abc/../../outside/file`.
    ("backup over a file", 2, |at| renameat(at, "file", at, "sub/../../outside/file")),
    ("backup under a new name", 2, |at| renameat(at, "file", at, "sub/../../outside/new")),
    ("link out", 2, |at| linkat(at, "file", at, "sub/../../outside/linked", AtFlags::empty())),
    ("take away", 2, |at| renameat(at, "sub/../../outside/file", at, "taken")),
    ("remove", 2, |at| unlinkat(at, "../outside/file", AtFlags::empty())),
    ("remove a directory", 2, |at| unlinkat(at, "../outside/sub", AtFlags::REMOVEDIR)),
    ("make a directory", 2, |at| mkdirat(at, "../outside/made", Mode::from_raw_mode(0o700))),
    ("make a link", 2, |at| symlinkat("/etc", at, "../outside/way")),
    ("write", 2, |at| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        openat(at, "../outside/file", flags, Mode::from_raw_mode(0o600)).map(drop)
    }),
];

/// Those that read something outside.
const READS: [(&str, Attack); 3] = [
    ("read", |at| openat(at, "../outside/file", OFlags::RDONLY, Mode::empty()).map(drop)),
    ("list", |at| openat(at, "../outside", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map(drop)),
    ("read the server's memory", |_| openat(CWD, "/proc/self/mem", OFlags::RDONLY, Mode::empty()).map(drop)),
];

/// Every path below a directory, and what is in it.
fn manifest(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = walkdir::WalkDir::new(directory).into_iter().map(std::result::Result::unwrap);
    all.map(|entry| {
        let content =
            if entry.file_type().is_file() { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
        (entry.into_path(), content)
    })
    .collect()
}

#[test]
fn a_name_that_leads_out_changes_nothing_outside() {
    for landlock in 0..=landlock_here() {
        for (name, stopped_from, attack) in CHANGES {
            let place = Place::new(&std::env::temp_dir());
            let at = OwnedFd::from(File::open(&place.inside).unwrap());
            let before = manifest(&place.outside);
            let tried = confined(place.domain(Access::WriteDevices), landlock, || attack(&at));
            let stands = landlock >= stopped_from;
            assert_eq!(tried.is_err(), stands, "{name}, Landlock {landlock}: {tried:?}");
            assert_eq!(manifest(&place.outside) == before, stands, "{name}, Landlock {landlock}");
        }
    }
}

#[test]
fn a_client_that_receives_changes_nothing_but_its_destination() {
    for landlock in [0, landlock_here()] {
        for (name, stopped_from, attack) in CHANGES {
            let place = Place::new(&std::env::temp_dir());
            let at = OwnedFd::from(File::open(&place.inside).unwrap());
            let before = manifest(&place.outside);
            let tried = confined(place.receiver(), landlock, || attack(&at));
            let stands = landlock >= stopped_from;
            assert_eq!(tried.is_err(), stands, "{name}, Landlock {landlock}: {tried:?}");
            assert_eq!(manifest(&place.outside) == before, stands, "{name}, Landlock {landlock}");
        }
        let place = Place::new(&std::env::temp_dir());
        confined(place.receiver(), landlock, || {
            std::fs::read(place.outside.join("file")).unwrap();
            std::fs::write(place.inside.join("file"), "new").unwrap();
        });
    }
}

#[test]
fn a_name_that_leads_out_reads_nothing_outside() {
    let place = Place::new(&std::env::temp_dir());
    let at = OwnedFd::from(File::open(&place.inside).unwrap());
    for landlock in 0..=landlock_here() {
        for (name, attack) in READS {
            let tried = confined(place.domain(Access::Read), landlock, || attack(&at));
            assert_eq!(tried.is_err(), landlock >= 1, "{name}, Landlock {landlock}: {tried:?}");
        }
    }
}

#[test]
fn who_may_only_read_changes_nothing_inside_either() {
    if !has_landlock(1) {
        return;
    }
    let place = Place::new(&std::env::temp_dir());
    let at = OwnedFd::from(File::open(&place.inside).unwrap());
    let before = manifest(&place.inside);
    let attacks: [Attack; 5] = [
        |at| renameat(at, "file", at, "moved"),
        |at| linkat(at, "file", at, "linked", AtFlags::empty()),
        |at| unlinkat(at, "file", AtFlags::empty()),
        |at| mkdirat(at, "made", Mode::from_raw_mode(0o700)),
        |at| openat(at, "file", OFlags::WRONLY, Mode::empty()).map(drop),
    ];
    for landlock in 1..=landlock_here() {
        for attack in attacks {
            assert!(confined(place.domain(Access::Read), landlock, || attack(&at)).is_err());
        }
    }
    assert_eq!(manifest(&place.inside), before);
}

#[test]
fn who_may_delete_nothing_removes_no_directory() {
    if !has_landlock(2) {
        return;
    }
    let place = Place::new(&std::env::temp_dir());
    let at = OwnedFd::from(File::open(&place.inside).unwrap());
    let tried = confined(place.domain(Access::Deliver), landlock_here(), || {
        renameat(&at, "file", &at, "sub/moved")?;
        unlinkat(&at, "sub/moved", AtFlags::empty())?;
        unlinkat(&at, "sub", AtFlags::REMOVEDIR)
    });
    assert_eq!(tried, Err(Errno::ACCESS));
    assert!(place.inside.join("sub").is_dir() && !place.inside.join("sub/moved").exists());
}

#[test]
fn devices_are_made_by_the_privileged_only_and_spoken_to_by_none() {
    if !has_landlock(5) || !rustix::process::geteuid().is_root() {
        return;
    }
    // Where devices may be opened at all.
    let place = Place::new(Path::new("/dev/shm"));
    let at = OwnedFd::from(File::open(&place.inside).unwrap());
    let null = rustix::fs::makedev(1, 3);
    let make = |name: &str| mknodat(&at, name, FileType::CharacterDevice, Mode::from_raw_mode(0o600), null);
    if make("probe").is_err() {
        return eprintln!("skipped: this root makes no devices");
    }
    assert_eq!(confined(place.domain(Access::Write), landlock_here(), || make("one")), Err(Errno::ACCESS));
    assert_eq!(confined(place.domain(Access::WriteDevices), landlock_here(), || make("two")), Ok(()));
}
