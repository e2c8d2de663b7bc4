//! The thread that reads: fills empty chunk buffers from the source, as many as the sender grants.

use super::meter::WorkMeter;
use super::send::ToSender;
use super::{Post, spawn};
use crate::error::Result;
use crate::storage::{FilledChunk, Known, Source};
use fobs_sys::{PageBuffer, ThreadDuty, hint_scheduler};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// An empty buffer, and how much file data to fill it with, bytes.
pub(super) struct Grant {
    pub(super) buffer: PageBuffer,
    pub(super) data_max: usize,
}

/// A chunk that is ready to be sent.
pub(super) struct Filled {
    pub(super) buffer: PageBuffer,
    pub(super) chunk: FilledChunk,
    pub(super) known: Known,
    /// The transfer's root, with the final chunk.
    pub(super) root: Option<[u8; 32]>,
}

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
