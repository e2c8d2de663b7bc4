//! The calling side of a pipe (protocol 2.18): two objects beside each other over one connection.

mod again;
mod line;
mod near;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hearing::{Awaited, Hearing};
use super::request::out_of_turn;
use super::{Client, Known, blame, sender_options};
use crate::pipe::draw::AtEnd;
use crate::pipe::hearken::{Cut, closed_early};
use crate::pipe::{BRANCHES, branched};
use again::ReturnTo;
use fobs_channel::control::ControlChannel;
use fobs_engine::{Steering, refused, tell_abort};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{EventSink, Summary};
use fobs_model::message::pipe::COMMAND_BYTES_MAX;
use fobs_model::message::{Message, PIPE, PipeEnd, PipeKeep, PipeNews, PipeOpen, PipeRequest, PipeTicket};
use fobs_model::options::{Remote, TransferOptions};
use line::Line;
use near::Near;

/// What a server may take to say that nobody has come to a client that listens.
const JOIN_GRACE: Duration = Duration::from_secs(10);

/// This side's ends of a pipe.
pub struct PipeEnds {
    /// What is read and goes to the other side.
    pub input: OwnedFd,
    /// What comes from there is written to this.
    pub output: OwnedFd,
    /// What a command there says beside its output is written to this, if to anything.
    pub errors: Option<OwnedFd>,
}

/// Those of a program in this process, which is told what a descriptor cannot say.
pub(crate) struct NearEnds {
    pub(crate) ends: PipeEnds,
    /// Says whether the end of its input is one of its bytes.
    pub(crate) at_end: AtEnd,
    /// Is told once of each.
    pub(crate) on: Box<dyn Fn(Turned) + Send + Sync>,
}

/// What has become of a direction of a pipe, before its descriptor shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turned {
    /// All that comes from the other side was written, and no more will be.
    AllReceived,
    /// The other side reads no more.
    Unread,
}

impl From<PipeEnds> for NearEnds {
    /// Those of other programs: their ends are what they say they are.
    fn from(ends: PipeEnds) -> NearEnds {
        NearEnds { ends, at_end: Box::new(|ended| ended), on: Box::new(|_| ()) }
    }
}

/// A pipe that has ended well.
#[derive(Debug, Clone, PartialEq)]
pub struct Piped {
    /// How the program at the other side did.
    pub end: PipeEnd,
    /// The figures of what was sent.
    pub sent: Summary,
    /// The figures of what came.
    pub received: Summary,
}

/// What a server says of the other end that is there.
struct Joined {
    ticket: Option<PipeTicket>,
    /// Bytes that it had of this client.
    have: u64,
}

/// How a pipe is made.
#[derive(Clone, Copy)]
pub struct PipeManner<'p> {
    /// As of a transfer; those about files are not used.
    pub options: &'p TransferOptions,
    /// Receives what happens to the bytes that are sent, and everything that is of neither direction.
    pub sending: &'p Arc<dyn EventSink>,
    /// Receives what happens to the bytes that come.
    pub receiving: &'p Arc<dyn EventSink>,
    /// Changes, while it runs, what is sent, and what comes.
    pub steering: &'p [Steering; 2],
    /// Ends the pipe.
    pub cancel: &'p CancelToken,
}

/// Runs a pipe to its end, in the calling thread. `ends` is called once the other end is there.
///
/// # Errors
/// Any [`ErrorKind`]: what ended the pipe before its programs did. Their own failures are in [`Piped::end`].
pub fn pipe(
    remote: &Remote,
    request: PipeRequest,
    ends: impl FnOnce() -> Result<PipeEnds>,
    manner: PipeManner<'_>,
) -> Result<Piped> {
    run(remote, request, || ends().map(NearEnds::from), manner)
}

