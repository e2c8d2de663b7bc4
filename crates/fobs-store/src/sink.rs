//! The receiving side's storage: stores verified chunks in order (protocol 7.6).

use crate::delta::SourcesHere;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, PoisonError};

use blake3::hazmat::ChainingValue;

use super::FileDone;
use super::attributes::{Applier, Attributes, Keeping, Modes, Preserve};
use super::basis::{Basis, Links};
use super::beneath::{meta, sentence};
use super::chunk::{Item, Items};
use super::clearance::{Clearance, Gate};
use super::delta::Offers;
use super::destination::{Place, resolve};
use super::identity::{Fingerprint, Identity, fingerprint};
use super::journal::{Adoptions, Journal, Suspended};
use super::record::{Meta, Record};
use super::requested::Requested;
use super::transfer_root::TransferRoot;
use super::tree::{Attempt, Placing, Tree, Trouble, protocol};
use super::tree_hash::{FileTree, Tail};
use super::verify::Verified;
use super::view::View;
pub(crate) use access::Durability;
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{DirectoriesMade, FileError, OtherEntries};
use fobs_model::name::Component;
use fobs_model::options::Terms;

mod access;
mod apart;
mod checkpoint;
mod closing;
mod ending;
mod extent;
mod kept;
mod linked;
mod moving;
mod opening;
mod outcome;
mod sharing;
mod spec;

use apart::Before;
pub use apart::{Apart, Begun, WrittenApart};
pub use closing::Closing;
use kept::Linkable;
use moving::Moving;
use outcome::{
    Naming, current_umask, mixed_up, names_not_synced, not_agreed, nothing_wanted, one_file_only, settle,
    stream_failed, synced, unseen,
};
use sharing::Origins;
pub use spec::{Later, SinkEvent, SinkSpec, SinkSummary, top_names};
use spec::{Unstored, open_journal};

/// Stores verified chunks.
pub struct Sink {
    target: Target,
    gate: Gate,
    /// What the sender may send beside content.
    agreed: Preserve,
    /// On which terms it is stored.
    terms: Terms,
    /// What the next record's entry has.
    attributes: Option<Attributes>,
    linkable: Linkable,
    file: Option<CurrentFile>,
    /// Of the file that begins next: modification time and inode; its size comes later.
    identity: Option<Identity>,
    adoptions: Adoptions,
    /// What is deleted at the end.
    later: Later,
    /// The directories of `--link-dest`, and what of them gets a name at the destination.
    bases: Vec<Basis>,
    links: Links,
    budget: MemoryBudget,
    here: SourcesHere,
    /// Whether a path may come twice: the contents of several directories.
    may_repeat: bool,
    unstored: Unstored,
    over: bool,
    root: TransferRoot,
    files: u64,
    bytes: u64,
    others: OtherEntries,
    naming: Naming,
    /// For the user.
    notices: Vec<String>,
    made: DirectoriesMade,
    /// What the survey offers of what is there, where it does.
    offers: Option<Offers>,
}

enum Target {
    Tree(Box<Tree>),
    /// Of a dry run: nothing comes. What stands at the destination, if it exists.
    Nothing(Option<View>),
    Stream(Stream),
}

/// Standard output, or a device: takes one file.
struct Stream {
    writer: Box<dyn Write + Send>,
    takes: Takes,
}

/// Files that a stream takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// One.
    One,
    /// No further one.
    Nothing,
    /// Those of a pipe, one after the other.
    Pieces,
}

struct CurrentFile {
    path: Vec<u8>,
    meta: Meta,
    attributes: Option<Attributes>,
    /// `None`: the sender does not say what identifies it, so it is not recorded.
    fingerprint: Option<Fingerprint>,
    tree: FileTree,
    storing: Storing,
    /// What it is supposed to be, while nothing is written of it.
    moving: Option<Moving>,
    /// As the sender declared it, bytes.
    size: u64,
    /// Before each of the chunks that are being written.
    begun: VecDeque<Before>,
}

enum Storing {
    File(Placing),
    Stream,
    /// It failed: its data is verified and dropped.
    Discarded,
}

