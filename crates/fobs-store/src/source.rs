//! The sending side's storage: reads the sources and fills chunks with them (protocol 7).

mod ahead;
mod earlier;
mod failing;
mod matching;
mod pipe;
mod range;
mod reading;
mod removal;
mod sealing;
mod spec;
mod surveyed;

use std::io::Read;
use std::sync::Arc;

use blake3::hazmat::ChainingValue;

pub use self::ahead::stretch_len;
pub use self::earlier::{EarlierFiles, Remembered, SentVersion, SentVersions, VersionPlace};
use self::matching::Matching;
use self::pipe::Tap;
pub use self::pipe::{More, PipeInput};
pub use self::range::{Part, changed};
use self::reading::stream_meta;
pub use self::removal::Removal;
use self::spec::Usable;
pub use self::spec::{
    FilledChunk, Known, NoneThere, Patch, SourceShape, SourceSpec, StartOverReason, StartedOver,
};
use super::Item;
use super::attributes::{ATTRIBUTES_LEN_MAX, Collector, HOLES_MAX, Preserve};
use super::chunk::{CHUNK_DATA_MAX, Encoding, Form, Layout, RECORDS_MAX, chunk_room, digest};
use super::compression::Compression;
use super::delta::{Counts, PatchBuilder};
use super::identity::Identity;
use super::input::Input;
use super::looked::Looked;
use super::open_file::OpenFile;
use super::record::{ATTRIBUTES_RECORD_LEN_MAX, Meta, RECORD_LEN_MAX, Record};
use super::select::{Selection, xattr_rules};
use super::stretch::ReadStretch;
use super::survey::{Choice, Decided, Listed};
use super::transfer_root::TransferRoot;
use super::tree_hash::{FileTree, GROUP};
use super::uncached::{LargeFiles, PageCache};
use super::walk::{Entry, MaybeOrigin, Named, PassedOver, Walk, shape_of};
use fobs_filter::{Side, XattrRules};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::FileError;
use fobs_model::options::Privileges;
use fobs_model::options::sync::{Enter, Report, SyncOptions};

/// What a source takes beside four copies of its path, bytes: as asked for, looked at, and in a sentence.
const SOURCE_COST: usize = 400;
/// The name that a stream has in the transfer; the destination gives it another.
const STREAM_NAME: &[u8] = b"-";

/// Room for a record and the `Attributes` record before it beside the attributes themselves, bytes.
const ATTRIBUTES_ROOM: usize = RECORD_LEN_MAX + ATTRIBUTES_RECORD_LEN_MAX - ATTRIBUTES_LEN_MAX;

/// Reads sources into chunks, lazily: the first chunk is filled before the scan ends.
pub struct Source {
    shape: SourceShape,
    feed: Feed,
    /// Sources that failed before the first entry.
    early_failures: std::vec::IntoIter<FileError>,
    file: Option<OpenFile>,
    /// What another thread has read of it for the next chunk.
    ahead: Option<ReadStretch>,
    /// Files opened, those that were begun anew counted again.
    opened: u64,
    cache: PageCache,
    large_files: LargeFiles,
    /// The next entry to send, where the receiver decides.
    next: Option<(Listed, Choice)>,
    /// What was resumed since the last chunk, bytes.
    resumed: u64,
    /// Of a sync: what is reported, and what waits for the next chunk.
    report: Report,
    items: Vec<Item>,
    /// Bytes of their paths.
    items_bytes: usize,
    /// What is removed at the end, if anything is, and where the file is that is read.
    removal: Option<Removal>,
    origin: MaybeOrigin,
    /// Whether the receiver is told what identifies a file.
    identities: Identities,
    /// Where in `records` the current file begins, while it can be read once more: its first record is in
    /// this chunk, and it has not been read a second time.
    begun_at: Option<usize>,
    collector: Arc<Collector>,
    /// What was read of it to be compared.
    looked: Looked,
    /// An entry that did not fit into the chunk before.
    postponed: Option<(Entry, Option<FileTree>)>,
    /// Bytes of holes in the current chunk.
    holes: u64,
    compression: Option<Compression>,
    /// Likewise, of deltas, which are worth it whatever the user wants, and whether this chunk is one.
    of_deltas: Option<Compression>,
    compresses_delta: bool,
    records: Vec<u8>,
    values: Vec<ChainingValue>,
    /// What the chunk's data is made of, for a receiver that has some of it.
    patch: PatchBuilder,
    matching: Option<Matching>,
    earlier: Option<EarlierFiles>,
    /// Which versions are sent, where that is remembered.
    sent: Option<SentVersions>,
    root: TransferRoot,
    /// Files begun.
    files: u64,
    /// Bytes of complete files.
    bytes: u64,
    finished: bool,
    /// File bytes that may still be sent, if there is a limit.
    left: Option<u64>,
    /// What the walk leaves out.
    passed_over: PassedOver,
    budget: MemoryBudget,
    /// The paths of the request.
    _kept: Option<Charge>,
}

