//! The answering side of one session, over either carrier.

use crate::cancel::CancelToken;
use crate::control::message::{Accept, Message, Open, UdpAddress};
use crate::control::{self, ControlChannel, ssh};
use crate::direction::TransferDirection;
use crate::engine::{
    self, CHUNKS_MAX, Clock, LinkSetup, ReceiveJob, RemedyPolicy, Reporter, SendJob, tell_abort,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventSink};
use crate::history::RememberedPath;
use crate::lessons::Lessons;
use crate::options::{Carrier, DEFAULT_UDP_PORTS};
use crate::secure::authorized_keys::Rights;
use crate::secure::datagram::{Direction, SessionSecret};
use crate::session::{choose_cipher, pursuit, receiver_config, sane, sender_config, udp_options};
use crate::storage::{Base, Sink, SinkSpec, Source, SourceSpec};
use fobs_sys::{UdpSocket, Waker};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most sources of one session: more than a command line holds.
const PATHS_MAX: usize = 100_000;

/// How long a client may take to send its request.
const OPEN_WAIT: Duration = Duration::from_secs(10);

/// What a client may do, and where the server binds.
pub(crate) struct Policy {
    pub(crate) base: Base,
    /// Refuse every push.
    pub(crate) read_only: bool,
    /// The key's rights; `None` where file permissions of the user decide (SSH).
    pub(crate) rights: Option<Rights>,
    /// Where UDP sockets are bound.
    pub(crate) udp_ip: IpAddr,
    pub(crate) udp_ports: (u16, u16),
    /// Addresses of this host to offer beside the one that the client connected to.
    pub(crate) addresses: Vec<String>,
}

/// The figures of a session, for the server's log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SessionFigures {
    pub(crate) direction: TransferDirection,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

/// Serves one session over standard input and output, with the rights of the user who runs it: `fobs server`,
/// which ssh starts. Takes both streams over: what is printed from here on goes to standard error.
///
/// # Errors
/// Any [`ErrorKind`]: what ended the session, `Interrupted` after cancellation. The client has been sent the
/// same.
pub fn serve_stdio(cancel: &CancelToken) -> Result<()> {
    let channel = ssh::server_channel()?;
    // From sshd: "client-ip client-port server-ip server-port".
    let here = std::env::var("SSH_CONNECTION").ok().and_then(|c| c.split(' ').nth(2)?.parse::<IpAddr>().ok());
    let policy = Policy {
        base: Base::Ambient,
        read_only: false,
        rights: None,
        udp_ip: match here {
            Some(IpAddr::V6(_)) => std::net::Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        },
        udp_ports: DEFAULT_UDP_PORTS,
        addresses: here.iter().map(IpAddr::to_string).collect(),
    };
    serve_session(channel, Ok(policy), cancel, |_| ()).map(|_| ())
}

/// Serves one session to its end. Errors are sent to the client before they are returned. That of `judged`
/// waits for the client's request, which `asked` receives: only then does the client read, and the log can
/// name the request.
pub(crate) fn serve_session(
    mut channel: ControlChannel,
    judged: Result<Policy>,
    cancel: &CancelToken,
    asked: impl FnOnce(&Open),
) -> Result<SessionFigures> {
    let writer = channel.writer.clone();
    let hook = cancel.on_cancel({
        let writer = writer.clone();
        move || writer.close()
    });
    let hello = control::hello(&mut channel).map_err(|error| cancel.explain(error))?;
    let outcome = hear_open(&mut channel).map_err(|error| cancel.explain(error)).and_then(|open| {
        // From here on the engine ends a cancelled session and sends the reason.
        drop(hook);
        cancel.check()?;
        asked(&open);
        answer(channel, judged?, open, hello.fast_aes, cancel)
    });
    let outcome = outcome.inspect_err(|error| tell_abort(&writer, error));
    writer.close();
    outcome
}

/// Waits for the client's request.
fn hear_open(channel: &mut ControlChannel) -> Result<Open> {
    // A peer with a proven key must not hold a session by silence.
    channel.set_read_deadline(Some(Instant::now() + OPEN_WAIT));
    let open = match channel.reader.recv()? {
        Some(Message::Open(open)) => open,
        Some(Message::Abort { code, message }) => {
            return Err(engine::aborted(&channel.peer.description, &code, &message));
        }
        Some(_) => {
            return Err(Error::new(
                ErrorKind::Protocol,
                "the client spoke out of turn; install the same version on both sides",
            ));
        }
        None => {
            return Err(Error::new(
                ErrorKind::Connect,
                "the client ended the connection before it asked for anything",
            ));
        }
    };
    channel.set_read_deadline(None);
    Ok(open)
}

fn answer(
    mut channel: ControlChannel,
    policy: Policy,
    open: Open,
    fast_aes: bool,
    cancel: &CancelToken,
) -> Result<SessionFigures> {
    check_rights(&open, &policy)?;
    let (ip, ports) = (policy.udp_ip, chosen_ports(&open, &channel, policy.udp_ports)?);
    let cc = (open.direction == TransferDirection::Pull).then_some(open.sending.cc.as_str());
    let socket = UdpSocket::bind_in_range(ip, ports.0..=ports.1, &udp_options(cc)).map_err(|error| {
        let message = format!("no UDP port of {} to {} could be bound on the server: {error}; widen the range with --udp-ports or try again later", ports.0, ports.1);
        Error::new(ErrorKind::Socket, message)
    })?;
    let waker = Waker::new().map_err(|error| {
        Error::new(ErrorKind::Socket, format!("cannot make an event descriptor: {error}"))
    })?;
    let cipher = choose_cipher(fast_aes);
    let (secret, told) = match channel.exporter.take() {
        Some(secret) => (secret, None),
        None => {
            let secret = SessionSecret::random();
            let told = secret.as_bytes().to_vec();
            (secret, Some(told))
        }
    };
    let port = socket.local_addr().port();
    let hosts = std::iter::once(None).chain(policy.addresses.iter().cloned().map(Some));
    let accept = Accept {
        udp_addresses: hosts.map(|host| UdpAddress { host, port }).collect(),
        secret: told,
        cipher: cipher.name().to_owned(),
        shape: None,
        chunk_limit: CHUNKS_MAX,
    };
    let direction = match open.direction {
        TransferDirection::Push => Direction::Receiver,
        TransferDirection::Pull => Direction::Sender,
    };
    let link =
        LinkSetup { socket, waker, clock: Clock::start(), secret, cipher, direction, candidates: Vec::new() };
    match open.direction {
        TransferDirection::Push => receive_push(channel, policy, open, accept, link, cancel),
        TransferDirection::Pull => send_pull(channel, policy, open, accept, link, cancel),
    }
}

