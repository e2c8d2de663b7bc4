//! Which version of each long file a destination has, as this host's user sent it, in one small file: so that
//! the sender finds that version by itself when the next one is to come (`--basis`).
//!
//! What a destination has is known by its BLAKE3 root. Each place on this host where a file with that root
//! was sent from, to whichever destination, is one where the version may be.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use fobs_channel::control::Peer;
use fobs_channel::state;
use fobs_channel::state::{AGE_MAX, now};
use fobs_store::{Remembered, SentVersion};
use fobs_sys::confine::{Errand, outside};

/// Version of the file's format; other versions are ignored.
const VERSION: u32 = 1;
/// Most versions in the file, the newest: of four transfers that each have as many as are noted of one.
const VERSIONS_MAX: usize = 1024;
/// Most places where a version is looked for: the newest.
const PLACES_MAX: usize = 8;
/// Longest file that is read, bytes: some 200 for a version, several times that with long paths.
const FILE_MAX: u64 = 4 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
struct KeptVersions {
    v: u32,
    /// The newest last.
    versions: Vec<KeptVersion>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KeptVersion {
    /// Seconds since 1970.
    at: u64,
    peer: String,
    #[serde(with = "serde_bytes")]
    destination: Vec<u8>,
    version: SentVersion,
}

/// The versions of the files at one destination.
#[derive(Debug, Clone)]
pub struct RememberedVersions {
    file: Option<PathBuf>,
    peer: String,
    destination: Vec<u8>,
}

impl RememberedVersions {
    /// In the user's file, `versions` in the state directory.
    pub fn of_the_user(peer: &Peer, destination: &[u8]) -> RememberedVersions {
        let file = state::directory().map(|directory| directory.join("versions"));
        RememberedVersions::new(file, &peer.remembered_as(), destination)
    }

    fn new(file: Option<PathBuf>, peer: &str, destination: &[u8]) -> RememberedVersions {
        RememberedVersions { file, peer: peer.to_owned(), destination: destination.to_vec() }
    }

    /// Where the versions may be that the destination has.
    pub fn recall(&self) -> Remembered {
        let mut found = Remembered::default();
        let Some(file) = self.file.clone() else { return found };
        let kept = outside(Errand::State, move || read(&file));
        for there in kept.iter().filter(|kept| self.is_here(kept)) {
            let KeptVersion { version: SentVersion { path, root, .. }, .. } = there;
            let same = kept.iter().rev().filter(|kept| kept.version.root == *root);
            for same in same.take(PLACES_MAX) {
                let SentVersion { place, identity, .. } = &same.version;
                found.add(path.clone(), (place.clone(), *identity));
            }
        }
        found
    }

    /// Keeps what the destination has from now on.
    pub fn keep(&self, sent: Vec<SentVersion>) {
        let Some(file) = self.file.clone().filter(|_| !sent.is_empty()) else { return };
        let this = self.clone();
        outside(Errand::State, move || {
            let mut kept = read(&file);
            kept.retain(|kept| !this.is_here(kept) || sent.iter().all(|new| new.path != kept.version.path));
            let (at, peer) = (now(), &this.peer);
            kept.extend(sent.into_iter().map(|version| KeptVersion {
                at,
                peer: peer.clone(),
                destination: this.destination.clone(),
                version,
            }));
            let surplus = kept.len().saturating_sub(VERSIONS_MAX);
            let versions = kept.split_off(surplus);
            if let Ok(bytes) = postcard::to_stdvec(&KeptVersions { v: VERSION, versions }) {
                state::replace(&file, &bytes);
            }
        });
    }

