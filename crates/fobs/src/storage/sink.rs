//! The receiving side's storage: stores verified chunks in order (protocol 7.6).

use std::fs;
use std::io::Write;

use blake3::hazmat::ChainingValue;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::umask;

use super::FileDone;
use super::beneath::{Base, sentence};
use super::chunk::{Item, Items};
use super::destination::{Place, resolve};
use super::record::{Meta, Record};
use super::source::SourceShape;
use super::temporary::Keeping;
use super::transfer_root::TransferRoot;
use super::tree::{Attempt, Placing, Tree, Trouble, protocol};
use super::tree_hash::{FileTree, Tail};
use super::verify::Verified;
use crate::error::{Error, ErrorKind, Result};
use crate::event::FileError;

/// Where to store.
#[derive(Debug)]
pub struct SinkSpec {
    /// Where `destination` is looked up.
    pub base: Base,
    /// The destination, raw bytes; empty means the base itself.
    pub destination: Vec<u8>,
    /// The sources.
    pub shape: SourceShape,
    /// Keep exact modes, and modification times.
    pub preserve: bool,
    /// Fsync each file before renaming it, then its directory.
    pub fsync: bool,
}

/// An event while storing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkEvent {
    /// A file is verified and stored under its name.
    FileDone(FileDone),
    /// This side could not store a file; the others go on.
    FileFailed(FileError),
    /// The sender reported a file as failed; the others go on.
    SourceFailed(FileError),
    /// A wait for the device begins.
    SyncBegins,
    /// The wait for the device is over.
    SyncEnds,
}

/// The result of storing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkSummary {
    /// The transfer's root (protocol 7.6), over everything that the sender completed and this side verified,
    /// even if it could not be stored.
    pub root: [u8; 32],
    /// Files stored.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Stores verified chunks.
pub struct Sink {
    target: Target,
    file: Option<CurrentFile>,
    root: TransferRoot,
    files: u64,
    bytes: u64,
}

enum Target {
    Tree(Box<Tree>),
    Stream(Stream),
}

/// Standard output, or a device: takes one file.
struct Stream {
    writer: Box<dyn Write + Send>,
    used: bool,
}

struct CurrentFile {
    path: Vec<u8>,
    meta: Meta,
    tree: FileTree,
    storing: Storing,
}

enum Storing {
    File(Placing),
    Stream,
    /// It failed: its data is verified and dropped.
    Discarded,
}

impl Sink {
    /// Resolves the destination and checks, as far as possible now, that it can be written.
    pub fn open(spec: SinkSpec) -> Result<Sink> {
        let keeping = match spec.preserve {
            true => Keeping::Exact,
            false => Keeping::Ordinary { umask: current_umask() },
        };
        let target = match resolve(&spec.base, &spec.destination, spec.shape)? {
            Place::Into(directory) => Target::Tree(Box::new(Tree::new(directory, None, keeping, spec.fsync))),
            Place::As { directory, name } => {
                Target::Tree(Box::new(Tree::new(directory, Some(name), keeping, spec.fsync)))
            }
            Place::Device(device) => Target::Stream(Stream { writer: Box::new(device), used: false }),
        };
        Ok(Sink::new(target))
    }

    /// Writes exactly one file to `writer`, such as standard output.
    pub fn to_stream(writer: Box<dyn Write + Send>, shape: SourceShape) -> Result<Sink> {
        if shape.needs_directory() {
            return Err(one_file_only());
        }
        Ok(Sink::new(Target::Stream(Stream { writer, used: false })))
    }

    fn new(target: Target) -> Sink {
        Sink { target, file: None, root: TransferRoot::default(), files: 0, bytes: 0 }
    }

    /// For a client that pulls: refuses every name that the requested sources cannot contain, so that a
    /// hostile server cannot add other files.
    pub fn expect_sources(&mut self, sources: &[Vec<u8>]) {
        if let Target::Tree(tree) = &mut self.target {
            tree.expect_sources(sources);
        }
    }

