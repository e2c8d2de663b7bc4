//! Malicious and faulty senders.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use proptest::prelude::*;

use super::super::own::OWN_MODE;
use super::super::record::{Meta, Record};
use super::super::tree_hash::GROUP;
use super::super::*;
use super::support::*;
use crate::SourceShape;
use fobs_model::error::ErrorKind;
use fobs_model::name::ours::is_journal;
use fobs_model::options::sync::Enter;
use fobs_model::options::{Preserve, SymbolicLinks};

const META: Meta = Meta { mode: 0o644, mtime_s: 0, mtime_ns: 0 };

fn contents_shape() -> SourceShape {
    SourceShape::Paths { count: 1, contents: true }
}

fn one_source() -> SourceShape {
    SourceShape::Paths { count: 1, contents: false }
}

fn file(path: &[u8]) -> [Record<'_>; 3] {
    [Record::File { path, meta: META, size: 4 }, Record::Extent { offset: 0, len: 4 }, Record::End]
}

#[test]
fn names_that_lead_elsewhere_do_not_even_verify() {
    let paths: [&[u8]; 11] =
        [b"..", b"../x", b"a/../../x", b"/x", b"/", b"a//b", b"a/", b"./x", b"a/.", b"a\0b", &[b'a'; 4097]];
    for path in paths {
        for records in [
            &file(path)[..],
            &[Record::Directory { path }],
            &[Record::DirectoryEnd { path, meta: META }],
            &[Record::Symlink { path, target: b"t", meta: META }],
            &[Record::Failed { path, reason: "" }],
        ] {
            let data: &[u8] = if records.len() == 3 { b"evil" } else { b"" };
            let chunk = chunk_of(records, data);
            let verdict = verify(&chunk, &mut Vec::new());
            assert!(matches!(verdict, Err(VerifyError::Malformed(_))), "{}: {verdict:?}", show_path(path));
        }
    }
}

