//! The answering side of a pipe (protocol 2.18): the client's bytes to a program or another client, and back.

mod flow;
mod line;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use super::{Host, Policy, SessionFigures, StreamEntrance, Wanted, let_tell};
use crate::pipe::hearken::{Bell, Cut, Happenings, hearken};
use crate::pipe::held::{Held, Keeping};
use crate::pipe::returns::Berth;
use crate::pipe::{BRANCHES, FarEnd, branched};
use fobs_channel::control::{ControlChannel, ControlWriter};
use fobs_model::budget::Keeps;
use fobs_model::cancel::CancelToken;
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::OtherEntries;
use fobs_model::message::{Hello, Message, PipeEnd, PipeKeep, PipeNews, PipeOpen, PipeRequest, PipeResume};
use fobs_model::options::{RESUME_WINDOW_DEFAULT, TIMEOUT_RANGE};
use fobs_model::permit::{Commands, Needs};
use fobs_model::rights::{NOT_PLAIN, is_pipe_name};
use line::Line;

/// How long a client may be away whose connection was ended: the path works then, and a person may have to
/// type a password. (One whose path is silent is waited for as long as `--timeout` says.)
const AWAY_MAX: Duration = Duration::from_secs(60);
/// Bytes that a server keeps of what goes to one client: what the client keeps of the rest by default.
const WINDOW_MAX: u64 = RESUME_WINDOW_DEFAULT;

/// Serves a pipe to its end, or until its connection breaks and its client may come back.
pub(super) fn serve(
    mut channel: ControlChannel,
    open: &PipeOpen,
    hello: &Hello,
    cancel: &CancelToken,
    host: &mut dyn Host,
) -> Result<SessionFigures> {
    let began = Instant::now();
    cancel.check()?;
    let_tell(&channel, hello, host);
    let policy = host.judge(Wanted::Pipe(&open.request))?;
    if host.hands_over(open, hello, cancel) {
        return Ok(figures(PipeEnd::default(), began));
    }
    let branches = branched(&mut channel)?;
    let writer = channel.writer.clone();
    let (bell, row) = Happenings::new();
    hearken(channel.reader, channel.peer.description, bell.clone())?;
    let entrance = host.another_entrance();
    let begun = Begun::of(open, &policy, &bell, cancel, host)?;
    let connection = Connection { writer: &writer, hello, cancel };
    let end = begun.run(branches, (policy, entrance), (bell, row), connection)?;
    Ok(figures(end, began))
}

fn figures(end: PipeEnd, began: Instant) -> SessionFigures {
    SessionFigures {
        direction: TransferDirection::Push,
        files: 0,
        bytes: end.given + end.came,
        resumed_bytes: 0,
        others: OtherEntries::default(),
        failed: 0,
        seconds: began.elapsed().as_secs_f64(),
        datagrams_rejected: 0,
    }
}

/// What a pipe runs over.
#[derive(Clone, Copy)]
struct Connection<'c> {
    writer: &'c ControlWriter,
    hello: &'c Hello,
    cancel: &'c CancelToken,
}

/// A pipe whose program is there.
struct Begun {
    held: Held,
    /// Where its client may come back to it.
    berth: Option<Berth>,
    joined: PipeNews,
    /// What the client has of the program's output and errors.
    at: (u64, u64),
}

impl Begun {
    fn of(
        open: &PipeOpen,
        policy: &Policy,
        bell: &Bell,
        cancel: &CancelToken,
        host: &dyn Host,
    ) -> Result<Begun> {
        if let PipeRequest::Resume(asked) = &open.request {
            return Begun::again(asked, policy, bell, host);
        }
        let keeping = open.keep.and_then(|keep| keeping(keep, policy));
        let far = far_end(&open.request, policy, cancel, host)?;
        let party = far.party.clone();
        let held = Held::new(far, open.request.clone(), keeping).inspect_err(|error| party.give_up(error))?;
        let window = held.keeping.as_ref().map(|it| it.window);
        let entered = window.zip(host.returns());
        let entered = entered.and_then(|(window, returns)| returns.enter(host.key(), window, bell.clone()));
        let (berth, ticket) = entered.unzip();
        ticket.iter().for_each(|ticket| host.awaits(&ticket.pipe));
        if berth.is_none() {
            // Nobody would confirm it.
            held.well.keep(0);
            held.errors.iter().for_each(|errors| errors.keep(0));
        }
        Ok(Begun { held, berth, joined: PipeNews::Joined { ticket, have: 0 }, at: (0, 0) })
    }

