//! What copies keep beside content, where they are asked to.

use fobs_model::options::{Chmod, Preserve, SymbolicLinks, Unkept};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{FileType, Mode, XattrFlags, getxattr, listxattr, makedev, mknodat, removexattr, setxattr};
use rustix::io::Errno;

use super::super::attributes::{ACL_ACCESS, Attributes, HOLES_MAX};
use super::super::record::{Device, Meta, Record, SpecialKind};
use super::super::*;
use super::support::*;
use fobs_model::error::ErrorKind;

/// Numbers that no account of a host has.
const USER: u32 = 1_234_567;
const GROUP: u32 = 7_654_321;

fn all() -> Preserve {
    Preserve {
        owner: true,
        group: true,
        devices: true,
        specials: true,
        hard_links: true,
        xattrs: true,
        acls: true,
        sparse: true,
        ..Preserve::as_cp(true)
    }
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 65_536];
    match getxattr(path, name, &mut value[..]) {
        Ok(len) => Some(value[..len].to_vec()),
        Err(Errno::NODATA) => None,
        Err(errno) => panic!("{name} of {}: {errno}", path.display()),
    }
}

/// False where the file system has none.
fn set_xattr(path: &Path, name: &str, value: &[u8]) -> bool {
    match setxattr(path, name, value, XattrFlags::empty()) {
        Ok(()) => true,
        Err(Errno::OPNOTSUPP) => false,
        Err(errno) => panic!("{name} of {}: {errno}", path.display()),
    }
}

