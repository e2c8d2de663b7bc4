//! The TCP sockets that a server listens on.

use fobs_model::error::{Error, ErrorKind, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{SocketAddr, TcpListener};

/// Connections waiting to be accepted: those of a burst, which would have to connect again a second later.
/// `net.core.somaxconn` bounds it, 4096 by default.
const BACKLOG: i32 = 1024;

/// A listening socket. One for IPv6 accepts only IPv6, so that both families may use the same port.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener> {
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
        Error::new(
            ErrorKind::Socket,
            format!("cannot listen on {address}: {error}; choose another with --listen ADDR:PORT"),
        )
    })
}

/// A listening socket that the caller made.
pub(super) fn adopt(listener: TcpListener) -> Result<TcpListener> {
    listener.set_nonblocking(true).map_err(|error| {
        Error::new(ErrorKind::Socket, format!("cannot use the socket that was passed: {error}"))
    })?;
    Ok(listener)
}
