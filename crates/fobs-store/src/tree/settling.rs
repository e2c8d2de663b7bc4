//! The file systems that a transfer stores on, so that all of them keep it before its sources are removed.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::fstat;
use rustix::io::Errno;

use crate::beneath::open_self;
use crate::keep;

/// Most file systems below one destination that are counted; with more, all of the host's are asked.
const DEVICES_MAX: usize = 16;

/// The file systems; shared by the threads that store and compare.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settling(Arc<Mutex<Devices>>);

#[derive(Debug, Default)]
struct Devices {
    /// The directory noted last.
    last: Option<Arc<OwnedFd>>,
    /// Each with an open directory on it.
    known: Vec<(u64, OwnedFd)>,
    everywhere: bool,
}

impl Settling {
    /// Names are made, or stay, in this directory. To be called before, so that a failure since is told.
    pub(crate) fn note(&self, directory: &Arc<OwnedFd>) {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if devices.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, directory)) {
            return;
        }
        devices.last = Some(Arc::clone(directory));
        let device = fstat(directory).map(|stat| stat.st_dev);
        if device.is_ok_and(|device| devices.known.iter().any(|(known, _)| *known == device)) {
            return;
        }
        match (device, open_self(directory)) {
            (Ok(device), Ok(open)) if devices.known.len() < DEVICES_MAX => {
                devices.known.push((device, open));
            }
            _ => devices.everywhere = true,
        }
    }

    /// Waits until the devices keep everything.
    pub(crate) fn settle(&self) -> Result<(), Errno> {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        devices.last = None;
        if devices.everywhere {
            keep::all();
        }
        devices.known.iter().try_for_each(|(_, directory)| keep::file_system(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_system_is_asked_once() {
        let top = tempfile::tempdir().expect("a directory");
        let open = |path: &std::path::Path| {
            let directory = std::fs::File::open(path).expect("a directory");
            Arc::new(OwnedFd::from(directory))
        };
        std::fs::create_dir(top.path().join("in")).expect("a directory");
        let settling = Settling::default();
        for path in [top.path().to_owned(), top.path().join("in"), top.path().to_owned(), "/proc".into()] {
            settling.note(&open(&path));
        }
        let devices = settling.0.lock().expect("not poisoned");
        assert_eq!((devices.known.len(), devices.everywhere), (2, false));
        drop(devices);
        assert_eq!(settling.settle(), Ok(()));
    }
}
