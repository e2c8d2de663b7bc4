//! The calling side: [`copy`].

use crate::cancel::{CancelHook, CancelToken};
use crate::control::message::{Accept, Bytes, Direction, Hello, Message, Open};
use crate::control::{self, ControlChannel, ssh, tls};
use crate::engine::{
    self, Clock, LinkSetup, ReceiveJob, RemedyPolicy, Reporter, SendJob, aborted, tell_abort,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventSink, Outcome, Summary};
use crate::history::RememberedPath;
use crate::lessons::Lessons;
use crate::options::{AddressFamily, Carrier, DEFAULT_TCP_PORT, Location, Remote, TransferOptions};
use crate::secure::datagram::{self, Cipher, SessionSecret};
use crate::secure::identity::{Identity, default_identity_path};
use crate::secure::known_hosts::{KnownHosts, Pin};
use crate::session::{
    Role, pursuit, receiver_config, sender_config, sending_of, summary, time_until, udp_options,
};
use crate::storage::{Base, Sink, SinkSpec, Source, SourceSpec};
use fobs_sys::{UdpSocket, Waker};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Most addresses of a server that are tried for UDP.
const ADDRESSES_MAX: usize = 4;

/// Copies `sources` to `destination`; exactly one side is remote. Blocks until the copy is complete, and returns its figures even where
/// some files failed ([`crate::event::Summary::errors`]).
pub fn copy(
    sources: &[Location],
    destination: &Location,
    options: &TransferOptions,
    events: Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Outcome {
    let began = Instant::now();
    cancel.check()?;
    // What makes no sense is said before anyone is called.
    if options.deadline.is_some_and(|at| time_until(at).is_zero()) {
        return Err(usage("the deadline has passed already; give one that is still to come"));
    }
    sender_config(&sending_of(options), options.packet_size.unwrap_or(0), 0)?;
    match destination {
        Location::Remote(remote) => {
            let source = local_source(sources, options)?;
            Client::call(remote, options, events, cancel)?.push(source, remote, began)
        }
        Location::Local(_) | Location::Stdio => {
            let (remote, paths) = remote_sources(sources)?;
            Client::call(remote, options, events, cancel)?.pull(paths, destination, began)
        }
    }
}

/// The figures of a copy that is complete now, with what became of its deadline.
fn judged(done: Summary, options: &TransferOptions) -> Summary {
    let margin = |at: SystemTime| match at.duration_since(SystemTime::now()) {
        Ok(spare) => spare.as_secs_f64(),
        Err(late) => -late.duration().as_secs_f64(),
    };
    Summary { deadline_margin_s: options.deadline.map(margin), ..done }
}

fn local_source(sources: &[Location], options: &TransferOptions) -> Result<Source> {
    if let [Location::Stdio] = sources {
        return Source::from_stream(Box::new(std::io::stdin()), options.compress);
    }
    let paths = sources
        .iter()
        .map(|source| match source {
            Location::Local(path) => Ok(path.as_os_str().as_bytes().to_vec()),
            Location::Stdio => {
                Err(usage("standard input (-) cannot be one of several sources; copy it by itself"))
            }
            Location::Remote(_) => {
                Err(usage("copies between two remote hosts are not possible; run fobs on one of them"))
            }
        })
        .collect::<Result<_>>()?;
    Source::open(SourceSpec {
        base: Base::Ambient,
        paths,
        recursive: options.recursive,
        preserve: options.preserve,
        compress: options.compress,
    })
}

fn remote_sources(sources: &[Location]) -> Result<(&Remote, Vec<Vec<u8>>)> {
    let remotes = sources
        .iter()
        .map(|source| match source {
            Location::Remote(remote) => Ok(remote),
            _ => Err(usage("neither side is remote; use cp for copies on one host")),
        })
        .collect::<Result<Vec<_>>>()?;
    let [first, rest @ ..] = &remotes[..] else {
        return Err(usage("no source was named; name at least one"));
    };
    let same = |r: &&Remote| {
        (r.carrier, &r.host, &r.user, r.port) == (first.carrier, &first.host, &first.user, first.port)
    };
    if !rest.iter().all(same) {
        return Err(usage("the sources are on different hosts; run one copy for each host"));
    }
    Ok((first, remotes.iter().map(|r| r.path.clone()).collect()))
}

fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, message)
}

