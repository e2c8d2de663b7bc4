//! Removing what a transfer left that is not gone on with.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::JournalSpec;
use super::book::Loaded;
use super::format::Current;
use super::names::Top;
use crate::at;
use crate::temporary::temporary_path;
use crate::view::View;
use fobs_filter::path;
use fobs_model::name::Component;
use fobs_model::name::ours::{Suffix, temporary};

/// Removes the partial file that the journal names, and a file of the same transfer that had begun at the top
/// of the destination and is in no state. `fobs clean` finds what a kill left further down.
pub(super) fn remove(spec: &JournalSpec<'_>, other: &Loaded) {
    let suffix = &other.origin.suffix;
    if let Some(current) = &other.current {
        remove_partial(spec.directory, current, suffix);
    }
    match spec.top {
        Top::As(name) => remove_temporary(spec.directory, name, suffix),
        Top::Names(names) => names.iter().for_each(|name| remove_temporary(spec.directory, name, suffix)),
        Top::Contents => {}
    }
}

/// Removes the partial file that a journal names.
pub(super) fn remove_partial(directory: &Arc<OwnedFd>, current: &Current, suffix: &Suffix) {
    let mut view = View::new(Arc::clone(directory), None);
    let Ok(place) = temporary_path(&current.place, suffix) else { return };
    if view.hold_at(&place).is_ok_and(|held| current.is_in(held))
        && let Ok((parent, name)) = path::split_name(&place)
        && let Ok(parent) = view.hold(parent)
    {
        // If it stays, `fobs clean` finds it.
        let _ = at::unlink(parent, name);
    }
}

fn remove_temporary(directory: &Arc<OwnedFd>, name: &[u8], suffix: &Suffix) {
    if let Ok(name) = Component::new(name) {
        // Mostly there is none. Its suffix is random, so the name is nobody else's.
        let _ = at::unlink(directory, temporary(name, suffix).as_component());
    }
}
