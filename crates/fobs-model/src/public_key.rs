//! The public key of a client or a server, and its line of text.

use std::fmt;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use crate::error::{Error, ErrorKind, Result};

/// The first word of a public key's line.
pub const KEY_TYPE: &str = "fobs-ed25519";
/// What comes before the 32 key bytes in an Ed25519 SubjectPublicKeyInfo (RFC 8410 section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An Ed25519 public key. As text: `fobs-ed25519 BASE64`, and a comment may follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Parses `fobs-ed25519 BASE64 [comment]` and drops the comment.
    pub fn parse(text: &str) -> Result<PublicKey> {
        let bad = |why: &str| {
            Err(Error::new(
                ErrorKind::Denied,
                format!("this is no public key: {why}; expected {KEY_TYPE} BASE64"),
            ))
        };
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            Some(KEY_TYPE) => {}
            Some(_) => return bad("its type is unknown"),
            None => return bad("it is empty"),
        }
        let Some(encoded) = words.next() else {
            return bad("the key itself is missing");
        };
        match STANDARD.decode(encoded).map(<[u8; 32]>::try_from) {
            Ok(Ok(bytes)) => Ok(PublicKey(bytes)),
            Ok(Err(_)) => bad("the key is not of 32 bytes"),
            Err(_) => bad("the key is not in base64"),
        }
    }

    /// `SHA256:` and the unpadded base64 of the SHA-256 of the 32 bytes, as ssh shows it.
    pub fn fingerprint(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.0);
        format!("SHA256:{}", STANDARD_NO_PAD.encode(hash))
    }

    /// From its 32 bytes; whether they are a point of the curve shows when something is verified.
    pub fn from_bytes(bytes: [u8; 32]) -> PublicKey {
        PublicKey(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// As SubjectPublicKeyInfo, DER (RFC 8410): what TLS carries as a raw public key.
    pub fn to_spki_der(self) -> Vec<u8> {
        [SPKI_PREFIX.as_slice(), &self.0].concat()
    }

    /// From SubjectPublicKeyInfo, DER; `None` if it is anything but an Ed25519 key.
    pub fn from_spki_der(der: &[u8]) -> Option<PublicKey> {
        der.strip_prefix(&SPKI_PREFIX)?.try_into().ok().map(PublicKey)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_TYPE} {}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}
