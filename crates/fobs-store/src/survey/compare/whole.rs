//! Directories that moved whole: one that is new here, and that the destination has under a name which the
//! sources have no more, is renamed as one. What is in it is compared afterwards as what always was there.

use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;

use super::Compare;
use super::moved::Moved;
use super::offering::{CHEAP_FROM, CHEAP_NAMES_MAX, MOVED_MIN, MOVED_NAMES_MAX};
use crate::at;
use crate::attributes::left_by_default_acl;
use crate::beneath::kind;
use crate::held::is_shared;
use crate::survey::choice::{Choice, Decision};
use crate::survey::path_questions::PathQuestions;
use crate::survey::row::{Row, RowKind};
use crate::view::View;
use fobs_filter::{NameKind, path};
use fobs_model::options::sync::Renames;

/// Fewest names of a directory of which the sender is asked: it costs a round trip.
const NAMES_MIN: usize = 16;
/// Most rows of a new directory that are compared with what it seems to be, before that is asked.
const SAMPLE_MAX: usize = 64;
/// Most directories of a session that are looked at: each may be walked in vain.
const TRIES_MAX: u32 = 256;
/// The mode of a directory that is not complete.
const UNFINISHED_MODE: u32 = 0o700;

/// What is known of directories that moved.
#[derive(Debug)]
pub(super) struct Whole {
    questions: PathQuestions,
    tries: u32,
    /// The new path of the one that was renamed last.
    renamed: Option<Vec<u8>>,
    /// Directories whose rows have not ended, and the number of each row.
    open: Vec<(Vec<u8>, u64)>,
}

impl Whole {
    pub(super) fn new(questions: PathQuestions) -> Whole {
        Whole { questions, tries: 0, renamed: None, open: Vec::new() }
    }

    fn note(&mut self, row: &Row, number: u64) {
        while self.open.last().is_some_and(|(above, _)| !path::is_inside(&row.path, above)) {
            self.open.pop();
        }
        if row.kind == RowKind::Directory {
            self.open.push((row.path.clone(), number));
        }
    }
}

impl Compare {
    /// Whether it would ask about paths of the sources.
    pub fn wants_path_questions(&self) -> bool {
        self.asks_about_paths
            && self.offers.is_some()
            && self.target.as_ref().is_some_and(|it| it.may_rename())
    }

    /// The sender answers about paths.
    pub fn may_ask_about_paths(&mut self) {
        self.asks_about_paths = true;
    }

    /// From now on it asks so.
    pub fn asks(&mut self, questions: PathQuestions) {
        self.whole = Some(Whole::new(questions));
    }

    /// Before the answer to a row, of which these come next: renames a directory that moved whole. Decisions
    /// from row `unsent` on are not on their way yet.
    pub fn rename_whole(&mut self, row: &Row, next: &[Row], unsent: u64, stop: &dyn Fn() -> bool) {
        let number = self.rows;
        let Some(whole) = &mut self.whole else { return };
        whole.note(row, number);
        let is_in_renamed = whole.renamed.as_ref().is_some_and(|it| path::is_inside(&row.path, it));
        if row.kind != RowKind::Directory || row.path.is_empty() || is_in_renamed {
            return;
        }
        if !whole.questions.may_ask() || whole.tries >= TRIES_MAX || self.is_there(&row.path) {
            return;
        }
        // Where that is not possible, its files are looked for one by one.
        let renamed = self.old_of(row, next, stop).and_then(|old| self.rename(row, &old, unsent, stop));
        if renamed.is_some() {
            self.renamed(row);
        }
    }

    fn is_there(&mut self, path: &[u8]) -> bool {
        self.view.as_mut().is_none_or(|view| {
            view.place(path).as_ref() != path || !matches!(view.stat(path), Err(Errno::NOENT | Errno::NOTDIR))
        })
    }

    /// The path of the directory that a new one seems to be, by what comes next.
    fn old_of(&mut self, row: &Row, next: &[Row], stop: &dyn Fn() -> bool) -> Option<Vec<u8>> {
        let sample: Vec<&Row> = next.iter().take_while(|it| path::is_inside(&it.path, &row.path)).collect();
        let is_sought = |row: &&&Row| row.kind == RowKind::File && row.identity.size >= MOVED_MIN;
        let first = sample.iter().find(is_sought)?;
        let bytes: u64 = sample.iter().map(|row| row.identity.size).sum();
        let most = match self.target.as_ref()?.renames() {
            Renames::All => MOVED_NAMES_MAX,
            Renames::WhereCheap if self.new_bytes.saturating_add(bytes) > CHEAP_FROM => CHEAP_NAMES_MAX,
            Renames::WhereCheap | Renames::Off => return None,
        };
        let view = self.view.as_mut()?;
        let moved =
            self.moved.get_or_insert_with(|| Moved::look(view, (most, MOVED_MIN), &self.budget, stop));
        let found = moved.directory_of(first)?;
        let below = path::split(&first.path).0[row.path.len()..].to_vec();
        let old = found.strip_suffix(&below[..]).filter(|old| !old.is_empty())?.to_vec();
        if moved.makes_others(&old)
            || path::is_inside(&row.path, &old)
            || !self.requested.includes(&old, NameKind::Directory)
        {
            return None;
        }
        let view = self.view.as_mut()?;
        let mut is_same = |it: &&Row| {
            let place = [&old[..], &it.path[row.path.len()..]].concat();
            view.stat(&place).is_ok_and(|stat| is_alike(it, &stat))
        };
        let compared = sample.iter().filter(|it| !matches!(it.kind, RowKind::DirectoryEnd));
        compared.take(SAMPLE_MAX).copied().all(|it| is_same(&it)).then_some(old)
    }

