//! One client's connection, from its handshake to the end of its session.

use super::admission::{Arrival, Full, Seat};
use super::asked::{Asked, Count, top_of};
use super::attempts::{AttemptGuard, SessionStop};
use super::deletions::{By, Deletions, Files};
use super::fetch;
use super::log::{expansion, request};
use super::metrics::SessionMeter;
use super::server::{CLOSED_FOR_NEWER, Daemon};
use super::strangers::Stranger;
use super::streams::First;
use super::who::{Person, Visit};
use fobs::pipe::join::Meeting;
use fobs::pipe::program::Launcher;
use fobs::pipe::returns::Returns;
use fobs::restrict::beneath;
use fobs::server::{
    Answered, Fetch, Host, LanesAt, Leave, Opened, Policy, Reach, SessionFigures, StreamEntrance, Wanted,
    Work, no_patterns, open_session,
};
use fobs_channel::control::{ControlWriter, tls};
use fobs_channel::secure::authorized_keys::{AuthorizedKeys, KeyLimits, KeyLine};
use fobs_channel::secure::identity::PublicKey;
use fobs_channel::secure::ticket::Ticket;
use fobs_engine::tell_abort;
use fobs_model::budget::SESSION_BYTES_MIN;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::EventSink;
use fobs_model::message::files::WireEntry;
use fobs_model::message::{Message, PathRole};
use fobs_model::permit::Permit;
use fobs_model::rights::{Access, Rights};
use fobs_store::SourcesHere;
use fobs_sys::confine;
use fobs_sys::confine::{Domain, Errand, Tcp, outside};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What a client with a known key may do, and the place that it has.
struct Known {
    rights: Rights,
    limits: KeyLimits,
    place: std::result::Result<Arrival, Full>,
}

/// The transfers of one connection.
struct Desk<'a> {
    daemon: &'a Daemon,
    visit: &'a mut Visit,
    key: Option<PublicKey>,
    local: SocketAddr,
    /// What its thread can reach, once it is confined to that.
    reach: Option<Reach>,
    /// For a look at the connection.
    socket: TcpStream,
    stop: &'a SessionStop,
    /// When the transfer began: the first one with the connection.
    began: Instant,
    /// What is known of the client before its first request.
    known: Option<Result<Known>>,
    /// Held until the transfer is over.
    held: Option<(Seat, Option<AttemptGuard>)>,
    meter: Option<Arc<SessionMeter>>,
    /// Those of its key, once its request is judged.
    limits: KeyLimits,
    /// What takes the place of the key's rights, for one transfer.
    ticket: Option<Ticket>,
    /// Where a client is told that it waits.
    teller: Option<ControlWriter>,
}

