//! The threads that list pieces of what stands where files are to come (protocol 7.9).

use crate::Reporter;
use crate::letters::{Post, ToReceiver};
use crate::thread::spawn;
use fobs_channel::control::ControlWriter;
use fobs_model::error::Result;
use fobs_model::message::{Bytes, Message};
use fobs_store::delta::{FineAsk, FinePieces, NameKey, Offers, Segment, WireForm};
use fobs_sys::thread::set_nice;
use std::sync::Arc;

/// The nice value of the threads that list: what they make may be in vain, and where the cores are busy the
/// threads that store come first. Where deltas pay, cores are idle.
const NICE: i32 = 10;

/// Lists in work. Dropped with the session, it ends its threads.
pub(crate) struct NamingBases(Offers);

impl Drop for NamingBases {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl NamingBases {
    /// Lists what is offered, by names of this key.
    pub(crate) fn start(
        offers: Offers,
        key: NameKey,
        (writer, reporter): (ControlWriter, Arc<Reporter>),
        post: Post<ToReceiver>,
    ) -> Result<NamingBases> {
        let naming = NamingBases(offers.clone());
        let (asked, names, to, hears) = (offers.clone(), key.clone(), writer.clone(), reporter.clone());
        let alarm = post.alarm(ToReceiver::StoreFailed);
        spawn("fobs-basis", move || {
            let _alarm = alarm;
            // Without it they take more of a core than they need.
            let _ = set_nice(NICE);
            // If the channel is broken the session ends anyway, with that error.
            let _ = list(&offers, &key, &writer, &reporter);
        })?;
        // Beside the lists, which wait for what is stored, and that waits for answers.
        spawn("fobs-pieces", move || {
            let _alarm = post.alarm(ToReceiver::StoreFailed);
            // As above.
            let _ = answer(&asked, &names, &to, &hears);
        })?;
        Ok(naming)
    }
}

fn list(offers: &Offers, key: &NameKey, writer: &ControlWriter, reporter: &Reporter) -> Result<()> {
    while let Some(job) = offers.next_job() {
        let row = job.row;
        job.list(offers, key, &mut |segment: Segment| {
            reporter.advance();
            let Segment { first, form: WireForm { average, names, in_place }, pieces, last } = segment;
            let pieces = Bytes(pieces);
            writer.send(&Message::Basis { row, first, average, names, in_place, pieces, last })
        })?;
    }
    Ok(())
}

/// Answers what the sender asks.
fn answer(offers: &Offers, key: &NameKey, writer: &ControlWriter, reporter: &Reporter) -> Result<()> {
    while let Some(job) = offers.next_ask() {
        let FineAsk { row, from, .. } = job.ask;
        let FinePieces { form: WireForm { average, names, in_place }, pieces } = job.list(key);
        reporter.advance();
        let pieces = Bytes(pieces);
        writer.send(&Message::Pieces { row, from, average, names, in_place, pieces })?;
    }
    Ok(())
}
