//! Where the sources lie, for a receiver that asks whether they have something at a path (protocol 7.8).

use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Walk;
use crate::beneath::Base;
use fobs_filter::path;
use fobs_model::name::Component;

/// Looks at a name itself, whatever it leads to.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);
/// Longest path that is looked for, bytes: no file has a longer one.
const PATH_MAX: usize = 4096;

/// The sources, each with its path and its name in the transfer.
#[derive(Debug)]
pub struct SourcePlaces {
    base: Arc<Base>,
    named: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Walk {
    /// Where its sources lie, before it begins.
    pub(crate) fn places(&self) -> SourcePlaces {
        let named = self.named.as_slice().iter().map(|named| (named.path.clone(), named.name.clone()));
        SourcePlaces { base: self.base.clone(), named: named.collect() }
    }
}

impl SourcePlaces {
    /// Whether something is at a path within the transfer, left out by a rule or not; also where that cannot be
    /// known. None of a path that cannot be.
    pub fn has(&self, path: &[u8]) -> Option<bool> {
        if path.is_empty() || path.len() > PATH_MAX {
            return None;
        }
        path.split(|byte| *byte == b'/').try_for_each(|name| Component::new(name).map(drop)).ok()?;
        Some(self.named.iter().any(|(place, name)| self.may_be_in(place, name, path)))
    }

    fn may_be_in(&self, place: &[u8], name: &[u8], path: &[u8]) -> bool {
        if path == name || path::is_inside(name, path) {
            return true;
        }
        if !path::is_inside(path, name) {
            return false;
        }
        let below = if name.is_empty() { path } else { &path[name.len() + 1..] };
        let found = self.base.open(&[place, b"/", below].concat(), LOOK);
        !matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
    }
}
