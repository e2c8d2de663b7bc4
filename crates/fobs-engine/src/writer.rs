//! Verifying and storing: chunks come as they complete, are verified at once, in any order, and stored in
//! order. One thread does both; where chunks wait for it, hands on other cores verify beside it, and write
//! parts of a large file at the same time where the file system takes that.

mod stock;

use self::stock::{Arrived, Awaited, Held, Step, Stock, Task, Turn, WriteTask, Written};
use super::Reporter;
use super::letters::{Post, ToReceiver};
use super::meter::WorkMeter;
use super::thread::spawn;
use super::throttle::Throttle;
use fobs_model::error::{Error, ErrorKind};
use fobs_proto::ChunkId;
use fobs_proto::receiver::ChunkVerification;
use fobs_proto::session::HANDS_MAX;
use fobs_store::delta::Offers;
use fobs_store::{
    Begun, Sink, SinkEvent, Suspended, Verified, VerifyError, is_patch, needs_scratch, verify_with,
};
use fobs_sys::{PageBuffer, ThreadDuty, cores, hint_scheduler};
use std::sync::Arc;
use std::thread::JoinHandle;

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
            // A chunk that is being written is this thread's work.
            let turn = if stock.has_begun() { meter.at_work(|| stock.turn()) } else { stock.turn() };
            let Turn { step, arrived, wants_hand } = turn;
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
                Step::Settle(written) => meter.at_work(|| self.settle(written)),
                Step::Write(task) => meter.at_work(|| {
                    task.write(&stock);
                    Ok(())
                }),
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
        self.suspend()
    }

    /// The session ends early. What is being written still counts, if that succeeds.
    fn suspend(mut self) -> Option<Suspended> {
        for written in self.checker.stock.last_written() {
            if self.settle(written).is_err() {
                break;
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

    /// Stores the next chunk, or has it written beside others.
    fn store(&mut self, held: Held) -> Result<(), Error> {
        let Held { chunk, buffer, len, verified, unpacked } = held;
        self.checker.reporter.matched(verified.matched());
        // What this thread has unpacked itself is in its own scratch.
        let is_whole = unpacked.is_some() || !needs_scratch(&buffer[..len]);
        let stock = self.checker.stock.clone();
        let verified = if self.checker.hands_max > 0 && is_whole && stock.is_busy() {
            let body = unpacked.as_deref().unwrap_or_default();
            match self.sink.begin_next(&buffer[..len], verified, body)? {
                Begun::Apart(apart) => {
                    stock.begin(WriteTask { chunk, buffer, len, unpacked, apart });
                    return Ok(());
                }
                Begun::InTurn(verified) => verified,
            }
        } else {
            verified
        };
        if !self.settle_all()? {
            return Ok(());
        }
        let (reporter, meter) = (&self.checker.reporter, &self.meter);
        let scratch = unpacked.as_ref().unwrap_or(&self.scratch);
        self.sink.apply(&buffer[..len], verified, scratch, &mut |event| tell(event, reporter, meter))?;
        self.checker.stock.is_stored(unpacked);
        self.checker.post(ToReceiver::Stored { chunk, buffer });
        Ok(())
    }

    /// Waits until all that was begun is settled; whether it is, or the session ends.
    fn settle_all(&mut self) -> Result<bool, Error> {
        let stock = self.checker.stock.clone();
        loop {
            match stock.await_writes() {
                Awaited::Nothing => return Ok(true),
                Awaited::Leave => return Ok(false),
                Awaited::Settle(written) => self.settle(written)?,
                Awaited::Write(task) => task.write(&stock),
            }
        }
    }

    /// The oldest chunk that was begun has been written.
    fn settle(&mut self, written: Written) -> Result<(), Error> {
        let Written { chunk, buffer, unpacked, result } = written;
        let (reporter, meter) = (&self.checker.reporter, &self.meter);
        self.sink.settle(result, &mut |event| tell(event, reporter, meter))?;
        self.checker.stock.is_settled(unpacked);
        self.checker.post(ToReceiver::Stored { chunk, buffer });
        Ok(())
    }
}

/// Tells the user what became of something.
fn tell(event: SinkEvent, reporter: &Reporter, meter: &WorkMeter) {
    match event {
        SinkEvent::FileDone(file) => reporter.file_done(file),
        SinkEvent::FileFailed(error) => reporter.failed_here(error),
        SinkEvent::SourceFailed(error) => reporter.failed(error),
        SinkEvent::Resumed(bytes) => reporter.resumed(bytes),
        SinkEvent::SyncBegins => meter.sync_begins(),
        SinkEvent::SyncEnds => meter.sync_ends(),
        SinkEvent::Deleted(deleted) => reporter.deleted_here(deleted),
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

    /// A hand: writes and verifies what waits until the session ends.
    fn run(&self) {
        let mut unused = Vec::new();
        while let Some(task) = self.stock.task() {
            let (arrived, mut unpacked) = match task {
                Task::Check(arrived, unpacked) => (arrived, unpacked),
                Task::Write(task) => {
                    task.write(&self.stock);
                    continue;
                }
            };
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
