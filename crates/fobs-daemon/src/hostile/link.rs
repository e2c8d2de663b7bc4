//! A control channel below its messages: a client that keeps no rule writes frames of any bytes.

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::program::Daemon;
use super::recorder::RECORD_BIT;
use fobs_channel::control::tls;
use fobs_channel::secure::identity::Identity;
use fobs_channel::secure::schedule::SessionSecret;
use fobs_model::cancel::CancelToken;
use fobs_model::options::AddressFamily;

/// Longest frame that is read: what no server sends is cut off.
const FRAME_MAX: usize = 4 << 20;

/// What came from the server.
pub(super) enum Heard {
    Message(Vec<u8>),
    Record(Vec<u8>),
    /// Nothing within the time.
    Nothing,
    /// The channel is over.
    End,
}

/// The client's end of a channel.
pub(super) struct Link {
    /// To the thread that writes: a server that reads nothing must not hold the player up.
    write: Option<Sender<Vec<u8>>>,
    heard: Receiver<(u32, Vec<u8>)>,
    /// The session secret, where the channel has one.
    pub(super) exporter: Option<SessionSecret>,
}

impl Link {
    /// Over TLS to a daemon, with this key.
    pub(super) fn connect(daemon: &Daemon, identity: &Identity) -> io::Result<Link> {
        let (cancel, family) = (CancelToken::new(), AddressFamily::V4);
        let channel = tls::connect("127.0.0.1", daemon.port, family, identity, &cancel, |_| Ok(()))
            .map_err(|error| io::Error::other(error.message))?;
        let (read, writer, exporter) = channel.into_stream();
        let closing = writer.clone();
        let write = writer_thread(move |bytes| writer.send_bytes(bytes), move || closing.close());
        Ok(Link { write: Some(write), heard: reader_thread(read), exporter })
    }

    /// Over the pipes of a process.
    pub(super) fn over(read: impl Read + Send + 'static, write: impl Write + Send + 'static) -> Link {
        let mut write = write;
        let write = writer_thread(move |bytes| write.write_all(bytes).and_then(|()| write.flush()), || ());
        Link { write: Some(write), heard: reader_thread(AfterNoise { read, began: false }), exporter: None }
    }

    /// Sends a frame.
    pub(super) fn send(&self, bits: u32, body: &[u8]) {
        self.send_raw([&(bits | body.len() as u32).to_be_bytes()[..], body].concat());
    }

    /// Sends bytes as they are.
    pub(super) fn send_raw(&self, bytes: Vec<u8>) {
        if let Some(write) = &self.write {
            let _ = write.send(bytes);
        }
    }

    /// Waits for the next frame.
    pub(super) fn hear(&self, deadline: Instant) -> Heard {
        match self.heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((bits, body)) if bits & RECORD_BIT != 0 => Heard::Record(body),
            Ok((_, body)) => Heard::Message(body),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// Ends the channel behind what was sent.
    pub(super) fn close(&mut self) {
        self.write = None;
    }

    /// Waits for the server's end; false if it does not come in time.
    pub(super) fn wait_for_end(&self, within: Duration) -> (bool, Vec<Vec<u8>>) {
        let (deadline, mut last) = (Instant::now() + within, Vec::new());
        loop {
            match self.hear(deadline) {
                Heard::End => return (true, last),
                Heard::Nothing => return (false, last),
                Heard::Message(body) => last.push(body),
                Heard::Record(_) => {}
            }
        }
    }
}

fn writer_thread(
    mut write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    close: impl FnOnce() + Send + 'static,
) -> Sender<Vec<u8>> {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        // A server that has ended takes no more: what it said is read all the same.
        while let Ok(bytes) = receiver.recv() {
            if write(&bytes).is_err() {
                break;
            }
        }
        drop(write);
        close();
    });
    sender
}

fn reader_thread(mut read: impl Read + Send + 'static) -> Receiver<(u32, Vec<u8>)> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut length = [0; 4];
        while read.read_exact(&mut length).is_ok() {
            let bits = u32::from_be_bytes(length);
            let len = (bits & !RECORD_BIT) as usize;
            let mut body = vec![0; len.min(FRAME_MAX)];
            if len > FRAME_MAX || read.read_exact(&mut body).is_err() || sender.send((bits, body)).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A program's output from its first frame on: a frame begins with a zero byte (protocol 2.6), and a test
/// binary says that it runs a test before.
struct AfterNoise<R> {
    read: R,
    began: bool,
}

impl<R: Read> Read for AfterNoise<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.began {
            let mut byte = [1];
            if self.read.read(&mut byte)? == 0 {
                return Ok(0);
            }
            if byte[0] == 0 && !buffer.is_empty() {
                self.began = true;
                buffer[0] = 0;
                return Ok(1);
            }
        }
        self.read.read(buffer)
    }
}
