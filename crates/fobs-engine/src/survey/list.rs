//! The thread that walks the sources and sends the listing.

use super::docket::{Docket, DocketGuard};
use crate::Reporter;
use crate::letters::{Post, ToSender};
use crate::thread::spawn;
use fobs_channel::control::ControlWriter;
use fobs_model::error::Result;
use fobs_model::message::{Bytes, Message};
use fobs_store::Source;
use fobs_store::survey::{Batch, Lister, ListingForm};
use std::sync::Arc;

/// A listing in work. Dropped with the session, it ends its thread.
pub(crate) struct Listing {
    _guard: DocketGuard,
}

impl Listing {
    /// Has `source` take its entries from `docket`, and lists them.
    pub(crate) fn start(
        docket: &Docket,
        source: &mut Source,
        form: ListingForm,
        (writer, reporter): (ControlWriter, Arc<Reporter>),
        post: Post<ToSender>,
    ) -> Result<Listing> {
        let listing = Listing { _guard: docket.guard() };
        let Some(lister) = source.survey(Box::new(docket.clone()), form) else { return Ok(listing) };
        let docket = docket.clone();
        spawn("fobs-walk", move || {
            let _alarm = post.alarm(ToSender::ReadFailed);
            if let Err(error) = list(lister, &docket, &writer, &reporter) {
                post.post(ToSender::ReadFailed(error));
            }
        })?;
        Ok(listing)
    }
}

fn list(mut lister: Lister, docket: &Docket, writer: &ControlWriter, reporter: &Reporter) -> Result<()> {
    while let Some(Batch { first, bytes, entries, last }) = lister.next_batch()? {
        if !docket.list(entries, last)? {
            return Ok(());
        }
        reporter.advance();
        // If the channel is broken the session ends anyway, with that error.
        if writer.send(&Message::Listing { first, entries: Bytes(bytes), last }).is_err() {
            return Ok(());
        }
    }
    Ok(())
}
