//! Verifying and storing: chunks come as they complete, are verified at once, in any order, and stored in
//! order. One thread does both; where chunks wait for it, hands on other cores verify beside it.

mod stock;

use self::stock::{Arrived, Held, Step, Stock, Turn};
use super::Reporter;
use super::letters::{Post, ToReceiver};
use super::meter::WorkMeter;
use super::thread::spawn;
use super::throttle::Throttle;
use fobs_model::error::{Error, ErrorKind};
use fobs_proto::ChunkId;
use fobs_proto::receiver::ChunkVerification;
use fobs_store::delta::Offers;
use fobs_store::{Sink, SinkEvent, Suspended, Verified, VerifyError, is_patch, verify_with};
use fobs_sys::{PageBuffer, ThreadDuty, cores, hint_scheduler};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Most hands of a session. One verifies 15 Gbit/s or more, and a kernel writes no file from several
/// threads at once, so eight are more than one thread can store.
const HANDS_MAX: usize = 8;

/// Checks a chunk; see [`verify_with`].
type Check = fn(&[u8], &mut Vec<u8>, Option<&Offers>) -> Result<Verified, VerifyError>;

/// The receiving thread's way to the thread that stores. Dropped, it ends that.
pub(super) struct Store(Arc<Stock>);

impl Store {
    /// A complete chunk, to be verified and, in its turn, stored.
    pub(super) fn chunk(&self, chunk: ChunkId, buffer: PageBuffer, len: usize) {
        self.0.arrives(chunk, buffer, len);
    }

