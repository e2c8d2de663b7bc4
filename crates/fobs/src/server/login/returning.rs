//! A pipe over ssh whose client comes back. Its new login starts another `fobs server`, which hands its own
//! streams over to the one that has the pipe, through a socket of their user, and stays until that has served
//! them: sshd ends a connection with the process that it started.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::super::opened::Opened;
use super::{Login, confined};
use crate::pipe::program::Launcher;
use crate::pipe::returns::Returns;
use fobs_channel::control::ssh;
use fobs_channel::state::{make_private, sockets};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, Result};
use fobs_model::message::{Hello, PipeOpen, PipeRequest};

/// Bytes of what is said of a connection at most: a hello and a request.
const HANDED_BYTES_MAX: u64 = 256 << 10;
/// How long the other process may take to say it.
const HANDED_WAIT: Duration = Duration::from_secs(5);
/// How often one that waits looks around.
const POLL: Duration = Duration::from_millis(100);
/// The streams of a login: what comes, what goes.
const STREAMS: usize = 2;

/// What is handed over with the streams of a login.
#[derive(Serialize, Deserialize)]
struct Handed {
    open: PipeOpen,
    hello: Hello,
    /// As sshd says it.
    connection: Option<String>,
}

/// Where clients come back to the pipes of this process, or lead to those of others.
pub(super) struct Returning {
    pub(super) returns: Returns,
    orders: Sender<Order>,
    /// The sockets of this process.
    places: Arc<Mutex<Vec<PathBuf>>>,
    /// Sessions of logins that were handed over.
    served: Arc<AtomicUsize>,
}

/// For the thread without walls.
enum Order {
    Listen(PathBuf),
    HandOver { to: PathBuf, handed: Handed, done: SyncSender<bool> },
}

impl Returning {
    /// Starts the thread that does what a session's own may not: with the walls of the calling one, which
    /// should have none. Before standard input and output are taken over.
    pub(super) fn start(launcher: Launcher, cancel: &CancelToken) -> Result<Returning> {
        let own = || {
            Ok::<_, io::Error>([
                io::stdin().as_fd().try_clone_to_owned()?,
                io::stdout().as_fd().try_clone_to_owned()?,
            ])
        };
        let own = own().map_err(Error::internal)?;
        let (orders, given) = channel();
        let (returns, places, served) = (Returns::default(), Arc::default(), Arc::<AtomicUsize>::default());
        let server = Arc::new(Server {
            launcher,
            returns: returns.clone(),
            cancel: cancel.clone(),
            served: served.clone(),
        });
        let act = move || obey(&given, &own, &server);
        Builder::new().name("fobs-returning".to_owned()).spawn(act).map_err(Error::internal)?;
        Ok(Returning { returns, orders, places, served })
    }

    /// From now on a client may come back to this pipe.
    pub(super) fn listen(&self, pipe: &str) {
        let Some(place) = place_of(pipe) else { return };
        self.places.lock().unwrap_or_else(PoisonError::into_inner).push(place.clone());
        // Without it nobody comes back.
        let _ = self.orders.send(Order::Listen(place));
    }

    /// Hands this login over to the process that has its pipe, and waits until that has served it; false
    /// where there is none.
    pub(super) fn hands_over(&self, open: &PipeOpen, hello: &Hello, cancel: &CancelToken) -> bool {
        let PipeRequest::Resume(asked) = &open.request else { return false };
        let Some(to) = place_of(&asked.pipe).filter(|_| !self.returns.has(&asked.pipe)) else { return false };
        let connection = std::env::var("SSH_CONNECTION").ok();
        let handed = Handed { open: open.clone(), hello: hello.clone(), connection };
        let (done, is_done) = sync_channel(1);
        if self.orders.send(Order::HandOver { to, handed, done }).is_err() {
            return false;
        }
        loop {
            match is_done.recv_timeout(POLL) {
                Ok(served) => return served,
                Err(RecvTimeoutError::Timeout) if !cancel.is_cancelled() => {}
                Err(_) => return false,
            }
        }
    }

