//! One directory of the walk: what each of its names becomes.

use super::entry::CommonFacts;
use super::following::Reached;
use super::look::look;
use super::search::Search;
use super::*;

/// A directory that is walked, from its first entry to its end.
pub(super) struct Level {
    pub(super) path: Vec<u8>,
    pub(super) meta: Meta,
    pub(super) size: u64,
    pub(super) attributes: Result<Kept, Errno>,
    /// Open while its entries are read; closed before a subdirectory is entered.
    pub(super) reading: Option<Dir>,
    /// Names of the subdirectories found.
    pub(super) subdirectories: Vec<Vec<u8>>,
    pub(super) contents: Contents,
    pub(super) kept: Charge,
    /// Its file system and number.
    pub(super) id: (u64, u64),
    pub(super) reached: Reached,
    /// What its own rules for names of extended attributes read, where there are such.
    pub(super) ruled: Option<Arc<(Collector, XattrRules)>>,
}

impl Level {
    /// Keeps the name of a subdirectory until it is entered. Where there is no room for it, nothing more of
    /// this directory is listed.
    pub(super) fn keep(&mut self, name: &[u8]) -> Option<Entry> {
        let kept = self.kept.grow(name.len() + ALLOCATION);
        let kept = kept.and_then(|()| self.kept.push(&mut self.subdirectories, name.to_vec()));
        let message = format!("cannot read all of '{}': {}", show(&self.path), kept.err()?);
        self.stop_reading();
        Some(Entry::Failed(FileError { path: self.path.clone(), message }))
    }

    /// What was not read yet is not looked at.
    pub(super) fn stop_reading(&mut self) {
        (self.reading, self.contents) = (None, Contents::Unseen);
    }

    /// A name that the other side cannot have: what it has there is not judged.
    fn not_converted(&mut self, name: &[u8]) -> Entry {
        self.contents = Contents::Unseen;
        let message = format!("cannot convert the name '{}' (--iconv)", show(&path::join(&self.path, name)));
        Entry::Failed(FileError { path: self.path.clone(), message })
    }

    fn too_long(&mut self, path: &[u8]) -> Entry {
        self.contents = Contents::Unseen;
        let message = format!("cannot read '{}': its path is longer than {PATH_LEN_MAX} bytes", show(path));
        Entry::Failed(FileError { path: self.path.clone(), message })
    }

    /// The entry for a name in the current directory; none for a subdirectory, which is entered later, and
    /// for a file under a temporary name of a copy. With `later` a file is not opened.
    pub(super) fn child(
        &mut self,
        entry: &DirEntry,
        later: Option<&Unopened>,
        search: &mut Search<'_>,
        selection: Option<&mut Selection>,
    ) -> Option<Entry> {
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            return None;
        }
        let Ok(name) = in_transfer(name) else { return Some(self.not_converted(name)) };
        let name = &*name;
        let path = path::join(&self.path, name);
        if path.len() > PATH_LEN_MAX {
            return Some(self.too_long(&path));
        }
        let directory = self.reading.as_ref()?.fd().ok()?;
        let stat = || at::stat(directory, Component::new(name)?);
        let real = type_of(entry, stat);
        let taken = real.and_then(|real| search.taken_for(directory, name, real).map(|taken| (real, taken)));
        let (real, file_type) = match taken {
            Ok(types) => types,
            Err(errno) => return Some(lost(&path, errno)),
        };
        let followed = search.followed(real, (directory, name), &path, selection.as_deref());
        let leads_to_one = followed.as_ref().is_some_and(|(_, target)| target.is_directory());
        let is_directory = real == FileType::Directory || leads_to_one;
        let name_kind = if is_directory { NameKind::Directory } else { NameKind::Other };
        if !is_listed(&path, name_kind, search, selection) {
            return None;
        }
        if is_directory {
            return self.keep(name);
        }
        if let Some((following, target)) = followed {
            return following.entry(target, path, later.is_some(), search);
        }
        let preserve = &search.collector.preserve;
        match file_type {
            // What an interrupted copy left, or one that runs has not completed.
            FileType::RegularFile if is_own(directory, name) => {
                search.passed_over.add(&path);
                return None;
            }
            FileType::Symlink if preserve.links == SymbolicLinks::LeftOut && !search.lists_all => {
                return None;
            }
            FileType::RegularFile | FileType::Symlink => {}
            file_type
                if special_kind(file_type).is_some_and(|kind| search.lists_all || preserve.keeps(kind)) => {}
            _ if preserve.unkept == Unkept::LeftOut => return None,
            _ => return Some(Entry::Failed(FileError { message: not_regular(&path), path })),
        }
        if !preserve.hard_links {
            return Some(look(directory, name, path, file_type, later, search));
        }
        let stat = match stat() {
            Ok(stat) => stat,
            Err(errno) => return Some(lost(&path, errno)),
        };
        Some(first_or_further((directory, name), path, (&stat, file_type), later, search))
    }
}

/// The entry of a name whose file may have others.
fn first_or_further(
    (directory, name): (BorrowedFd<'_>, &[u8]),
    path: Vec<u8>,
    (stat, file_type): (&fs::Stat, FileType),
    later: Option<&Unopened>,
    search: &mut Search<'_>,
) -> Entry {
    if let Some(first) = search.first_name(stat, &path) {
        let origin = search.origins.of(stat, later);
        let shared = CommonFacts::of(stat, file_type, search.collector);
        return Entry::Hardlink { path, first, shared, origin };
    }
    let entry = look(directory, name, path, file_type, later, search);
    search.forget_failed(&entry, stat);
    entry
}

/// Whether a name is listed. One of another source is found, and not listed here.
fn is_listed(path: &[u8], kind: NameKind, search: &Search<'_>, selection: Option<&mut Selection>) -> bool {
    let is_directory = kind == NameKind::Directory;
    let is_others = !is_directory && search.is_of_another_source(path, selection.as_deref());
    let Some(selection) = selection else { return !is_others };
    if is_directory && selection.is_named_in_vain(path) {
        search.passed_over.add_directory(path);
    }
    if is_others {
        selection.find(path);
        return false;
    }
    selection.takes(path, kind)
}

/// What a name of a directory is. Some file systems do not report it.
fn type_of(entry: &DirEntry, stat: impl FnOnce() -> Result<fs::Stat, Errno>) -> Result<FileType, Errno> {
    match entry.file_type() {
        FileType::Unknown => stat().map(|stat| kind(&stat)),
        file_type => Ok(file_type),
    }
}