/// A session that has said hello.
struct Client<'a> {
    channel: ControlChannel,
    ssh: Option<ssh::SshProcess>,
    /// Where the server's empty UDP host leads.
    hosts: Vec<String>,
    options: &'a TransferOptions,
    events: Arc<dyn EventSink>,
    cancel: &'a CancelToken,
    /// Ends the waits of the set-up. Withdrawn before the engine begins, which says goodbye by itself.
    hook: Option<CancelHook>,
}

impl<'a> Client<'a> {
    fn call(
        remote: &Remote,
        options: &'a TransferOptions,
        events: Arc<dyn EventSink>,
        cancel: &'a CancelToken,
    ) -> Result<Client<'a>> {
        match remote.carrier {
            Carrier::Ssh => {
                let hosts = ssh::resolve_host(remote, options);
                let mut session = ssh::connect(remote, options)?;
                let hook = Some(cancel.on_cancel(session.process.killer()));
                session.hello().map_err(|error| cancel.explain(error))?;
                let ssh = Some(session.process);
                Ok(Client { channel: session.channel, ssh, hosts, options, events, cancel, hook })
            }
            Carrier::Daemon => {
                let mut channel = connect_daemon(remote, options, &events, cancel)?;
                let writer = channel.writer.clone();
                let hook = Some(cancel.on_cancel(move || writer.close()));
                let _: Hello = control::hello(&mut channel).map_err(|error| cancel.explain(error))?;
                let hosts = channel.peer.address.iter().map(IpAddr::to_string).collect();
                Ok(Client { channel, ssh: None, hosts, options, events, cancel, hook })
            }
        }
    }

    fn push(mut self, source: Source, remote: &Remote, began: Instant) -> Outcome {
        let shape = source.shape();
        let open = Open { shape, ..self.open(Direction::Push, vec![Bytes(remote.path.clone())]) };
        let asked = Instant::now();
        let accept = self.ask(open).map_err(|error| self.cancel.explain(error))?;
        let answered = Some(asked.elapsed());
        let sending = sending_of(self.options);
        let config = sender_config(&sending, self.options.packet_size.unwrap_or(0), accept.chunk_limit)?;
        let cc = config.controller.name();
        let (link, cipher) = self
            .link(&accept, datagram::Direction::Sender, Some(cc))
            .inspect_err(|error| tell_abort(&self.channel.writer, error))?;
        self.started(cipher, cc);
        let reporter = Reporter::new(self.events.clone(), self.channel.writer.clone());
        let lessons = Lessons::of_the_user(&self.channel.peer);
        let job = SendJob {
            link,
            source,
            config,
            deadline: pursuit(&sending),
            reader: self.channel.reader,
            writer: self.channel.writer.clone(),
            reporter: reporter.clone(),
            cancel: self.cancel.clone(),
            remembered: RememberedPath::of_the_user(&self.channel.peer),
            answered,
            lessons: lessons.clone(),
            peer_name: self.channel.peer.description,
            ports: ports_of(&accept),
        };
        let outcome = engine::send(job).inspect_err(|error| tell_abort(&self.channel.writer, error));
        hang_up(&self.channel.writer, self.ssh);
        let outcome = outcome?;
        let done =
            summary(Role::Sender, &outcome.complete, &outcome.finished, cipher, began, reporter.errors());
        // The copy is complete; what follows is for the next one and no part of its time.
        let done = judged(done, self.options);
        lessons.keep(outcome.taught);
        Ok(done)
    }

    fn pull(mut self, paths: Vec<Vec<u8>>, destination: &Location, began: Instant) -> Outcome {
        let open = self.open(Direction::Pull, paths.iter().cloned().map(Bytes).collect());
        let cc = self.options.congestion_control.name();
        let accept = self.ask(open).map_err(|error| self.cancel.explain(error))?;
        let sink = self
            .local_sink(&accept, &paths, destination)
            .inspect_err(|error| tell_abort(&self.channel.writer, error))?;
        let (link, cipher) = self
            .link(&accept, datagram::Direction::Receiver, None)
            .inspect_err(|error| tell_abort(&self.channel.writer, error))?;
        self.started(cipher, cc);
        let reporter = Reporter::new(self.events.clone(), self.channel.writer.clone());
        let job = ReceiveJob {
            link,
            sink,
            config: receiver_config(self.options.ack_every.unwrap_or(0)),
            remedies: RemedyPolicy::of(self.options.loss_cause.name()),
            reader: self.channel.reader,
            writer: self.channel.writer.clone(),
            reporter: reporter.clone(),
            cancel: self.cancel.clone(),
            peer_name: self.channel.peer.description,
            ports: ports_of(&accept),
        };
        let outcome = engine::receive(job).inspect_err(|error| tell_abort(&self.channel.writer, error));
        hang_up(&self.channel.writer, self.ssh);
        let outcome = outcome?;
        let done =
            summary(Role::Receiver, &outcome.complete, &outcome.finished, cipher, began, reporter.errors());
        Ok(judged(done, self.options))
    }

    fn local_sink(&self, accept: &Accept, paths: &[Vec<u8>], destination: &Location) -> Result<Sink> {
        let Location::Local(path) = destination else {
            return Sink::to_stream(Box::new(std::io::stdout()), &accept.shape);
        };
        let mut sink = Sink::open(SinkSpec {
            base: Base::Ambient,
            destination: path.as_os_str().as_bytes().to_vec(),
            shape: accept.shape.clone(),
            preserve: self.options.preserve,
            fsync: self.options.fsync,
        })?;
        sink.expect_sources(paths);
        Ok(sink)
    }

    fn open(&self, direction: Direction, paths: Vec<Bytes>) -> Open {
        let options = self.options;
        Open {
            direction,
            paths,
            recursive: options.recursive,
            preserve: options.preserve,
            compress: options.compress,
            fsync: options.fsync,
            payload_size: options.packet_size.unwrap_or(0),
            ack_every: options.ack_every.unwrap_or(0),
            shape: Default::default(),
            sending: sending_of(options),
            udp_ports: options.udp_ports,
        }
    }

    /// Asks for the session and waits for the server's answer.
    fn ask(&mut self, open: Open) -> Result<Accept> {
        let sent = self.channel.writer.send(&Message::Open(open));
        // Too long to be sent at all: nothing will be answered.
        if let Err(error) = &sent
            && error.kind == ErrorKind::Usage
        {
            return Err(error.clone());
        }
        let peer = &self.channel.peer.description;
        // A server that refuses this client may be gone before it is asked: what it said says more than that it no longer listens.
        let answer = match (self.channel.reader.recv(), sent) {
            (Ok(Some(Message::Abort { code, message })), _) => return Err(aborted(peer, &code, &message)),
            (_, Err(error)) => return Err(error),
            (answer, Ok(())) => answer?,
        };
        match answer {
            Some(Message::Accept(accept)) => Ok(accept),
            Some(_) => Err(Error::new(
                ErrorKind::Protocol,
                format!("{peer} answered out of turn; install the same version on both sides"),
            )),
            None => Err(Error::new(
                ErrorKind::Connect,
                format!("{peer} ended the connection instead of answering; look at what it says there"),
            )),
        }
    }

    /// This side's end of the data plane.
    fn link(
        &mut self,
        accept: &Accept,
        direction: datagram::Direction,
        cc: Option<&str>,
    ) -> Result<(LinkSetup, Cipher)> {
        let peer = &self.channel.peer.description;
        let broken = |what: &str| {
            Error::new(ErrorKind::Protocol, format!("{peer} {what}; install the same version on both sides"))
        };
        let cipher = Cipher::from_name(&accept.cipher)
            .ok_or_else(|| broken("chose a cipher that is not known here"))?;
        let secret = match (self.channel.exporter.take(), &accept.secret) {
            (Some(secret), _) => secret,
            (None, Some(bytes)) => SessionSecret::new(
                bytes
                    .0
                    .as_slice()
                    .try_into()
                    .map_err(|_| broken("sent a session secret of a wrong length"))?,
            ),
            (None, None) => return Err(broken("sent no session secret")),
        };
        let candidates = candidates(accept, &self.hosts, self.options.address_family);
        let Some(first) = candidates.first() else {
            let message = format!(
                "no address is known at which the UDP port of {peer} can be reached; check -4 and -6 and the host's name"
            );
            return Err(Error::new(ErrorKind::Connect, message));
        };
        let here: IpAddr =
            if first.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(here, 0), &udp_options(cc))
            .map_err(|error| Error::new(ErrorKind::Socket, format!("cannot make a UDP socket: {error}")))?;
        let waker = Waker::new().map_err(|error| {
            Error::new(ErrorKind::Socket, format!("cannot make an event descriptor: {error}"))
        })?;
        Ok((
            LinkSetup { socket, waker, clock: Clock::start(), secret, cipher, direction, candidates },
            cipher,
        ))
    }

    fn started(&mut self, cipher: Cipher, cc: &'static str) {
        self.hook = None;
        let control = if self.ssh.is_some() { "ssh" } else { "tls" };
        self.events.event(Event::Started { control, transport: "udp", cipher: cipher.name(), cc });
    }
}