    /// For a client that has come back.
    fn again(asked: &PipeResume, policy: &Policy, bell: &Bell, host: &dyn Host) -> Result<Begun> {
        let unknown = || Error::new(ErrorKind::NoSource, "no client comes back to a pipe at this server");
        let (berth, held) = host.returns().ok_or_else(unknown)?.take(asked, host.key(), bell)?;
        // Rights may have changed meanwhile.
        let needs = Needs::of_pipe(&held.request, matches!(policy.permit.commands(), Commands::OfTheKey(_)));
        policy.permit.check(&needs).inspect_err(|error| held.party.give_up(error))?;
        let joined = PipeNews::Joined { ticket: None, have: held.valve.position() };
        Ok(Begun { held: *held, berth: Some(berth), joined, at: (asked.have, asked.errors) })
    }

    /// Moves it to its end over one connection.
    fn run(
        self,
        branches: [ControlChannel; BRANCHES as usize],
        (policy, entrance): (Policy, StreamEntrance),
        (bell, row): (Bell, Happenings),
        connection: Connection<'_>,
    ) -> Result<PipeEnd> {
        let Begun { held, berth, joined, at } = self;
        let Connection { writer, hello, cancel } = connection;
        let line = writer.send(&Message::PipeNews(joined)).map_err(Cut::Broken).and_then(|()| {
            Line::start(&held, branches, (policy, entrance), (hello, writer), (bell, at)).map_err(Cut::Failed)
        });
        let ended = line.and_then(|mut line| {
            let watched = line.watch(&held, &row, berth.is_some(), cancel);
            watched.map_err(|cut| line.leave(cut, &held, &row))
        });
        match (ended, berth) {
            (Ok(end), berth) => {
                let told = writer.send(&Message::PipeNews(PipeNews::Ended(end)));
                let is_read = || row.is_read(line::READ_WAIT);
                match berth {
                    Some(berth) if told.is_err() || !is_read() => {
                        berth.wait(held, AWAY_MAX);
                        Ok(end)
                    }
                    // Without a return the client is told now or not at all.
                    _ => told.map(|()| end),
                }
            }
            (Err(Cut::Broken(error)), Some(berth)) => {
                // It is no end for the client.
                writer.close();
                let wait = held.keeping.as_ref().map_or(AWAY_MAX, |keeping| keeping.wait);
                let error = told_of(error, &held);
                let message = format!("{}; it waits {} s for its client", error.message, wait.as_secs());
                berth.wait(held, wait);
                Err(error.reworded(message))
            }
            (Err(Cut::Broken(error) | Cut::Failed(error)), _) => {
                // First, so that no end of its input looks like one of the data.
                held.party.give_up(&error);
                Err(told_of(error, &held))
            }
        }
    }
}

/// An error with what had arrived.
fn told_of(error: Error, held: &Held) -> Error {
    let (given, said) = (held.valve.given(), crate::pipe::hearken::said(&error));
    let message = format!("{said}; {given} bytes had reached the other end of the pipe");
    error.reworded(message)
}

/// What a client's wish comes to here; `None` where there is no room.
fn keeping(keep: PipeKeep, policy: &Policy) -> Option<Keeping> {
    let window = keep.window.min(WINDOW_MAX);
    let bytes = usize::try_from(window).ok().filter(|&bytes| bytes > 0)?;
    let room = policy.budget.outside(Keeps::Window, bytes).ok()?;
    let wait = Duration::from_millis(keep.wait_ms).clamp(TIMEOUT_RANGE.0, AWAY_MAX);
    Some(Keeping { window, wait, _room: room })
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
        (PipeRequest::Resume(_) | PipeRequest::Unknown, ..) => Err(Error::new(
            ErrorKind::Usage,
            "this server has an older fobs, which knows no such pipe; install the same version there",
        )),
    }
}
