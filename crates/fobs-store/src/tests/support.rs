//! Shared by the storage tests.

use fobs_model::options::Preserve;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use tempfile::TempDir;

use super::super::chunk::CHUNK_LEN_MAX;
use super::super::delta::{FineAnswer, FinePieces, Lists, NameKey, Offers};
use super::super::record::Record;
use super::super::survey::{Choice, Decided, Listed, Next};
use super::super::*;
use crate::SourceShape;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::Result;
use fobs_model::event::FileError;
use fobs_model::options::Privileges;
use fobs_proto::session::first_chunk_data_max;

/// A place with a `from` and a `to` directory.
pub struct World {
    pub directory: TempDir,
}

impl World {
    pub fn new() -> World {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(directory.path().join("from")).expect("from");
        fs::create_dir(directory.path().join("to")).expect("to");
        World { directory }
    }

    pub fn from(&self, path: &str) -> PathBuf {
        self.directory.path().join("from").join(path)
    }

    pub fn to(&self, path: &str) -> PathBuf {
        self.directory.path().join("to").join(path)
    }

    /// Writes a file below `from`.
    pub fn write(&self, path: &str, content: &[u8]) -> PathBuf {
        let path = self.from(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, content).expect("a file");
        path
    }
}

/// One thing in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Directory,
    Symlink(PathBuf),
    File(Vec<u8>),
}

/// Everything below `top`, by relative path.
pub fn tree(top: &Path) -> BTreeMap<PathBuf, Node> {
    let walk = walkdir::WalkDir::new(top).min_depth(1).into_iter();
    walk.map(|entry| entry.expect("a readable tree"))
        .map(|entry| {
            let node = match entry.file_type() {
                kind if kind.is_dir() => Node::Directory,
                kind if kind.is_symlink() => Node::Symlink(fs::read_link(entry.path()).expect("a link")),
                _ => Node::File(fs::read(entry.path()).expect("a file")),
            };
            (entry.path().strip_prefix(top).expect("below top").to_owned(), node)
        })
        .collect()
}

pub fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it exists").permissions().mode() & 0o7777
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode can be set");
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Bytes that differ everywhere and do not compress.
pub fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).finalize_xof().fill(&mut data);
    data
}

/// The specification of a source, with `-r` and no other option.
pub fn spec(paths: &[&Path]) -> SourceSpec {
    SourceSpec {
        privileges: Privileges::OfTheUser,
        budget: fobs_model::budget::MemoryBudget::default(),
        sync: None,
        base: Base::Ambient,
        paths: paths.iter().map(|path| bytes(path)).collect(),
        recursive: true,
        preserve: Preserve::default(),
        compress: false,
    }
}

pub fn open(paths: &[&Path]) -> Source {
    Source::open(spec(paths)).expect("the sources can be read")
}

pub fn sink_spec(destination: &Path, shape: SourceShape) -> SinkSpec {
    SinkSpec {
        base: Base::Ambient,
        destination: bytes(destination),
        shape,
        above: Above::Required,
        xattr_rules: Default::default(),
        preserve: Preserve::default(),
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
        holder: "tester".to_owned(),
        budget: fobs_model::budget::MemoryBudget::default(),
    }
}

pub fn sink(destination: &Path, shape: SourceShape) -> Sink {
    Sink::open(sink_spec(destination, shape)).expect("the destination can be written")
}

/// The outcome of a transfer.
#[derive(Debug)]
pub struct Outcome {
    pub sent: Vec<FileDone>,
    pub source_failures: Vec<FileError>,
    pub stored: Vec<FileDone>,
    pub sink_failures: Vec<FileError>,
    /// Failures of the source as reported by the sink.
    pub told_failures: Vec<FileError>,
    /// Number of waits for the device.
    pub syncs: usize,
    pub chunk_lens: Vec<usize>,
    pub root: [u8; 32],
    pub summary: SinkSummary,
    /// What the users of both ends are told at the end.
    pub notice: Option<String>,
}

impl Outcome {
    /// Everything arrived, and both sides agree.
    pub fn assert_clean(&self) -> &Outcome {
        assert_eq!(self.source_failures, []);
        assert_eq!(self.told_failures, []);
        assert_eq!(self.sink_failures, []);
        assert_eq!(self.sent, self.stored);
        assert_eq!(self.root, self.summary.root);
        assert_eq!(self.summary.files, self.stored.len() as u64);
        assert_eq!(self.summary.bytes, self.stored.iter().map(|file| file.bytes).sum::<u64>());
        self
    }
}

