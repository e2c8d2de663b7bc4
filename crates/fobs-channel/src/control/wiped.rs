//! A buffered reader that wipes what was taken: a message may hold a secret, and the next one may be long in
//! coming.

use std::io::{self, Read};

use zeroize::Zeroize;

/// Bytes of the buffer, as of the standard library's.
const BUFFER_BYTES: usize = 8 << 10;

/// The reader.
pub(super) struct WipedReader<R> {
    stream: R,
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<R: Read> WipedReader<R> {
    pub(super) fn new(stream: R) -> WipedReader<R> {
        WipedReader { stream, bytes: vec![0; BUFFER_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }
}

impl<R: Read> Read for WipedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            if out.len() >= BUFFER_BYTES {
                return self.stream.read(out);
            }
            (self.start, self.end) = (0, self.stream.read(&mut self.bytes)?);
        }
        let count = out.len().min(self.end - self.start);
        let taken = &mut self.bytes[self.start..self.start + count];
        out[..count].copy_from_slice(taken);
        taken.zeroize();
        self.start += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_read_in_order_and_nothing_of_it_stays() {
        let content: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8 + 1).collect();
        for sizes in [&[1][..], &[4, 300], &[7, 10_000, 2], &[BUFFER_BYTES], &[50_000]] {
            let mut reader = WipedReader::new(content.as_slice());
            let mut read: Vec<u8> = Vec::new();
            for size in sizes.iter().cycle() {
                let mut piece = vec![0; *size];
                let count = reader.read(&mut piece).unwrap();
                if count == 0 {
                    break;
                }
                read.extend(&piece[..count]);
                let (start, end) = (reader.start, reader.end);
                let (taken, rest) = (&reader.bytes[..start], &reader.bytes[start..end]);
                assert!(taken.iter().all(|byte| *byte == 0), "{sizes:?}");
                assert!(content[read.len()..].starts_with(rest), "{sizes:?}");
            }
            assert!(read == content, "{sizes:?}");
        }
    }
}
