//! Resolving a destination's path, by the rules of scp and cp.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::at;
use super::beneath::{Base, HOLD_DIRECTORY, kind, reason, sentence};
use super::charset::in_transfer;
use super::held::is_trusted;
use super::journal::is_interrupted;
use super::source::SourceShape;
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::error::{Error, ErrorKind, Result, SyncEnd};
use fobs_model::event::DirectoriesMade;
use fobs_model::name::ours::is_journal;
use fobs_model::name::{Component, ComponentBuf};

/// What the transfer's paths are relative to.
pub(super) enum Place {
    /// Into this directory, under their own names.
    Into(OwnedFd),
    /// Likewise, where it was made for this.
    Made(OwnedFd),
    /// The one source becomes `name` in `directory`.
    As {
        /// The directory, open.
        directory: OwnedFd,
        /// One component.
        name: ComponentBuf,
    },
    /// A device or fifo that takes one file's bytes, such as `/dev/null`.
    Device(File),
}

/// What becomes of directories above a destination that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Above {
    /// They are an error.
    #[default]
    Required,
    /// They are made (`--mkpath`).
    Made,
}

/// What becomes of a device, fifo or socket that is the destination of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpecialThere {
    /// A device or fifo takes the bytes, as with cp.
    #[default]
    TakesBytes,
    /// It is an entry as any other of a sync: what comes gets its name, or is written to a device
    /// (`--write-devices`).
    Replaced,
}

/// A destination, and what is to become of it.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) base: &'a Base,
    pub(super) destination: &'a [u8],
    pub(super) shape: SourceShape,
    /// The names of the sources, as far as they are known.
    pub(super) names: &'a [Vec<u8>],
    pub(super) above: Above,
    pub(super) special: SpecialThere,
}

/// Resolves the destination and checks, as far as possible now, that it can be written; says which
/// directories were made for it.
pub(super) fn resolve(wanted: &Wanted<'_>) -> Result<(Place, DirectoriesMade)> {
    let Wanted { base, destination, .. } = *wanted;
    let above = if wanted.above == Above::Made { make_above(base, destination)? } else { 0 };
    let place = resolved(wanted)?;
    let itself = matches!(place, Place::Made(_));
    Ok((place, DirectoriesMade { count: above + u32::from(itself), itself }))
}

fn resolved(wanted: &Wanted<'_>) -> Result<Place> {
    let Wanted { base, destination, .. } = *wanted;
    let place = match base.open_place(destination, OFlags::PATH) {
        Ok(existing) => existing_place(wanted, wanted.names, existing)?,
        Err(Errno::NOENT) => new_place(wanted)?,
        Err(errno) => return Err(refused(destination, errno)),
    };
    let (Place::Into(directory) | Place::Made(directory) | Place::As { directory, .. }) = &place else {
        return Ok(place);
    };
    match at::may_write(directory) {
        Ok(()) => Ok(place),
        // rsync enters such a directory, and then fails with each file.
        Err(errno) => Err(refused(destination, errno).ends_sync(SyncEnd::Partial)),
    }
}

/// Which directories would be made for a destination that does not exist.
pub(super) fn missing(wanted: &Wanted<'_>) -> DirectoriesMade {
    let Wanted { base, destination, shape, .. } = *wanted;
    let is_missing = |end: &usize| {
        let path = &destination[..*end];
        let is_name = !matches!(path::split(path).1, b"" | b"." | b"..");
        is_name && base.open_place(path, OFlags::PATH).err() == Some(Errno::NOENT)
    };
    let parents = wanted.above == Above::Made;
    let above = if parents { ends_above(destination).filter(is_missing).count() } else { 0 };
    let itself = needs_directory(destination, shape);
    DirectoriesMade { count: above as u32 + u32::from(itself), itself }
}

/// Where the paths of the directories above a destination end in it.
fn ends_above(destination: &[u8]) -> impl Iterator<Item = usize> {
    let end = destination.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let parent = path::split(&destination[..end]).0;
    let ends = (0..parent.len()).filter(|&at| at > 0 && parent[at] == b'/' && parent[at - 1] != b'/');
    ends.chain([parent.len()])
}

/// Makes the directories above a destination that do not exist, with modes by the umask, as mkdir -p; returns
/// how many these were.
pub(super) fn make_above(base: &Base, destination: &[u8]) -> Result<u32> {
    let parent = &destination[..ends_above(destination).last().unwrap_or(0)];
    let mut count = 0;
    for end in ends_above(destination) {
        let (above, name) = path::split(&parent[..end]);
        if matches!(name, b"" | b"." | b"..") {
            continue;
        }
        let above = if above.is_empty() && parent.starts_with(b"/") { b"/" } else { above };
        let directory =
            base.open_place(above, HOLD_DIRECTORY).map_err(|errno| refused(destination, errno))?;
        let name = in_transfer(name).map_err(|errno| refused(destination, errno))?;
        let name = Component::new(&name).map_err(|bad| refused(destination, bad.into()))?;
        match at::make_directory(&directory, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => count += 1,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(refused(destination, errno).ends_sync(SyncEnd::FileIo)),
        }
    }
    Ok(count)
}

/// The place of a destination that nothing is written to; `None` if it does not exist.
pub(super) fn look(wanted: &Wanted<'_>) -> Result<Option<Place>> {
    let Wanted { base, destination, .. } = *wanted;
    match base.open_place(destination, OFlags::PATH) {
        Ok(existing) => existing_place(wanted, &[], existing).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(refused(destination, errno)),
    }
}

