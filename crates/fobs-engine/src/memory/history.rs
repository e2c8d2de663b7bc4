//! The paths to peers as earlier transfers measured them, in one small file.
//!
//! A history is a hint that a controller validates before it relies on it. A file that is missing, damaged or
//! cannot be written costs a few round trips, and is no error.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fobs_model::direction::TransferDirection;
use fobs_proto::congestion::{Ceiling, PathHistory};
use fobs_proto::session::LANES_UNCHOSEN_MAX;
use serde::{Deserialize, Serialize};

use fobs_channel::control::Peer;
use fobs_channel::state;
use fobs_channel::state::{AGE_MAX, now};
use fobs_model::options::STREAMS_MAX;
use fobs_sys::confine::{Errand, outside};

/// Version of the file's format; other versions are ignored.
const VERSION: u32 = 1;
/// Most peers in the file: those of the newest transfers.
const PEERS_MAX: usize = 256;
/// Longest file that is read, bytes: each peer has at most 64 ceilings of some 40 bytes.
const FILE_MAX: u64 = 1 << 20;
/// Longest name of a peer, bytes.
const NAME_MAX: usize = 256;
/// Older round-trip times are not used, because the available capacity changes within hours. A nightly copy
/// still benefits. RFC 9959 leaves the lifetime to the implementation.
const ROUND_TRIP_AGE_MAX: Duration = Duration::from_secs(36 * 3600);

#[derive(Debug, Default, Serialize, Deserialize)]
struct KeptPaths {
    v: u32,
    peers: BTreeMap<String, KeptPath>,
}

/// The path to one peer; rates in datagram bytes per second.
#[derive(Debug, Default, Serialize, Deserialize)]
struct KeptPath {
    /// Seconds since 1970.
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    safe_rate: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link_rate: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round_trip_us: Option<u64>,
    /// Rate, tries, failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ceilings: Vec<(u64, u32, u32)>,
    /// The best number of TCP streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    streams: Option<u32>,
    /// Lanes that copies to the peer, and those from it, should have.
    #[serde(default, skip_serializing_if = "LanesKept::is_none")]
    lanes: LanesKept,
}

/// See [`KeptPath::lanes`].
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
#[serde(default)]
struct LanesKept {
    #[serde(skip_serializing_if = "Option::is_none")]
    forth: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    back: Option<u8>,
}

impl LanesKept {
    fn is_none(&self) -> bool {
        self.forth.is_none() && self.back.is_none()
    }

    fn of(&mut self, direction: TransferDirection) -> &mut Option<u8> {
        match direction {
            TransferDirection::Push => &mut self.forth,
            TransferDirection::Pull => &mut self.back,
        }
    }
}

/// The path to one peer and the file that keeps it, if the user has a state directory.
#[derive(Debug, Clone)]
pub struct RememberedPath {
    file: Option<PathBuf>,
    peer: String,
}

impl RememberedPath {
    /// In the user's file, `paths.json` in the state directory.
    pub fn of_the_user(peer: &Peer) -> RememberedPath {
        RememberedPath::new(
            state::directory().map(|directory| directory.join("paths.json")),
            &peer.remembered_as(),
        )
    }

    /// Kept nowhere.
    pub fn nowhere() -> RememberedPath {
        RememberedPath::new(None, "")
    }

    fn new(file: Option<PathBuf>, peer: &str) -> RememberedPath {
        RememberedPath { file, peer: peer.get(..NAME_MAX).unwrap_or(peer).to_owned() }
    }

    /// The history. The round-trip time is returned once: of simultaneous transfers only one may resume at
    /// the remembered rate, and none after one that failed.
    pub(crate) fn recall(&self) -> PathHistory {
        let path = self.clone();
        outside(Errand::State, move || path.recall_here())
    }

    fn recall_here(&self) -> PathHistory {
        let Some(file) = &self.file else { return PathHistory::default() };
        let mut kept = read(file);
        let Some(path) = kept.peers.get_mut(&self.peer) else { return PathHistory::default() };
        let age = now().saturating_sub(path.at);
        if age > AGE_MAX.as_secs() {
            return PathHistory::default();
        }
        let mut history = path.history();
        if path.round_trip_us.take().is_some() {
            history.round_trip = history.round_trip.filter(|_| age <= ROUND_TRIP_AGE_MAX.as_secs());
            write(file, &kept);
        }
        history
    }

    /// Keeps what a transfer measured.
    pub(crate) fn keep(&self, history: &PathHistory) {
        let Some(file) = &self.file else { return };
        if *history == PathHistory::default() {
            return;
        }
        let newest = KeptPath::new(now(), history);
        self.change(file, move |path| {
            *path = KeptPath { streams: path.streams, lanes: path.lanes, ..newest }
        });
    }

