//! How fast chunks go, for a source that chooses between a delta and the whole file.

use fobs_channel::control::ControlWriter;
use fobs_model::deltas::Literal;
use fobs_model::error::Result;
use fobs_model::message::Message;
use fobs_model::options::sync::Delta;
use fobs_proto::Timestamp;
use fobs_proto::congestion::PathHistory;
use fobs_store::delta::{Arrival, FineAsk, Follows, Lists, NameKey, Pays};
use fobs_store::{FilledChunk, Source};
use std::time::Duration;

/// Measures the chunks that are verified, each since the one before.
pub(super) struct Gauge {
    pays: Pays,
    lists: Option<Lists>,
    /// When the newest chunk was verified, and whether pieces were looked for in it.
    last: Option<(Timestamp, bool)>,
    literal: Literal,
}

/// How a chunk left.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Leaving {
    at: Timestamp,
    /// Nothing else was to be sent, because the receiver had not decided what.
    alone: bool,
    looked: bool,
    supposed: bool,
    tried: u64,
}

impl Gauge {
    /// Has `source` find what the receiver lists under names of this key, when the user wants that, over a
    /// path that answered the request within this time and of which this is remembered.
    pub(super) fn start(
        source: &mut Source,
        (when, names): (Delta, NameKey),
        writer: &ControlWriter,
        (answered, history): (Option<Duration>, &PathHistory),
    ) -> (Gauge, Option<Lists>) {
        let pays = Pays::new(when);
        if let (Some(time), Some(rate)) = (answered, history.link_rate)
            && history.met(time).round_trip.is_some()
        {
            pays.path_carries(rate);
        }
        let lists = (when != Delta::Never).then(|| {
            let writer = writer.clone();
            let ask = move |ask: &FineAsk| {
                let &FineAsk { row, from, len, cutting, .. } = ask;
                let (average, in_place) = (ask.wire_average(), cutting.is_in_place());
                writer.post(&Message::Closer { row, from, len, average, in_place }).is_ok()
            };
            Lists::within(source.budget(), Box::new(ask))
        });
        if let Some(lists) = &lists {
            source.match_with(lists.clone(), names, pays.clone());
        }
        (Gauge { pays, lists: lists.clone(), last: None, literal: Literal::default() }, lists)
    }

    /// A chunk is to leave behind as many as are `held`; its reader has waited for a decision, or not.
    pub(super) fn leaves(&mut self, at: Timestamp, held: u32, chunk: &FilledChunk, waited: bool) -> Leaving {
        if self.lists.is_some() {
            self.literal.add_all(&chunk.literal);
        }
        let FilledChunk { looked, supposed, tried, .. } = *chunk;
        Leaving { at, alone: waited && held == 0, looked, supposed, tried }
    }

    /// The receiver has verified a chunk with this number of bytes of files.
    pub(super) fn settled(
        &mut self,
        now: Timestamp,
        (left, data_bytes): (Leaving, u64),
        round_trip: Option<Duration>,
    ) {
        let Some(lists) = &self.lists else { return };
        // What has no datagrams has no samples of them: a chunk that took no longer bounds it.
        self.pays.round_trip(round_trip.unwrap_or(now - left.at));
        if left.supposed {
            // It says neither how fast files go whole nor how fast they are looked for.
            let (tried, took, follows) = (left.tried, Duration::ZERO, Follows::Nothing);
            self.pays.arrived(Arrival { data_bytes: 0, looked: false, tried, took, follows });
            self.last = None;
        } else if data_bytes > 0 {
            let (since, follows) = match self.last {
                _ if left.alone => (left.at, Follows::Nothing),
                Some((since, looked)) if looked == left.looked => (since, Follows::ItsLike),
                _ => (left.at, Follows::Another),
            };
            let Leaving { looked, tried, .. } = left;
            self.pays.arrived(Arrival { data_bytes, looked, tried, took: now - since, follows });
            self.last = Some((now, looked));
        }
        lists.nudge();
    }

    /// A chunk could not be made at the receiver of what it has.
    pub(super) fn was_mistaken(&self) {
        self.lists.iter().for_each(Lists::was_mistaken);
    }

    /// What is sent, by the reason, where deltas are possible.
    pub(super) fn literal(&self) -> Literal {
        self.literal
    }

    /// Tells the receiver whether its lists are of use, where that changed.
    pub(super) fn tell_of_lists(&self, writer: &ControlWriter) -> Result<()> {
        let news = self.lists.as_ref().and_then(|_| self.pays.news_of_lists());
        news.map_or(Ok(()), |wanted| writer.post(&Message::Lists { wanted }))
    }
}
