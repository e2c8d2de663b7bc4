//! Names that the sources do not have and that are deleted for it (`--delete-missing-args`): once everything
//! is listed, so that no sender makes room with it for what was to stay.

use std::collections::BTreeSet;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::Target;
use crate::beneath::{kind, sentence};
use crate::extraneous::{Deleted, Found};
use crate::survey::choice::Decision;
use crate::survey::row::Row;
use fobs_filter::path::show;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::event::FileError;

/// What one costs beside its path, bytes.
const COST: usize = 64;

/// The names, each once.
#[derive(Debug)]
pub(super) struct Missing {
    paths: BTreeSet<Vec<u8>>,
    kept: Charge,
}

impl Missing {
    pub(super) fn within(budget: &MemoryBudget) -> Missing {
        Missing { paths: BTreeSet::new(), kept: budget.charge(Keeps::Deletions) }
    }
}

impl Target {
    /// Takes note of a name that the sources do not have.
    pub(super) fn note_missing(&mut self, row: &Row) -> Decision {
        // The pass that deletes before the other one leaves it to that.
        if self.options.deletes_missing && !self.options.only_delete && !self.left_out() {
            let Missing { paths, kept } = &mut self.missing;
            if !paths.contains(&row.path) {
                if let Err(spent) = kept.grow(COST + row.path.len()) {
                    return Decision::Failed(format!("'{}' was not deleted: {spent}", show(&row.path)));
                }
                paths.insert(row.path.clone());
            }
        }
        Decision::Skip
    }

    /// Deletes what has these names; a directory with entries only where `--delete` or `--force` says so.
    pub(in crate::survey) fn delete_missing(&mut self, report: &mut dyn FnMut(Deleted)) {
        let of_all = self.options.delete.and_then(|delete| delete.max);
        let max = of_all.or(self.options.missing_max).unwrap_or(u64::MAX);
        let (mut count, mut left) = (0, 0);
        for path in std::mem::take(&mut self.missing.paths) {
            if count >= max {
                left += u64::from(self.view.as_mut().is_some_and(|view| view.stat(&path).is_ok()));
                continue;
            }
            let gone = self.deleted_missing(&path);
            // What lay in it comes first.
            let within = self.take_deleted();
            count += within.iter().filter(|deleted| matches!(deleted, Deleted::Gone(_))).count() as u64;
            within.into_iter().for_each(&mut *report);
            count += u64::from(matches!(gone, Ok(Some(_))));
            match gone {
                Ok(None) => {}
                Ok(Some(is_directory)) => report(Deleted::Gone(Found { path, is_directory })),
                Err(message) => report(Deleted::Failed(FileError { path, message })),
            }
        }
        if left > 0 {
            report(Deleted::Limited(left));
        }
        self.extraneous.iter_mut().for_each(|extraneous| extraneous.has_deleted(count));
    }

    /// Whether what is gone was a directory; none where nothing was there.
    fn deleted_missing(&mut self, path: &[u8]) -> Result<Option<bool>, String> {
        let failed = |errno| sentence("delete", path, errno);
        let stat = match self.view.as_mut().map(|view| view.stat(path)) {
            Some(Ok(stat)) => stat,
            None | Some(Err(Errno::NOENT | Errno::NOTDIR)) => return Ok(None),
            Some(Err(errno)) => return Err(failed(errno)),
        };
        let is_directory = kind(&stat) == FileType::Directory;
        if is_directory {
            let said = |why| format!("cannot delete '{}', which the source does not have: {why}", show(path));
            self.make_way(path).map_err(said)?;
        } else if !self.options.dry_run {
            self.unlink(path).map_err(failed)?;
        }
        Ok(Some(is_directory))
    }
}
