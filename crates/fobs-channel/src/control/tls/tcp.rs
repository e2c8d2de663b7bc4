//! The TCP connection below TLS.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Dialed, is_timeout};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result, SyncEnd};
use fobs_model::options::AddressFamily;
use fobs_sys::confine::{Errand, outside};

/// How long connecting may take, over all addresses of a server: a person waits for it.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// How often a connection attempt checks for cancellation; below one second.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// Shortest attempt for one address: three round trips of a satellite path.
const ADDRESS_WAIT_MIN: Duration = Duration::from_secs(2);
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// Idle time before TCP keep-alive probes; NATs drop idle TCP connections after minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between keep-alive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Unanswered keep-alive probes after which the connection is dead.
const KEEPALIVE_COUNT: u32 = 6;

/// Tries the host's addresses in the resolver's order.
pub(super) fn connect_tcp(dialed: &Dialed<'_>, cancel: &CancelToken) -> Result<TcpStream> {
    let Dialed { host, port, family, limit } = *dialed;
    let (wait, silent) = match limit {
        Some(limit) if limit < CONNECT_WAIT => (limit, ErrorKind::Timeout),
        _ => (CONNECT_WAIT, ErrorKind::Connect),
    };
    let deadline = Instant::now() + wait;
    let cannot = |why: String| {
        Error::new(ErrorKind::Connect, format!("cannot connect to {host} port {port}: {why}"))
            .ends_sync(SyncEnd::Socket)
    };
    let name = host.to_owned();
    let resolved =
        outside(Errand::Fetch, move || (name.as_str(), port).to_socket_addrs()).map_err(|error| {
            cannot(format!("the name has no address ({error}); check its spelling and the name service"))
        })?;
    let addresses: Vec<SocketAddr> =
        resolved.filter(|address| fits(family, address)).take(ADDRESSES_MAX).collect();
    let mut last = None;
    for (index, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let share = left / (addresses.len() - index) as u32;
        cancel.check()?;
        match connect_to(address, Instant::now() + share.max(ADDRESS_WAIT_MIN).min(left), cancel) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    cancel.check()?;
    Err(cannot(match last {
        None => {
            format!("the name has no {} address; leave out the choice of the family", family_name(family))
        }
        Some(error) if is_timeout(&error) => {
            let why = format!(
                "no answer within {} s; check that the host is up and that no firewall stands before TCP port {port}",
                wait.as_secs_f64()
            );
            return Err(Error::new(silent, cannot(why).message).ends_sync(SyncEnd::ConnectTimeout));
        }
        Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            "nothing listens there; check the port and that fobs serve runs".to_owned()
        }
        Some(error) => format!("{error}; check the network and the host's address"),
    }))
}

/// Connects to one address; `TimedOut` at the deadline, and at most [`CANCEL_POLL`] after cancellation.
fn connect_to(address: &SocketAddr, deadline: Instant, cancel: &CancelToken) -> io::Result<TcpStream> {
    let socket = fobs_sys::begin_connect(address)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || cancel.is_cancelled() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let wait = left.min(CANCEL_POLL);
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let mut waiting = [PollFd::new(&socket, PollFlags::OUT)];
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return socket.take_error()?.map_or(Ok(socket), Err),
            Err(error) => return Err(error.into()),
        }
    }
}

fn fits(family: AddressFamily, address: &SocketAddr) -> bool {
    match family {
        AddressFamily::Any => true,
        AddressFamily::V4 => address.is_ipv4(),
        AddressFamily::V6 => address.is_ipv6(),
    }
}

fn family_name(family: AddressFamily) -> &'static str {
    match family {
        AddressFamily::Any => "usable",
        AddressFamily::V4 => "IPv4",
        AddressFamily::V6 => "IPv6",
    }
}

/// Settings of both sides' sockets.
pub(super) fn configure(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    // Messages are few and small, and latency matters.
    socket.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(socket, true)?;
    rustix::net::sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    rustix::net::sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    rustix::net::sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)?;
    Ok(())
}

/// The connection ends when the peer confirms nothing for this long, whether something was sent (TCP's user
/// timeout, RFC 5482) or not (keep-alive probes, tcp(7)).
pub(super) fn set_timeout(socket: &TcpStream, timeout: Duration) {
    let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    // Where the kernel refuses it, its own limits stay.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(socket, millis);
}
