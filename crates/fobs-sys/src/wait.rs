//! Sleeping until a socket is ready, another thread wakes this one, or a timeout.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::udp::UdpSocket;

/// Wakes a thread that sleeps in [`wait`], or will sleep next. Clones share one waker; several wakes before
/// the next [`wait`] count as one.
#[derive(Debug, Clone)]
pub struct Waker {
    /// A non-blocking eventfd: above zero from [`wake`](Waker::wake) until [`wait`] has seen it.
    event: Arc<OwnedFd>,
}

impl Waker {
    /// Makes a waker.
    ///
    /// # Errors
    ///
    /// If the process may open no more files.
    pub fn new() -> io::Result<Waker> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
            let reason = io::Error::from(errno);
            let message =
                format!("could not make an event descriptor: {reason}; raise the limit (ulimit -n)");
            io::Error::new(reason.kind(), message)
        })?;
        Ok(Waker { event: Arc::new(event) })
    }

    /// Makes the current or next [`wait`] on this waker return at once. One system call, from any thread.
    pub fn wake(&self) {
        let result = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        // EAGAIN: the counter is at its maximum, after 2^64 - 2 wakes.
        debug_assert!(
            matches!(result, Ok(8) | Err(Errno::AGAIN)),
            "an eventfd refused a wake-up: {result:?}"
        );
    }

    /// Resets all wakes so far.
    fn drain(&self) {
        // Reading sets the counter to 0; EAGAIN: it was 0.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }
}

/// Socket events to wait for, in addition to waker and timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// None: another thread uses the socket.
    Waker,
    /// Datagrams to receive.
    Readable,
    /// Datagrams to receive, or room to send.
    ReadableOrWritable,
}

/// Why [`wait`] returned. All false: timeout or signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// The socket may have datagrams to receive.
    pub readable: bool,
    /// The socket has room to send.
    pub writable: bool,
    /// [`Waker::wake`] was called; the waker is reset.
    pub woken: bool,
}

/// Sleeps until the socket is ready, the waker is woken, `timeout` (nanosecond resolution; `None`: none; 0:
/// poll only) is over, or a signal arrives. May return early; returns late only by the thread's timer slack
/// and the scheduler.
pub fn wait(
    socket: &UdpSocket,
    waker: &Waker,
    timeout: Option<Duration>,
    interest: Interest,
) -> io::Result<Ready> {
    let socket_flags = match interest {
        Interest::Waker => PollFlags::empty(),
        Interest::Readable => PollFlags::IN,
        Interest::ReadableOrWritable => PollFlags::IN | PollFlags::OUT,
    };
    // Timeouts beyond the kernel's range are infinite.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut descriptors = [PollFd::new(socket, socket_flags), PollFd::new(&*waker.event, PollFlags::IN)];
    match poll(&mut descriptors, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(errno) => return Err(errno.into()),
    }
    let [socket_ready, waker_ready] = descriptors.map(|descriptor| descriptor.revents());
    if waker_ready.contains(PollFlags::IN) {
        waker.drain();
    }
    let failed = socket_ready.contains(PollFlags::ERR);
    if failed {
        // ICMP errors keep the socket "ready" until they are drained: without this the caller would spin.
        socket.drain_error_queue();
    }
    Ok(Ready {
        // Receiving also clears an error.
        readable: failed || socket_ready.contains(PollFlags::IN),
        writable: socket_ready.contains(PollFlags::OUT),
        woken: waker_ready.contains(PollFlags::IN),
    })
}

/// A descriptor among several: what to wait for, and afterwards what came.
#[derive(Debug)]
pub struct Watched<'a> {
    /// The descriptor.
    pub descriptor: BorrowedFd<'a>,
    /// Wait for something to read.
    pub read: bool,
    /// Wait for room to write.
    pub write: bool,
    /// Reading would not block: there is something, or it has ended or failed.
    pub readable: bool,
    /// Writing would not block: there is room, or it has failed.
    pub writable: bool,
}