fn connect_daemon(
    remote: &Remote,
    options: &TransferOptions,
    events: &Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Result<ControlChannel> {
    let port = remote.port.or(options.port).unwrap_or(DEFAULT_TCP_PORT);
    let identity = match &options.identity {
        Some(path) => Identity::load(path)?,
        None => {
            let path = default_identity_path()?;
            if !path.exists() {
                let message = format!(
                    "there is no identity to show to {}: make one with `fobs keygen`, add the line it prints to the server's authorized keys, or name one with -i",
                    remote.host
                );
                return Err(Error::new(ErrorKind::Denied, message));
            }
            Identity::load(&path)?
        }
    };
    let known_hosts = match &options.known_hosts {
        Some(path) => KnownHosts::at(path),
        None => KnownHosts::default_location()?,
    };
    tls::connect(&remote.host, port, options.address_family, &identity, cancel, |key| {
        if known_hosts.check(&remote.host, port, key)? == Pin::PinnedNow {
            let file = known_hosts.path().display();
            events.event(Event::Notice(format!(
                "{} is new here: its key {} is now pinned in {file}",
                remote.host,
                key.fingerprint()
            )));
        }
        Ok(())
    })
}

/// Where the server's UDP socket may be, best first.
fn candidates(accept: &Accept, hosts: &[String], family: AddressFamily) -> Vec<SocketAddr> {
    // The server's socket has one family; an address it names itself shows which.
    let named = accept.udp_addresses.iter().find_map(|(host, _)| host.parse::<IpAddr>().ok());
    let fits = |address: &SocketAddr| {
        let wanted = match family {
            AddressFamily::Any => true,
            AddressFamily::V4 => address.is_ipv4(),
            AddressFamily::V6 => address.is_ipv6(),
        };
        wanted && named.is_none_or(|named| named.is_ipv4() == address.is_ipv4())
    };
    let mut found = Vec::new();
    for (host, port) in accept.udp_addresses.iter().take(ADDRESSES_MAX) {
        let names: Vec<&str> =
            if host.is_empty() { hosts.iter().map(String::as_str).collect() } else { vec![host] };
        for name in names {
            for address in (name, *port).to_socket_addrs().into_iter().flatten().filter(fits) {
                if !found.contains(&address) {
                    found.push(address);
                }
            }
        }
    }
    if let Some(v4) = found.first().map(SocketAddr::is_ipv4) {
        found.retain(|address| address.is_ipv4() == v4);
    }
    found.truncate(ADDRESSES_MAX);
    found
}

fn ports_of(accept: &Accept) -> String {
    accept.udp_addresses.first().map_or_else(|| "ports".to_owned(), |(_, port)| format!("port {port}"))
}

fn hang_up(writer: &control::ControlWriter, ssh: Option<ssh::SshProcess>) {
    writer.close();
    if let Some(process) = ssh {
        // How ssh ended no longer matters: both sides have said their last word, or the error is already known.
        let _ = process.finish();
    }
}