fn receive_push(
    channel: ControlChannel,
    policy: Policy,
    open: Open,
    accept: Accept,
    mut link: LinkSetup,
    cancel: &CancelToken,
) -> Result<SessionFigures> {
    let destination = open.paths.into_iter().next().unwrap_or_default();
    let sink = Sink::open(SinkSpec {
        base: policy.base,
        destination,
        shape: open.shape.unwrap_or_default(),
        preserve: open.preserve,
        fsync: open.fsync,
    })?;
    let ports = format!("port {}", link.socket.local_addr().port());
    channel.writer.send(&Message::Accept(accept))?;
    link.clock = Clock::start();
    let outcome = engine::receive(ReceiveJob {
        link,
        sink,
        config: receiver_config(open.ack_every),
        remedies: RemedyPolicy::of(open.sending.loss_cause.as_deref().unwrap_or_default()),
        reader: channel.reader,
        writer: channel.writer.clone(),
        reporter: Reporter::new(Arc::new(Silent), channel.writer),
        cancel: cancel.clone(),
        peer_name: channel.peer.description,
        ports,
    })?;
    let complete = outcome.complete;
    Ok(SessionFigures {
        direction: TransferDirection::Push,
        files: complete.files,
        bytes: complete.bytes,
        seconds: sane(complete.seconds),
    })
}

fn send_pull(
    channel: ControlChannel,
    policy: Policy,
    open: Open,
    accept: Accept,
    mut link: LinkSetup,
    cancel: &CancelToken,
) -> Result<SessionFigures> {
    let source = Source::open(SourceSpec {
        base: policy.base,
        paths: open.paths,
        recursive: open.recursive,
        preserve: open.preserve,
        compress: open.compress,
    })?;
    // The client's first datagram carries the credit, so none is known here.
    let config = sender_config(&open.sending, open.payload_size, 0)?;
    let deadline = pursuit(&open.sending);
    let ports = format!("port {}", link.socket.local_addr().port());
    channel.writer.send(&Message::Accept(Accept { shape: Some(source.shape()), ..accept }))?;
    link.clock = Clock::start();
    let lessons = Lessons::of_the_user(&channel.peer);
    let outcome = engine::send(SendJob {
        link,
        source,
        config,
        deadline,
        reader: channel.reader,
        writer: channel.writer.clone(),
        reporter: Reporter::new(Arc::new(Silent), channel.writer),
        cancel: cancel.clone(),
        remembered: RememberedPath::of_the_user(&channel.peer),
        // The client sends the first datagram.
        answered: None,
        lessons: lessons.clone(),
        peer_name: channel.peer.description,
        ports,
    })?;
    let complete = outcome.complete;
    lessons.keep(outcome.taught);
    Ok(SessionFigures {
        direction: TransferDirection::Pull,
        files: complete.files,
        bytes: complete.bytes,
        seconds: sane(complete.seconds),
    })
}

fn check_rights(open: &Open, policy: &Policy) -> Result<()> {
    if open.paths.is_empty() || open.paths.len() > PATHS_MAX {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("a session names 1 to {PATHS_MAX} paths, not {}", open.paths.len()),
        ));
    }
    if open.direction == TransferDirection::Push && open.paths.len() > 1 {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("a push has one destination, not {}; name the directory for all", open.paths.len()),
        ));
    }
    if open.direction == TransferDirection::Push && policy.read_only {
        return Err(Error::new(ErrorKind::Denied, "this server is read-only; nothing can be written to it"));
    }
    if let Some(rights) = &policy.rights {
        for path in &open.paths {
            rights
                .allows(open.direction, path)
                .map_err(|denial| Error::new(ErrorKind::Denied, denial.to_string()))?;
        }
    }
    Ok(())
}

/// The range of ports to bind in: over SSH what the user requests, at a daemon the part of that within its
/// own range.
fn chosen_ports(open: &Open, channel: &ControlChannel, ours: (u16, u16)) -> Result<(u16, u16)> {
    let Some(wish) = open.udp_ports else { return Ok(ours) };
    let chosen = match channel.carrier {
        Carrier::Ssh => wish,
        Carrier::Daemon => (wish.0.max(ours.0), wish.1.min(ours.1)),
    };
    if chosen.0 > chosen.1 || chosen.0 == 0 {
        let message = format!(
            "UDP ports {} to {} are not among those this server uses, {} to {}",
            wish.0, wish.1, ours.0, ours.1
        );
        return Err(Error::new(ErrorKind::Usage, message));
    }
    Ok(chosen)
}

/// Drops the events of a server's sessions: the client shows them.
struct Silent;

impl EventSink for Silent {
    fn event(&self, _event: Event) {}
}
