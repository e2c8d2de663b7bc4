//! The control socket: one JSON object per line as request, one as answer.
//!
//! `{"get": "counters"}`, `{"get": "spec"}`, `{"set": {"forward": {..}, "backward": {..}}}`, `{"reset":
//! true}`. The answer to an invalid request is `{"error": ".."}`.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};

use super::emulator::{Remote, RemoteError};

/// Maximum length of a line, bytes: ten times a change of every key of a direction.
const LINE_MAX: u64 = 64 << 10;
/// Maximum number of clients; further ones get an error and are disconnected.
const CLIENTS_MAX: usize = 16;

/// A listening socket; its file is removed on drop.
pub struct ControlSocket {
    path: PathBuf,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Get(Thing),
    Set(Value),
    Reset(bool),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Thing {
    Counters,
    Spec,
}

impl ControlSocket {
    /// Listens at `path`; replaces a socket file without a listener.
    ///
    /// # Errors
    ///
    /// If the path is in use, or the socket cannot be created.
    pub fn listen(path: &Path, remote: &Remote) -> io::Result<ControlSocket> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_dead(path) => {
                fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        let remote = remote.clone();
        std::thread::Builder::new().name("control".to_owned()).spawn(move || accept(&listener, &remote))?;
        Ok(ControlSocket { path: path.to_owned() })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // The file may already have been removed.
        let _ = fs::remove_file(&self.path);
    }
}

fn is_dead(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Runs until the process ends: the socket is never closed.
fn accept(listener: &UnixListener, remote: &Remote) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // Most likely out of descriptors: wait until some are free again.
            std::thread::sleep(std::time::Duration::from_millis(100));
            continue;
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::Relaxed);
            let _ = writeln!(stream, "{}", refusal("too many clients: try again later"));
            continue;
        }
        let (remote, count) = (remote.clone(), Arc::clone(&clients));
        let spawned = std::thread::Builder::new().spawn(move || {
            // The client has disconnected.
            let _ = serve(&stream, &remote);
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(stream: &UnixStream, remote: &Remote) -> io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line)?;
        if bytes == 0 {
            return Ok(());
        }
        let too_long = bytes as u64 == LINE_MAX && line.last() != Some(&b'\n');
        let answer = if too_long {
            refusal(&format!("the line is longer than {LINE_MAX} bytes"))
        } else {
            answer(&line, remote)
        };
        writeln!(&mut &*stream, "{answer}")?;
        if too_long {
            return Ok(());
        }
    }
}

fn answer(line: &[u8], remote: &Remote) -> Value {
    let request = match serde_json::from_slice::<Request>(line) {
        Ok(request) => request,
        Err(error) => {
            return refusal(&format!(
                "{error}: ask {{\"get\": \"counters\"}}, {{\"get\": \"spec\"}}, {{\"set\": {{..}}}} or {{\"reset\": true}}"
            ));
        }
    };
    let done = match request {
        Request::Get(Thing::Counters) => {
            remote.counters().map(|counters| serde_json::to_value(counters).unwrap_or_default())
        }
        Request::Get(Thing::Spec) => Ok(serde_json::to_value(remote.spec()).unwrap_or_default()),
        Request::Set(change) => remote.set(&change).map(|()| json!({"set": true})),
        Request::Reset(true) => remote.reset().map(|()| json!({"reset": true})),
        Request::Reset(false) => return refusal("\"reset\" takes nothing but true"),
    };
    done.unwrap_or_else(|error: RemoteError| refusal(&error.to_string()))
}

fn refusal(why: &str) -> Value {
    json!({ "error": why })
}
