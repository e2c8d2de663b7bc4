//! TCP connections that are begun and not waited for.

use std::io;
use std::net::{SocketAddr, TcpStream};

use rustix::io::Errno;
use rustix::net::{self, SocketFlags, SocketType};

/// Begins to connect: the socket polls as writable when that is done or has failed. It does not block.
pub(crate) fn begin(address: &SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { net::AddressFamily::INET } else { net::AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = TcpStream::from(net::socket_with(family, SocketType::STREAM, flags, None)?);
    match net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}
