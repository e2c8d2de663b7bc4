//! The serving thread: takes connections in, gives them their turn, and ends with all sessions.

use super::admission::{Admission, WAITING_MAX};
use super::attempts::Attempts;
use super::deletions::LineBudget;
use super::idle::{IDLE_MAX, Idle};
use super::listen::{Purpose, adopt, listen};
use super::lobby::{Departed, Departure, Lobby, Waiting};
use super::log::Log;
use super::metrics::{Exporter, Metrics};
use super::places::Places;
use super::register::Register;
use super::seats::{Seat, Seats};
use super::strangers::{STRANGERS_MAX, Stranger, strangers};
use super::tally::Tally;
use super::tickets::Tickets;
use super::who::Visit;
use super::{descriptors, memory};
use fobs::examine::walls_here;
use fobs::pipe::join::Meeting;
use fobs::pipe::program::Launcher;
use fobs::pipe::returns::Returns;
use fobs::restrict::open_root;
use fobs_channel::control::tls::HANDSHAKE_WAIT;
use fobs_channel::secure::authorized_keys::AuthorizedKeys;
use fobs_channel::secure::identity::{Identity, default_server_identity_path, load_or_generate};
use fobs_model::budget::MemoryBudget;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::ServeOptions;
use fobs_sys::confine;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the listeners check for cancellation.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often they look whether there is room, while a client waits for it.
const TURN_EVERY: Duration = Duration::from_millis(5);
/// Connections accepted before those are looked after that wait already.
const ACCEPTED_AT_ONCE: usize = 64;
/// How long running sessions get to end after cancellation: longer than the clean-up of a blocked one may
/// take.
const LEAVE_WAIT: Duration = Duration::from_secs(12);
/// Most threads that serve no session: strangers, as many whose connection was just closed for a newer one,
/// clients that wait for a session, and those that rest between two transfers, or were just hung up on.
const OTHER_THREADS_MAX: usize = 2 * STRANGERS_MAX + WAITING_MAX + 2 * IDLE_MAX;

/// What becomes of a connection that is only held.
pub(super) const CLOSED_FOR_NEWER: &str =
    "had not authenticated yet, and was closed to make room for newer connections";

pub(super) struct Daemon {
    pub(super) options: ServeOptions,
    pub(super) root: OwnedFd,
    pub(super) identity: Identity,
    pub(super) log: Log,
    /// Clients whose key is not known (yet).
    pub(super) strangers: Places,
    pub(super) admission: Admission,
    /// Of all sessions.
    pub(super) memory: MemoryBudget,
    pub(super) attempts: Attempts,
    /// The sessions that take streams.
    pub(super) register: Register,
    pub(super) idle: Idle,
    pub(super) threads: Seats,
    /// Connections taken so far.
    pub(super) visits: AtomicU64,
    /// What strangers make us write.
    pub(super) tally: Tally,
    /// What transfers make us write of their deletions.
    pub(super) lines: LineBudget,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tickets: Arc<Tickets>,
    /// Where its own key is.
    pub(super) identity_path: PathBuf,
    /// Ends every session and every handshake.
    pub(super) stop: CancelToken,
    pub(super) handle: ServerHandle,
    /// Starts the commands of keys' lines.
    pub(super) launcher: Launcher,
    /// Where pipes meet by name.
    pub(super) meeting: Meeting,
    /// Where clients come back to their pipes.
    pub(super) returns: Returns,
}

/// A server that listens, and serves once [`run`](Server::run). Any number of them may run in one process.
///
/// ```
/// use fobs::{CancelToken, ServeOptions};
/// use fobs_daemon::Server;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let keys = place.path().join("authorized_keys");
/// # std::fs::write(&keys, "")?;
/// let mut options = ServeOptions::new(place.path().to_owned(), keys);
/// options.listen = vec!["127.0.0.1:0".parse()?];
/// options.identity = Some(place.path().join("server_key"));
/// let server = Server::bind(&options)?;
/// println!("fobs://{}/ with the key {}", server.addresses()[0], server.fingerprint());
///
/// let handle = server.handle();
/// let running = std::thread::spawn(move || server.run(&CancelToken::new()));
/// handle.drain();
/// running.join().expect("it does not panic")?;
/// assert_eq!(handle.sessions(), 0);
/// # Ok(())
/// # }
/// ```
///
/// Its log is `tracing` events of targets in `fobs::daemon`: a sentence for people as the message, and
/// fields. A subscriber is called on threads that reach the root only (docs/security.md, "Walls"): it writes
/// to what is open already, or has another thread write.
pub struct Server {
    options: ServeOptions,
    root: OwnedFd,
    identity: Identity,
    identity_path: PathBuf,
    log: Log,
    listeners: Vec<TcpListener>,
    exporter: Option<Exporter>,
    handle: ServerHandle,
}