/// [`pipe`], whose ends may be those of a program in this process.
pub(crate) fn run(
    remote: &Remote,
    request: PipeRequest,
    ends: impl FnOnce() -> Result<NearEnds>,
    manner: PipeManner<'_>,
) -> Result<Piped> {
    check(&request, manner.options)?;
    let PipeManner { options, sending, cancel, .. } = manner;
    let began = Instant::now();
    let mut client = Client::call(remote, options, sending.clone(), cancel)?;
    let joined = client.join(PipeOpen { request, keep: keep_of(options) });
    let (branches, joined) =
        joined.map_err(|error| cancel.explain(blame(error, client.ssh.as_ref(), cancel)))?;
    let ends = ends().inspect_err(|error| tell_abort(&client.channel.writer, error))?;
    let mut return_to = joined.ticket.and_then(ReturnTo::of);
    let near = Near::new(ends, options, return_to.as_ref().map(|it| it.window));
    let mut line = Line { client, branches, begin: 0 };
    loop {
        let error = match line.run(&near, remote, manner) {
            Ok(end) => return Ok(near.piped(end, began)),
            Err(Cut::Failed(error)) => return Err(near.given_up(error)),
            Err(Cut::Broken(error)) => error,
        };
        let Some(return_to) = &mut return_to else { return Err(near.given_up(error)) };
        let again = return_to.over_another(&near, error, remote, manner);
        line = again.map_err(|error| near.given_up(cancel.explain(error)))?;
    }
}

/// What a server is asked to do for this pipe where a connection breaks.
fn keep_of(options: &TransferOptions) -> Option<PipeKeep> {
    let wait_ms = u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX);
    (options.resume_window > 0).then_some(PipeKeep { window: options.resume_window, wait_ms })
}

/// Refuses what is not possible before any connection is made.
fn check(request: &PipeRequest, options: &TransferOptions) -> Result<()> {
    sender_options(options)?;
    match request {
        PipeRequest::Command { line } if line.0.len() > COMMAND_BYTES_MAX || line.0.contains(&0) => {
            let message = format!(
                "a command has at most {COMMAND_BYTES_MAX} bytes and no NUL; put it into a script there"
            );
            Err(Error::new(ErrorKind::Usage, message))
        }
        _ => Ok(()),
    }
}

impl<'a> Client<'a> {
    /// Asks for the other end, and waits until it is there.
    fn join(&mut self, open: PipeOpen) -> Result<([ControlChannel; BRANCHES as usize], Joined)> {
        let peer = self.channel.peer.description.clone();
        if !self.hello.has(PIPE) {
            let why = "has an older fobs, which knows no pipes; install the same version there";
            return Err(Error::new(ErrorKind::Protocol, format!("{peer} {why}")));
        }
        let branches = branched(&mut self.channel)?;
        let grace = match open.request {
            PipeRequest::Listen { .. } => JOIN_GRACE,
            _ => Duration::ZERO,
        };
        let mut hearing = Hearing::of(Awaited::Pipe, &mut self.channel, self.options.timeout + grace);
        let sent = hearing.channel.writer.send(&Message::Pipe(open));
        let heard = hearing.next_told(self.events.as_ref());
        drop(hearing);
        // A server that refuses this client may close the channel before it is asked.
        match (heard, sent) {
            (Ok(Some(Message::PipeNews(PipeNews::Joined { ticket, have }))), Ok(())) => {
                self.hook = None;
                self.cancel.check()?;
                Ok((branches, Joined { ticket, have }))
            }
            (Ok(Some(other)), sent) => {
                Err(refused(&peer, &other).or(sent.err()).unwrap_or_else(|| out_of_turn(&peer)))
            }
            (_, Err(error)) | (Err(error), Ok(())) => Err(error),
            (Ok(None), Ok(())) => Err(closed_early(None)),
        }
    }

    /// The client of one of the objects.
    fn beside<'b>(
        &self,
        channel: ControlChannel,
        events: &Arc<dyn EventSink>,
        cancel: &'b CancelToken,
    ) -> Client<'b>
    where
        'a: 'b,
    {
        let known = Known { hosts: &self.hosts, tcp_port: self.tcp_port, hello: &self.hello };
        Client::over(channel, known, (self.options, cancel), events)
    }
}