    fn is_here(&self, kept: &KeptVersion) -> bool {
        (&kept.peer, &kept.destination) == (&self.peer, &self.destination)
    }
}

/// What is in the file and not too old; nothing if it has none of this version.
fn read(file: &Path) -> Vec<KeptVersion> {
    let mut bytes = Vec::new();
    let whole = fobs_sys::named::open(file).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
    let bytes = whole.ok().filter(|len| *len as u64 <= FILE_MAX).map_or(&[][..], |_| &bytes);
    let mut versions = parse(bytes);
    versions.retain(|kept| now().saturating_sub(kept.at) <= AGE_MAX.as_secs());
    versions
}

fn parse(bytes: &[u8]) -> Vec<KeptVersion> {
    let kept = postcard::from_bytes::<KeptVersions>(bytes).ok().filter(|kept| kept.v == VERSION);
    kept.map(|kept| kept.versions).unwrap_or_default()
}

/// The versions in the bytes of a file.
#[cfg(any(test, feature = "testing"))]
pub fn versions(bytes: &[u8]) -> Vec<SentVersion> {
    parse(bytes).into_iter().map(|kept| kept.version).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fobs_store::Identity;

    use super::*;

    fn version(path: &str, root: u8, place: &str) -> SentVersion {
        let identity = Identity { size: 1 << 20, inode: root.into(), ..Identity::default() };
        SentVersion { path: path.into(), root: [root; 32], place: place.into(), identity }
    }

    /// The versions at a destination; the file does not exist yet.
    fn at(folder: &Path, peer: &str, destination: &[u8]) -> RememberedVersions {
        RememberedVersions::new(Some(folder.join("state/fobs/versions")), peer, destination)
    }

    fn expected(all: &[(&str, u8, &str)]) -> String {
        let mut found = Remembered::default();
        for (path, root, place) in all {
            let SentVersion { path, place, identity, .. } = version(path, *root, place);
            found.add(path, (place, identity));
        }
        format!("{found:?}")
    }

    #[test]
    fn each_destination_has_the_version_sent_last() {
        let folder = tempfile::tempdir().unwrap();
        let here = at(folder.path(), "a", b"d");
        assert!(here.recall().is_empty());
        here.keep(vec![version("w", 1, "/1/w")]);
        here.keep(vec![version("w", 2, "/2/w")]);
        at(folder.path(), "a", b"e").keep(vec![version("w", 3, "/3/w")]);
        at(folder.path(), "b", b"d").keep(vec![version("w", 4, "/4/w")]);
        assert_eq!(format!("{:?}", here.recall()), expected(&[("w", 2, "/2/w")]));
        // The same content sent elsewhere, under another name, from another place.
        at(folder.path(), "b", b"d").keep(vec![version("x", 2, "/5/x")]);
        let both = expected(&[("w", 2, "/5/x"), ("w", 2, "/2/w")]);
        assert_eq!(format!("{:?}", here.recall()), both);
    }

    #[test]
    fn the_oldest_versions_and_old_ones_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let here = at(folder.path(), "a", b"d");
        let file = here.file.clone().unwrap();
        here.keep((0..VERSIONS_MAX + 3).map(|path| version(&path.to_string(), 1, "/w")).collect());
        let kept = read(&file);
        assert_eq!(kept.len(), VERSIONS_MAX);
        assert_eq!(kept[0].version.path, b"3");
        let before = now() - AGE_MAX.as_secs() - 5;
        let old = KeptVersion { at: before, ..kept[0].clone() };
        let versions = vec![old, kept[1].clone()];
        state::replace(&file, &postcard::to_stdvec(&KeptVersions { v: VERSION, versions }).unwrap());
        assert_eq!(read(&file).len(), 1);
    }

    #[test]
    fn a_damaged_file_is_no_memory_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let here = at(folder.path(), "a", b"d");
        let file = here.file.clone().unwrap();
        here.keep(vec![version("w", 1, "/1/w")]);
        let whole = fs::read(&file).unwrap();
        let cut = (0..whole.len()).map(|len| whole[..len].to_vec());
        let huge = vec![1; FILE_MAX as usize + 1];
        // A count that is far beyond what follows it.
        let absurd = vec![1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        for content in cut.chain([huge, absurd, b"{}".to_vec()]) {
            fs::write(&file, &content).unwrap();
            assert!(here.recall().is_empty(), "{} bytes", content.len());
        }
        here.keep(vec![version("w", 1, "/1/w")]);
        assert_eq!(format!("{:?}", here.recall()), expected(&[("w", 1, "/1/w")]));
    }

    #[test]
    fn without_a_directory_nothing_is_kept_or_fails() {
        for file in [None, Some(PathBuf::from("/dev/null/fobs/versions"))] {
            let nowhere = RememberedVersions::new(file, "a", b"d");
            nowhere.keep(vec![version("w", 1, "/1/w")]);
            assert!(nowhere.recall().is_empty());
        }
    }
}
