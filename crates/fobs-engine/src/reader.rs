//! The thread that reads: fills empty chunk buffers from the source, as many as the sender grants. Of a
//! large file, hands on other cores read the next parts meanwhile.

mod hands;

use self::hands::{Awaited, Hands, Lent};
use super::letters::{Filled, Grant, Post, ToSender};
use super::meter::WorkMeter;
use super::thread::spawn;
use super::throttle::Throttle;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_proto::session::HANDS_MAX;
use fobs_store::{FilledChunk, Source, stretch_len};
use fobs_sys::{PageBuffer, ThreadDuty, cores, hint_scheduler};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How long to wait for a decision on what to send. Then a chunk with nothing in it is sent, so that a
/// session in which the receiver first compares long files is known to work, and is not taken for a blocked
/// one.
const DECISION_WAIT: Duration = Duration::from_secs(1);

struct Reading {
    source: Source,
    grants: Receiver<Grant>,
    /// Buffers into whose fronts hands read what the next chunks hold, and how much that may be.
    lent: VecDeque<(Awaited, usize)>,
    /// For the chunks after those.
    empty: VecDeque<Grant>,
    hands: Hands,
    meter: Arc<WorkMeter>,
}

/// How many hands a reader may have: one for each core but its own.
pub(super) fn hands_max() -> usize {
    HANDS_MAX.min(cores() - 1)
}

/// Reads until the final chunk, an error, or the sender's end.
pub(super) fn start(
    source: Source,
    grants: Receiver<Grant>,
    post: Post<ToSender>,
    throttle: Throttle,
    meter: Arc<WorkMeter>,
) -> Result<()> {
    spawn("fobs-read", move || {
        hint_scheduler(ThreadDuty::Bulk);
        let _alarm = post.alarm(ToSender::ReadFailed);
        meter.attach();
        let (lent, empty) = (VecDeque::new(), VecDeque::new());
        let mut reading =
            Reading { source, grants, lent, empty, hands: Hands::at_most(hands_max()), meter: meter.clone() };
        while let Some(next) = reading.next() {
            let letter = match reading.fill(next) {
                Ok(filled) => {
                    meter.throttled(|| throttle.pass(filled.chunk.len));
                    ToSender::Filled(Box::new(filled))
                }
                Err(error) => ToSender::ReadFailed(error),
            };
            let last = match &letter {
                ToSender::Filled(filled) => filled.chunk.is_final,
                _ => true,
            };
            if !post.post(letter) || last {
                return;
            }
        }
    })
    .map(|_| ())
}

/// A buffer for the next chunk.
enum Next {
    Empty(Grant),
    /// A hand has begun to read into it.
    Lent {
        awaited: Awaited,
        data_max: usize,
    },
}

impl Reading {
    /// The buffer of the next chunk; hands have what they can do of those after it. `None`: the sender has
    /// ended.
    fn next(&mut self) -> Option<Next> {
        if self.lent.is_empty() && self.empty.is_empty() {
            self.empty.push_back(self.grants.recv().ok()?);
        }
        let next = match self.lent.pop_front() {
            Some((awaited, data_max)) => Next::Lent { awaited, data_max },
            None => Next::Empty(self.empty.pop_front()?),
        };
        if self.hands.are_possible() {
            self.empty.extend(self.grants.try_iter());
            self.lend(&next);
        }
        Some(next)
    }

    /// Lends buffers to the hands, as far as it is known what will be in them.
    fn lend(&mut self, next: &Next) {
        let of_next = match next {
            Next::Empty(grant) => grant.data_max,
            Next::Lent { data_max, .. } => *data_max,
        };
        let lent = self.lent.iter().map(|(_, data_max)| *data_max);
        let mut before: usize = lent.chain([of_next]).map(stretch_len).sum();
        while let Some(grant) = self.empty.front()
            && let Some(stretch) = self.source.stretch(before as u64, grant.data_max)
            && let Some(Grant { buffer, data_max }) = self.empty.pop_front()
        {
            before += stretch_len(data_max);
            self.lent.push_back((self.hands.read(buffer, stretch), data_max));
        }
    }

    fn fill(&mut self, next: Next) -> Result<Filled> {
        let waited = self.source.await_decision(DECISION_WAIT)?;
        let meter = self.meter.clone();
        let (buffer, chunk) = meter.at_work(|| self.read(next))?;
        let is_final = chunk.is_final;
        Ok(Filled {
            buffer,
            chunk,
            known: self.source.known(),
            root: is_final.then(|| self.source.root()),
            waited,
            removal: if is_final { self.source.take_removal() } else { None },
        })
    }

    fn read(&mut self, next: Next) -> Result<(PageBuffer, FilledChunk)> {
        let (mut buffer, data_max, read) = match next {
            Next::Empty(Grant { buffer, data_max }) => (buffer, data_max, None),
            Next::Lent { awaited, data_max } => {
                let Lent { buffer, read, cpu_us } = self.hands.take_back(&awaited).ok_or_else(hand_failed)?;
                self.meter.was_helped(cpu_us / self.hands.count().max(1) as u64);
                (buffer, data_max, read)
            }
        };
        let chunk = self.source.next_chunk_of(&mut buffer, data_max, read)?;
        Ok((buffer, chunk))
    }
}

fn hand_failed() -> Error {
    Error::new(ErrorKind::Internal, "a thread that reads failed; report this bug")
}

#[cfg(test)]
mod tests;
