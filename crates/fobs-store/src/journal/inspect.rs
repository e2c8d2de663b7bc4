//! What a journal says that no transfer uses, for `fobs clean`.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat};
use rustix::io::Errno;

use super::book::newest;
use super::format::{Current, HEADER_LEN, LOG_AT, SLOTS, Slot, Unreadable, decode_origin, decode_slot};
use super::lock;
use super::names::{Top, journal_name, key};
use super::store::{FileStore, Store};
use super::tenure::tenure;
use super::unfinished::remove_partial;
use crate::at;
use crate::at::open_beneath;
use crate::beneath::Links;
use crate::own::is_marked;
use fobs_model::name::ours::Suffix;
use fobs_model::name::{Component, ComponentBuf};

/// A file with the name of a journal.
pub(crate) enum Found {
    /// A transfer holds its lock. Its temporary files end in this, if that is known.
    InUse(Option<Suffix>),
    /// Not a regular file of this user, or not a journal.
    Foreign,
    /// Nobody uses it.
    Idle(Idle),
}

/// A journal that is locked by us now.
pub(crate) struct Idle {
    /// Holds the lock.
    _file: FileStore,
    directory: Arc<OwnedFd>,
    name: ComponentBuf,
    /// `None`: of another version, or torn when it was made.
    pub(crate) said: Option<Said>,
}

/// What a journal says.
pub(crate) struct Said {
    /// What its temporary files end in.
    pub(crate) suffix: Suffix,
    /// Complete files.
    pub(crate) files: u64,
    /// Their bytes, and those of the partial file.
    pub(crate) bytes: u64,
    current: Option<Current>,
}

/// Looks at the journal `name` in `directory`, and locks it.
pub(crate) fn inspect(directory: &Arc<OwnedFd>, name: Component<'_>) -> Result<Found, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match open_beneath(directory, name.as_bytes(), flags, Mode::empty(), Links::Refuse) {
        Ok(file) => file,
        Err(Errno::LOOP | Errno::NXIO) => return Ok(Found::Foreign),
        Err(errno) => return Err(errno),
    };
    if !lock::is_plain(&file) {
        return Ok(Found::Foreign);
    }
    let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    let file = FileStore(file);
    let mut header = vec![0; LOG_AT as usize];
    let filled = file.read_at(&mut header, 0)?;
    header.truncate(filled);
    let origin = decode_origin(&header);
    if locked.is_err() {
        return Ok(Found::InUse(origin.ok().map(|origin| origin.suffix)));
    }
    let said = match origin {
        Ok(origin) => {
            let slots: [Option<Slot>; SLOTS] =
                std::array::from_fn(|index| decode_slot(&origin.salt, index, &header));
            let Slot { records, bytes, current, .. } = newest(&slots, &tenure(&file.0));
            let bytes = bytes.saturating_add(current.as_ref().map_or(0, |current| current.len));
            Some(Said { suffix: origin.suffix, files: records, bytes, current })
        }
        Err(Unreadable::Foreign) => return Ok(Found::Foreign),
        // Torn when it was made. Only its mark tells it from a user's empty file.
        Err(Unreadable::Blank) if !is_marked(&fstat(&file.0)?) => return Ok(Found::Foreign),
        Err(Unreadable::Blank | Unreadable::Version(_)) => None,
    };
    Ok(Found::Idle(Idle { _file: file, directory: Arc::clone(directory), name: name.to_buf(), said }))
}

impl Idle {
    /// Removes it, and the partial file that it names.
    pub(crate) fn remove(self) -> Result<(), Errno> {
        if let Some(Said { suffix, current: Some(current), .. }) = &self.said {
            remove_partial(&self.directory, current, suffix);
        }
        at::unlink(&self.directory, self.name.as_component())
    }
}

/// Whether the journal of `name` in `directory` is of an interrupted (or running) transfer of the one source
/// in `sources` to that name.
pub(crate) fn is_interrupted(directory: &OwnedFd, name: &[u8], sources: &[Vec<u8>]) -> bool {
    let top = Top::As(name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open_beneath(directory, journal_name(top).as_bytes(), flags, Mode::empty(), Links::Refuse);
    let Ok(file) = file else { return false };
    if !lock::is_plain(&file) {
        return false;
    }
    let mut header = [0; HEADER_LEN];
    let filled = FileStore(file).read_at(&mut header, 0).unwrap_or(0);
    decode_origin(&header[..filled]).is_ok_and(|origin| origin.key == key(top, sources))
}
