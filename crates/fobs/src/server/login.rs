//! One connection of a user over ssh: `fobs server`.

mod returning;

use super::{
    Host, LanesAt, Leave, Policy, Reach, SessionFigures, StillThere, StreamEntrance, Wanted, open_session,
};
use crate::pipe::program::Launcher;
use crate::pipe::returns::Returns;
use crate::restrict::restricted;
use fobs_channel::control::{ControlChannel, ssh};
use fobs_engine::Throttle;
use fobs_model::budget::MemoryBudget;
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Hello, PathRole, PipeOpen};
use fobs_model::options::{DEFAULT_UDP_PORTS, Restriction};
use fobs_model::permit::{Needs, Permit};
use fobs_store::{Base, Expanded, SourcesHere, at_home, expand, expand_one};
use fobs_sys::confine;
use fobs_sys::confine::{Domain, Tcp};
use returning::Returning;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Serves one session over standard input and output, with the rights of the user who runs it, or below one
/// directory: `fobs server`, which ssh starts. Takes both streams over: what is printed from here on goes to
/// standard error. `here` is where the client's sources are, if it is on this host.
///
/// # Errors
/// Any [`ErrorKind`]: what ended the session, `Interrupted` after cancellation.
pub fn serve_stdio(
    restriction: Option<&Restriction>,
    here: SourcesHere,
    cancel: &CancelToken,
) -> std::result::Result<(), StdioError> {
    let connection = std::env::var("SSH_CONNECTION").ok();
    let mut login = Login::new(restriction, connection).map_err(StdioError::Untold)?;
    if restriction.is_none() {
        let launcher = Launcher::start().map_err(StdioError::Untold)?;
        login.launcher = Some(launcher.clone());
        let returning = Returning::start(launcher, cancel).map_err(StdioError::Untold)?;
        login.returns = Some(returning.returns.clone());
        login.returning = Some(returning);
    }
    login.sources = here;
    let domain = login.domain().map_err(StdioError::Untold)?;
    let channel = ssh::server_channel().map_err(StdioError::Untold)?;
    let served = serve(channel, domain, &mut login, cancel);
    if let Some(returning) = &login.returning {
        returning.wait(cancel);
    }
    match served {
        Ok(()) => Ok(()),
        Err(error) if login.is_client_told => Err(StdioError::Told(error)),
        Err(error) => Err(StdioError::Untold(error)),
    }
}

/// Serves one session over any channel, as [`serve_stdio`] does over its own.
#[cfg(any(test, feature = "testing"))]
pub fn serve_over(channel: ControlChannel, restriction: &Restriction, cancel: &CancelToken) -> Result<()> {
    let mut login = Login::new(Some(restriction), None)?;
    let domain = login.domain()?;
    serve(channel, domain, &mut login, cancel)
}

/// Serves one session in threads of its own, which reach what `domain` has.
fn serve(channel: ControlChannel, domain: Domain, login: &mut Login, cancel: &CancelToken) -> Result<()> {
    confined(domain, || open_session(channel, cancel, login)?.serve(cancel, login).map(drop))
}

fn confined(domain: Domain, session: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let within = || {
        confine::within(domain, "fobs-session", session).map_err(Error::internal).and_then(|served| served)
    };
    confine::serving("fobs-clerk", within).map_err(Error::internal).and_then(|served| served)
}

/// Why [`serve_stdio`] failed, and who is to say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdioError {
    /// The client was sent it and says it to its user.
    Told(Error),
    /// The client knows nothing of it: the session had not begun.
    Untold(Error),
}

/// The user's own login over ssh: file permissions decide, and sshd counts connections.
struct Login {
    base: Base,
    permit: Permit,
    /// Where a restricted session gets, for the kernel.
    reach: Option<Reach>,
    /// What tells it from other restricted logins of the user; empty for one that is not restricted.
    within: Vec<u8>,
    /// That from which, and the one to which, the client made its connection.
    client: Option<IpAddr>,
    here: Option<IpAddr>,
    sources: SourcesHere,
    /// Starts the user's commands, if the session may.
    launcher: Option<Launcher>,
    /// Where its client comes back, likewise.
    returning: Option<Returning>,
    returns: Option<Returns>,
    is_client_told: bool,
}

