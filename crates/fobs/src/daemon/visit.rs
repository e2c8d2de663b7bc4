//! One client's connection, from its handshake to the end of its session.

use super::Daemon;
use super::admission::{Arrival, Full, Seat};
use super::attempts::SessionStop;
use super::log::{request, short_fingerprint};
use super::strangers::Stranger;
use super::streams::First;
use crate::control::{ControlChannel, tls};
use crate::direction::TransferDirection;
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventSink;
use crate::secure::authorized_keys::{AuthorizedKeys, KeyLimits, KeyLine, Rights};
use crate::secure::identity::PublicKey;
use crate::server::{Policy, SessionFigures, StreamEntrance, serve_session};
use crate::storage::{Base, Links};
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// One client's connection. Its text names it in the log.
pub(super) struct Visit {
    /// Counts from 1, for each server.
    pub(super) number: u64,
    pub(super) from: SocketAddr,
    /// Its place among the strangers, until its key is known.
    stranger: Option<Stranger>,
    key: Option<PublicKey>,
    key_name: String,
    pub(super) request: Option<String>,
    direction: Option<TransferDirection>,
}

impl Visit {
    pub(super) fn new(number: u64, from: SocketAddr, stranger: Stranger) -> Visit {
        Visit {
            number,
            from,
            stranger: Some(stranger),
            key: None,
            key_name: String::new(),
            request: None,
            direction: None,
        }
    }

    /// The whole fingerprint of its key.
    pub(super) fn fingerprint(&self) -> Option<String> {
        self.key.map(|key| key.fingerprint())
    }

    /// The comment of its key, where the key is known and has one.
    pub(super) fn key_name(&self) -> Option<&str> {
        Some(self.key_name.as_str()).filter(|name| !name.is_empty())
    }
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.from)?;
        if let Some(key) = &self.key {
            write!(f, " {}", short_fingerprint(key))?;
        }
        if let Some(name) = self.key_name() {
            write!(f, " ({name})")?;
        }
        self.request.as_ref().map_or(Ok(()), |request| write!(f, ": {request}"))
    }
}

/// What a client with a known key may do, and the place that it has.
struct Known {
    rights: Rights,
    limits: KeyLimits,
    place: std::result::Result<Arrival, Full>,
}

impl Daemon {
    /// Serves one client, and logs its request and the outcome; or takes a stream of a session that runs.
    pub(super) fn session(&self, socket: TcpStream, mut visit: Visit) {
        let began = Instant::now();
        if self.speaks_first(&socket) == First::Stream {
            return self.stream(socket, &visit);
        }
        let served = self.serve(socket, began, &mut visit);
        let elapsed = began.elapsed();
        if visit.stranger.is_none() {
            self.metrics.ended(visit.direction, &served);
        }
        match (served, &visit.stranger) {
            (Ok(served), _) => self.log.done(&visit, &served, elapsed),
            (Err(error), None) => self.log.failed(&visit, &error, elapsed),
            (Err(error), Some(stranger)) if stranger.has_its_place() || self.stop.is_cancelled() => {
                let code = error.kind.code();
                self.count(code, Some(visit.from), format!("{visit}: {code}: {error}"));
            }
            (Err(_), Some(_)) => {
                let why = "had not authenticated yet, and was closed to make room for newer connections";
                self.count("closed", Some(visit.from), format!("{visit}: {why}"));
            }
        }
    }

    /// Serves one client. The visit learns its key and its request.
    fn serve(&self, socket: TcpStream, began: Instant, visit: &mut Visit) -> Result<SessionFigures> {
        let gone =
            |error: std::io::Error| Error::new(ErrorKind::Connect, format!("the client is gone: {error}"));
        socket.set_nonblocking(false).map_err(gone)?;
        let local = socket.local_addr().map_err(gone)?;
        let channel = tls::accept(socket, began, &self.identity, &self.stop)?;
        visit.key = channel.peer.key;
        let known = self.judge(&channel, visit).map(|line| self.welcome(line, &channel, visit));
        let stop = SessionStop::below(&self.stop);
        // Held until the session is over.
        let (mut held, mut meter) = (None, None);
        let served = serve_session(channel, &stop.token, |open| {
            visit.request = Some(request(open));
            visit.direction = Some(open.direction);
            if visit.stranger.is_none() {
                self.log.request(visit, open);
            }
            let Known { rights, limits, place } = known?;
            let place = place?;
            // Before it waits: what it waits for may be its own older session.
            let transfer = visit.key.zip(open.resuming.transfer_id);
            let enter = |(key, id)| self.attempts.enter(key, id, visit.number, stop.token.clone());
            let attempt = transfer.map(enter);
            let seat = match place {
                Arrival::Seated(seat) => seat,
                Arrival::Waiting(place) => place.wait(self.options.queue_wait, &stop.token)?,
            };
            let meter = meter.insert(self.metrics.of_session(open.direction));
            let seat = &held.insert((seat, attempt)).0;
            Ok(Policy { streams: self.entrance(limits), ..self.policy(rights, seat, meter.clone(), local)? })
        });
        if let (Ok(served), Some(meter)) = (&served, meter) {
            meter.moved(served.bytes);
        }
        served
    }

    /// What this client may do.
    fn judge(&self, channel: &ControlChannel, visit: &Visit) -> Result<KeyLine> {
        let Some(key) = &channel.peer.key else {
            return Err(Error::new(ErrorKind::Denied, "the client showed no key"));
        };
        // Read again for each client, so that a removed key is refused at once.
        let keys = AuthorizedKeys::load(&self.options.authorized_keys).map_err(|error| {
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
    fn welcome(&self, line: KeyLine, channel: &ControlChannel, visit: &mut Visit) -> Known {
        let KeyLine { rights, limits, name } = line;
        visit.key_name = name;
        let place = match &channel.peer.key {
            Some(key) => self.admission.arrive(key, limits),
            None => Err(Full::Queue),
        };
        if place.is_ok() && visit.stranger.as_ref().is_some_and(Stranger::leave) {
            visit.stranger = None;
        }
        Known { rights, limits, place }
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
        // A right to a subtree is checked by name, so no link may lead elsewhere.
        let links = if rights.paths.is_empty() { Links::Inside } else { Links::Refuse };
        Ok(Policy {
            base: Base::Beneath { root, links },
            read_only: self.options.read_only,
            rights: Some(rights),
            udp_ip: local.ip().to_canonical(),
            udp_ports: self.options.udp_ports,
            streams: StreamEntrance::Own,
            addresses: Vec::new(),
            client: None,
            throttle: seat.throttle(),
            events,
        })
    }
}