    /// Stores the next chunk in order; `scratch` is the one that the chunk was verified with. Failures of
    /// single files are events; an error ends the transfer.
    pub fn apply(
        &mut self,
        chunk: &[u8],
        verified: Verified,
        scratch: &[u8],
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<()> {
        let Some((data, records)) = verified.body(chunk, scratch) else {
            return Err(mixed_up());
        };
        let mut values = verified.values.iter().copied();
        for item in Items::new(data, records) {
            match item.map_err(protocol)? {
                Item::Extent { offset, data, tail } => {
                    self.extent(offset, data, tail, &mut values, events)?
                }
                Item::Other(record) => self.record(record, events)?,
            }
        }
        match values.next() {
            None => Ok(()),
            Some(_) => Err(mixed_up()),
        }
    }

    /// Completes the transfer after the final chunk.
    pub fn finish(mut self, events: &mut dyn FnMut(SinkEvent)) -> Result<SinkSummary> {
        if self.file.is_some() {
            return Err(protocol("the transfer ends in the middle of a file"));
        }
        if let Target::Tree(tree) = &mut self.target {
            if !tree.is_complete() {
                return Err(protocol("the transfer ends in the middle of a directory"));
            }
            if tree.syncs() {
                synced(events, || tree.sync_names())
                    .map_err(|errno| Error::new(ErrorKind::FileIo, names_not_synced(errno)))?;
            }
        }
        Ok(SinkSummary { root: self.root.finish(), files: self.files, bytes: self.bytes })
    }

    fn record(&mut self, record: Record<'_>, events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        match (record, self.file.take()) {
            (Record::End, Some(file)) => return self.end(file, events),
            (Record::End, None) => return Err(protocol("an end comes without a file")),
            (Record::Failed { path, reason }, file) => {
                if file.is_some_and(|file| file.path != path) {
                    return Err(protocol("another path is given up in the middle of a file"));
                }
                events(SinkEvent::SourceFailed(FileError {
                    path: path.to_vec(),
                    message: reason.to_owned(),
                }));
                return Ok(());
            }
            (_, Some(_)) => return Err(protocol("something begins in the middle of a file")),
            (_, None) => {}
        }
        match record {
            Record::Directory { path } => {
                self.root.directory(path);
                let made = self.target.tree().and_then(|tree| tree.directory(path));
                settle(made, path, events).map(|_| ())
            }
            Record::DirectoryEnd { path, meta } => {
                let set = self.target.tree().and_then(|tree| tree.directory_end(path, meta));
                settle(set, path, events).map(|_| ())
            }
            Record::Symlink { path, target, meta } => {
                self.root.symlink(path, target);
                let made = self.target.tree().and_then(|tree| tree.symlink(path, target, meta));
                settle(made, path, events).map(|_| ())
            }
            Record::File { path, meta, size } => {
                let storing = settle(self.target.begin(path, size), path, events)?;
                let storing = storing.unwrap_or(Storing::Discarded);
                let (path, tree) = (path.to_vec(), FileTree::default());
                self.file = Some(CurrentFile { path, meta, tree, storing });
                Ok(())
            }
            // Handled above, and in `apply`.
            Record::End | Record::Failed { .. } | Record::Extent { .. } => Ok(()),
        }
    }