/// Ends a running [`Server`] and looks at it, from other threads. Clones are the same.
#[derive(Clone)]
pub struct ServerHandle(Arc<Shared>);

struct Shared {
    admission: Admission,
    metrics: Arc<Metrics>,
    draining: AtomicBool,
    /// When the serving thread was last seen at work.
    turned: Mutex<Instant>,
}

impl ServerHandle {
    /// Stops taking clients. [`Server::run`] returns when the running sessions have ended, which they may for
    /// [`ServeOptions::drain`]; then they are ended, and their clients are told that the server shuts down.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
    }

    /// Sessions that run now.
    pub fn sessions(&self) -> usize {
        self.0.admission.sessions()
    }

    /// Clients with a known key that wait for a session.
    pub fn waiting(&self) -> usize {
        self.0.admission.waiting()
    }

    /// Time since the serving thread was last at work: well below a second, unless it hangs.
    pub fn idle_for(&self) -> Duration {
        self.0.turned.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// The server's counters as OpenMetrics text. They last as long as the handle.
    pub fn metrics(&self) -> String {
        self.0.metrics.text(self.sessions(), self.waiting(), self.is_draining())
    }

    /// Whether it takes no more clients.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    fn turn(&self) {
        *self.0.turned.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Server {
    /// Checks the options, binds the TCP addresses and logs each. Clients may connect from here on; they are
    /// answered once [`run`](Self::run) is called.
    ///
    /// # Errors
    /// `Destination` for a root that cannot be opened, `Denied` for keys that cannot be used, `Socket` for an
    /// address that cannot be bound.
    pub fn bind(options: &ServeOptions) -> Result<Server> {
        Server::start(options, || {
            options.listen.iter().map(|address| listen(*address, Purpose::Clients)).collect()
        })
    }

    /// Like [`bind`](Self::bind), with sockets that listen already; [`ServeOptions::listen`] is not used.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn with_listeners(options: &ServeOptions, listeners: Vec<TcpListener>) -> Result<Server> {
        Server::start(options, || listeners.into_iter().map(adopt).collect())
    }

    fn start(options: &ServeOptions, listeners: impl FnOnce() -> Result<Vec<TcpListener>>) -> Result<Server> {
        let root = open_root(&options.root)?;
        // Refuse to start with a key file that would refuse every client.
        AuthorizedKeys::load(&options.authorized_keys)?;
        let identity_path = match &options.identity {
            Some(path) => path.clone(),
            None => default_server_identity_path()?,
        };
        let (identity, _) = load_or_generate(&identity_path)?;
        let listeners = listeners()?;
        // Without a second descriptor the disk is not counted.
        let watched = root.try_clone().ok();
        let handle = ServerHandle(Arc::new(Shared {
            admission: Admission::new(options.sessions_max),
            metrics: Arc::new(Metrics::new(options.sessions_max, watched)),
            draining: AtomicBool::new(false),
            turned: Mutex::new(Instant::now()),
        }));
        let log = Log::here();
        let rendered = handle.clone();
        let exporter = options
            .metrics
            .map(|address| Exporter::start(address, Arc::new(move || rendered.metrics())))
            .transpose()?;
        let server = Server {
            options: options.clone(),
            root,
            identity,
            identity_path,
            log,
            listeners,
            exporter,
            handle,
        };
        let mode = if options.read_only { "read-only" } else { "read and write as each key allows" };
        let (root, key) = (options.root.display().to_string(), server.fingerprint());
        for address in server.addresses() {
            server.log.listening(address, &root, mode, &key);
        }
        if let Some(address) = server.metrics_address() {
            server.log.server("metrics", &format!("metrics at http://{address}/metrics"));
        }
        server.log.server("walls", &format!("walls around each session: {}", walls_here()));
        if let Some(line) = descriptors::shortage(options.sessions_max) {
            server.log.server("descriptors", &line);
        }
        Ok(server)
    }

    /// The TCP addresses it listens on, with the ports that the kernel chose for port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Where its metrics are served, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().map(Exporter::address)
    }

    /// The fingerprint of the server's key, `SHA256:...`, for clients to compare.
    pub fn fingerprint(&self) -> String {
        self.identity.public().fingerprint()
    }

    /// What ends the server, and shows how it is.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Serves in the calling thread until cancelled or drained, then waits for the sessions that it ended,
    /// 12 s at most. Each session has threads of its own; requests and their outcomes are logged.
    ///
    /// # Errors
    /// `Interrupted` after cancellation, `Socket` if the listeners fail. A drained server is no error.
    pub fn run(self, cancel: &CancelToken) -> Result<()> {
        let sessions_max = self.options.sessions_max;
        let stop = CancelToken::new();
        let daemon = Arc::new(Daemon {
            options: self.options,
            root: self.root,
            identity: self.identity,
            log: self.log,
            strangers: strangers(),
            admission: self.handle.0.admission.clone(),
            memory: memory::of_process(),
            attempts: Attempts::default(),
            register: Register::default(),
            idle: Idle::default(),
            threads: Seats::new(sessions_max.saturating_add(OTHER_THREADS_MAX)),
            visits: AtomicU64::new(0),
            tally: Tally::default(),
            lines: LineBudget::new(Instant::now()),
            tickets: Arc::new(Tickets::beside(&self.identity_path)),
            identity_path: self.identity_path,
            metrics: self.handle.0.metrics.clone(),
            // Before the walls: a command runs outside of them.
            launcher: Launcher::start()?,
            meeting: Meeting::default(),
            returns: Returns::default(),
            stop: stop.clone(),
            handle: self.handle,
        });
        let _hook = cancel.on_cancel(move || stop.cancel());
        // Until the last session has ended.
        let _exporter = self.exporter;
        let listeners = self.listeners;
        let accepting = || accept_all(&daemon, listeners, cancel);
        let accepted =
            confine::serving("fobs-listen", accepting).map_err(Error::internal).and_then(|accepted| accepted);
        // Nobody is let in any more.
        daemon.returns.close();
        if accepted.is_ok() && !cancel.is_cancelled() {
            daemon.drain();
        }
        daemon.admission.close();
        daemon.stop.cancel();
        let end = Instant::now() + LEAVE_WAIT;
        while !(daemon.threads.are_free() && daemon.returns.is_empty()) && Instant::now() < end {
            daemon.handle.turn();
            std::thread::sleep(LOOK_EVERY / 4);
        }
        daemon.tally.rest(Instant::now()).iter().for_each(|counted| daemon.log.counted(counted));
        accepted?;
        if cancel.is_cancelled() {
            Err(Error::new(ErrorKind::Interrupted, "interrupted; the sessions that were running have ended"))
        } else {
            Ok(())
        }
    }
}

