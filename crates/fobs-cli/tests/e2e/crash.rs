//! A short run of `fobs-lab crash`: copies whose ends are killed at random points.

#[path = "../../../../lab/src/crash/trial/mod.rs"]
mod trial;

use std::path::Path;
use std::process::Command;
use std::{fs, io};

pub use trial::Disk;
use trial::{Figures, Place};

use super::case::{Case, fobs_path};
use super::needs;

/// Kills; `make crash` makes 300.
const KILLS: u64 = 10;

#[test]
fn copies_killed_at_random_points_go_on() {
    let case = Case::new("copies_killed_at_random_points_go_on");
    let seed = case.seed();
    let mut place = Place::new(&case.path("crash"), fobs_path(), seed, false, true).expect("keys");
    eprintln!("copies over ssh: {}", place.has_ssh());
    let mut figures = Figures::default();
    while figures.kills < KILLS {
        if let Err(message) = place.copy(KILLS - figures.kills, &mut figures) {
            panic!("seed {seed}, copy {}: {message}", figures.copies);
        }
    }
    eprintln!("{}", figures.summary());
    assert!(figures.resumed > 0, "nothing was gone on with");
}

/// Power cuts of each file system; `make power-cuts` makes 300.
const CUTS: u64 = 6;

/// `EXT4_IOC_SHUTDOWN` and `XFS_IOC_GOINGDOWN`, which are one number, without a flush, by a program that may
/// make any call.
fn shut_down(mounted: &Path) -> io::Result<()> {
    let script = "import fcntl, os, struct, sys\n\
                  fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";
    let done = Command::new("python3").args(["-c", script]).arg(mounted).status()?;
    if done.success() { Ok(()) } else { Err(io::Error::other("python3 failed")) }
}

/// A file system of its own at `mount`, whose image is below `directory`.
pub fn on_a_disk(directory: &Path, mount: &Path) -> Disk {
    fs::create_dir_all(directory).expect("our own place");
    let disk = Disk::make(directory, mount, "ext4", shut_down).expect("a place").expect("it was tried");
    fs::remove_dir(mount.join("lost+found")).expect("it is empty");
    disk
}

fn cut_power(name: &'static str, kind: &str) {
    if !needs::given(name) {
        return;
    }
    let case = Case::new(name);
    let seed = case.seed();
    let (directory, served) = (case.path("crash"), case.path("crash/served"));
    let mut place = Place::new(&directory, fobs_path(), seed, false, false).expect("keys");
    let disk = Disk::make(&directory, &served, kind, shut_down).expect("a place");
    let mut disk = disk.expect("it was tried");
    let mut figures = Figures::default();
    while figures.kills < CUTS {
        if let Err(message) = place.push_through_cuts(CUTS - figures.kills, &mut disk, &mut figures) {
            panic!("seed {seed}, copy {}: {message}", figures.copies);
        }
    }
    eprintln!("{} cuts of {kind}, {} runs went on", figures.kills, figures.resumed);
}

#[test]
fn copies_whose_destination_loses_its_power_go_on() {
    cut_power("copies_whose_destination_loses_its_power_go_on", "ext4");
}

#[test]
fn copies_onto_xfs_that_lose_its_power_go_on() {
    cut_power("copies_onto_xfs_that_lose_its_power_go_on", "xfs");
}
