//! What a client asks for between transfers.

use super::{Host, PATHS_MAX};
use fobs_channel::control::{ControlChannel, Length};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::files::FileRequest;
use fobs_model::message::{Bytes, Message, Open, PipeOpen};
use fobs_store::filter_of;
use std::time::{Duration, Instant};

/// How long a client may take to send its first request.
pub(super) const OPEN_WAIT: Duration = Duration::from_secs(10);

/// What a client asks for.
pub(super) struct Request {
    /// The directory of an examination that is to come first.
    pub(super) examine: Option<Vec<u8>>,
    pub(super) open: Open,
}

/// What a client says between transfers.
pub(super) enum Heard {
    Request(Box<Request>),
    /// Something about files by name.
    Files(Box<FileRequest>),
    /// A pipe between two programs.
    Pipe(PipeOpen),
    /// It has none yet, and keeps the connection.
    Rest,
}

/// Waits for the client's request.
pub(super) fn hear_request(
    channel: &mut ControlChannel,
    wait: Duration,
    host: &mut dyn Host,
) -> Result<Heard> {
    // A peer with a proven key must not hold a session by silence.
    channel.set_read_deadline(Some(Instant::now() + wait));
    let mut first = channel.reader.recv()?;
    if let Some(Message::Ticket { ticket }) = first {
        host.redeem(ticket.as_str())?;
        channel.reader.bound(Length::Full);
        first = channel.reader.recv()?;
    }
    if let Some(Message::Expand { paths, role }) = first {
        if paths.len() > PATHS_MAX {
            return Err(Error::new(ErrorKind::Usage, "too many paths for one copy; split it"));
        }
        let paths: Vec<_> = paths.into_iter().map(|path| path.0).collect();
        let paths = host.expand(&paths, role)?.into_iter().map(Bytes).collect();
        channel.writer.send(&Message::Expanded { paths })?;
        first = channel.reader.recv()?;
    }
    let examine = match first {
        Some(Message::Examine { directory }) => {
            first = channel.reader.recv()?;
            Some(directory.0)
        }
        _ => None,
    };
    let open = match first {
        Some(Message::Open(open)) => {
            open.check()?;
            open.sync.as_ref().map_or(Ok(()), |sync| filter_of(sync).map(drop))?;
            *open
        }
        Some(Message::Over) if examine.is_none() => return Ok(Heard::Rest),
        Some(Message::Files(request)) if examine.is_none() => {
            channel.set_read_deadline(None);
            return Ok(Heard::Files(Box::new(request)));
        }
        Some(Message::Pipe(request)) if examine.is_none() => {
            channel.set_read_deadline(None);
            return Ok(Heard::Pipe(request));
        }
        Some(other) => {
            let aborted = fobs_engine::aborted(&channel.peer.description, &other);
            let why = "the client spoke out of turn; install the same version on both sides";
            return Err(aborted.unwrap_or(Error::new(ErrorKind::Protocol, why)));
        }
        None => {
            return Err(Error::new(
                ErrorKind::Connect,
                "the client ended the connection before it asked for anything",
            ));
        }
    };
    channel.set_read_deadline(None);
    Ok(Heard::Request(Box::new(Request { examine, open })))
}