impl Login {
    /// `connection` is of sshd: "client-ip client-port server-ip server-port".
    fn new(restriction: Option<&Restriction>, connection: Option<String>) -> Result<Login> {
        let (base, permit, reach, within) = match restriction {
            None => (Base::Ambient, Permit::of_the_user(), None, Vec::new()),
            Some(restriction) => {
                let Restriction { directory, rights } = restriction;
                let within =
                    [rights.access().name().as_bytes(), b" ", directory.as_os_str().as_bytes()].concat();
                let reach = Reach::of(rights, false);
                (restricted(restriction)?, Permit::of_key(rights.clone()), Some(reach), within)
            }
        };
        let client = ssh::address_of(connection.as_deref());
        let here = connection.and_then(|it| it.split(' ').nth(2)?.split('%').next()?.parse::<IpAddr>().ok());
        Ok(Login {
            base,
            permit,
            reach,
            within,
            client,
            here,
            sources: SourcesHere::default(),
            launcher: None,
            returning: None,
            returns: None,
            is_client_told: false,
        })
    }
}

impl Login {
    /// What the session can reach: below the directory that it is restricted to, or whatever the login can.
    fn domain(&self) -> Result<Domain> {
        match (&self.base, &self.reach) {
            (Base::Beneath { root, .. }, Some(reach)) => reach.domain(root, Tcp::Listen),
            _ => Ok(Domain::of_login()),
        }
    }
}

impl Host for Login {
    fn judge(&mut self, _wanted: Wanted<'_>) -> Result<Policy> {
        let base = self.base.try_clone().map_err(|error| {
            Error::new(ErrorKind::FileIo, format!("the directory cannot be opened again: {error}"))
        })?;
        Ok(Policy {
            base,
            permit: self.permit.clone(),
            within: self.within.clone(),
            udp_ip: match self.here {
                Some(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
                _ => Ipv4Addr::UNSPECIFIED.into(),
            },
            lanes_at: match self.here {
                Some(IpAddr::V6(_)) => LanesAt {
                    reached: Ipv6Addr::UNSPECIFIED.into(),
                    other: Some(Ipv4Addr::UNSPECIFIED.into()),
                },
                _ => LanesAt {
                    reached: Ipv4Addr::UNSPECIFIED.into(),
                    other: Some(Ipv6Addr::UNSPECIFIED.into()),
                },
            },
            udp_ports: DEFAULT_UDP_PORTS,
            streams: StreamEntrance::Own,
            addresses: self.here.iter().map(IpAddr::to_string).collect(),
            size_max: None,
            budget: MemoryBudget::default(),
            here: self.sources.clone(),
            client: self.client,
            throttle: Throttle::default(),
            events: Arc::new(|_| ()),
        })
    }

    fn expand(&mut self, paths: &[Vec<u8>], role: PathRole) -> Result<Vec<Vec<u8>>> {
        let mut expanded = Expanded::default();
        for path in paths {
            self.permit.check(&Needs::of_expansion(path, role))?;
            match role {
                PathRole::Sources => {
                    let found = match expand(&self.base, path) {
                        // As a shell has it: one of several is a name then, which is not found.
                        Err(error) if error.kind == ErrorKind::NoSource && paths.len() > 1 => {
                            vec![path.clone()]
                        }
                        found => found?,
                    };
                    expanded.add(path, found)?;
                }
                PathRole::Destination => {
                    let found = if path.starts_with(b"~") {
                        at_home(&self.base, path)?
                    } else {
                        self.permit.check(&Needs::of_expansion(path, PathRole::Sources))?;
                        expand_one(&self.base, path)?
                    };
                    expanded.add(path, vec![found])?;
                }
            }
        }
        Ok(expanded.paths)
    }

    fn launcher(&self) -> Option<Launcher> {
        self.launcher.clone()
    }

    fn returns(&self) -> Option<Returns> {
        self.returns.clone()
    }

    fn awaits(&self, pipe: &str) {
        self.returning.iter().for_each(|returning| returning.listen(pipe));
    }

    fn hands_over(&self, open: &PipeOpen, hello: &Hello, cancel: &CancelToken) -> bool {
        self.returning.as_ref().is_some_and(|returning| returning.hands_over(open, hello, cancel))
    }

    fn ended(&mut self, _outcome: &Result<SessionFigures>) {}

    fn told(&mut self) {
        self.is_client_told = true;
    }

    /// The process ends with its ssh connection.
    fn rest(&mut self, _hang_up: Box<dyn FnOnce() + Send>) -> Option<Leave> {
        Some(Box::new(|| StillThere::Yes))
    }
}
