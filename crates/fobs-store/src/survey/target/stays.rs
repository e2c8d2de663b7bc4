//! What stays at the destination because it is what the source has: may the source go?

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{READ, Target};
use crate::at::open_beneath;
use crate::beneath::{Links, kind, meta, sentence};
use crate::extraneous::Extraneous;
use crate::identity::Identity;
use crate::journal::Held;
use crate::keep;
use crate::sink::Durability;
use crate::survey::choice::{Choice, Decision};
use crate::survey::listed_names::{Fate, Left, Listed};
use crate::survey::row::{Row, RowKind};
use crate::survey::sync::is_newer;
use crate::view::View;
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::options::sync::{Absent, Compare, Present};

impl Target {
    /// Whether a further name of a file is left out, as its first name is or by itself.
    pub(in crate::survey) fn leaves(&mut self, row: &Row, first: Listed) -> bool {
        let there = self.view.as_mut().and_then(|view| view.stat(&row.path).ok());
        let rules = &self.options.rules;
        let is_left = match (first.fate, &there) {
            _ if self.left_out() || self.options.only_delete => true,
            (Fate::Left(Left::Itself), _) => true,
            (_, None) => rules.absent == Absent::LeftOut,
            (_, Some(stat)) => match rules.present {
                Present::Left => true,
                // Another type is replaced, as by its first name.
                Present::UpdatedUnlessNewer if kind(stat) == FileType::RegularFile => {
                    first.mtime_s.is_some_and(|mtime_s| is_newer(rules, meta(stat).mtime_s, mtime_s))
                }
                Present::UpdatedUnlessNewer | Present::Updated => false,
            },
        };
        if is_left {
            self.see(row);
        }
        is_left
    }

    /// Where an earlier run may have left a part of a file (`--partial-dir`).
    pub(in crate::survey) fn partial_of(&self, path: &[u8]) -> Option<Vec<u8>> {
        let directory = self.options.partial_dir.as_ref().filter(|directory| !directory.starts_with(b"/"))?;
        let (parent, name) = path::split(path);
        Some(path::join(&path::join(parent, directory), name))
    }

    pub(in crate::survey) fn doubt_empty_directories(&mut self) {
        self.extraneous.iter_mut().for_each(Extraneous::doubt_empty_directories);
        // It reads no bit for that.
        self.tells_rules = false;
    }

    /// Whether a file that looks like the source's may be what an earlier run stored, and the device did not
    /// keep: then its size and time say nothing of its content.
    pub(super) fn is_doubtful(&mut self, row: &Row, held: &Held) -> bool {
        let Some(doubt) = self.doubt.filter(|_| row.kind == RowKind::File && *held != Held::Complete) else {
            return false;
        };
        let Some(view) = self.view.as_mut().filter(|_| self.options.rules.compare != Compare::Content) else {
            return false;
        };
        let place = view.place(&row.path).into_owned();
        view.hold_at(&place).is_ok_and(|file| doubt.includes(file))
    }

    /// The answer to a row. What cannot be stored counts when it comes to deletions.
    pub(in crate::survey) fn answer_noted(&mut self, row: &Row, held: Held) -> Choice {
        let choice = self.answer(row, held);
        if let Decision::Failed(_) = choice.decision {
            self.extraneous.iter_mut().for_each(Extraneous::was_not_stored);
        }
        choice
    }

    /// Why something could not be done at a path; a device that fails is taken note of.
    pub(super) fn said(&self, what: &str, path: &[u8], errno: Errno) -> String {
        self.health.note(errno);
        sentence(what, path, errno)
    }

    pub(super) fn failed(&self, what: &str, path: &[u8], errno: Errno) -> Decision {
        Decision::Failed(self.said(what, path, errno))
    }

    /// The answer to a row that is not sent. With `--remove-source-files` it lets the source be removed.
    pub fn stays(&mut self, row: &Row) -> Decision {
        if !self.options.removes_sources() {
            return Decision::Skip;
        }
        let (durability, settling) = (self.durability, self.settling.clone());
        let Some(view) = &mut self.view else { return Decision::Skip };
        let is_row = |of: Identity| of == row.identity;
        let is_own = view
            .stat(&row.path)
            .is_ok_and(|stat| is_row(Identity::of_source(&stat)) || is_row(Identity::of(&stat)));
        if is_own {
            // Size, inode and times to the nanosecond: source and destination are one directory.
            return Decision::Failed(format!(
                "'{}' at the destination is the source itself, so it is not removed; name another destination",
                show(&row.path)
            ));
        }
        if let Some(settling) = settling {
            let place = view.place(&row.path).into_owned();
            if let Ok(directory) = view.hold(path::split(&place).0) {
                settling.note(&directory);
            }
        }
        match durability {
            Durability::Kernel => Decision::Same,
            Durability::Device => match have_kept(view, row) {
                Ok(()) => Decision::Same,
                Err(errno) => self.failed("have the device keep", &row.path, errno),
            },
        }
    }
}

/// Has the device keep an entry that an earlier run may have left to the kernel.
fn have_kept(view: &mut View, row: &Row) -> Result<(), Errno> {
    if row.kind == RowKind::File {
        keep::file(view.open(&row.path, READ)?)?;
    }
    let place = view.place(&row.path).into_owned();
    let directory = view.hold(path::split(&place).0)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    keep::file(open_beneath(&*directory, b"", flags, Mode::empty(), Links::Refuse)?)
}