impl Host for Desk<'_> {
    fn judge(&mut self, wanted: Wanted<'_>) -> Result<Policy> {
        let (daemon, visit) = (self.daemon, &mut *self.visit);
        // A later transfer is judged as a new connection is: a key that was removed is refused at once.
        let known = match self.known.take() {
            Some(known) => known,
            None => {
                self.began = Instant::now();
                let line = match &self.ticket {
                    Some(ticket) => line_of(ticket),
                    None => daemon.judge(self.key.as_ref(), visit),
                };
                line.map(|line| daemon.welcome(line, self.key, visit))
            }
        };
        visit.request = Some(request(wanted));
        visit.asked = Some(Asked::of(wanted));
        visit.deleted = Count::default();
        if visit.stranger.is_none() {
            daemon.log.request(visit, wanted);
        }
        let Known { rights, limits, place } = known?;
        let needs = Reach::of(&rights, daemon.options.read_only);
        if self.reach.as_ref().is_some_and(|reach| !reach.covers(&needs)) {
            let message = "this key has other rights than when its connection was made; connect again";
            return Err(Error::new(ErrorKind::Connect, message));
        }
        let size_max = self.ticket.as_ref().map(|ticket| for_ticket(ticket, wanted)).transpose()?;
        let transfer = visit.key.zip(wanted.transfer_id());
        let place = place.inspect_err(|full| {
            if let (Full::Queue, Some(transfer)) = (full, transfer) {
                daemon.admission.remember(transfer);
            }
        })?;
        // Before it waits: what it waits for may be its own older session.
        let token = &self.stop.token;
        let enter = |(key, id)| daemon.attempts.enter(key, id, visit.number, token.clone());
        let attempt = transfer.map(enter);
        let seat = match place {
            Arrival::Seated(seat) => seat,
            Arrival::Waiting(place) => {
                let _waits = daemon.metrics.keys.waits(visit);
                if let Some(teller) = self.teller.take() {
                    let text = place.describe(daemon.options.queue_wait);
                    // One that cannot be told hears the answer.
                    let _ = teller.send(&Message::Notice { text });
                }
                let seat = place.wait(wanted.transfer_id(), daemon.options.queue_wait, token)?;
                // The seat is for the next one where this client was killed meanwhile.
                if has_gone(&self.socket) {
                    let message = "the client went away while it waited for a session";
                    return Err(Error::new(ErrorKind::Connect, message));
                }
                seat
            }
        };
        let (log, top) = (daemon.log.clone(), top_of(wanted));
        let files = if daemon.options.log_files { Files::Named } else { Files::Counted };
        let deletions = Deletions::new(log, Person::of(visit), top, daemon.lines.clone()).with_files(files);
        let meter = daemon.metrics.of_session(visit, Asked::of(wanted), deletions);
        let meter = self.meter.insert(meter).clone();
        let (seat, _) = self.held.insert((seat, attempt));
        let policy = daemon.policy(rights, seat, meter, self.local)?;
        self.limits = limits;
        Ok(Policy { streams: daemon.entrance(limits), size_max, ..policy })
    }

    fn may_tell(&mut self, writer: ControlWriter) {
        self.teller = Some(writer);
    }

    fn denial(&self) -> Option<Error> {
        self.known.as_ref()?.as_ref().err().cloned()
    }

    fn expand(&mut self, paths: &[Vec<u8>], _role: PathRole) -> Result<Vec<Vec<u8>>> {
        self.visit.request = Some(expansion(paths));
        Err(no_patterns())
    }

    fn redeem(&mut self, ticket: &str) -> Result<()> {
        self.visit.request = Some("pull with a ticket".to_owned());
        let key = self.key.ok_or_else(|| Error::new(ErrorKind::Denied, "the client showed no key"))?;
        let ticket = Ticket::verify(ticket, &self.daemon.identity.public(), SystemTime::now())?;
        if !ticket.may_be_held_by(&key) {
            let message = "the ticket is refused: it is for another key; ask the source for one for this key";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let (tickets, used) = (self.daemon.tickets.clone(), ticket.clone());
        outside(Errand::Tickets, move || tickets.take(&used, &key))?;
        self.known = Some(Ok(self.daemon.welcome(line_of(&ticket)?, self.key, self.visit)));
        self.ticket = Some(ticket);
        Ok(())
    }

    fn sign(&mut self, ticket: &Ticket) -> Result<String> {
        ticket.sign(&self.daemon.identity)
    }

    fn fetch(&mut self, asked: Fetch<'_>) -> Result<Vec<WireEntry>> {
        if !self.daemon.options.third_party {
            let message =
                "this server fetches nothing for its clients; its operator allows it with --third-party";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        fetch::run(asked, self.daemon.identity_path.clone())
    }

    fn ended(&mut self, outcome: &Result<SessionFigures>) {
        self.settle(outcome);
        if self.visit.stranger.is_none() {
            self.daemon.report(self.visit, outcome, self.began.elapsed());
        }
        self.held = None;
    }

    fn answered(&mut self, outcome: &Result<Answered>) {
        self.meter = None;
        if let Ok(Answered { removed }) = outcome {
            self.visit.deleted = Count { all: *removed, unnamed: 0 };
            self.daemon.metrics.deleted(By::Request, *removed);
        }
        if self.visit.stranger.is_none() {
            self.daemon.metrics.answered(outcome);
            match outcome {
                Ok(_) => self.daemon.log.answered(self.visit),
                Err(error) => self.daemon.log.failed(self.visit, error, self.began.elapsed()),
            }
        }
        self.held = None;
    }

    fn launcher(&self) -> Option<Launcher> {
        Some(self.daemon.launcher.clone())
    }

    fn meeting(&self) -> Option<Meeting> {
        Some(self.daemon.meeting.clone())
    }

    fn returns(&self) -> Option<Returns> {
        Some(self.daemon.returns.clone())
    }

    fn key(&self) -> Option<PublicKey> {
        self.key
    }

    fn is_there(&self) -> bool {
        !has_gone(&self.socket)
    }

    fn another_entrance(&mut self) -> StreamEntrance {
        self.daemon.entrance(self.limits)
    }

    fn rest(&mut self, hang_up: Box<dyn FnOnce() + Send>) -> Option<Leave> {
        // A seat that it was given in advance.
        self.known = None;
        // A client without a known key has nothing to come back for.
        let key = self.key.filter(|_| self.visit.stranger.is_none())?;
        self.daemon.idle.rest(key, hang_up).map(|place| Box::new(|| place.leave()) as Leave)
    }
}

/// Whether the peer has ended the connection, whatever of it is unread.
fn has_gone(socket: &TcpStream) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(ended)
}

