//! Frames of the control channel (protocol 2.1): a length, then that many bytes: a message in JSON, or a
//! record of the stream inside the channel.

use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use zeroize::Zeroize;

use crate::secure::ticket::TICKET_LEN_MAX;
use fobs_model::error::{Error, ErrorKind, Result};
use fobs_model::message::{Level, Message};

/// Largest frame, bytes of JSON (protocol 2.1).
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Most values of a message: names and elements of its JSON, each of which takes up to 128 bytes while it is
/// read. As many as the paths of a request, and its other members.
pub const VALUES_MAX: usize = 120_000;
/// Bytes of a message for each of its values, beside the first [`VALUES_FREE`]: the shortest path, and what
/// JSON has around it.
const BYTES_A_VALUE: usize = 6;
const VALUES_FREE: usize = 1024;

/// How long messages may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Before it is known that the peer may ask for anything: a hello, a ticket, or a short request.
    Opening,
    /// As the protocol allows.
    Full,
}

impl Length {
    fn bytes_max(self) -> usize {
        match self {
            Length::Opening => TICKET_LEN_MAX + (1 << 10),
            Length::Full => FRAME_BYTES_MAX,
        }
    }

    fn values_max(self, bytes: usize) -> usize {
        match self {
            Length::Opening => VALUES_FREE,
            Length::Full => VALUES_MAX.min(VALUES_FREE + bytes / BYTES_A_VALUE),
        }
    }
}

/// Largest data frame, bytes: a record of a stream (protocol 11).
pub const DATA_FRAME_BYTES_MAX: usize = 66_000;
/// The bit of the length that marks a data frame. No message is as long, and no older peer sends it.
const DATA_BIT: u32 = 1 << 31;
/// Memory allocated beyond the part of a frame that has arrived, bytes.
const READ_STEP_BYTES: usize = 16 << 10;
const LENGTH_BYTES: usize = 4;
/// Room for an answer without an object: its addresses are a few hundred bytes at most.
const ACCEPT_BYTES: usize = 4096;
/// What a message with a ticket is longer than the ticket, bytes at most.
const TICKET_FRAME_BYTES: usize = 64;

/// One message as a frame. A message with a secret fits the memory that is allocated at first, so that no
/// smaller piece of memory with a part of it is freed.
pub fn encode(message: &Message) -> Result<Vec<u8>> {
    let first = match message {
        Message::Accept(_) => ACCEPT_BYTES,
        Message::Ticket { ticket } => ticket.as_str().len() + LENGTH_BYTES + TICKET_FRAME_BYTES,
        _ => LENGTH_BYTES,
    };
    let mut frame = Vec::with_capacity(first);
    frame.extend_from_slice(&[0; LENGTH_BYTES]);
    serde_json::to_writer(&mut frame, message).map_err(|error| {
        Error::new(
            ErrorKind::Internal,
            format!("a control message cannot be written as JSON: {error}; report this"),
        )
    })?;
    let length = frame.len() - LENGTH_BYTES;
    if length > FRAME_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::Usage,
            format!(
                "a control message of {length} bytes is over the {FRAME_BYTES_MAX} that the protocol allows; \
                 name fewer paths at once"
            ),
        ));
    }
    frame[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(frame)
}

/// A record as a data frame. The caller keeps within [`DATA_FRAME_BYTES_MAX`].
pub(super) fn encode_data(record: &[u8]) -> Vec<u8> {
    debug_assert!((1..=DATA_FRAME_BYTES_MAX).contains(&record.len()), "{} bytes", record.len());
    [&(DATA_BIT | record.len() as u32).to_be_bytes(), record].concat()
}

/// What a frame holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    Message(Message),
    /// A record of the stream inside the channel.
    Data(Vec<u8>),
}

/// Whether data frames may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataFrames {
    /// Both sides have agreed on them.
    Allowed,
    Refused,
}

