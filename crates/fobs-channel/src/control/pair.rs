//! Two ends of a channel in one process: for a session of a host with itself, and for tests.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::{ControlChannel, Peer};
use fobs_model::options::Carrier;

/// Both ends, over a pair of sockets; what each calls the other one.
///
/// # Errors
/// If the kernel has no sockets left.
pub fn connected(left: &str, right: &str) -> io::Result<(ControlChannel, ControlChannel)> {
    let end = |stream: UnixStream, name: &str| -> io::Result<ControlChannel> {
        let peer = Peer { description: name.to_owned(), address: None, zone: 0, key: None };
        Ok(ControlChannel::over(stream.try_clone()?, ShutOnDrop(stream), Carrier::Ssh, peer))
    };
    let (one, other) = UnixStream::pair()?;
    Ok((end(one, right)?, end(other, left)?))
}

/// Both ends, for a test.
///
/// # Panics
/// If the kernel has no sockets left.
#[cfg(any(test, feature = "testing"))]
pub fn pair() -> (ControlChannel, ControlChannel) {
    connected("left via test", "right via test").unwrap()
}

/// Shuts the socket down on drop, because the reading half keeps it open.
pub struct ShutOnDrop(
    /// The socket.
    pub UnixStream,
);

impl AsFd for ShutOnDrop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Write for ShutOnDrop {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for ShutOnDrop {
    fn drop(&mut self) {
        // The other end may have ended it first.
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}
