//! Files of the destination that rows before replace: of what is in them another file can be made as long as
//! they are open, as logs are that were rotated.

use std::collections::BTreeSet;

use super::Compare;
use super::moved::Moved;
use super::offering::{MOVED_MIN, MOVED_NAMES_MAX, open};
use crate::delta::{Basis, Held, basis_in_place};
use crate::survey::row::{Row, RowKind};
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::deltas::Origin;
use fobs_model::options::sync::Renames;
use rustix::fs::fstat;

/// Most of them: some MB. Of one behind them the file is opened too late, and what it is to make is sent.
const PLACES_MAX: usize = 16 << 10;
/// What a path takes beside its bytes.
const PATH_COST: usize = 64;

/// The paths of such files below the destination's top directory, as many as there is room for.
#[derive(Debug)]
pub(super) struct Replaced {
    places: BTreeSet<Vec<u8>>,
    kept: Charge,
}

impl Replaced {
    pub(super) fn within(budget: &MemoryBudget) -> Replaced {
        Replaced { places: BTreeSet::new(), kept: budget.charge(Keeps::Pieces) }
    }
}

impl Compare {
    /// A file is sent: what has its name is replaced.
    pub(super) fn note_replaced(&mut self, row: &Row) {
        let renames = self.target.as_ref().map_or(Renames::Off, |target| target.renames());
        let Replaced { places, kept } = &mut self.replaced;
        if renames == Renames::Off || row.kind != RowKind::File || places.len() >= PLACES_MAX {
            return;
        }
        let Some(view) = self.view.as_mut() else { return };
        let place = view.place(&row.path).into_owned();
        if view.stat_at(&place).is_ok() && kept.grow(place.len() + PATH_COST).is_ok() {
            places.insert(place);
        }
    }

    /// With `--track-renames`, what a file is made of that takes the name of another, which is at `own`: one
    /// of its size and time, or content.
    pub(super) fn came_over(&mut self, row: &Row, own: &[u8], stop: &dyn Fn() -> bool) -> Option<Basis> {
        if self.target.as_ref()?.renames() != Renames::All {
            return None;
        }
        let (view, bounds) = (self.view.as_mut()?, (MOVED_NAMES_MAX, MOVED_MIN));
        let moved = self.moved.get_or_insert_with(|| Moved::look(view, bounds, &self.budget, stop));
        let place = moved.of(view, row).filter(|place| place != own)?;
        self.moved_from(row, place)
    }

    /// The file at a place as what a row is supposed to be. One that is replaced before is opened now; none
    /// where it has been replaced.
    pub(super) fn moved_from(&mut self, row: &Row, place: Vec<u8>) -> Option<Basis> {
        let size = row.identity.size;
        if !self.replaced.places.contains(&place) {
            return Some(Basis { held: Held::Named(place), size, origin: Origin::Moved });
        }
        let view = self.view.as_mut()?;
        let (file, found) = basis_in_place(view, &place, MOVED_MIN)?;
        let is_of_time = fstat(&file).is_ok_and(|stat| stat.st_mtime == row.meta.mtime_s);
        let is_it = found == size && (is_of_time || row.checksum.is_some());
        is_it.then(|| open(view, &place, (file, found), Origin::Moved))
    }
}
