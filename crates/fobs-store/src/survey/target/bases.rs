//! `--link-dest` and its kin in a sync's decisions: which entries get one more name instead of being sent, or
//! are left out.

use std::os::fd::OwnedFd;

use rustix::fs::Stat;

use super::look::{checksum_in, look};
use super::{Target, wanted};
use crate::basis::{Link, Links};
use crate::delta::{FILE_MIN, basis_at, is_worth_listing};
use crate::held::{Movable, is_shared, is_trusted};
use crate::identity::Identity;
use crate::sink::Sink;
use crate::survey::choice::{Changes, Decision};
use crate::survey::itemize::Update;
use crate::survey::listed_names::Left;
use crate::survey::row::{Row, RowKind};
use crate::survey::sync::{Decide, Fit, There, Wanted, same_type};
use crate::view::View;
use fobs_filter::path;
use fobs_filter::path::show;
use fobs_model::options::sync::{BasisUse, Renames};

/// The directories that exist, and where links wait.
pub(in crate::survey) struct Bases {
    views: Vec<View>,
    links: Links,
    /// What lies in the one directory of `--partial-dir`.
    partials: Option<View>,
}

impl Bases {
    pub(super) fn of(sink: &Sink) -> Bases {
        // One that cannot be used has ended the session before.
        let looked = sink.view().map(|view| view.looked().clone()).unwrap_or_default();
        let views = sink.bases().iter().filter_map(|basis| basis.view().ok().flatten());
        let views = views.map(|view| view.counting(&looked)).collect();
        Bases { views, links: sink.links(), partials: sink.view_of_partials() }
    }
}

/// A sentence for each directory that is not used: as before the first of many backups.
pub(in crate::survey) fn missing_bases(sink: &Sink, basis_use: BasisUse) -> Vec<String> {
    let sentence = |path: &[u8], why: &str| {
        format!("'{}' for {} {why}: nothing there is the same", show(path), basis_use.option())
    };
    let unused = sink.bases().iter().filter_map(|basis| Some(sentence(&basis.path, basis.unused()?)));
    unused.collect()
}

/// What the directories have of an entry.
pub(super) enum FromBasis {
    /// All of it: it is linked.
    Linked,
    /// All of it: it is left out.
    LeftOut,
    /// Nothing of that name is at the destination, and this is what differs from one of theirs.
    Begins(Changes),
    /// Nothing that counts.
    No,
}

impl Target {
    /// Looks for an entry that is no directory, and has it linked if it is there whole.
    pub(super) fn in_basis(&mut self, row: &Row, wanted: &Wanted<'_>, there: Option<&There>) -> FromBasis {
        let is_file = row.kind == RowKind::File;
        // As rsync: a file is looked for even if there is something, anything else is not.
        let basis_use = self.options.basis_use;
        let is_looked_for = there.is_none() || is_file && basis_use != BasisUse::Copied;
        if self.bases.views.is_empty() || !is_looked_for {
            return FromBasis::No;
        }
        // What is of another type makes way.
        let there = there.filter(|there| same_type(wanted.kind, &there.kind));
        let here = self.view.as_mut().and_then(|view| view.stat(&row.path).ok());
        let mut best = (Fit::Nothing, Changes::default());
        for index in 0..self.bases.views.len() {
            let Some((basis, stat)) = self.look_in(index, row, wanted) else { continue };
            let (fit, changes) = self.options.rules.compare_basis(wanted, &basis, self.kept());
            if fit == Fit::Whole && basis_use == BasisUse::LeftOut {
                return FromBasis::LeftOut;
            }
            if fit == Fit::Whole && basis_use == BasisUse::Linked {
                if here.as_ref().is_some_and(|here| (here.st_dev, here.st_ino) == (stat.st_dev, stat.st_ino))
                {
                    // It is linked already.
                    return FromBasis::No;
                }
                if self.link(index, row, &stat) {
                    return FromBasis::Linked;
                }
            }
            if fit > best.0 {
                best = (fit, changes);
            }
        }
        match best {
            // What it is made of has all of it.
            (Fit::Whole, _) if basis_use == BasisUse::Copied => {
                FromBasis::Begins(Changes::BASIS.by(Update::Local))
            }
            (Fit::Type | Fit::Content, changes) if there.is_none() => FromBasis::Begins(changes),
            _ => FromBasis::No,
        }
    }

