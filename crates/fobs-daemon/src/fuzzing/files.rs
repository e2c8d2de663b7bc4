//! Files that the program keeps for itself or is given to explain.

use fobs_proto::congestion::CEILINGS_MAX;

use fobs_engine::memory::{history, versions};
use fobs_explain::{Trace, explain};

/// Histories of paths, and versions of files that were sent.
pub(super) fn paths(input: &[u8]) {
    for history in history::histories(input) {
        assert!(history.ceilings.len() <= CEILINGS_MAX);
    }
    for version in versions::versions(input) {
        assert!(version.path.len() + version.place.len() <= input.len());
    }
}

/// A trace, and its explanation.
pub(super) fn trace(input: &[u8]) {
    let Ok(trace) = Trace::read(input) else { return };
    let explanation = explain(&trace);
    assert!((0.0..=1.0).contains(&explanation.share), "{explanation:?}");
    let mut bytes = Vec::new();
    if trace.write(&mut bytes).is_ok() {
        Trace::read(&bytes[..]).expect("our own traces can be read");
    }
}
