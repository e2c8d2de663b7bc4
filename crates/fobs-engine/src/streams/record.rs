//! Records: what stands on a stream, one behind the other (protocol 10.2). Each is a length and an AEAD
//! record, which authenticates its length and its place.

use fobs_channel::secure::datagram::{Opener, Sealer, TAG_LEN};
use fobs_proto::wire::FRAME_LEN_MAX;

/// Longest record behind its length, bytes (protocol 10.2).
pub(super) const RECORD_LEN_MAX: usize = 66_000;
/// Bytes of a record's length.
pub(super) const LENGTH_LEN: usize = 4;
/// Room for what is read at once, bytes: a record in part, and the largest one behind it.
const INPUT_LEN: usize = 2 * (LENGTH_LEN + RECORD_LEN_MAX);

const _: () = assert!(FRAME_LEN_MAX + TAG_LEN <= RECORD_LEN_MAX, "every frame fits a record");

/// Seals the records of one direction of a stream.
#[derive(Debug)]
pub(super) struct RecordSealer {
    sealer: Sealer,
    next: u64,
}

impl RecordSealer {
    pub(super) fn new(sealer: Sealer) -> RecordSealer {
        RecordSealer { sealer, next: 0 }
    }

    /// Appends the record of `plain`, at most [`FRAME_LEN_MAX`] bytes.
    pub(super) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        debug_assert!((1..=FRAME_LEN_MAX).contains(&plain.len()), "a frame of {} bytes", plain.len());
        let length = length_of(plain.len() + TAG_LEN);
        out.extend_from_slice(&length);
        let start = out.len();
        out.resize(start + plain.len() + TAG_LEN, 0);
        self.sealer.seal(self.next, &length, plain, &mut out[start..]);
        self.next += 1;
    }
}

/// Opens the records of one direction of a stream.
#[derive(Debug)]
pub(super) struct RecordOpener {
    opener: Opener,
    next: u64,
}

impl RecordOpener {
    pub(super) fn new(opener: Opener) -> RecordOpener {
        RecordOpener { opener, next: 0 }
    }

    /// Opens what stands behind the length of the next record. False if it is not the record that the peer
    /// wrote at this place: nothing behind it can be opened either.
    #[must_use]
    pub(super) fn open(&mut self, sealed: &[u8], plain: &mut Vec<u8>) -> bool {
        // A record without content is no frame.
        let Some(len) = sealed.len().checked_sub(TAG_LEN).filter(|len| *len > 0) else { return false };
        plain.resize(len, 0);
        let opened = self.opener.open(self.next, &length_of(sealed.len()), sealed, plain);
        self.next += 1;
        opened
    }
}

