//! From parsed arguments to the options of the `fobs` crate; refuses combinations that have no meaning.

use std::ffi::{OsStr, OsString};

use fobs::named::LinkOwners;
use fobs::options::flag::CommandName;
use fobs::options::{
    Carrier, CongestionControl, DEFAULT_TCP_PORT, Location, Priority, Restriction, ServeOptions,
    TransferOptions,
};
use fobs::{Error, ErrorKind, Result};

use crate::args::{CpArgs, ServeArgs, ServerArgs};
use crate::flags::Chosen;
use crate::here;
use crate::location;
use crate::ports::Listen;

/// One copy, ready to run.
#[derive(Debug, PartialEq)]
pub struct Copy {
    /// What to copy; never empty.
    pub sources: Vec<Location>,
    /// The destination.
    pub destination: Location,
    /// How to copy it.
    pub options: TransferOptions,
}

/// Resolves the arguments of `fobs cp`.
///
/// # Errors
/// `Usage` for invalid locations or options, or combinations of them.
pub fn copy(args: &CpArgs) -> Result<Copy> {
    refuse_mistyped(&args.paths)?;
    let (destination, sources) = match args.paths.as_slice() {
        [sources @ .., destination] if !sources.is_empty() => (destination, sources),
        _ => return Err(usage("a copy needs a source and a destination, as in fobs cp big.tar host:")),
    };
    let sources = sources.iter().map(|source| location::parse(source)).collect::<Result<Vec<_>>>()?;
    let mut destination = location::parse(destination)?;
    if sources.iter().chain([&destination]).all(|place| matches!(place, Location::Local(_))) {
        if let Some(why) = here::forgotten_colon(&destination) {
            return Err(Error::new(ErrorKind::Usage, why));
        }
        let mut options = transfer(&args.chosen)?;
        here::served(&sources, &mut destination, &mut options, LinkOwners::Trusted)?;
        return Ok(Copy { sources, destination, options });
    }
    location::check_route(&sources, &destination)?;
    if args.chosen.program.json && destination == Location::Stdio {
        return Err(usage(
            "--json and the destination '-' both write to standard output: leave one of them out",
        ));
    }
    if let Some(carrier) = sources.iter().chain([&destination]).find_map(carrier) {
        args.check(CommandName::Cp, carrier)?;
    }
    let mut options = transfer(&args.chosen)?;
    if args.chosen.program.quiet {
        // As scp -q does. Last, because ssh uses the first value; ERROR and not QUIET, which would hide why a
        // connection failed.
        options.ssh.options.push("LogLevel=ERROR".to_owned());
    }
    Ok(Copy { sources, destination, options })
}

/// Resolves the arguments of `fobs serve`.
///
/// # Errors
/// `Usage` for more sessions than ports, or none.
pub fn serve(args: &ServeArgs) -> Result<ServeOptions> {
    let ports = args.udp_ports;
    let sessions_max = args.sessions_max.unwrap_or(ports.count());
    if !(1..=ports.count()).contains(&sessions_max) {
        return Err(usage(format!(
            "--sessions-max {sessions_max} is not possible: every session needs its own UDP port, and --udp-ports \
             {}-{} allows 1 to {}",
            ports.first,
            ports.last,
            ports.count()
        )));
    }
    let listen = match args.listen.as_slice() {
        [] => Listen::Port(DEFAULT_TCP_PORT).addresses(),
        given => given.iter().flat_map(|listen| listen.addresses()).collect(),
    };
    let (queue_wait, drain) = args.waits();
    Ok(ServeOptions {
        listen,
        read_only: args.read_only,
        identity: args.identity.clone(),
        udp_ports: (ports.first, ports.last),
        sessions_max,
        queue_wait,
        drain,
        metrics: args.metrics,
        third_party: args.third_party,
        log_files: args.log_files,
        ..ServeOptions::new(args.root.clone(), args.authorized_keys.clone())
    })
}

/// Resolves the arguments of `fobs server`; `None` is the session of an unrestricted key.
pub fn server(args: &ServerArgs) -> Option<Restriction> {
    args.restrict.clone().map(|directory| Restriction { directory, rights: args.rights.0.clone() })
}

/// Refuses locations that were meant as options.
///
/// # Errors
/// `Usage`, with the option.
pub fn refuse_mistyped(words: &[OsString]) -> Result<()> {
    let is_here = |name: &OsStr| std::fs::symlink_metadata(name).is_ok();
    location::mistyped_option(words, is_here).map_or(Ok(()), |why| Err(usage(why)))
}

fn usage(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, message)
}

fn carrier(location: &Location) -> Option<Carrier> {
    match location {
        Location::Remote(remote) => Some(remote.carrier),
        Location::Local(_) | Location::Stdio => None,
    }
}

/// The options of a transfer, put together from what was chosen.
///
/// # Errors
/// `Usage` for combinations that have no meaning.
pub fn transfer(chosen: &Chosen) -> Result<TransferOptions> {
    let mut options = chosen.options.clone();
    match (options.congestion_control, chosen.options.rate_limit) {
        (CongestionControl::Fixed { .. }, Some(bits_per_second)) => {
            options.congestion_control = CongestionControl::Fixed { bits_per_second };
            options.rate_limit = None;
        }
        (CongestionControl::Fixed { .. }, None) => {
            return Err(usage("--cc fixed needs its rate, as in --cc fixed --rate 1Gbit"));
        }
        _ => {
            options.rate_limit = chosen.rate_limit();
        }
    }
    let cc = options.congestion_control;
    if cc != CongestionControl::Auto && options.priority != Priority::Fair {
        let priority = options.priority;
        return Err(usage(format!(
            "--priority {priority} works only with --cc auto, not with --cc {cc}: leave one of them out"
        )));
    }
    if cc != CongestionControl::Auto && options.deadline.is_some() {
        return Err(usage(format!(
            "--deadline works only with --cc auto, not with --cc {cc}: leave one of them out"
        )));
    }
    Ok(options)
}

#[cfg(test)]
mod tests;