    /// The best number of TCP streams, as an earlier transfer found it.
    pub(crate) fn recall_streams(&self) -> Option<u32> {
        let file = self.file.clone()?;
        let kept = outside(Errand::State, move || read(&file));
        let path = kept.peers.get(&self.peer)?;
        let is_fresh = now().saturating_sub(path.at) <= AGE_MAX.as_secs();
        path.streams.filter(|count| is_fresh && (1..=STREAMS_MAX).contains(count))
    }

    /// Keeps the best number of TCP streams.
    pub(crate) fn keep_streams(&self, count: u32) {
        let Some(file) = &self.file else { return };
        self.change(file, move |path| (path.streams, path.at) = (Some(count), now()));
    }

    /// How many lanes a copy in this direction should have, as an earlier one found out.
    pub fn recall_lanes(&self, direction: TransferDirection) -> Option<u8> {
        let file = self.file.clone()?;
        let mut kept = outside(Errand::State, move || read(&file));
        let path = kept.peers.get_mut(&self.peer)?;
        let is_fresh = now().saturating_sub(path.at) <= AGE_MAX.as_secs();
        path.lanes.of(direction).filter(|count| is_fresh && (1..=LANES_UNCHOSEN_MAX).contains(count))
    }

    /// Keeps how many it should have.
    pub fn keep_lanes(&self, direction: TransferDirection, count: u8) {
        let Some(file) = &self.file else { return };
        // One is what a path has of which nothing is known.
        if count <= 1 && self.recall_lanes(direction).is_none() {
            return;
        }
        self.change(file, move |path| {
            *path.lanes.of(direction) = Some(count).filter(|count| *count > 1);
            path.at = now();
        });
    }

    /// Changes what is kept of this peer.
    fn change(&self, file: &Path, change: impl FnOnce(&mut KeptPath) + Send + 'static) {
        let (file, peer) = (file.to_owned(), self.peer.clone());
        outside(Errand::State, move || {
            let mut kept = read(&file);
            kept.v = VERSION;
            change(kept.peers.entry(peer).or_default());
            while kept.peers.len() > PEERS_MAX {
                let oldest = kept.peers.iter().min_by_key(|(_, path)| path.at).map(|(name, _)| name.clone());
                kept.peers.remove(&oldest.unwrap_or_default());
            }
            write(&file, &kept);
        });
    }
}

impl KeptPath {
    fn new(at: u64, history: &PathHistory) -> KeptPath {
        let ceilings = history.ceilings.iter().map(|c| (c.rate, c.tries, c.failures)).collect();
        let round_trip = history.round_trip.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        KeptPath {
            at,
            safe_rate: history.safe_rate,
            link_rate: history.link_rate,
            round_trip_us: round_trip,
            ceilings,
            streams: None,
            lanes: LanesKept::default(),
        }
    }

    fn history(&self) -> PathHistory {
        let ceilings = self.ceilings.iter().map(|(rate, tries, failures)| Ceiling {
            rate: *rate,
            tries: *tries,
            failures: *failures,
        });
        PathHistory {
            safe_rate: self.safe_rate,
            link_rate: self.link_rate,
            round_trip: self.round_trip_us.map(Duration::from_micros),
            ceilings: ceilings.take(fobs_proto::congestion::CEILINGS_MAX).collect(),
        }
    }
}

fn write(file: &Path, kept: &KeptPaths) {
    if let Ok(bytes) = serde_json::to_vec(kept) {
        state::replace(file, &bytes);
    }
}

/// The file's content; empty if it has none of this version.
fn read(file: &Path) -> KeptPaths {
    let mut bytes = Vec::new();
    let whole = fobs_sys::named::open(file).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
    match whole {
        Ok(len) if len as u64 <= FILE_MAX => parse(&bytes),
        _ => KeptPaths::default(),
    }
}

fn parse(bytes: &[u8]) -> KeptPaths {
    let kept = serde_json::from_slice::<KeptPaths>(bytes).ok();
    kept.filter(|kept| kept.v == VERSION).unwrap_or_default()
}

