//! Reaching the server: the control channel, up to the hellos.

use super::Client;
use super::lane_count::ClientLanes;
use crate::session::chunks_of;
use fobs_channel::control;
use fobs_channel::control::{ControlChannel, ssh, tls};
use fobs_channel::secure::identity::{Identity, default_identity_path};
use fobs_channel::secure::known_hosts::{KnownHosts, Pin};
use fobs_model::cancel::{CancelHook, CancelToken};
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::event::{Event, EventSink};
use fobs_model::message::{Hello, Message, Reuse, SecretText, TICKETS};
use fobs_model::options::{Carrier, Chatter, DEFAULT_TCP_PORT, NewKeys, PushBinary, Remote, TransferOptions};
use fobs_sys::confine::{Errand, outside};
use std::sync::Arc;
use std::thread;

impl<'a> Client<'a> {
    /// Connects and exchanges hellos. Cancellation ends every wait but that for a name's addresses.
    pub(super) fn call(
        remote: &Remote,
        options: &'a TransferOptions,
        events: Arc<dyn EventSink>,
        cancel: &'a CancelToken,
    ) -> Result<Client<'a>> {
        match remote.carrier {
            Carrier::Ssh => {
                if let Some(hosts) = &options.ssh.inherited {
                    return Client::inherit(hosts.clone(), options, events, cancel);
                }
                // Beside the login: both start a program.
                let (there, ours) = (remote.clone(), options.clone());
                let resolving = thread::spawn(move || ssh::resolve_host(&there, &ours));
                let (session, hello, hook) = greet_over_ssh(remote, options, &events, cancel)?;
                let hosts = resolving.join().unwrap_or_else(|_| vec![remote.host.clone()]);
                let ssh = Some(session.process);
                let channel = session.channel;
                Ok(Client {
                    channel,
                    ssh,
                    hosts,
                    tcp_port: 0,
                    lane: None,
                    lanes: ClientLanes::default(),
                    hello,
                    options,
                    events,
                    cancel,
                    hook: Some(hook),
                    reuse: Reuse::default(),
                    chunks_max: chunks_of(options),
                })
            }
            Carrier::Daemon => {
                let mut channel = connect_daemon(remote, options, &events, cancel)?;
                let writer = channel.writer.clone();
                let hook = Some(cancel.on_cancel(move || writer.close()));
                let hello = control::hello_within(&mut channel, options.opening)
                    .map_err(|error| cancel.explain(error))?;
                if let Some(ticket) = &options.ticket {
                    show_ticket(&channel, &hello, &ticket.text)?;
                }
                let hosts = channel.peer.scoped_address().into_iter().collect();
                let tcp_port = port_of(remote, options);
                Ok(Client {
                    channel,
                    ssh: None,
                    hosts,
                    tcp_port,
                    lane: None,
                    lanes: ClientLanes::default(),
                    hello,
                    options,
                    events,
                    cancel,
                    hook,
                    reuse: Reuse::default(),
                    chunks_max: chunks_of(options),
                })
            }
        }
    }
}

impl<'a> Client<'a> {
    /// Over this process's own standard input and output.
    fn inherit(
        hosts: Vec<String>,
        options: &'a TransferOptions,
        events: Arc<dyn EventSink>,
        cancel: &'a CancelToken,
    ) -> Result<Client<'a>> {
        let mut channel = ssh::server_channel()?;
        if let Some(host) = hosts.first() {
            channel.peer.description.clone_from(host);
        }
        let writer = channel.writer.clone();
        let hook = Some(cancel.on_cancel(move || writer.close()));
        let hello =
            control::hello_within(&mut channel, options.opening).map_err(|error| cancel.explain(error))?;
        let reuse = Reuse::default();
        Ok(Client {
            channel,
            ssh: None,
            hosts,
            tcp_port: 0,
            lane: None,
            lanes: ClientLanes::default(),
            hello,
            options,
            events,
            cancel,
            hook,
            reuse,
            chunks_max: chunks_of(options),
        })
    }
}

