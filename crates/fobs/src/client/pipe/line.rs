//! One connection of a pipe, at the client.

use std::io::Write;
use std::sync::Arc;
use std::thread::{self, Builder, Scope};
use std::time::{Duration, Instant};

use super::super::{Client, blame, hang_up};
use super::near::{Near, course_of};
use super::{PipeManner, Turned};
use crate::pipe::hearken::{
    Bell, Cut, Happening, Happenings, Objects, OrCut, Part, SILENCE_MAX, Told, closed_early, hearken, next_of,
};
use crate::pipe::{BRANCHES, Stop};
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_engine::tell_abort;
use fobs_model::budget::MemoryBudget;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink};
use fobs_model::message::{Message, PipeEnd, PipeNews};
use fobs_model::options::Remote;
use fobs_model::text::printable;
use fobs_store::{Sink, Source};

/// How long both objects may take to end once the pipe has failed: the engine's own time for it.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(12);
/// Characters of a notice of the other side.
const NOTICE_CHARS_MAX: usize = 300;
/// The path of an object of a pipe in its request, which has none.
const STREAM: &[u8] = b"-";

/// The connection: a client whose other end is there.
pub(super) struct Line<'a> {
    pub(super) client: Client<'a>,
    pub(super) branches: [ControlChannel; BRANCHES as usize],
    /// The position at which what this side sends begins.
    pub(super) begin: u64,
}

impl Line<'_> {
    /// Moves the pipe until it ends, or until the connection does.
    pub(super) fn run(self, near: &Near, remote: &Remote, manner: PipeManner<'_>) -> OrCut<PipeEnd> {
        let Line { client, branches: [outward, inward, beside], begin } = self;
        let PipeManner { options, sending, receiving, steering: [steer_up, steer_down], cancel } = manner;
        let failed = Cut::Failed;
        let (draw, pour, quiet) =
            (Stop::new().map_err(failed)?, Stop::new().map_err(failed)?, Stop::new().map_err(failed)?);
        let drawn = near.well.draw(begin, draw.clone()).map_err(failed)?;
        let (bell, row) = Happenings::new();
        let poured = bell.clone();
        // Where the row is full there is one that reads it, and looks.
        near.valve.open(pour.clone(), near.every, move || drop(poured.try_send(Happening::Poured)));
        near.errors.open(quiet.clone(), u64::MAX, || ());
        let (up_events, down_events) = (
            counted_from(begin, near.sent.begin(), sending),
            counted_from(near.valve.position(), near.received.begin(), receiving),
        );
        let flows = CancelToken::new();
        let up = client.beside(outward, &up_events, &flows);
        let down = client.beside(inward, &down_events, &flows);
        let Client { channel, ssh, .. } = client;
        let writer = channel.writer;
        // The connection endures what the objects do.
        writer.set_timeout(options.timeout);
        hearken(channel.reader, channel.peer.description, bell.clone()).map_err(failed)?;
        pass_errors(beside, near.errors.writer(), bell.clone()).map_err(failed)?;
        let (writing, taking) = (near.valve.writer(), flows.clone());
        let watch = Watch {
            writer: writer.clone(),
            events: sending,
            near,
            draw,
            stops: [pour, quiet],
            flows: taking,
        };
        let ended = thread::scope(|scope| {
            let (compress, there) = (options.compress, Remote { path: STREAM.to_vec(), ..remote.clone() });
            let mut objects = Objects::begin();
            let started = spawn(scope, (bell.clone(), Happening::Sent), move || {
                let source = Source::from_pipe(Box::new(drawn), compress, MemoryBudget::default())?;
                near.sent.keep(up.push(source, Vec::new(), &there, &mut course_of(steer_up))?.0)
            });
            let started = started.and_then(|()| {
                spawn(scope, (bell.clone(), Happening::Received), move || {
                    let sink = Sink::to_pipe(writing, MemoryBudget::default());
                    near.received.keep(down.pull(vec![STREAM.to_vec()], sink, &mut course_of(steer_down))?.0)
                })
            });
            let ended = started.map_err(Cut::Failed).and_then(|()| watch.watch((&row, &mut objects), cancel));
            ended.map_err(|cut| watch.leave(cut, |error| blame(error, ssh.as_ref(), cancel), &row, objects))
        });
        match &ended {
            // It is heard, or the server waits for this client in vain for some time.
            Ok(_) if near.may_return => drop(writer.send(&Message::PipeNews(PipeNews::Read))),
            Ok(_) | Err(Cut::Broken(_)) => {}
            Err(Cut::Failed(error)) => tell_abort(&writer, error),
        }
        hang_up(&writer, ssh);
        ended
    }
}

