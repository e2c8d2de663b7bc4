//! Hashes of files and of their pieces over a session.

use super::hostile::with_answer;
use super::open;
use crate::served::{Served, content};
use fobs::HashedFile;
use fobs_model::error::ErrorKind;
use fobs_model::message::files::{WireEntry, WireKind};
use fobs_model::message::{Bytes, Message};
use fobs_store::pieces;
use std::fs;
use std::os::unix::fs::symlink;

const PIECE: u64 = pieces::PIECE_MIN;

fn expect(file: &HashedFile, data: &[u8]) {
    assert_eq!((file.size, file.root), (data.len() as u64, *blake3::hash(data).as_bytes()));
    assert_eq!(file.values.len() as u64, pieces::value_count(file.size, PIECE));
}

#[test]
fn files_are_hashed_in_pieces_at_the_server() {
    let served = Served::start(|_| ());
    let session = open(&served);
    // The last one has more values than one message.
    let lens = [0, 1, 70_000, PIECE as usize, 3 * PIECE as usize + 5, 1030 * PIECE as usize];
    let names: Vec<String> = lens.iter().map(|len| format!("file-{len}")).collect();
    for (name, len) in names.iter().zip(lens) {
        fs::write(served.root().join(name), content(len)).unwrap();
    }
    let hashed = session.hash(&names, PIECE).unwrap();
    for (file, len) in hashed.iter().zip(lens) {
        expect(file.as_ref().unwrap(), &content(len));
    }
    assert_eq!(hashed.len(), lens.len());
    // A larger piece has the same root.
    let whole = session.hash(&names[4..5], pieces::PIECE_MAX).unwrap().remove(0).unwrap();
    assert_eq!((whole.root, whole.values.len()), (hashed[4].as_ref().unwrap().root, 0));
}

#[test]
fn what_cannot_be_hashed_is_named_and_the_rest_comes() {
    let served = Served::start(|_| ());
    let session = open(&served);
    fs::write(served.root().join("file"), b"content").unwrap();
    fs::create_dir(served.root().join("directory")).unwrap();
    symlink("/etc/hostname", served.root().join("out")).unwrap();
    let names = ["none", "file", "directory", "out"];
    let hashed = session.hash(&names, PIECE).unwrap();
    for (name, file) in names.iter().zip(&hashed) {
        match file {
            Ok(file) => assert_eq!((*name, file.root), ("file", *blake3::hash(b"content").as_bytes())),
            Err(error) => assert!(*name != "file" && error.message.contains(name), "{name}: {error}"),
        }
    }
    assert_eq!(session.hash(&["file", "../file"], PIECE).unwrap_err().kind, ErrorKind::Denied);
    for piece in [0, 1, PIECE - 1, PIECE + 1, 2 * pieces::PIECE_MAX] {
        assert_eq!(session.hash(&["file"], piece).unwrap_err().kind, ErrorKind::Usage, "{piece}");
    }
    assert_eq!(session.hash(&["file"; 1001], PIECE).unwrap_err().kind, ErrorKind::Usage);
    assert_eq!(session.hash::<&str>(&[], PIECE).unwrap_err().kind, ErrorKind::Usage);
    // The session goes on.
    expect(session.hash(&["file"], PIECE).unwrap()[0].as_ref().unwrap(), b"content");
}

#[test]
fn a_key_that_may_not_read_a_file_gets_no_hash_of_it() {
    let served = Served::start(|_| ());
    fs::create_dir(served.root().join("mine")).unwrap();
    fs::write(served.root().join("mine/file"), b"mine").unwrap();
    fs::write(served.root().join("other"), b"other").unwrap();
    let as_key = |options: &str| {
        served.authorize_client_with(options);
        open(&served)
    };
    assert_eq!(as_key("write-only").hash(&["mine/file"], PIECE).unwrap_err().kind, ErrorKind::Denied);
    let session = as_key("read-only,path=\"mine\"");
    expect(session.hash(&["mine/file"], PIECE).unwrap()[0].as_ref().unwrap(), b"mine");
    for names in [vec!["other"], vec!["mine/file", "other"], vec!["mine/../other"]] {
        assert_eq!(session.hash(&names, PIECE).unwrap_err().kind, ErrorKind::Denied, "{names:?}");
    }
}

#[test]
fn hashes_that_do_not_fit_each_other_are_refused() {
    let entry = |name: Vec<u8>, size, root: Option<u8>| WireEntry {
        name: Bytes(name),
        kind: WireKind::File,
        size,
        mtime_s: 0,
        mtime_ns: 0,
        mode: 0,
        root: root.map(|byte| Bytes(vec![byte; 32])),
        inode: 0,
        text: None,
        leads_to: None,
    };
    let values = vec![7; 64];
    let short = vec![entry(values[..32].to_vec(), 2 * PIECE, Some(1))];
    let torn = vec![entry(values[..63].to_vec(), 2 * PIECE, Some(1))];
    let wrong = vec![entry(values.clone(), 2 * PIECE, Some(1))];
    let endless = vec![entry(values, 2 * PIECE, None)];
    let two = vec![entry(Vec::new(), 1, Some(1)), entry(Vec::new(), 1, Some(1))];
    for entries in [Vec::new(), short, torn, wrong, endless, two] {
        let answer = Message::Answer { entries, last: true };
        let error = with_answer(answer, |session| session.hash(&["file"], PIECE));
        assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    }
}