/// An ACL as the kernel has it: the owner, user 1234, the group, mask and others.
fn acl(named: u16, mask: u16) -> Vec<u8> {
    let entry = |tag: u16, may: u16, id: u32| {
        [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [
        2_u32.to_le_bytes().to_vec(),
        entry(1, 6, u32::MAX),
        entry(2, named, 1234),
        entry(4, 0, u32::MAX),
        entry(0x10, mask, u32::MAX),
        entry(0x20, 0, u32::MAX),
    ]
    .concat()
}

#[test]
fn owners_are_kept_and_setuid_with_them() {
    let world = World::new();
    let file = world.write("tree/d/f", b"f");
    symlink("f", world.from("tree/d/l")).expect("a link");
    let paths = ["tree", "tree/d", "tree/d/f", "tree/d/l"];
    if is_root() {
        for path in paths {
            lchown(world.from(path), Some(USER), Some(GROUP)).expect("root can");
        }
    }
    set_mode(&file, 0o6751);
    copy_keeping(&[&world.from("tree")], &world.to(""), &all()).assert_clean();
    for path in paths {
        let from = fs::symlink_metadata(world.from(path)).expect("it is there");
        let to = fs::symlink_metadata(world.to(path)).expect("it arrived");
        assert_eq!((from.uid(), from.gid()), (to.uid(), to.gid()), "{path}");
        assert_eq!(from.mode(), to.mode(), "{path}");
    }
    // Without being asked to, nothing is.
    copy_preserving(&[&file], &world.to("plain")).assert_clean();
    let own = fs::metadata(world.directory.path()).expect("it is there");
    assert_eq!(fs::metadata(world.to("plain")).expect("it arrived").uid(), own.uid());
}

#[test]
fn extended_attributes_become_those_of_the_source() {
    let world = World::new();
    let file = world.write("tree/f", b"f");
    if !set_xattr(&file, "user.a", b"\0\xff") {
        return;
    }
    set_mode(&file, 0o444);
    set_xattr(&file, "user.empty", b"");
    set_xattr(&world.from("tree"), "user.directory", &[7; 1000]);
    for round in ["new", "over what is there"] {
        copy_keeping(&[&world.from("tree")], &world.to(""), &all()).assert_clean();
        let to = world.to("tree/f");
        assert_eq!(xattr(&to, "user.a").as_deref(), Some(&b"\0\xff"[..]), "{round}");
        assert_eq!(xattr(&to, "user.empty").as_deref(), Some(&b""[..]), "{round}");
        assert_eq!(xattr(&world.to("tree"), "user.directory"), Some(vec![7; 1000]), "{round}");
        assert_eq!(xattr(&world.to("tree"), "user.old"), None, "{round}");
        set_xattr(&world.to("tree"), "user.old", b"goes");
    }
    removexattr(world.from("tree"), "user.directory").expect("it is there");
    let only_acls = Preserve { acls: true, ..Preserve::default() };
    copy_keeping(&[&world.from("tree")], &world.to(""), &only_acls).assert_clean();
    assert_eq!(xattr(&world.to("tree"), "user.old").as_deref(), Some(&b"goes"[..]), "not asked for");
    assert_eq!(xattr(&world.to("tree/f"), "user.a"), None, "a new file, and not asked for");
}

#[test]
fn too_many_attributes_fail_by_name() {
    let world = World::new();
    world.write("tree/g", b"g");
    let file = world.write("tree/f", b"f");
    // Not every file system has room for these attributes.
    let fits = (0..4).all(|n| {
        let value = vec![7; 60_000];
        setxattr(&file, format!("user.{n}"), &value, XattrFlags::empty()).is_ok()
    });
    if !fits {
        return;
    }
    let outcome = copy_keeping(&[&world.from("tree")], &world.to(""), &all());
    assert_eq!(outcome.stored.len(), 1);
    let [failure] = &outcome.source_failures[..] else { panic!("{outcome:?}") };
    assert!(failure.path == b"tree/f" && failure.message.contains("192 KiB"), "{failure:?}");
}

#[test]
fn acls_become_those_of_the_source() {
    let world = World::new();
    let name = String::from_utf8(ACL_ACCESS.to_vec()).expect("a name");
    let (with, without) = (world.write("tree/with", b"x"), world.write("tree/without", b"x"));
    if !set_xattr(&with, &name, &acl(4, 6)) {
        return;
    }
    let only_acls = Preserve { modes: true, acls: true, ..Preserve::default() };
    fs::create_dir(world.to("tree")).expect("a directory");
    // What is made in it would inherit another one.
    let default = "system.posix_acl_default";
    set_xattr(&world.to("tree"), default, &acl(7, 7));
    set_mode(&without, 0o640);
    copy_keeping(&[&world.from("tree")], &world.to(""), &only_acls).assert_clean();
    assert_eq!(xattr(&world.to("tree/with"), &name), Some(acl(4, 6)));
    assert_eq!(xattr(&world.to("tree/without"), &name), None);
    assert_eq!(xattr(&world.to("tree"), default), None);
    assert_eq!(mode_of(&world.to("tree/with")), mode_of(&with));
    assert_eq!(mode_of(&world.to("tree/without")), 0o640);
}

#[test]
fn hard_links_stay_one_file() {
    let world = World::new();
    let first = world.write("tree/a/first", b"shared");
    fs::create_dir(world.from("tree/b")).expect("a directory");
    for name in ["tree/a/second", "tree/b/third"] {
        fs::hard_link(&first, world.from(name)).expect("a link");
    }
    symlink("first", world.from("tree/a/link")).expect("a link");
    fs::hard_link(world.from("tree/a/link"), world.from("tree/b/link")).expect("a link to a link");
    fs::create_dir_all(world.to("tree/a")).expect("a directory");
    fs::write(world.to("tree/a/second"), b"something else").expect("a file");
    for round in ["new", "over what is there"] {
        let outcome = copy_keeping(&[&world.from("tree")], &world.to(""), &all());
        outcome.assert_clean();
        assert_eq!(outcome.stored.len(), 1, "{round}: its content is sent once");
        let inode = |path: &str| fs::symlink_metadata(world.to(path)).expect("it is there").ino();
        assert_eq!(inode("tree/a/first"), inode("tree/a/second"), "{round}");
        assert_eq!(inode("tree/a/first"), inode("tree/b/third"), "{round}");
        assert_eq!(inode("tree/a/link"), inode("tree/b/link"), "{round}");
        assert_eq!(tree(&world.from("")), tree(&world.to("")), "{round}: and nothing else is left");
    }
    // Named one by one, they are one file too.
    let (a, b) = (world.from("tree/a/first"), world.from("tree/b/third"));
    copy_keeping(&[&a, &b], &world.to(""), &all()).assert_clean();
    assert_eq!(
        fs::metadata(world.to("first")).expect("it").ino(),
        fs::metadata(world.to("third")).expect("it").ino()
    );
}

#[test]
fn no_link_leads_to_what_a_failed_file_left() {
    let world = World::new();
    fs::write(world.to("first"), b"from before").expect("a file");
    let sink_of = || {
        let shape = SourceShape::Paths { count: 1, contents: true };
        Sink::open(SinkSpec { preserve: all(), ..sink_spec(&world.to(""), shape) }).expect("a destination")
    };
    let link = Record::Hardlink { path: b"second", target: b"first" };
    let failed = Record::Failed { path: b"first", reason: "it vanished" };
    let events = feed(&mut sink_of(), &chunk_of(&[failed, link], b"")).expect("only that path fails");
    let [SinkEvent::SourceFailed(_), SinkEvent::FileFailed(failure)] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(failure.path == b"second" && failure.message.contains("'first' was not stored"), "{failure:?}");
    assert!(!world.to("second").exists());

    // Nor to what no row or record of this transfer named: a resumed one lists it.
    let events = feed(&mut sink_of(), &chunk_of(&[link], b"")).expect("only that path fails");
    assert!(matches!(&events[..], [SinkEvent::FileFailed(_)]), "{events:?}");
    assert!(!world.to("second").exists());
}

#[test]
fn fifos_sockets_and_devices_are_made() {
    let world = World::new();
    fs::create_dir(world.from("tree")).expect("a directory");
    let directory = File::open(world.from("tree")).expect("a directory");
    let mode = Mode::from_raw_mode(0o640);
    mknodat(&directory, "fifo", FileType::Fifo, mode, 0).expect("a fifo");
    let _socket = UnixListener::bind(world.from("tree/socket")).expect("a socket");
    let device = mknodat(&directory, "null", FileType::CharacterDevice, mode, makedev(1, 3)).is_ok();
    set_mode(&world.from("tree/fifo"), 0o6604);
    for round in ["new", "over what is there"] {
        copy_keeping(&[&world.from("tree")], &world.to(""), &all()).assert_clean();
        let kind = |name: &str| fs::symlink_metadata(world.to(name)).expect("it is there").file_type();
        assert!(kind("tree/fifo").is_fifo() && kind("tree/socket").is_socket(), "{round}");
        assert_eq!(mode_of(&world.to("tree/fifo")), 0o6604, "{round}");
        if device {
            assert!(kind("tree/null").is_char_device());
            let number = |path| fs::symlink_metadata(path).expect("it is there").rdev();
            assert_eq!(number(world.to("tree/null")), makedev(1, 3), "{round}");
        }
    }
    // What is not kept fails by name as in cp, or is left out as in rsync.
    let names = |outcome: &Outcome| outcome.source_failures.len();
    let some = Preserve { specials: true, ..Preserve::default() };
    let outcome = copy_keeping(&[&world.from("tree")], &world.to("some/"), &some);
    assert_eq!(names(&outcome), usize::from(device));
    let quiet = Preserve { unkept: Unkept::LeftOut, links: SymbolicLinks::LeftOut, ..Preserve::default() };
    symlink("x", world.from("tree/link")).expect("a link");
    copy_keeping(&[&world.from("tree")], &world.to("none/"), &quiet).assert_clean();
    assert_eq!(tree(&world.to("none")).len(), 1, "only the directory");
}

#[test]
fn holes_are_not_sent_and_stay_holes() {
    const MIB: u64 = 1 << 20;
    let world = World::new();
    let file = world.write("sparse", b"");
    let writer = OpenOptions::new().write(true).open(&file).expect("a file");
    // Longer than the holes of a chunk may be; data between and at odd places.
    let size = 700 * MIB + 12_345;
    writer.set_len(size).expect("it can be long");
    for at in [5 * MIB + 77, 6 * MIB, 300 * MIB - 1, 690 * MIB] {
        writer.write_all_at(&content(100_000, at), at).expect("data");
    }
    let blocks = |path: &Path| fs::metadata(path).expect("it is there").blocks();
    if blocks(&file) * 512 > 10 * MIB {
        return;
    }
    let expected = {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(&file).expect("a file")).expect("it can be read");
        *hasher.finalize().as_bytes()
    };
    let outcome = copy_keeping(&[&file], &world.to("copy"), &all());
    outcome.assert_clean();
    assert_eq!((outcome.stored[0].bytes, outcome.stored[0].root), (size, expected));
    assert!(outcome.chunk_lens.iter().sum::<usize>() < 2 * MIB as usize, "{:?}", outcome.chunk_lens);
    assert_eq!(fs::metadata(world.to("copy")).expect("it is there").len(), size);
    assert!(blocks(&world.to("copy")) * 512 < 4 * MIB, "{} blocks", blocks(&world.to("copy")));
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(world.to("copy")).expect("a file")).expect("it can be read");
    assert_eq!(*hasher.finalize().as_bytes(), expected);
}