    /// Everything is stored.
    pub(super) fn finish(&self) {
        self.0.finish();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What every thread that verifies has.
#[derive(Clone)]
struct Checker {
    stock: Arc<Stock>,
    /// What of this side's files a chunk may be a patch of.
    offers: Option<Offers>,
    check: Check,
    post: Post<ToReceiver>,
    reporter: Arc<Reporter>,
    /// How many hands there may be: one for each core but that of the storing thread.
    hands_max: usize,
}

struct Writer {
    sink: Sink,
    checker: Checker,
    scratch: Vec<u8>,
    meter: Arc<WorkMeter>,
}

/// Stores until [`Store::finish`], until an error that ends the transfer, or until the receiving thread is
/// gone; the thread returns what is kept of a transfer that did not finish. Holds at most the receiver's
/// credit of chunks.
pub(super) fn start(
    sink: Sink,
    post: Post<ToReceiver>,
    throttle: Throttle,
    reporter: Arc<Reporter>,
    meter: Arc<WorkMeter>,
) -> Result<(Store, JoinHandle<Option<Suspended>>), Error> {
    start_with(sink, post, throttle, reporter, meter, verify_with)
}

fn start_with(
    sink: Sink,
    post: Post<ToReceiver>,
    throttle: Throttle,
    reporter: Arc<Reporter>,
    meter: Arc<WorkMeter>,
    check: Check,
) -> Result<(Store, JoinHandle<Option<Suspended>>), Error> {
    let stock = Stock::new();
    let hands_max = HANDS_MAX.min(cores() - 1);
    let checker = Checker { stock: stock.clone(), offers: sink.offers(), check, post, reporter, hands_max };
    let storing = spawn("fobs-write", move || {
        hint_scheduler(ThreadDuty::Bulk);
        let _alarm = checker.post.alarm(ToReceiver::StoreFailed);
        meter.attach();
        Writer { sink, checker, scratch: Vec::new(), meter }.run(&throttle)
    })?;
    Ok((Store(stock), storing))
}

impl Writer {
    fn run(mut self, throttle: &Throttle) -> Option<Suspended> {
        let (stock, meter) = (self.checker.stock.clone(), self.meter.clone());
        loop {
            let Turn { step, arrived, wants_hand } = stock.turn();
            if wants_hand {
                self.checker.start_hand();
            }
            let done = match step {
                Step::Finish => {
                    self.finish();
                    stock.leave();
                    return None;
                }
                Step::Leave => break,
                Step::Check(arrived) => meter.at_work(|| self.check(arrived)),
                Step::Store(held) => meter.at_work(|| self.store(held)),
            };
            if let Err(error) = done {
                self.checker.fail(error);
                break;
            }
            if arrived > 0 {
                // Afterwards, so that no verdict waits: the next chunk of the credit does.
                meter.throttled(|| throttle.pass(arrived));
            }
        }
        self.sink.suspend()
    }

    /// Everything is stored.
    fn finish(self) {
        let Writer { sink, meter, checker: Checker { post, reporter, .. }, .. } = self;
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

    /// Verifies a chunk, and stores it if it is the next: it is in the CPU's cache.
    fn check(&mut self, arrived: Arrived) -> Result<(), Error> {
        let Some(held) = self.checker.check(arrived, &mut self.scratch)? else { return Ok(()) };
        match self.checker.stock.is_next(held) {
            Some(next) => self.store(next),
            None => Ok(()),
        }
    }

    /// Stores the next chunk.
    fn store(&mut self, held: Held) -> Result<(), Error> {
        let Held { chunk, buffer, len, verified, unpacked } = held;
        let (reporter, meter) = (&self.checker.reporter, &self.meter);
        reporter.matched(verified.matched());
        let scratch = unpacked.as_ref().unwrap_or(&self.scratch);
        self.sink.apply(&buffer[..len], verified, scratch, &mut |event| match event {
            SinkEvent::FileDone(file) => reporter.file_done(file),
            SinkEvent::FileFailed(error) => reporter.failed_here(error),
            SinkEvent::SourceFailed(error) => reporter.failed(error),
            SinkEvent::Resumed(bytes) => reporter.resumed(bytes),
            SinkEvent::SyncBegins => meter.sync_begins(),
            SinkEvent::SyncEnds => meter.sync_ends(),
            SinkEvent::Deleted(deleted) => reporter.deleted_here(deleted),
        })?;
        self.checker.stock.is_stored(unpacked);
        self.checker.post(ToReceiver::Stored { chunk, buffer });
        Ok(())
    }
}

impl Checker {
    /// Starts one more hand, if there may be one.
    fn start_hand(&self) {
        if self.stock.admit_hand(self.hands_max) {
            let hand = self.clone();
            // The storing thread then does all.
            let _ = spawn("fobs-verify", move || {
                hint_scheduler(ThreadDuty::Bulk);
                let _alarm = hand.post.alarm(ToReceiver::StoreFailed);
                hand.run();
            });
        }
    }

    /// A hand: verifies what waits until the session ends.
    fn run(&self) {
        let mut unused = Vec::new();
        while let Some((arrived, mut unpacked)) = self.stock.task() {
            match self.check(arrived, unpacked.as_mut().unwrap_or(&mut unused)) {
                Ok(Some(held)) => self.stock.is_verified(Held { unpacked, ..held }),
                Ok(None) => self.stock.is_rejected(unpacked),
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Verifies a chunk and says what came out. `None`: it is to come again.
    fn check(&self, arrived: Arrived, scratch: &mut Vec<u8>) -> Result<Option<Held>, Error> {
        let Arrived { chunk, buffer, len, .. } = arrived;
        match (self.check)(&buffer[..len], scratch, self.offers.as_ref()) {
            Ok(verified) => {
                self.report(chunk, ChunkVerification::Verified, verified.data_bytes());
                Ok(Some(Held { chunk, buffer, len, verified, unpacked: None }))
            }
            Err(error) => self.reject(chunk, (buffer, len), error).map(|()| None),
        }
    }

    /// The sender is to send it again, unless it would send the same.
    fn reject(
        &self,
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

    fn report(&self, chunk: ChunkId, verdict: ChunkVerification, bytes: u64) {
        self.reporter.add_bytes(bytes);
        self.post(ToReceiver::Verdict { chunk, verdict });
    }

    /// Ends the session.
    fn fail(&self, error: Error) {
        self.post.post(ToReceiver::StoreFailed(error));
        self.stock.leave();
    }

    fn post(&self, letter: ToReceiver) {
        if !self.post.post(letter) {
            self.stock.leave();
        }
    }
}

#[cfg(test)]
mod tests;