    fn extent(
        &mut self,
        offset: u64,
        data: &[u8],
        tail: Tail,
        values: &mut impl Iterator<Item = ChainingValue>,
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<()> {
        let Some(file) = &mut self.file else { return Err(protocol("data comes without a file")) };
        if offset != file.tree.len() {
            return Err(protocol("a file's data comes out of order"));
        }
        file.tree.extend(data.len() as u64, tail, values).ok_or_else(mixed_up)?;
        let written = match (&file.storing, &mut self.target) {
            (Storing::File(placing), _) => placing
                .file
                .write(data, offset)
                .map_err(|errno| Trouble::Path(sentence("write", &file.path, errno))),
            (Storing::Stream, Target::Stream(stream)) => {
                stream.writer.write_all(data).map_err(|error| stream_failed(&error).into())
            }
            _ => Ok(()),
        };
        if settle(written, &file.path, events)?.is_none() {
            file.storing = Storing::Discarded;
        }
        Ok(())
    }

    fn end(&mut self, file: CurrentFile, events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        let CurrentFile { path, meta, tree, storing } = file;
        let (bytes, root) = (tree.len(), tree.root());
        self.root.file(&path, &root);
        let stored = match (storing, &mut self.target) {
            (Storing::File(placing), Target::Tree(tree)) if tree.syncs() => {
                synced(events, || tree.sync_file(&placing, &path))
                    .and_then(|()| tree.commit(placing, &path, bytes, meta))
            }
            (Storing::File(placing), Target::Tree(tree)) => tree.commit(placing, &path, bytes, meta),
            (Storing::Stream, Target::Stream(stream)) => {
                stream.writer.flush().map_err(|error| stream_failed(&error).into())
            }
            _ => Err(Trouble::Skipped),
        };
        if settle(stored, &path, events)?.is_some() {
            self.files += 1;
            self.bytes += bytes;
            events(SinkEvent::FileDone(FileDone { path, bytes, root }));
        }
        Ok(())
    }
}

impl Target {
    /// The tree; an error for records that a stream cannot store.
    fn tree(&mut self) -> Attempt<&mut Tree> {
        match self {
            Target::Tree(tree) => Ok(tree),
            Target::Stream(_) => Err(one_file_only().into()),
        }
    }

    fn begin(&mut self, path: &[u8], size: u64) -> Attempt<Storing> {
        match self {
            Target::Tree(tree) => tree.create(path, size).map(Storing::File),
            Target::Stream(stream) if stream.used => Err(one_file_only().into()),
            Target::Stream(stream) => {
                stream.used = true;
                Ok(Storing::Stream)
            }
        }
    }
}

/// Reports a failure of a single path as an event; returns only errors of the whole transfer. `None`: not
/// stored.
fn settle<T>(attempt: Attempt<T>, path: &[u8], events: &mut dyn FnMut(SinkEvent)) -> Result<Option<T>> {
    match attempt {
        Ok(value) => Ok(Some(value)),
        Err(Trouble::Path(message)) => {
            events(SinkEvent::FileFailed(FileError { path: path.to_vec(), message }));
            Ok(None)
        }
        Err(Trouble::Skipped) => Ok(None),
        Err(Trouble::Transfer(error)) => Err(error),
    }
}

/// Runs something that waits for the device, with an event before and after.
fn synced<T>(events: &mut dyn FnMut(SinkEvent), sync: impl FnOnce() -> T) -> T {
    events(SinkEvent::SyncBegins);
    let result = sync();
    events(SinkEvent::SyncEnds);
    result
}

fn names_not_synced(errno: Errno) -> String {
    format!(
        "the device does not confirm the last names: {}; every file is verified, and may have another name or none after a power cut",
        std::io::Error::from(errno)
    )
}

fn one_file_only() -> Error {
    let message = "standard output or a device takes exactly one file; name a directory as the destination";
    Error::new(ErrorKind::Destination, message)
}

fn stream_failed(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::FileIo, format!("cannot write to the output stream: {error}"))
}

fn mixed_up() -> Error {
    Error::new(ErrorKind::Internal, "a chunk was stored with another chunk's verification; report this bug")
}

/// The process's umask, from `/proc`: the system call can only return it by changing it, which other threads
/// could notice.
fn current_umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    if let Some(mask) = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()) {
        return mask;
    }
    let mask = umask(Mode::from_raw_mode(0o077));
    umask(mask);
    mask.as_raw_mode()
}