/// Reads frames from a byte stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    stream: R,
    /// The current frame; its memory is reused, at most [`FRAME_BYTES_MAX`].
    frame: Vec<u8>,
    length: Length,
    /// The first message is a hello that was foretold.
    hello_is_due: Option<Level>,
    /// What the peer can do, once such a hello has come.
    late_features: Arc<OnceLock<Vec<String>>>,
}

impl<R: Read> FrameReader<R> {
    /// Reads from `stream`, which is best buffered.
    pub fn new(stream: R) -> FrameReader<R> {
        let late_features = Arc::default();
        FrameReader { stream, frame: Vec::new(), length: Length::Full, hello_is_due: None, late_features }
    }

    /// The stream below the frames.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn into_stream(self) -> R {
        self.stream
    }

    /// The next message; `None` where the stream ends between frames. For streams without data frames.
    #[cfg(any(test, feature = "testing"))]
    pub fn read(&mut self) -> Result<Option<Message>> {
        match self.read_frame(DataFrames::Refused)? {
            Some(Frame::Message(message)) => Ok(Some(message)),
            Some(Frame::Data(_)) => unreachable!("data frames are refused"),
            None => Ok(None),
        }
    }

    /// Passes over the next frame, also over one of data; false where the stream ends between frames.
    #[cfg(any(test, feature = "testing"))]
    pub fn pass(&mut self) -> Result<bool> {
        self.read_frame(DataFrames::Allowed).map(|frame| frame.is_some())
    }

    /// From now on messages may be so long.
    pub(super) fn bound(&mut self, length: Length) {
        self.length = length;
    }

    /// From now on a hello is due, which must be as it was foretold.
    pub(super) fn expect_hello(&mut self, level: Level) {
        self.hello_is_due = Some(level);
    }

    /// What the peer can do, where its hello was due and has come.
    pub(super) fn late_features(&self) -> Arc<OnceLock<Vec<String>>> {
        self.late_features.clone()
    }

    /// The next frame, but for a hello that was due; `None` where the stream ends between frames.
    pub(super) fn read_frame(&mut self, data: DataFrames) -> Result<Option<Frame>> {
        let frame = self.read_any(data)?;
        let Some(level) = self.hello_is_due.take() else { return Ok(frame) };
        match frame {
            Some(Frame::Message(Message::Hello(hello))) if hello.keeps(level) => {
                // There is one hello of a stream.
                let _ = self.late_features.set(hello.features);
                self.read_any(data)
            }
            // The peer refuses, or is gone.
            Some(Frame::Message(Message::Abort { .. })) | None => Ok(frame),
            Some(_) => Err(Error::new(
                ErrorKind::Protocol,
                "its hello is not what its TLS handshake told; install the same version there",
            )),
        }
    }

    fn read_any(&mut self, data: DataFrames) -> Result<Option<Frame>> {
        let mut length = [0; LENGTH_BYTES];
        match self.fill(&mut length)? {
            0 => return Ok(None),
            LENGTH_BYTES => {}
            _ => return Err(cut_short()),
        }
        let length = u32::from_be_bytes(length);
        if length & DATA_BIT != 0 && data == DataFrames::Allowed {
            return self.read_record((length & !DATA_BIT) as usize).map(Some);
        }
        let length = length as usize;
        if length == 0 || length > self.length.bytes_max() {
            let most = self.length.bytes_max();
            return Err(Error::new(
                ErrorKind::Protocol,
                format!(
                    "a frame of {length} bytes came where 1 to {most} are allowed; is it fobs that speaks there?"
                ),
            ));
        }
        self.read_body(length)?;
        let message = decode(&self.frame, self.length)?;
        // A message may hold a secret. The memory of a large frame is not kept for the many small ones.
        self.frame.zeroize();
        self.frame.shrink_to(READ_STEP_BYTES);
        Ok(Some(Frame::Message(message)))
    }

    fn read_record(&mut self, length: usize) -> Result<Frame> {
        if length == 0 || length > DATA_FRAME_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!(
                    "a data frame of {length} bytes came where 1 to {DATA_FRAME_BYTES_MAX} are allowed; \
                     install the same version of fobs on both sides"
                ),
            ));
        }
        let mut record = vec![0; length];
        if self.fill(&mut record)? < length {
            return Err(cut_short());
        }
        Ok(Frame::Data(record))
    }

    /// Grows the frame by steps, and only as bytes arrive.
    fn read_body(&mut self, length: usize) -> Result<()> {
        self.frame.clear();
        while self.frame.len() < length {
            let have = self.frame.len();
            let step = (length - have).min(READ_STEP_BYTES);
            self.frame.try_reserve_exact(step).map_err(|_| no_memory())?;
            self.frame.resize(have + step, 0);
            let mut frame = std::mem::take(&mut self.frame);
            let filled = self.fill(&mut frame[have..]);
            self.frame = frame;
            if filled? < step {
                return Err(cut_short());
            }
        }
        Ok(())
    }

    /// Reads until `buffer` is full or the stream ends; how many bytes came.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(filled)
    }
}

