//! From parsed arguments to the options of the `fobs` crate; refuses combinations that have no meaning.

use fobs::options::{
    Carrier, Chatter, CongestionControl, DEFAULT_TCP_PORT, Location, Priority, Restriction, ServeOptions,
    SshOptions, TcpTuning, TransferOptions,
};
use fobs::{Error, ErrorKind, Result};

use crate::args::{CpArgs, Naming, ServeArgs, ServerArgs};
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
        args.route.check(carrier, Naming::Letters)?;
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
        ..ServeOptions::new(args.root.clone(), args.authorized_keys.clone())
    })
}

/// Resolves the arguments of `fobs server`; `None` is the session of an unrestricted key.
pub fn server(args: &ServerArgs) -> Option<Restriction> {
    args.restrict.clone().map(|directory| Restriction { directory, rights: args.rights.0.clone() })
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
    // As scp -q does. Last, because ssh uses the first value; ERROR and not QUIET, which would hide why a
    // connection failed.
    let quiet = args.quiet.then(|| "LogLevel=ERROR".to_owned());
    let chatter = if args.verbose > 0 { Chatter::Told } else { Chatter::Skipped };
    let mut options = args.route.added_to(TransferOptions {
        ssh: SshOptions { chatter, ..SshOptions::default() },
        recursive: args.recursive,
        preserve: args.preserve,
        compress: args.compress,
        fsync: args.fsync,
        no_partial: args.resume.no_partial,
        append_verify: args.resume.append_verify,
        checksum: args.resume.checksum,
        congestion_control,
        transport: args.transport,
        tcp: TcpTuning { congestion: args.tcp_cc.clone(), buffer: args.tcp_buffer },
        stream_allotment: args.stream_allotment,
        priority: args.priority,
        deadline: args.deadline,
        loss_cause: args.loss_cause,
        rate_limit,
        timeout: args.timeout.unwrap_or(defaults.timeout),
        min_rate: args.min_rate,
        ack_every: args.ack_every,
        burst: args.burst,
        memory: args.memory.unwrap_or(defaults.memory),
        packet_size: args.packet_size,
        ..defaults
    });
    options.ssh.options.extend(quiet);
    Ok(options)
}

#[cfg(test)]
mod tests;