    /// Waits until no client can come back any more, and until those that did are served.
    pub(super) fn wait(&self, cancel: &CancelToken) {
        while !self.returns.is_empty() || self.served.load(Ordering::SeqCst) > 0 {
            if cancel.is_cancelled() {
                self.returns.close();
            }
            self.returns.expire(Instant::now());
            thread::sleep(POLL);
        }
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        for place in self.places.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // It may not have been made.
            let _ = fs::remove_file(place);
        }
    }
}

/// The socket for a pipe of this user; none for what is no name of one.
fn place_of(pipe: &str) -> Option<PathBuf> {
    let is_plain = pipe.len() == 32 && pipe.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_plain.then(|| sockets().join(format!("pipe-{pipe}")))
}

fn obey(orders: &Receiver<Order>, own: &[OwnedFd; STREAMS], server: &Arc<Server>) {
    for order in orders {
        match order {
            Order::Listen(place) => {
                // Where it cannot be made, nobody comes back.
                let _ = listen(&place, server);
            }
            Order::HandOver { to, handed, done } => {
                let served = hand_over(&to, &handed, own).is_ok();
                // The session may have been cancelled.
                let _ = done.send(served);
            }
        }
    }
}

fn listen(place: &std::path::Path, server: &Arc<Server>) -> io::Result<()> {
    place.parent().and_then(make_private).ok_or(io::ErrorKind::PermissionDenied)?;
    let listener = UnixListener::bind(place)?;
    let server = server.clone();
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            let serve = move || server.serve(&stream);
            // Without a thread the login ends, and its client tries again.
            let _ = Builder::new().name("fobs-returned".to_owned()).spawn(serve);
        }
    };
    Builder::new().name("fobs-returning".to_owned()).spawn(accept).map(drop)
}

/// Sends this login's streams, and waits for the end of what is done with them.
fn hand_over(to: &std::path::Path, handed: &Handed, own: &[OwnedFd; STREAMS]) -> io::Result<()> {
    let mut stream = UnixStream::connect(to)?;
    expect_own_user(&stream)?;
    let text = serde_json::to_vec(handed)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let streams = own.each_ref().map(AsFd::as_fd);
    control.push(SendAncillaryMessage::ScmRights(&streams));
    let sent = sendmsg(&stream, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    io::Write::write_all(&mut stream, &text[sent..])?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}

fn expect_own_user(stream: &UnixStream) -> io::Result<()> {
    let is_own = socket_peercred(stream)?.uid == geteuid();
    if is_own { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Serves logins that are handed over.
struct Server {
    launcher: Launcher,
    returns: Returns,
    cancel: CancelToken,
    served: Arc<AtomicUsize>,
}

impl Server {
    fn serve(&self, stream: &UnixStream) {
        self.served.fetch_add(1, Ordering::SeqCst);
        // Its client hears of a failure, or comes again.
        let _ = taken(stream).map(|(handed, streams)| self.session(handed, streams));
        self.served.fetch_sub(1, Ordering::SeqCst);
    }

    fn session(&self, handed: Handed, [input, output]: [OwnedFd; STREAMS]) -> Result<()> {
        let Handed { open, hello, connection } = handed;
        let client = ssh::address_of(connection.as_deref());
        let mut login = Login::new(None, connection)?;
        login.launcher = Some(self.launcher.clone());
        login.returns = Some(self.returns.clone());
        let channel = ssh::channel_over(File::from(input), File::from(output), client);
        let domain = login.domain()?;
        confined(domain, || Opened::again(channel, hello, open).serve(&self.cancel, &mut login).map(drop))
    }
}

/// What another process of this user hands over.
fn taken(stream: &UnixStream) -> io::Result<(Handed, [OwnedFd; STREAMS])> {
    expect_own_user(stream)?;
    stream.set_read_timeout(Some(HANDED_WAIT))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut text = vec![0; 64 << 10];
    let came = recvmsg(stream, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    text.truncate(came.bytes);
    let streams: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(streams) => Some(streams),
            _ => None,
        })
        .flatten()
        .collect();
    stream.take(HANDED_BYTES_MAX).read_to_end(&mut text)?;
    let streams = streams.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((serde_json::from_slice(&text)?, streams))
}
