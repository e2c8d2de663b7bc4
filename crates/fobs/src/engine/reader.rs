//! The thread that reads: fills empty chunk buffers from the source, as many as the sender grants.

use super::letters::{Filled, Grant, Post, ToSender};
use super::meter::WorkMeter;
use super::thread::spawn;
use crate::error::Result;
use crate::storage::Source;
use fobs_sys::{ThreadDuty, hint_scheduler};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Reads until the final chunk, an error, or the sender's end.
pub(super) fn start(
    mut source: Source,
    grants: Receiver<Grant>,
    post: Post<ToSender>,
    meter: Arc<WorkMeter>,
) -> Result<()> {
    spawn("fobs-read", move || {
        hint_scheduler(ThreadDuty::Bulk);
        let _alarm = post.alarm(ToSender::ReadFailed);
        meter.attach();
        while let Ok(Grant { mut buffer, data_max }) = grants.recv() {
            let letter = match meter.at_work(|| source.next_chunk(&mut buffer, data_max)) {
                Ok(chunk) => {
                    let root = chunk.is_final.then(|| source.root());
                    ToSender::Filled(Box::new(Filled { buffer, chunk, known: source.known(), root }))
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