    /// Gives the old directory the path of a row; none where that is not possible.
    fn rename(&mut self, row: &Row, old: &[u8], unsent: u64, stop: &dyn Fn() -> bool) -> Option<()> {
        let whole = self.whole.as_mut()?;
        whole.tries += 1;
        let target = self.target.as_mut()?;
        let leaving = target.leaving(old).filter(|leaving| leaving.len() >= NAMES_MIN)?;
        if whole.questions.has(old, stop)? {
            return None;
        }
        let view = self.view.as_mut()?;
        view.forget();
        self.make_above(&row.path, unsent).ok()?;
        let view = self.view.as_mut()?;
        give_name(view, old, &row.path).ok()?;
        view.forget();
        let target = self.target.as_mut()?;
        target.has_left(leaving);
        if let Some(moved) = &mut self.moved {
            moved.forget(old);
        }
        Some(())
    }

    fn renamed(&mut self, row: &Row) {
        if let Some(whole) = &mut self.whole {
            whole.renamed = Some(row.path.clone());
        }
    }

    /// Makes the directories above a path that are missing: nobody else does while their decisions have not
    /// left.
    fn make_above(&mut self, path: &[u8], unsent: u64) -> Result<(), Errno> {
        let (Some(whole), Some(view)) = (&self.whole, &mut self.view) else { return Err(Errno::NOENT) };
        for (above, number) in whole.open.iter().filter(|(above, _)| path::is_inside(path, above)) {
            if above.is_empty() || view.stat(above).is_ok() {
                continue;
            }
            if *number < unsent {
                return Err(Errno::NOENT);
            }
            let (parent, name) = path::split_name(above)?;
            let parent = view.hold(parent)?;
            if is_shared(&*parent) {
                return Err(Errno::PERM);
            }
            at::make_directory(&*parent, name, Mode::from_raw_mode(UNFINISHED_MODE))?;
        }
        Ok(())
    }

    /// Whether a path is that of a directory that was renamed, or lies in it.
    fn is_renamed(&self, path: &[u8]) -> bool {
        let renamed = self.whole.as_ref().and_then(|whole| whole.renamed.as_ref());
        renamed.is_some_and(|it| it == path || path::is_inside(path, it))
    }

    /// An answer to a row of a directory that was renamed, as it is told: nothing had its name before.
    pub(super) fn as_new(&self, row: &Row, choice: &mut Choice) {
        let stays = matches!(choice.decision, Decision::Send | Decision::Skip | Decision::Same);
        if let Some(target) = self.target.as_ref().filter(|_| stays && self.is_renamed(&row.path))
            && let Some(changes) = target.changes_of_new(row)
        {
            choice.changes = changes;
        }
    }

    /// Whether a file came with the directory that was renamed, and nothing of it is sent.
    pub fn came_renamed(&self, row: &Row, choice: &Choice) -> bool {
        let stays = matches!(choice.decision, Decision::Skip | Decision::Same);
        stays && row.kind == RowKind::File && self.is_renamed(&row.path)
    }
}

/// Whether what stands at a path seems to be what a row says.
fn is_alike(row: &Row, stat: &Stat) -> bool {
    let is_size = u64::try_from(stat.st_size) == Ok(row.identity.size);
    match (&row.kind, kind(stat)) {
        (RowKind::File, FileType::RegularFile) => is_size && stat.st_mtime == row.meta.mtime_s,
        (RowKind::Directory, FileType::Directory) | (RowKind::Symlink { .. }, FileType::Symlink) => true,
        // One more name of a file, or a device: compared later.
        (RowKind::Hardlink { .. }, found) => found != FileType::Directory,
        (RowKind::Special { .. }, found) => found != FileType::Directory && found != FileType::RegularFile,
        _ => false,
    }
}

/// Renames a directory of this user's own, where nobody else gives or takes names.
fn give_name(view: &mut View, old: &[u8], new: &[u8]) -> Result<(), Errno> {
    let ((from, name), (to, new_name)) = (path::split_name(old)?, path::split_name(new)?);
    let (from, to) = (view.hold(from)?, view.hold(to)?);
    let stat = at::stat(&*from, name)?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && kind(&stat) == FileType::Directory;
    if !is_own || is_shared(&*from) || is_shared(&*to) || left_by_default_acl(to.as_fd()).is_some() {
        return Err(Errno::PERM);
    }
    at::move_to_new(&*from, name, &*to, new_name)
}
