//! A file that is supposed to have moved from a name which is to be deleted: while all that comes is what it
//! has, nothing is written, and at the end it gets the new name. Else what was equal is copied from it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError};

use rustix::fs::fstat;
use rustix::io::Errno;

use super::{CurrentFile, Sink, Storing, Target};
use crate::stamp::Stamp;
use crate::temporary::TemporaryFile;
use crate::tree::{Attempt, Old, Tree, Trouble};
use fobs_filter::path::show;

/// See the file's head.
pub(super) struct Moving {
    /// As it is read.
    basis: Arc<OwnedFd>,
    row: u64,
    old: Old,
    before: Stamp,
    /// How much of it came, bytes.
    same: u64,
}

impl Moving {
    /// What comes next is this much of it, at the same place.
    pub(super) fn goes_on(&mut self, len: usize) {
        self.same += len as u64;
    }

    /// The row of which it is the basis.
    pub(super) fn row(&self) -> u64 {
        self.row
    }

    /// Whether it is what it was.
    fn is_unchanged(&self) -> Result<bool, Errno> {
        let now = Stamp::of(&fstat(self.old.held.as_fd())?);
        Ok(self.before.identity == now.identity && self.before.is_same_content(&now))
    }

    /// Writes what came of it so far.
    fn write_to(&self, file: &TemporaryFile) -> Result<(), Errno> {
        file.copy(&self.basis, self.same)?;
        // What changed meanwhile is not what was verified.
        if self.is_unchanged()? { Ok(()) } else { Err(Errno::STALE) }
    }
}

impl Sink {
    /// The old file of one that begins, if it is to give it its inode.
    pub(super) fn moving(&mut self, path: &[u8], size: u64) -> Option<Moving> {
        let (row, place, before) = self.offers.as_ref()?.moved(path)?;
        let Target::Tree(tree) = &mut self.target else { return None };
        let deletes = || {
            let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
            later.as_mut().is_some_and(|extraneous| extraneous.deletes_file(&place))
        };
        if !tree.may_move_files() || !deletes() {
            return None;
        }
        let old = tree.hold_old(&place, size)?;
        let basis = self.offers.as_ref()?.basis(row)?;
        let moving =
            Moving { basis: basis.file()?, row, old, before: before.or(basis.before().copied())?, same: 0 };
        // Else it has been replaced since.
        (moving.is_unchanged() == Ok(true)).then_some(moving)
    }
}

/// Something else comes than the old file has: what was equal is written now.
pub(super) fn stays(file: &mut CurrentFile, tree: &Tree) -> Attempt<()> {
    let (Some(moving), Storing::File(placing)) = (file.moving.take(), &file.storing) else { return Ok(()) };
    moving.write_to(&placing.file).map_err(|errno| not_kept(tree, &file.path, errno))
}

/// Gives the old file the name of the new one, which is complete; whether that was possible. If not, its
/// content is written.
pub(super) fn moves(file: &mut CurrentFile, tree: &Tree) -> Attempt<bool> {
    let len = file.tree.len();
    let is_whole = file.moving.as_ref().is_some_and(|moving| moving.same == len);
    let is_it = is_whole && file.moving.as_ref().is_some_and(|moving| moving.is_unchanged() == Ok(true));
    if !is_it {
        return stays(file, tree).map(|()| false);
    }
    let (Some(moving), Storing::File(placing)) = (&file.moving, &mut file.storing) else { return Ok(false) };
    if tree.move_old(placing, &file.path, &moving.old, file.meta, file.attributes.as_ref())? {
        return Ok(true);
    }
    stays(file, tree).map(|()| false)
}

fn not_kept(tree: &Tree, path: &[u8], errno: Errno) -> Trouble {
    match errno {
        Errno::STALE => Trouble::Path(format!(
            "cannot make '{}' of what has another name at the destination: that changed meanwhile; sync again",
            show(path)
        )),
        errno => tree.trouble("write", path, errno),
    }
}