#[test]
fn links_that_lead_outside_are_not_followed() {
    let world = World::new();
    let outside = world.from("");
    fs::write(outside.join("precious"), b"precious").expect("a file");
    symlink(&outside, world.to("absolute")).expect("a link");
    symlink("../from", world.to("relative")).expect("a link");
    symlink("/proc/self/cwd", world.to("magic")).expect("a link");
    symlink("loop", world.to("loop")).expect("a link");
    let before = tree(&outside);

    for link in ["absolute", "relative", "magic", "loop"] {
        let below = format!("{link}/precious");
        let below = below.as_bytes();
        let mut sink = sink(&world.to(""), contents_shape());
        let attempts: [(&[Record<'_>], &[u8]); 3] = [
            (&file(below), b"evil"),
            (&[Record::Symlink { path: below, target: b"t", meta: META }], b""),
            (
                &[
                    Record::Directory { path: link.as_bytes() },
                    Record::Directory { path: below },
                    Record::DirectoryEnd { path: below, meta: META },
                    Record::DirectoryEnd { path: link.as_bytes(), meta: META },
                ],
                b"",
            ),
        ];
        for (records, data) in attempts {
            let events = feed(&mut sink, &chunk_of(records, data)).expect("the rest goes on");
            assert!(matches!(events[..], [SinkEvent::FileFailed(_)]), "{link}: {events:?}");
        }
        assert_eq!(sink.finish(&mut |_| {}).expect("it is whole").0.files, 0);
    }
    assert_eq!(tree(&outside), before);
    assert_eq!(tree(&world.to("")).len(), 4, "only the links");
}

#[test]
fn links_that_the_sender_made_are_not_followed_out_either() {
    let world = World::new();
    let outside = bytes(&world.from(""));
    let mut sink = sink(&world.to(""), contents_shape());
    let link = Record::Symlink { path: b"a", target: &outside, meta: META };
    assert_eq!(feed(&mut sink, &chunk_of(&[link], b"")).expect("links are stored"), []);
    let events = feed(&mut sink, &chunk_of(&file(b"a/x"), b"evil")).expect("the rest goes on");
    assert!(matches!(events[..], [SinkEvent::FileFailed(_)]), "{events:?}");
    // A file of the link's own name replaces the link, not what it points to.
    let events = feed(&mut sink, &chunk_of(&file(b"a"), b"good")).expect("files replace links");
    assert!(matches!(events[..], [SinkEvent::FileDone(_)]), "{events:?}");
    assert_eq!(tree(&world.from("")).len(), 0);
    assert_eq!(tree(&world.to(""))[Path::new("a")], Node::File(b"good".to_vec()));
}

#[test]
fn links_are_not_followed_even_inside() {
    let world = World::new();
    fs::create_dir(world.to("real")).expect("a directory");
    symlink("real", world.to("link")).expect("a link");
    let mut sink = sink(&world.to(""), contents_shape());
    let events = feed(&mut sink, &chunk_of(&file(b"link/x"), b"evil")).expect("the rest goes on");
    assert!(matches!(events[..], [SinkEvent::FileFailed(_)]), "{events:?}");
    assert_eq!(fs::read_dir(world.to("real")).expect("it stands").count(), 0);
}

#[test]
fn a_link_in_the_tree_asked_for_does_not_lead_beside_it() {
    for existing in [false, true] {
        let world = World::new();
        fs::create_dir(world.to("victim")).expect("a directory");
        if existing {
            fs::create_dir(world.to("x")).expect("a directory");
        }
        let mut sink = sink(&world.to(if existing { "" } else { "x" }), one_source());
        let records = [
            &[
                Record::Directory { path: b"x" },
                Record::Symlink { path: b"x/l", target: b"../victim", meta: META },
            ][..],
            &file(b"x/l/keys"),
            &[Record::DirectoryEnd { path: b"x", meta: META }],
        ]
        .concat();
        let events = feed(&mut sink, &chunk_of(&records, b"evil")).expect("the rest goes on");
        assert!(matches!(events[..], [SinkEvent::FileFailed(_)]), "{events:?}");
        assert_eq!(fs::read_dir(world.to("victim")).expect("it stands").count(), 0);
    }
}

#[test]
fn what_stands_in_the_way_fails_its_path_only() {
    let world = World::new();
    fs::write(world.to("file"), b"old").expect("a file");
    fs::create_dir_all(world.to("directory/inner")).expect("a directory");
    let mut sink = sink(&world.to(""), contents_shape());
    let records = [
        // A file where a directory should be: entries below it are skipped without further events.
        &[Record::Directory { path: b"file" }][..],
        &file(b"file/x"),
        &[Record::Directory { path: b"file/y" }],
        &[Record::DirectoryEnd { path: b"file/y", meta: META }],
        &[Record::DirectoryEnd { path: b"file", meta: META }],
        // A directory where a file or link should be.
        &file(b"directory"),
        &[Record::Symlink { path: b"directory", target: b"t", meta: META }],
        // A directory that was not made, and one that is a file.
        &file(b"missing/x"),
        &file(b"file/x"),
        &file(b"fine"),
    ]
    .concat();
    let events = feed(&mut sink, &chunk_of(&records, &b"data".repeat(5))).expect("the rest goes on");
    let failed: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            SinkEvent::FileFailed(failure) => Some(show_path(&failure.path)),
            _ => None,
        })
        .collect();
    assert_eq!(failed, ["file", "directory", "directory", "missing/x", "file/x"], "{events:?}");
    assert!(matches!(&events[5..], [SinkEvent::FileDone(done)] if done.path == b"fine"), "{events:?}");
    assert_eq!(sink.finish(&mut |_| {}).expect("it is whole").0.files, 1);
    let nodes = tree(&world.to(""));
    assert_eq!(nodes[Path::new("file")], Node::File(b"old".to_vec()));
    assert_eq!(nodes.len(), 4, "no temporary file is left: {nodes:?}");
}

