//! What an earlier run stored and the device may not have kept. Its names and times may be there without its
//! content, and a sync that compares these would take it for whole.

use std::os::fd::AsFd;

use super::Strays;
use super::book::Loaded;
use super::format::{HEADER_LEN, Salt, decode_doubt, encode_doubt};
use super::store::Store;
use crate::at;

/// The files that may be so: those made since the journal was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// When the journal's file was made; `None` where its file system does not say.
    since: Option<(i64, u32)>,
}

impl Doubt {
    /// Since that journal was made.
    pub(super) fn since(journal: impl AsFd) -> Doubt {
        Doubt { since: at::birth(journal) }
    }

    /// Whether a file may be one of them.
    pub(crate) fn includes(&self, file: impl AsFd) -> bool {
        match (self.since, at::birth(file)) {
            (Some(since), Some(born)) => born >= since,
            _ => true,
        }
    }
}

/// Whether there is reason for it: a journal of an earlier run says nothing, its newest state was written
/// under another mount, is torn or was given up, or a run found that before and did not come to its end.
pub(super) fn is_due(loaded: Option<&Loaded>, store: &dyn Store, strays: Strays) -> bool {
    let Some(loaded) = loaded else { return strays == Strays::Possible };
    let mut header = [0; HEADER_LEN];
    let filled = store.read_at(&mut header, 0).unwrap_or(0);
    loaded.is_behind || decode_doubt(&loaded.origin.salt, &header[..filled]) == Some(true)
}

/// Has it outlive this run.
pub(super) fn remember(salt: &Salt, store: &dyn Store) {
    let (bytes, at) = encode_doubt(salt, true);
    // Without it a run that goes on from one that is killed trusts names and times again.
    let _ = store.write_at(&bytes, at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_was_there_before_the_journal_is_not_doubted() {
        let place = tempfile::tempdir().expect("a directory");
        let make = |name: &str| File::create(place.path().join(name)).expect("a file");
        let before = make("before");
        if at::birth(&before).is_none() {
            return;
        }
        // Births are as coarse as the kernel's clock.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let journal = make("journal");
        let doubt = Doubt::since(&journal);
        assert!(!doubt.includes(&before) && doubt.includes(&journal) && doubt.includes(make("after")));
        assert!(Doubt { since: None }.includes(&before), "where the file system does not say");
    }
}
