//! Frames of the control channel (protocol 2.1): a length, then that many bytes of JSON.

use std::io::{self, Read};

use super::message::Message;
use crate::error::{Error, ErrorKind, Result};

/// Largest frame, bytes of JSON (protocol 2.1).
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// How much memory a frame that has not arrived yet may claim beyond what has, bytes.
const READ_STEP_BYTES: usize = 16 << 10;
const LENGTH_BYTES: usize = 4;

/// One message as a frame.
pub fn encode(message: &Message) -> Result<Vec<u8>> {
    let mut frame = vec![0; LENGTH_BYTES];
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

/// Reads frames from a byte stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    stream: R,
    /// The frame in work; kept between frames, never above [`FRAME_BYTES_MAX`].
    frame: Vec<u8>,
}

impl<R: Read> FrameReader<R> {
    /// Reads from `stream`, which is best buffered.
    pub fn new(stream: R) -> FrameReader<R> {
        FrameReader { stream, frame: Vec::new() }
    }

    /// The next message; `None` where the stream ends between frames.
    pub fn read(&mut self) -> Result<Option<Message>> {
        let mut length = [0; LENGTH_BYTES];
        match self.fill(&mut length)? {
            0 => return Ok(None),
            LENGTH_BYTES => {}
            _ => return Err(cut_short()),
        }
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 || length > FRAME_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!(
                    "a frame of {length} bytes came where 1 to {FRAME_BYTES_MAX} are allowed; \
                     is it fobs that speaks there?"
                ),
            ));
        }
        self.read_body(length)?;
        let message = decode(&self.frame)?;
        // What one large frame claimed is not kept for the many small ones.
        self.frame.truncate(0);
        self.frame.shrink_to(READ_STEP_BYTES);
        Ok(Some(message))
    }

    /// Grows the frame by steps, and only as bytes arrive.
    fn read_body(&mut self, length: usize) -> Result<()> {
        self.frame.clear();
        while self.frame.len() < length {
            let have = self.frame.len();
            let step = (length - have).min(READ_STEP_BYTES);
            self.frame.reserve_exact(step);
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

fn cut_short() -> Error {
    Error::new(
        ErrorKind::Connect,
        "the control channel ended in the middle of a message; run the command again",
    )
}

fn decode(frame: &[u8]) -> Result<Message> {
    let bad = |why: String| {
        Error::new(
            ErrorKind::Protocol,
            format!(
                "a control message that is not understood came ({why}); are both sides of the same version?"
            ),
        )
    };
    // The JSON reader would take an array for a message too; the protocol says one object.
    if frame.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("no JSON object".to_owned()));
    }
    serde_json::from_slice(frame).map_err(|error| bad(super::printable(&error.to_string(), ERROR_CHARS_MAX)))
}

