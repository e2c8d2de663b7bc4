//! A server: listens, authenticates, and answers each client in a thread of its own.

mod log;
mod network;
mod seats;
mod strangers;
mod tally;

use self::log::{log_line, request, short_fingerprint};
use self::seats::{Seat, Seats};
use self::strangers::{STRANGERS_MAX, Stranger, Strangers};
use self::tally::Tally;
use crate::cancel::CancelToken;
use crate::control::{ControlChannel, tls};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventSink};
use crate::options::ServeOptions;
use crate::secure::authorized_keys::{AuthorizedKeys, Rights};
use crate::secure::identity::{Identity, default_server_identity_path, load_or_generate};
use crate::server::{Policy, SessionFigures, serve_session};
use crate::storage::{Base, Links};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the listeners check for cancellation.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long running sessions get to end after cancellation: longer than the clean-up of a blocked one may
/// take.
const LEAVE_WAIT: Duration = Duration::from_secs(12);
/// Connections waiting to be accepted.
const BACKLOG: i32 = 128;
/// Most clients with a known key that wait to be told that the daemon is full.
const REFUSALS_MAX: usize = 32;
/// Most threads that serve no session: strangers, as many whose connection was just closed for a newer one,
/// and refusals.
const OTHER_THREADS_MAX: usize = 2 * STRANGERS_MAX + REFUSALS_MAX;

struct Daemon {
    options: ServeOptions,
    root: OwnedFd,
    identity: Identity,
    events: Arc<dyn EventSink>,
    /// Clients whose key is not known (yet).
    strangers: Strangers,
    sessions: Seats,
    refusals: Seats,
    threads: Seats,
    /// What strangers make us write.
    tally: Tally,
    cancel: CancelToken,
}

/// A server that listens, and serves once [`run`](Server::run). Any number of them may run in one process.
pub struct Server {
    options: ServeOptions,
    root: OwnedFd,
    identity: Identity,
    events: Arc<dyn EventSink>,
    listeners: Vec<TcpListener>,
}

impl Server {
    /// Checks the options, binds the TCP addresses and reports each as an [`Event::Notice`]. Clients may
    /// connect from here on; they are answered once [`run`](Self::run) is called.
    ///
    /// # Errors
    /// `Destination` for a root that cannot be opened, `Denied` for keys that cannot be used, `Socket` for an
    /// address that cannot be bound.
    pub fn bind(options: &ServeOptions, events: Arc<dyn EventSink>) -> Result<Server> {
        let root = open_root(options)?;
        // Refuse to start with a key file that would refuse every client.
        AuthorizedKeys::load(&options.authorized_keys)?;
        let identity_path = match &options.identity {
            Some(path) => path.clone(),
            None => default_server_identity_path()?,
        };
        let (identity, _) = load_or_generate(&identity_path)?;
        let listeners = options.listen.iter().map(|address| listen(*address)).collect::<Result<_>>()?;
        let server = Server { options: options.clone(), root, identity, events, listeners };
        let mode = if options.read_only { "read-only" } else { "read and write as each key allows" };
        for address in server.addresses() {
            let (root, key) = (options.root.display(), server.fingerprint());
            let line = format!("listening on {address}, root {root}, {mode}, server key {key}");
            server.events.event(Event::Notice(line));
        }
        Ok(server)
    }

    /// The TCP addresses it listens on, with the ports that the kernel chose for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// The fingerprint of the server's key, `SHA256:...`, for clients to compare.
    pub fn fingerprint(&self) -> String {
        self.identity.public().fingerprint()
    }

    /// Serves in the calling thread until cancelled, then ends the running sessions and waits for them, 12 s
    /// at most. Each session has threads of its own; requests and their outcomes are [`Event::Notice`]s.
    ///
    /// # Errors
    /// Always: `Interrupted` after cancellation, `Socket` if the listeners fail.
    pub fn run(self, cancel: &CancelToken) -> Result<()> {
        let sessions_max = self.options.sessions_max;
        let daemon = Arc::new(Daemon {
            options: self.options,
            root: self.root,
            identity: self.identity,
            events: self.events,
            strangers: Strangers::default(),
            sessions: Seats::new(sessions_max),
            refusals: Seats::new(REFUSALS_MAX),
            threads: Seats::new(sessions_max.saturating_add(OTHER_THREADS_MAX)),
            tally: Tally::default(),
            cancel: cancel.clone(),
        });
        accept_all(&daemon, &self.listeners)?;
        let end = Instant::now() + LEAVE_WAIT;
        while !daemon.threads.are_free() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY / 4);
        }
        daemon.tally.rest(Instant::now()).into_iter().for_each(|line| daemon.log(line));
        Err(Error::new(ErrorKind::Interrupted, "interrupted; the sessions that were running have ended"))
    }
}