/// What a ticket stands for: the line of a key that may read its paths.
fn line_of(ticket: &Ticket) -> Result<KeyLine> {
    let paths = ticket.paths();
    let rights =
        paths.iter().try_fold(Rights::new(Access::ReadOnly), |rights, path| rights.with_path(path))?;
    Ok(KeyLine { rights, limits: KeyLimits::default(), name: "with a ticket".to_owned() })
}

/// The bytes that a ticket permits for a request; refuses one for which it is not.
fn for_ticket(ticket: &Ticket, wanted: Wanted<'_>) -> Result<u64> {
    match wanted {
        Wanted::Transfer { examine: None, .. } if wanted.work() == Work::Copy => Ok(ticket.size),
        // As a copy does, it only reads: what else a sync may do here is for rights that no ticket gives.
        Wanted::Transfer { examine: None, .. } if wanted.work() == Work::Sync => Ok(ticket.size),
        _ => Err(Error::new(
            ErrorKind::Denied,
            "a ticket is for a plain pull; ask its source for other rights",
        )),
    }
}

impl Desk<'_> {
    /// The domain of the session, from here on: what the rights may need that the client has now. One that is
    /// about to be refused has none.
    fn domain(&mut self) -> Result<Domain> {
        let Some(Ok(Known { rights, .. })) = &self.known else { return Ok(Domain::of_strangers()) };
        let reach = Reach::of(rights, self.daemon.options.read_only);
        let fetches = self.daemon.options.third_party && reach.writes();
        let tcp = if fetches { Tcp::Connect } else { Tcp::None };
        let domain = reach.domain(&self.daemon.root, tcp)?;
        self.reach = Some(reach);
        Ok(domain)
    }

    /// Counts what the meter of the transfer does not.
    fn settle(&mut self, outcome: &Result<SessionFigures>) {
        if let Some(meter) = self.meter.take() {
            if let Ok(served) = outcome {
                meter.moved(served.bytes);
            }
            self.visit.deleted = meter.deleted();
        }
        if outcome.is_ok()
            && let Some(ticket) = self.ticket.take()
            && let tickets = self.daemon.tickets.clone()
            && let Err(error) = outside(Errand::Tickets, move || tickets.spend(&ticket))
        {
            self.daemon.count("tickets", Some(self.visit.from), format!("{}: {error}", self.visit));
        }
    }
}

impl Daemon {
    /// Serves one client, and logs its requests and their outcomes; or takes a stream of a session that runs.
    /// The calling thread waits for the two that do it, and is their clerk.
    pub(super) fn session(&self, socket: TcpStream, mut visit: Visit) {
        let mut began = Instant::now();
        let served = self.serve(socket, &mut visit, &mut began);
        let elapsed = began.elapsed();
        match (served, &visit.stranger) {
            // It ended at rest, and its transfers are in the log; or it was a stream.
            (Ok(None), _) => {}
            (Ok(Some(served)), _) => self.report(&visit, &Ok(served), elapsed),
            (Err(error), None) => self.report(&visit, &Err(error), elapsed),
            (Err(error), Some(stranger)) if stranger.is_held() || self.stop.is_cancelled() => {
                let code = error.kind.code();
                self.count(code, Some(visit.from), format!("{visit}: {code}: {error}"));
            }
            (Err(_), Some(_)) => {
                self.count("closed", Some(visit.from), format!("{visit}: {CLOSED_FOR_NEWER}"));
            }
        }
    }

    /// Logs and counts a transfer of a client with a known key.
    fn report(&self, visit: &Visit, outcome: &Result<SessionFigures>, elapsed: Duration) {
        self.metrics.ended(visit, outcome);
        match outcome {
            Ok(served) => self.log.done(visit, served, elapsed),
            Err(error) => self.log.failed(visit, error, elapsed),
        }
    }

    /// Serves one client. The visit learns its key and its request; `began`, when its last transfer did.
    fn serve(
        &self,
        socket: TcpStream,
        visit: &mut Visit,
        began: &mut Instant,
    ) -> Result<Option<SessionFigures>> {
        let stop = SessionStop::below(&self.stop);
        let opening = || self.open(socket, visit, &stop, *began);
        // Until its key is known and its rights are, whatever it sends reaches no file.
        let opened =
            confine::within(Domain::of_strangers(), "fobs-opening", opening).map_err(Error::internal)??;
        let Some((mut desk, opened)) = opened else { return Ok(None) };
        let writer = opened.writer();
        let confined = desk.domain().and_then(|domain| {
            confine::within(domain, "fobs-session", || opened.serve(&stop.token, &mut desk))
                .map_err(Error::internal)
        });
        let served = match confined {
            Ok(served) => served,
            Err(error) => {
                tell_abort(&writer, &error);
                Err(error)
            }
        };
        match &served {
            Ok(Some(served)) => desk.settle(&Ok(*served)),
            Err(error) => desk.settle(&Err(error.clone())),
            Ok(None) => {}
        }
        *began = desk.began;
        served
    }

