//! The thread that lists pieces of what stands where files are to come (protocol 7.9).

use crate::Reporter;
use crate::letters::{Post, ToReceiver};
use crate::thread::spawn;
use fobs_channel::control::ControlWriter;
use fobs_model::error::Result;
use fobs_model::message::{Bytes, Message};
use fobs_store::delta::{NameKey, Offers, Segment};
use std::sync::Arc;

/// Lists in work. Dropped with the session, it ends its thread.
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
        spawn("fobs-basis", move || {
            let _alarm = post.alarm(ToReceiver::StoreFailed);
            // If the channel is broken the session ends anyway, with that error.
            let _ = list(&offers, &key, &writer, &reporter);
        })?;
        Ok(naming)
    }
}

fn list(offers: &Offers, key: &NameKey, writer: &ControlWriter, reporter: &Reporter) -> Result<()> {
    while let Some(job) = offers.next_job() {
        let row = job.row;
        job.list(offers, key, &mut |segment: Segment| {
            reporter.advance();
            let Segment { first, average, pieces, last } = segment;
            writer.send(&Message::Basis { row, first, average, pieces: Bytes(pieces), last })
        })?;
    }
    Ok(())
}
