//! The TCP port that a session over ssh has of its own: nothing else listens on that host for its streams.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Gate, Greeting};
use fobs_sys::confine;

/// Connections whose first bytes have not come, at most: the client dials 16 at once. A new one takes the
/// place of the oldest, so that nobody keeps the client out by silence.
const PENDING_MAX: usize = 32;
/// Connections waiting to be accepted.
const BACKLOG: i32 = 64;
/// How often the thread looks whether the session is over.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A port that takes the streams of one session until it is dropped.
pub struct Listening {
    ended: Arc<AtomicBool>,
    /// Where it listens.
    pub port: u16,
}

impl Listening {
    /// Listens on the port that the session's UDP socket has, if that is free, or on another one of `ports`.
    pub fn start(
        ip: IpAddr,
        preferred: u16,
        ports: RangeInclusive<u16>,
        gate: Gate,
    ) -> io::Result<Listening> {
        let bind = |port| listen(SocketAddr::new(ip, port));
        let mut tried = std::iter::once(preferred).chain(ports).map(bind);
        let listener = tried.find_map(Result::ok).ok_or(io::ErrorKind::AddrInUse)?;
        let port = listener.local_addr()?.port();
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        confine::spawn("fobs-door", move || Accepting { listener, gate, pending: Vec::new() }.run(&flag))?;
        Ok(Listening { ended, port })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// The thread's state.
struct Accepting {
    listener: TcpListener,
    gate: Gate,
    /// In the order of arrival.
    pending: Vec<(TcpStream, Greeting)>,
}

impl Accepting {
    fn run(mut self, ended: &AtomicBool) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
        while !ended.load(Ordering::Acquire) {
            let mut waiting = vec![PollFd::new(&self.listener, PollFlags::IN)];
            waiting.extend(self.pending.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::IN)));
            match poll(&mut waiting, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            self.accept();
            self.hear(Instant::now());
        }
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    if socket.set_nonblocking(true).is_err() {
                        continue;
                    }
                    let now = Instant::now();
                    self.pending.push((socket, Greeting::new(now)));
                    if self.pending.len() > PENDING_MAX {
                        // Not one that has spoken, and was not heard yet.
                        self.hear(now);
                    }
                    if self.pending.len() > PENDING_MAX {
                        self.pending.remove(0);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors, or the client is gone already: the client tries again.
                Err(_) => {
                    std::thread::sleep(LOOK_EVERY / 4);
                    return;
                }
            }
        }
    }

    /// Reads what has come of first bytes, and hands complete ones to the gate.
    fn hear(&mut self, now: Instant) {
        let gate = &self.gate;
        let heard = |(socket, mut greeting): (TcpStream, Greeting)| match greeting.read(&socket) {
            Ok(Some(hello)) => {
                // A peer that is refused sees the connection end: that is all a stranger learns.
                let _ = gate.admit(&hello, socket);
                None
            }
            Ok(None) if now < greeting.deadline => Some((socket, greeting)),
            Ok(None) | Err(_) => None,
        };
        self.pending = std::mem::take(&mut self.pending).into_iter().filter_map(heard).collect();
    }
}

#[cfg(test)]
mod tests;
