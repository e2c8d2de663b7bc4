//! A connection that serves several transfers, one after the other (protocol 2.8).

use super::{
    Heard, Host, OPEN_WAIT, SessionFigures, StillThere, files, hear_request, let_tell, serve_request,
};
use fobs_channel::control::{ControlChannel, ControlWriter, Kept, KeptSide};
use fobs_engine::tell_abort;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::Hello;
use std::time::Duration;

/// How long a client may rest between two transfers: long enough for a program that reads, computes and reads
/// on, shorter than NATs keep an idle connection (RFC 5382: two hours, in practice from 5 minutes).
const REST_MAX: Duration = Duration::from_secs(300);

const _: () = assert!(REST_MAX.as_secs() > OPEN_WAIT.as_secs());

/// Serves the first request, if there was one, and those that follow. The outcome is that of the last
/// transfer; none if the connection ended at rest.
pub(super) fn serve(
    channel: ControlChannel,
    first: Heard,
    hello: &Hello,
    cancel: &CancelToken,
    host: &mut dyn Host,
) -> Result<Option<SessionFigures>> {
    let (mut kept, mut next);
    match first {
        Heard::Rest => {
            kept = Kept::new(channel, KeptSide::Server);
            next = rest(&mut kept, None, cancel, host);
        }
        heard => {
            let (it, lease) = Kept::within(channel, KeptSide::Server);
            (kept, next) = (it, Some((lease, heard)));
        }
    }
    while let Some((lease, heard)) = next {
        let writer = lease.writer.clone();
        match heard {
            Heard::Rest => return Ok(None),
            Heard::Request(request) => {
                let keep = request.open.reuse.keep;
                let outcome = serve_request(lease, request, hello, cancel, host);
                if !keep
                    || cancel.is_cancelled()
                    || matches!(&outcome, Err(error) if !error.kind.leaves_channel())
                {
                    return outcome.map(Some);
                }
                if let Err(error) = &outcome {
                    tell_abort(&writer, error);
                }
                host.ended(&outcome);
            }
            Heard::Pipe(_) => {
                let why = "a pipe has a connection of its own; ask for it first";
                return Err(Error::new(ErrorKind::Usage, why));
            }
            Heard::Files(request) => {
                let_tell(&lease, hello, host);
                let outcome = files::serve(lease, &request, cancel, host);
                if cancel.is_cancelled() || matches!(&outcome, Err(error) if !error.kind.leaves_channel()) {
                    return outcome.map(|_| None);
                }
                if let Err(error) = &outcome {
                    tell_abort(&writer, error);
                }
                host.answered(&outcome);
            }
        }
        next = rest(&mut kept, Some(&writer), cancel, host);
    }
    Ok(None)
}

/// Waits for the next request, once this side has ended the transfer before. Whatever ends the connection
/// meanwhile hurts no transfer.
fn rest(
    kept: &mut Kept,
    before: Option<&ControlWriter>,
    cancel: &CancelToken,
    host: &mut dyn Host,
) -> Option<(ControlChannel, Heard)> {
    let leave = host.rest(Box::new(kept.breaker()))?;
    // After the place is taken: a client that hears of the end may count on it.
    before.inspect(|writer| writer.close());
    let _hook = cancel.on_cancel(kept.breaker());
    let mut lease = kept.lease();
    match hear_request(&mut lease, REST_MAX, host) {
        Ok(Heard::Rest) | Err(_) => None,
        Ok(heard) => (leave() == StillThere::Yes).then_some((lease, heard)),
    }
}
