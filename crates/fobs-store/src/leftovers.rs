//! Finding and removing what interrupted transfers left (`fobs clean`).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::at;
use super::at::{open_ambient, open_beneath};
use super::beneath::{Links, kind, reason};
use super::journal::{Found, inspect};
use super::own::is_marked;
use super::temporary::{ORPHANED_AFTER, age};
use fobs_filter::path::join;
use fobs_model::name::Component;
use fobs_model::name::ours::{Suffix, is_journal, named_by, suffix_in};

/// Something that a transfer left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: LeftoverKind,
    /// Since it was last written.
    pub age: Duration,
    /// What became of it.
    pub fate: Fate,
}

/// What a leftover is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftoverKind {
    /// A journal. Without it, nothing of its transfer is gone on with.
    Journal {
        /// The name that is copied; `None` where it is several, or the contents of a directory.
        of: Option<Vec<u8>>,
        /// Complete files, which stay.
        files: u64,
        /// Their bytes, and those of the partial file.
        bytes: u64,
    },
    /// A journal that this version cannot read.
    UnreadableJournal,
    /// A file or link under a temporary name.
    Temporary {
        /// Its length.
        bytes: u64,
    },
}

/// What became of a leftover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is removed.
    Removed,
    /// It would have been removed.
    Found,
    /// It stays: a running transfer uses it.
    InUse,
    /// It stays: it changed so lately that its transfer may be running.
    Recent,
    /// It stays: it has such a name and is not ours.
    Foreign,
    /// It stays, for this reason.
    Failed(String),
}

/// Looks through `top` (and, if `recursive`, below it), removes leftovers if `remove`, and reports each.
pub(crate) fn search(
    top: &Path,
    recursive: bool,
    remove: bool,
    each: &mut dyn FnMut(Leftover),
) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = Arc::new(fobs_sys::named::open_at(top.as_os_str().as_bytes(), flags, Mode::empty())?);
    let mut search = Search { top, directory, remove, busy: Vec::new(), idle: Vec::new(), each };
    search.note_above();
    // Journals come before what is below them: a directory's own names are looked at before its directories.
    let mut waiting = vec![Vec::new()];
    while let Some(place) = waiting.pop() {
        let inner = match search.directory(&place) {
            Ok(inner) => inner,
            Err(errno) if place.is_empty() => return Err(errno),
            // It vanished, or is not ours to read: so is what a transfer would have left in it.
            Err(_) => continue,
        };
        if recursive {
            waiting.extend(inner);
        }
    }
    Ok(())
}

struct Search<'a> {
    top: &'a Path,
    directory: Arc<OwnedFd>,
    remove: bool,
    /// Suffixes of transfers that are running.
    busy: Vec<Suffix>,
    /// Those of journals that nobody uses.
    idle: Vec<Suffix>,
    each: &'a mut dyn FnMut(Leftover),
}

impl Search<'_> {
    /// Notes the transfers that run into a directory above.
    fn note_above(&mut self) {
        let Ok(top) = self.top.canonicalize() else { return };
        for above in top.ancestors().skip(1) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let above = above.as_os_str().as_bytes();
            let Ok(directory) = open_ambient(above, flags).map(Arc::new) else { continue };
            for name in names(&directory).unwrap_or_default().iter().filter(|name| is_journal(name)) {
                let Ok(name) = Component::new(name) else { continue };
                match inspect(&directory, name) {
                    Ok(Found::InUse(suffix)) => self.busy.extend(suffix),
                    Ok(Found::Idle(idle)) => self.idle.extend(idle.said.map(|said| said.suffix)),
                    _ => {}
                }
            }
        }
    }

    /// Looks at the names in one directory; the directories in it.
    fn directory(&mut self, place: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let directory = Arc::new(open_beneath(&self.directory, place, flags, Mode::empty(), Links::Refuse)?);
        let names = names(&directory)?;
        for name in names.iter().filter(|name| is_journal(name)) {
            if let Ok(name) = Component::new(name) {
                self.journal(&directory, place, name);
            }
        }
        let mut inner = Vec::new();
        for name in names {
            let Ok(name) = Component::new(&name) else { continue };
            let Ok(stat) = at::stat(&directory, name) else { continue };
            match (kind(&stat), suffix_in(name.as_bytes())) {
                (FileType::Directory, _) => inner.push(join(place, name.as_bytes())),
                (FileType::RegularFile | FileType::Symlink, Some(suffix)) => {
                    self.temporary(&directory, place, name, suffix, &stat);
                }
                _ => {}
            }
        }
        Ok(inner)
    }

    fn journal(&mut self, directory: &Arc<OwnedFd>, place: &[u8], name: Component<'_>) {
        let Ok(stat) = at::stat(directory, name) else { return };
        let (mut kind, mut fate) = (LeftoverKind::UnreadableJournal, Fate::Found);
        match inspect(directory, name) {
            Ok(Found::InUse(suffix)) => {
                self.busy.extend(suffix);
                fate = Fate::InUse;
            }
            Ok(Found::Foreign) => fate = Fate::Foreign,
            Err(errno) => fate = Fate::Failed(reason(errno)),
            Ok(Found::Idle(idle)) => {
                if let Some(said) = &idle.said {
                    self.idle.push(said.suffix);
                    let of = named_by(name.as_bytes()).map(<[u8]>::to_vec);
                    kind = LeftoverKind::Journal { of, files: said.files, bytes: said.bytes };
                }
                if self.remove {
                    fate = removed(idle.remove());
                }
            }
        }
        self.report(place, name.as_bytes(), kind, &stat, fate);
    }

    /// What has a temporary file's name: it is one if a journal names its suffix, or if it carries the mark.
    fn temporary(
        &mut self,
        directory: &OwnedFd,
        place: &[u8],
        name: Component<'_>,
        suffix: Suffix,
        stat: &Stat,
    ) {
        let is_named = self.idle.contains(&suffix);
        let is_orphan = !is_named && age(stat) < ORPHANED_AFTER;
        let fate = if self.busy.contains(&suffix) {
            Fate::InUse
        } else if stat.st_uid != geteuid().as_raw() || !(is_named || is_marked(stat)) {
            Fate::Foreign
        } else if is_orphan {
            Fate::Recent
        } else if self.remove {
            removed(at::unlink(directory, name))
        } else {
            Fate::Found
        };
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        self.report(place, name.as_bytes(), LeftoverKind::Temporary { bytes }, stat, fate);
    }

    fn report(&mut self, place: &[u8], name: &[u8], kind: LeftoverKind, stat: &Stat, fate: Fate) {
        let path = self.top.join(OsStr::from_bytes(&join(place, name)));
        (self.each)(Leftover { path, kind, age: age(stat), fate });
    }
}

fn removed(result: Result<(), Errno>) -> Fate {
    match result {
        Ok(()) | Err(Errno::NOENT) => Fate::Removed,
        Err(errno) => Fate::Failed(reason(errno)),
    }
}

/// The names in a directory, in order.
fn names(directory: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
