//! The answering side of a pipe (protocol 2.18): the client's bytes to a program or another client, and back.

mod flow;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Host, Policy, SessionFigures, Wanted, let_tell};
use crate::pipe::draw::Drawn;
use crate::pipe::hearken::{
    Bell, Happening, Happenings, Objects, Part, closed_early, hearken, next_of, said,
};
use crate::pipe::pour::Valve;
use crate::pipe::{BRANCHES, FarEnd, Party, Stop, branched};
use flow::{Flow, receive, send};
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_engine::tell_abort;
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::OtherEntries;
use fobs_model::message::pipe::ERRORS_BYTES_MAX;
use fobs_model::message::{Bytes, Hello, Message, PipeEnd, PipeNews, PipeRequest};
use fobs_model::permit::{Commands, Needs};
use fobs_model::rights::{NOT_PLAIN, is_pipe_name};
use fobs_sys::confine;

/// How long the two objects of a pipe that has failed may take to end: the engine's own time for it.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(12);
/// How long a peer may leave what a command says unread: as long as its user likes.
const UNREAD_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// Serves a pipe to its end.
pub(super) fn serve(
    mut channel: ControlChannel,
    request: &PipeRequest,
    hello: &Hello,
    cancel: &CancelToken,
    host: &mut dyn Host,
) -> Result<SessionFigures> {
    let began = Instant::now();
    cancel.check()?;
    let_tell(&channel, hello, host);
    let policy = host.judge(Wanted::Pipe(request))?;
    let branches = branched(&mut channel)?;
    let writer = channel.writer.clone();
    let (bell, happenings) = Happenings::new();
    hearken(channel.reader, channel.peer.description, bell.clone())?;
    let entrance = host.another_entrance();
    let far = far_end(request, &policy, cancel, host)?;
    // Its input must not end before it is given up.
    let (party, held) = (far.party.clone(), far.input.try_clone());
    let started = match &held {
        Ok(_) => writer
            .send(&Message::PipeNews(PipeNews::Joined))
            .and_then(|()| Ends::start(far, branches, (policy, entrance), (hello, &writer), (cancel, bell))),
        Err(error) => Err(Error::internal(error)),
    };
    let ends = started.inspect_err(|error| party.give_up(error))?;
    drop((party, held));
    let mut objects = Objects::begin();
    let end = ends.watch((&happenings, &mut objects), &writer, cancel);
    let end = end.map_err(|error| ends.give_up(error, (&happenings, objects), &writer))?;
    writer.send(&Message::PipeNews(PipeNews::Ended(end)))?;
    Ok(SessionFigures {
        direction: TransferDirection::Push,
        files: 0,
        bytes: end.given + end.came,
        resumed_bytes: 0,
        others: OtherEntries::default(),
        failed: 0,
        seconds: began.elapsed().as_secs_f64(),
        datagrams_rejected: 0,
    })
}

/// What the client asks for, if it may have it.
fn far_end(request: &PipeRequest, policy: &Policy, cancel: &CancelToken, host: &dyn Host) -> Result<FarEnd> {
    let commands = policy.permit.commands();
    policy.permit.check(&Needs::of_pipe(request, matches!(commands, Commands::OfTheKey(_))))?;
    let denied = |why: &str| Err(Error::new(ErrorKind::Denied, why));
    match (request, commands, host.launcher(), host.meeting()) {
        (PipeRequest::Command { line }, Commands::OfTheUser, Some(launcher), _) => {
            launcher.run_line(OsString::from_vec(line.0.clone()))
        }
        (PipeRequest::Command { .. }, ..) => denied(
            "this server runs no command that a client names: leave it out, and ask the server's operator to put one \
             into the line of your key (pipe=)",
        ),
        (PipeRequest::Name { name }, Commands::OfTheKey(command), Some(launcher), _) => {
            launcher.run(command.words(name)?.into_iter().map(OsString::from_vec).collect())
        }
        (PipeRequest::Name { name } | PipeRequest::Listen { name, .. }, ..) if !is_pipe_name(name) => {
            denied(NOT_PLAIN)
        }
        (PipeRequest::Name { name }, _, _, Some(meeting)) => meeting.call(name),
        (PipeRequest::Listen { name, wait_ms }, _, _, Some(meeting)) => {
            let wait = Duration::from_millis(*wait_ms);
            meeting.listen(name, host.key(), wait, cancel, &|| host.is_there())
        }
        (PipeRequest::Name { .. } | PipeRequest::Listen { .. }, ..) => Err(Error::new(
            ErrorKind::Usage,
            "pipes have names at a daemon only (fobs://host/NAME); over ssh give a command",
        )),
        (PipeRequest::Unknown, ..) => Err(Error::new(
            ErrorKind::Usage,
            "this server has an older fobs, which knows no such pipe; install the same version there",
        )),
    }
}

/// A pipe that is set up.
struct Ends {
    party: Arc<dyn Party>,
    valve: Valve,
    /// Ends the reading of what comes from the party.
    draw: Stop,
    /// Ends the writing of what goes to it.
    pour: Stop,
    /// Ends both objects.
    flows: CancelToken,
}