/// Events of an object that begins at this byte of its stream.
fn counted_from(begin: u64, connection: u32, next: &Arc<dyn EventSink>) -> Arc<dyn EventSink> {
    if connection < 2 {
        return next.clone();
    }
    let next = next.clone();
    Arc::new(move |event: Event| match event {
        Event::Progress(mut progress) => {
            progress.bytes += begin;
            progress.bytes_known += begin;
            next.event(Event::Progress(progress));
        }
        // It is the same pipe.
        Event::Started { .. } => {}
        event => next.event(event),
    })
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
fn pass_errors(mut channel: ControlChannel, mut to: Box<dyn Write + Send>, bell: Bell) -> Result<()> {
    let pass = move || {
        loop {
            match next_of(&mut channel) {
                // Nobody reads it: as of a program here. It is passed over, and holds up no command.
                Ok(Some(Message::PipeNews(PipeNews::Errors { bytes }))) => {
                    if to.write_all(&bytes.0).is_err() {
                        // Over with the connection.
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        // So the server knows that all of it has arrived.
        channel.writer.close();
        // The pipe may have been given up.
        let _ = bell.send(Happening::ErrorsEnded);
    };
    Builder::new().name("fobs-errors".to_owned()).spawn(pass).map(drop).map_err(Error::internal)
}

/// A connection that is set up.
struct Watch<'w> {
    writer: ControlWriter,
    events: &'w Arc<dyn EventSink>,
    near: &'w Near,
    /// Ends the reading of this side's input.
    draw: Stop,
    /// End the writing of its output, and of what a command says beside that.
    stops: [Stop; 2],
    /// Ends both objects.
    flows: CancelToken,
}

impl Watch<'_> {
    /// Waits until everything has ended well.
    fn watch(&self, (row, objects): (&Happenings, &mut Objects), cancel: &CancelToken) -> OrCut<PipeEnd> {
        let near = self.near;
        let (mut errors, mut told, mut ended) = (Part::Open, Part::Open, None);
        let mut receipts = near.receipts(&self.writer);
        let mut signs = Signs { heard: Instant::now(), position: near.valve.position() };
        loop {
            if let (Part::Over, Part::Over, Part::Over, Some(end)) =
                (objects.sent, objects.received, errors, ended)
            {
                return Ok(end);
            }
            if near.valve.has_no_reader() && told == Part::Open {
                told = Part::Over;
                self.writer.post(&Message::PipeNews(PipeNews::Unread)).map_err(Cut::Broken)?;
            }
            if let Some(receipts) = &mut receipts {
                receipts.say(near.valve.position(), near.errors.position())?;
                signs.check(near.valve.position())?;
            }
            match row.next(cancel).map_err(Cut::Failed)? {
                Some(Happening::Sent(done)) => {
                    objects.sent = Part::Over;
                    done.map_err(|error| row.cut_by(error, objects))?;
                }
                Some(Happening::Received(done)) => {
                    objects.received = Part::Over;
                    done.map_err(|error| row.cut_by(error, objects))?;
                    (near.on)(Turned::AllReceived);
                    near.valve.close();
                }
                Some(Happening::ErrorsEnded) => errors = Part::Over,
                Some(Happening::Heard(news)) => {
                    signs.heard = Instant::now();
                    match news {
                        PipeNews::Unread => {
                            (near.on)(Turned::Unread);
                            self.draw.enough();
                        }
                        PipeNews::Ended(end) => ended = Some(end),
                        PipeNews::Has { bytes, .. } if near.may_return => near.well.is_confirmed(bytes),
                        _ => {}
                    }
                }
                Some(Happening::Told(text)) => {
                    self.events.event(Event::Notice(printable(&text, NOTICE_CHARS_MAX)));
                }
                // After its last word.
                Some(Happening::Closed(None)) if ended.is_some() => {}
                Some(Happening::Closed(why)) => return Err(Cut::Broken(closed_early(why))),
                Some(Happening::GaveUp(why)) => return Err(Cut::Failed(why)),
                Some(Happening::Exited(_) | Happening::Poured | Happening::Superseded) | None => {}
            }
        }
    }

    /// Ends the connection because of a cut, which is returned: one that the server has explained meanwhile
    /// is none that another connection mends.
    fn leave(&self, cut: Cut, blame: impl Fn(Error) -> Error, row: &Happenings, objects: Objects) -> Cut {
        let cut = match cut {
            Cut::Failed(error) => Cut::Failed(blame(error)),
            Cut::Broken(error) => match blame(error) {
                // A signal that has ended `ssh` too.
                error if error.kind == ErrorKind::Interrupted => Cut::Failed(error),
                error => Cut::Broken(error),
            },
        };
        if let Cut::Failed(why) = &cut {
            tell_abort(&self.writer, why);
        }
        self.flows.cancel_because(cut.error().clone());
        self.stops.iter().for_each(Stop::fail);
        self.draw.fail();
        match objects.end(row, CLEAN_UP_WAIT) {
            Some(said) => Cut::Failed(said),
            None => cut,
        }
    }
}

/// Signs of life of the other side.
struct Signs {
    heard: Instant,
    position: u64,
}

impl Signs {
    fn check(&mut self, position: u64) -> OrCut<()> {
        if self.position != position {
            (self.heard, self.position) = (Instant::now(), position);
        }
        if self.heard.elapsed() < SILENCE_MAX {
            return Ok(());
        }
        let message = format!("the other side was silent for {} s", SILENCE_MAX.as_secs());
        Err(Cut::Broken(Error::new(ErrorKind::Connect, message)))
    }
}
