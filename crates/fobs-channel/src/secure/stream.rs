//! The first bytes of a stream (protocol 11.3). They prove that it belongs to a session; the keys of its
//! records are in [`stream_keys`](super::stream_keys).

use super::labels::Labels;
use aws_lc_rs::hkdf::Prk;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use std::fmt;
use zeroize::Zeroizing;

/// Begins every stream; a TLS connection begins with 0x16.
pub const STREAM_MAGIC: [u8; 8] = *b"FOBSTRM1";
/// Bytes of a tag.
pub const STREAM_TAG_LEN: usize = 16;
/// Bytes of the authentication code at the end of a stream's first bytes: half of HMAC-SHA-256, out of reach
/// of guesses.
const MAC_LEN: usize = 16;
/// Where the index stands.
const INDEX_AT: usize = STREAM_MAGIC.len() + STREAM_TAG_LEN;
/// Where the code stands.
const MAC_AT: usize = INDEX_AT + 2;
/// Bytes with which a stream begins: magic, tag, index, code.
pub const STREAM_HELLO_LEN: usize = MAC_AT + MAC_LEN;

/// Names a session to the process that accepts its streams. It is no secret: it travels in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamTag(pub [u8; STREAM_TAG_LEN]);

/// The first bytes of a stream that has not proven anything yet.
#[derive(Debug, Clone, Copy)]
pub struct StreamHello([u8; STREAM_HELLO_LEN]);

/// What both ends of a session make and check the first bytes of its streams with. No other key follows from
/// it.
#[derive(Clone)]
pub struct StreamPass {
    tag: StreamTag,
    mac: hmac::Key,
}

impl StreamHello {
    /// Takes bytes that came first; `None` if they begin no stream.
    pub fn parse(bytes: &[u8; STREAM_HELLO_LEN]) -> Option<StreamHello> {
        bytes.starts_with(&STREAM_MAGIC).then_some(StreamHello(*bytes))
    }

    /// The session that it claims.
    pub fn tag(&self) -> StreamTag {
        let mut tag = [0; STREAM_TAG_LEN];
        tag.copy_from_slice(&self.0[STREAM_MAGIC.len()..INDEX_AT]);
        StreamTag(tag)
    }

    fn index(&self) -> u16 {
        u16::from_be_bytes([self.0[INDEX_AT], self.0[INDEX_AT + 1]])
    }
}

impl StreamPass {
    pub(super) fn new(labels: Labels, extracted: &Prk) -> StreamPass {
        let mut tag = [0; STREAM_TAG_LEN];
        labels.fill(extracted, "stream tag", &mut tag);
        let mut key = Zeroizing::new([0; 32]);
        labels.fill(extracted, "stream mac", &mut *key);
        StreamPass { tag: StreamTag(tag), mac: hmac::Key::new(HMAC_SHA256, &*key) }
    }

    /// The session's name.
    pub fn tag(&self) -> StreamTag {
        self.tag
    }

    /// The first bytes of the stream of this index, from the side that connects.
    pub fn hello(&self, index: u16) -> [u8; STREAM_HELLO_LEN] {
        let mut hello = [0; STREAM_HELLO_LEN];
        hello[..STREAM_MAGIC.len()].copy_from_slice(&STREAM_MAGIC);
        hello[STREAM_MAGIC.len()..INDEX_AT].copy_from_slice(&self.tag.0);
        hello[INDEX_AT..MAC_AT].copy_from_slice(&index.to_be_bytes());
        let mac = hmac::sign(&self.mac, &hello[..MAC_AT]);
        hello[MAC_AT..].copy_from_slice(&mac.as_ref()[..MAC_LEN]);
        hello
    }

    /// The index of a stream that began like this; `None` if a peer without the secret made it. A peer that
    /// copies one from the wire can repeat it: the caller accepts an index once.
    pub fn check(&self, hello: &StreamHello) -> Option<u16> {
        let index = hello.index();
        let expected = self.hello(index);
        aws_lc_rs::constant_time::verify_slices_are_equal(&expected, &hello.0).ok().map(|()| index)
    }
}

impl fmt::Debug for StreamPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamPass({:?}, ..)", self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::datagram::Cipher;
    use crate::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};

    fn pass(byte: u8, schedule: KeySchedule) -> StreamPass {
        let secret = SessionSecret::new([byte; 32]);
        SessionKeys::derive(secret, schedule, Cipher::Aes128Gcm).streams.pass().clone()
    }

    fn checked(pass: &StreamPass, bytes: &[u8; STREAM_HELLO_LEN]) -> Option<u16> {
        pass.check(&StreamHello::parse(bytes)?)
    }

    #[test]
    fn a_hello_names_its_session_and_its_stream() {
        for schedule in [KeySchedule::First, KeySchedule::Second] {
            let (ours, other) = (pass(1, schedule), pass(2, schedule));
            for index in [0, 1, 256, u16::MAX] {
                let hello = ours.hello(index);
                assert_eq!(StreamHello::parse(&hello).unwrap().tag(), ours.tag());
                assert_eq!(checked(&ours, &hello), Some(index));
                assert_eq!(checked(&other, &hello), None, "of another session");
            }
            assert_ne!(ours.tag(), other.tag());
        }
        assert_ne!(pass(1, KeySchedule::First).tag(), pass(1, KeySchedule::Second).tag());
    }

    #[test]
    fn a_hello_with_any_bit_changed_is_refused() {
        let ours = pass(1, KeySchedule::Second);
        let hello = ours.hello(7);
        for bit in 0..8 * STREAM_HELLO_LEN {
            let mut changed = hello;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(checked(&ours, &changed), None, "bit {bit}");
        }
    }
}
