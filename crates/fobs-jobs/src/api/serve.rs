//! The Unix socket of the API: who may use it, and how many at once.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
use crate::keeper::Keeper;

/// Most connections at once: each waiting client has one. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 128;
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
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || runtime.block_on(accept(listener, router(keeper).layer(Extension(Origin::Socket))));
    thread::Builder::new().name("api".to_owned()).spawn(run)?;
    Ok(listening)
}

async fn accept(listener: StdListener, router: Router) {
    // A socket that was just made is one that a runtime takes.
    let Ok(listener) = UnixListener::from_std(listener) else { return };
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Ends with the process.
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let router = if may_ask(&stream) { router.clone() } else { refusal() };
        tokio::spawn(async move {
            serve_stream(stream, router).await;
            drop(permit);
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

fn refusal() -> Router {
    Router::new().fallback(|| async { Problem::new(StatusCode::FORBIDDEN, "these jobs are another user's") })
}