impl<'a> Watched<'a> {
    /// A descriptor to wait for; with neither, only its failure ends the wait.
    pub fn new(descriptor: BorrowedFd<'a>, read: bool, write: bool) -> Watched<'a> {
        Watched { descriptor, read, write, readable: false, writable: false }
    }
}

/// As [`wait`], for any number of descriptors. Whether the waker was woken; it is then reset.
pub fn wait_for_any(
    watched: &mut [Watched<'_>],
    waker: &Waker,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut descriptors = Vec::with_capacity(watched.len() + 1);
    descriptors.push(PollFd::new(&*waker.event, PollFlags::IN));
    for one in watched.iter() {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, one.read);
        flags.set(PollFlags::OUT, one.write);
        descriptors.push(PollFd::from_borrowed_fd(one.descriptor, flags));
    }
    match poll(&mut descriptors, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    }
    let over = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    for (one, descriptor) in watched.iter_mut().zip(&descriptors[1..]) {
        let ready = descriptor.revents();
        one.readable = ready.intersects(PollFlags::IN | over);
        one.writable = ready.intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::NVAL);
    }
    let woken = descriptors[0].revents().contains(PollFlags::IN);
    if woken {
        waker.drain();
    }
    Ok(woken)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::clock::monotonic_ns;
    use crate::udp::{Burst, Ecn, UdpOptions};

    fn socket() -> UdpSocket {
        let options = UdpOptions { recv_buffer: 1 << 18, send_buffer: 1 << 18, gro: false };
        UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &options).unwrap()
    }

    #[test]
    fn a_timeout_never_returns_early() {
        let (socket, waker) = (socket(), Waker::new().unwrap());
        for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(1500)] {
            let start_ns = monotonic_ns();
            let ready = wait(&socket, &waker, Some(timeout), Interest::Readable).unwrap();
            assert_eq!(ready, Ready::default(), "{timeout:?}");
            // A lower bound is no race: the kernel never ends a sleep early (no signals in this test).
            assert!(u128::from(monotonic_ns() - start_ns) >= timeout.as_nanos(), "{timeout:?}");
        }
    }

    #[test]
    fn waker_wakes_across_threads() {
        let (socket, waker) = (socket(), Waker::new().unwrap());
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        // No timeout: if the waker did not work, the test would not end.
        let ready = loop {
            let ready = wait(&socket, &waker, None, Interest::Readable).unwrap();
            if ready != Ready::default() {
                break ready;
            }
        };
        assert_eq!(ready, Ready { readable: false, writable: false, woken: true });
        thread.join().unwrap();
    }

    #[test]
    fn wakes_before_the_wait_count_once() {
        let (socket, waker) = (socket(), Waker::new().unwrap());
        waker.wake();
        waker.wake();
        assert!(wait(&socket, &waker, None, Interest::Readable).unwrap().woken);
        assert!(!wait(&socket, &waker, Some(Duration::ZERO), Interest::Readable).unwrap().woken);
    }

    #[test]
    fn a_timeout_beyond_the_range_is_infinite() {
        let (socket, waker) = (socket(), Waker::new().unwrap());
        waker.wake();
        assert!(wait(&socket, &waker, Some(Duration::MAX), Interest::Readable).unwrap().woken);
    }

    #[test]
    fn of_several_descriptors_those_that_are_ready_are_named() {
        use std::os::fd::AsFd as _;
        let waker = Waker::new().unwrap();
        let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (idle, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let watch = |timeout| {
            let mut watched =
                [Watched::new(far.as_fd(), true, false), Watched::new(idle.as_fd(), true, true)];
            let woken = wait_for_any(&mut watched, &waker, timeout).unwrap();
            (woken, watched.map(|one| (one.readable, one.writable)))
        };
        assert_eq!(watch(None), (false, [(false, false), (false, true)]));
        near.write_all(b"x").unwrap();
        waker.wake();
        assert_eq!(watch(None), (true, [(true, false), (false, true)]));
        assert_eq!(
            watch(Some(Duration::ZERO)),
            (false, [(true, false), (false, true)]),
            "the waker is reset"
        );
        drop(near);
        let mut watched = [Watched::new(far.as_fd(), false, false)];
        assert!(!wait_for_any(&mut watched, &waker, None).unwrap());
        assert!(watched[0].readable, "an end is seen though nothing is waited for");
    }

    #[test]
    fn readable_and_writable_are_distinguished() {
        let (receiver, sender, waker) = (socket(), socket(), Waker::new().unwrap());
        let ready = wait(&receiver, &waker, Some(Duration::ZERO), Interest::ReadableOrWritable).unwrap();
        assert_eq!(ready, Ready { readable: false, writable: true, woken: false });
        let to = receiver.local_addr();
        assert_eq!(sender.send(&Burst { to, data: b"x", segment_len: 1, ecn: Ecn::NotEct }).unwrap(), 1);
        let ready = wait(&receiver, &waker, None, Interest::Readable).unwrap();
        assert_eq!(ready, Ready { readable: true, writable: false, woken: false });
    }
}
