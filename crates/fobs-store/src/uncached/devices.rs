//! The file systems that one transfer writes to, of which several may lie below one destination.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::fstat;

use super::account::LargeFiles;
use super::ways::Ways;
use super::writing::{LargeFile, PageCache};

/// Most file systems for which it is known which way of writing is faster; those beyond share the first
/// one's.
const DEVICES_MAX: usize = 16;

/// How large files are written at one destination.
#[derive(Debug)]
pub(crate) struct Devices {
    /// The device is asked to keep each file.
    fsync: bool,
    cache: PageCache,
    /// By the number of the file system.
    known: RefCell<Vec<(u64, Ways)>>,
    written: LargeFiles,
}

impl Devices {
    /// Of a destination at which nothing was written yet; with `fsync` it is asked to keep each file.
    pub(crate) fn new(fsync: bool) -> Devices {
        let (known, written) = (RefCell::default(), LargeFiles::default());
        Devices { fsync, cache: PageCache::Passed, known, written }
    }

    /// All goes through the cache from now on, and stays there.
    pub(crate) fn use_cache(&mut self) {
        self.cache = PageCache::Used;
    }

    /// How this file is written, which is open for writing.
    pub(crate) fn large_file(&self, file: &Arc<OwnedFd>) -> LargeFile {
        LargeFile::new(Arc::clone(file), self.cache, self.ways_of(file), self.written.on(&**file))
    }

    /// What was written so far.
    pub(crate) fn written(&self) -> &LargeFiles {
        &self.written
    }

    fn ways_of(&self, file: &OwnedFd) -> Ways {
        let device = fstat(file).map_or(0, |stat| stat.st_dev);
        let mut known = self.known.borrow_mut();
        let same = known.iter().find(|(of, _)| *of == device);
        match same.or_else(|| known.first().filter(|_| known.len() >= DEVICES_MAX)) {
            Some((_, ways)) => ways.clone(),
            None => {
                let ways = Ways::new(self.fsync);
                known.push((device, ways.clone()));
                ways
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uncached::ways::Way;

    #[test]
    fn a_file_system_that_refuses_does_not_speak_for_another() {
        let Ok(shm) = tempfile::tempfile_in("/dev/shm") else { return };
        let devices = Devices::new(true);
        let [here, there] = [tempfile::tempfile().expect("a file"), shm].map(OwnedFd::from);
        if fstat(&here).expect("a file").st_dev == fstat(&there).expect("a file").st_dev {
            return;
        }
        devices.ways_of(&there).with(|paces| paces.refused = true);
        assert_eq!(devices.ways_of(&here).with(|paces| paces.next().0), Way::Past);
        assert_eq!(devices.ways_of(&there).with(|paces| paces.next().0), Way::Through);
        assert_eq!(devices.known.borrow().len(), 2);
    }

    #[test]
    fn what_is_known_of_file_systems_is_bounded() {
        let devices = Devices::new(false);
        let file: OwnedFd = tempfile::tempfile().expect("a file").into();
        let full = (0..DEVICES_MAX as u64).map(|number| (u64::MAX - number, Ways::new(false)));
        devices.known.borrow_mut().extend(full);
        devices.ways_of(&file);
        assert_eq!(devices.known.borrow().len(), DEVICES_MAX);
    }
}
