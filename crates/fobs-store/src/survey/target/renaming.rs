//! Directories that are renamed whole, as far as the rules of a sync allow it.

use super::{Action, Decide, Target, wanted};
use crate::extraneous::Leaving;
use crate::sink::Durability;
use crate::survey::choice::Changes;
use crate::survey::itemize::Update;
use crate::survey::row::{Row, RowKind};
use crate::view::View;
use fobs_model::options::sync::{Absent, Enter, Present, Renames};

impl Target {
    /// Whether a directory may be renamed whole: what is in it is as if it had come, and is kept nowhere
    /// else.
    pub(in crate::survey) fn may_rename(&self) -> bool {
        let (rules, kept) = (&self.options.rules, &self.options.preserve);
        let all_comes = rules.present == Present::Updated
            && rules.absent == Absent::Made
            && rules.size_max.is_none()
            && rules.size_min.is_none()
            && self.options.names.is_none()
            && self.options.directories == Enter::All;
        let is_plain = self.options.track_renames != Renames::Off
            && !rules.in_place
            && !rules.appends
            && self.options.link_dest.is_empty()
            && !self.options.removes_sources()
            && self.durability == Durability::Kernel
            && self.settling.is_none();
        all_comes && is_plain && kept.modes && kept.times && kept.group && self.extraneous.is_some()
    }

    /// What is in a directory that the sources do not have, if all of it is to be deleted.
    pub(in crate::survey) fn leaving(&mut self, directory: &[u8]) -> Option<Leaving> {
        self.extraneous.as_mut()?.leaving(directory)
    }

    /// It has another name now.
    pub(in crate::survey) fn has_left(&mut self, leaving: Leaving) {
        if let Some(extraneous) = &mut self.extraneous {
            extraneous.has_left(leaving);
        }
        self.view.iter_mut().for_each(View::forget);
    }

    /// What is told of a row where nothing has its name; none where nothing is told.
    pub(in crate::survey) fn changes_of_new(&self, row: &Row) -> Option<Changes> {
        match row.kind {
            RowKind::Directory | RowKind::PartEnd | RowKind::Failed | RowKind::Missing => None,
            RowKind::Hardlink { .. } => Some(Changes::NEW.by(Update::Hardlink)),
            _ if !self.keeps(row) => None,
            _ => {
                let (action, changes) =
                    self.options.rules.decide(&wanted(row, &self.applier), None, self.kept());
                (action == Action::Send).then_some(changes)
            }
        }
    }
}
