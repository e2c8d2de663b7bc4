//! One connection of a user over ssh: `fobs server`.

use super::{Host, Leave, Policy, SessionFigures, StillThere, StreamEntrance, Wanted, serve_session};
use crate::cancel::CancelToken;
use crate::control::ssh;
use crate::engine::Throttle;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{DEFAULT_UDP_PORTS, Restriction};
use crate::restrict::restricted;
use crate::secure::authorized_keys::Rights;
use crate::storage::Base;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Serves one session over standard input and output, with the rights of the user who runs it, or below one
/// directory: `fobs server`, which ssh starts. Takes both streams over: what is printed from here on goes to
/// standard error.
///
/// # Errors
/// Any [`ErrorKind`]: what ended the session, `Interrupted` after cancellation. The client has been sent the
/// same, except for a restriction that does not hold: that ends it before it is heard.
pub fn serve_stdio(restriction: Option<&Restriction>, cancel: &CancelToken) -> Result<()> {
    let (base, rights) = match restriction {
        None => (Base::Ambient, None),
        Some(restriction) => {
            let (base, rights) = restricted(restriction)?;
            (base, Some(rights))
        }
    };
    let channel = ssh::server_channel()?;
    // From sshd: "client-ip client-port server-ip server-port".
    let here = std::env::var("SSH_CONNECTION").ok().and_then(|c| c.split(' ').nth(2)?.parse::<IpAddr>().ok());
    serve_session(channel, cancel, &mut Login { base, rights, here }).map(|_| ())
}

/// The user's own login over ssh: file permissions decide, and sshd counts connections.
struct Login {
    base: Base,
    rights: Option<Rights>,
    /// The address to which the client made its connection.
    here: Option<IpAddr>,
}

impl Host for Login {
    fn judge(&mut self, _wanted: Wanted<'_>) -> Result<Policy> {
        let base = self.base.try_clone().map_err(|error| {
            Error::new(ErrorKind::FileIo, format!("the directory cannot be opened again: {error}"))
        })?;
        Ok(Policy {
            base,
            read_only: false,
            rights: self.rights.clone(),
            udp_ip: match self.here {
                Some(IpAddr::V6(_)) => std::net::Ipv6Addr::UNSPECIFIED.into(),
                _ => Ipv4Addr::UNSPECIFIED.into(),
            },
            udp_ports: DEFAULT_UDP_PORTS,
            streams: StreamEntrance::Own,
            addresses: self.here.iter().map(IpAddr::to_string).collect(),
            client: ssh::client_address(),
            throttle: Throttle::default(),
            events: Arc::new(|_| ()),
        })
    }

    fn ended(&mut self, _outcome: &Result<SessionFigures>) {}

    fn answered(&mut self, _outcome: &Result<()>) {}

    /// The process ends with its ssh connection.
    fn rest(&mut self, _hang_up: Box<dyn FnOnce() + Send>) -> Option<Leave> {
        Some(Box::new(|| StillThere::Yes))
    }
}
