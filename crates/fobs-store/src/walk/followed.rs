//! Symbolic links that stand for what they lead to (`-L`, `-k`, `--copy-unsafe-links`).

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, FileType, OFlags};
use rustix::io::Errno;

use super::entry::{
    CommonFacts, Unopened, device_of, found, no_attributes, not_regular, opened, special_kind,
};
use super::following::{AboveNames, Following};
use super::search::Search;
use super::{Entry, READ, failed};
use crate::at;
use crate::attributes::{Handle, open_handle};
use crate::beneath::kind;
use crate::select::Selection;
use fobs_model::event::FileError;
use fobs_model::name::Component;
use fobs_model::options::Follow;

/// A link that is followed.
pub(super) struct Target(Result<fs::Stat, Errno>);

impl Target {
    pub(super) fn is_directory(&self) -> bool {
        self.0.as_ref().is_ok_and(|stat| kind(stat) == FileType::Directory)
    }
}

impl<'s> Search<'s> {
    /// What a link stands for, where it is followed.
    pub(super) fn followed(
        &self,
        file_type: FileType,
        (directory, name): (BorrowedFd<'_>, &[u8]),
        path: &[u8],
        selection: Option<&Selection>,
    ) -> Option<(&'s Following, Target)> {
        let following = self.following.filter(|_| file_type == FileType::Symlink)?;
        let above = AboveNames::of(selection, path);
        Some((following, following.target(directory, name, path, above)?))
    }
}

impl Following {
    /// What a link leads to; none where it is taken itself. As in rsync, one above something that was named
    /// stands for its directory.
    pub(super) fn target(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        above: AboveNames,
    ) -> Option<Target> {
        let leads_out = || {
            let target =
                Component::new(name).map_err(Errno::from).and_then(|name| at::read_link(directory, name));
            target.is_ok_and(|target| leads_out(path, &target))
        };
        let look = || {
            let held = self.base.open(&self.place(path), OFlags::PATH)?;
            fs::fstat(&held)
        };
        let directory_behind = || Some(Target(look())).filter(Target::is_directory);
        let asked = match self.which {
            Follow::None => None,
            Follow::All => Some(Target(look())),
            Follow::LeadingOut => leads_out().then(|| Target(look())),
            Follow::Directories => directory_behind(),
        };
        asked.or_else(|| if above == AboveNames::Yes { directory_behind() } else { None })
    }

    /// The entry for a link to anything but a directory.
    pub(super) fn entry(
        &self,
        Target(stat): Target,
        path: Vec<u8>,
        is_left_closed: bool,
        search: &mut Search<'_>,
    ) -> Option<Entry> {
        let stat = match stat {
            Ok(stat) => stat,
            Err(errno) => return Some(failed(&path, "follow", errno)),
        };
        if kind(&stat) != FileType::RegularFile {
            let preserve = &search.collector.preserve;
            let is_told = |kind| search.lists_all || preserve.keeps(kind);
            return special_kind(kind(&stat)).is_some_and(is_told).then(|| self.special(path, search));
        }
        let collector = search.collector;
        let file = match self.base.open(&self.place(&path), READ) {
            Ok(file) => file,
            Err(errno) => return Some(failed(&path, "read", errno)),
        };
        let place = search.placed(Unopened::Followed(Box::new(self.clone())));
        let origin = search.origins.of(&stat, Some(&place));
        if let Some(first) = search.first_name(&stat, &path) {
            let shared = CommonFacts::of(&stat, FileType::RegularFile, collector);
            return Some(Entry::Hardlink { path, first, shared, origin });
        }
        let entry = if is_left_closed {
            let kept = collector.attributes(open_handle(&file), &stat);
            found(path, &stat, kept, place, origin, collector)
        } else {
            opened(path, file, collector)
        };
        search.forget_failed(&entry, &stat);
        Some(entry)
    }
}

impl Following {
    /// The entry for a link to a device, fifo or socket: it stands for that, as in rsync.
    fn special(&self, path: Vec<u8>, search: &mut Search<'_>) -> Entry {
        let held = self.base.open(&self.place(&path), OFlags::PATH);
        let (held, stat) = match held.and_then(|held| Ok((fs::fstat(&held)?, held))) {
            Ok((stat, held)) => (held, stat),
            Err(errno) => return failed(&path, "follow", errno),
        };
        let Some(special) = special_kind(kind(&stat)) else {
            return Entry::Failed(FileError { message: not_regular(&path), path });
        };
        let collector = search.collector;
        let place = search.placed(Unopened::Followed(Box::new(self.clone())));
        let origin = search.origins.of(&stat, Some(&place));
        if let Some(first) = search.first_name(&stat, &path) {
            let shared = CommonFacts::of(&stat, kind(&stat), collector);
            return Entry::Hardlink { path, first, shared, origin };
        }
        let entry = match collector.attributes(Handle::Held(held.as_fd()), &stat) {
            Ok(attributes) => {
                let (meta, device) = (collector.meta(&stat), device_of(special, &stat));
                Entry::Special { path, kind: special, device, meta, attributes, origin }
            }
            Err(errno) => no_attributes(&path, errno),
        };
        search.forget_failed(&entry, &stat);
        entry
    }
}

/// Whether a symbolic link's target is outside the transfer: it is absolute, ascends above the top directory,
/// or has `..` after a name, where the result depends on other links.
pub fn leads_out(path: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.iter().filter(|&&byte| byte == b'/').count();
    let mut has_gone_down = false;
    for component in target.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if has_gone_down || depth == 0 => return true,
            b".." => depth -= 1,
            _ => has_gone_down = true,
        }
    }
    false
}
