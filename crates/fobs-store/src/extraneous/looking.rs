//! Looking through the destination for what the sources do not have. At most one directory is open, however
//! deep the tree is.

use std::hash::BuildHasher;

use rustix::fs::{self, FileType, Mode, OFlags, fstat};
use rustix::io::Errno;

use super::{ALLOCATION, Extraneous, Found};
use crate::at;
use crate::at::open_beneath;
use crate::beneath::Links;
use crate::charset::in_transfer;
use crate::own::is_own;
use fobs_filter::{Action, NameKind, Perishable, path};
use fobs_model::budget::{Charge, Keeps};
use fobs_model::name::Component;
use fobs_model::name::ours::suffix_in;

/// Flags for reading a directory.
const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A directory that is looked through.
struct Frame {
    path: Vec<u8>,
    names: std::vec::IntoIter<Name>,
    _kept: Charge,
    perishable: Perishable,
    /// Whether all of it is collected.
    whole: bool,
}

/// A name in it.
struct Name {
    name: Vec<u8>,
    is_directory: bool,
    /// Whether it is a journal or an unfinished file.
    is_ours: bool,
}

impl Extraneous {
    /// Collects what is in a directory and not `seen`; whether all of it is collected. What cannot be looked
    /// at is told, and stays.
    pub(super) fn collect(&mut self, top: &[u8], seen: Option<&[u64]>, perishable: Perishable) -> bool {
        let Some(frame) = self.look_in(top, seen, perishable) else { return false };
        let mut frames = vec![frame];
        self.note_rules();
        loop {
            let Some(frame) = frames.last_mut() else { return true };
            let Some(Name { name, is_directory, is_ours }) = frame.names.next() else {
                let Some(Frame { path, whole, .. }) = frames.pop() else { return true };
                let Some(above) = frames.last_mut() else { return whole };
                self.chain.leave();
                if whole {
                    above.whole &= self.push(path, true);
                } else {
                    above.whole = false;
                    self.keep(path);
                }
                continue;
            };
            let path = path::join(&frame.path, &name);
            let kind = if is_directory { NameKind::Directory } else { NameKind::Other };
            let judged = self.chain.judge(&path, kind, frame.perishable);
            if judged == Some(Action::Exclude) || is_ours {
                frame.whole = false;
            } else if !is_directory {
                let pushed = self.push(path, false);
                frame.whole &= pushed;
            } else {
                self.enter_chain(&path);
                match self.look_in(&path, None, Perishable::Ignored) {
                    Some(inner) => frames.push(inner),
                    None => {
                        self.chain.leave();
                        frame.whole = false;
                    }
                }
            }
        }
    }

    /// The names in a directory but those `seen`; `None` where it is to stay as it is.
    fn look_in(&mut self, path: &[u8], seen: Option<&[u64]>, perishable: Perishable) -> Option<Frame> {
        match self.names_in(path, seen) {
            Ok(Some((names, kept))) => {
                let (path, names) = (path.to_vec(), names.into_iter());
                Some(Frame { path, names, _kept: kept, perishable, whole: true })
            }
            Ok(None) => None,
            // It went meanwhile.
            Err(Errno::NOENT) => None,
            Err(errno) => {
                self.fail("look for what is to be deleted in", path, errno);
                None
            }
        }
    }

    fn names_in(&mut self, path: &[u8], seen: Option<&[u64]>) -> Result<Option<(Vec<Name>, Charge)>, Errno> {
        let Some(view) = &mut self.view else { return Ok(None) };
        let place = view.place(path).into_owned();
        let held = view.hold(&place)?;
        if self.device.is_some_and(|device| fstat(&*held).map_or(true, |stat| stat.st_dev != device)) {
            return Ok(None);
        }
        let opened = open_beneath(&*held, b"", READ_DIRECTORY, Mode::empty(), Links::Refuse)?;
        let (mut names, mut kept) = (Vec::new(), self.budget.charge(Keeps::Listing));
        for entry in fs::Dir::new(opened)? {
            let entry = entry?;
            // What has no name at the other side stays.
            let Ok(name) = in_transfer(entry.file_name().to_bytes()) else { continue };
            let name = &*name;
            let is_seen = seen.is_some_and(|seen| seen.binary_search(&self.hashes.hash_one(name)).is_ok());
            if matches!(name, b"." | b"..") || is_seen {
                continue;
            }
            let file_type = match entry.file_type() {
                FileType::Unknown => at::stat(&*held, Component::new(name)?)
                    .map(|stat| FileType::from_raw_mode(stat.st_mode))?,
                known => known,
            };
            let is_directory = file_type == FileType::Directory;
            let has_our_suffix = self.suffix.is_some() && suffix_in(name) == self.suffix;
            let is_ours = !is_directory && (has_our_suffix || is_own(&*held, name));
            let entry = Name { name: name.to_vec(), is_directory, is_ours };
            let room = kept.grow(name.len() + ALLOCATION).and_then(|()| kept.push(&mut names, entry));
            if let Err(spent) = room {
                self.spent.get_or_insert_with(|| spent.to_string());
                return Ok(None);
            }
        }
        names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(Some((names, kept)))
    }

    /// Notes a directory that stays, where there is room: that is said, and nothing else follows from it.
    fn keep(&mut self, path: Vec<u8>) {
        let bytes = path.len() + ALLOCATION;
        let kept = &mut self.found_kept;
        let fits = self.found_bytes + bytes <= super::FOUND_BYTES_MAX
            && kept.grow(bytes).is_ok()
            && kept.room_in_vec(&mut self.staying, 1).is_ok();
        if fits {
            self.found_bytes += bytes;
            self.staying.push(path);
        }
    }

    pub(super) fn push(&mut self, path: Vec<u8>, is_directory: bool) -> bool {
        let bytes = path.len() + ALLOCATION;
        let kept = &mut self.found_kept;
        let fits = self.found_bytes + bytes <= super::FOUND_BYTES_MAX
            && kept.grow(bytes).is_ok()
            && kept.room_in_vec(&mut self.found, 1).is_ok();
        if !fits {
            self.forgotten += 1;
            return false;
        }
        self.found_bytes += bytes + size_of::<Found>();
        self.found.push(Found { path, is_directory });
        true
    }

    /// The rules may have taken too much work: then what they said does not count.
    pub(super) fn note_rules(&mut self) {
        if let Some(error) = self.chain.failure() {
            self.spent.get_or_insert(error.message);
        }
    }
}
