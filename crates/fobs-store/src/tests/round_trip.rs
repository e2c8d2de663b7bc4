//! Copies equal their sources.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Cursor;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::chunk::{RECORDS_MAX, TRAILER_LEN};
use super::super::tree_hash::GROUP;
use super::super::*;
use super::support::*;

const GROUP_LEN: usize = GROUP as usize;

/// Sizes around every boundary.
const SIZES: [usize; 13] = [
    0,
    1,
    GROUP_LEN - 1,
    GROUP_LEN,
    GROUP_LEN + 1,
    // The first chunk's target.
    256 << 10,
    (256 << 10) + 1,
    CHUNK_DATA_MAX - 1,
    CHUNK_DATA_MAX,
    CHUNK_DATA_MAX + 1,
    2 * CHUNK_DATA_MAX - 3 * GROUP_LEN,
    2 * CHUNK_DATA_MAX,
    3 * CHUNK_DATA_MAX + 12_345,
];

#[test]
fn files_of_every_size() {
    for size in SIZES {
        let world = World::new();
        let data = content(size, size as u64);
        let file = world.write("file", &data);
        let outcome = copy(&[&file], &world.to(""));
        outcome.assert_clean();
        let expected =
            FileDone { path: b"file".to_vec(), bytes: size as u64, root: *blake3::hash(&data).as_bytes() };
        assert_eq!(outcome.stored, [expected], "size {size}");
        assert!(fs::read(world.to("file")).expect("it is there") == data, "size {size}");
    }
}

#[test]
fn files_are_synced_before_they_are_done_and_directories_after() {
    let world = World::new();
    for name in ["tree/a/b/one", "tree/a/two", "tree/c/three", "tree/four"] {
        world.write(name, name.as_bytes());
    }
    symlink("four", world.from("tree/link")).expect("a link");
    let source = world.from("tree");
    assert_eq!(copy(&[&source], &world.to("")).assert_clean().syncs, 0);
    let outcome = copy_synced(&[&source], &world.to("again"));
    assert_eq!(outcome.assert_clean().syncs, 4 + 1);
    assert_eq!(tree(&world.to("again")), tree(&source));

    let mut one = open(&[&world.from("tree/four")]);
    let spec = SinkSpec { fsync: true, ..sink_spec(&world.to("four"), one.shape()) };
    let mut sink = Sink::open(spec).expect("the destination");
    let mut buf = vec![0; CHUNK_LEN_MAX];
    let filled = one.next_chunk(&mut buf, CHUNK_DATA_MAX).expect("a chunk");
    let events = feed(&mut sink, &buf[..filled.len]).expect("our own chunk");
    assert!(
        matches!(events[..], [SinkEvent::SyncBegins, SinkEvent::SyncEnds, SinkEvent::FileDone(_)]),
        "{events:?}"
    );
}

#[test]
fn streams_of_every_size() {
    for size in SIZES {
        let data = content(size, size as u64);
        let reader = Pieces { data: Cursor::new(data.clone()), fails: false };
        let mut source = Source::from_stream(Box::new(reader), false).expect("a stream");
        let written = Shared::default();
        let sink = Sink::to_stream(Box::new(written.clone()), source.shape()).expect("a stream");
        let outcome = transfer(&mut source, sink);
        outcome.assert_clean();
        assert_eq!(outcome.stored[0].root, *blake3::hash(&data).as_bytes(), "size {size}");
        assert_eq!(source.known(), Known { bytes: size as u64, files: 1, scan_complete: true });
        assert!(*written.0.lock().expect("not poisoned") == data, "size {size}");
    }
}

#[test]
fn the_first_byte_leaves_early_and_later_chunks_are_full() {
    let world = World::new();
    let file = world.write("file", &content(3 * CHUNK_DATA_MAX, 1));
    let outcome = copy(&[&file], &world.to(""));
    let near = |data: usize| data..data + 200;
    let expected = [256 << 10, 768 << 10, 3 << 20, CHUNK_DATA_MAX, CHUNK_DATA_MAX];
    assert_eq!(outcome.chunk_lens.len(), expected.len(), "{:?}", outcome.chunk_lens);
    for (len, expected) in outcome.chunk_lens.iter().zip(expected) {
        assert!(near(expected).contains(len), "{:?}", outcome.chunk_lens);
    }
}

