//! The errors that end a session, as sentences with a next step.

use fobs_channel::control::ControlWriter;
use fobs_model::error::{Busy, Error, ErrorKind, Result, SyncEnd};
use fobs_model::message::Message;
use fobs_model::text::printable;
use fobs_proto::session::{Side, Silence};
use fobs_proto::{ChunkId, Timestamp};
use std::time::Duration;

/// How much of a peer's reason for ending a session is shown, characters.
const REASON_CHARS_MAX: usize = 1000;
/// What a session waits at its start beyond the silence that means that UDP is blocked, where there may be
/// streams: time to make one after UDP has been given up.
const STREAMS_EXTRA_WAIT: Duration = Duration::from_secs(6);
/// Hexadecimal digits of a root.
const ROOT_DIGITS: usize = 2 * blake3::OUT_LEN;

/// The other end of a session, in messages to the user.
pub(super) struct PeerName {
    pub(super) name: String,
    /// The ports to open where UDP is blocked.
    pub(super) ports: String,
    /// Which side of the session this one is.
    pub(super) side: Side,
    /// Why this host sends no datagrams, where that is not the end.
    pub(super) udp_error: Option<String>,
    /// What became of streams.
    pub(super) streams: StreamsTried,
}

/// Whether anything could carry data beside the datagrams of this socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamsTried {
    /// The peer does not know them, or the user wants UDP alone.
    No,
    /// There could be streams; why the newest one failed, if one has.
    Yes(Option<String>),
    /// There are other lanes, and no streams.
    Lanes,
}

impl StreamsTried {
    /// Of a session without streams, which may have further lanes.
    pub(super) fn without<L>(lanes: Option<&L>) -> StreamsTried {
        lanes.map_or(StreamsTried::No, |_| StreamsTried::Lanes)
    }
}

impl PeerName {
    /// Ends the session if the peer has been silent for too long.
    pub(super) fn check(&self, silence: Silence) -> Result<()> {
        match (silence, &self.streams) {
            (Silence::Short, _) => Ok(()),
            (Silence::Blocked(waited), StreamsTried::No | StreamsTried::Lanes) => {
                Err(self.udp_blocked(waited))
            }
            (Silence::Blocked(waited), StreamsTried::Yes(why)) => {
                if waited >= self.streamless_max() {
                    return Err(self.all_blocked(waited, why.as_deref()));
                }
                Ok(())
            }
            (Silence::Dead(waited), _) => Err(self.no_answer(waited)),
            (Silence::Standstill(waited), _) => Err(self.nothing_new(waited)),
        }
    }

    /// How long a session waits at its start until anything comes through, where there may be streams.
    pub(super) fn streamless_max(&self) -> Duration {
        self.side.silence_max() + STREAMS_EXTRA_WAIT
    }

    /// A stream failed, or could not be made.
    pub(super) fn stream_failed(&mut self, why: String) {
        self.streams = StreamsTried::Yes(Some(why));
    }

    fn all_blocked(&self, waited: Duration, why: Option<&str>) -> Error {
        let (peer, ports, seconds) = (&self.name, &self.ports, waited.as_secs());
        let udp = self.udp_error.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let why = why.map(|why| format!(" (the newest attempt: {why})")).unwrap_or_default();
        Error::new(
            ErrorKind::Connect,
            format!(
                "nothing came through between here and {peer} within {seconds} s, neither over UDP{udp} nor over a stream{why}: open UDP {ports} or TCP on the server and the firewalls between"
            ),
        )
        .ends_sync(SyncEnd::Socket)
    }

    /// Only streams may carry data, and there has been none for this long.
    pub(super) fn no_stream(&self, waited: Duration) -> Error {
        let (peer, seconds) = (&self.name, waited.as_secs());
        let why = match &self.streams {
            StreamsTried::Yes(Some(why)) => format!(": {why}"),
            _ => String::new(),
        };
        Error::new(
            ErrorKind::Connect,
            format!(
                "no stream to {peer} for {seconds} s{why}; check the network and the firewalls between, or let UDP carry the data with --transport auto"
            ),
        )
        .ends_sync(SyncEnd::Socket)
    }

    fn udp_blocked(&self, waited: Duration) -> Error {
        let (peer, ports, seconds) = (&self.name, &self.ports, waited.as_secs());
        Error::new(
            ErrorKind::Connect,
            format!(
                "no UDP datagram came through between here and {peer} within {seconds} s: open UDP {ports} on the server and the firewalls between, or choose other ports with --udp-ports A-B"
            ),
        )
        .ends_sync(SyncEnd::Socket)
    }

    fn no_answer(&self, waited: Duration) -> Error {
        let (peer, seconds) = (&self.name, waited.as_secs());
        let why = self.udp_error.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        Error::new(
            ErrorKind::Timeout,
            format!(
                "no answer from {peer} over UDP for {seconds} s{why}, so the path is down: check the network, then run the same command again (--timeout says how long to wait)"
            ),
        )
    }

