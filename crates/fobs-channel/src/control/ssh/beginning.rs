//! Where the far side begins to speak: what a login shell prints before that is no part of the channel.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes before the first frame: a long message of the day is a few kB.
const BEFORE_MAX: usize = 256 << 10;
/// Bytes of them that are kept, to be shown.
pub(super) const KEPT_MAX: usize = 512;
/// A frame begins with its length in four bytes, of which the first is zero, and an object of JSON. No text
/// has a zero byte, and what else has one is followed by a brace there by chance only.
const MARK_LEN: usize = 5;

/// What came first.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The beginning of what came before the first frame.
    pub(super) before: Vec<u8>,
    /// Whether a frame has begun.
    pub(super) frame: bool,
}

impl Said {
    pub(super) fn is_nothing(&self) -> bool {
        self.before.is_empty() && !self.frame
    }
}

/// A stream from which everything before its first frame is taken out.
pub(super) struct FromFirstFrame<R> {
    pub(super) stream: R,
    said: Arc<Mutex<Said>>,
    stage: Stage,
}

enum Stage {
    /// Bytes that may be the beginning of a frame, and how many came before them.
    Looking { held: Vec<u8>, before: usize },
    /// Bytes of the beginning that were read and not handed on.
    Begun { held: Vec<u8>, from: usize },
}

impl<R: Read> FromFirstFrame<R> {
    pub(super) fn new(stream: R, said: Arc<Mutex<Said>>) -> FromFirstFrame<R> {
        FromFirstFrame { stream, said, stage: Stage::Looking { held: Vec::new(), before: 0 } }
    }

    /// Takes what was read while looking; whether the frame has begun.
    fn look(&mut self, piece: &[u8]) -> io::Result<()> {
        let Stage::Looking { held, before } = &mut self.stage else { return Ok(()) };
        held.extend_from_slice(piece);
        let begins = |at: &usize| held[*at] == 0 && held[at + MARK_LEN - 1] == b'{';
        let begin = (0..(held.len() + 1).saturating_sub(MARK_LEN)).find(begins);
        // What is shorter than the mark may still become one.
        let text = begin.unwrap_or_else(|| {
            let open = held.len().saturating_sub(MARK_LEN - 1);
            (open..held.len()).find(|at| held[*at] == 0).unwrap_or(held.len())
        });
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT_MAX - said.before.len();
        said.before.extend(&held[..text.min(room)]);
        said.frame = begin.is_some();
        *before += text;
        held.drain(..text);
        if begin.is_some() {
            self.stage = Stage::Begun { held: std::mem::take(held), from: 0 };
        } else if *before > BEFORE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no frame comes"));
        }
        Ok(())
    }
}

impl<R: Read> Read for FromFirstFrame<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Stage::Looking { .. } = self.stage {
            let mut piece = [0; 4096];
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                // The bytes that could have become a mark are text too.
                self.give_up();
                return Ok(0);
            }
            self.look(&piece[..count])?;
        }
        match &mut self.stage {
            Stage::Begun { held, from } if *from < held.len() => {
                let count = buffer.len().min(held.len() - *from);
                buffer[..count].copy_from_slice(&held[*from..*from + count]);
                *from += count;
                Ok(count)
            }
            _ => self.stream.read(buffer),
        }
    }
}

impl<R> FromFirstFrame<R> {
    fn give_up(&mut self) {
        if let Stage::Looking { held, .. } = &self.stage {
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            let room = KEPT_MAX - said.before.len();
            said.before.extend(&held[..held.len().min(room)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that gives pieces of this size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn read(bytes: &[u8], size: usize) -> (io::Result<Vec<u8>>, Said) {
        let said = Arc::new(Mutex::new(Said::default()));
        let mut out = Vec::new();
        let result = FromFirstFrame::new(Pieces(bytes, size), said.clone()).read_to_end(&mut out);
        let said = std::mem::take(&mut *said.lock().unwrap());
        (result.map(|_| out), said)
    }

    #[test]
    fn what_comes_before_the_first_frame_is_taken_out() {
        let frame = b"\0\0\0\x09{\"a\": 12}\0\0\0\x02{}";
        for before in [
            &b""[..],
            b"Welcome to far!\r\n",
            b"\x1b[1mhi\x1b[0m\n{}\n",
            b"\0",
            b"zero\0\0\0\0\0here\n",
            b"\xff\xfe{\0{",
        ] {
            for size in [1, 2, 3, 5, 7, 4096] {
                let (out, said) = read(&[before, frame].concat(), size);
                assert_eq!(out.unwrap(), frame, "{before:?} in pieces of {size}");
                assert_eq!((said.before, said.frame), (before.to_vec(), true));
            }
        }
    }

    #[test]
    fn a_shell_that_never_comes_to_frames_is_bounded_and_kept() {
        let text = "all work and no play\n".repeat(100);
        let (out, said) = read(text.as_bytes(), 100);
        assert_eq!(out.unwrap(), b"");
        assert_eq!((&said.before[..], said.frame), (&text.as_bytes()[..KEPT_MAX], false));
        let endless = vec![b'y'; 2 * BEFORE_MAX];
        let (out, said) = read(&endless, 4096);
        assert_eq!(out.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(said.before.len(), KEPT_MAX);
        assert_eq!(read(b"end\0\0", 1).1.before, b"end\0\0");
    }
}
