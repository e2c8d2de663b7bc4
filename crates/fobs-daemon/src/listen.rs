//! The TCP sockets that a server listens on.

use fobs_model::error::{Error, ErrorKind, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{SocketAddr, TcpListener};

/// Connections waiting to be accepted: those of a burst, which would have to connect again a second later.
/// `net.core.somaxconn` bounds it, 4096 by default.
const BACKLOG: i32 = 1024;

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Clients,
    Metrics,
}

/// A listening socket. One for IPv6 accepts only IPv6, so that both families may use the same port.
pub(super) fn listen(address: SocketAddr, purpose: Purpose) -> Result<TcpListener> {
    let bound = || -> std::io::Result<TcpListener> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    bound().map_err(|error| {
        let choice = match purpose {
            Purpose::Clients => "--listen ADDR:PORT",
            Purpose::Metrics => "--metrics ADDR:PORT",
        };
        let message = format!("cannot listen on {address}: {error}; choose another with {choice}");
        Error::new(ErrorKind::Socket, message)
    })
}

/// A listening socket that the caller made.
pub(super) fn adopt(listener: TcpListener) -> Result<TcpListener> {
    listener.set_nonblocking(true).map_err(|error| {
        Error::new(ErrorKind::Socket, format!("cannot use the socket that was passed: {error}"))
    })?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_names_the_option_that_chose_it() {
        let taken =
            listen("127.0.0.1:0".parse().expect("an address"), Purpose::Clients).expect("a free port");
        let address = taken.local_addr().expect("its address");
        for (purpose, option) in [(Purpose::Clients, "--listen"), (Purpose::Metrics, "--metrics")] {
            let error = listen(address, purpose).expect_err("it is taken").message;
            assert!(error.ends_with(&format!("choose another with {option} ADDR:PORT")), "{error}");
        }
    }
}
