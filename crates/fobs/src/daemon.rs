//! `fobs serve`: listens, authenticates, and answers each client in a thread of its own.

use crate::control::message::Direction;
use crate::control::tls;
use crate::engine::interrupted;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventSink};
use crate::options::ServeOptions;
use crate::secure::authorized_keys::AuthorizedKeys;
use crate::secure::identity::{Identity, default_server_identity_path, load_or_generate};
use crate::server::{Policy, Served, serve_session};
use crate::storage::Base;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often the listeners look for an interruption.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long running sessions get to end after an interruption.
const LEAVE_WAIT: Duration = Duration::from_secs(5);
/// Connections waiting to be accepted.
const BACKLOG: i32 = 128;
/// Connections that may be shaking hands beyond the sessions that run.
const HANDSHAKES_MAX: usize = 32;

struct Daemon {
    options: ServeOptions,
    root: OwnedFd,
    identity: Identity,
    events: Arc<dyn EventSink>,
    connections: AtomicUsize,
    sessions: AtomicUsize,
}

/// Serves until interrupted. Says where it listens, and what sessions did, as [`Event::Notice`]s.
pub fn serve(options: &ServeOptions, events: Arc<dyn EventSink>) -> Result<()> {
    let root = open_root(options)?;
    // Refuse to start with a key file that no client could be judged by.
    AuthorizedKeys::load(&options.authorized_keys)?;
    let identity_path = match &options.identity {
        Some(path) => path.clone(),
        None => default_server_identity_path()?,
    };
    let (identity, _) = load_or_generate(&identity_path)?;
    let listeners = options.listen.iter().map(|address| listen(*address)).collect::<Result<Vec<_>>>()?;
    for listener in &listeners {
        let address = listener.local_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string());
        let mode = if options.read_only { "read-only" } else { "read and write as each key allows" };
        let (root, key) = (options.root.display(), identity.public().fingerprint());
        events.event(Event::Notice(format!("listening on {address}, root {root}, {mode}, server key {key}")));
    }
    let daemon = Arc::new(Daemon {
        options: options.clone(),
        root,
        identity,
        events,
        connections: AtomicUsize::new(0),
        sessions: AtomicUsize::new(0),
    });
    accept_all(&daemon, &listeners)?;
    let end = Instant::now() + LEAVE_WAIT;
    while daemon.connections.load(Ordering::SeqCst) > 0 && Instant::now() < end {
        std::thread::sleep(LOOK_EVERY / 4);
    }
    Err(Error::new(ErrorKind::Interrupted, "interrupted; the sessions that were running have ended"))
}

fn accept_all(daemon: &Arc<Daemon>, listeners: &[TcpListener]) -> Result<()> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
    while !interrupted() {
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
                // Out of descriptors, or a client that was gone at once: others may be served.
                Err(error) => {
                    daemon.say(format!("cannot accept a connection: {error}"));
                    std::thread::sleep(LOOK_EVERY / 4);
                }
            }
        }
    }
    Ok(())
}

impl Daemon {
    fn say(&self, line: String) {
        self.events.event(Event::Notice(line));
    }

    fn take(self: Arc<Self>, socket: TcpStream, from: SocketAddr) {
        let limit = self.options.sessions_max.saturating_add(HANDSHAKES_MAX);
        if self.connections.fetch_add(1, Ordering::SeqCst) >= limit {
            self.connections.fetch_sub(1, Ordering::SeqCst);
            self.say(format!("{from}: refused, too many connections"));
            return;
        }
        let daemon = self.clone();
        let thread = std::thread::Builder::new().name("fobs-session".to_owned()).spawn(move || {
            match daemon.session(socket) {
                Ok(served) => daemon.say(format!("{from}: {}", log_line(&served))),
                Err(error) => daemon.say(format!("{from}: {error}")),
            }
            daemon.connections.fetch_sub(1, Ordering::SeqCst);
        });
        if let Err(error) = thread {
            self.connections.fetch_sub(1, Ordering::SeqCst);
            self.say(format!("{from}: refused, cannot start a thread: {error}"));
        }
    }

    fn session(&self, socket: TcpStream) -> Result<Served> {
        let gone =
            |error: std::io::Error| Error::new(ErrorKind::Connect, format!("the client is gone: {error}"));
        socket.set_nonblocking(false).map_err(gone)?;
        let local = socket.local_addr().map_err(gone)?;
        let channel = tls::accept(socket, &self.identity)?;
        let rights = match &channel.peer.key {
            // Read anew for each client, so that a key taken out is out.
            Some(key) => AuthorizedKeys::load(&self.options.authorized_keys).and_then(|keys| {
                keys.lookup(key).ok_or_else(|| {
                    let message = format!("the key {} is not among this server's authorized keys; ask whoever runs it to add its line", key.fingerprint());
                    Error::new(ErrorKind::Denied, message)
                })
            }),
            None => Err(Error::new(ErrorKind::Denied, "the client showed no key")),
        };
        let busy = self.sessions.fetch_add(1, Ordering::SeqCst) >= self.options.sessions_max;
        let judged = if busy {
            let message = format!(
                "{} sessions are running, as many as this server allows; try again later",
                self.options.sessions_max
            );
            Err(Error::new(ErrorKind::Connect, message))
        } else {
            rights
        };
        let outcome = match judged {
            Ok(rights) => self.policy(rights, local).and_then(|policy| serve_session(channel, policy)),
            Err(error) => {
                // After the hellos, so that the client understands why.
                let mut channel = channel;
                let _ = crate::control::hello(&mut channel);
                crate::engine::tell_abort(&channel.writer, &error);
                channel.writer.close();
                Err(error)
            }
        };
        self.sessions.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    fn policy(&self, rights: crate::secure::authorized_keys::Rights, local: SocketAddr) -> Result<Policy> {
        let root = self.root.try_clone().map_err(|error| {
            Error::new(ErrorKind::FileIo, format!("the server cannot open its root: {error}"))
        })?;
        Ok(Policy {
            base: Base::Beneath(root),
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

/// A listening socket; one for IPv6 takes only IPv6, so that both families may have the same port.
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

fn log_line(served: &Served) -> String {
    let verb = match served.direction {
        Direction::Push => "received",
        Direction::Pull => "sent",
    };
    format!("{verb} {} files, {} bytes in {:.3} s", served.files, served.bytes, served.seconds)
}