/// [`Server::bind`] and [`Server::run`] in one.
///
/// # Errors
/// Theirs.
pub fn serve(options: &ServeOptions, events: Arc<dyn EventSink>, cancel: &CancelToken) -> Result<()> {
    Server::bind(options, events)?.run(cancel)
}

fn accept_all(daemon: &Arc<Daemon>, listeners: &[TcpListener]) -> Result<()> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
    while !daemon.cancel.is_cancelled() {
        let mut waiting: Vec<_> = listeners.iter().map(|l| PollFd::new(l, PollFlags::IN)).collect();
        match poll(&mut waiting, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(Error::new(ErrorKind::Socket, format!("cannot wait for connections: {error}")));
            }
        }
        for listener in listeners {
            match listener.accept() {
                Ok((socket, from)) => daemon.clone().take(socket, from),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Out of descriptors, or the client is gone already: go on with others.
                Err(error) => {
                    daemon.count("accept", None, format!("cannot accept connections: {error}; trying again"));
                    std::thread::sleep(LOOK_EVERY / 4);
                }
            }
        }
        daemon.tally.due(Instant::now()).into_iter().for_each(|line| daemon.log(line));
    }
    Ok(())
}

/// One client's connection.
struct Visit {
    /// Its name in the log.
    name: String,
    address: IpAddr,
    /// Its place among the strangers, until its key is known.
    stranger: Option<Stranger>,
}

