//! Terms on which a peer's data is stored, against senders that keep to no option of a command.

use fobs_model::options::Preserve;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::super::attributes::{Attributes, Xattr};
use super::super::faults::{Call, plan};
use super::super::identity::Identity;
use super::super::record::{Meta, Record};
use super::super::tree_hash::GROUP;
use super::super::*;
use super::support::*;
use crate::journal::Held;
use fobs_model::name::BackupSuffix;
use fobs_model::options::sync::SyncOptions;
use fobs_model::options::{Overwrite, Sight, Stamps, Terms};

const META: Meta = Meta { mode: 0o6777, mtime_s: 7, mtime_ns: 0 };
const WRITER: Terms = Terms { overwrite: Overwrite::Replace, sight: Sight::Own, stamps: Stamps::Senders };
const APPENDER: Terms = Terms { overwrite: Overwrite::Refuse, sight: Sight::Own, stamps: Stamps::Ours };

fn open_with(world: &World, terms: Terms, preserve: Preserve) -> Sink {
    let shape = SourceShape::Paths { count: 1, contents: true };
    Sink::open(SinkSpec { terms, preserve, ..sink_spec(&world.to(""), shape) }).expect("a destination")
}

fn everything() -> Preserve {
    let all =
        Preserve { hard_links: true, xattrs: true, acls: true, specials: true, ..Preserve::as_cp(true) };
    Preserve { owner: true, group: true, sparse: true, ..all }
}

fn file(path: &[u8]) -> [Record<'_>; 3] {
    [Record::File { path, meta: META, size: 4 }, Record::Extent { offset: 0, len: 4 }, Record::End]
}

