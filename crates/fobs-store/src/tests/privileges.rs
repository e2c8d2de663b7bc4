//! What a client may give files through a process that could give more.

use fobs_model::options::{Preserve, Unkept};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, lchown};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, makedev, mknodat, setxattr};

use super::super::*;
use super::support::*;
use fobs_model::options::Privileges;

/// A number that no account of a host has.
const USER: u32 = 1_234_567;

/// All that `sync -aX` keeps.
fn all() -> Preserve {
    Preserve {
        owner: true,
        group: true,
        devices: true,
        specials: true,
        unkept: Unkept::LeftOut,
        xattrs: true,
        ..Preserve::as_cp(true)
    }
}

fn has(path: &Path, name: &str) -> bool {
    getxattr(path, name, &mut [0; 64][..]).is_ok()
}

/// A tree with everything that could hurt a host, and what could not; whether this user can make it.
fn dangerous(world: &World) -> bool {
    let file = world.write("tree/f", b"f");
    fs::create_dir(world.from("tree/shared")).expect("a fresh directory");
    let made = is_root()
        && mknodat(CWD, world.from("tree/device"), FileType::CharacterDevice, Mode::RUSR, makedev(1, 3))
            .is_ok()
        && setxattr(&file, "trusted.fobs", b"t", XattrFlags::empty()).is_ok()
        && setxattr(&file, "user.fobs", b"u", XattrFlags::empty()).is_ok();
    if made {
        mknodat(CWD, world.from("tree/fifo"), FileType::Fifo, Mode::RUSR, 0).expect("anyone can");
        for path in ["tree/f", "tree/shared"] {
            lchown(world.from(path), Some(USER), Some(USER)).expect("root can");
        }
        set_mode(&file, 0o6755);
        set_mode(&world.from("tree/shared"), 0o3775);
    }
    made
}

#[test]
fn what_only_root_may_see_does_not_leave() {
    let world = World::new();
    if !dangerous(&world) {
        return;
    }
    let from = world.from("tree");
    for (privileges, leaves) in [(Privileges::Withheld, false), (Privileges::OfTheUser, true)] {
        let spec = SourceSpec { preserve: all(), privileges, ..spec(&[&from]) };
        let mut source = Source::open(spec).expect("the source can be read");
        let sink = SinkSpec { preserve: all(), ..sink_spec(&world.to(""), source.shape()) };
        let outcome = transfer(&mut source, Sink::open(sink).expect("the destination"));
        assert_eq!(outcome.sink_failures, []);
        let file = world.to("tree/f");
        assert!(has(&file, "user.fobs") && has(&file, "trusted.fobs") == leaves, "{privileges:?}");
    }
}

fn copy_with(world: &World, privileges: Privileges) -> Outcome {
    let from = world.from("tree");
    let mut source =
        Source::open(SourceSpec { preserve: all(), ..spec(&[&from]) }).expect("the source can be read");
    let sink = SinkSpec { preserve: all(), privileges, ..sink_spec(&world.to(""), source.shape()) };
    transfer(&mut source, Sink::open(sink).expect("the destination"))
}

#[test]
fn what_is_withheld_is_left_out_and_the_rest_arrives() {
    let world = World::new();
    if !dangerous(&world) {
        return;
    }
    let own = fs::metadata(world.to("")).expect("it is there").uid();
    for round in ["new", "over what is there"] {
        let outcome = copy_with(&world, Privileges::Withheld);
        assert_eq!(outcome.sink_failures, [], "{round}");
        for (path, mode) in [("tree/f", 0o755), ("tree/shared", 0o1775)] {
            let stat = fs::metadata(world.to(path)).expect("it arrived");
            assert_eq!((stat.uid(), stat.gid()), (own, own), "{round}: {path}");
            assert_eq!(mode_of(&world.to(path)), mode, "{round}: {path}");
        }
        assert!(!world.to("tree/device").exists(), "{round}");
        assert!(fs::metadata(world.to("tree/fifo")).expect("it arrived").file_type().is_fifo());
        assert!(
            has(&world.to("tree/f"), "user.fobs") && !has(&world.to("tree/f"), "trusted.fobs"),
            "{round}"
        );
    }
}

#[test]
fn what_the_host_itself_gave_a_directory_stays() {
    let world = World::new();
    if !dangerous(&world) {
        return;
    }
    fs::create_dir_all(world.to("tree/shared")).expect("fresh directories");
    lchown(world.to("tree/shared"), Some(USER), Some(USER)).expect("root can");
    set_mode(&world.to("tree/shared"), 0o2700);
    copy_with(&world, Privileges::Withheld);
    assert_eq!(mode_of(&world.to("tree/shared")), 0o3775, "setgid is as it was, the rest as asked");
    assert_eq!(fs::metadata(world.to("tree/shared")).expect("it is there").uid(), USER);
}

#[test]
fn with_privileges_everything_arrives() {
    let world = World::new();
    if !dangerous(&world) {
        return;
    }
    copy_with(&world, Privileges::OfTheUser).assert_clean();
    let file = world.to("tree/f");
    assert_eq!((fs::metadata(&file).expect("it arrived").uid(), mode_of(&file)), (USER, 0o6755));
    assert!(has(&file, "trusted.fobs") && has(&file, "user.fobs"));
    assert!(fs::metadata(world.to("tree/device")).expect("it arrived").file_type().is_char_device());
}