/// Connects over ssh up to the hellos, and sends the program first where that is wanted and needed.
fn greet_over_ssh(
    remote: &Remote,
    options: &TransferOptions,
    events: &Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Result<(ssh::SshSession, Hello, CancelHook)> {
    let push = if ssh::may_be_pushed(options) { options.ssh.push } else { PushBinary::Never };
    let greet = |session: Result<ssh::SshSession>| greeted(session?, options, events, cancel);
    if push == PushBinary::Expected {
        return match pushed(remote, options, events, cancel) {
            // A forced command of this key, of an older release, runs the program and no script.
            Err(refused) if refused.kind == ErrorKind::RemoteMissing => {
                greet(ssh::connect(remote, options)).map_err(|_| refused)
            }
            tried => tried,
        };
    }
    let missing = match greet(ssh::connect(remote, options)) {
        Err(error) if error.kind == ErrorKind::RemoteMissing => error,
        tried => return tried,
    };
    if push == PushBinary::IfMissing {
        return pushed(remote, options, events, cancel);
    }
    if !ssh::may_be_elsewhere(options) {
        return Err(missing);
    }
    let found = greet(ssh::connect_elsewhere(remote, options)).map_err(|error| match error.kind {
        ErrorKind::RemoteMissing => missing,
        _ => error,
    })?;
    events.event(Event::Notice(format!(
        "on {} fobs is not on the PATH of a shell that runs a command, and was found elsewhere; a link in a directory that \
         is, or --fobs-path .local/bin/fobs, saves a connection",
        remote.host
    )));
    Ok(found)
}

fn pushed(
    remote: &Remote,
    options: &TransferOptions,
    events: &Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Result<(ssh::SshSession, Hello, CancelHook)> {
    greeted(ssh::connect_pushing(remote, options, events, cancel)?, options, events, cancel)
}

fn greeted(
    mut session: ssh::SshSession,
    options: &TransferOptions,
    events: &Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Result<(ssh::SshSession, Hello, CancelHook)> {
    let hook = cancel.on_cancel(session.process.killer());
    let watch = session.process.watch(ssh::Patience::of(options), events.clone());
    let hello = session.hello().map_err(|error| cancel.explain(session.process.blame(error, cancel)))?;
    drop(watch);
    let chatter = session.process.chatter();
    if options.ssh.chatter == Chatter::Told && !chatter.is_empty() {
        let host = &session.channel.peer.description;
        events.event(Event::Notice(format!("{host}: before fobs spoke there, this came: {chatter}")));
    }
    Ok((session, hello, hook))
}

/// A ticket comes before the request.
fn show_ticket(channel: &ControlChannel, hello: &Hello, text: &str) -> Result<()> {
    if !hello.has(TICKETS) {
        let peer = &channel.peer.description;
        let message =
            format!("{peer} has an older fobs, which knows no tickets; install the same version there");
        return Err(Error::new(ErrorKind::RemoteMissing, message));
    }
    channel.writer.send(&Message::Ticket { ticket: SecretText::new(text.to_owned()) })
}

fn port_of(remote: &Remote, options: &TransferOptions) -> u16 {
    remote.port.or(options.port).unwrap_or(DEFAULT_TCP_PORT)
}

fn connect_daemon(
    remote: &Remote,
    options: &TransferOptions,
    events: &Arc<dyn EventSink>,
    cancel: &CancelToken,
) -> Result<ControlChannel> {
    let port = port_of(remote, options);
    let identity = match &options.identity {
        Some(path) => {
            let path = path.clone();
            outside(Errand::Fetch, move || Identity::load(&path))?
        }
        None => default_identity(&remote.host)?,
    };
    let (host, family, limit) = (remote.host.as_str(), options.address_family, options.opening);
    let dialed = tls::Dialed { host, port, family, limit };
    if let Some(ticket) = &options.ticket {
        // Its issuer is known by the ticket, and nobody is pinned.
        return tls::connect_within(&dialed, &identity, cancel, |key| {
            if *key == ticket.key {
                Ok(())
            } else {
                let why =
                    "has another key than the one that signed the ticket; ask the source for another one";
                Err(Error::new(ErrorKind::Denied, format!("{} {why}", remote.host)))
            }
        });
    }
    let known_hosts = match &options.known_hosts {
        Some(path) => KnownHosts::at(path),
        None => KnownHosts::default_location()?,
    };
    tls::connect_within(&dialed, &identity, cancel, |key| {
        if options.new_keys == NewKeys::Refused {
            return known_hosts.check_known(&remote.host, port, key);
        }
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

fn default_identity(host: &str) -> Result<Identity> {
    let path = default_identity_path()?;
    if !path.exists() {
        let message = format!(
            "there is no identity to show to {host}: make one with `fobs keygen`, add the line it prints to the server's authorized keys, or name one with -i"
        );
        return Err(Error::new(ErrorKind::Denied, message));
    }
    Identity::load(&path)
}