impl Sink {
    /// Resolves the destination and checks, as far as possible now, that it can be written; locks it, and
    /// loads what earlier runs of the same transfer left.
    ///
    /// # Errors
    /// `Destination` also where another transfer into it is running, which the message names. Waits up to
    /// 10 s for a session of the same `transfer_id` to end, and 13 s for one of the same client and transfer
    /// whose client is absent.
    pub fn open(spec: SinkSpec) -> Result<Sink> {
        let given = spec.given();
        let modes = if given.modes { Modes::Exact } else { Modes::Ordinary { umask: current_umask() } };
        let overwrite = spec.terms.overwrite;
        let keeping = Keeping { modes, times: given.times, overwrite, executability: false };
        let applier = Applier::new(given, keeping, spec.privileges, spec.given_xattr_rules());
        for name in &spec.names {
            if Component::new(name).is_err() {
                return Err(protocol("a source has a name that none can have"));
            }
        }
        let may_repeat = spec.may_repeat();
        let (place, made) = resolve(&spec.wanted()).map_err(|error| unseen(&spec, error))?;
        let (directory, name) = match place {
            Place::Into(directory) | Place::Made(directory) => (Arc::new(directory), None),
            Place::As { directory, name } => (Arc::new(directory), Some(name.into_bytes())),
            Place::Device(device) => {
                let stream = Stream { writer: Box::new(device), takes: Takes::One };
                return Ok(Sink::new(Target::Stream(stream), spec.preserve, &spec.budget));
            }
        };
        let (bases, aside) = (spec.open_bases(name.as_deref())?, spec.backups(name.as_deref())?);
        let (elsewhere, partials) = (spec.elsewhere(name.as_deref())?, spec.partials(name.as_deref())?);
        let before = rustix::fs::fstat(&directory).ok().map(|stat| meta(&stat));
        let mut notices = Vec::new();
        let (journal, alone) = open_journal(&spec, &directory, name.as_deref(), &mut notices)?;
        let naming = Naming::new(&spec.destination, name.is_some());
        let mut tree = Tree::new(directory, name, applier, spec.fsync, (journal, alone)).under(spec.terms);
        tree.begin_from(before, made.itself);
        tree.keeps_backups_in(aside);
        tree.writes_in(elsewhere);
        tree.keeps_partials_in(partials);
        if spec.preserve.hard_links {
            tree.keep_first_names(&spec.budget);
        }
        let mut sink = Sink::new(Target::Tree(Box::new(tree)), spec.preserve, &spec.budget).with(bases);
        (sink.naming, sink.notices, sink.made) = (naming, notices, made);
        sink.may_repeat = may_repeat;
        sink.terms = spec.terms;
        Ok(sink)
    }

    fn new(target: Target, agreed: Preserve, budget: &MemoryBudget) -> Sink {
        Sink {
            target,
            gate: Gate::Request(Box::new(Requested::anything())),
            agreed,
            terms: Terms::default(),
            attributes: None,
            linkable: Linkable::new(budget),
            file: None,
            identity: None,
            adoptions: Adoptions::within(budget),
            later: Later::default(),
            bases: Vec::new(),
            links: Links::within(budget),
            budget: budget.clone(),
            here: SourcesHere::default(),
            may_repeat: false,
            unstored: Unstored::default(),
            over: false,
            root: TransferRoot::default(),
            files: 0,
            bytes: 0,
            others: OtherEntries::default(),
            naming: Naming::default(),
            notices: Vec::new(),
            made: DirectoriesMade::default(),
            offers: None,
        }
    }

    /// Ends the transfer early and says what of it is kept, if anything.
    pub fn suspend(mut self) -> Option<Suspended> {
        self.end_early()
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
        self.noting(events, |sink, events| sink.apply_next(chunk, verified, scratch, events))
    }

