//! What a sink is told, and what it tells.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use crate::FileDone;
use crate::at;
use crate::attributes::Preserve;
use crate::backups::Aside;
use crate::basis::{Basis, open_all, place_of};
use crate::beneath::{Base, HOLD_DIRECTORY, sentence};
use crate::destination::{Above, SpecialThere, Wanted};
use crate::extraneous::{Deleted, Extraneous};
use crate::journal::{ClientId, Journal, JournalSpec, Partial, Top, TransferId, transfer_key};
use crate::source::SourceShape;
use crate::temporary::Names;
use crate::walk::name_in_transfer;
use fobs_filter::{XattrRules, path};
use fobs_model::budget::MemoryBudget;
use fobs_model::error::{Error, ErrorKind, Result, SyncEnd};
use fobs_model::event::{FileError, OtherEntries};
use fobs_model::options::{Privileges, Stamps, Terms};
use fobs_model::storage::StorageUse;
use rustix::fs::Mode;
use rustix::io::Errno;

/// Where to store.
#[derive(Debug)]
pub struct SinkSpec {
    /// Where `destination` is looked up.
    pub base: Base,
    /// The destination, raw bytes; empty means the base itself.
    pub destination: Vec<u8>,
    /// The sources.
    pub shape: SourceShape,
    /// Directories above it that do not exist.
    pub above: Above,
    /// What to keep beside content.
    pub preserve: Preserve,
    /// Which names of extended attributes count.
    pub xattr_rules: XattrRules,
    /// What of that files may get here.
    pub privileges: Privileges,
    /// On which terms what comes is stored.
    pub terms: Terms,
    /// Fsync each file before renaming it, then its directory.
    pub fsync: bool,
    /// What stays if the transfer is interrupted.
    pub keep: Partial,
    /// Directories of `--link-dest`.
    pub link_dest: Vec<Vec<u8>>,
    /// The directory of `--backup-dir`.
    pub backup_dir: Option<Vec<u8>>,
    /// The directory of `--temp-dir`.
    pub temp_dir: Option<Vec<u8>>,
    /// The directory of `--partial-dir`.
    pub partial_dir: Option<Vec<u8>>,
    /// What becomes of a device or fifo that is the destination.
    pub special: SpecialThere,
    /// The random id of the client's command; one that reconnects has the same. Zeros: none.
    pub transfer_id: TransferId,
    /// Who the client is ([`client_id`](crate::client_id)); `None` at the client itself.
    pub client: Option<ClientId>,
    /// The names of the sources in the transfer ([`top_names`]); none where contents are copied, or where the
    /// sender did not say.
    pub names: Vec<Vec<u8>>,
    /// The peer as others shall read it who find the destination in use: `user@host`.
    pub holder: String,
    /// What the session may keep.
    pub budget: MemoryBudget,
}

impl SinkSpec {
    /// Whether the sources may have a path twice.
    pub(super) fn may_repeat(&self) -> bool {
        matches!(self.shape, SourceShape::Paths { count: 2.., contents: true })
    }

    /// The destination, for what resolves it.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        let SinkSpec { base, destination, shape, names, above, special, .. } = self;
        let (shape, above, special) = (*shape, *above, *special);
        Wanted { base, destination, shape, names, above, special }
    }

    /// What of `preserve` is given to what is stored.
    pub(super) fn given(&self) -> Preserve {
        match self.terms.stamps {
            Stamps::Senders => self.preserve.clone(),
            Stamps::Ours => Preserve {
                modes: false,
                times: false,
                owner: false,
                group: false,
                acls: false,
                ..self.preserve.clone()
            },
        }
    }

    /// Which names of extended attributes count on these terms.
    pub(super) fn given_xattr_rules(&self) -> XattrRules {
        match self.terms.stamps {
            Stamps::Senders => self.xattr_rules.clone(),
            Stamps::Ours => self.xattr_rules.clone().sparing_acls(),
        }
    }

    /// Opens the directories of `--link-dest`; a single source has this name.
    pub(super) fn open_bases(&self, name: Option<&[u8]>) -> Result<Vec<Basis>> {
        open_all(&self.base, self.into(name), name, &self.link_dest)
    }

    /// The directory of `--backup-dir`. It is made at once where a client stores, which can write to nothing
    /// later that it has not opened before.
    pub(super) fn backups(&self, name: Option<&[u8]>) -> Result<Option<Arc<Aside>>> {
        let Some(directory) = &self.backup_dir else { return Ok(None) };
        let path = place_of(&self.base, self.into(name), directory, "--backup-dir")?;
        let base = self.base.try_clone().map_err(|error| {
            Error::new(ErrorKind::FileIo, format!("cannot open the root once more: {error}; raise ulimit -n"))
        })?;
        if let Err(Errno::LOOP | Errno::XDEV) = base.open_place(&path, HOLD_DIRECTORY).map(drop) {
            let why = sentence("use for --backup-dir", &path, Errno::LOOP);
            return Err(Error::new(ErrorKind::Destination, why).ends_sync(SyncEnd::FileIo));
        }
        let aside = Aside::new(base, path);
        if self.client.is_none() {
            aside.open()?;
        }
        Ok(Some(Arc::new(aside)))
    }

    /// The directory of `--temp-dir`, which must exist, and its path.
    pub(super) fn elsewhere(&self, name: Option<&[u8]>) -> Result<Option<(Arc<OwnedFd>, Vec<u8>)>> {
        let Some(directory) = &self.temp_dir else { return Ok(None) };
        let path = place_of(&self.base, self.into(name), directory, "--temp-dir")?;
        let opened = self.base.open_place(&path, HOLD_DIRECTORY).map_err(|errno| {
            let why = sentence("use for --temp-dir", &path, errno);
            // As in rsync, where each file fails by itself.
            let end = if errno == Errno::LOOP { SyncEnd::Partial } else { SyncEnd::Usage };
            Error::new(ErrorKind::Destination, why).ends_sync(end)
        })?;
        Ok(Some((Arc::new(opened), path)))
    }

    /// The one directory of `--partial-dir`, if that is an absolute path, which is made if it is missing, and
    /// the path.
    pub(super) fn partials(&self, name: Option<&[u8]>) -> Result<Option<(Arc<OwnedFd>, Vec<u8>)>> {
        let Some(directory) = self.partial_dir.as_ref().filter(|it| it.starts_with(b"/")) else {
            return Ok(None);
        };
        let path = place_of(&self.base, self.into(name), directory, "--partial-dir")?;
        let opened = make_directory(&self.base, &path).map_err(|errno| {
            let why = sentence("use for --partial-dir", &path, errno);
            Error::new(ErrorKind::Destination, why).ends_sync(SyncEnd::Partial)
        })?;
        Ok(Some((Arc::new(opened), path)))
    }

    /// The directory in which the destination's entries lie.
    fn into(&self, name: Option<&[u8]>) -> &[u8] {
        let end = self.destination.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let into = match name {
            None => &self.destination[..],
            Some(_) => path::split(&self.destination[..end]).0,
        };
        if into.is_empty() && self.destination.starts_with(b"/") { b"/" } else { into }
    }
}