/// A length as it stands on the wire.
fn length_of(len: usize) -> [u8; LENGTH_LEN] {
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

/// A length that no record has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLength(pub(super) u32);

/// Bytes that have come, cut into records.
#[derive(Debug, Default)]
pub(super) struct RecordBuffer {
    /// Empty before the first byte: idle streams cost little.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl RecordBuffer {
    /// Where to read the next bytes to. Never empty after [`next`](Self::next) has returned `None`.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes.resize(INPUT_LEN, 0);
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    /// Counts bytes that were read.
    pub(super) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// Length of the next record, if all of it is here.
    fn whole(&self) -> Result<Option<usize>, BadLength> {
        let come = &self.bytes[self.start..self.end];
        let Some((length, rest)) = come.split_first_chunk::<LENGTH_LEN>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length);
        if !(TAG_LEN as u32 + 1..=RECORD_LEN_MAX as u32).contains(&length) {
            return Err(BadLength(length));
        }
        Ok((rest.len() >= length as usize).then_some(length as usize))
    }

    /// Whether [`next`](Self::next) has a record.
    pub(super) fn has_record(&self) -> Result<bool, BadLength> {
        Ok(self.whole()?.is_some())
    }

    /// The next whole record, without its length.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, BadLength> {
        let Some(len) = self.whole()? else { return Ok(None) };
        let begin = self.start + LENGTH_LEN;
        self.start = begin + len;
        Ok(Some(&self.bytes[begin..begin + len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fobs_channel::secure::datagram::{Cipher, Direction};
    use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};

    fn pair() -> (RecordSealer, RecordOpener) {
        let keys = |ours| {
            let (secret, cipher) = (SessionSecret::new([5; 32]), Cipher::ChaCha20Poly1305);
            let mut keys = SessionKeys::derive(secret, KeySchedule::Second, cipher).streams;
            keys.take(1, ours).expect("its first use")
        };
        let (sealer, opener) = (keys(Direction::Sender).0, keys(Direction::Receiver).1);
        (RecordSealer::new(sealer), RecordOpener::new(opener))
    }

    /// Plain records that come out of `bytes`, read in pieces of this size; an error ends them.
    fn read(opener: &mut RecordOpener, bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
        let (mut buffer, mut plain) = (RecordBuffer::default(), Vec::new());
        let mut records = Vec::new();
        for part in bytes.chunks(piece) {
            let mut rest = part;
            while !rest.is_empty() {
                let space = buffer.space();
                let count = rest.len().min(space.len());
                space[..count].copy_from_slice(&rest[..count]);
                buffer.filled(count);
                rest = &rest[count..];
                loop {
                    match buffer.next() {
                        Ok(Some(sealed)) if opener.open(sealed, &mut plain) => records.push(plain.clone()),
                        Ok(None) => break,
                        Ok(Some(_)) | Err(_) => return (records, false),
                    }
                }
            }
        }
        (records, true)
    }

    fn plains() -> Vec<Vec<u8>> {
        [1, 2, 100, FRAME_LEN_MAX, 3].map(|len| vec![len as u8; len]).to_vec()
    }

    fn sealed() -> Vec<u8> {
        let (mut sealer, mut out) = (pair().0, Vec::new());
        plains().iter().for_each(|plain| sealer.seal(plain, &mut out));
        out
    }

    #[test]
    fn records_come_back_however_they_are_cut() {
        for piece in [1, 3, 7, 1460, 66_004, 1 << 20] {
            assert_eq!(read(&mut pair().1, &sealed(), piece), (plains(), true), "{piece}");
        }
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_whole_records_before_the_cut() {
        let bytes = sealed();
        let ends: Vec<usize> = plains()
            .iter()
            .scan(0, |end, plain| {
                *end += LENGTH_LEN + plain.len() + TAG_LEN;
                Some(*end)
            })
            .collect();
        let small = ends[2];
        // Every byte of three records, and around the ends of the large ones.
        let near = |cut: &usize| ends.iter().any(|end| cut.abs_diff(*end) < 8);
        for cut in (0..=small).chain((small..=bytes.len()).filter(near)) {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(read(&mut pair().1, &bytes[..cut], 999), (plains()[..whole].to_vec(), true), "{cut}");
        }
    }

    #[test]
    fn a_changed_byte_ends_the_stream_there() {
        let bytes = &sealed()[..LENGTH_LEN + 1 + TAG_LEN + LENGTH_LEN + 2 + TAG_LEN];
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            let (records, good) = read(&mut pair().1, &changed, 5);
            let first = LENGTH_LEN + 1 + TAG_LEN;
            let expected = if at < first { &plains()[..0] } else { &plains()[..1] };
            // A longer length waits for bytes that never come.
            assert!(records == expected && (!good || (at < first && at < 4) || at - first < 4), "{at}");
        }
    }

    #[test]
    fn records_repeated_left_out_or_exchanged_do_not_open() {
        let (mut sealer, _) = pair();
        let [first, second, third] = [b"first", b"secnd", b"third"].map(|plain| {
            let mut out = Vec::new();
            sealer.seal(plain, &mut out);
            out
        });
        for order in [vec![&first, &first], vec![&second], vec![&first, &third], vec![&second, &first]] {
            let bytes = order.iter().flat_map(|record| record.iter().copied()).collect::<Vec<_>>();
            let whole = usize::from(std::ptr::eq(order[0], &first));
            let (records, good) = read(&mut pair().1, &bytes, 64);
            assert!(!good && records.len() == whole, "{records:?}");
        }
    }

    #[test]
    fn lengths_out_of_range_are_refused_before_their_bytes_come() {
        for length in [0, 1, 16, RECORD_LEN_MAX as u32 + 1, u32::MAX, 1 << 31] {
            let mut buffer = RecordBuffer::default();
            buffer.space()[..4].copy_from_slice(&length.to_be_bytes());
            buffer.filled(4);
            assert_eq!(buffer.next(), Err(BadLength(length)));
        }
    }
}