    fn apply_next(
        &mut self,
        chunk: &[u8],
        verified: Verified,
        scratch: &[u8],
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<()> {
        if self.has_begun() {
            return Err(mixed_up());
        }
        let Some((data, records)) = verified.body(chunk, scratch) else {
            return Err(mixed_up());
        };
        let mut values = verified.values.iter().copied();
        let offers = self.offers.clone();
        let mut origins = offers.as_ref().map(|offers| Origins::of(offers, &verified.copied));
        for item in Items::new(data, records) {
            match item.map_err(protocol)? {
                Item::Extent { offset, data, tail } => {
                    self.extent((offset, data, tail), origins.as_ref(), &mut values, events)?;
                    origins.iter_mut().for_each(|origins| origins.pass(data.len()));
                }
                Item::Hole { offset, len, tail } => self.hole(offset, len, tail, &mut values, events)?,
                Item::Other(record) => self.record(record, events)?,
            }
        }
        if self.attributes.is_some() {
            return Err(protocol("attributes come without an entry"));
        }
        if values.next().is_some() {
            return Err(mixed_up());
        }
        self.checkpoint(events);
        Ok(())
    }

    /// Completes the transfer after the final chunk.
    pub fn finish(mut self, events: &mut dyn FnMut(SinkEvent)) -> Result<(SinkSummary, Closing)> {
        if self.file.is_some() {
            return Err(protocol("the transfer ends in the middle of a file"));
        }
        self.gate.close()?;
        let naming = self.naming.clone();
        let unstored = Cell::new(self.unstored);
        let events: &mut dyn FnMut(SinkEvent) = &mut |event| {
            unstored.set(unstored.get().max(event.unstored()));
            events(naming.named(event));
        };
        self.link_rest(events)?;
        if let Target::Tree(tree) = &mut self.target {
            tree.put_in_place(&mut |path, message| {
                events(SinkEvent::FileFailed(FileError { path: path.to_vec(), message }));
            });
        }
        let later = self.later.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut extraneous) = later {
            if unstored.get() == Unstored::Some {
                extraneous.was_not_stored();
            } else if let Target::Tree(tree) = &mut self.target
                && tree.syncs()
            {
                // The device keeps what is new before anything goes.
                synced(events, || tree.sync_names())
                    .map_err(|errno| Error::new(ErrorKind::FileIo, names_not_synced(errno)))?;
            }
            extraneous.carry_out(&mut |deleted| events(SinkEvent::Deleted(deleted)));
        }
        let mut closing = Closing::default();
        if let Target::Tree(tree) = &mut self.target {
            if !tree.is_complete() {
                return Err(protocol("the transfer ends in the middle of a directory"));
            }
            if tree.settles() {
                synced(events, || tree.settle(self.terms.sight))
                    .map_err(|errno| Error::new(ErrorKind::FileIo, names_not_synced(errno)))?;
            }
            if unstored.get() != Unstored::Nothing
                && let Some(journal) = tree.journal()
            {
                journal.was_not_stored();
            }
            closing = Closing::new(tree.take_journal(), tree.end_of_top());
        }
        self.over = true;
        let (root, others) = (std::mem::take(&mut self.root).finish(), self.others);
        let written = match &self.target {
            Target::Tree(tree) => tree.large_files().rows(),
            Target::Nothing(_) | Target::Stream(_) => Vec::new(),
        };
        Ok((SinkSummary { root, files: self.files, bytes: self.bytes, others, written }, closing))
    }

    fn record(&mut self, record: Record<'_>, events: &mut dyn FnMut(SinkEvent)) -> Result<()> {
        let cleared = self.gate.clear(&record)?;
        match (record, self.file.take()) {
            (Record::End, Some(file)) => return self.end(file, events),
            (Record::End, None) => return Err(protocol("an end comes without a file")),
            (Record::Failed { path, reason }, file) => {
                if let Some(file) = file {
                    if file.path != path {
                        return Err(protocol("another path is given up in the middle of a file"));
                    }
                    self.target.discard(file.storing);
                }
                self.forget(path);
                self.has_ended(path);
                events(SinkEvent::SourceFailed(FileError {
                    path: path.to_vec(),
                    message: reason.to_owned(),
                }));
                return Ok(());
            }
            (_, Some(_)) => return Err(protocol("something begins in the middle of a file")),
            (_, None) => {}
        }
        let attributes = self.attributes_of(&record)?;
        match (record, cleared) {
            (Record::Attributes { attributes }, _) => self.expect_attributes(attributes),
            (Record::Identity { mtime_s, mtime_ns, inode }, _) => {
                self.identity = Some(Identity { size: 0, mtime_s, mtime_ns, inode });
                Ok(())
            }
            (record, Some(cleared)) => self.entry(record, cleared, attributes, events),
            // Handled above, and in `apply`.
            (_, None) => Ok(()),
        }
    }

