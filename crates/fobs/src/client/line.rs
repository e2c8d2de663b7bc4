//! A connection to one server for transfers that run one after the other, made again where it broke.

use super::busy::outlast;
use super::direct::{ROOM, may_be_direct};
use super::manner::Manner;
use super::persist::{Course, Interlude, Remedy, persist};
use super::resume::transfer_id;
use super::{Client, Done, Known, hang_up};
use crate::direct::Filled;
use fobs_channel::control::{ControlChannel, Kept, KeptSide, ssh};
use fobs_channel::secure::identity::PublicKey;
use fobs_model::cancel::{CancelHook, CancelToken};
use fobs_model::direction::TransferDirection;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, Summary};
use fobs_model::message::{ByteRange, Hello, Message, REUSE, Reuse};
use fobs_model::options::Remote;
use fobs_store::{Sink, Source, TransferId};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a connection may rest before a new one is made instead: less than what a server allows
/// (`REST_MAX`), so that no request is sent to one that is just hanging up.
const REST_MAX: Duration = Duration::from_secs(240);

/// What one transfer moves. Sources and sinks are made anew for each attempt.
pub enum Task<'t> {
    Push {
        source: &'t mut dyn FnMut() -> Result<Source>,
        names: Vec<Vec<u8>>,
        destination: Vec<u8>,
        attempted: Attempted,
    },
    Pull {
        paths: Vec<Vec<u8>>,
        sink: &'t mut dyn FnMut(TransferId) -> Result<Sink>,
        /// Only a part of the one file; `sink` may change it for its attempt.
        range: Option<&'t Cell<ByteRange>>,
    },
}

impl Task<'_> {
    fn direction(&self) -> TransferDirection {
        match self {
            Task::Push { .. } => TransferDirection::Push,
            Task::Pull { .. } => TransferDirection::Pull,
        }
    }

    fn run(&mut self, mut client: Client<'_>, remote: &Remote, course: &mut Course) -> Result<Done> {
        let is_kept = client.reuse.keep;
        match self {
            // The answer to an object in a request does not say what a server withholds of attributes.
            Task::Push { source, names, destination, attempted: Attempted::Direct }
                if is_kept && may_be_direct(client.options) && !client.options.preserve =>
            {
                push(client, &mut **source, names.clone(), destination.clone(), remote, course)
            }
            Task::Push { source, names, destination, .. } => source().and_then(|source| {
                let remote = Remote { path: destination.clone(), ..remote.clone() };
                client.push(source, names.clone(), &remote, course)
            }),
            Task::Pull { range: Some(range), .. } if !is_kept && !range.get().whole => {
                let peer = &client.channel.peer.description;
                let message = format!(
                    "{peer} has an older fobs, which cannot read a part of a file; install the same version there, \
                     or get the whole file"
                );
                Err(Error::new(ErrorKind::Protocol, message))
            }
            Task::Pull { paths, sink, range } => sink(course.id).and_then(|mut sink| {
                if is_kept {
                    client.reuse.range = range.map(Cell::get);
                    let may_come = may_be_direct(client.options) && sink.history().is_none();
                    client.reuse.room = may_come.then_some(ROOM);
                }
                client.pull(paths.clone(), sink, course)
            }),
        }
    }
}

/// How an object is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempted {
    /// With the request, if it is small.
    Direct,
    /// It is known not to be.
    Sealed,
}

/// Who is called, and the connection while there is one.
pub struct Caller {
    pub(crate) remote: Remote,
    /// Whether the server is treated as one that keeps no connection.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) plays_old: bool,
    line: Option<Line>,
}

/// A server that was reached.
pub(super) enum Reached<'m> {
    Line(Box<Line>),
    /// It keeps no connections.
    Once(Box<Client<'m>>),
}

/// An open connection, at rest.
pub(super) struct Line {
    kept: Kept,
    ssh: Option<ssh::SshProcess>,
    hosts: Vec<String>,
    tcp_port: u16,
    hello: Hello,
    /// Whether that is only what the handshake told.
    is_foretold: bool,
    since: Instant,
}

