//! A file that changes between being opened and being read, which only the inside of a source can time.

use fobs_model::options::Preserve;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::*;
use crate::Base;
use crate::chunk::CHUNK_LEN_MAX;

/// A source of the one file `f`, which is open and of which nothing is read yet.
fn opened(directory: &Path, content: &[u8]) -> Source {
    let path = directory.join("f");
    fs::write(&path, content).expect("a file");
    let mut source = Source::open(SourceSpec {
        privileges: Privileges::OfTheUser,
        budget: fobs_model::budget::MemoryBudget::default(),
        sync: None,
        base: Base::Ambient,
        paths: vec![path.into_os_string().into_encoded_bytes()],
        recursive: false,
        preserve: Preserve::as_cp(true),
        compress: false,
    })
    .expect("a source");
    assert!(matches!(source.begin_next(&mut FilledChunk::default()), Ok(Begun::Entry)));
    source
}

/// Replaces the content of `f` in place, with a time of modification of its own.
fn overwrite(directory: &Path, content: &[u8], days: u64) {
    let path = directory.join("f");
    fs::write(&path, content).expect("it can be written");
    let file = fs::File::options().append(true).open(&path).expect("it is there");
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400);
    file.set_modified(modified).expect("its time can be set");
}

/// One step of `next_chunk`. Returns the bytes read.
fn read_on(source: &mut Source, buf: &mut [u8], filled: &mut FilledChunk) -> usize {
    let file = source.file.take().expect("a file is open");
    source.read_on(file, buf, filled)
}

fn records(source: &Source) -> Vec<Record<'_>> {
    let mut rest = &source.records[..];
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (record, after) = Record::decode(rest).expect("our own records");
        records.push(record);
        rest = after;
    }
    records
}

#[test]
fn a_file_that_changed_once_is_read_once_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut source = opened(directory.path(), b"old");
    overwrite(directory.path(), b"newer", 3);
    let (mut buf, mut filled) = (vec![0; CHUNK_LEN_MAX], FilledChunk::default());
    assert_eq!(read_on(&mut source, &mut buf, &mut filled), 0);
    assert_eq!(read_on(&mut source, &mut buf, &mut filled), 5);
    assert_eq!(&buf[..5], b"newer");
    let [Record::File { path: b"f", meta, size: 5 }, extent, Record::End] = records(&source)[..] else {
        panic!("{:?}", records(&source));
    };
    assert_eq!((meta.mtime_s, meta.mtime_ns), (3 * 86_400, 0), "the newer time");
    assert_eq!(extent, Record::Extent { offset: 0, len: 5 });
    assert_eq!((filled.failures.len(), filled.files.len()), (0, 1));
    assert_eq!(source.known(), Known { bytes: 5, files: 1, scan_complete: true });
    assert_eq!(filled.files[0].root, *blake3::hash(b"newer").as_bytes());
}

#[test]
fn a_file_that_changes_again_fails_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut source = opened(directory.path(), b"old");
    let (mut buf, mut filled) = (vec![0; CHUNK_LEN_MAX], FilledChunk::default());
    for days in [3, 4] {
        overwrite(directory.path(), b"new", days);
        assert_eq!(read_on(&mut source, &mut buf, &mut filled), 0);
    }
    assert!(source.file.is_none());
    let [Record::File { path: b"f", .. }, Record::Failed { path: b"f", reason }] = records(&source)[..]
    else {
        panic!("{:?}", records(&source));
    };
    assert!(reason.contains("'f': it changed while it was read"), "{reason}");
    assert_eq!((filled.failures.len(), filled.files.len()), (1, 0));
}

#[test]
fn a_restored_time_does_not_hide_a_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut source = opened(directory.path(), b"old");
    let modified = fs::metadata(directory.path().join("f")).and_then(|meta| meta.modified()).expect("a time");
    // The kernel's clock for such times ticks every few milliseconds.
    std::thread::sleep(Duration::from_millis(30));
    let path = directory.path().join("f");
    fs::write(&path, b"new").expect("it can be written");
    let file = fs::File::options().append(true).open(&path).expect("it is there");
    file.set_modified(modified).expect("its time can be set");
    let (mut buf, mut filled) = (vec![0; CHUNK_LEN_MAX], FilledChunk::default());
    assert_eq!(read_on(&mut source, &mut buf, &mut filled), 0, "size and time are the same, ctime is not");
    assert_eq!(read_on(&mut source, &mut buf, &mut filled), 3);
}

#[test]
fn a_file_that_is_replaced_or_removed_is_read_whole() {
    for replace in [true, false] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut source = opened(directory.path(), b"old");
        std::thread::sleep(Duration::from_millis(30));
        let path = directory.path().join("f");
        if replace {
            fs::write(directory.path().join("g"), b"newer").expect("another file");
            fs::rename(directory.path().join("g"), &path).expect("it takes the name");
        } else {
            fs::remove_file(&path).expect("it can be removed");
        }
        let (mut buf, mut filled) = (vec![0; CHUNK_LEN_MAX], FilledChunk::default());
        assert_eq!(read_on(&mut source, &mut buf, &mut filled), 3, "replaced: {replace}");
        assert_eq!(&buf[..3], b"old");
    }
}