    /// Something with a path comes.
    fn entry(
        &mut self,
        record: Record<'_>,
        cleared: Clearance<'_>,
        attributes: Option<Attributes>,
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<()> {
        match record {
            Record::Directory { path } => {
                self.root.directory(path);
                let made = self.target.tree().and_then(|tree| tree.directory(cleared));
                settle(made, path, events).map(|_| ())
            }
            Record::DirectoryEnd { path, meta } => {
                self.link_in(path, events)?;
                let tree = self.target.tree();
                let set = tree.and_then(|tree| tree.directory_end(cleared, meta, attributes.as_ref()));
                self.others.directories += settle(set, path, events)?.iter().len() as u64;
                Ok(())
            }
            Record::File { path, meta, size } => {
                let shares = self.offers.as_ref().is_some_and(|offers| offers.may_share(path));
                let begun = self.target.begin(cleared, if shares { 0 } else { size });
                self.begin(path, meta, size, FileTree::default(), begun, events)?;
                let moving = self.moving(path, size);
                if let Some(file) = &mut self.file {
                    file.moving = moving;
                }
                self.dress_file(attributes)
            }
            Record::Resume { path, meta, size, from } => {
                let (tree, begun) = self.resume(cleared, size, from)?;
                if begun.is_ok() {
                    events(SinkEvent::Resumed(from));
                }
                self.begin(path, meta, size, tree, begun, events)?;
                self.dress_file(attributes)
            }
            single => self.one_record(single, cleared, attributes.as_ref(), events),
        }
    }

    /// A file begins; what follows is verified even if it cannot be stored.
    fn begin(
        &mut self,
        path: &[u8],
        meta: Meta,
        size: u64,
        tree: FileTree,
        begun: Attempt<Storing>,
        events: &mut dyn FnMut(SinkEvent),
    ) -> Result<()> {
        let storing = settle(begun, path, events)?.unwrap_or(Storing::Discarded);
        let identity = self.identity.take().map(|identity| Identity { size, ..identity });
        let fingerprint = identity.map(|identity| fingerprint(path, &identity));
        self.file = Some(CurrentFile {
            path: path.to_vec(),
            meta,
            attributes: None,
            fingerprint,
            tree,
            storing,
            moving: None,
            size,
            begun: VecDeque::new(),
        });
        Ok(())
    }
}

impl Target {
    /// The tree; an error for records that a stream cannot store.
    fn tree(&mut self) -> Attempt<&mut Tree> {
        match self {
            Target::Tree(tree) => Ok(tree),
            Target::Nothing(_) => Err(nothing_wanted().into()),
            Target::Stream(_) => Err(one_file_only().into()),
        }
    }

    /// Gives up a file that failed.
    fn discard(&mut self, storing: Storing) {
        if let (Target::Tree(tree), Storing::File(placing)) = (self, storing) {
            tree.discard(placing);
        }
    }

    fn begin(&mut self, cleared: Clearance<'_>, size: u64) -> Attempt<Storing> {
        match self {
            Target::Tree(tree) => tree.create(cleared, size).map(Storing::File),
            Target::Nothing(_) => Err(nothing_wanted().into()),
            Target::Stream(stream) => match stream.takes {
                Takes::Nothing => Err(one_file_only().into()),
                Takes::One => {
                    stream.takes = Takes::Nothing;
                    Ok(Storing::Stream)
                }
                Takes::Pieces => Ok(Storing::Stream),
            },
        }
    }
}
