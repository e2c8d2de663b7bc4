//! Two ends of a channel in one process, for tests.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::{ControlChannel, Peer};
use fobs_model::options::Carrier;

/// Both ends, over a pair of sockets.
///
/// # Panics
/// If the kernel has no sockets left.
pub fn pair() -> (ControlChannel, ControlChannel) {
    let (left, right) = UnixStream::pair().unwrap();
    let end = |stream: UnixStream, name: &str| {
        let peer = Peer { description: format!("{name} via test"), address: None, zone: 0, key: None };
        ControlChannel::over(stream.try_clone().unwrap(), ShutOnDrop(stream), Carrier::Ssh, peer)
    };
    (end(left, "right"), end(right, "left"))
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
