//! A server: listens, authenticates, and answers each client in a thread of its own.

mod log;
mod seats;

use self::log::{log_line, request, short_fingerprint};
use self::seats::{Seat, Seats};
use crate::cancel::CancelToken;
use crate::control::{ControlChannel, tls};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventSink};
use crate::options::ServeOptions;
use crate::secure::authorized_keys::AuthorizedKeys;
use crate::secure::identity::{Identity, default_server_identity_path, load_or_generate};
use crate::server::{Policy, SessionFigures, serve_session};
use crate::storage::{Base, Links};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{SocketAddr, TcpListener, TcpStream};
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
/// Most connections in their handshake, beyond the running sessions.
const HANDSHAKES_MAX: usize = 32;
struct Daemon {
    options: ServeOptions,
    root: OwnedFd,
    identity: Identity,
    events: Arc<dyn EventSink>,
    connections: Seats,
    sessions: Seats,
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
            connections: Seats::new(sessions_max.saturating_add(HANDSHAKES_MAX)),
            sessions: Seats::new(sessions_max),
            cancel: cancel.clone(),
        });
        accept_all(&daemon, &self.listeners)?;
        let end = Instant::now() + LEAVE_WAIT;
        while !daemon.connections.are_free() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY / 4);
        }
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
    let mut failing = false;
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
                Ok((socket, from)) => {
                    failing = false;
                    daemon.clone().take(socket, from);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Out of descriptors, or the client is gone already: go on with others. Logged once, not at
                // each attempt.
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        daemon.log(format!("cannot accept connections: {error}; trying again"));
                    }
                    std::thread::sleep(LOOK_EVERY / 4);
                }
            }
        }
    }
    Ok(())
}

impl Daemon {
    fn log(&self, line: String) {
        self.events.event(Event::Notice(line));
    }

    fn take(self: Arc<Self>, socket: TcpStream, from: SocketAddr) {
        let Some(seat) = self.connections.take() else {
            return self.log(format!("{from}: refused, too many connections"));
        };
        let daemon = self.clone();
        let thread = std::thread::Builder::new().name("fobs-session".to_owned()).spawn(move || {
            let _seat = seat;
            daemon.session(socket, from);
        });
        if let Err(error) = thread {
            self.log(format!("{from}: refused, cannot start a thread: {error}"));
        }
    }

    /// Serves one client, and logs its request and the outcome.
    fn session(&self, socket: TcpStream, from: SocketAddr) {
        let began = Instant::now();
        let mut who = from.to_string();
        match self.serve(socket, &mut who) {
            Ok(served) => self.log(format!("{who}: {}", log_line(&served, began.elapsed()))),
            Err(error) => self.log(format!("{who}: {}: {error}", error.kind.code())),
        }
    }

    /// Serves one client. `who` names it in the log and grows by its key and its request.
    fn serve(&self, socket: TcpStream, who: &mut String) -> Result<SessionFigures> {
        let gone =
            |error: std::io::Error| Error::new(ErrorKind::Connect, format!("the client is gone: {error}"));
        socket.set_nonblocking(false).map_err(gone)?;
        let local = socket.local_addr().map_err(gone)?;
        let channel = tls::accept(socket, &self.identity, &self.cancel)?;
        if let Some(key) = &channel.peer.key {
            *who = format!("{who} {}", short_fingerprint(key));
        }
        let judged = self.judge(&channel, local, who);
        // Held until the session is over.
        let (judged, _seat) = match judged {
            Ok((policy, seat)) => (Ok(policy), Some(seat)),
            Err(error) => (Err(error), None),
        };
        serve_session(channel, judged, &self.cancel, |open| {
            *who = format!("{who}: {}", request(open));
            self.log(who.clone());
        })
    }

    /// What this client may do, and its seat. A client without rights takes none.
    fn judge(&self, channel: &ControlChannel, local: SocketAddr, who: &str) -> Result<(Policy, Seat)> {
        let Some(key) = &channel.peer.key else {
            return Err(Error::new(ErrorKind::Denied, "the client showed no key"));
        };
        // Read again for each client, so that a removed key is refused at once.
        let keys = AuthorizedKeys::load(&self.options.authorized_keys).map_err(|error| {
            // The file's content is for the log only, not for a client that may have no rights.
            self.log(format!("{who}: {error}"));
            let message =
                "this server cannot read its authorized keys; ask whoever runs it to look at its log";
            Error::new(ErrorKind::Denied, message)
        })?;
        let rights = keys.lookup(key).ok_or_else(|| {
            let message = format!(
                "the key {} is not among this server's authorized keys; ask whoever runs it to add its line",
                key.fingerprint()
            );
            Error::new(ErrorKind::Denied, message)
        })?;
        let seat = self.sessions.take().ok_or_else(|| {
            let message = format!(
                "{} sessions are running, as many as this server allows; try again later",
                self.options.sessions_max
            );
            Error::new(ErrorKind::Connect, message)
        })?;
        Ok((self.policy(rights, local)?, seat))
    }

    fn policy(&self, rights: crate::secure::authorized_keys::Rights, local: SocketAddr) -> Result<Policy> {
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
