//! The thread that compares the sender's listing with the destination and sends the decisions.

use super::{BATCHES_MAX, violation};
use crate::Reporter;
use crate::letters::{Post, Routed, ToReceiver};
use crate::thread::spawn;
use fobs_channel::control::ControlWriter;
use fobs_model::budget::{Charge, Keeps, MemoryBudget};
use fobs_model::error::Result;
use fobs_model::event::FileError;
use fobs_model::message::{Bytes, Message};
use fobs_store::StartOverReason;
use fobs_store::delta::Offers;
use fobs_store::survey::{
    CHOICES_LEN, Changes, Choice, Compare, Decision, PathQuestions, Row, Way, decode_batch,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// A survey in work. Dropped with the session, it ends its thread.
pub(crate) struct Answering(Arc<AtomicBool>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The way of listings to the thread.
pub(crate) struct Inbox {
    batches: SyncSender<Batch>,
    over: bool,
    budget: MemoryBudget,
    reporter: Arc<Reporter>,
    /// Where questions about paths are answered, if any are asked.
    questions: Option<PathQuestions>,
}

struct Batch {
    first: u64,
    bytes: Vec<u8>,
    last: bool,
    kept: Charge,
}

impl Inbox {
    /// Takes a listing.
    pub(crate) fn take(&mut self, first: u64, bytes: Vec<u8>, last: bool) -> Routed {
        if std::mem::replace(&mut self.over, last) {
            return Routed::Broken(violation("it lists more after the end"));
        }
        if !bytes.is_empty() {
            self.reporter.advance();
        }
        let mut kept = self.budget.charge(Keeps::Survey);
        if let Err(spent) = kept.grow(bytes.capacity()) {
            return Routed::Broken(spent.into());
        }
        match self.batches.try_send(Batch { first, bytes, last, kept }) {
            Ok(()) => Routed::Taken,
            Err(TrySendError::Full(_)) => Routed::Broken(violation("it lists more than is decided")),
            // The thread has posted why, or the session is over.
            Err(TrySendError::Disconnected(_)) => Routed::Taken,
        }
    }
}

impl Inbox {
    /// Takes the answer to a question about a path.
    pub(crate) fn path_is_there(&self, there: bool) -> Routed {
        let unasked = Err("it answers about paths, and nobody asked");
        let taken = self.questions.as_ref().map_or(unasked, |questions| questions.answer(there));
        taken.map_or_else(|what| Routed::Broken(violation(what)), |()| Routed::Taken)
    }
}

impl Answering {
    /// Answers with what `compare` decides.
    pub(crate) fn start(
        mut compare: Compare,
        (writer, reporter): (ControlWriter, Arc<Reporter>),
        post: Post<ToReceiver>,
    ) -> Result<(Answering, Inbox)> {
        let questions = compare.wants_path_questions().then(|| {
            let writer = writer.clone();
            let ask =
                move |path: &[u8]| writer.send(&Message::HasPath { path: Bytes(path.to_vec()) }).is_ok();
            PathQuestions::new(Box::new(ask))
        });
        questions.iter().for_each(|questions| compare.asks(questions.clone()));
        let (batches, waiting) = sync_channel(BATCHES_MAX);
        let budget = compare.budget().clone();
        let over = Arc::new(AtomicBool::new(false));
        let told = reporter.clone();
        let mut answerer = Answerer {
            compare,
            writer,
            reporter,
            over: over.clone(),
            rows: 0,
            decided: 0,
            choices: Vec::new(),
        };
        spawn("fobs-survey", move || {
            let _alarm = post.alarm(ToReceiver::StoreFailed);
            if let Err(error) = answerer.run(&waiting) {
                post.post(ToReceiver::StoreFailed(error));
            }
        })?;
        Ok((Answering(over), Inbox { batches, over: false, budget, reporter: told, questions }))
    }
}

struct Answerer {
    compare: Compare,
    writer: ControlWriter,
    reporter: Arc<Reporter>,
    over: Arc<AtomicBool>,
    /// Rows listed so far, and those whose decisions were sent.
    rows: u64,
    decided: u64,
    choices: Vec<u8>,
}

impl Answerer {
    fn run(&mut self, batches: &Receiver<Batch>) -> Result<()> {
        self.compare.take_notices().into_iter().for_each(|notice| self.reporter.notice_here(notice));
        while let Ok(Batch { first, bytes, last, kept: _kept }) = batches.recv() {
            if first != self.rows {
                return Err(violation("rows are missing"));
            }
            let rows = decode_batch(&bytes).map_err(violation)?;
            for (at, row) in rows.iter().enumerate() {
                if self.over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let over = self.over.clone();
                let stop = || over.load(Ordering::Relaxed);
                self.compare.rename_whole(row, &rows[at + 1..], self.decided, &stop);
                self.answer(row)?;
            }
            if last {
                let reporter = &self.reporter;
                // Before the last decisions: the sender cannot end the session meanwhile.
                self.compare.delete(&mut |deleted| reporter.deleted_here(deleted));
            }
            self.flush(last)?;
            if last {
                self.compare.offers().iter().for_each(Offers::are_complete);
                return Ok(());
            }
        }
        Ok(())
    }

    fn answer(&mut self, row: &Row) -> Result<()> {
        let stored = self.compare.as_stored(row);
        let row = stored.as_ref();
        let ruling = self.compare.rule(row);
        let waits = self.compare.offers().is_some_and(|offers| offers.are_full());
        if waits || self.compare.is_slow(&ruling) {
            // What is decided already flows meanwhile.
            self.flush(false)?;
        }
        let over = self.over.clone();
        let choice = self.compare.carry_out(row, ruling, &|| over.load(Ordering::Relaxed))?;
        self.account(row, &choice);
        self.compare.take_deleted().into_iter().for_each(|deleted| self.reporter.deleted_here(deleted));
        if let Some(item) = self.compare.item(row, &choice) {
            self.reporter.item(item, Way::Received);
        }
        choice.encode(&mut self.choices);
        self.rows += 1;
        if self.choices.len() < CHOICES_LEN { Ok(()) } else { self.flush(false) }
    }

    fn account(&self, row: &Row, choice: &Choice) {
        if self.compare.came_renamed(row, choice) {
            self.reporter.renamed_file(row.identity.size);
        }
        match &choice.decision {
            Decision::Done => self.reporter.kept_file(row.identity.size),
            Decision::Failed(reason) => {
                let error = FileError { path: row.path.clone(), message: reason.clone() };
                self.reporter.failed_here(error);
            }
            Decision::Send | Decision::Skip | Decision::Same | Decision::Resume { .. } => {}
        }
        if choice.changes.contains(Changes::STARTS_OVER) {
            self.reporter.started_over(&row.path, StartOverReason::Changed);
        }
    }

    fn flush(&mut self, last: bool) -> Result<()> {
        if self.choices.is_empty() && !last {
            return Ok(());
        }
        let choices = Bytes(std::mem::take(&mut self.choices));
        let first = std::mem::replace(&mut self.decided, self.rows);
        self.writer.send(&Message::Decisions { first, choices, last })
    }
}
