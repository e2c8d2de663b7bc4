//! What the path carries, for a source that chooses between a delta and the whole file.

use fobs_model::options::sync::Delta;
use fobs_proto::Timestamp;
use fobs_proto::congestion::PathHistory;
use fobs_store::Source;
use fobs_store::delta::{Lists, NameKey, Pays};
use std::time::Duration;

/// Least data of which a rate means something, or the time after which less does, bytes: the first chunks
/// come with the opening of the path.
const BYTES_MIN: u64 = 3 << 20;
const SPAN_MIN: Duration = Duration::from_millis(50);

/// Measures while chunks leave whole, one behind the other: patches leave gaps that are not the path's.
pub(super) struct Gauge {
    pays: Pays,
    /// Since when that is so, and the bytes that the receiver has verified meanwhile.
    since: Option<Timestamp>,
    bytes: u64,
}

impl Gauge {
    /// Has `source` find what the receiver lists under names of this key, when the user wants that, over a
    /// path that answered the request within this time and of which this is remembered.
    pub(super) fn start(
        source: &mut Source,
        (when, names): (Delta, NameKey),
        (answered, history): (Option<Duration>, &PathHistory),
    ) -> (Gauge, Option<Lists>) {
        let pays = Pays::new(when);
        answered.into_iter().for_each(|time| pays.round_trip(time));
        if let (Some(time), Some(rate)) = (answered, history.link_rate)
            && history.met(time).round_trip.is_some()
        {
            pays.path_carries(rate);
        }
        let lists = (when != Delta::Never).then(|| Lists::within(source.budget()));
        if let Some(lists) = &lists {
            source.match_with(lists.clone(), names, pays.clone());
        }
        (Gauge { pays, since: None, bytes: 0 }, lists)
    }

    /// A chunk is to leave behind as many as are `held`.
    pub(super) fn leaves(&mut self, now: Timestamp, held: u32, is_patch: bool) {
        match (is_patch, self.since) {
            (true, _) => self.since = None,
            (false, None) => (self.since, self.bytes) = (Some(now), 0),
            // Nothing was left to send: the time until now was the reader's.
            (false, Some(_)) if held == 0 => (self.since, self.bytes) = (Some(now), 0),
            (false, Some(_)) => {}
        }
    }

    /// The receiver has verified a chunk of `len` bytes.
    pub(super) fn settled(&mut self, now: Timestamp, len: u32, round_trip: Option<Duration>) {
        round_trip.into_iter().for_each(|time| self.pays.round_trip(time));
        let Some(since) = self.since else { return };
        self.bytes += u64::from(len);
        let span = now - since;
        if (self.bytes >= BYTES_MIN || span >= SPAN_MIN) && !span.is_zero() {
            self.pays.path_carries((self.bytes as f64 / span.as_secs_f64()) as u64);
        }
    }
}
