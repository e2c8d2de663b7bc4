//! The thread that reads: fills empty chunk buffers from the source, as many as the sender grants.

use super::letters::{Filled, Grant, Post, ToSender};
use super::meter::WorkMeter;
use super::thread::spawn;
use super::throttle::Throttle;
use fobs_model::error::Result;
use fobs_store::Source;
use fobs_sys::{ThreadDuty, hint_scheduler};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How long to wait for a decision on what to send. Then a chunk with nothing in it is sent, so that a
/// session in which the receiver first compares long files is known to work, and is not taken for a blocked
/// one.
const DECISION_WAIT: Duration = Duration::from_secs(1);

/// Reads until the final chunk, an error, or the sender's end.
pub(super) fn start(
    mut source: Source,
    grants: Receiver<Grant>,
    post: Post<ToSender>,
    throttle: Throttle,
    meter: Arc<WorkMeter>,
) -> Result<()> {
    spawn("fobs-read", move || {
        hint_scheduler(ThreadDuty::Bulk);
        let _alarm = post.alarm(ToSender::ReadFailed);
        meter.attach();
        while let Ok(Grant { mut buffer, data_max }) = grants.recv() {
            let filled = source.await_decision(DECISION_WAIT).and_then(|waited| {
                meter.at_work(|| source.next_chunk(&mut buffer, data_max)).map(|chunk| (chunk, waited))
            });
            let letter = match filled {
                Ok((chunk, waited)) => {
                    meter.throttled(|| throttle.pass(chunk.len));
                    let (root, removal) = if chunk.is_final {
                        (Some(source.root()), source.take_removal())
                    } else {
                        (None, None)
                    };
                    let known = source.known();
                    ToSender::Filled(Box::new(Filled { buffer, chunk, known, root, waited, removal }))
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
