//! A copy between two other hosts: the client runs on the first one, the server on the second, and this host
//! joins their control channels. Neither needs a login on the other.
//!
//! Data takes the way that client and server find between them, over UDP or TCP; where there is none, or by
//! choice, the control channel, which leads through here.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::arguments::server_command;
use super::elsewhere::{self, may_be_elsewhere};
use super::explanation::is_missing;
use super::words::{self, Words};
use super::{FirstWords, Started, explanation, resolve_host, wait};
use fobs_model::cancel::CancelToken;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::options::{Remote, TransferOptions};

/// Longest request, bytes: as many names as a command line has.
const REQUEST_BYTES_MAX: u64 = 4 << 20;
/// Longest line of the client that is passed on, bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// How long the processes may take to end once the client has.
const END_WAIT: std::time::Duration = std::time::Duration::from_secs(10);

/// What the client at the first host is to do: the first line of its standard input, before frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarRequest {
    /// The arguments of `fobs`, raw bytes.
    pub words: Vec<Vec<u8>>,
    /// Names of the second host.
    pub hosts: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct RequestLine {
    words: Vec<String>,
    hosts: Vec<String>,
}

impl FarRequest {
    /// Reads the request from standard input, and no more than that.
    ///
    /// # Errors
    /// `Protocol` for anything else.
    pub fn from_stdin() -> Result<FarRequest> {
        // Not through the buffer of `stdin()`: what follows is for the control channel.
        let input = rustix::stdio::stdin();
        let mut line = Vec::new();
        let mut byte = [0];
        while (line.len() as u64) < REQUEST_BYTES_MAX {
            match rustix::io::read(input, &mut byte) {
                Ok(1) if byte[0] != b'\n' => line.push(byte[0]),
                _ => break,
            }
        }
        FarRequest::read(&line)
    }

    fn read(line: &[u8]) -> Result<FarRequest> {
        let foreign = || Error::new(ErrorKind::Protocol, "this command is for fobs itself, on another host");
        let RequestLine { words, hosts } = serde_json::from_slice(line).map_err(|_| foreign())?;
        let words = words.iter().map(|word| STANDARD.decode(word)).collect::<std::result::Result<_, _>>();
        Ok(FarRequest { words: words.map_err(|_| foreign())?, hosts })
    }

    fn line(&self) -> Vec<u8> {
        let words = self.words.iter().map(|word| STANDARD.encode(word)).collect();
        let line = serde_json::to_string(&RequestLine { words, hosts: self.hosts.clone() });
        // Strings alone always become JSON.
        line.unwrap_or_default().into_bytes()
    }
}

/// Runs `fobs` with these words on `from`, with its control channel to `to`; `hear` gets each line of its
/// standard error. Its exit code, or none where a signal ended it.
///
/// # Errors
/// What keeps one of the two from running; `Interrupted` after cancellation.
pub fn copy_between(
    from: &Remote,
    to: &Remote,
    words: Vec<Vec<u8>>,
    options: &TransferOptions,
    hear: &mut dyn FnMut(&str),
    cancel: &CancelToken,
) -> Result<Option<i32>> {
    let request = FarRequest { words, hosts: resolve_host(to, options) };
    let server = server_command(options)?;
    let far = server.trim_end_matches("server").to_owned() + "far-copy";
    match between(from, to, &request, [&server, &far], options, hear, cancel) {
        Err(missing) if missing.kind == ErrorKind::RemoteMissing && may_be_elsewhere(options) => {
            let commands = [&elsewhere::command("server")[..], &elsewhere::command("far-copy")];
            between(from, to, &request, commands, options, hear, cancel).map_err(|error| match error.kind {
                ErrorKind::RemoteMissing => missing,
                _ => error,
            })
        }
        done => done,
    }
}

/// Likewise, with these commands of the server and of the client.
fn between(
    from: &Remote,
    to: &Remote,
    request: &FarRequest,
    [serve, copy]: [&str; 2],
    options: &TransferOptions,
    hear: &mut dyn FnMut(&str),
    cancel: &CancelToken,
) -> Result<Option<i32>> {
    let server = Started::start(to, options, serve)?;
    let mut client = Started::start_with(from, options, copy, Stdio::piped())?;
    let (killer, other) = (client.process.killer(), server.process.killer());
    let _hook = cancel.on_cancel(move || {
        killer();
        other();
    });
    let said = client.process.take_stderr();
    let mut first = request.line();
    first.push(b'\n');
    // Where that fails, the client says why.
    let _ = client.stdin.write_all(&first);
    let forth = join(client.stdout, server.stdin);
    let back = join(server.stdout, client.stdin);
    let mut held = Vec::new();
    if let Some(said) = said {
        lines(said, &mut |line| {
            // What the client says itself is JSON.
            if !line.starts_with('{') && words::is_of_a_missing_one(line, &options.fobs_path) {
                held.push(line.to_owned());
            } else {
                hear(line);
            }
        });
    }
    let ended = wait(&client.process.child, END_WAIT).ok().flatten();
    // It copies and judges nothing: how both sides ended says what happened.
    let _ = forth.map(thread::JoinHandle::join);
    let served = wait(&server.process.child, END_WAIT).ok().flatten();
    drop(back);
    cancel.check()?;
    if served.is_some_and(is_missing) {
        Words::forget(&server.process.words);
    }
    // Of a program that is not there the error says it.
    if !ended.is_some_and(is_missing) {
        held.iter().for_each(|line| hear(line));
    }
    for (process, status) in [(&server.process, served), (&client.process, ended)] {
        let code = status.and_then(|status| status.code());
        if matches!(code, Some(126 | 127 | super::SSH_FAILED))
            && let Some(error) = explanation(&process.host, &process.fobs_path, status, FirstWords::None)
        {
            return Err(error);
        }
    }
    Ok(ended.and_then(|status| status.code()))
}

/// Moves bytes until either end is gone, then closes both.
fn join(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> Option<thread::JoinHandle<()>> {
    let carry = move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("fobs-between".to_owned()).spawn(carry).ok()
}

fn lines(said: impl Read, hear: &mut dyn FnMut(&str)) {
    let mut said = BufReader::new(said);
    let mut line = Vec::new();
    loop {
        line.clear();
        match said.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => hear(String::from_utf8_lossy(&line).trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_carries_words_of_any_bytes() {
        let words = vec![b"cp".to_vec(), b"it's a \"name\"\n\xff".to_vec(), Vec::new()];
        let request = FarRequest { words, hosts: vec!["peer.example".to_owned()] };
        let line = request.line();
        assert!(!line.contains(&b'\n'));
        assert_eq!(FarRequest::read(&line), Ok(request));
        for foreign in [&b""[..], b"ls -l", b"{}", br#"{"words": ["?"], "hosts": []}"#] {
            assert_eq!(FarRequest::read(foreign).map_err(|error| error.kind), Err(ErrorKind::Protocol));
        }
    }
}