/// Whether the object says what identifies the content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identities {
    Told,
    /// The receiver is too old to know the record.
    Untold,
}

/// The beginning of the next entry.
enum Begun {
    Entry,
    /// The receiver has not decided on it yet.
    NotYet,
    /// There is none.
    End,
}

enum Feed {
    Walk(Box<Walk>),
    /// The walk is elsewhere, and the receiver says what to send.
    Surveyed(Box<dyn Decided>),
    /// `None` once its only entry is made.
    Stream(Option<Box<dyn Read + Send>>),
    /// As many as it takes until its end.
    Pipe(Tap),
}

impl Feed {
    /// Whether no further file can come. The length of a stream is unknown until its end.
    fn is_exhausted(&self) -> bool {
        match self {
            Feed::Walk(walk) => walk.is_exhausted(),
            Feed::Surveyed(decided) => decided.is_exhausted(),
            Feed::Stream(_) | Feed::Pipe(_) => false,
        }
    }
}

impl Source {
    /// Lets it fail once it has sent more file bytes than this.
    pub fn limit_to(&mut self, bytes: u64) {
        self.left = Some(bytes);
    }

    /// Checks every source. Those that cannot be used are reported with the first chunk; it fails if none can
    /// be used.
    pub fn open(spec: SourceSpec) -> Result<Source> {
        Source::open_if_any(spec, NoneThere::Refused)
    }

    /// Likewise, where a sync may find none of its sources.
    pub fn open_if_any(mut spec: SourceSpec, if_none: NoneThere) -> Result<Source> {
        let (shape, count) = (shape_of(&spec.paths), spec.paths.len());
        let mut kept = spec.budget.charge(Keeps::Sources);
        kept.grow(spec.paths.iter().map(|path| SOURCE_COST + 4 * path.len()).sum())?;
        let Usable { named: usable, missing, directories, mut failures } = spec.usable_sources(if_none)?;
        // A directory of a sync lands in the destination, whether that exists or not. One that is not entered
        // is all that comes, and gets the destination's name as a file does.
        let lands = |sync: &Arc<SyncOptions>| sync.directories == Enter::All || sync.names.is_some();
        let has_directory = spec.sync.as_ref().is_some_and(lands) && usable.iter().any(Named::is_directory);
        // As rsync: so does an empty one.
        let has_names = spec.sync.as_ref().is_some_and(|sync| sync.names.is_some());
        let is_bare = !has_names && matches!(&usable[..], [only] if only.is_empty_directory(&spec.base));
        let has_directory = has_directory && !(is_bare && count == 1);
        // As rsync: what is left out does not make several of one.
        let shape = match &spec.sync {
            Some(sync) if sync.names.is_none() && !usable.is_empty() => SourceShape::Paths {
                count: u32::try_from(usable.len()).unwrap_or(u32::MAX),
                contents: usable.iter().any(Named::means_contents),
            },
            _ => shape,
        };
        let shape = match shape {
            SourceShape::Paths { count, .. } if has_directory => SourceShape::Paths { count, contents: true },
            shape => shape,
        };
        let top = spec.base.absolute(usable.first().map_or(b"", Named::above));
        let rules = match &spec.sync {
            Some(options) => xattr_rules(options, Side::Sender)?,
            None => XattrRules::default(),
        };
        let collector = Arc::new(Collector::new(spec.preserve, spec.privileges, rules));
        let mut walk = Walk::new(spec.base, usable, collector.clone(), &spec.budget);
        if let Some(options) = &spec.sync {
            // In the listing, so that the receiver deletes nothing.
            walk.begin_with(std::mem::take(&mut failures));
            walk.select(Selection::new(options, (&top, count), &spec.budget)?);
            walk.prunes = options.prune_empty;
            if options.deletes_missing {
                walk.tell_missing(missing);
            }
        }
        let passed_over = walk.passed_over();
        directories.iter().for_each(|path| passed_over.add_directory(path));
        let removes = spec.sync.as_ref().is_some_and(|options| options.removes_sources());
        if removes {
            walk.keep_origins();
        }
        let source = Source::new(shape, Feed::Walk(Box::new(walk)), failures, collector, spec.compress)?;
        Ok(Source {
            report: spec.sync.map_or(Report::Nothing, |options| options.report),
            removal: removes.then(|| Removal::new(&spec.budget)),
            passed_over,
            budget: spec.budget,
            _kept: Some(kept),
            ..source
        })
    }

