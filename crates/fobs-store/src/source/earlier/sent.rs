//! What files were when they were sent, so that later versions find them (`EarlierFiles::Remembered`).

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::at::name_of;
use crate::identity::Identity;
use crate::input::Input;
use crate::source::Source;

/// Smallest file that is remembered, bytes: the list of a smaller one is as long as a path here.
const FILE_MIN: u64 = 1 << 20;
/// Most files of a transfer that are remembered: the longest.
const FILES_MAX: usize = 256;

/// A file that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentVersion {
    /// Its path within the transfer.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// The BLAKE3 root of its content.
    pub root: [u8; 32],
    /// Its absolute path on this host.
    #[serde(with = "serde_bytes")]
    pub place: Vec<u8>,
    /// What identifies that content there.
    pub identity: Identity,
}

/// Those of a transfer. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SentVersions(Arc<Mutex<Vec<SentVersion>>>);

impl SentVersions {
    /// Takes them out.
    pub fn take(&self) -> Vec<SentVersion> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, version: SentVersion) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < FILES_MAX {
            return all.push(version);
        }
        let shortest = all.iter_mut().min_by_key(|version| version.identity.size);
        if let Some(shortest) = shortest.filter(|shortest| shortest.identity.size < version.identity.size) {
            *shortest = version;
        }
    }
}

impl Source {
    /// From now on notes which versions of its files are sent.
    pub fn note_versions(&mut self) -> SentVersions {
        self.sent.get_or_insert_default().clone()
    }

    /// A file is read whole.
    pub(in crate::source) fn note_version(&self, path: &[u8], input: &Input, root: [u8; 32]) {
        let (Some(sent), Input::File(held, stamp)) = (&self.sent, input) else { return };
        let identity = stamp.identity;
        if identity.size >= FILE_MIN
            && let Ok(place) = name_of(held)
        {
            sent.add(SentVersion { path: path.to_vec(), root, place, identity });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_files_are_remembered() {
        let sent = SentVersions::default();
        let version = |size: u64| SentVersion {
            path: size.to_string().into_bytes(),
            root: [0; 32],
            place: b"/p".to_vec(),
            identity: Identity { size, ..Identity::default() },
        };
        let count = FILES_MAX as u64;
        (0..2 * count).for_each(|size| sent.add(version(size)));
        sent.add(version(1));
        let mut sizes: Vec<u64> = sent.take().iter().map(|version| version.identity.size).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, (count..2 * count).collect::<Vec<_>>());
        assert_eq!(sent.take(), []);
    }
}
