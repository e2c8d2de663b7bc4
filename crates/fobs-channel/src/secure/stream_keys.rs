//! The keys of a session's streams (protocol 10.1). An index is used once, and its keys cannot be derived
//! again.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::hkdf::Prk;

use super::cipher::Direction;
use super::datagram::{Opener, Ratchet, Sealer};
use super::labels::{Failures, Labels, next_secret};
use super::stream::StreamPass;

/// Indices that were passed over and may still come. A client opens streams in the order of their indices,
/// 16 at once and 64 in all, so those that are this far behind never arrive: their keys are forgotten.
const SKIPPED_MAX: usize = 1024;
/// Words of a set with a bit for each index.
const INDEX_WORDS: usize = (1 << 16) / 64;

/// The keys of streams that have not been opened yet.
pub struct StreamKeys {
    labels: Labels,
    source: Source,
    pass: StreamPass,
    failures: Failures,
}

/// What keys come from.
enum Source {
    /// First schedule: the secret of the session, extracted, and a bit for each index that was used.
    AnyIndex(Prk, Box<[u64; INDEX_WORDS]>),
    /// Second schedule.
    InOrder(IndexChain),
}

impl StreamKeys {
    pub(super) fn of_any_index(
        labels: Labels,
        extracted: Prk,
        pass: StreamPass,
        failures: Failures,
    ) -> StreamKeys {
        let source = Source::AnyIndex(extracted, Box::new([0; INDEX_WORDS]));
        StreamKeys { labels, source, pass, failures }
    }

    pub(super) fn in_order(labels: Labels, first: Prk, pass: StreamPass, failures: Failures) -> StreamKeys {
        let chain = IndexChain { labels, next: 0, secret: first, skipped: BTreeMap::new() };
        StreamKeys { labels, source: Source::InOrder(chain), pass, failures }
    }

    /// What streams begin with.
    pub fn pass(&self) -> &StreamPass {
        &self.pass
    }

    /// The keys of a stream for the end that emits `ours`; `None` if the index was used, or is too old. The
    /// "packet numbers" are the records' places, from 0.
    pub fn take(&mut self, index: u16, ours: Direction) -> Option<(Sealer, Opener)> {
        let labels = self.labels;
        let ratchets = match &mut self.source {
            Source::AnyIndex(extracted, used) => {
                let (word, bit) = (&mut used[usize::from(index) / 64], 1 << (index % 64));
                if *word & bit != 0 {
                    return None;
                }
                *word |= bit;
                let [high, low] = index.to_be_bytes();
                // 14 bytes, and no other label of the schedule is as long.
                [0, 1].map(|direction| next_secret(extracted, &[b"fobs stream", &[high, low, direction]]))
            }
            Source::InOrder(chain) => {
                let stream = chain.take(index)?;
                ["sender", "receiver"].map(|direction| labels.next(&stream, direction))
            }
        };
        let [sender, receiver] = ratchets.map(|traffic| Ratchet::of(labels, traffic));
        let (ours, theirs) = match ours {
            Direction::Sender => (sender, receiver),
            Direction::Receiver => (receiver, sender),
        };
        Some((Sealer::of(ours), Opener::of(theirs, self.failures.clone())))
    }
}

impl fmt::Debug for StreamKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::AnyIndex(..) => "any index".to_owned(),
            Source::InOrder(chain) => format!("next index {}", chain.next),
        };
        write!(f, "StreamKeys({}, {source})", self.labels.cipher.name())
    }
}

/// A chain of secrets, one for each index: one step yields the stream's secret and what the later ones come
/// from, and forgets what both came from.
struct IndexChain {
    labels: Labels,
    /// The index of `secret`; 65,536 when all are used.
    next: u32,
    secret: Prk,
    /// Secrets of streams that were passed over, the oldest first.
    skipped: BTreeMap<u16, Prk>,
}

impl IndexChain {
    /// The secret of a stream, once.
    fn take(&mut self, index: u16) -> Option<Prk> {
        if u32::from(index) < self.next {
            return self.skipped.remove(&index);
        }
        // At most 65,536 steps in a session, whatever a peer does.
        while self.next < u32::from(index) {
            let passed = self.next as u16;
            if usize::from(index - passed) <= SKIPPED_MAX {
                let secret = self.stream();
                self.skipped.insert(passed, secret);
            }
            self.step();
        }
        while self.skipped.len() > SKIPPED_MAX {
            self.skipped.pop_first();
        }
        let secret = self.stream();
        self.step();
        Some(secret)
    }

    /// The secret of the next stream.
    fn stream(&self) -> Prk {
        self.labels.next(&self.secret, "stream")
    }

    /// Forgets what the next stream's secret comes from.
    fn step(&mut self) {
        self.secret = self.labels.next(&self.secret, "next stream");
        self.next += 1;
    }
}

#[cfg(test)]
mod tests;
