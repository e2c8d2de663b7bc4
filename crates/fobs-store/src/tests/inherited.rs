//! What a directory gives to a stream that becomes a file in it: as much as the kernel gives to any program.

use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};

use super::super::*;
use super::support::*;

/// A group that this process is not in.
const GROUP: u32 = 1235;

/// Receives a stream as `path`.
fn receive(path: &Path) {
    let data = Pieces { data: Cursor::new(content(100_000, 1)), fails: false };
    let mut source = Source::from_stream(Box::new(data), false).expect("a stream");
    let sink = sink(path, source.shape());
    transfer(&mut source, sink).assert_clean();
}

fn given(path: &Path) -> (u32, u32) {
    let found = fs::metadata(path).expect("it is there");
    (found.mode() & 0o7777, found.gid())
}

/// An ACL of owner, group and others, as the kernel has it.
fn acl(group: u16, others: u16) -> Vec<u8> {
    let entries = [(1_u16, 7_u16), (4, group), (0x20, others)];
    let entry = |(tag, may): (u16, u16)| {
        [&tag.to_le_bytes()[..], &may.to_le_bytes(), &u32::MAX.to_le_bytes()].concat()
    };
    [2_u32.to_le_bytes().to_vec(), entries.map(entry).concat()].concat()
}

#[test]
fn a_stream_has_what_its_directory_gives() {
    for (default, mode) in [
        (None, 0o755),
        (None, 0o2750),
        (Some(acl(5, 0)), 0o755),
        (Some(acl(7, 5)), 0o2750),
        (Some(acl(0, 0)), 0o755),
    ] {
        let world = World::new();
        let top = world.to("in");
        fs::create_dir(&top).expect("a directory");
        if is_root() {
            chown(&top, None, Some(GROUP)).expect("root can");
        }
        set_mode(&top, mode);
        let has = default.as_ref().is_none_or(|value| {
            setxattr(&top, "system.posix_acl_default", value, XattrFlags::empty()).is_ok()
        });
        if !has {
            eprintln!("without ACLs: this host's file system has none, so that is not compared");
            continue;
        }
        let hand = top.join("hand");
        File::options().write(true).create_new(true).mode(0o666).open(&hand).expect("a file");
        receive(&top.join("stream"));
        assert_eq!(given(&top.join("stream")), given(&hand), "{mode:o} {default:?}");
        let group = given(&hand).1;
        set_mode(&hand, 0o600);
        receive(&hand);
        assert_eq!(given(&hand), (0o600, group), "what it replaces says who may read it");
    }
}