/// The histories in the bytes of a file.
#[cfg(any(test, feature = "testing"))]
pub fn histories(bytes: &[u8]) -> Vec<PathHistory> {
    parse(bytes).peers.values().map(KeptPath::history).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn history(rate: u64) -> PathHistory {
        PathHistory {
            safe_rate: Some(rate),
            link_rate: None,
            round_trip: None,
            ceilings: vec![Ceiling { rate: 2 * rate, tries: 3, failures: 1 }],
        }
    }

    /// A path in a new directory; the file does not exist yet.
    fn file() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/fobs/paths.json");
        (folder, file)
    }

    fn path(file: &Path, peer: &str) -> RememberedPath {
        RememberedPath::new(Some(file.to_owned()), peer)
    }

    #[test]
    fn each_peer_has_a_history_of_its_own() {
        let (_folder, file) = file();
        assert_eq!(path(&file, "a").recall(), PathHistory::default());
        path(&file, "a").keep(&history(1));
        path(&file, "b").keep(&history(2));
        path(&file, "a").keep(&history(3));
        assert_eq!((path(&file, "a").recall(), path(&file, "b").recall()), (history(3), history(2)));
        assert_eq!(path(&file, "c").recall(), PathHistory::default());
    }

    #[test]
    fn a_round_trip_is_used_once_and_not_after_36_hours() {
        let (_folder, file) = file();
        let found = PathHistory { round_trip: Some(Duration::from_micros(65_170)), ..history(1) };
        path(&file, "b").keep(&found);
        path(&file, "a").keep(&found);
        assert_eq!(path(&file, "a").recall(), found);
        assert_eq!(path(&file, "a").recall(), history(1), "another transfer at the same time");
        assert_eq!(path(&file, "b").recall(), found, "taken from another peer");
        path(&file, "a").keep(&found);
        let text = fs::read_to_string(&file).unwrap();
        let at = read(&file).peers["a"].at;
        let before = at - ROUND_TRIP_AGE_MAX.as_secs() - 5;
        fs::write(&file, text.replace(&at.to_string(), &before.to_string())).unwrap();
        assert_eq!(path(&file, "a").recall(), history(1), "too old");
    }

    #[test]
    fn the_number_of_streams_is_kept_beside_the_history() {
        let (_folder, file) = file();
        assert_eq!(path(&file, "a").recall_streams(), None);
        path(&file, "a").keep_streams(12);
        path(&file, "a").keep(&history(3));
        path(&file, "b").keep_streams(STREAMS_MAX + 1);
        assert_eq!((path(&file, "a").recall_streams(), path(&file, "a").recall()), (Some(12), history(3)));
        assert_eq!(path(&file, "b").recall_streams(), None, "no transfer has as many");
        path(&file, "a").keep_streams(5);
        assert_eq!((path(&file, "a").recall_streams(), path(&file, "a").recall()), (Some(5), history(3)));
        let at = read(&file).peers["a"].at;
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace(&at.to_string(), &(at - AGE_MAX.as_secs() - 5).to_string())).unwrap();
        assert_eq!(path(&file, "a").recall_streams(), None, "too old");
    }

    #[test]
    fn the_number_of_lanes_is_kept_for_each_direction() {
        use TransferDirection::{Pull, Push};
        let (_folder, file) = file();
        path(&file, "a").keep_lanes(Push, 1);
        assert!(!file.exists(), "there is nothing to remember");
        path(&file, "a").keep_lanes(Push, 3);
        path(&file, "a").keep(&history(3));
        assert_eq!(
            (path(&file, "a").recall_lanes(Push), path(&file, "a").recall_lanes(Pull)),
            (Some(3), None)
        );
        path(&file, "a").keep_lanes(Pull, LANES_UNCHOSEN_MAX + 1);
        path(&file, "a").keep_lanes(Push, 1);
        assert_eq!((path(&file, "a").recall_lanes(Push), path(&file, "a").recall_lanes(Pull)), (None, None));
        assert_eq!(path(&file, "a").recall(), history(3));
    }

    #[test]
    fn files_of_older_versions_are_read() {
        let (_folder, file) = file();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let now = now();
        fs::write(&file, format!(r#"{{"v":1,"peers":{{"a":{{"at":{now},"link_rate":7}}}}}}"#)).unwrap();
        let known = PathHistory { link_rate: Some(7), ..PathHistory::default() };
        assert_eq!(path(&file, "a").recall(), known);
    }

    #[test]
    fn the_oldest_peers_and_old_entries_are_dropped() {
        let (_folder, file) = file();
        path(&file, "old").keep(&history(1));
        let text = fs::read_to_string(&file).unwrap();
        let at = read(&file).peers["old"].at;
        fs::write(&file, text.replace(&at.to_string(), &(at - AGE_MAX.as_secs() - 5).to_string())).unwrap();
        assert_eq!(path(&file, "old").recall(), PathHistory::default());
        for peer in 0..PEERS_MAX + 3 {
            path(&file, &format!("peer {peer}")).keep(&history(peer as u64 + 1));
        }
        let kept = read(&file);
        assert_eq!(kept.peers.len(), PEERS_MAX);
        assert!(!kept.peers.contains_key("old"));
    }

    #[test]
    fn a_damaged_file_is_no_history_and_is_replaced() {
        let (folder, file) = file();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let huge = vec![b' '; FILE_MAX as usize + 1];
        for content in [&b""[..], b"{", b"[1]", br#"{"v":99,"peers":{}}"#, b"\xff\xfe", &huge] {
            fs::write(&file, content).unwrap();
            assert_eq!(path(&file, "a").recall(), PathHistory::default());
            path(&file, "a").keep(&history(7));
            assert_eq!(path(&file, "a").recall(), history(7));
        }
        let left: Vec<_> = fs::read_dir(folder.path().join("state/fobs")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn without_a_directory_nothing_is_kept_or_fails() {
        for nowhere in [RememberedPath::nowhere(), path(Path::new("/dev/null/fobs/paths.json"), "a")] {
            nowhere.keep(&history(1));
            assert_eq!(nowhere.recall(), PathHistory::default());
        }
    }
}
