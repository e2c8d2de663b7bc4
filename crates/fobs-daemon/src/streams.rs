//! Streams of running sessions at the daemon's one port (protocol 11.3): by its first bytes a connection is
//! one, or a client's TLS.

use super::server::Daemon;
use super::who::Visit;
use fobs::server::{SharedPort, StreamEntrance};
use fobs_channel::control::tls::HANDSHAKE_WAIT;
use fobs_channel::secure::authorized_keys::KeyLimits;
use fobs_channel::secure::stream::STREAM_MAGIC;
use fobs_engine::door::{Greeting, Refusal};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    Stream,
    /// TLS, something else, or nothing: TLS says what is wrong.
    Other,
}

impl Daemon {
    /// Waits for the first byte of a connection, as long as a handshake may take.
    pub(super) fn speaks_first(&self, socket: &TcpStream) -> First {
        let Ok(ours) = socket.try_clone() else { return First::Other };
        let _hook = self.stop.on_cancel(move || drop(ours.shutdown(Shutdown::Both)));
        let mut byte = [0];
        let peeked = socket
            .set_nonblocking(false)
            .and_then(|()| socket.set_read_timeout(Some(HANDSHAKE_WAIT)))
            .and_then(|()| socket.peek(&mut byte));
        match peeked {
            Ok(1) if byte[0] == STREAM_MAGIC[0] => First::Stream,
            _ => First::Other,
        }
    }

    /// Takes a stream of a session that runs; closes any other, and counts it.
    pub(super) fn stream(&self, socket: TcpStream, visit: &Visit) {
        let heard = Greeting::new(Instant::now()).wait(&socket);
        let taken = heard.and_then(|hello| {
            let gate = self.register.find(hello.tag()).ok_or(Refusal::Unknown)?;
            gate.admit(&hello, socket)
        });
        match taken {
            Ok(()) => self.metrics.stream(),
            Err(refusal) => {
                self.count("stream", Some(visit.from), format!("{visit}: refused a stream: {refusal}"));
            }
        }
    }

    /// How the streams of a session get in whose key has these limits.
    pub(super) fn entrance(&self, limits: KeyLimits) -> StreamEntrance {
        let register = self.register.clone();
        let enter = Box::new(move |gate| Box::new(register.enter(gate)) as Box<dyn Send>);
        StreamEntrance::Shared(SharedPort { enter, open_max: limits.streams_max() })
    }
}
