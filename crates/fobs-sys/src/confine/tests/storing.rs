//! Everything that storing does, in the domain of a session: on the temporary file system and in memory, as
//! this user and, by root, as one that owns nothing.

use super::*;
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, XattrFlags, chmod, fallocate,
    fchmod, fchown, fsetxattr, fsync, ftruncate, linkat, makedev, mkdirat, mknodat, openat, openat2,
    renameat, renameat_with, setxattr, symlinkat, syncfs, unlinkat,
};
use rustix::io::{pread, pwrite};
use rustix::thread::{Gid, Uid};
use std::os::fd::AsRawFd;

const MODE: Mode = Mode::RWXU;

/// What storage/ does with a file, from its temporary name to a backup of it.
fn store(at: &OwnedFd) -> rustix::io::Result<()> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = openat2(at, ".new.fobs-abcdef", flags, Mode::from_raw_mode(0o600), beneath)?;
    pwrite(&file, b"content of a new file", 0)?;
    // What a file system may refuse is not of interest here, only what the domain does.
    let _ = fallocate(&file, FallocateFlags::empty(), 0, 1 << 20);
    let _ = fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, 8192);
    ftruncate(&file, 100)?;
    fsetxattr(&file, "user.fobs", b"value", XattrFlags::empty())?;
    fchmod(&file, Mode::from_raw_mode(0o640))?;
    fchown(&file, Some(rustix::process::geteuid()), None)?;
    fsync(&file)?;
    renameat_with(at, ".new.fobs-abcdef", at, "new", RenameFlags::NOREPLACE)?;
    // A backup, one in another directory, one more name, and `--link-dest` from a sibling.
    mkdirat(at, "one", MODE)?;
    mkdirat(at, "two", MODE)?;
    renameat(at, "new", at, "new~")?;
    renameat(at, "new~", at, "one/kept")?;
    linkat(at, "one/kept", at, "two/linked", AtFlags::empty())?;
    linkat(at, "one/kept", at, "one/second", AtFlags::empty())?;
    renameat(at, "two", at, "one/two")?;
    // By way of /proc, as what cannot be opened is changed.
    let held = openat(at, "one/kept", OFlags::PATH, Mode::empty())?;
    let handle = format!("/proc/self/fd/{}", held.as_raw_fd());
    chmod(&handle, Mode::from_raw_mode(0o600))?;
    setxattr(&handle, "user.fobs", b"again", XattrFlags::empty())?;
    let back = openat(at, "one/two/linked", OFlags::RDWR | OFlags::TRUNC, Mode::empty())?;
    pwrite(&back, b"once more", 0)?;
    pread(&back, &mut [0; 9], 0)?;
    symlinkat("/an/absolute/link", at, "link")?;
    mknodat(at, "fifo", FileType::Fifo, MODE, 0)?;
    mknodat(at, "socket", FileType::Socket, MODE, 0)?;
    let listing = openat(at, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    assert!(rustix::fs::Dir::read_from(&listing)?.count() > 5);
    fsync(&listing)?;
    syncfs(&listing)?;
    for name in ["link", "fifo", "socket", "one/kept", "one/second", "one/two/linked"] {
        unlinkat(at, name, AtFlags::empty())?;
    }
    unlinkat(at, "one/two", AtFlags::REMOVEDIR)?;
    unlinkat(at, "one", AtFlags::REMOVEDIR)
}

/// The places where temporary files are, and memory.
fn places() -> Vec<Place> {
    let memory = Path::new("/dev/shm");
    let places = [Some(std::env::temp_dir()), memory.is_dir().then(|| memory.to_owned())];
    places.into_iter().flatten().map(|parent| Place::new(&parent)).collect()
}

/// Gives up root, for good and in this thread only.
fn become_nobody() {
    let (user, group) = (Uid::from_raw(65534), Gid::from_raw(65534));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_gid(group).unwrap();
    rustix::thread::set_thread_uid(user).unwrap();
}

#[test]
fn storing_works_in_the_domain_of_a_session_and_of_a_receiver() {
    for place in places() {
        let at = OwnedFd::from(File::open(&place.inside).unwrap());
        for landlock in 0..=landlock_here() {
            let text = format!("Landlock {landlock}, {}", place.inside.display());
            for domain in [place.domain(Access::Write), place.receiver()] {
                confined(domain, landlock, || store(&at)).expect(&text);
            }
        }
    }
}

#[test]
fn storing_works_in_a_domain_without_root_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for place in places() {
        let top = place.inside.parent().unwrap();
        chmod(top, Mode::from_raw_mode(0o755)).unwrap();
        let at = OwnedFd::from(File::open(&place.inside).unwrap());
        fchown(&at, Some(rustix::process::Uid::from_raw(65534)), None).unwrap();
        let stored = thread::scope(|scope| {
            let stores = || {
                become_nobody();
                place.domain(Access::Write).enter(landlock_here()).unwrap();
                store(&at)
            };
            scope.spawn(stores).join().unwrap()
        });
        stored.unwrap_or_else(|errno| panic!("{}: {errno}", place.inside.display()));
    }
}

#[test]
fn a_device_of_the_privileged_is_stored() {
    let place = Place::new(&std::env::temp_dir());
    let at = OwnedFd::from(File::open(&place.inside).unwrap());
    let make = || mknodat(&at, "null", FileType::CharacterDevice, MODE, makedev(1, 3));
    if make().is_err() {
        return eprintln!("skipped: this user makes no devices");
    }
    unlinkat(&at, "null", AtFlags::empty()).unwrap();
    confined(place.domain(Access::WriteDevices), landlock_here(), make).unwrap();
}