    /// Leaves out an entry that one of the directories has whole; what has its name goes.
    pub(super) fn left_to_basis(&mut self, row: &Row, is_there: bool) -> Decision {
        // Further names of it are left out with it.
        self.left = Some(Left::Itself);
        if is_there
            && !self.options.dry_run
            && let Err(errno) = self.unlink(&row.path)
        {
            return self.failed("remove", &row.path, errno);
        }
        Decision::Skip
    }

    /// What differs from the directory of that name which fits best; `None` without any.
    pub(super) fn directory_in_basis(&mut self, row: &Row) -> Option<Changes> {
        let mut best = (Fit::Nothing, Changes::default());
        for index in 0..self.bases.views.len() {
            let wanted = wanted(row, &self.applier);
            let Some((basis, _)) = self.look_in(index, row, &wanted) else { continue };
            let (fit, changes) = self.options.rules.compare_basis(&wanted, &basis, self.kept());
            if fit > best.0 {
                best = (fit, changes);
            }
        }
        match best.0 {
            Fit::Nothing => None,
            // It is made like that.
            Fit::Whole => Some(Changes::default().by(Update::Local)),
            Fit::Type | Fit::Content => Some(best.1),
        }
    }

    /// A file of that name in one of the directories, of which a delta for `size` bytes can be made.
    pub(in crate::survey) fn basis_elsewhere(&mut self, path: &[u8], size: u64) -> Option<(OwnedFd, u64)> {
        let worth = |found: &(OwnedFd, u64)| is_worth_listing(found.1, size);
        self.bases.views.iter_mut().find_map(|view| basis_at(view, path, FILE_MIN).filter(worth))
    }

    /// What an earlier run left of a file in the one directory of `--partial-dir`.
    pub(in crate::survey) fn partial_elsewhere(&mut self, path: &[u8], size: u64) -> Option<(OwnedFd, u64)> {
        let worth = |found: &(OwnedFd, u64)| is_worth_listing(found.1, size);
        basis_at(self.bases.partials.as_mut()?, path::split(path).1, FILE_MIN).filter(worth)
    }

    /// Whether files beside one that comes are looked at, too.
    pub(in crate::survey) fn is_fuzzy(&self) -> bool {
        self.options.fuzzy
    }

    /// Whether files are changed in their places.
    pub(in crate::survey) fn is_in_place(&self) -> bool {
        self.options.rules.in_place
    }

    /// Whether files of the destination are looked for under other names.
    pub(in crate::survey) fn renames(&self) -> Renames {
        self.options.track_renames
    }

    /// The decision on an entry that will be linked.
    pub(super) fn linked(&self) -> Decision {
        // The source goes only if no failure is reported until the end.
        if self.options.removes_sources() { Decision::Same } else { Decision::Skip }
    }

    fn look_in(&mut self, index: usize, row: &Row, wanted: &Wanted<'_>) -> Option<(There, Stat)> {
        let view = self.bases.views.get_mut(index)?;
        let stat = view.stat(&row.path).ok()?;
        let (mut basis, _) = look(view, &self.collector, &row.path, row.attributes.as_ref(), Movable::ByUs)?;
        if self.options.rules.compares_content(wanted, &basis) {
            basis.checksum = checksum_in(view, &row.path);
        }
        Some((basis, stat))
    }

    /// Has an entry linked; false where that is not possible.
    fn link(&mut self, index: usize, row: &Row, stat: &Stat) -> bool {
        if self.options.dry_run {
            return true;
        }
        let top = self.view.as_mut().and_then(|view| view.stat_at(b"").ok());
        if top.is_none_or(|top| top.st_dev != stat.st_dev) {
            // No link leads to another file system.
            return false;
        }
        let Some(view) = self.bases.views.get_mut(index) else { return false };
        let place = view.place(&row.path).into_owned();
        let Ok((parent, name)) = path::split_name(&place) else { return false };
        let Ok(directory) = view.hold(parent) else { return false };
        let owner = row.attributes.as_ref().and_then(|attributes| self.applier.owner(attributes).0);
        if !is_trusted(stat) && owner != Some(stat.st_uid) && is_shared(&*directory) {
            // A third user's where others put what they want, and the source does not say that it is theirs.
            return false;
        }
        let name = name.to_buf();
        let identity = Identity::of(stat);
        self.bases.links.add(Link { path: row.path.clone(), directory, name, identity })
    }
}