#[test]
fn a_file_of_nothing_but_holes_arrives() {
    let world = World::new();
    for size in [0_u64, 1, 65_536, 65_537, 5_000_000] {
        let file = world.write(&format!("{size}"), b"");
        File::options().write(true).open(&file).expect("a file").set_len(size).expect("a size");
        copy_keeping(&[&file], &world.to(""), &all()).assert_clean();
        let copy = fs::read(world.to(&format!("{size}"))).expect("it is there");
        assert!(copy.len() as u64 == size && copy.iter().all(|&byte| byte == 0), "{size}");
    }
}

#[test]
fn modes_are_changed_as_asked() {
    let world = World::new();
    set_mode(&world.write("tree/f", b"f"), 0o600);
    set_mode(&world.from("tree"), 0o700);
    let chmod = Chmod::parse("D2750,Fg+r", 0o022).expect("a change");
    let preserve = Preserve { chmod, ..Preserve::as_cp(true) };
    copy_keeping(&[&world.from("tree")], &world.to(""), &preserve).assert_clean();
    assert_eq!(mode_of(&world.to("tree")), 0o2750);
    assert_eq!(mode_of(&world.to("tree/f")), 0o640);
}

#[test]
fn times_and_modes_are_kept_one_by_one() {
    let world = World::new();
    let file = world.write("tree/f", b"f");
    set_mode(&file, 0o4711);
    set_mode(&world.from("tree"), 0o711);
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for path in [&file, &world.from("tree")] {
        File::open(path).expect("it").set_times(fs::FileTimes::new().set_modified(old)).expect("a time");
    }
    let time = |path: &str| fs::metadata(world.to(path)).expect("it").modified().expect("a time");
    let times = Preserve { times: true, ..Preserve::default() };
    for round in ["new", "over what is there"] {
        copy_keeping(&[&world.from("tree")], &world.to("times"), &times).assert_clean();
        let path = if round == "new" { "times/f" } else { "times/tree/f" };
        assert_eq!(time(path), old, "{round}");
        assert_eq!(mode_of(&world.to(path)) & 0o7000, 0, "{round}");
    }
    assert_eq!(time("times/tree"), old);
    let modes = Preserve { modes: true, ..Preserve::default() };
    copy_keeping(&[&file], &world.to("modes"), &modes).assert_clean();
    assert_eq!(mode_of(&world.to("modes")), 0o4711);
    assert_ne!(time("modes"), old);
}