/// Of a destination that exists; `names` are those of the sources, as far as they are known.
fn existing_place(wanted: &Wanted<'_>, names: &[Vec<u8>], existing: OwnedFd) -> Result<Place> {
    let Wanted { base, destination, shape, .. } = *wanted;
    let stat = fs::fstat(&existing).map_err(|errno| refused(destination, errno))?;
    let shown = show(destination);
    match kind(&stat) {
        FileType::Directory if shape == SourceShape::Stream => Err(unusable(format!(
            "cannot write to '{shown}': it is a directory; name the file that the input stream shall become"
        ))),
        FileType::Directory if needs_directory(destination, shape) => Ok(Place::Into(existing)),
        FileType::Directory => match split_place(base, destination) {
            // An earlier run of this transfer made it, under that name: this one goes on there.
            Ok(Place::As { directory, name }) if is_interrupted(&directory, name.as_bytes(), names) => {
                Ok(Place::As { directory, name })
            }
            _ => Ok(Place::Into(existing)),
        },
        _ if needs_directory(destination, shape) => {
            Err(unusable(format!("cannot copy into '{shown}': it is not a directory; name one")))
        }
        FileType::RegularFile => split_place(base, destination),
        _ if wanted.special == SpecialThere::Replaced => split_place(base, destination),
        // Not for clients of a daemon, and not where another user would read what is written.
        FileType::CharacterDevice | FileType::Fifo if matches!(base, Base::Ambient) && is_trusted(&stat) => {
            // The one that was looked at: by its name it could be another one by now.
            let device = at::reopen(&existing, OFlags::WRONLY | OFlags::NOCTTY);
            device.map(|device| Place::Device(device.into())).map_err(|errno| refused(destination, errno))
        }
        _ => Err(unusable(format!("cannot replace '{shown}': it is not a regular file; name another path"))),
    }
}

fn new_place(wanted: &Wanted<'_>) -> Result<Place> {
    let Wanted { base, destination, shape, .. } = *wanted;
    // As scp; rsync makes the directory.
    let several = matches!(shape, SourceShape::Paths { count: 2.., contents: false })
        && wanted.special == SpecialThere::TakesBytes
        && !is_directory_path(destination);
    if several {
        return Err(unusable(format!(
            "cannot copy several sources to '{}': it does not exist; create that directory or end the path with '/'",
            show(destination)
        )));
    }
    if !needs_directory(destination, shape) {
        return split_place(base, destination);
    }
    // rsync's code for a directory that cannot be made; one that cannot be entered has another.
    let unmade = |error: Error| match error.kind {
        ErrorKind::Destination => error.ends_sync(SyncEnd::FileIo),
        _ => error,
    };
    let Place::As { directory, name } = split_place(base, destination).map_err(unmade)? else {
        return Err(unmade(refused(destination, Errno::NOENT)));
    };
    // Mode by the umask, as mkdir does: no record has the mode of this directory.
    let made = match at::make_directory(&directory, name.as_component(), Mode::from_raw_mode(0o777)) {
        Ok(()) => base.open_place(destination, HOLD_DIRECTORY).map(Place::Made),
        Err(Errno::EXIST) => base.open_place(destination, HOLD_DIRECTORY).map(Place::Into),
        Err(errno) => Err(errno),
    };
    made.map_err(|errno| unmade(refused(destination, errno)))
}

/// The parent directory, which must exist, and the last component.
fn split_place(base: &Base, destination: &[u8]) -> Result<Place> {
    let end = destination.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let (parent, name) = path::split(&destination[..end]);
    if matches!(name, b"" | b"." | b"..") {
        // Such a path is a directory or does not exist at all.
        return Err(refused(destination, Errno::NOENT));
    }
    let name = &*in_transfer(name).map_err(|errno| refused(destination, errno))?;
    let component = Component::new(name).map_err(|bad| refused(destination, bad.into()))?;
    if is_journal(name) {
        let shown = show(destination);
        return Err(unusable(format!(
            "cannot write '{shown}': fobs gives such names to files of its own; choose another name"
        )));
    }
    let parent = if parent.is_empty() && destination.starts_with(b"/") { b"/" } else { parent };
    match base.open_place(parent, HOLD_DIRECTORY) {
        Ok(directory) => Ok(Place::As { directory, name: component.to_buf() }),
        Err(Errno::NOENT) => Err(unusable(format!(
            "cannot write '{}': the directory '{}' does not exist; create it first",
            show(destination),
            show(parent)
        ))),
        Err(errno) => Err(refused(destination, errno)),
    }
}

fn needs_directory(destination: &[u8], shape: SourceShape) -> bool {
    shape.needs_directory() || is_directory_path(destination)
}

fn is_directory_path(destination: &[u8]) -> bool {
    destination.ends_with(b"/")
}

fn unusable(message: String) -> Error {
    Error::new(ErrorKind::Destination, message)
}

fn refused(destination: &[u8], errno: Errno) -> Error {
    match errno {
        Errno::XDEV => Error::new(
            ErrorKind::Denied,
            format!("cannot write '{}': it leads outside the directory that is served", show(destination)),
        ),
        Errno::NOTDIR => unusable(format!(
            "cannot write '{}': {}; a part of the path is not a directory",
            show(destination),
            reason(errno)
        )),
        _ => unusable(sentence("write to", destination, errno)),
    }
}