    /// What a connection begins with, up to the first request; `None` for a stream of a session that runs.
    fn open<'a>(
        &'a self,
        socket: TcpStream,
        visit: &'a mut Visit,
        stop: &'a SessionStop,
        began: Instant,
    ) -> Result<Option<(Desk<'a>, Opened)>> {
        if self.speaks_first(&socket) == First::Stream {
            self.stream(socket, visit);
            return Ok(None);
        }
        let gone =
            |error: std::io::Error| Error::new(ErrorKind::Connect, format!("the client is gone: {error}"));
        socket.set_nonblocking(false).map_err(gone)?;
        let local = socket.local_addr().map_err(gone)?;
        let looked_at = socket.try_clone().map_err(gone)?;
        let channel = tls::accept(socket, began, &self.identity, &self.stop)?;
        let key = channel.peer.key;
        visit.key = key;
        visit.key_exchange = channel.key_exchange;
        let known = self.judge(key.as_ref(), visit).map(|line| self.welcome(line, key, visit));
        let mut desk = Desk {
            daemon: self,
            visit,
            key,
            local,
            socket: looked_at,
            reach: None,
            stop,
            began,
            known: Some(known),
            held: None,
            meter: None,
            limits: KeyLimits::default(),
            ticket: None,
            teller: None,
        };
        let opened = open_session(channel, &stop.token, &mut desk)?;
        Ok(Some((desk, opened)))
    }

    /// What this client may do.
    fn judge(&self, key: Option<&PublicKey>, visit: &Visit) -> Result<KeyLine> {
        let Some(key) = key else {
            return Err(Error::new(ErrorKind::Denied, "the client showed no key"));
        };
        // Read again for each client, so that a removed key is refused at once.
        let path = self.options.authorized_keys.clone();
        let keys = outside(Errand::AuthorizedKeys, move || AuthorizedKeys::load(&path)).map_err(|error| {
            // The file's content is for the log only, not for a client that may have no rights.
            self.count("keys", Some(visit.from), format!("{visit}: {error}"));
            let message = "this server cannot read its authorized keys; ask its operator to look at its log";
            Error::new(ErrorKind::Denied, message)
        })?;
        keys.lookup(key).ok_or_else(|| {
            let message = format!(
                "the key {} is not among this server's authorized keys; ask its operator to add its line",
                key.fingerprint()
            );
            Error::new(ErrorKind::Denied, message)
        })
    }

    /// A place for a client with a known key, which then is no stranger any more; unless its connection was
    /// closed for a newer one, or even the places of those that wait are taken.
    fn welcome(&self, line: KeyLine, key: Option<PublicKey>, visit: &mut Visit) -> Known {
        let KeyLine { rights, limits, name } = line;
        visit.key_name = name;
        visit.rate_bps = limits.rate_bps;
        let place = match &key {
            Some(key) => self.admission.arrive(key, limits),
            None => Err(Full::Queue),
        };
        if place.is_ok() && visit.stranger.as_ref().is_some_and(Stranger::leave) {
            visit.stranger = None;
            self.metrics.keys.limits(visit, &limits);
        }
        Known { rights, limits, place }
    }

    /// Where lanes come in that are called at `local`: at every address, if the server listens at all of
    /// them.
    fn lanes_at(&self, local: IpAddr) -> LanesAt {
        let all = |v4: bool| {
            let mut listens = self.options.listen.iter().map(SocketAddr::ip);
            listens.find(|at| at.is_unspecified() && at.is_ipv4() == v4)
        };
        LanesAt { reached: all(local.is_ipv4()).unwrap_or(local), other: all(!local.is_ipv4()) }
    }

    fn policy(
        &self,
        rights: Rights,
        seat: &Seat,
        events: Arc<dyn EventSink>,
        local: SocketAddr,
    ) -> Result<Policy> {
        let root = self.root.try_clone().map_err(|error| {
            Error::new(ErrorKind::FileIo, format!("the server cannot open its root: {error}"))
        })?;
        let base = beneath(root, &rights);
        let permit = Permit::of_key(rights);
        Ok(Policy {
            base,
            permit: if self.options.read_only { permit.read_only() } else { permit },
            within: Vec::new(),
            udp_ip: local.ip().to_canonical(),
            lanes_at: self.lanes_at(local.ip().to_canonical()),
            udp_ports: self.options.udp_ports,
            streams: StreamEntrance::Own,
            addresses: Vec::new(),
            client: None,
            size_max: None,
            budget: self.memory.session_below(SESSION_BYTES_MIN)?,
            here: SourcesHere::default(),
            throttle: seat.throttle(),
            events,
        })
    }
}
