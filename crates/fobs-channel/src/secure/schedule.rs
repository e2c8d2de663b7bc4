//! From the secret of a session to its keys (protocol 3.2, 3.3, 10.1).
//!
//! The secret is consumed. What is left are the traffic secrets of the two directions, which only lead to
//! later epochs, and what streams need ([`StreamKeys`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::hkdf::{self, HKDF_SHA256, Prk};
use zeroize::Zeroizing;

use super::datagram::{Cipher, Direction, Opener, Ratchet, Sealer};
use super::stream::StreamPass;
use super::stream_keys::StreamKeys;

/// The 32 bytes that all keys of a session come from (protocol 3.2). Wiped when dropped, never printed. They
/// stay at one place in memory, because a value that moves leaves its bytes behind.
pub struct SessionSecret(Box<Zeroizing<[u8; 32]>>);

impl SessionSecret {
    /// One that `fill` writes.
    pub fn filled<E>(
        fill: impl FnOnce(&mut [u8; 32]) -> std::result::Result<(), E>,
    ) -> std::result::Result<SessionSecret, E> {
        let mut bytes = Box::new(Zeroizing::new([0; 32]));
        fill(&mut bytes)?;
        Ok(SessionSecret(bytes))
    }

    /// The secret of an `accept` message; `None` if that is not of 32 bytes.
    pub fn told(bytes: &[u8]) -> Option<SessionSecret> {
        let fill = |to: &mut [u8; 32]| match bytes.len() == to.len() {
            true => {
                to.copy_from_slice(bytes);
                Ok(())
            }
            false => Err(()),
        };
        SessionSecret::filled(fill).ok()
    }

    /// A fresh secret from the operating system.
    ///
    /// # Panics
    /// If the operating system provides no randomness.
    pub fn random() -> SessionSecret {
        SessionSecret::filled(|bytes| getrandom::fill(bytes))
            .expect("the operating system gives random bytes")
    }

    /// A known one.
    #[cfg(any(test, feature = "testing"))]
    pub fn new(bytes: [u8; 32]) -> SessionSecret {
        SessionSecret(Box::new(Zeroizing::new(bytes)))
    }

    /// The bytes themselves, for the `accept` message.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(..)")
    }
}

/// How keys follow from the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySchedule {
    /// That of programs without the feature `keys2`: labels name neither cipher nor version, and what keys of
    /// streams come from yields every key of the session.
    First,
    /// Labels name both, and the keys of a stream that was used cannot be derived again.
    Second,
}

impl KeySchedule {
    /// The number in `accept`.
    pub fn number(self) -> u8 {
        match self {
            KeySchedule::First => 1,
            KeySchedule::Second => 2,
        }
    }

    /// The schedule of this [`number`](Self::number).
    pub fn from_number(number: u8) -> Option<KeySchedule> {
        [KeySchedule::First, KeySchedule::Second].into_iter().find(|schedule| schedule.number() == number)
    }

    fn extract(self, secret: &SessionSecret) -> Prk {
        let salt: &[u8] = match self {
            KeySchedule::First => b"fobs v1",
            KeySchedule::Second => b"fobs keys 2",
        };
        hkdf::Salt::new(HKDF_SHA256, salt).extract(secret.as_bytes())
    }
}

/// The info strings of one session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Labels {
    schedule: KeySchedule,
    pub(super) cipher: Cipher,
}

impl Labels {
    fn info(self, what: &'static str) -> [&'static [u8]; 4] {
        match self.schedule {
            KeySchedule::First => [b"fobs ", what.as_bytes(), b"", b""],
            KeySchedule::Second => [b"fobs/1 ", self.cipher.name().as_bytes(), b" ", what.as_bytes()],
        }
    }

    /// Bytes that follow from a secret.
    pub(super) fn fill(self, secret: &Prk, what: &'static str, output: &mut [u8]) {
        secret
            .expand(&self.info(what), OutputLen(output.len()))
            .and_then(|material| material.fill(output))
            .expect("the output is far shorter than 255 hashes");
    }

    /// A secret that follows from a secret.
    pub(super) fn next(self, secret: &Prk, what: &'static str) -> Prk {
        next_secret(secret, &self.info(what))
    }
}

struct OutputLen(usize);

impl hkdf::KeyType for OutputLen {
    fn len(&self) -> usize {
        self.0
    }
}

pub(super) fn next_secret(secret: &Prk, info: &[&[u8]]) -> Prk {
    secret.expand(info, HKDF_SHA256).expect("one hash of output is always allowed").into()
}

/// Every key of a session, before it is given to its users.
#[derive(Debug)]
pub struct SessionKeys {
    /// Those of packets.
    pub datagrams: DatagramKeys,
    /// Those of streams.
    pub streams: StreamKeys,
}

impl SessionKeys {
    /// Derives all that will be needed; the secret is gone then.
    pub fn derive(secret: SessionSecret, schedule: KeySchedule, cipher: Cipher) -> SessionKeys {
        SessionKeys::limited(secret, schedule, cipher, cipher.failures_max())
    }

    /// The same; `failures_max` packets and records may fail to open.
    pub fn limited(
        secret: SessionSecret,
        schedule: KeySchedule,
        cipher: Cipher,
        failures_max: u64,
    ) -> SessionKeys {
        let extracted = schedule.extract(&secret);
        drop(secret);
        let labels = Labels { schedule, cipher };
        let failures = Failures { count: Arc::default(), max: failures_max };
        let traffic = |direction: Direction| Ratchet::of(labels, labels.next(&extracted, direction.label()));
        let datagrams = DatagramKeys {
            sender: traffic(Direction::Sender),
            receiver: traffic(Direction::Receiver),
            failures: failures.clone(),
        };
        let pass = StreamPass::new(labels, &extracted);
        let streams = match schedule {
            KeySchedule::First => StreamKeys::of_any_index(labels, extracted, pass, failures),
            KeySchedule::Second => {
                StreamKeys::in_order(labels, labels.next(&extracted, "streams"), pass, failures)
            }
        };
        SessionKeys { datagrams, streams }
    }
}

/// The keys of both directions of packets. Each end takes them once, so no nonce is used twice.
#[derive(Debug)]
pub struct DatagramKeys {
    sender: Ratchet,
    receiver: Ratchet,
    failures: Failures,
}

impl DatagramKeys {
    /// Seals what the end that emits `ours` sends, and opens what it receives.
    pub fn of_end(self, ours: Direction) -> (Sealer, Opener) {
        let (ours, theirs) = match ours {
            Direction::Sender => (self.sender, self.receiver),
            Direction::Receiver => (self.receiver, self.sender),
        };
        (Sealer::of(ours), Opener::of(theirs, self.failures))
    }
}

/// How many packets and records of a session have failed to open. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Failures {
    count: Arc<AtomicU64>,
    max: u64,
}

impl Failures {
    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The limit, once it is reached.
    pub(super) fn spent(&self) -> Option<u64> {
        (self.count.load(Ordering::Relaxed) >= self.max).then_some(self.max)
    }
}

#[cfg(test)]
mod tests;
