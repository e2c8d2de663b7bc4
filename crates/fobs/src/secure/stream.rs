//! Protection of streams (protocol 10): the first bytes of a stream, and the keys of its records.
//!
//! All follows from the session's secret, so a stream needs no handshake. Each direction of each stream has
//! keys of its own, and an index is used once in a session, so no nonce repeats.

use super::datagram::{Cipher, Direction, Opener, Ratchet, Sealer, SessionSecret, expand, next_secret};
use aws_lc_rs::hkdf;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use std::fmt;

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

/// What the keys of a session's streams come from.
#[derive(Clone)]
pub struct StreamSecret {
    extracted: hkdf::Prk,
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

impl StreamSecret {
    /// The streams of the session with this secret.
    pub fn new(secret: &SessionSecret) -> StreamSecret {
        let extracted = secret.extract();
        let mut tag = [0; STREAM_TAG_LEN];
        expand(&extracted, b"fobs stream tag", &mut tag);
        let mut key = [0; 32];
        expand(&extracted, b"fobs stream mac", &mut key);
        let mac = hmac::Key::new(HMAC_SHA256, &key);
        super::wipe(&mut key);
        StreamSecret { extracted, tag: StreamTag(tag), mac }
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

    /// Seals what `direction` writes into a stream. Its "packet numbers" are the records' places, from 0.
    pub fn sealer(&self, cipher: Cipher, index: u16, direction: Direction) -> Sealer {
        Sealer::of(self.ratchet(cipher, index, direction))
    }

    /// Opens what `direction` writes into a stream.
    pub fn opener(&self, cipher: Cipher, index: u16, direction: Direction) -> Opener {
        Opener::of(self.ratchet(cipher, index, direction))
    }

    fn ratchet(&self, cipher: Cipher, index: u16, direction: Direction) -> Ratchet {
        let [high, low] = index.to_be_bytes();
        let direction = match direction {
            Direction::Sender => 0,
            Direction::Receiver => 1,
        };
        // 14 bytes, and no other label is as long.
        let info = [b"fobs stream".as_slice(), &[high, low, direction]].concat();
        Ratchet::of(cipher, next_secret(&self.extracted, &info))
    }
}

impl fmt::Debug for StreamSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamSecret({:?}, ..)", self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::datagram::TAG_LEN;

    const CIPHER: Cipher = Cipher::ChaCha20Poly1305;

    fn secret(byte: u8) -> StreamSecret {
        StreamSecret::new(&SessionSecret::new([byte; 32]))
    }

    fn checked(secret: &StreamSecret, bytes: &[u8; STREAM_HELLO_LEN]) -> Option<u16> {
        secret.check(&StreamHello::parse(bytes)?)
    }

    #[test]
    fn a_hello_names_its_session_and_its_stream() {
        let ours = secret(1);
        for index in [0, 1, 256, u16::MAX] {
            let hello = ours.hello(index);
            assert_eq!(StreamHello::parse(&hello).unwrap().tag(), ours.tag());
            assert_eq!(checked(&ours, &hello), Some(index));
            assert_eq!(checked(&secret(2), &hello), None, "of another session");
        }
        assert_ne!(ours.tag(), secret(2).tag());
    }

    #[test]
    fn a_hello_with_any_bit_changed_is_refused() {
        let ours = secret(1);
        let hello = ours.hello(7);
        for bit in 0..8 * STREAM_HELLO_LEN {
            let mut changed = hello;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(checked(&ours, &changed), None, "bit {bit}");
        }
    }

    #[test]
    fn only_the_same_stream_and_direction_opens_a_record() {
        let ours = secret(1);
        let mut sealed = [0; 5 + TAG_LEN];
        ours.sealer(CIPHER, 3, Direction::Sender).seal(0, b"head", b"hello", &mut sealed);
        let opens = |secret: &StreamSecret, index, direction, number| {
            let mut body = [0; 5];
            secret.opener(CIPHER, index, direction).open(number, b"head", &sealed, &mut body)
                && body == *b"hello"
        };
        assert!(opens(&ours, 3, Direction::Sender, 0));
        assert!(!opens(&ours, 4, Direction::Sender, 0));
        assert!(!opens(&ours, 3, Direction::Receiver, 0));
        assert!(!opens(&ours, 3, Direction::Sender, 1));
        assert!(!opens(&secret(2), 3, Direction::Sender, 0));
        // Nor do the keys of datagrams.
        let mut datagrams = Opener::new(&SessionSecret::new([1; 32]), CIPHER, Direction::Sender);
        assert!(!datagrams.open(0, b"head", &sealed, &mut [0; 5]));
    }
}
