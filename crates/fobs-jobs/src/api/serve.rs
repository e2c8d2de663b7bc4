//! The Unix socket of the API: who may use it, and how many at once.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::geteuid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::Problem;
use super::access::Origin;
use super::router;
use crate::job::Owner;
use crate::keeper::{Keeper, Serves};

/// Most connections at once: each waiting client has one. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 128;
/// Of them those of one user, where the keeper is the host's: none takes the places of all.
const CONNECTIONS_OF_USER_MAX: usize = 16;
/// What a user with as many is told.
const TOO_MANY: &str = "you have 16 connections to the keeper of this host, which is the most; end some";
/// How long a client may take to send the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Largest head of a request, bytes: a token and a few names.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Pause after a connection could not be accepted: the reason may last.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// The socket, until it is dropped.
#[derive(Debug)]
pub struct Listening(PathBuf);

impl Drop for Listening {
    fn drop(&mut self) {
        // It may be gone with its directory, at a logout.
        let _ = fs::remove_file(&self.0);
    }
}

/// Serves the API on a socket at this path, in a thread of its own. The keeper's lock is held by now: a
/// socket that is there is that of one which was killed.
///
/// # Errors
/// Where the socket or the thread cannot be made.
pub fn serve(keeper: Keeper, path: &Path) -> io::Result<Listening> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = StdListener::bind(path)?;
    let listening = Listening(path.to_owned());
    let mode = match keeper.serves() {
        Serves::User => 0o600,
        // Each user of the host: what is asked is about the own jobs of that user.
        Serves::Host => 0o666,
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || runtime.block_on(accept(listener, keeper));
    thread::Builder::new().name("api".to_owned()).spawn(run)?;
    Ok(listening)
}

async fn accept(listener: StdListener, keeper: Keeper) {
    // A socket that was just made is one that a runtime takes.
    let Ok(listener) = UnixListener::from_std(listener) else { return };
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let own = router(keeper.clone()).layer(Extension(Origin::Socket));
    let users = ConnectionCounts::default();
    // Ends with the process.
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (router, seat) = match keeper.serves() {
            Serves::User if may_ask(&stream) => (own.clone(), None),
            Serves::User => (refusal("these jobs are another user's"), None),
            Serves::Host => match owner_of(&stream).map(|owner| (owner, users.take(owner.uid))) {
                Some((owner, Some(seat))) => {
                    (router(keeper.asked_by(owner)).layer(Extension(Origin::Socket)), Some(seat))
                }
                Some((_, None)) => (refusal(TOO_MANY), None),
                None => (refusal("the system does not say who asks"), None),
            },
        };
        tokio::spawn(async move {
            serve_stream(stream, router).await;
            drop((permit, seat));
        });
    }
}

/// Answers what comes over a connection, until its client ends it or says nothing.
pub(super) async fn serve_stream(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD_BYTES_MAX);
    let service = TowerToHyperService::new(router);
    // A client that goes away hurts nobody but itself.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Whether the peer is the keeper's user or root.
fn may_ask(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw())
}

fn owner_of(stream: &UnixStream) -> Option<Owner> {
    let peer = stream.peer_cred().ok()?;
    Some(Owner { uid: peer.uid(), gid: peer.gid() })
}

fn refusal(why: &'static str) -> Router {
    Router::new().fallback(move || async move { Problem::new(StatusCode::FORBIDDEN, why) })
}

/// Connections of each user of the host.
#[derive(Debug, Clone, Default)]
struct ConnectionCounts(Arc<Mutex<BTreeMap<u32, usize>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
struct UserConnection(ConnectionCounts, u32);

impl ConnectionCounts {
    fn take(&self, uid: u32) -> Option<UserConnection> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(uid).or_default();
        (*count < CONNECTIONS_OF_USER_MAX).then(|| {
            *count += 1;
            UserConnection(self.clone(), uid)
        })
    }
}

impl Drop for UserConnection {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}