/// How much of the JSON reader's complaint is shown; it may quote what the peer sent.
const ERROR_CHARS_MAX: usize = 120;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::{Bytes, Hello};
    use super::*;

    /// Hands out a stream in pieces of one to `step` bytes, with an interruption between any two.
    struct Dribble<'a> {
        bytes: &'a [u8],
        step: usize,
        interrupted: bool,
    }

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.interrupted = !self.interrupted;
            if self.interrupted {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let count = self.step.min(buffer.len()).min(self.bytes.len());
            buffer[..count].copy_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            Ok(count)
        }
    }

    fn hello() -> Message {
        Message::Hello(Hello { protocol: 1, program: "fobs test".to_owned(), fast_aes: true })
    }

    fn raw(length: u32, body: &[u8]) -> Vec<u8> {
        [length.to_be_bytes().as_slice(), body].concat()
    }

    fn framed(body: &str) -> Vec<u8> {
        raw(body.len() as u32, body.as_bytes())
    }

    #[test]
    fn messages_survive_any_cutting() {
        let failed = Message::Failed { path: Bytes(vec![0xff; 100_000]), reason: "läuft nicht".to_owned() };
        let stream =
            [encode(&hello()).unwrap(), encode(&failed).unwrap(), encode(&hello()).unwrap()].concat();
        for step in [1, 3, 1000, 1 << 20] {
            let mut reader = FrameReader::new(Dribble { bytes: &stream, step, interrupted: false });
            assert_eq!(reader.read(), Ok(Some(hello())));
            assert_eq!(reader.read(), Ok(Some(failed.clone())));
            assert!(reader.frame.capacity() <= READ_STEP_BYTES);
            assert_eq!(reader.read(), Ok(Some(hello())));
            assert_eq!(reader.read(), Ok(None));
            assert_eq!(reader.read(), Ok(None));
        }
    }

    #[test]
    fn a_stream_cut_inside_a_frame_is_an_error() {
        let frame = encode(&hello()).unwrap();
        for cut in 1..frame.len() {
            let error = FrameReader::new(&frame[..cut]).read().unwrap_err();
            assert_eq!(error.kind, ErrorKind::Connect, "cut at {cut}");
        }
    }

    #[test]
    fn lengths_out_of_bounds_are_refused_unread() {
        for length in [0, FRAME_BYTES_MAX as u32 + 1, u32::MAX] {
            let mut reader = FrameReader::new(io::Cursor::new(raw(length, b"{}")));
            assert_eq!(reader.read().unwrap_err().kind, ErrorKind::Protocol);
            assert_eq!(reader.frame.capacity(), 0);
        }
    }

    #[test]
    fn a_promised_frame_claims_only_a_step() {
        let mut reader = FrameReader::new(io::Cursor::new(raw(FRAME_BYTES_MAX as u32, b"{\"type\"")));
        assert_eq!(reader.read().unwrap_err().kind, ErrorKind::Connect);
        assert!(reader.frame.capacity() <= READ_STEP_BYTES, "{} bytes", reader.frame.capacity());
    }

    #[test]
    fn newer_peers_may_say_more() {
        let unknown = framed(r#"{"type":"telepathy","what":{"deep":[1,2,3]}}"#);
        assert_eq!(FrameReader::new(unknown.as_slice()).read(), Ok(Some(Message::Unknown)));
        let more = framed(r#"{"type":"rejected","chunk":7,"attempt":1,"mood":"sad"}"#);
        assert_eq!(
            FrameReader::new(more.as_slice()).read(),
            Ok(Some(Message::Rejected { chunk: 7, attempt: 1 }))
        );
    }

    #[test]
    fn what_is_no_message_is_a_protocol_error() {
        for body in [
            "hello",
            "{}",
            "[]",
            r#"["hello",1]"#,
            r#"["rejected",{"chunk":1,"attempt":0}]"#,
            r#"{"type":7}"#,
            r#"{"type":"hello"}"#,
            r#"{"type":"rejected","chunk":-1,"attempt":0}"#,
            r#"{"type":"failed","path":"not base64!","reason":""}"#,
            r#"{"type":"rejected","chunk":1,"attempt":0} trailing"#,
            "null",
            " ",
        ] {
            let error = FrameReader::new(framed(body).as_slice()).read().unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol, "{body}");
        }
        let deep = "{\"type\":\"x\",\"a\":".to_owned() + &"[".repeat(100_000);
        assert!(FrameReader::new(framed(&deep).as_slice()).read().is_err());
    }

    #[test]
    fn a_message_too_large_is_not_sent() {
        let message = Message::Abort { code: String::new(), message: "x".repeat(FRAME_BYTES_MAX) };
        assert_eq!(encode(&message).unwrap_err().kind, ErrorKind::Usage);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            // Errors are expected; what counts is that each read ends and takes bytes away.
            let mut reader = FrameReader::new(bytes.as_slice());
            for _ in 0..=bytes.len() {
                if !matches!(reader.read(), Ok(Some(_))) {
                    break;
                }
            }
            let mut framed = FrameReader::new(io::Cursor::new(raw(bytes.len() as u32, &bytes)));
            prop_assert!(!matches!(framed.read(), Ok(None)));
        }

        #[test]
        fn one_changed_byte_never_panics(index in 0_usize..80, value in any::<u8>()) {
            let mut frame = encode(&hello()).unwrap();
            let index = index % frame.len();
            frame[index] = value;
            let outcome = FrameReader::new(frame.as_slice()).read();
            prop_assert!(!matches!(outcome, Ok(None)));
        }

        #[test]
        fn texts_round_trip(program in any::<String>(), protocol in any::<u32>(), fast_aes in any::<bool>()) {
            let message = Message::Hello(Hello { protocol, program, fast_aes });
            let frame = encode(&message).unwrap();
            prop_assert_eq!(FrameReader::new(frame.as_slice()).read(), Ok(Some(message)));
        }
    }
}
