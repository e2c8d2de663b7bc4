//! The calling side of a pipe (protocol 2.18): two objects beside each other over one connection.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder, Scope};
use std::time::Duration;

use super::hearing::{Awaited, Hearing};
use super::persist::Course;
use super::request::out_of_turn;
use super::resume::transfer_id;
use super::{Client, Known, blame, hang_up, sender_options};
use crate::pipe::draw::{AtEnd, Drawn};
use crate::pipe::hearken::{
    Bell, Happening, Happenings, Objects, Part, Told, closed_early, hearken, next_of, said,
};
use crate::pipe::pour::Valve;
use crate::pipe::{BRANCHES, Stop, branched};
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_engine::{Steering, refused, tell_abort};
use fobs_model::budget::MemoryBudget;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink, Summary};
use fobs_model::message::pipe::COMMAND_BYTES_MAX;
use fobs_model::message::{Message, PIPE, PipeEnd, PipeNews, PipeRequest};
use fobs_model::options::{Remote, TransferOptions};
use fobs_model::text::printable;
use fobs_store::{Sink, Source};

/// How long both objects may take to end once the pipe has failed: the engine's own time for it.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(12);
/// What a server may take to say that nobody has come to a client that listens.
const JOIN_GRACE: Duration = Duration::from_secs(10);
/// Characters of a notice of the other side.
const NOTICE_CHARS_MAX: usize = 300;

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
    pub(crate) on: Box<dyn Fn(Turned) + Send>,
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
        NearEnds { ends, at_end: Box::new(|| Ok(())), on: Box::new(|_| ()) }
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
    let PipeManner { options, sending, receiving, steering: [steer_up, steer_down], cancel } = manner;
    let mut client = Client::call(remote, options, sending.clone(), cancel)?;
    let joined = client.join(request);
    let branches = joined.map_err(|error| cancel.explain(blame(error, client.ssh.as_ref(), cancel)))?;
    let ends = ends().inspect_err(|error| tell_abort(&client.channel.writer, error))?;
    let [outward, inward, beside] = branches;
    let flows = CancelToken::new();
    let up = client.beside(outward, sending, &flows);
    let down = client.beside(inward, receiving, &flows);
    let Client { channel, ssh, .. } = client;
    let writer = channel.writer;
    // The connection endures what the objects do.
    writer.set_timeout(options.timeout);
    let (bell, row) = Happenings::new();
    hearken(channel.reader, channel.peer.description, bell.clone())?;
    let NearEnds { ends: PipeEnds { input, output, errors }, at_end, on } = ends;
    let (draw, pour) = (Stop::new()?, Stop::new()?);
    let drawn = Drawn::new(input, draw.clone(), at_end);
    let unread = bell.clone();
    // Once; where the row is full there is one that reads it.
    let on_unread = Box::new(move || drop(unread.try_send(Happening::Unread)));
    let valve = Valve::new(output, pour.clone(), on_unread);
    pass_errors(beside, errors.map(File::from), bell.clone())?;
    let end = Watch {
        writer: writer.clone(),
        events: sending,
        valve: valve.clone(),
        on,
        draw,
        pour,
        flows: flows.clone(),
    };
    let (sent, received) = (Figures::default(), Figures::default());
    let ended = thread::scope(|scope| {
        let (compress, there) = (options.compress, Remote { path: STREAM.to_vec(), ..remote.clone() });
        let figures = &sent;
        spawn(scope, (bell.clone(), Happening::Sent), move || {
            let source = Source::from_pipe(Box::new(drawn), compress, MemoryBudget::default())?;
            figures.keep(up.push(source, Vec::new(), &there, &mut course_of(steer_up))?.0)
        })?;
        let figures = &received;
        spawn(scope, (bell.clone(), Happening::Received), move || {
            let sink = Sink::to_pipe(valve.writer(), MemoryBudget::default());
            figures.keep(down.pull(vec![STREAM.to_vec()], sink, &mut course_of(steer_down))?.0)
        })?;
        let mut objects = Objects::begin();
        let ended = end.watch((&row, &mut objects), cancel);
        ended.map_err(|error| end.give_up(blame(error, ssh.as_ref(), cancel), &row, objects))
    });
    let ended = ended.inspect_err(|error| tell_abort(&writer, error));
    hang_up(&writer, ssh);
    Ok(Piped { end: ended?, sent: sent.take(), received: received.take() })
}