/// [`Server::bind`] and [`Server::run`] in one.
///
/// # Errors
/// Theirs.
pub fn serve(options: &ServeOptions, cancel: &CancelToken) -> Result<()> {
    Server::bind(options)?.run(cancel)
}

/// Takes clients until cancelled or drained. The sockets are closed then, so that the kernel refuses further
/// ones, unless another process has them too.
fn accept_all(daemon: &Arc<Daemon>, listeners: Vec<TcpListener>, cancel: &CancelToken) -> Result<()> {
    let mut lobby = Lobby::new();
    while !cancel.is_cancelled() && !daemon.handle.is_draining() {
        let timeout = if lobby.has_spoken() { TURN_EVERY } else { LOOK_EVERY };
        let mut departed = lobby.wait(&listeners, timeout).map_err(|error| {
            Error::new(ErrorKind::Socket, format!("cannot wait for connections: {error}"))
        })?;
        for listener in &listeners {
            daemon.accept(listener, &mut lobby, &mut departed);
        }
        departed.extend(lobby.expire(Instant::now()));
        departed.into_iter().for_each(|departed| daemon.departed(departed));
        daemon.talk(&mut lobby);
        daemon.turn();
    }
    Ok(())
}

impl Daemon {
    /// What the serving thread does again and again.
    fn turn(&self) {
        self.handle.turn();
        self.returns.expire(Instant::now());
        self.tally.due(Instant::now()).iter().for_each(|counted| self.log.counted(counted));
    }