#[test]
fn nothing_more_is_sent_unless_asked_for() {
    let world = World::new();
    let file = world.write("tree/f", b"f");
    set_xattr(&file, "user.a", b"a");
    fs::hard_link(&file, world.from("tree/g")).expect("a link");
    let mut source = open(&[&world.from("tree")]);
    let mut buf = vec![0; CHUNK_LEN_MAX];
    let filled = source.next_chunk(&mut buf, CHUNK_DATA_MAX).expect("one chunk");
    let mut scratch = Vec::new();
    let verified = verify(&buf[..filled.len], &mut scratch).expect("it verifies");
    let (_, mut records) = verified.body(&buf[..filled.len], &scratch).expect("a body");
    while !records.is_empty() {
        // The variant's number: all below 7 are those of the first version.
        assert!(records[0] < 7, "record {}", records[0]);
        records = Record::decode(records).expect("a record").1;
    }
    let arrived = copy(&[&world.from("tree")], &world.to(""));
    assert_eq!(arrived.stored.len(), 2);
    assert_eq!(listxattr(world.to("tree/f"), &mut [0_u8; 4096][..]), Ok(0));
}

#[test]
fn records_that_were_not_agreed_on_are_refused() {
    let world = World::new();
    let meta = Meta::default();
    let attributes = Attributes { xattrs: Some(Vec::new()), ..Attributes::default() };
    let encoded = attributes.encode().expect("good ones");
    let file = Record::File { path: b"f", meta, size: 65_536 };
    let dressed = Record::Attributes { attributes: &encoded };
    let device = Device { major: 1, minor: 3 };
    let hole = Record::Hole { offset: 0, len: 65_536 };
    let cases: [&[Record<'_>]; 4] = [
        &[dressed, file, Record::End],
        &[Record::Hardlink { path: b"f", target: b"g" }],
        &[Record::Special { path: b"f", kind: SpecialKind::CharacterDevice, device, meta }],
        &[file, hole, Record::End],
    ];
    for records in cases {
        for preserve in [Preserve::default(), Preserve::as_cp(true)] {
            let shape = SourceShape::Paths { count: 1, contents: true };
            let sink = SinkSpec { preserve, ..sink_spec(&world.to(""), shape) };
            let mut sink = Sink::open(sink).expect("a destination");
            let error = feed(&mut sink, &chunk_of(records, b"")).expect_err("it is refused");
            assert_eq!(error.kind, ErrorKind::Protocol, "{records:?}");
            assert!(error.message.contains("not agreed on"), "{error}");
        }
    }
    assert_eq!(tree(&world.to("")).len(), 0);
}

#[test]
fn attributes_and_holes_out_of_place_are_refused() {
    let world = World::new();
    let meta = Meta::default();
    let encoded = Attributes::default().encode().expect("good ones");
    let dressed = Record::Attributes { attributes: &encoded };
    let file = Record::File { path: b"f", meta, size: 0 };
    let cases: [&[Record<'_>]; 6] = [
        &[dressed],
        &[dressed, dressed, file, Record::End],
        &[dressed, Record::Directory { path: b"d" }],
        &[file, dressed, Record::End],
        &[Record::Hole { offset: 0, len: 5 }, Record::End],
        &[file, Record::Hole { offset: 65_536, len: 65_536 }, Record::End],
    ];
    for records in cases {
        let shape = SourceShape::Paths { count: 1, contents: true };
        let sink = SinkSpec { preserve: all(), ..sink_spec(&world.to(""), shape) };
        let mut sink = Sink::open(sink).expect("a destination");
        let error = feed(&mut sink, &chunk_of(records, b"")).expect_err("it makes no sense");
        assert_eq!(error.kind, ErrorKind::Protocol, "{records:?}");
    }
    // A chunk of a few bytes must not cost an hour of hashing.
    for len in [HOLES_MAX + 65_536, 1 << 62] {
        let records = [file, Record::Hole { offset: 0, len }];
        let bytes: Vec<u8> =
            records.iter().flat_map(|it| postcard::to_allocvec(it).expect("a record")).collect();
        let verdict = verify(&seal::seal(b"", &bytes), &mut Vec::new());
        assert!(matches!(verdict, Err(VerifyError::Malformed(_))), "{verdict:?}");
    }
    let odd = chunk_of(&[file, Record::Hole { offset: 0, len: 5 }], b"");
    assert!(verify(&odd, &mut Vec::new()).is_err(), "neither whole groups nor the end");
}

#[test]
fn hard_links_lead_nowhere_outside() {
    let world = World::new();
    let secret = world.write("secret", b"secret");
    symlink(world.from(""), world.to("out")).expect("a link");
    let shape = SourceShape::Paths { count: 1, contents: true };
    let sink = SinkSpec { preserve: all(), ..sink_spec(&world.to(""), shape) };
    let mut sink = Sink::open(sink).expect("a destination");
    for target in [&b"out/secret"[..], b"missing", b"out/missing"] {
        let link = Record::Hardlink { path: b"link", target };
        let events = feed(&mut sink, &chunk_of(&[link], b"")).expect("only that path fails");
        assert!(matches!(&events[..], [SinkEvent::FileFailed(_)]), "{events:?}");
    }
    assert_eq!(fs::metadata(secret).expect("it").nlink(), 1);
    assert!(fs::symlink_metadata(world.to("link")).is_err());
}