/// The sentences about what failed.
fn failures(sink: &mut Sink, records: &[Record<'_>], data: &[u8]) -> Vec<String> {
    let events = feed(sink, &chunk_of(records, data)).expect("the rest goes on");
    let failed = events.into_iter().filter_map(|event| match event {
        SinkEvent::FileFailed(error) => Some(error.message),
        _ => None,
    });
    failed.collect()
}

/// A destination with something of each kind.
fn occupied() -> World {
    let world = World::new();
    fs::write(world.to("file"), "there").expect("a file");
    fs::create_dir(world.to("dir")).expect("a directory");
    fs::set_permissions(world.to("dir"), fs::Permissions::from_mode(0o710)).expect("own");
    symlink("file", world.to("link")).expect("a link");
    world
}

/// Everything but the times of directories.
fn standing(world: &World) -> Vec<(String, u64, u32, u64, i64)> {
    let of = |name: &str| {
        let meta = fs::symlink_metadata(world.to(name)).expect("it stays");
        let time = if meta.is_dir() { 0 } else { meta.mtime_nsec() + meta.mtime() };
        (name.to_owned(), meta.ino(), meta.mode(), if meta.is_dir() { 0 } else { meta.nlink() }, time)
    };
    ["file", "dir", "link"].map(of).to_vec()
}

#[test]
fn no_record_touches_what_an_appender_found() {
    let world = occupied();
    let before = standing(&world);
    let mut sink = open_with(&world, APPENDER, everything());
    for name in [&b"file"[..], b"dir", b"link"] {
        let fifo = record::SpecialKind::Fifo;
        let device = record::Device { major: 0, minor: 0 };
        for records in [
            &file(name)[..],
            &[Record::Symlink { path: name, target: b"elsewhere", meta: META }],
            &[Record::Special { path: name, kind: fifo, device, meta: META }],
        ] {
            let data: &[u8] = if records.len() == 3 { b"evil" } else { b"" };
            let failed = failures(&mut sink, records, data);
            assert_eq!(failed.len(), 1, "{failed:?}");
            assert!(failed[0].contains("name was taken"), "{failed:?}");
        }
    }
    let failed = failures(
        &mut sink,
        &[Record::Directory { path: b"file" }, Record::DirectoryEnd { path: b"file", meta: META }],
        b"",
    );
    assert_eq!(failed.len(), 1, "{failed:?}");
    let entered = [Record::Directory { path: b"dir" }, Record::DirectoryEnd { path: b"dir", meta: META }];
    assert_eq!(failures(&mut sink, &entered, b""), Vec::<String>::new());
    assert_eq!(standing(&world), before);
    drop(sink);
    assert_eq!(names(&world.to("")), ["dir", "file", "link"], "no temporary name stays");
}

#[test]
fn hard_links_lead_only_to_what_the_same_transfer_stored() {
    for terms in [WRITER, APPENDER] {
        let world = occupied();
        let before = standing(&world);
        let mut sink = open_with(&world, terms, everything());
        for target in [&b"file"[..], b"link", b"none"] {
            let stolen = [Record::Hardlink { path: b"mine", target }];
            let failed = failures(&mut sink, &stolen, b"");
            assert!(failed.len() == 1 && failed[0].contains("was not stored"), "{failed:?}");
        }
        assert_eq!(standing(&world), before);
        assert_eq!(failures(&mut sink, &file(b"own"), b"mine"), Vec::<String>::new());
        let linked = [Record::Hardlink { path: b"second", target: b"own" }];
        assert_eq!(failures(&mut sink, &linked, b""), Vec::<String>::new());
        let inode = |name: &str| fs::metadata(world.to(name)).expect("stored").ino();
        assert_eq!(inode("own"), inode("second"));
    }
}

#[test]
fn neither_backups_nor_other_programs_files_are_used() {
    for terms in [WRITER, APPENDER] {
        let world = occupied();
        let mut sink = open_with(&world, terms, Preserve::default());
        assert!(sink.adoptions().is_none());
        let backup = BackupSuffix::new(b"~".to_vec()).ok();
        sink.follow(&Arc::new(SyncOptions { backup, ..SyncOptions::default() }));
        failures(&mut sink, &file(b"file"), b"evil");
        drop(sink);
        assert_eq!(names(&world.to("")), ["dir", "file", "link"]);
        let kept = fs::read(world.to("file")).expect("a file");
        assert_eq!(kept == b"there", terms == APPENDER);
    }
}

#[test]
fn where_the_rename_is_missing_a_link_takes_the_name() {
    for errno in [Errno::INVAL, Errno::NOSYS] {
        let world = occupied();
        let before = standing(&world);
        let mut sink = open_with(&world, APPENDER, Preserve::default());
        plan(Call::RenameToNew, 0, errno);
        assert_eq!(failures(&mut sink, &file(b"new"), b"mine"), Vec::<String>::new());
        assert_eq!(fs::read(world.to("new")).expect("stored"), b"mine");
        assert_eq!(fs::metadata(world.to("new")).expect("stored").nlink(), 1, "the temporary name is gone");
        plan(Call::RenameToNew, 0, errno);
        let failed = failures(&mut sink, &file(b"file"), b"evil");
        assert!(failed.len() == 1 && failed[0].contains("name was taken"), "{failed:?}");
        plan(Call::RenameToNew, 0, errno);
        let failed = failures(&mut sink, &[Record::Symlink { path: b"link", target: b"x", meta: META }], b"");
        assert!(failed.len() == 1 && failed[0].contains("name was taken"), "{failed:?}");
        drop(sink);
        assert_eq!(standing(&world), before);
        assert_eq!(names(&world.to("")), ["dir", "file", "link", "new"]);
    }
}

/// What a file of one block and some bytes leaves when its sender vanishes in its middle.
fn left_in_the_middle(world: &World, source: Identity) {
    let mut sink = journalled(world, WRITER);
    let Identity { size, mtime_s, mtime_ns, inode } = source;
    let records = [
        Record::Identity { mtime_s, mtime_ns, inode },
        Record::File { path: b"x", meta: META, size },
        Record::Extent { offset: 0, len: GROUP as u32 },
    ];
    let chunk = chunk_of(&records, &vec![7; GROUP as usize]);
    feed(&mut sink, &chunk).expect("it can be stored");
    sink.suspend().expect("something is kept");
}

fn journalled(world: &World, terms: Terms) -> Sink {
    let shape = SourceShape::Paths { count: 1, contents: false };
    let (keep, names) = (Partial::Keep, vec![b"x".to_vec()]);
    Sink::open(SinkSpec { terms, keep, names, ..sink_spec(&world.to(""), shape) }).expect("a destination")
}

#[test]
fn a_file_that_has_its_name_is_not_gone_on_with_by_an_appender() {
    let source = Identity { size: GROUP + 4, mtime_s: 1, mtime_ns: 2, inode: 3 };
    for (terms, has_it) in [(WRITER, true), (APPENDER, false)] {
        let world = World::new();
        left_in_the_middle(&world, source);
        // As after a kill between the rename and the journal's next state.
        let mut all = names(&world.to("")).into_iter();
        let temporary = all.find(|name| name.starts_with(".x.fobs-") && !name.ends_with("journal"));
        fs::rename(world.to(&temporary.expect("the partial file")), world.to("x")).expect("own");
        let mut sink = journalled(&world, terms);
        let held = sink.history().expect("a journal").lookup(b"x", &source);
        assert_eq!(matches!(held, Held::Partial { .. }), has_it, "{held:?}");
        let Identity { size, mtime_s, mtime_ns, inode } = source;
        let records = [
            Record::Identity { mtime_s, mtime_ns, inode },
            Record::Resume { path: b"x", meta: META, size, from: GROUP },
            Record::Extent { offset: GROUP, len: 4 },
            Record::End,
        ];
        let failed = failures(&mut sink, &records, b"more");
        assert_eq!(failed.is_empty(), has_it, "{failed:?}");
        let len = fs::metadata(world.to("x")).expect("it stays").len();
        assert_eq!(len, if has_it { GROUP + 4 } else { GROUP });
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// An ACL of owner, group and others that opens a file to all, as the kernel has it.
fn open_acl() -> Vec<u8> {
    let entry = |tag: u16| [&tag.to_le_bytes()[..], &7_u16.to_le_bytes(), &u32::MAX.to_le_bytes()].concat();
    [2_u32.to_le_bytes().to_vec(), [1, 4, 0x20].map(entry).concat()].concat()
}

/// Permissions are also an extended attribute, where rules name it: a peer that may not choose the first does
/// not get there by the second.
#[test]
fn rules_for_attributes_give_no_permissions() {
    let named = every_attribute();
    for (terms, chooses) in [(APPENDER, false), (WRITER, true)] {
        let world = World::new();
        let shape = SourceShape::Paths { count: 1, contents: true };
        let preserve = Preserve { xattrs: true, ..Preserve::default() };
        let spec = SinkSpec { terms, preserve, ..sink_spec(&world.to(""), shape) };
        let mut sink = Sink::open(SinkSpec { xattr_rules: named.clone(), ..spec }).expect("a destination");
        let xattr = |name: &str, value: Vec<u8>| Xattr { name: name.as_bytes().to_vec(), value };
        let own = xattr("user.own", b"kept".to_vec());
        let acl = xattr("system.posix_acl_access", open_acl());
        let attributes = Attributes { user: None, group: None, xattrs: Some(vec![acl, own]) };
        let attributes = attributes.encode().expect("they are few");
        let [first, extent, end] = file(b"new");
        let records = [Record::Attributes { attributes: &attributes }, first, extent, end];
        let failed = failures(&mut sink, &records, b"data");
        let kept = |name: &str| {
            let mut value = [0; 64];
            let path = world.to("new");
            rustix::fs::lgetxattr(&path, name, &mut value[..]).is_ok()
        };
        if !kept("user.own") {
            eprintln!("skipped: this file system has no extended attributes ({failed:?})");
            return;
        }
        let mode = fs::metadata(world.to("new")).expect("it is stored").mode() & 0o777;
        assert_eq!(mode == 0o777, chooses, "{mode:o} {failed:?}");
    }
}

/// `--filter='+x *'` at the receiver.
fn every_attribute() -> fobs_filter::XattrRules {
    let mut filter = fobs_filter::Filter::default();
    filter.add_rule(b"+x *", &mut |_| unreachable!()).expect("a rule");
    fobs_filter::XattrRules::of(&filter, fobs_filter::Side::Receiver)
}