/// As with a congestion window that changes during a file: chunks then begin at any group.
#[test]
fn chunks_of_changing_size_make_the_same_file() {
    let world = World::new();
    let data = content(3 * CHUNK_DATA_MAX + 70_001, 1);
    let file = world.write("file", &data);
    // The third is less than the least, and the fourth more than the most.
    let sizes = [256 << 10, 64 << 10, 1, 64 << 20, 2 << 20, 1 << 20, 192 << 10];
    let mut source = open(&[&file]);
    let sink = Sink::open(sink_spec(&world.to(""), source.shape())).expect("the destination");
    let outcome =
        transfer_in(&mut source, sink, |chunk| sizes[chunk % sizes.len()], |_| {}).expect("it goes");
    outcome.assert_clean();
    assert_eq!(outcome.stored[0].root, *blake3::hash(&data).as_bytes());
    assert!(fs::read(world.to("file")).expect("it is there") == data);
    let expected = [256 << 10, 64 << 10, 64 << 10, CHUNK_DATA_MAX, 2 << 20];
    for (len, expected) in outcome.chunk_lens.iter().zip(expected) {
        assert!((expected..expected + 200).contains(len), "{:?}", outcome.chunk_lens);
    }
}

#[test]
fn many_small_files_share_chunks() {
    let world = World::new();
    for i in 0..1_000 {
        world.write(&format!("many/{}/{i}", i % 7), &content(i % 5_000, i as u64));
    }
    let outcome = copy(&[&world.from("many")], &world.to(""));
    outcome.assert_clean();
    assert_eq!(outcome.stored.len(), 1_000);
    assert!(outcome.chunk_lens.len() <= 5, "{:?}", outcome.chunk_lens);
    assert_eq!(tree(&world.from("many")), tree(&world.to("many")));
}

#[test]
fn chunks_close_when_their_records_are_full() {
    let world = World::new();
    let long = "n".repeat(200);
    for i in 0..1_600 {
        world.write(&format!("many/{long}-{i}"), b"");
    }
    let outcome = copy(&[&world.from("many")], &world.to(""));
    outcome.assert_clean();
    assert_eq!(outcome.stored.len(), 1_600);
    assert!(outcome.chunk_lens.len() >= 2, "{:?}", outcome.chunk_lens);
    assert!(outcome.chunk_lens.iter().all(|&len| len <= RECORDS_MAX + TRAILER_LEN));
}

#[test]
fn odd_names_links_and_empty_directories() {
    let world = World::new();
    let top = world.from("tree");
    fs::create_dir_all(top.join("empty/emptier")).expect("directories");
    let long = "l".repeat(255);
    let names: [&[u8]; 8] = [
        b"new\nline",
        b"\xff\xfe not UTF-8",
        b"-rf",
        b" ",
        b"...",
        long.as_bytes(),
        b"*?'\"\\",
        "é".as_bytes(),
    ];
    for (i, name) in names.iter().enumerate() {
        let directory = top.join(OsStr::from_bytes(name));
        fs::create_dir(&directory).expect("a directory");
        fs::write(directory.join(OsStr::from_bytes(name)), content(100, i as u64)).expect("a file");
    }
    symlink("no such thing", top.join("dangling")).expect("a link");
    symlink("/etc/passwd", top.join("outside")).expect("a link");
    symlink("../../..", top.join("upwards")).expect("a link");
    symlink("empty", top.join("to a directory")).expect("a link");
    symlink(OsStr::from_bytes(b"\xff"), top.join("to bytes")).expect("a link");

    let outcome = copy(&[&top], &world.to(""));
    outcome.assert_clean();
    assert_eq!(outcome.stored.len(), names.len());
    assert_eq!(tree(&top), tree(&world.to("tree")));

    // Again over what is there, and with compression.
    let mut source = Source::open(SourceSpec { compress: true, ..spec(&[&top]) }).expect("the source");
    let sink = sink(&world.to(""), source.shape());
    transfer(&mut source, sink).assert_clean();
    assert_eq!(tree(&top), tree(&world.to("tree")));
}

#[test]
fn trees_deeper_than_open_files_allow() {
    let world = World::new();
    let deep = "d/".repeat(1_100);
    let mut path = world.from("deep");
    fs::create_dir(&path).expect("a directory");
    // More levels than a process may usually have files open (1024).
    for part in deep.split_terminator('/') {
        path.push(part);
    }
    fs::create_dir_all(&path).expect("directories");
    fs::write(path.join("bottom"), b"rock").expect("a file");
    copy(&[&world.from("deep")], &world.to("")).assert_clean();
    assert!(tree(&world.from("deep")) == tree(&world.to("deep")));
}

