//! The thread that verifies and stores: chunks come as they complete, are verified at once, and stored in
//! order.

use super::Reporter;
use super::letters::{Post, ToReceiver, ToWriter};
use super::meter::WorkMeter;
use super::thread::spawn;
use super::throttle::Throttle;
use fobs_model::error::{Error, ErrorKind};
use fobs_proto::ChunkId;
use fobs_proto::receiver::ChunkVerification;
use fobs_store::delta::Offers;
use fobs_store::{Sink, SinkEvent, Suspended, Verified, VerifyError, is_patch, needs_scratch, verify_with};
use fobs_sys::{PageBuffer, ThreadDuty, hint_scheduler};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

/// Checks a chunk; see [`verify_with`].
type Check = fn(&[u8], &mut Vec<u8>, Option<&Offers>) -> Result<Verified, VerifyError>;

struct Held {
    buffer: PageBuffer,
    len: usize,
    /// `None`: still to be verified in its turn. A compressed chunk that is early would need a second buffer
    /// until then.
    verified: Option<Verified>,
}

struct Writer {
    sink: Sink,
    /// What of this side's files a chunk may be a patch of.
    offers: Option<Offers>,
    next: ChunkId,
    held: BTreeMap<ChunkId, Held>,
    scratch: Vec<u8>,
    post: Post<ToReceiver>,
    check: Check,
    /// The receiving thread is gone: what is still to be stored is not wanted.
    deserted: bool,
    reporter: Arc<Reporter>,
    meter: Arc<WorkMeter>,
}

/// Stores until [`ToWriter::Finish`], until an error that ends the transfer, or until the receiving thread is
/// gone; returns what is kept of a transfer that did not finish. Holds at most the receiver's credit of
/// chunks.
pub(super) fn start(
    sink: Sink,
    work: Receiver<ToWriter>,
    post: Post<ToReceiver>,
    throttle: Throttle,
    reporter: Arc<Reporter>,
    meter: Arc<WorkMeter>,
) -> Result<JoinHandle<Option<Suspended>>, Error> {
    start_with(sink, work, post, throttle, reporter, meter, verify_with)
}

fn start_with(
    sink: Sink,
    work: Receiver<ToWriter>,
    post: Post<ToReceiver>,
    throttle: Throttle,
    reporter: Arc<Reporter>,
    meter: Arc<WorkMeter>,
    check: Check,
) -> Result<JoinHandle<Option<Suspended>>, Error> {
    spawn("fobs-write", move || {
        hint_scheduler(ThreadDuty::Bulk);
        let _alarm = post.alarm(ToReceiver::StoreFailed);
        meter.attach();
        let mut writer = Writer {
            offers: sink.offers(),
            sink,
            next: 0,
            held: BTreeMap::new(),
            scratch: Vec::new(),
            post: post.clone(),
            check,
            deserted: false,
            reporter,
            meter: meter.clone(),
        };
        // Letters outlive their sender: those that an ended session leaves behind are ignored.
        while !writer.deserted
            && let Ok(letter) = work.recv()
        {
            match letter {
                ToWriter::Chunk { chunk, buffer, len } => {
                    if let Err(error) = meter.at_work(|| writer.take(chunk, buffer, len)) {
                        post.post(ToReceiver::StoreFailed(error));
                        break;
                    }
                    // Afterwards, so that no verdict waits: the next chunk of the credit does.
                    meter.throttled(|| throttle.pass(len));
                }
                ToWriter::Finish => {
                    writer.finish();
                    return None;
                }
            }
        }
        writer.sink.suspend()
    })
}

impl Writer {
    /// Everything is stored.
    fn finish(self) {
        let Writer { sink, meter, post, reporter, .. } = self;
        let finish = || {
            sink.finish(&mut |event| match event {
                SinkEvent::SyncBegins => meter.sync_begins(),
                SinkEvent::SyncEnds => meter.sync_ends(),
                SinkEvent::Deleted(deleted) => reporter.deleted_here(deleted),
                SinkEvent::FileDone(_)
                | SinkEvent::FileFailed(_)
                | SinkEvent::SourceFailed(_)
                | SinkEvent::Resumed(_) => {}
            })
        };
        post.post(match meter.at_work(finish) {
            Ok((summary, closing)) => ToReceiver::Finished(summary, closing),
            Err(error) => ToReceiver::StoreFailed(error),
        });
    }

    fn take(&mut self, chunk: ChunkId, buffer: PageBuffer, len: usize) -> Result<(), Error> {
        let body = &buffer[..len];
        let verified = if chunk == self.next || needs_scratch(body) {
            None
        } else {
            match (self.check)(body, &mut self.scratch, self.offers.as_ref()) {
                Ok(verified) => {
                    self.report(chunk, ChunkVerification::Verified, verified.data_bytes());
                    Some(verified)
                }
                Err(error) => return self.reject(chunk, (buffer, len), error),
            }
        };
        self.held.insert(chunk, Held { buffer, len, verified });
        while !self.deserted
            && let Some(held) = self.held.remove(&self.next)
        {
            if !self.store(held)? {
                break;
            }
        }
        Ok(())
    }

    /// Stores the next chunk; false if it did not verify.
    fn store(&mut self, held: Held) -> Result<bool, Error> {
        let chunk = self.next;
        let body = &held.buffer[..held.len];
        let verified = match held.verified {
            Some(verified) => verified,
            None => match (self.check)(body, &mut self.scratch, self.offers.as_ref()) {
                Ok(verified) => {
                    self.report(chunk, ChunkVerification::Verified, verified.data_bytes());
                    verified
                }
                Err(error) => return self.reject(chunk, (held.buffer, held.len), error).map(|()| false),
            },
        };
        let (reporter, meter) = (&self.reporter, &self.meter);
        reporter.matched(verified.matched());
        self.sink.apply(body, verified, &self.scratch, &mut |event| match event {
            SinkEvent::FileDone(file) => reporter.file_done(file),
            SinkEvent::FileFailed(error) => reporter.failed_here(error),
            SinkEvent::SourceFailed(error) => reporter.failed(error),
            SinkEvent::Resumed(bytes) => reporter.resumed(bytes),
            SinkEvent::SyncBegins => meter.sync_begins(),
            SinkEvent::SyncEnds => meter.sync_ends(),
            SinkEvent::Deleted(deleted) => reporter.deleted_here(deleted),
        })?;
        self.next += 1;
        self.post(ToReceiver::Stored { chunk, buffer: held.buffer });
        Ok(true)
    }

    /// The sender is to send it again, unless it would send the same.
    fn reject(
        &mut self,
        chunk: ChunkId,
        (buffer, len): (PageBuffer, usize),
        why: VerifyError,
    ) -> Result<(), Error> {
        if why.is_of_another_version() {
            let message = format!("{why}; install the sender's version of fobs on this side too");
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        if is_patch(&buffer[..len]) {
            self.reporter.unusable_patch();
        }
        self.report(chunk, ChunkVerification::Mismatch, 0);
        self.post(ToReceiver::Returned { buffer });
        Ok(())
    }

    fn report(&mut self, chunk: ChunkId, verdict: ChunkVerification, bytes: u64) {
        self.reporter.add_bytes(bytes);
        self.post(ToReceiver::Verdict { chunk, verdict });
    }

    fn post(&mut self, letter: ToReceiver) {
        self.deserted |= !self.post.post(letter);
    }
}

#[cfg(test)]
mod tests;
