//! A TCP port of this host for a browser, which cannot open a Unix socket: it passes on to the keeper's
//! socket what has the secret, and nothing else.

mod guard;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http_body_util::Limited;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Semaphore;

use crate::api::Problem;
use crate::secret;

/// Most connections at once: a browser has six for each page, one of which waits for events.
const CONNECTIONS_MAX: usize = 64;
/// Largest body of a request that is passed on, bytes; the keeper's own bound is the same.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to send the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted: the reason may last.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);
/// How often it is looked whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Browsers that have exchanged a printed secret; of more, the oldest is closed.
const SESSIONS_MAX: usize = 16;
/// Where a printed secret is exchanged.
const SESSION: &str = "/page/session";

/// What the front does beside passing on.
pub trait Host: Send + Sync + 'static {
    /// Starts the keeper where none answers; a sentence where that fails.
    ///
    /// # Errors
    /// Why none can be started.
    fn start(&self) -> Result<(), String>;

    /// A new address, for the next browser: the one before was used.
    fn show(&self, address: &str);
}

/// A front that listens.
pub struct Front<H> {
    listener: StdListener,
    inner: Arc<Inner<H>>,
}

struct Inner<H> {
    host: H,
    socket: PathBuf,
    address: String,
    secrets: Mutex<Secrets>,
}

#[derive(Debug, Default)]
struct Secrets {
    /// The one that was printed; good once.
    printed: String,
    /// Those of pages.
    sessions: VecDeque<String>,
}

/// What a page has for the secret of its address.
#[derive(Debug, Serialize)]
struct Session {
    secret: String,
}

impl<H: Host> Front<H> {
    /// Listens at this port of the loopback, any if 0, for the keeper at this socket; shows the address.
    ///
    /// # Errors
    /// Where the port is taken, or there are no random numbers.
    pub fn open(port: u16, socket: &Path, host: H) -> io::Result<Front<H>> {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = format!("http://{}/", listener.local_addr()?);
        let secrets = Mutex::default();
        let inner = Arc::new(Inner { host, socket: socket.to_owned(), address, secrets });
        inner.print()?;
        Ok(Front { listener, inner })
    }

    /// Serves until `is_over` says so.
    ///
    /// # Errors
    /// Where the system gives no more descriptors.
    pub fn run(self, is_over: impl Fn() -> bool) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let listener = TcpListener::from_std(self.listener)?;
            let router = Router::new().fallback(pass::<H>).with_state(self.inner);
            tokio::select! {
                () = accept(listener, router) => {}
                () = until(is_over) => {}
            }
            Ok(())
        })
    }
}

async fn until(is_over: impl Fn() -> bool) {
    while !is_over() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn accept(listener: TcpListener, router: Router) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Ends with `run`.
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
            // A client that goes away hurts nobody but itself.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

impl<H: Host> Inner<H> {
    /// Makes and shows the next address.
    fn print(&self) -> io::Result<()> {
        let secret = secret::new()?;
        self.host.show(&format!("{}#{secret}", self.address));
        self.secrets().printed = secret;
        Ok(())
    }

    fn secrets(&self) -> std::sync::MutexGuard<'_, Secrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_session(&self, given: &str) -> bool {
        self.secrets().sessions.iter().any(|secret| secret::is_same(secret, given))
    }

    /// Takes the printed secret for one of a page.
    fn exchange(&self, given: &str) -> Option<String> {
        let fresh = secret::new().ok()?;
        let mut secrets = self.secrets();
        if secrets.printed.is_empty() || !secret::is_same(&secrets.printed, given) {
            return None;
        }
        secrets.printed.clear();
        if secrets.sessions.len() >= SESSIONS_MAX {
            secrets.sessions.pop_front();
        }
        secrets.sessions.push_back(fresh.clone());
        Some(fresh)
    }
}

/// Judges a request, and passes it on.
async fn pass<H: Host>(State(inner): State<Arc<Inner<H>>>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let exchanges = method == Method::POST && path == SESSION;
    let mut session = None;
    let judged = guard::judge(&method, &path, request.headers(), |given| {
        if exchanges {
            session = inner.exchange(given);
            return session.is_some();
        }
        inner.is_session(given)
    });
    if let Err(refusal) = judged {
        let status =
            if refusal == guard::Refusal::Secret { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
        return Problem::new(status, refusal.sentence()).into_response();
    }
    if let Some(secret) = session {
        // Without the next address, this page works all the same.
        let _ = inner.print();
        return ([(header::CACHE_CONTROL, "no-store")], Json(Session { secret })).into_response();
    }
    match forward(&inner, request).await {
        Ok(response) => response,
        Err(why) => {
            Problem::new(StatusCode::BAD_GATEWAY, &format!("the keeper of jobs: {why}")).into_response()
        }
    }
}

async fn forward<H: Host>(inner: &Arc<Inner<H>>, request: Request) -> Result<Response, String> {
    let stream = match UnixStream::connect(&inner.socket).await {
        Ok(stream) => stream,
        Err(_) => {
            let own = inner.clone();
            let started = tokio::task::spawn_blocking(move || own.host.start()).await;
            started.map_err(|error| error.to_string())??;
            UnixStream::connect(&inner.socket).await.map_err(|error| error.to_string())?
        }
    };
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let mut passed = hyper::Request::builder().method(head.method).uri(target).header(header::HOST, "jobs");
    // No other header means anything to the keeper; the secret is for this end alone.
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::ACCEPT] {
        if let Some(value) = head.headers.get(&name) {
            passed = passed.header(name, value);
        }
    }
    let body = Body::new(Limited::new(body, BODY_BYTES_MAX));
    let passed = passed.body(body).map_err(|error| error.to_string())?;
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|error| error.to_string())?;
    // Ends with the answer, or with the browser that no longer reads it.
    tokio::spawn(connection);
    let response = sender.send_request(passed).await.map_err(|error| error.to_string())?;
    Ok(response.map(Body::new))
}
