//! A connection from its first message to its end: what a client may send before it is known whether it may
//! anything, and what follows.

use super::{Heard, Host, OPEN_WAIT, SessionFigures, hear_request, kept, pipe, serve_request};
use fobs_channel::control;
use fobs_channel::control::{ControlChannel, ControlWriter, Length};
use fobs_engine::tell_abort;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{ErrorKind, Result};
use fobs_model::message::{Hello, PipeOpen};

/// A connection whose client has said what it wants.
pub struct Opened {
    channel: ControlChannel,
    hello: Hello,
    heard: Heard,
}

/// Exchanges hellos and waits for the first request. Errors after the hellos are sent to the client before
/// they are returned.
pub fn open_session(
    mut channel: ControlChannel,
    cancel: &CancelToken,
    host: &mut dyn Host,
) -> Result<Opened> {
    let writer = channel.writer.clone();
    let hook = cancel.on_cancel({
        let writer = writer.clone();
        move || writer.close()
    });
    channel.reader.bound(Length::Opening);
    let hello = control::hello(&mut channel).map_err(|error| cancel.explain(error))?;
    let heard = hear_first(&mut channel, host).map_err(|error| cancel.explain(error));
    // From here on the engine ends a cancelled session and sends the reason.
    drop(hook);
    match heard {
        Ok(heard) => Ok(Opened { channel, hello, heard }),
        Err(error) => {
            tell_abort(&writer, &error);
            host.told();
            writer.close();
            Err(error)
        }
    }
}

/// Waits for the first request. A client that will be refused is not heard at length.
fn hear_first(channel: &mut ControlChannel, host: &mut dyn Host) -> Result<Heard> {
    let denial = host.denial();
    if denial.is_none() {
        channel.reader.bound(Length::Full);
    }
    hear_request(channel, OPEN_WAIT, host).map_err(|error| match denial {
        Some(denial) if error.kind == ErrorKind::Protocol => denial,
        _ => error,
    })
}

impl Opened {
    /// One of a client that comes back to its pipe, which another process has opened.
    pub(super) fn again(channel: ControlChannel, hello: Hello, pipe: PipeOpen) -> Opened {
        Opened { channel, hello, heard: Heard::Pipe(pipe) }
    }

    /// Serves the connection to its end, of which `host` hears each transfer but the last one. Errors are
    /// sent to the client before they are returned. `None` where a connection that is kept ended between two
    /// transfers.
    pub fn serve(self, cancel: &CancelToken, host: &mut dyn Host) -> Result<Option<SessionFigures>> {
        let Opened { channel, hello, heard } = self;
        let writer = channel.writer.clone();
        let outcome = match heard {
            Heard::Request(request) if !request.open.reuse.keep => {
                serve_request(channel, request, &hello, cancel, host).map(Some)
            }
            Heard::Pipe(request) => pipe::serve(channel, &request, &hello, cancel, host).map(Some),
            heard => kept::serve(channel, heard, &hello, cancel, host),
        };
        let outcome = outcome.inspect_err(|error| {
            tell_abort(&writer, error);
            host.told();
        });
        writer.close();
        outcome
    }

    /// Where its client hears of the end.
    pub fn writer(&self) -> ControlWriter {
        self.channel.writer.clone()
    }
}
