//! Looks at the disks of this host that jobs write to.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::core::Core;
use super::needs::{Needs, Site};
use super::{Figures, Keeper, now};
use crate::job::{JobId, Spec};
use crate::schedule::{After, Measured};

/// How often it is looked while a job needs it: a disk of 1 GB/s takes 5 GB meanwhile, which running jobs
/// hold all the same.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How soon a new job is looked at.
const SOON: Duration = Duration::from_millis(50);

/// Looks until the keeper ends, in a thread of its own: a file system that does not answer holds up the jobs
/// that write to such ones, and no other.
///
/// # Errors
/// Where no thread can be started.
pub(super) fn watch(keeper: &Keeper) -> io::Result<()> {
    let own = keeper.clone();
    let run = move || {
        while !own.has_ended() {
            look(&own);
            let looked = Instant::now();
            while looked.elapsed() < LOOK_EVERY && !own.has_ended() && !own.core().has_new_room {
                thread::sleep(SOON);
            }
        }
    };
    thread::Builder::new().name("room".to_owned()).spawn(run).map(|_| ())
}

/// Looks once.
pub(super) fn look(keeper: &Keeper) {
    let (mut measured, rooms) = keeper.core().rooms();
    if rooms.is_empty() {
        return;
    }
    let mut known: BTreeMap<PathBuf, Option<(String, u64)>> = BTreeMap::new();
    for (id, path) in rooms {
        let found = known.entry(path).or_insert_with_key(|path| room_at(path));
        if let Some((place, free)) = found {
            let place = format!("disk {place}");
            measured.places.insert(id, place.clone());
            measured.free.insert(place, *free);
        }
    }
    keeper.core().schedule.set_room(measured);
    keeper.0.wake.notify_all();
}

/// The number of the file system at a path, or at the nearest directory above it that there is, and what this
/// user may write there, bytes.
pub fn room_at(path: &Path) -> Option<(String, u64)> {
    let there = path.ancestors().find(|path| fs::symlink_metadata(path).is_ok())?;
    let device = fs::metadata(there).ok()?.dev();
    let found = rustix::fs::statvfs(there).ok()?;
    Some((device.to_string(), found.f_bavail.saturating_mul(found.f_frsize)))
}

impl Core {
    /// A job is to be run, and writes this number of bytes, where that is known: its room is to be looked at.
    pub(super) fn needs_room(&mut self, id: JobId, spec: &Spec, whole: Option<u64>) {
        let site = match (&spec.room, &spec.room_there) {
            (Some(room), _) => Site::Here(PathBuf::from(room.as_os_str())),
            (None, Some(_)) => Site::There { asked_ms: 0 },
            (None, None) => return,
        };
        self.has_new_room |= matches!(site, Site::Here(_));
        self.needs.insert(id, Needs::new(site, whole));
    }

    /// What an attempt knew at its end; of a run that is over, the next one knows nothing.
    pub(super) fn learn_room(&mut self, id: JobId, figures: &Figures, after: After) {
        if let Some(needs) = self.needs.get_mut(&id) {
            if matches!(after, After::Repeats(_)) {
                needs.begin_anew();
            } else {
                needs.take(figures);
            }
        }
    }

    /// What jobs have still to write, and where, of those that write on this host.
    fn rooms(&mut self) -> (Measured, Vec<(JobId, PathBuf)>) {
        self.has_new_room = false;
        let (needs, schedule) = (&mut self.needs, &self.schedule);
        needs.retain(|id, _| schedule.begin_of(*id).is_some());
        let is_here = |needs: &Needs| matches!(needs.site, Site::Here(_));
        let measured = self.left_of(|_, needs| is_here(needs));
        let paths = self.needs.iter().filter_map(|(id, needs)| match &needs.site {
            Site::Here(path) => Some((*id, path.clone())),
            Site::There { .. } => None,
        });
        (measured, paths.collect())
    }

    /// What some jobs have still to write, as their attempts say now.
    pub(super) fn left_of(&mut self, wanted: impl Fn(JobId, &Needs) -> bool) -> Measured {
        for (id, running) in &self.live {
            if let Some(needs) = self.needs.get_mut(id) {
                needs.take(&running.live.figures());
            }
        }
        let of = self.needs.iter().filter(|(id, needs)| wanted(**id, needs));
        let left = of.filter_map(|(id, needs)| Some((*id, needs.left()?))).collect();
        Measured { left, read_ms: now().ms, ..Measured::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_a_path_is_that_of_what_is_there_of_it() {
        let home = tempfile::tempdir().expect("a directory");
        let there = room_at(home.path()).expect("it is there");
        assert_eq!(room_at(&home.path().join("not/yet/made")).map(|found| found.0), Some(there.0));
        assert!(there.1 > 0);
    }
}