/// Moves everything from `source` to `sink`; `between` is called after each chunk has been filled.
pub fn transfer_with(source: &mut Source, sink: Sink, between: impl FnMut(usize)) -> Result<Outcome> {
    transfer_in(source, sink, |chunk| first_chunk_data_max(chunk as u64) as usize, between)
}

/// Likewise, with a limit for the data of each chunk.
pub fn transfer_in(
    source: &mut Source,
    mut sink: Sink,
    data_max: impl Fn(usize) -> usize,
    mut between: impl FnMut(usize),
) -> Result<Outcome> {
    let mut buf = vec![0xee; CHUNK_LEN_MAX];
    let mut scratch = Vec::new();
    let mut scanned = false;
    let mut outcome = Outcome {
        sent: Vec::new(),
        source_failures: Vec::new(),
        stored: Vec::new(),
        sink_failures: Vec::new(),
        told_failures: Vec::new(),
        syncs: 0,
        chunk_lens: Vec::new(),
        root: [0; 32],
        summary: SinkSummary {
            root: [0; 32],
            files: 0,
            bytes: 0,
            others: fobs_model::event::OtherEntries::default(),
            written: Vec::new(),
        },
        notice: None,
    };
    loop {
        let filled = source.next_chunk(&mut buf, data_max(outcome.chunk_lens.len()))?;
        between(outcome.chunk_lens.len());
        outcome.sent.extend(filled.files);
        outcome.source_failures.extend(filled.failures);
        outcome.chunk_lens.push(filled.len);
        let chunk = &buf[..filled.len];
        let verified = verify(chunk, &mut scratch).expect("our own chunks verify");
        assert_eq!(verified.data_bytes(), filled.data_bytes);
        sink.apply(chunk, verified, &scratch, &mut |event| match event {
            SinkEvent::FileDone(done) => outcome.stored.push(done),
            SinkEvent::FileFailed(failure) => outcome.sink_failures.push(failure),
            SinkEvent::SourceFailed(failure) => outcome.told_failures.push(failure),
            SinkEvent::SyncBegins => outcome.syncs += 1,
            SinkEvent::SyncEnds | SinkEvent::Resumed(_) | SinkEvent::Deleted(_) => {}
        })?;
        outcome.notice = filled.notice;
        if filled.is_final {
            break;
        }
        assert!(!scanned || source.known().scan_complete, "a scan that is complete stays so");
        scanned = source.known().scan_complete;
    }
    assert!(source.known().scan_complete);
    assert_eq!(outcome.source_failures, outcome.told_failures);
    outcome.root = source.root();
    let mut syncs = 0;
    let (summary, closing) =
        sink.finish(&mut |event| syncs += usize::from(event == SinkEvent::SyncBegins))?;
    closing.acknowledged();
    outcome.summary = summary;
    outcome.syncs += syncs;
    Ok(outcome)
}

/// Runs the test named `test` with a new tmpfs, mounted with `options`, as its destination: returns it in the
/// process that has it. `None` elsewhere, after that process has succeeded or where there can be none.
pub fn with_tmpfs(test: &str, options: &str) -> Option<PathBuf> {
    const VARIABLE: &str = "FOBS_TEST_TMPFS";
    if let Some(mounted) = std::env::var_os(VARIABLE) {
        return Some(mounted.into());
    }
    let namespace: &[&str] = if is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(namespace);
        command
    };
    let directory = tempfile::tempdir().expect("a directory");
    let mount = "mount -t tmpfs -o \"$1\" tmpfs \"$2\" && shift 2 && exec \"$@\"";
    let prepared = |program: &Path, arguments: &[&str]| {
        let mut command = unshare();
        command.args(["sh", "-c", mount, "sh", options]).arg(directory.path()).arg(program).args(arguments);
        command.env(VARIABLE, directory.path());
        command.output()
    };
    if !prepared(Path::new("true"), &[]).is_ok_and(|output| output.status.success()) {
        return None;
    }
    let test = format!("tests::{test}");
    let program = std::env::current_exe().expect("this program");
    let output = prepared(&program, &["--exact", &test]).expect("it was started before");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    None
}

pub fn transfer(source: &mut Source, sink: Sink) -> Outcome {
    transfer_with(source, sink, |_| ()).expect("the transfer goes through")
}

/// Copies as the command line would.
pub fn copy(paths: &[&Path], destination: &Path) -> Outcome {
    let mut source = open(paths);
    let sink = sink(destination, source.shape());
    transfer(&mut source, sink)
}