/// The path of an object of a pipe in its request, which has none.
const STREAM: &[u8] = b"-";

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
    fn join(&mut self, request: PipeRequest) -> Result<[ControlChannel; BRANCHES as usize]> {
        let peer = self.channel.peer.description.clone();
        if !self.hello.has(PIPE) {
            let why = "has an older fobs, which knows no pipes; install the same version there";
            return Err(Error::new(ErrorKind::Protocol, format!("{peer} {why}")));
        }
        let branches = branched(&mut self.channel)?;
        let grace = match request {
            PipeRequest::Listen { .. } => JOIN_GRACE,
            _ => Duration::ZERO,
        };
        let mut hearing = Hearing::of(Awaited::Pipe, &mut self.channel, self.options.timeout + grace);
        let sent = hearing.channel.writer.send(&Message::Pipe(request));
        let heard = hearing.next_told(self.events.as_ref());
        drop(hearing);
        // A server that refuses this client may close the channel before it is asked.
        match (heard, sent) {
            (Ok(Some(Message::PipeNews(PipeNews::Joined))), Ok(())) => {
                self.hook = None;
                self.cancel.check()?;
                Ok(branches)
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

/// The figures of an object, once it is moved.
#[derive(Default)]
struct Figures(Mutex<Summary>);

impl Figures {
    fn keep(&self, summary: Summary) -> Result<u64> {
        let bytes = summary.bytes;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = summary;
        Ok(bytes)
    }

    fn take(self) -> Summary {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of an object that is changed by this.
fn course_of(steering: &Steering) -> Course {
    let mut course = Course::of_pipe(transfer_id());
    course.steering = steering.clone();
    course
}

/// Moves an object in a thread of its own.
fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    (bell, tell): (Bell, fn(Result<u64>) -> Happening),
    act: impl FnOnce() -> Result<u64> + Send + 'scope,
) -> Result<()> {
    let moving = move || {
        let mut told = Told { bell, tell, outcome: None };
        told.outcome = Some(act());
    };
    let spawned = Builder::new().name("fobs-pipe".to_owned()).spawn_scoped(scope, moving);
    spawned.map(drop).map_err(Error::internal)
}

/// Writes what a command at the other side says beside its output, in a thread of its own.
fn pass_errors(mut channel: ControlChannel, mut to: Option<File>, bell: Bell) -> Result<()> {
    let pass = move || {
        while let Ok(Some(message)) = next_of(&mut channel) {
            if let Message::PipeNews(PipeNews::Errors { bytes }) = message
                // Nobody reads it: as of a program here.
                && to.as_mut().is_none_or(|to| to.write_all(&bytes.0).is_err())
            {
                break;
            }
        }
        // What is not read any more must not hold up the command.
        while let Ok(Some(_)) = next_of(&mut channel) {}
        // So the server knows that all of it has arrived.
        channel.writer.close();
        // The pipe may have been given up.
        let _ = bell.send(Happening::ErrorsEnded);
    };
    Builder::new().name("fobs-errors".to_owned()).spawn(pass).map(drop).map_err(Error::internal)
}

/// A pipe that is set up.
struct Watch<'w> {
    writer: ControlWriter,
    events: &'w Arc<dyn EventSink>,
    valve: Valve,
    on: Box<dyn Fn(Turned) + Send>,
    /// Ends the reading of this side's input.
    draw: Stop,
    /// Ends the writing of its output.
    pour: Stop,
    /// Ends both objects.
    flows: CancelToken,
}

impl Watch<'_> {
    /// Waits until everything has ended well.
    fn watch(&self, (row, objects): (&Happenings, &mut Objects), cancel: &CancelToken) -> Result<PipeEnd> {
        let (mut errors, mut ended) = (Part::Open, None);
        loop {
            if let (Part::Over, Part::Over, Part::Over, Some(end)) =
                (objects.sent, objects.received, errors, ended)
            {
                return Ok(end);
            }
            match row.next(cancel)? {
                Happening::Sent(done) => {
                    objects.sent = Part::Over;
                    done?;
                }
                Happening::Received(done) => {
                    objects.received = Part::Over;
                    done?;
                    (self.on)(Turned::AllReceived);
                    self.valve.close();
                }
                Happening::Unread => self.writer.send(&Message::PipeNews(PipeNews::Unread))?,
                Happening::ErrorsEnded => errors = Part::Over,
                Happening::Heard(PipeNews::Unread) => {
                    (self.on)(Turned::Unread);
                    self.draw.enough();
                }
                Happening::Heard(PipeNews::Ended(end)) => ended = Some(end),
                Happening::Told(text) => {
                    self.events.event(Event::Notice(printable(&text, NOTICE_CHARS_MAX)));
                }
                // After its last word.
                Happening::Closed(None) if ended.is_some() => {}
                Happening::Closed(why) => return Err(closed_early(why)),
                Happening::Heard(_) | Happening::Exited(_) => {}
            }
        }
    }

    /// Ends everything because of an error, which is returned with what had arrived here.
    fn give_up(&self, why: Error, row: &Happenings, objects: Objects) -> Error {
        tell_abort(&self.writer, &why);
        self.flows.cancel_because(why.clone());
        self.pour.fail();
        self.draw.fail();
        objects.end(row, CLEAN_UP_WAIT);
        let given = self.valve.given();
        let message = format!("{}; {given} bytes had come from there", said(&why));
        why.reworded(message)
    }
}