#[test]
fn compression_is_used_only_where_it_helps() {
    let world = World::new();
    let text = world.write("text", &b"all work and no play makes jack a dull boy\n".repeat(50_000));
    let noise = world.write("noise", &content(1 << 20, 3));
    for (file, smaller) in [(&text, true), (&noise, false)] {
        let mut source = Source::open(SourceSpec { compress: true, ..spec(&[file]) }).expect("the source");
        let sink = sink(&world.to(""), source.shape());
        let outcome = transfer(&mut source, sink);
        outcome.assert_clean();
        let sent: usize = outcome.chunk_lens.iter().sum();
        let size = fs::metadata(file).expect("it is there").len() as usize;
        assert_eq!(sent < size / 10, smaller, "{sent} of {size}");
        assert!(smaller || sent < size + 1_000, "{sent} of {size}");
    }
    assert_eq!(tree(&world.from("")), tree(&world.to("")));
}

/// A random tree: directories, files of odd sizes, links.
fn any_tree() -> impl Strategy<Value = BTreeMap<PathBuf, Node>> {
    let name = prop_oneof![
        4 => "[a-d]",
        1 => prop::collection::vec(prop::num::u8::ANY.prop_filter("not a name", |&b| b != 0 && b != b'/'), 1..9)
            .prop_filter("not a name", |name| name != b"." && name != b"..")
            .prop_map(|name| String::from_utf8_lossy(&name).into_owned()),
    ];
    let path = prop::collection::vec(name, 1..5).prop_map(|parts| parts.iter().collect::<PathBuf>());
    let size = prop_oneof![
        6 => 0_usize..5_000,
        2 => (0_usize..6, 0_usize..3).prop_map(|(groups, more)| (groups * GROUP_LEN + more).saturating_sub(1)),
        1 => 1_usize..10 << 20,
    ];
    let node = prop_oneof![
        5 => (size, any::<u64>()).prop_map(|(size, seed)| Node::File(content(size, seed))),
        1 => Just(Node::Directory),
        1 => "[a-z./]{1,20}".prop_map(|target| Node::Symlink(target.into())),
    ];
    prop::collection::btree_map(path, node, 0..20).prop_map(|wanted| {
        let mut made: BTreeMap<PathBuf, Node> = BTreeMap::new();
        for (path, node) in wanted {
            let parents: Vec<&Path> = path.ancestors().skip(1).filter(|it| *it != Path::new("")).collect();
            if parents.iter().all(|parent| matches!(made.get(*parent), None | Some(Node::Directory)))
                && !made.contains_key(&path)
            {
                for parent in parents {
                    made.insert(parent.to_owned(), Node::Directory);
                }
                made.insert(path, node);
            }
        }
        made
    })
}

fn make(top: &Path, nodes: &BTreeMap<PathBuf, Node>) {
    // In order: parents come before what is in them.
    for (path, node) in nodes {
        let path = top.join(path);
        match node {
            Node::Directory => fs::create_dir(path),
            Node::Symlink(target) => symlink(target, path),
            Node::File(data) => fs::write(path, data),
        }
        .expect("the tree can be made");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn random_trees(nodes in any_tree(), compress: bool, contents: bool) {
        let world = World::new();
        make(&world.from(""), &nodes);
        // `from/` is its contents, `from` is itself.
        let from = world.directory.path().join(if contents { "from/" } else { "from" });
        let mut source = Source::open(SourceSpec { compress, ..spec(&[&from]) }).expect("the source");
        prop_assert_eq!(source.shape(), SourceShape::Paths { count: 1, contents });
        let sink = sink(&world.to(""), source.shape());
        let outcome = transfer(&mut source, sink);
        outcome.assert_clean();
        let arrived = world.to(if contents { "" } else { "from" });
        prop_assert!(tree(&arrived) == nodes);
        for file in &outcome.stored {
            let path = Path::new(OsStr::from_bytes(&file.path));
            let path = if contents { path } else { path.strip_prefix("from").expect("below from") };
            let Some(Node::File(data)) = nodes.get(path) else { panic!("{path:?} is not a file") };
            prop_assert_eq!(file.root, *blake3::hash(data).as_bytes());
        }
        let bytes: u64 = outcome.stored.iter().map(|file| file.bytes).sum();
        let files = outcome.stored.len() as u64;
        prop_assert_eq!(source.known(), Known { bytes, files, scan_complete: true });
    }
}
