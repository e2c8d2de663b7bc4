//! A few lines of HTTP/1.1: `GET /metrics`, one answer a connection.

use crate::listen::{Purpose, listen};
use crate::places::{Places, Yields};
use crate::seats::Seats;
use fobs_model::error::{Error, ErrorKind, Result};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections answered at once; a further one takes the place of one that says nothing.
const CONNECTIONS_MAX: usize = 8;
/// Longest request, bytes; the request line and a scraper's headers have a few hundred.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long a connection may take as a whole, however the client spreads its bytes.
const CONNECTION_TIME: Duration = Duration::from_secs(5);
/// How often the listener looks whether the server has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// OpenMetrics 1.0.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Makes the text of one answer.
pub(crate) type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Answers scrapers in threads of its own until it is dropped.
pub(crate) struct Exporter {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// # Errors
    /// `Socket` if the address cannot be bound.
    pub(crate) fn start(address: SocketAddr, render: Render) -> Result<Exporter> {
        let failed = |error: io::Error| {
            Error::new(ErrorKind::Socket, format!("cannot serve metrics at {address}: {error}"))
        };
        let listener = listen(address, Purpose::Metrics)?;
        let address = listener.local_addr().map_err(failed)?;
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        let thread = std::thread::Builder::new()
            .name("fobs-metrics".to_owned())
            .spawn(move || accept_all(&listener, &render, &seen))
            .map_err(failed)?;
        Ok(Exporter { address, ended, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // It only accepts: it ends within its look-around.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn accept_all(listener: &TcpListener, render: &Render, ended: &AtomicBool) {
    let places = Places::new(CONNECTIONS_MAX, Yields::Anybody);
    // As many again were closed, and are about to end.
    let threads = Seats::new(2 * CONNECTIONS_MAX);
    while !ended.load(Ordering::SeqCst) {
        let Ok((socket, from)) = listener.accept() else {
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        // Out of descriptors it is closed.
        let Ok(Some(place)) = places.admit(&socket, from.ip()) else { continue };
        let Some(seat) = threads.take() else { continue };
        let render = render.clone();
        // Without a thread the connection is closed, and the scraper tries again.
        let _ = std::thread::Builder::new().name("fobs-scrape".to_owned()).spawn(move || {
            let (_place, _seat) = (place, seat);
            // A scraper that is gone or too slow gets nothing.
            let _ = answer(&socket, &render, Instant::now() + CONNECTION_TIME);
        });
    }
}

fn answer(mut socket: &TcpStream, render: &Render, end: Instant) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    let request = read_request(socket, end)?;
    let (status, body) = match request.as_deref().map(request_line) {
        None => ("431 Request Header Fields Too Large", "the request is too long\n".to_owned()),
        Some(Some(("GET", path))) if is_metrics(path) => ("200 OK", render()),
        Some(Some(("GET", _))) => ("404 Not Found", "there is only /metrics\n".to_owned()),
        Some(Some(_)) => ("405 Method Not Allowed", "there is only GET\n".to_owned()),
        Some(None) => ("400 Bad Request", "this is not HTTP/1.1\n".to_owned()),
    };
    let content_type = if status == "200 OK" { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        socket.set_write_timeout(Some(left(end)?))?;
        match socket.write(rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => rest = &rest[count..],
        }
    }
    socket.shutdown(Shutdown::Write)
}

/// The request up to its empty line; `None` if it is too long.
fn read_request(mut socket: &TcpStream, end: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES_MAX {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left(end)?))?;
        match socket.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => request.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(Some(request))
}

/// Method and target; `None` if it is no HTTP/1.
fn request_line(request: &[u8]) -> Option<(&str, &str)> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    (version.starts_with("HTTP/1.") && words.next().is_none()).then_some((method, target))
}

fn is_metrics(target: &str) -> bool {
    matches!(target.split('?').next(), Some("/metrics" | "/"))
}

/// Time left, or the error of a time that is up.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests;