    /// One file of unknown length from `reader`, such as standard input.
    pub fn from_stream(reader: Box<dyn Read + Send>, compress: bool) -> Result<Source> {
        Source::new(
            SourceShape::Stream,
            Feed::Stream(Some(reader)),
            Vec::new(),
            Arc::new(Collector::new(Preserve::as_cp(true), Privileges::OfTheUser, XattrRules::default())),
            compress,
        )
    }

    fn new(
        shape: SourceShape,
        feed: Feed,
        failures: Vec<FileError>,
        collector: Arc<Collector>,
        compress: bool,
    ) -> Result<Source> {
        let compression = if compress { Some(Compression::new()?) } else { None };
        Ok(Source {
            shape,
            feed,
            early_failures: failures.into_iter(),
            file: None,
            ahead: None,
            opened: 0,
            cache: PageCache::Passed,
            large_files: LargeFiles::default(),
            next: None,
            resumed: 0,
            report: Report::Nothing,
            items: Vec::new(),
            items_bytes: 0,
            removal: None,
            origin: None,
            identities: Identities::Untold,
            begun_at: None,
            collector,
            looked: Looked::default(),
            postponed: None,
            holes: 0,
            compression,
            of_deltas: None,
            compresses_delta: false,
            records: Vec::new(),
            values: Vec::new(),
            patch: PatchBuilder::default(),
            matching: None,
            earlier: None,
            sent: None,
            root: TransferRoot::default(),
            files: 0,
            bytes: 0,
            finished: false,
            left: None,
            passed_over: PassedOver::default(),
            budget: MemoryBudget::default(),
            _kept: None,
        })
    }

    /// What the session may keep.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// What the receiver must know before the first record.
    pub fn shape(&self) -> SourceShape {
        self.shape
    }

    /// Tells the receiver what identifies each file, so that its journal can record it.
    pub fn tell_identities(&mut self) {
        self.identities = Identities::Told;
    }

