//! Reaching the server: the control channel, up to the hellos.

use super::Client;
use crate::cancel::CancelToken;
use crate::control::message::Reuse;
use crate::control::{self, ControlChannel, ssh, tls};
use crate::engine::Throttle;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventSink};
use crate::options::{Carrier, DEFAULT_TCP_PORT, Remote, TransferOptions};
use crate::secure::identity::{Identity, default_identity_path};
use crate::secure::known_hosts::{KnownHosts, Pin};
use std::net::IpAddr;
use std::sync::Arc;

impl<'a> Client<'a> {
    /// Connects and exchanges hellos. Cancellation ends every wait but that for a name's addresses.
    pub(super) fn call(
        remote: &Remote,
        options: &'a TransferOptions,
        events: Arc<dyn EventSink>,
        cancel: &'a CancelToken,
        throttle: Throttle,
    ) -> Result<Client<'a>> {
        match remote.carrier {
            Carrier::Ssh => {
                let hosts = ssh::resolve_host(remote, options);
                let mut session = ssh::connect(remote, options)?;
                let hook = Some(cancel.on_cancel(session.process.killer()));
                let watch = session.process.watch(ssh::Patience::usual(), events.clone());
                let hello =
                    session.hello().map_err(|error| cancel.explain(session.process.blame(error, cancel)))?;
                drop(watch);
                let ssh = Some(session.process);
                let channel = session.channel;
                Ok(Client {
                    channel,
                    ssh,
                    hosts,
                    tcp_port: 0,
                    lane: None,
                    hello,
                    options,
                    events,
                    cancel,
                    hook,
                    reuse: Reuse::default(),
                    throttle,
                })
            }
            Carrier::Daemon => {
                let mut channel = connect_daemon(remote, options, &events, cancel)?;
                let writer = channel.writer.clone();
                let hook = Some(cancel.on_cancel(move || writer.close()));
                let hello = control::hello(&mut channel).map_err(|error| cancel.explain(error))?;
                let hosts = channel.peer.address.iter().map(IpAddr::to_string).collect();
                let tcp_port = port_of(remote, options);
                Ok(Client {
                    channel,
                    ssh: None,
                    hosts,
                    tcp_port,
                    lane: None,
                    hello,
                    options,
                    events,
                    cancel,
                    hook,
                    reuse: Reuse::default(),
                    throttle,
                })
            }
        }
    }
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
        Some(path) => Identity::load(path)?,
        None => default_identity(&remote.host)?,
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