impl Caller {
    pub fn new(remote: Remote) -> Caller {
        Caller {
            remote,
            #[cfg(any(test, feature = "testing"))]
            plays_old: false,
            line: None,
        }
    }

    /// Connects, unless there is a connection.
    pub(crate) fn connect(&mut self, manner: Manner<'_>) -> Result<()> {
        self.let_go();
        if self.line.is_none() {
            let client = outlast(manner, || self.call(manner))?;
            if self.keeps(&client.hello) {
                // It rests until it is used, and holds no seat there.
                client.channel.writer.send(&Message::Over)?;
                self.line = Some(Line::of(client));
            } else {
                hang_up(&client.channel.writer, client.ssh);
            }
        }
        Ok(())
    }

    /// Makes one transfer, over as many connections as it needs. Figures come even where files failed.
    pub fn run(&mut self, mut task: Task<'_>, manner: Manner<'_>) -> Result<Summary> {
        let mut course = Course::new(transfer_id(), Remedy::Reconnect);
        course.steering = manner.steering.clone();
        let tell = |interlude: Interlude<'_>| manner.events.event(Event::Notice(interlude.to_string()));
        let done = persist(manner.options.timeout, manner.cancel, tell, || {
            let direction = task.direction();
            let outcome = outlast(manner, || {
                let options = course.after_a_wait(manner.options, direction);
                let outcome = self.attempt(&mut task, Manner { options: &options, ..manner }, &mut course);
                course.note_taken(&outcome);
                outcome
            });
            course.attempt(outcome)
        });
        done.map_err(|error| course.advise(error, manner.options)).map(|(done, _)| course.add_up(done))
    }

    /// One attempt; a connection that broke while it rested costs none.
    fn attempt(&mut self, task: &mut Task<'_>, manner: Manner<'_>, course: &mut Course) -> Result<Done> {
        let (rested, sessions) = (self.line.is_some(), course.sessions());
        match self.attempt_once(task, manner, course) {
            Err(error)
                if rested
                    && course.sessions() == sessions
                    && self.line.is_none()
                    && !manner.cancel.is_cancelled()
                    && matches!(error.kind, ErrorKind::Connect | ErrorKind::Timeout) =>
            {
                self.attempt_once(task, manner, course)
            }
            outcome => outcome,
        }
    }

    fn attempt_once(&mut self, task: &mut Task<'_>, manner: Manner<'_>, course: &mut Course) -> Result<Done> {
        let remote = self.remote.clone();
        self.with_client(manner, |client| task.run(client, &remote, course))
    }