/// What a client with a known key holds.
enum Place {
    Session(#[expect(dead_code, reason = "held, not read")] Seat),
    Refusal(#[expect(dead_code, reason = "held, not read")] Seat),
}

impl Daemon {
    fn log(&self, line: String) {
        self.events.event(Event::Notice(line));
    }

    /// Logs what a stranger caused, or counts it.
    fn count(&self, kind: &'static str, from: Option<IpAddr>, line: String) {
        if let Some(line) = self.tally.count(kind, from, line, Instant::now()) {
            self.log(line);
        }
    }

    fn take(self: Arc<Self>, socket: TcpStream, from: SocketAddr) {
        let refuse = |why: &str| self.count("refused", Some(from.ip()), format!("{from}: refused, {why}"));
        let Some(seat) = self.threads.take() else { return refuse("too many connections") };
        let stranger = match self.strangers.admit(&socket, from.ip()) {
            Ok(stranger) => stranger,
            Err(error) => return refuse(&format!("no descriptor for it: {error}")),
        };
        let daemon = self.clone();
        let thread = std::thread::Builder::new().name("fobs-session".to_owned()).spawn(move || {
            let _seat = seat;
            daemon.session(socket, from, stranger);
        });
        if let Err(error) = thread {
            refuse(&format!("cannot start a thread: {error}"));
        }
    }

    /// Serves one client, and logs its request and the outcome.
    fn session(&self, socket: TcpStream, from: SocketAddr, stranger: Stranger) {
        let began = Instant::now();
        let mut visit = Visit { name: from.to_string(), address: from.ip(), stranger: Some(stranger) };
        let served = self.serve(socket, &mut visit);
        let Visit { name, address, stranger } = visit;
        match (served, stranger) {
            (Ok(served), _) => self.log(format!("{name}: {}", log_line(&served, began.elapsed()))),
            (Err(error), None) => self.log(format!("{name}: {}: {error}", error.kind.code())),
            (Err(error), Some(stranger)) if stranger.has_its_place() || self.cancel.is_cancelled() => {
                let code = error.kind.code();
                self.count(code, Some(address), format!("{name}: {code}: {error}"));
            }
            (Err(_), Some(_)) => {
                let why = "had not authenticated yet, and was closed to make room for newer connections";
                self.count("closed", Some(address), format!("{name}: {why}"));
            }
        }
    }

    /// Serves one client. Its name grows by its key and its request.
    fn serve(&self, socket: TcpStream, visit: &mut Visit) -> Result<SessionFigures> {
        let gone =
            |error: std::io::Error| Error::new(ErrorKind::Connect, format!("the client is gone: {error}"));
        socket.set_nonblocking(false).map_err(gone)?;
        let local = socket.local_addr().map_err(gone)?;
        let channel = tls::accept(socket, &self.identity, &self.cancel)?;
        if let Some(key) = &channel.peer.key {
            visit.name = format!("{} {}", visit.name, short_fingerprint(key));
        }
        let rights = self.judge(&channel, visit);
        // Held until the session is over.
        let seat = if rights.is_ok() { self.seat(visit) } else { None };
        let judged = match (rights, &seat) {
            (Ok(rights), Some(Place::Session(_))) => self.policy(rights, local),
            (Ok(_), _) => Err(self.full()),
            (Err(error), _) => Err(error),
        };
        let known = visit.stranger.is_none();
        serve_session(channel, judged, &self.cancel, |open| {
            visit.name = format!("{}: {}", visit.name, request(open));
            if known {
                self.log(visit.name.clone());
            }
        })
    }

    /// What this client may do.
    fn judge(&self, channel: &ControlChannel, visit: &Visit) -> Result<Rights> {
        let Some(key) = &channel.peer.key else {
            return Err(Error::new(ErrorKind::Denied, "the client showed no key"));
        };
        // Read again for each client, so that a removed key is refused at once.
        let keys = AuthorizedKeys::load(&self.options.authorized_keys).map_err(|error| {
            // The file's content is for the log only, not for a client that may have no rights.
            self.count("keys", Some(visit.address), format!("{}: {error}", visit.name));
            let message =
                "this server cannot read its authorized keys; ask whoever runs it to look at its log";
            Error::new(ErrorKind::Denied, message)
        })?;
        keys.lookup(key).ok_or_else(|| {
            let message = format!(
                "the key {} is not among this server's authorized keys; ask whoever runs it to add its line",
                key.fingerprint()
            );
            Error::new(ErrorKind::Denied, message)
        })
    }

    /// A place for a client with a known key, which then is no stranger any more. `None` if it was closed for
    /// a newer connection, or if even the places of those that are refused are taken.
    fn seat(&self, visit: &mut Visit) -> Option<Place> {
        let session = self.sessions.take().map(Place::Session);
        let place = session.or_else(|| self.refusals.take().map(Place::Refusal))?;
        let left = visit.stranger.as_ref().is_some_and(Stranger::leave);
        if left {
            visit.stranger = None;
        }
        left.then_some(place)
    }

    fn full(&self) -> Error {
        let message = format!(
            "this server is full: {} sessions are running, as many as it allows; try again later",
            self.options.sessions_max
        );
        Error::new(ErrorKind::Connect, message)
    }

    fn policy(&self, rights: Rights, local: SocketAddr) -> Result<Policy> {
        let root = self.root.try_clone().map_err(|error| {
            Error::new(ErrorKind::FileIo, format!("the server cannot open its root: {error}"))
        })?;
        // A right to a subtree is checked by name, so no link may lead elsewhere.
        let links = if rights.paths.is_empty() { Links::Inside } else { Links::Refuse };
        Ok(Policy {
            base: Base::Beneath { root, links },
            read_only: self.options.read_only,
            rights: Some(rights),
            udp_ip: local.ip(),
            udp_ports: self.options.udp_ports,
            addresses: Vec::new(),
        })
    }
}

fn open_root(options: &ServeOptions) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(&options.root, flags, Mode::empty()).map_err(|error| {
        let message = format!(
            "cannot serve {}: {error}; name a directory that exists and can be read with --root",
            options.root.display()
        );
        Error::new(ErrorKind::Destination, message)
    })
}

/// A listening socket. One for IPv6 accepts only IPv6, so that both families may use the same port.
fn listen(address: SocketAddr) -> Result<TcpListener> {
    let bound = || -> std::io::Result<TcpListener> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    bound().map_err(|error| {
        Error::new(
            ErrorKind::Socket,
            format!("cannot listen on {address}: {error}; choose another with --listen ADDR:PORT"),
        )
    })
}

#[cfg(test)]
mod tests;