impl Ends {
    fn start(
        far: FarEnd,
        [inward, outward, beside]: [ControlChannel; BRANCHES as usize],
        (policy, entrance): (Policy, super::StreamEntrance),
        (hello, around): (&Hello, &ControlWriter),
        (cancel, bell): (&CancelToken, Bell),
    ) -> Result<Ends> {
        let FarEnd { input, output, errors, party } = far;
        let (draw, pour, flows) = (Stop::new()?, Stop::new()?, CancelToken::new());
        let unread = bell.clone();
        // Once; where the row is full there is one that reads it.
        let on_unread = Box::new(move || drop(unread.try_send(Happening::Unread)));
        let valve = Valve::new(input, pour.clone(), on_unread);
        let asked = party.clone();
        let drawn = Drawn::new(output, draw.clone(), Box::new(move || asked.spoke_to_end()));
        let [policy_in, policy_out] = [policy.of_flow(entrance)?, policy];
        let flow = |channel, policy, bell: &Bell| Flow {
            channel,
            around: around.clone(),
            policy,
            hello: hello.clone(),
            cancel: flows.clone(),
            bell: bell.clone(),
        };
        receive(flow(inward, policy_in, &bell), &valve)?;
        send(flow(outward, policy_out, &bell), drawn)?;
        pass_errors(errors, beside, bell.clone())?;
        let waited = party.clone();
        // Nothing waits for it once the pipe is given up.
        let wait = move || drop(bell.send(Happening::Exited(waited.wait())));
        confine::spawn("fobs-wait", wait).map_err(Error::internal)?;
        cancel.check()?;
        Ok(Ends { party, valve, draw, pour, flows })
    }

    /// Waits until everything has ended well.
    fn watch(
        &self,
        (row, objects): (&Happenings, &mut Objects),
        writer: &ControlWriter,
        cancel: &CancelToken,
    ) -> Result<PipeEnd> {
        let (mut errors, mut told) = (Part::Open, Part::Open);
        let (mut came, mut exited) = (None, None);
        loop {
            if let (Part::Over, Part::Over, Some(came), Some(end)) = (objects.received, errors, came, exited)
            {
                return Ok(PipeEnd { given: self.valve.given(), came, ..end });
            }
            match row.next(cancel)? {
                Happening::Received(done) => {
                    objects.received = Part::Over;
                    done?;
                    self.party.has_all();
                    self.valve.close();
                }
                Happening::Sent(done) => {
                    objects.sent = Part::Over;
                    came = Some(done?);
                    self.party.is_delivered();
                }
                Happening::Unread if told == Part::Open => {
                    told = Part::Over;
                    writer.send(&Message::PipeNews(PipeNews::Unread))?;
                }
                Happening::Exited(end) => {
                    exited = Some(end?);
                    // What the client still sends is for nobody.
                    self.valve.is_unread();
                }
                Happening::ErrorsEnded => errors = Part::Over,
                Happening::Heard(PipeNews::Unread) => self.draw.enough(),
                Happening::Closed(why) => return Err(closed_early(why)),
                Happening::Unread | Happening::Heard(_) | Happening::Told(_) => {}
            }
        }
    }

    /// Ends everything because of an error, which is returned with what had arrived.
    fn give_up(&self, why: Error, (row, objects): (&Happenings, Objects), writer: &ControlWriter) -> Error {
        // First, so that no end of its input looks like one of the data.
        self.party.give_up(&why);
        let given = self.valve.given();
        let message = format!("{}; {given} bytes had reached the other end of the pipe", said(&why));
        let told = why.clone().reworded(message);
        // Before the objects end, whose own words would come first and say less.
        tell_abort(writer, &told);
        self.flows.cancel_because(why);
        self.pour.fail();
        self.draw.fail();
        objects.end(row, CLEAN_UP_WAIT);
        told
    }
}

/// Sends what a command says beside its output to the client, in a thread of its own, until the client has it
/// all.
fn pass_errors(errors: Option<OwnedFd>, mut beside: ControlChannel, bell: Bell) -> Result<()> {
    let writer = beside.writer.clone();
    writer.set_timeout(UNREAD_WAIT);
    let pass = move || {
        let mut errors = errors.map(File::from);
        let mut bytes = vec![0; ERRORS_BYTES_MAX];
        while let Some(file) = &mut errors {
            let count = match file.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let news = PipeNews::Errors { bytes: Bytes(bytes[..count].to_vec()) };
            if writer.send(&Message::PipeNews(news)).is_err() {
                break;
            }
        }
        writer.close();
        // The client ends its side of the branch behind the last of it; this channel is not closed before.
        while let Ok(Some(_)) = next_of(&mut beside) {}
        // The pipe may have been given up.
        let _ = bell.send(Happening::ErrorsEnded);
    };
    confine::spawn("fobs-errors", pass).map(drop).map_err(Error::internal)
}