    /// Has `work` make one transfer over the connection, which is made if there is none. At a server that
    /// keeps no connections it serves this transfer alone.
    pub(super) fn with_client<T>(
        &mut self,
        manner: Manner<'_>,
        work: impl FnOnce(Client<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut line = match self.reach(manner)? {
            Reached::Line(line) => *line,
            Reached::Once(client) => return work(*client),
        };
        // Gone in a panic of the caller's sink, as any connection in an unknown state.
        let (outcome, is_sound) = line.lend(manner, work);
        self.put_back(line, is_sound);
        outcome
    }

    /// The connection for the next request, made if there is none. A new one does not rest before its first
    /// request: the server could hang up on it there.
    pub(super) fn reach<'m>(&mut self, manner: Manner<'m>) -> Result<Reached<'m>> {
        manner.cancel.check()?;
        self.let_go();
        if let Some(line) = self.line.take() {
            return Ok(Reached::Line(Box::new(line)));
        }
        let client = self.call(manner)?;
        Ok(if self.keeps(&client.hello) {
            Reached::Line(Box::new(Line::of(client)))
        } else {
            Reached::Once(Box::new(client))
        })
    }

    /// Ends a connection that has rested too long.
    fn let_go(&mut self) {
        if self.line.as_ref().is_some_and(|line| line.since.elapsed() > REST_MAX) {
            self.hang_up();
        }
    }

    fn call<'m>(&self, manner: Manner<'m>) -> Result<Client<'m>> {
        Client::call(&self.remote, manner.options, manner.events.clone(), manner.cancel)
    }

    fn keeps(&self, hello: &Hello) -> bool {
        #[cfg(any(test, feature = "testing"))]
        if self.plays_old {
            return false;
        }
        hello.has(REUSE)
    }

    /// Whether the server that is connected has a feature.
    pub(crate) fn knows(&self, feature: &str) -> bool {
        self.line.as_ref().is_some_and(|line| line.knows(feature))
    }

    /// The key of the server that is connected.
    pub(crate) fn server_key(&self) -> Option<PublicKey> {
        self.line.as_ref().and_then(|line| line.kept.peer().key)
    }

    pub(super) fn has_line(&self) -> bool {
        self.line.is_some()
    }

    pub(super) fn put_back(&mut self, line: Line, is_sound: bool) {
        if is_sound { self.line = Some(line) } else { line.hang_up() }
    }

    /// Ends the connection, if there is one.
    pub fn hang_up(&mut self) {
        if let Some(line) = self.line.take() {
            line.hang_up();
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl Line {
    fn of(client: Client<'_>) -> Line {
        let Client { channel, ssh, hosts, tcp_port, hello, .. } = client;
        let is_foretold = channel.foretold.is_some();
        let kept = Kept::new(channel, KeptSide::Client);
        Line { kept, ssh, hosts, tcp_port, hello, is_foretold, since: Instant::now() }
    }

    /// Whether the server has a feature, as far as its hello has come.
    pub(super) fn knows(&self, feature: &str) -> bool {
        let late = self.kept.late_features().unwrap_or_default();
        self.hello.has(feature) || late.iter().any(|name| name == feature)
    }

    /// Whether the server's hello is still to come: what it can do beyond what its handshake told.
    pub(super) fn awaits_hello(&self) -> bool {
        self.is_foretold && self.kept.late_features().is_none()
    }

    pub(super) fn lease(&mut self) -> ControlChannel {
        self.kept.lease()
    }

    /// Has the connection end with `cancel`, until the hook is dropped.
    pub(super) fn ends_with(&self, cancel: &CancelToken) -> CancelHook {
        match &self.ssh {
            Some(process) => cancel.on_cancel(process.killer()),
            None => cancel.on_cancel(self.kept.breaker()),
        }
    }

    /// It rests from now on.
    pub(super) fn rests(&mut self) {
        self.since = Instant::now();
    }

    /// Has `work` make one transfer; with whether the connection can serve another one.
    fn lend<T>(
        &mut self,
        manner: Manner<'_>,
        work: impl FnOnce(Client<'_>) -> Result<T>,
    ) -> (Result<T>, bool) {
        let Manner { options, events, cancel, .. } = manner;
        let channel = self.lease();
        let writer = channel.writer.clone();
        let hook = self.ends_with(cancel);
        let known = Known { hosts: &self.hosts, tcp_port: self.tcp_port, hello: &self.hello };
        let client = Client::over(channel, known, (options, cancel), events);
        let reuse = Reuse { keep: true, ..Reuse::default() };
        let outcome = work(Client { hook: Some(hook), reuse, ..client });
        writer.close();
        self.rests();
        let is_sound = match &outcome {
            Ok(_) => true,
            Err(_) if cancel.is_cancelled() => false,
            Err(error) => error.kind.leaves_channel(),
        };
        (outcome, is_sound)
    }

    fn hang_up(self) {
        self.kept.close();
        if let Some(process) = self.ssh {
            // How ssh ended does not matter: no transfer is running.
            process.dismiss();
        }
    }
}

/// Pushes over a connection that is kept: with the request, if the object is small.
fn push(
    client: Client<'_>,
    make: &mut dyn FnMut() -> Result<Source>,
    names: Vec<Vec<u8>>,
    destination: Vec<u8>,
    remote: &Remote,
    course: &mut Course,
) -> Result<Done> {
    let source = make()?;
    let shape = source.shape();
    if let Some(object) = Filled::all_of(source, ROOM as usize)? {
        return client.push_direct(object, shape, names, destination, course);
    }
    client.push(make()?, names, &Remote { path: destination, ..remote.clone() }, course)
}