    fn nothing_new(&self, waited: Duration) -> Error {
        let (peer, seconds) = (&self.name, waited.as_secs());
        Error::new(
            ErrorKind::Timeout,
            format!(
                "nothing new was verified for {seconds} s although {peer} is heard: look at the disks and the load of both hosts, then run the same command again (--timeout says how long to wait)"
            ),
        )
    }

    /// The socket takes no datagrams for the peer: the end, unless something else may carry the data. Then it
    /// is one more way in which UDP is blocked, as by a local firewall. Where the peer was `heard`, what it
    /// was reached by may come back, as an address that its interface has lost: the silence decides.
    pub(super) fn refused_datagrams(
        &mut self,
        error: &std::io::Error,
        heard: Option<Timestamp>,
    ) -> Result<()> {
        if self.streams == StreamsTried::No && heard.is_none() {
            return Err(self.cannot_send(error));
        }
        self.udp_error.get_or_insert_with(|| error.to_string());
        Ok(())
    }

    fn cannot_send(&self, error: &std::io::Error) -> Error {
        Error::new(
            ErrorKind::Socket,
            format!(
                "cannot send UDP datagrams to {}: {error}; look at the local firewall and routes",
                self.name
            ),
        )
    }

    /// The peer's root is not ours.
    pub(super) fn roots_differ(&self, root: &str) -> Error {
        Error::new(
            ErrorKind::Integrity,
            format!(
                "the roots of the transfer differ: {} reports {:?}; do not trust the copy",
                self.name,
                printable(root, ROOT_DIGITS)
            ),
        )
    }
}

/// A chunk never verified; `path` is the first file with data in it, which only the sender knows.
pub(super) fn never_verified(chunk: ChunkId, tries: u8, path: Option<&[u8]>) -> Error {
    let place = match path {
        Some(path) => format!(", with data of {:?},", String::from_utf8_lossy(path)),
        None => String::new(),
    };
    let message = format!(
        "chunk {chunk}{place} did not verify in {tries} tries; the memory or the disk of one side is faulty"
    );
    Error::new(ErrorKind::Integrity, message)
}

/// A chunk buffer could not be allocated.
pub(super) fn no_memory(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("no memory for a chunk buffer: {error}; free some memory and try again"),
    )
    .ends_sync(SyncEnd::Memory)
}

/// The machine wants to send a packet of a chunk that is not held: a defect of ours.
pub(super) fn chunk_not_held() -> Error {
    Error::new(ErrorKind::Internal, "a packet of a chunk that is not held was to be sent; report this bug")
}

/// The control channel ended before the transfer did.
pub(super) fn closed_early(error: Option<Error>) -> Error {
    let why = match error {
        None => "the other side ended the connection; look at what it says there, then run the command again"
            .to_owned(),
        Some(error) if error.kind == ErrorKind::Connect => error.message,
        Some(error) => return error,
    };
    Error::new(ErrorKind::Connect, format!("the transfer broke off after it had begun: {why}"))
}

/// The peer sends a part of a survey in a session without one.
pub(super) fn unasked(what: &str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("{what} came, and nobody asked for them; use the same version of fobs on both sides"),
    )
}

/// A later session of the same client wants the destination.
pub(super) fn taken_over() -> Error {
    Error::new(
        ErrorKind::Connect,
        "the same command came again, and its new session goes on in place of this one",
    )
}

/// The error that an `abort` of the peer stands for; none for another message.
pub fn aborted(peer: &str, message: &Message) -> Option<Error> {
    let Message::Abort { code, message, sync, .. } = message else { return None };
    let told = format!("{peer}: {}", printable(message, REASON_CHARS_MAX));
    let error = Error::new(ErrorKind::from_code(code), told);
    Some(match SyncEnd::named(sync) {
        // A peer cannot say that a failure is none.
        None | Some(SyncEnd::Done) => error,
        Some(end) => error.ends_sync(end),
    })
}

/// The error that an `abort` of a server stands for before it has granted anything; none for another message.
pub fn refused(peer: &str, message: &Message) -> Option<Error> {
    let Message::Abort { code, busy, .. } = message else { return None };
    match (busy, ErrorKind::from_code(code)) {
        (false, _) => aborted(peer, message),
        (true, ErrorKind::Destination) => aborted(peer, message).map(|error| error.of_busy(Busy::Taken)),
        (true, _) => {
            let error = aborted(&format!("{peer} is busy"), message)?.ends_sync(SyncEnd::Refused);
            Some(error.of_busy(Busy::Full))
        }
    }
}

/// Tells the peer why this side ends the session, as the peer would show it: a name that the peer sent may be
/// of 64 kB. That may fail: the channel may be what broke.
pub fn tell_abort(writer: &ControlWriter, error: &Error) {
    let busy = matches!(error.busy(), Some(Busy::Full | Busy::Taken));
    let (code, message) = (error.kind.code().to_owned(), printable(&error.message, REASON_CHARS_MAX));
    let sync = error.own_sync_end().map_or_else(String::new, |end| end.row().1.to_owned());
    // As said: the channel may be what broke.
    let _ = writer.post(&Message::Abort { code, message, busy, sync });
}