/// Opens a directory for this user alone, which is made if it does not exist.
fn make_directory(base: &Base, path: &[u8]) -> std::result::Result<OwnedFd, Errno> {
    match base.open_place(path, HOLD_DIRECTORY) {
        Err(Errno::NOENT) => {
            let (above, name) = path::split_name(path)?;
            let above = if above.is_empty() { b"/" } else { above };
            let above = base.open_place(above, HOLD_DIRECTORY)?;
            match at::make_directory(&above, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => base.open_place(path, HOLD_DIRECTORY),
                Err(errno) => Err(errno),
            }
        }
        opened => opened,
    }
}

/// The names that these sources have in a transfer, without those whose contents are meant.
pub fn top_names(sources: &[Vec<u8>]) -> Vec<Vec<u8>> {
    sources.iter().map(|source| name_in_transfer(source)).filter(|name| !name.is_empty()).collect()
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
    /// A file goes on after this many bytes that an earlier run stored.
    Resumed(u64),
    /// A wait for the device begins.
    SyncBegins,
    /// The wait for the device is over.
    SyncEnds,
    /// Something that the sources do not have was deleted, or should have been.
    Deleted(Deleted),
}

impl SinkEvent {
    /// What it says of what was not stored.
    pub(super) fn unstored(&self) -> Unstored {
        match self {
            SinkEvent::SourceFailed(failure) if failure.has_vanished() => Unstored::Vanished,
            SinkEvent::FileFailed(_) | SinkEvent::SourceFailed(_) => Unstored::Some,
            _ => Unstored::Nothing,
        }
    }
}

/// What a transfer has not stored, so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unstored {
    #[default]
    Nothing,
    /// What was gone at the source before it was read.
    Vanished,
    /// What could not be read or stored.
    Some,
}

/// What another thread has found to delete once everything is stored.
pub type Later = Arc<Mutex<Option<Extraneous>>>;

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
    /// What else was stored.
    pub others: OtherEntries,
    /// How large files were written.
    pub written: Vec<StorageUse>,
}

/// The journal of a transfer into `directory`, where its one source gets this `name`; and the temporary names
/// that it has without one.
pub(super) fn open_journal(
    spec: &SinkSpec,
    directory: &Arc<OwnedFd>,
    name: Option<&[u8]>,
    notices: &mut Vec<String>,
) -> Result<(Option<Journal>, Names)> {
    let contents = matches!(spec.shape, SourceShape::Paths { contents: true, .. });
    let top = match name {
        Some(name) => Top::As(name),
        None if !spec.names.is_empty() => Top::Names(&spec.names),
        None if contents => Top::Contents,
        // A sender that does not name its sources does not go on with them either.
        None => return Ok((None, Names::alone(&**directory, &spec.client.unwrap_or_default()))),
    };
    let purpose = [transfer_key(top, &spec.names), spec.client.unwrap_or_default()].concat();
    let alone = Names::alone(&**directory, &purpose);
    let journal = JournalSpec {
        directory,
        top,
        sources: &spec.names,
        keep: if spec.shape == SourceShape::Stream { Partial::Discard } else { spec.keep },
        transfer_id: spec.transfer_id,
        client: spec.client,
        terms: spec.terms,
        holder: &spec.holder,
        destination: &spec.destination,
        may_repeat: spec.may_repeat(),
        budget: &spec.budget,
    };
    Ok((Journal::open(&journal, notices)?, alone))
}