/// What a failed read or write of the control channel means.
pub(super) fn broken(error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::InvalidData => ErrorKind::Protocol,
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ErrorKind::Timeout,
        _ => ErrorKind::Connect,
    };
    Error::new(kind, format!("the control channel broke: {error}; run the command again"))
}

fn no_memory() -> Error {
    Error::new(ErrorKind::FileIo, "the host has no memory left for a message; try again later")
}

fn cut_short() -> Error {
    Error::new(
        ErrorKind::Connect,
        "the control channel ended in the middle of a message; run the command again",
    )
}

fn decode(frame: &[u8], length: Length) -> Result<Message> {
    let bad = |why: String| {
        Error::new(
            ErrorKind::Protocol,
            format!(
                "a control message that is not understood came ({why}); are both sides of the same version?"
            ),
        )
    };
    // The JSON reader would accept an array for a message too; the protocol requires an object.
    if frame.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("no JSON object".to_owned()));
    }
    // Before anything is allocated for them.
    let values_max = length.values_max(frame.len());
    if values_in(frame) > values_max {
        return Err(bad(format!("more than {values_max} values")));
    }
    serde_json::from_slice(frame).or_else(|error| {
        if is_for_display(frame) {
            Ok(Message::Unknown)
        } else {
            Err(bad(fobs_model::text::printable(&error.to_string(), ERROR_CHARS_MAX)))
        }
    })
}

/// No fewer than the values of a JSON text: each but the first follows one of these characters outside of
/// texts.
fn values_in(json: &[u8]) -> usize {
    let (mut count, mut rest) = (1, json);
    while let Some(at) = rest.iter().position(|byte| b",:[{\"".contains(byte)) {
        let (found, after) = (rest[at], &rest[at + 1..]);
        rest = after;
        if found != b'"' {
            count += 1;
            continue;
        }
        // To the end of the text.
        while let Some(at) = rest.iter().position(|byte| b"\"\\".contains(byte)) {
            let escapes = rest[at] == b'\\';
            rest = rest.get(at + 1 + usize::from(escapes)..).unwrap_or_default();
            if !escapes {
                break;
            }
        }
    }
    count
}

/// Whether nothing is lost without this message: a newer peer may give it values that we do not know
/// (protocol 12.3).
fn is_for_display(frame: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_slice::<Kind>(frame).is_ok_and(|message| FOR_DISPLAY.contains(&message.kind.as_str()))
}

/// Messages that only tell the user something.
const FOR_DISPLAY: &[&str] = &[
    "notice",
    "deleted",
    "not_empty",
    "deletions_left",
    "pulse",
    "standing",
    "loss",
    "remedy",
    "mode",
    "way",
    "sender_sample",
    "receiver_sample",
    "streams_failed",
];

/// How much of the JSON reader's complaint is shown; it may quote what the peer sent.
const ERROR_CHARS_MAX: usize = 120;

#[cfg(test)]
mod tests;
