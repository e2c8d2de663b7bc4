//! A file that changes between being opened and being read, which only the inside of a source can time.

use fobs_model::options::Preserve;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::*;
use crate::Base;
use crate::chunk::CHUNK_LEN_MAX;
use crate::uncached::{LargeFiles, PageCache, Reads, UNCACHED_MIN};

/// A source of the one file `f`, which is open and of which nothing is read yet.
fn opened(directory: &Path, content: &[u8]) -> Source {
    fs::write(directory.join("f"), content).expect("a file");
    source_of(directory)
}

/// The same of a file that is there.
fn source_of(directory: &Path) -> Source {
    let mut source = unopened(directory);
    assert!(matches!(source.begin_next(&mut FilledChunk::default()), Ok(Begun::Entry)));
    source
}

/// A source of `f`, of which nothing is open.
fn unopened(directory: &Path) -> Source {
    let path = directory.join("f");
    Source::open(SourceSpec {
        privileges: Privileges::OfTheUser,
        budget: fobs_model::budget::MemoryBudget::default(),
        sync: None,
        base: Base::Ambient,
        paths: vec![path.into_os_string().into_encoded_bytes()],
        recursive: false,
        preserve: Preserve::as_cp(true),
        compress: false,
    })
    .expect("a source")
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
    source.read_on(file, buf, None, filled)
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

/// All of a source's chunks, each in a buffer of its own; `read` gives what was read of one ahead.
fn chunks(
    source: &mut Source,
    data_max: usize,
    mut read: impl FnMut(&Source, &mut [u8], usize) -> Option<ReadStretch>,
) -> (Vec<[u8; 32]>, Vec<FileError>) {
    let (mut buf, mut hashes, mut failures) = (vec![0; CHUNK_LEN_MAX], Vec::new(), Vec::new());
    loop {
        buf.fill(0xee);
        let ahead = read(source, &mut buf, hashes.len());
        let filled = source.next_chunk_of(&mut buf, data_max, ahead).expect("it can be read");
        hashes.push(*blake3::hash(&buf[..filled.len]).as_bytes());
        failures.extend(filled.failures);
        if filled.is_final {
            return (hashes, failures);
        }
    }
}

/// Bytes of which no two parts are alike.
fn large(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(b"large").finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn what_is_read_ahead_makes_the_same_chunks() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = large((64 << 20) + 300_001);
    let (mut plain, mut ahead) = (opened(directory.path(), &content), source_of(directory.path()));
    let data_max = (3 << 20) + 70_000;
    let expected = chunks(&mut plain, data_max, |_, _, _| None);
    let (mut used, mut late) = (0, None);
    let got = chunks(&mut ahead, data_max, |source, buf, chunk| match chunk % 5 {
        // It is read for another chunk: what is at the buffer's front is not this one's.
        3 => late.take(),
        4 => source.stretch(0, data_max - (1 << 20))?.read(buf),
        _ => {
            let after_next = 2 * stretch_len(data_max) as u64;
            late = source.stretch(after_next, data_max).and_then(|it| it.read(buf));
            let read = source.stretch(0, data_max)?.read(buf);
            used += usize::from(read.is_some());
            read
        }
    });
    assert!(used > 8, "{used} of {} chunks", expected.0.len());
    assert_eq!((got, ahead.root()), (expected, plain.root()));
}

#[test]
fn the_end_of_a_file_and_small_files_are_not_read_ahead() {
    let directory = tempfile::tempdir().expect("a directory");
    let small = opened(directory.path(), &large(UNCACHED_MIN as usize - 1));
    assert!(small.stretch(0, 1 << 20).is_none());
    let source = opened(directory.path(), &large(UNCACHED_MIN as usize));
    let last = UNCACHED_MIN - (1 << 20);
    assert!(source.stretch(last - GROUP, 1 << 20).is_some());
    for before in [last, last + GROUP, UNCACHED_MIN, u64::MAX] {
        assert!(source.stretch(before, 1 << 20).is_none(), "{before} bytes before it");
    }
}

#[test]
fn a_file_that_changes_after_it_was_read_ahead_is_not_torn() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut content = large(UNCACHED_MIN as usize + 5);
    let mut source = opened(directory.path(), &content);
    let data_max = 4 << 20;
    let got = chunks(&mut source, data_max, |source, buf, chunk| {
        let read = source.stretch(0, data_max)?.read(buf);
        if chunk == 3 {
            content[13 << 20] ^= 1;
            overwrite(directory.path(), &content, 9);
        }
        read
    });
    assert_eq!(got.1.len(), 1, "{:?}", got.1);
    assert!(got.1[0].message.contains("changed while it was read"), "{}", got.1[0].message);
}

#[test]
fn a_file_that_shrinks_is_not_read_ahead_beyond_its_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = opened(directory.path(), &large(UNCACHED_MIN as usize + 5));
    let stretch = source.stretch(60 << 20, 1 << 20).expect("it is inside");
    fs::write(directory.path().join("f"), b"short").expect("it can be written");
    assert!(stretch.read(&mut vec![0; 1 << 20]).is_none());
}

#[test]
fn large_files_are_read_past_the_cache_unless_it_is_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    for (len, wanted, expected) in [
        (UNCACHED_MIN as usize, false, PageCache::Passed),
        (UNCACHED_MIN as usize, true, PageCache::Used),
        (UNCACHED_MIN as usize - 1, false, PageCache::Used),
    ] {
        fs::write(directory.path().join("f"), vec![0; len]).expect("a file");
        let mut source = unopened(directory.path());
        if wanted {
            source.use_cache();
        }
        assert!(matches!(source.begin_next(&mut FilledChunk::default()), Ok(Begun::Entry)));
        let file = source.file.as_ref().expect("it is open");
        let Input::File(held, _) = &file.input else { panic!("a stream") };
        let expected = Reads::of(held, file.size, expected, &LargeFiles::default()).0;
        assert_eq!(file.reads, expected, "{len} bytes, {wanted}");
        let is_large = file.large.is_some();
        assert_eq!(is_large, len as u64 >= UNCACHED_MIN);
        source.file = None;
    }
}