    /// Fills the next chunk into `buf`, of at least [`chunk_room`] bytes, with up to `data_max` bytes of
    /// file data, from `GROUP` to `CHUNK_DATA_MAX`. Must not be called again after the final one.
    pub fn next_chunk(&mut self, buf: &mut [u8], data_max: usize) -> Result<FilledChunk> {
        let data_max = data_max.clamp(GROUP as usize, CHUNK_DATA_MAX);
        if self.finished || buf.len() < chunk_room(data_max) {
            let message =
                "next_chunk was called after the final chunk or with a small buffer; report this bug";
            return Err(Error::new(ErrorKind::Internal, message));
        }
        self.records.clear();
        self.holes = 0;
        self.begun_at = None;
        self.values.clear();
        self.patch.clear();

        let mut filled = FilledChunk::default();
        let mut data_len = 0;
        // Each iteration writes one record and its attributes, or `Extent` and `End`: less than the longest.
        while self.records.len() + RECORD_LEN_MAX <= RECORDS_MAX {
            match self.file.take() {
                // Data comes in whole groups or up to a file's end, so at least one group must fit.
                // The same is true of holes.
                Some(file) if data_max - data_len < GROUP as usize || HOLES_MAX - self.holes < GROUP => {
                    self.file = Some(file);
                    break;
                }
                Some(mut file) => {
                    if !file.is_covered(None)? {
                        self.file = Some(file);
                        break;
                    }
                    let end = data_len + file.room(data_max - data_len);
                    let ahead = self.ahead.take().filter(|_| data_len == 0);
                    data_len += self.read_on(file, &mut buf[data_len..end], ahead, &mut filled);
                }
                None => match self.begin_next(&mut filled)? {
                    // It goes into the next chunk.
                    Begun::Entry if self.postponed.is_some() => break,
                    Begun::Entry => {}
                    Begun::NotYet => break,
                    Begun::End => {
                        self.finished = true;
                        break;
                    }
                },
            }
        }
        filled.items = std::mem::take(&mut self.items);
        self.items_bytes = 0;
        filled.resumed_bytes += std::mem::take(&mut self.resumed);
        filled.is_final = self.finished;
        filled.notice = self.passed_over.sentence().filter(|_| self.finished);
        filled.data_bytes = data_len as u64 + self.holes;
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(filled.data_bytes).ok_or_else(failing::beyond_the_limit)?;
        }
        (filled.len, filled.patch) = self.seal(buf, data_len);
        let Counts { looked, supposed, tried, literal } = self.patch.counts();
        (filled.looked, filled.supposed, filled.tried, filled.literal) = (looked, supposed, tried, literal);
        Ok(filled)
    }

    /// Advances to the next entry and writes its first record.
    fn begin_next(&mut self, filled: &mut FilledChunk) -> Result<Begun> {
        if let Some(failure) = self.early_failures.next() {
            self.fail(failure, filled);
            return Ok(Begun::Entry);
        }
        if let Some((entry, tree)) = self.postponed.take() {
            self.begin_with(entry, tree, filled);
            return Ok(Begun::Entry);
        }
        let entry = match &mut self.feed {
            Feed::Walk(walk) => walk.next(),
            Feed::Surveyed(_) => return self.begin_decided(filled),
            Feed::Pipe(tap) => {
                let tap = tap.clone();
                return self.begin_piped(&tap);
            }
            Feed::Stream(reader) => {
                let Some(reader) = reader.take() else { return Ok(Begun::End) };
                self.begin_file(STREAM_NAME.to_vec(), stream_meta(), 0, Input::Stream(reader));
                return Ok(Begun::Entry);
            }
        };
        if let Feed::Walk(walk) = &mut self.feed
            && let Some(error) = walk.take_broken()
        {
            return Err(error);
        }
        let Some(entry) = entry else { return Ok(Begun::End) };
        self.begin(entry, filled);
        Ok(Begun::Entry)
    }

    /// Writes an entry's first record.
    fn begin(&mut self, entry: Entry, filled: &mut FilledChunk) {
        self.begin_with(entry, None, filled);
    }

    /// Writes an entry's first record, after its attributes; postpones it if they do not fit. Of a file, the
    /// receiver has the part that `tree` stands for.
    fn begin_with(&mut self, entry: Entry, tree: Option<FileTree>, filled: &mut FilledChunk) {
        if let Entry::Found { path, unopened, origin, .. } = entry {
            self.origin = origin;
            return self.begin(unopened.open(path, &self.collector), filled);
        }
        let begins_at = self.records.len();
        let removable = entry.origin().map(|origin| (entry.path().to_vec(), origin.clone()));
        if let Some(attributes) = entry.attributes() {
            match attributes.encode() {
                Ok(bytes) if begins_at + bytes.len() + ATTRIBUTES_ROOM > RECORDS_MAX => {
                    self.postponed = Some((entry, tree));
                    return;
                }
                Ok(bytes) => Record::Attributes { attributes: &bytes }.encode(&mut self.records),
                Err(why) => return self.fail_attributes(entry, why, filled),
            }
        }
        match entry {
            Entry::Directory { path, .. } => {
                Record::Directory { path: &path }.encode(&mut self.records);
                self.root.directory(&path);
            }
            Entry::DirectoryEnd { path, meta, .. } => {
                let meta = self.told(meta);
                Record::DirectoryEnd { path: &path, meta }.encode(&mut self.records);
            }
            Entry::Symlink { path, target, meta, .. } => {
                let meta = self.told(meta);
                Record::Symlink { path: &path, target: &target, meta }.encode(&mut self.records);
                self.root.symlink(&path, &target);
            }
            Entry::Special { path, kind, device, meta, .. } => {
                let meta = self.told(meta);
                Record::Special { path: &path, kind, device, meta }.encode(&mut self.records);
                self.root.special(&path, kind as u8, device);
            }
            Entry::Hardlink { path, first, .. } => {
                Record::Hardlink { path: &path, target: &first }.encode(&mut self.records);
                self.root.hard_link(&path, &first);
            }
            Entry::File { path, meta, size, input, .. } => {
                match tree {
                    Some(tree) => self.go_on(path, meta, size, input, tree),
                    None => self.begin_file(path, meta, size, input),
                }
                self.begun_at = Some(begins_at);
            }
            Entry::Failed(failure) => self.fail(failure, filled),
            // Opened above.
            Entry::Found { .. } => {}
            // Of the listing alone.
            Entry::Missing { .. } => {}
        }
        if let Some((path, origin)) = removable {
            self.leaves(&path, &origin);
        }
    }

    fn begin_file(&mut self, path: Vec<u8>, meta: Meta, size: u64, input: Input) {
        let meta = self.told(meta);
        self.begin_records(&input);
        Record::File { path: &path, meta, size }.encode(&mut self.records);
        let file = OpenFile::new(path, input, size, self.collector.preserve.sparse);
        self.file = Some(self.opened(file));
    }

    /// Begins the records of a file.
    fn begin_records(&mut self, input: &Input) {
        self.files += 1;
        if self.identities == Identities::Told
            && let Some(Identity { mtime_s, mtime_ns, inode, .. }) = input.identity()
        {
            Record::Identity { mtime_s, mtime_ns, inode }.encode(&mut self.records);
        }
    }

    /// Mode and time for the receiver; without `times` no time, which saves eight bytes per file.
    fn told(&self, meta: Meta) -> Meta {
        if self.collector.preserve.times { meta } else { Meta { mode: meta.mode, ..Meta::default() } }
    }
}

#[cfg(test)]
mod tests;
