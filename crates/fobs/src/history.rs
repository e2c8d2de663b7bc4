//! What is remembered of the paths to peers, from one transfer to the next: one small file of the user's.
//!
//! A history is a hint to a controller, which tries it before it trusts it. So nothing here fails: a file that is missing,
//! damaged or cannot be written costs a few round trips, never a transfer.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use fobs_proto::congestion::{Ceiling, PathHistory};
use serde::{Deserialize, Serialize};

use crate::control::Peer;
use crate::state::{self, AGE_MAX, now};

/// Version of the file; one of another version is left alone.
const VERSION: u32 = 1;
/// Peers that are kept: those of the newest transfers.
const PEERS_MAX: usize = 256;
/// Longest file that is read, bytes: each peer has at most 64 ceilings of some 40 bytes.
const FILE_MAX: u64 = 1 << 20;
/// Longest name of a peer, bytes.
const NAME_MAX: usize = 256;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    v: u32,
    peers: BTreeMap<String, Known>,
}

/// The path to one peer; rates in datagram bytes per second.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    /// Seconds since 1970.
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    safe_rate: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link_rate: Option<u64>,
    /// Rate, tries, failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ceilings: Vec<(u64, u32, u32)>,
}

/// The file of histories.
#[derive(Debug, Clone)]
pub(crate) struct Histories {
    file: Option<PathBuf>,
}

impl Histories {
    /// The user's own: `$XDG_STATE_HOME/fobs/paths.json`, or `~/.local/state/fobs/paths.json`; none where neither is known.
    pub(crate) fn of_the_user() -> Histories {
        Histories { file: state::directory().map(|directory| directory.join("paths.json")) }
    }

    /// What is known of the path to `peer`.
    pub(crate) fn recall(&self, peer: &str) -> PathHistory {
        let now = now();
        let kept = self.file.as_deref().map(read).unwrap_or_default();
        let fresh =
            kept.peers.get(name(peer)).filter(|path| now.saturating_sub(path.at) <= AGE_MAX.as_secs());
        fresh.map(Known::history).unwrap_or_default()
    }

    /// Keeps what a transfer found of the path to `peer`.
    pub(crate) fn keep(&self, peer: &str, history: &PathHistory) {
        let Some(file) = &self.file else { return };
        if *history == PathHistory::default() {
            return;
        }
        let mut kept = read(file);
        kept.v = VERSION;
        kept.peers.insert(name(peer).to_owned(), Known::new(now(), history));
        while kept.peers.len() > PEERS_MAX {
            let oldest = kept.peers.iter().min_by_key(|(_, path)| path.at).map(|(name, _)| name.clone());
            kept.peers.remove(&oldest.unwrap_or_default());
        }
        if let Ok(bytes) = serde_json::to_vec(&kept) {
            state::replace(file, &bytes);
        }
    }
}

/// The path to one peer, in the file of histories.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    histories: Histories,
    peer: String,
}

impl Remembered {
    /// In the user's file, by the peer's address or, through ssh, by its name.
    pub(crate) fn of_the_user(peer: &Peer) -> Remembered {
        Remembered { histories: Histories::of_the_user(), peer: state::name_of(peer) }
    }

    /// Nowhere: for tests.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Remembered {
        Remembered { histories: Histories { file: None }, peer: String::new() }
    }

    /// What is known.
    pub(crate) fn recall(&self) -> PathHistory {
        self.histories.recall(&self.peer)
    }

    /// Keeps what a transfer found.
    pub(crate) fn keep(&self, history: &PathHistory) {
        self.histories.keep(&self.peer, history);
    }
}

impl Known {
    fn new(at: u64, history: &PathHistory) -> Known {
        let ceilings = history.ceilings.iter().map(|c| (c.rate, c.tries, c.failures)).collect();
        Known { at, safe_rate: history.safe_rate, link_rate: history.link_rate, ceilings }
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
            ceilings: ceilings.take(fobs_proto::congestion::CEILINGS_MAX).collect(),
        }
    }
}

/// The file's content; nothing where it has none of this version.
fn read(file: &Path) -> Kept {
    let mut bytes = Vec::new();
    let whole = File::open(file).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes));
    let kept = match whole {
        Ok(len) if len as u64 <= FILE_MAX => serde_json::from_slice::<Kept>(&bytes).ok(),
        _ => None,
    };
    kept.filter(|kept| kept.v == VERSION).unwrap_or_default()
}

fn name(peer: &str) -> &str {
    peer.get(..NAME_MAX).unwrap_or(peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn history(rate: u64) -> PathHistory {
        PathHistory {
            safe_rate: Some(rate),
            link_rate: None,
            ceilings: vec![Ceiling { rate: 2 * rate, tries: 3, failures: 1 }],
        }
    }

    fn histories() -> (tempfile::TempDir, Histories) {
        let folder = tempfile::tempdir().unwrap();
        let file = Some(folder.path().join("state/fobs/paths.json"));
        (folder, Histories { file })
    }

    #[test]
    fn each_peer_gets_back_what_was_kept_of_it() {
        let (_folder, histories) = histories();
        assert_eq!(histories.recall("a"), PathHistory::default());
        histories.keep("a", &history(1));
        histories.keep("b", &history(2));
        histories.keep("a", &history(3));
        assert_eq!((histories.recall("a"), histories.recall("b")), (history(3), history(2)));
        assert_eq!(histories.recall("c"), PathHistory::default());
    }

    #[test]
    fn the_oldest_peers_are_forgotten_and_old_news_is_none() {
        let (_folder, histories) = histories();
        let file = histories.file.clone().unwrap();
        histories.keep("old", &history(1));
        let text = fs::read_to_string(&file).unwrap();
        let at = read(&file).peers["old"].at;
        fs::write(&file, text.replace(&at.to_string(), &(at - AGE_MAX.as_secs() - 5).to_string())).unwrap();
        assert_eq!(histories.recall("old"), PathHistory::default());
        for peer in 0..PEERS_MAX + 3 {
            histories.keep(&format!("peer {peer}"), &history(peer as u64 + 1));
        }
        let kept = read(&file);
        assert_eq!(kept.peers.len(), PEERS_MAX);
        assert!(!kept.peers.contains_key("old"));
    }

    #[test]
    fn a_file_that_is_none_is_no_history_and_is_replaced() {
        let (folder, histories) = histories();
        let file = histories.file.clone().unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let huge = vec![b' '; FILE_MAX as usize + 1];
        for content in [&b""[..], b"{", b"[1]", br#"{"v":99,"peers":{}}"#, b"\xff\xfe", &huge] {
            fs::write(&file, content).unwrap();
            assert_eq!(histories.recall("a"), PathHistory::default());
            histories.keep("a", &history(7));
            assert_eq!(histories.recall("a"), history(7));
        }
        let left: Vec<_> = fs::read_dir(folder.path().join("state/fobs")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn without_a_place_nothing_is_kept_and_nothing_fails() {
        let nowhere = Histories { file: None };
        nowhere.keep("a", &history(1));
        assert_eq!(nowhere.recall("a"), PathHistory::default());
        let blocked = Histories { file: Some(PathBuf::from("/dev/null/fobs/paths.json")) };
        blocked.keep("a", &history(1));
        assert_eq!(blocked.recall("a"), PathHistory::default());
    }
}
