//! From parsed arguments to the options of the `fobs` crate; refuses combinations that have no meaning.

use fobs::options::{
    AddressFamily, Carrier, CongestionControl, DEFAULT_TCP_PORT, Location, Priority, ServeOptions,
    SshOptions, TransferOptions,
};
use fobs::{Error, ErrorKind, Result};

use crate::args::{CpArgs, ServeArgs};
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
    let (destination, sources) = match args.paths.as_slice() {
        [sources @ .., destination] if !sources.is_empty() => (destination, sources),
        _ => return Err(usage("a copy needs a source and a destination, as in fobs cp big.tar host:")),
    };
    let sources = sources.iter().map(|source| location::parse(source)).collect::<Result<Vec<_>>>()?;
    let destination = location::parse(destination)?;
    location::check_route(&sources, &destination)?;
    if args.json && destination == Location::Stdio {
        return Err(usage(
            "--json and the destination '-' both write to standard output: leave one of them out",
        ));
    }
    if let Some(carrier) = sources.iter().chain([&destination]).find_map(carrier) {
        check_carrier(args, carrier)?;
    }
    Ok(Copy { sources, destination, options: transfer_options(args)? })
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
    Ok(ServeOptions {
        listen,
        root: args.root.clone(),
        read_only: args.read_only,
        authorized_keys: args.authorized_keys.clone(),
        identity: args.identity.clone(),
        udp_ports: (ports.first, ports.last),
        sessions_max,
    })
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

/// Refuses options that the carrier would silently ignore.
fn check_carrier(args: &CpArgs, carrier: Carrier) -> Result<()> {
    let (reason, flags): (&str, &[(&str, bool)]) = match carrier {
        Carrier::Ssh => (
            "is for daemons (fobs://); over SSH, ssh checks the host's key: use -o UserKnownHostsFile=FILE",
            &[("--known-hosts", args.known_hosts.is_some())],
        ),
        Carrier::Daemon => (
            "is for copies over SSH, and fobs:// does not run ssh: leave it out",
            &[
                ("-F", args.ssh_config.is_some()),
                ("-J", args.jump.is_some()),
                ("-o", !args.ssh_options.is_empty()),
                ("--ssh", args.ssh_program.is_some()),
                ("--fobs-path", args.fobs_path.is_some()),
            ],
        ),
    };
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(usage(format!("{flag} {reason}"))),
        None => Ok(()),
    }
}

fn transfer_options(args: &CpArgs) -> Result<TransferOptions> {
    let cap = args.rate.or(args.limit_kbit.map(|kbit| kbit.saturating_mul(1000)));
    let (congestion_control, rate_limit) = match (args.cc, args.rate) {
        (CongestionControl::Fixed { .. }, Some(bits_per_second)) => {
            (CongestionControl::Fixed { bits_per_second }, None)
        }
        (CongestionControl::Fixed { .. }, None) => {
            return Err(usage("--cc fixed needs its rate, as in --cc fixed --rate 1Gbit"));
        }
        (other, _) => (other, cap),
    };
    if args.priority != Priority::Fair && congestion_control != CongestionControl::Auto {
        return Err(usage(format!(
            "--priority {} works only with --cc auto, not with --cc {congestion_control}: leave one of them out",
            args.priority
        )));
    }
    if args.deadline.is_some() && congestion_control != CongestionControl::Auto {
        return Err(usage(format!(
            "--deadline works only with --cc auto, not with --cc {congestion_control}: leave one of them out"
        )));
    }
    let defaults = TransferOptions::default();
    Ok(TransferOptions {
        recursive: args.recursive,
        preserve: args.preserve,
        compress: args.compress,
        fsync: args.fsync,
        congestion_control,
        priority: args.priority,
        deadline: args.deadline,
        loss_cause: args.loss_cause,
        rate_limit,
        ack_every: args.ack_every,
        burst: args.burst,
        packet_size: args.packet_size,
        udp_ports: args.udp_ports.map(|ports| (ports.first, ports.last)),
        address_family: match (args.ipv4, args.ipv6) {
            (true, _) => AddressFamily::V4,
            (_, true) => AddressFamily::V6,
            _ => AddressFamily::Any,
        },
        identity: args.identity.clone(),
        port: args.port,
        fobs_path: args.fobs_path.clone().unwrap_or(defaults.fobs_path),
        ssh: ssh_options(args),
        known_hosts: args.known_hosts.clone(),
    })
}

fn ssh_options(args: &CpArgs) -> SshOptions {
    let mut options = args.ssh_options.clone();
    if args.quiet {
        // As scp -q does. Last, because ssh uses the first value; ERROR and not QUIET, which would hide why a
        // connection failed.
        options.push("LogLevel=ERROR".to_owned());
    }
    SshOptions {
        config_file: args.ssh_config.clone(),
        jump: args.jump.clone(),
        options,
        verbose: args.verbose,
        program: args.ssh_program.clone(),
    }
}

#[cfg(test)]
mod tests;