#[test]
fn devices_and_fifos_are_not_replaced() {
    let world = World::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let to = fs::File::open(world.to("")).expect("a directory");
    rustix::fs::mknodat(&to, "fifo", rustix::fs::FileType::Fifo, mode, 0).expect("a fifo");
    let mut sink = sink(&world.to(""), contents_shape());
    let events = feed(&mut sink, &chunk_of(&file(b"fifo"), b"data")).expect("the rest goes on");
    assert!(matches!(events[..], [SinkEvent::FileFailed(_)]), "{events:?}");
    drop(sink);
    let names: Vec<_> = fs::read_dir(world.to("")).expect("a directory").collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn records_out_of_order_end_the_transfer() {
    let path = b"a".as_slice();
    let begin = Record::File { path, meta: META, size: 0 };
    let group = GROUP as u32;
    let whole = vec![7; GROUP as usize];
    let cases: Vec<(&str, Vec<Record<'_>>, &[u8])> = vec![
        ("an extent without a file", vec![Record::Extent { offset: 0, len: group }], &whole),
        ("an end without a file", vec![Record::End], b""),
        ("two ends", vec![begin, Record::End, Record::End], b""),
        ("a file in a file", vec![begin, begin], b""),
        ("a directory in a file", vec![begin, Record::Directory { path: b"d" }], b""),
        ("a hole", vec![begin, Record::Extent { offset: GROUP, len: group }], &whole),
        ("another's failure in a file", vec![begin, Record::Failed { path: b"b", reason: "" }], b""),
        ("an end of no directory", vec![Record::DirectoryEnd { path, meta: META }], b""),
        (
            "an end of another directory",
            vec![Record::Directory { path }, Record::DirectoryEnd { path: b"b", meta: META }],
            b"",
        ),
        ("a directory beside", vec![Record::Directory { path }, Record::Directory { path: b"b" }], b""),
        ("a directory in itself", vec![Record::Directory { path }, Record::Directory { path }], b""),
    ];
    for (what, records, data) in cases {
        let world = World::new();
        let mut sink = sink(&world.to(""), contents_shape());
        let error = feed(&mut sink, &chunk_of(&records, data)).expect_err(what);
        assert_eq!(error.kind, ErrorKind::Protocol, "{what}: {error}");
        drop(sink);
        let left = tree(&world.to(""));
        assert!(left.values().all(|node| !matches!(node, Node::File(file) if !file.is_empty())), "{left:?}");
    }
    let overlap = [begin, Record::Extent { offset: 0, len: group }, Record::Extent { offset: 0, len: group }];
    let world = World::new();
    let mut sink = sink(&world.to(""), contents_shape());
    let error =
        feed(&mut sink, &chunk_of(&overlap, &[0; 2 * GROUP as usize])).expect_err("twice the same place");
    assert_eq!(error.kind, ErrorKind::Protocol);
}

#[test]
fn a_transfer_cannot_end_in_the_middle() {
    for record in [Record::File { path: b"a", meta: META, size: 0 }, Record::Directory { path: b"a" }] {
        let world = World::new();
        let mut sink = sink(&world.to(""), contents_shape());
        feed(&mut sink, &chunk_of(&[record], b"")).expect("a beginning");
        assert_eq!(
            sink.finish(&mut |_| {}).map(|_| ()).expect_err("it is not whole").kind,
            ErrorKind::Protocol
        );
    }
}

#[test]
fn unfinished_files_leave_nothing() {
    let world = World::new();
    let mut sink = sink(&world.to(""), contents_shape());
    let begin = Record::File { path: b"a", meta: META, size: 2 << 20 };
    let records = [begin, Record::Extent { offset: 0, len: GROUP as u32 }];
    feed(&mut sink, &chunk_of(&records, &[1; GROUP as usize])).expect("a beginning");
    let mut names: Vec<_> = tree(&world.to("")).into_keys().collect();
    names.retain(|name| !is_journal(name.as_os_str().as_encoded_bytes()));
    assert!(names.len() == 1 && names[0].to_string_lossy().starts_with(".a.fobs-"), "{names:?}");
    assert_eq!(mode_of(&world.to("").join(&names[0])), OWN_MODE);
    drop(sink);
    assert_eq!(tree(&world.to("")).len(), 0);
}

#[test]
fn a_size_that_no_disk_holds_fails_its_file_only() {
    let world = World::new();
    let mut sink = sink(&world.to(""), contents_shape());
    let begin = Record::File { path: b"huge", meta: META, size: 1 << 60 };
    let records = [&[begin, Record::Extent { offset: 0, len: 4 }, Record::End][..], &file(b"fine")].concat();
    let events = feed(&mut sink, &chunk_of(&records, b"datadata")).expect("the rest goes on");
    match &events[..] {
        [SinkEvent::FileFailed(huge), SinkEvent::FileDone(fine)] => {
            assert_eq!((&huge.path[..], &fine.path[..]), (&b"huge"[..], &b"fine"[..]));
        }
        _ => panic!("{events:?}"),
    }
}

#[test]
fn one_source_cannot_become_several() {
    let world = World::new();
    for (records, what) in [
        ([&file(b"a")[..], &file(b"b")].concat(), "two names"),
        (vec![Record::Directory { path: b"" }], "contents"),
    ] {
        let data = b"data".repeat(records.len() / 3);
        let mut sink = sink(&world.to("new"), one_source());
        let error = feed(&mut sink, &chunk_of(&records, &data)).expect_err(what);
        assert_eq!(error.kind, ErrorKind::Protocol, "{what}");
    }
}

#[test]
fn names_that_were_not_asked_for_are_refused() {
    let world = World::new();
    let asked = [b"dir/wanted".to_vec(), b"other".to_vec()];
    let shape = SourceShape::Paths { count: 2, contents: false };
    for (path, fine) in [(&b"wanted"[..], true), (b"other", true), (b".bashrc", false), (b"dir", false)] {
        let mut sink = sink(&world.to(""), shape);
        sink.expect(&asked, Enter::All);
        let result = feed(&mut sink, &chunk_of(&file(path), b"data"));
        assert_eq!(result.is_ok(), fine, "{}: {result:?}", show_path(path));
    }
    // The contents of a directory may have any names.
    let mut sink = sink(&world.to(""), contents_shape());
    sink.expect(&[b"dir/".to_vec()], Enter::All);
    feed(&mut sink, &chunk_of(&file(b"any"), b"data")).expect("contents");
    drop(sink);
    assert_eq!(tree(&world.to("")).len(), 3);
}

#[test]
fn a_copy_takes_only_what_its_options_let_come() {
    let world = World::new();
    fs::write(world.to("private"), b"mine").expect("a file");
    let keeping = |links, hard_links| Preserve { links, hard_links, ..Preserve::default() };
    let link = Record::Symlink { path: b"a", target: b"/etc/passwd", meta: META };
    let hard_link = Record::Hardlink { path: b"a", target: b"private" };
    let below = [Record::Directory { path: b"a" }];
    for (records, enters, preserve, what) in [
        (&file(b"a/b")[..], Enter::None, Preserve::default(), "no -r"),
        (&below[..], Enter::None, Preserve::default(), "no -r, a directory"),
        (&[link], Enter::All, keeping(SymbolicLinks::LeftOut, false), "no links"),
        (&[hard_link], Enter::All, keeping(SymbolicLinks::Kept, false), "no hard links"),
    ] {
        let spec = SinkSpec { preserve, ..sink_spec(&world.to(""), contents_shape()) };
        let mut sink = Sink::open(spec).expect("a destination");
        sink.expect(&[b"a".to_vec(), b"private".to_vec()], enters);
        let data: &[u8] = if records.len() == 3 { b"evil" } else { b"" };
        let error = feed(&mut sink, &chunk_of(records, data)).expect_err(what);
        assert_eq!(error.kind, ErrorKind::Protocol, "{what}");
    }
    // Another name of what this transfer did not store is not made, whatever its name is.
    let preserve = keeping(SymbolicLinks::Kept, true);
    let spec = SinkSpec { preserve, ..sink_spec(&world.to(""), contents_shape()) };
    let mut sink = Sink::open(spec).expect("a destination");
    sink.expect(&[b"a".to_vec(), b"private".to_vec()], Enter::All);
    let events = feed(&mut sink, &chunk_of(&[hard_link], b"")).expect("the others go on");
    assert!(matches!(&events[..], [SinkEvent::FileFailed(_)]), "{events:?}");
    assert_eq!(fs::metadata(world.to("private")).expect("it is there").nlink(), 1);
}

fn any_record() -> impl Strategy<Value = (u8, u8, u8)> {
    (0_u8..7, 0_u8..8, 0_u8..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_row_of_records_stays_inside(rows in prop::collection::vec(any_record(), 0..40)) {
        const PATHS: [&[u8]; 8] = [b"", b"a", b"a/b", b"a/b/c", b"out", b"out/a", b"b", b"a/out/x"];
        const TARGETS: [&[u8]; 8] =
            [b"..", b"../from", b"/", b"a", b".", b"out", b"../../../../tmp", b"/proc/self/root"];
        let world = World::new();
        symlink(world.from(""), world.to("out")).expect("a link");
        fs::write(world.from("a"), b"precious").expect("a file");
        let mut sink = sink(&world.to(""), contents_shape());
        let mut offset = 0;
        for (kind, path, more) in rows {
            let (path, target) = (PATHS[usize::from(path)], TARGETS[usize::from(more)]);
            let mut data = &[][..];
            let group = [more; GROUP as usize];
            let record = match kind {
                0 => Record::Directory { path },
                1 => Record::DirectoryEnd { path, meta: META },
                2 => Record::Symlink { path, target, meta: META },
                3 => {
                    offset = 0;
                    Record::File { path, meta: META, size: u64::from(more) }
                }
                4 => {
                    data = &group;
                    offset += GROUP;
                    Record::Extent { offset: offset - GROUP, len: GROUP as u32 }
                }
                5 => Record::End,
                _ => Record::Failed { path, reason: "" },
            };
            let chunk = chunk_of(&[record], data);
            let mut scratch = Vec::new();
            let Ok(verified) = verify(&chunk, &mut scratch) else { continue };
            if let Err(error) = sink.apply(&chunk, verified, &scratch, &mut |_| ()) {
                prop_assert_eq!(error.kind, ErrorKind::Protocol);
                break;
            }
        }
        drop(sink);
        let outside: Vec<_> = tree(&world.from("")).into_iter().collect();
        prop_assert_eq!(outside, vec![("a".into(), Node::File(b"precious".to_vec()))]);
        prop_assert_eq!(fs::read_dir(world.directory.path()).expect("a directory").count(), 2);
        prop_assert!(!tree(&world.to("")).keys().any(|path| path.to_string_lossy().contains(".fobs-")));
    }
}
