//! Chunks and the records in them, verified and stored.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use super::input::Input;
use fobs_model::error::ErrorKind;
use fobs_model::options::Preserve;
use fobs_store::{Above, Attributes, Base, Partial, Sink, SinkSpec, SourceShape, SpecialThere, seal, verify};

/// Most chunks of one fuzzed transfer.
const CHUNKS_MAX: usize = 4;
/// Unit of fuzzed file data, bytes: an extent that does not end its file is a multiple of it.
const GROUP: usize = 64 << 10;
/// A file beside the destination, behind a link in it.
const PRECIOUS: &[u8] = b"precious";

/// Any bytes as a chunk. The digest is out of a fuzzer's reach, all before it is not.
pub(super) fn chunk(input: &[u8]) {
    let mut scratch = Vec::new();
    let _ = verify(input, &mut scratch);
    assert!(scratch.len() <= fobs_store::CHUNK_LEN_MAX);
}

/// Any records in chunks that verify: `[data u8, records_len u16, records]`, stored in a directory with a
/// link that leads out of it.
pub(super) fn records(input: &[u8]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (inside, outside) = (directory.path().join("to"), directory.path().join("from"));
    fs::create_dir(&inside).expect("a directory");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("a"), PRECIOUS).expect("a file");
    symlink(&outside, inside.join("out")).expect("a link");
    store(Input(input), inside.as_os_str().as_bytes());
    assert_eq!(fs::read(outside.join("a")).expect("it is there"), PRECIOUS);
    let names = |path| fs::read_dir(path).expect("a directory").count();
    assert_eq!((names(&outside), names(&directory.path().to_owned())), (1, 2));
    if let Ok(link) = fs::symlink_metadata(inside.join("out")) {
        // Replaced by a link or a file, perhaps; a directory means that a link was followed or removed.
        assert!(!link.is_dir());
    }
}

/// The attributes of an entry.
pub(super) fn attributes(input: &[u8]) {
    let Ok(attributes) = Attributes::decode(input) else { return };
    let bytes = attributes.encode().expect("what was read keeps the rules");
    assert_eq!(Attributes::decode(&bytes), Ok(attributes));
}

fn store(mut input: Input<'_>, destination: &[u8]) {
    let shape = SourceShape::Paths { count: 1, contents: true };
    let spec = SinkSpec {
        base: Base::Ambient,
        destination: destination.to_vec(),
        shape,
        above: Above::Required,
        xattr_rules: Default::default(),
        preserve: if input.0.len().is_multiple_of(2) { everything() } else { Preserve::default() },
        fsync: false,
        keep: Partial::Discard,
        link_dest: Vec::new(),
        backup_dir: None,
        temp_dir: None,
        partial_dir: None,
        special: SpecialThere::default(),
        transfer_id: [0; 16],
        names: Vec::new(),
        client: None,
        privileges: fobs_model::options::Privileges::OfTheUser,
        terms: fobs_model::options::Terms::default(),
        budget: fobs_model::budget::MemoryBudget::default(),
        holder: "fuzzer".to_owned(),
    };
    let mut sink = Sink::open(spec).expect("a directory that can be written");
    let mut scratch = Vec::new();
    for _ in 0..CHUNKS_MAX {
        let Some(size) = input.byte() else { break };
        let len = usize::from(input.u16());
        let data = vec![size; usize::from(size >> 6) * GROUP + usize::from(size & 0x3f)];
        let chunk = seal(&data, input.take(len));
        let Ok(verified) = verify(&chunk, &mut scratch) else { return };
        if let Err(error) = sink.apply(&chunk, verified, &scratch, &mut |_| ()) {
            assert!(matches!(error.kind, ErrorKind::Protocol), "{error}");
            return;
        }
    }
    if let Err(error) = sink.finish(&mut |_| ()) {
        assert!(matches!(error.kind, ErrorKind::Protocol), "{error}");
    }
}

/// All but devices, which a fuzzer with root's rights must not make.
fn everything() -> Preserve {
    Preserve {
        modes: true,
        times: true,
        owner: true,
        group: true,
        specials: true,
        hard_links: true,
        xattrs: true,
        acls: true,
        sparse: true,
        ..Preserve::default()
    }
}