    /// Logs what a stranger caused, or counts it.
    pub(super) fn count(&self, kind: &'static str, from: Option<SocketAddr>, line: String) {
        self.metrics.refused(kind);
        let address = from.map(|from| from.ip());
        if let Some(line) = self.tally.count(kind, address, line, Instant::now()) {
            self.log.stranger(kind, from, &line);
        }
    }

    /// Takes connections in.
    fn accept(&self, listener: &TcpListener, lobby: &mut Lobby, departed: &mut Vec<Departed>) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match listener.accept() {
                Ok((socket, from)) => {
                    // A socket that was passed may be one for both families.
                    let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                    self.metrics.connection();
                    departed.extend(lobby.enter(socket, from, Instant::now()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors, or the client is gone already: go on with others.
                Err(error) => {
                    self.count("accept", None, format!("cannot accept connections: {error}; trying again"));
                    match lobby.make_room(Instant::now()) {
                        Some(closed) => departed.push(closed),
                        None => std::thread::sleep(LOOK_EVERY / 4),
                    }
                    return;
                }
            }
        }
    }

    /// Counts a connection that nobody talked to.
    fn departed(&self, (from, why): Departed) {
        let (kind, why) = match why {
            Departure::MadeRoom => ("closed", CLOSED_FOR_NEWER.to_owned()),
            Departure::Late => {
                let seconds = HANDSHAKE_WAIT.as_secs();
                (
                    "timeout",
                    format!("timeout: {} did not complete the TLS handshake in {seconds} s", from.ip()),
                )
            }
            Departure::Gone => {
                ("connect", format!("connect: {} went away before it said anything", from.ip()))
            }
        };
        self.count(kind, Some(from), format!("{from}: {why}"));
    }

    /// Talks to those whose turn it is, as far as there is room.
    fn talk(self: &Arc<Self>, lobby: &mut Lobby) {
        while let Some((id, waiting)) = lobby.turn(&self.strangers.by_network()) {
            let Some(room) = self.room_for(waiting).transpose() else { return };
            let Some(waiting) = lobby.take(id) else { return };
            match room {
                Ok((seat, stranger)) => self.clone().take(waiting, seat, stranger),
                Err(error) => self.refuse(waiting.from, &format!("no descriptor for it: {error}")),
            }
        }
    }

    fn room_for(&self, waiting: &Waiting) -> io::Result<Option<(Seat, Stranger)>> {
        let Some(seat) = self.threads.take() else { return Ok(None) };
        let stranger = self.strangers.admit(&waiting.socket, waiting.from.ip())?;
        Ok(stranger.map(|stranger| (seat, stranger)))
    }

    fn refuse(&self, from: SocketAddr, why: &str) {
        self.count("refused", Some(from), format!("{from}: refused, {why}"));
    }

    fn take(self: Arc<Self>, waiting: Waiting, seat: Seat, stranger: Stranger) {
        let Waiting { socket, from, .. } = waiting;
        let number = self.visits.fetch_add(1, Ordering::Relaxed) + 1;
        let daemon = self.clone();
        let thread = std::thread::Builder::new().name("fobs-clerk".to_owned()).spawn(move || {
            let _seat = seat;
            daemon.session(socket, Visit::new(number, from, stranger));
        });
        if let Err(error) = thread {
            self.refuse(from, &format!("cannot start a thread: {error}"));
        }
    }

    /// Gives the running sessions their time, then ends those that are left.
    fn drain(&self) {
        let grace = self.options.drain;
        let running = self.admission.sessions();
        let line = format!(
            "shutting down: no new clients; {running} running sessions may go on for {} s",
            grace.as_secs()
        );
        self.log.server("draining", &line);
        self.admission.close();
        self.idle.close();
        let end = Instant::now() + grace;
        while self.admission.sessions() > 0 && Instant::now() < end && !self.stop.is_cancelled() {
            std::thread::sleep(LOOK_EVERY / 4);
            self.turn();
        }
        let line = match self.admission.sessions() {
            0 => "shut down: all sessions have ended".to_owned(),
            left => format!("shut down: {left} sessions had to be ended; their clients may go on later"),
        };
        self.log.server("drained", &line);
        let why = "this server is shutting down, perhaps to be restarted; what is complete is in place";
        self.stop.cancel_because(Error::new(ErrorKind::Connect, why));
    }
}