/// Copies with `-p`.
pub fn copy_preserving(paths: &[&Path], destination: &Path) -> Outcome {
    let mut source =
        Source::open(SourceSpec { preserve: Preserve::as_cp(true), ..spec(paths) }).expect("the sources");
    let sink =
        Sink::open(SinkSpec { preserve: Preserve::as_cp(true), ..sink_spec(destination, source.shape()) });
    transfer(&mut source, sink.expect("the destination"))
}

/// Copies what `preserve` says.
pub fn copy_keeping(paths: &[&Path], destination: &Path, preserve: &Preserve) -> Outcome {
    let mut source =
        Source::open(SourceSpec { preserve: preserve.clone(), ..spec(paths) }).expect("the sources");
    let sink = SinkSpec { preserve: preserve.clone(), ..sink_spec(destination, source.shape()) };
    transfer(&mut source, Sink::open(sink).expect("the destination"))
}

/// Copies with `--fsync`.
pub fn copy_synced(paths: &[&Path], destination: &Path) -> Outcome {
    let mut source = open(paths);
    let sink = Sink::open(SinkSpec { fsync: true, ..sink_spec(destination, source.shape()) });
    transfer(&mut source, sink.expect("the destination"))
}

/// A chunk of any records, with a digest that is right where one can be made.
pub fn chunk_of(records: &[Record<'_>], data: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for record in records {
        // Not `Record::encode`, which asserts that the record is good.
        encoded.extend(postcard::to_allocvec(record).expect("a record can be encoded"));
    }
    seal(data, &encoded)
}

/// Verifies and applies one chunk; the events.
pub fn feed(sink: &mut Sink, chunk: &[u8]) -> Result<Vec<SinkEvent>> {
    let mut scratch = Vec::new();
    let verified = verify(chunk, &mut scratch).expect("the chunk verifies");
    let mut events = Vec::new();
    sink.apply(chunk, verified, &scratch, &mut |event| events.push(event))?;
    Ok(events)
}

/// Entries with the answers to them.
#[derive(Clone, Default)]
pub struct Answers(pub Arc<Mutex<VecDeque<(Listed, Choice)>>>);

impl Decided for Answers {
    fn next(&mut self, _: Option<Instant>) -> Next {
        let next = self.0.lock().expect("not poisoned").pop_front();
        next.map_or(Next::End, |decided| Next::Decided(Box::new(decided)))
    }

    fn is_exhausted(&self) -> bool {
        self.0.lock().expect("not poisoned").is_empty()
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// A reader that hands out `data` in odd pieces and then ends, or fails.
pub struct Pieces {
    pub data: io::Cursor<Vec<u8>>,
    pub fails: bool,
}

impl Read for Pieces {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len().min(7919);
        match self.data.read(&mut buf[..len])? {
            0 if self.fails && !buf.is_empty() => Err(io::Error::other("the line went dead")),
            read => Ok(read),
        }
    }
}

/// A writer that can be looked into.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lists whose questions are answered at once out of what is offered; with the bytes of the answers.
pub fn answering(budget: &MemoryBudget, offers: Option<Offers>, key: NameKey) -> (Lists, Arc<Answering>) {
    let answering = Arc::new(Answering::default());
    // Not by the lists themselves: nothing of them would ever be let go.
    let own = Arc::downgrade(&answering);
    let lists = Lists::within(
        budget,
        Box::new(move |ask| {
            let own = own.upgrade().expect("it is kept while there are questions");
            let (offers, lists) =
                offers.as_ref().zip(own.lists.get()).expect("only what is offered is asked for");
            offers.ask(*ask).expect("our own question");
            let job = offers.next_ask().expect("the session is not over");
            let FinePieces { form, pieces } = job.list(&key);
            own.bytes.fetch_add(pieces.len() as u64, Ordering::Relaxed);
            let answer = FineAnswer { row: job.ask.row, from: job.ask.from, form, pieces: &pieces };
            lists.answer(answer).expect("our own answer");
            true
        }),
    );
    answering.lists.set(lists.clone()).expect("it is set once");
    (lists, answering)
}

/// What answers the questions of lists, as long as it is kept.
#[derive(Debug, Default)]
pub struct Answering {
    lists: OnceLock<Lists>,
    /// Of the answers.
    pub bytes: AtomicU64,
}

/// Whether files of the destination's file system can share blocks.
pub fn shares_blocks(world: &World) -> bool {
    let [one, other] = ["../one", "../other"].map(|name| world.to(name));
    fs::write(&one, content(8192, 1)).expect("our own place");
    let files = (fs::File::open(&one), fs::File::create(&other));
    rustix::fs::ioctl_ficlone(files.1.expect("our own place"), files.0.expect("own file")).is_ok()
}
