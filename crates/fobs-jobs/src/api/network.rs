//! The API over TLS 1.3: what each client may hold, and for how long.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::access::Origin;
use super::certificate::CertificateFiles;
use super::serve::{ACCEPT_PAUSE, serve_stream};
use super::{Problem, router};
use crate::dial::Fingerprint;
use crate::keeper::Keeper;

/// Most connections at once, beside those of the Unix socket. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 128;
/// How long a handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a request may take until its answer begins: a body that trickles in, and the longest wait (60 s).
const REQUEST_PATIENCE: Duration = Duration::from_secs(90);
/// How long a connection lasts: a stream of events begins again, with a token that is looked at again, and
/// one that is not read makes room.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(3600);
/// How long the kernel keeps what a client does not take, ms.
const UNTAKEN_MS_MAX: u32 = 60_000;

/// Where the API is served over TLS, and as whom.
#[derive(Debug, Clone)]
pub struct Network {
    /// Its address; port 0 is any.
    pub address: SocketAddr,
    /// An operator's certificate; else our own.
    pub certificate: Option<CertificateFiles>,
    /// Where our own is kept: the state's directory.
    pub directory: PathBuf,
}

/// What a client must know.
#[derive(Debug, Clone, Copy)]
pub struct Reached {
    /// The address that was taken.
    pub address: SocketAddr,
    /// The certificate's.
    pub fingerprint: Fingerprint,
}

/// Serves the API over TLS in a thread of its own, until the process ends.
///
/// # Errors
/// A sentence where the certificate, the address or the thread cannot be had.
pub fn listen(keeper: Keeper, network: &Network) -> Result<Reached, String> {
    let files = match &network.certificate {
        Some(files) => files.clone(),
        None => CertificateFiles::own(&network.directory)?,
    };
    let (config, fingerprint) = files.load()?;
    let at = |error: std::io::Error| format!("cannot listen at {}: {error}", network.address);
    let listener = StdListener::bind(network.address).map_err(at)?;
    listener.set_nonblocking(true).map_err(at)?;
    let address = listener.local_addr().map_err(at)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(at)?;
    let router = router(keeper).layer(from_fn(in_time)).layer(Extension(Origin::Network));
    let run = move || runtime.block_on(accept(listener, TlsAcceptor::from(config), router));
    thread::Builder::new().name("api-tls".to_owned()).spawn(run).map_err(at)?;
    Ok(Reached { address, fingerprint })
}

async fn accept(listener: StdListener, tls: TlsAcceptor, router: Router) {
    // A socket that was just made is one that a runtime takes.
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Ends with the process.
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            serve(stream, &tls, router).await;
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, tls: &TlsAcceptor, router: Router) {
    // Without it the connection's age is the bound.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNTAKEN_MS_MAX);
    if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_PATIENCE, tls.accept(stream)).await {
        // One that is older is closed: its client asks again.
        let _ = tokio::time::timeout(CONNECTION_AGE_MAX, serve_stream(stream, router)).await;
    }
}

/// Answers what takes too long to ask.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let why = "the request took longer than 90 s: send it faster, or wait with wait_s=60";
            Problem::new(StatusCode::REQUEST_TIMEOUT, why).into_response()
        }
    }
}

#[cfg(test)]
mod tests;
