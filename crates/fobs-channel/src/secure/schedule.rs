//! From the secret of a session to its keys (protocol 3.2, 3.3, 10.1).
//!
//! The secret is consumed. What is left are the traffic secrets of the two directions, which only lead to
//! later epochs, and what streams need ([`StreamKeys`]).

use std::fmt;

use aws_lc_rs::hkdf::{self, HKDF_SHA256, Prk};
use zeroize::Zeroizing;

use super::cipher::{Cipher, Direction};
use super::datagram::{Opener, Ratchet, Sealer};
pub use super::labels::KeySchedule;
use super::labels::{Failures, Labels};
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
        let fill = |to: &mut [u8; 32]| {
            if bytes.len() == to.len() {
                to.copy_from_slice(bytes);
                Ok(())
            } else {
                Err(())
            }
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

/// Every key of a session, before it is given to its users.
#[derive(Debug)]
pub struct SessionKeys {
    /// Those of packets.
    pub datagrams: DatagramKeys,
    /// Those of streams.
    pub streams: StreamKeys,
    /// Those of the packets of each lane beside the first, under the second schedule (protocol 13).
    pub lanes: Vec<DatagramKeys>,
}

/// The labels of the lanes beside the first.
const LANE_LABELS: &[&str] = &[
    "lane 1", "lane 2", "lane 3", "lane 4", "lane 5", "lane 6", "lane 7", "lane 8", "lane 9", "lane 10",
    "lane 11", "lane 12", "lane 13", "lane 14", "lane 15",
];

impl SessionKeys {
    /// Derives all that will be needed; the secret is gone then.
    pub fn derive(secret: SessionSecret, schedule: KeySchedule, cipher: Cipher) -> SessionKeys {
        SessionKeys::with_lanes(secret, schedule, cipher, 1)
    }

    /// The same for a session of this number of lanes.
    pub fn with_lanes(
        secret: SessionSecret,
        schedule: KeySchedule,
        cipher: Cipher,
        lanes: usize,
    ) -> SessionKeys {
        let further = lanes.saturating_sub(1);
        SessionKeys::of(secret, schedule, cipher, (cipher.failures_max(), further))
    }

    /// The same; `failures_max` packets and records may fail to open.
    pub fn limited(
        secret: SessionSecret,
        schedule: KeySchedule,
        cipher: Cipher,
        failures_max: u64,
    ) -> SessionKeys {
        SessionKeys::of(secret, schedule, cipher, (failures_max, 0))
    }

    fn of(
        secret: SessionSecret,
        schedule: KeySchedule,
        cipher: Cipher,
        (failures_max, lanes): (u64, usize),
    ) -> SessionKeys {
        let extracted = schedule.extract(&secret);
        drop(secret);
        let labels = Labels::new(schedule, cipher);
        let failures = Failures::at_most(failures_max);
        let traffic = |direction: Direction| Ratchet::of(labels, labels.next(&extracted, direction.label()));
        let mut pieces = PieceKey(Zeroizing::new([0; 32]));
        labels.fill(&extracted, "pieces", &mut *pieces.0);
        let datagrams = DatagramKeys {
            sender: traffic(Direction::Sender),
            receiver: traffic(Direction::Receiver),
            failures: failures.clone(),
            pieces,
        };
        let lane = |label: &'static str| {
            let secret = labels.next(&extracted, label);
            let traffic = |direction: Direction| Ratchet::of(labels, labels.next(&secret, direction.label()));
            DatagramKeys {
                sender: traffic(Direction::Sender),
                receiver: traffic(Direction::Receiver),
                failures: failures.clone(),
                pieces: datagrams.pieces.clone(),
            }
        };
        let lanes = match schedule {
            KeySchedule::First => Vec::new(),
            KeySchedule::Second => LANE_LABELS.iter().take(lanes).map(|label| lane(label)).collect(),
        };
        let pass = StreamPass::new(labels, &extracted);
        let streams = match schedule {
            KeySchedule::First => StreamKeys::of_any_index(labels, extracted, pass, failures),
            KeySchedule::Second => {
                StreamKeys::in_order(labels, labels.next(&extracted, "streams"), pass, failures)
            }
        };
        SessionKeys { datagrams, streams, lanes }
    }
}

/// The keys of both directions of packets. Each end takes them once, so no nonce is used twice.
#[derive(Debug)]
pub struct DatagramKeys {
    sender: Ratchet,
    receiver: Ratchet,
    failures: Failures,
    /// For names of pieces of files, which are no secret to either end.
    pieces: PieceKey,
}

/// The key of the names of pieces; never shown.
#[derive(Clone)]
struct PieceKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for PieceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PieceKey(..)")
    }
}

impl DatagramKeys {
    /// The key of the names of pieces (protocol 7.9).
    pub fn pieces(&self) -> [u8; 32] {
        *self.pieces.0
    }

    /// The same with another key of those names.
    #[cfg(any(test, feature = "testing"))]
    pub fn with_pieces(self, pieces: [u8; 32]) -> DatagramKeys {
        DatagramKeys { pieces: PieceKey(Zeroizing::new(pieces)), ..self }
    }

    /// Seals what the end that emits `ours` sends, and opens what it receives.
    pub fn of_end(self, ours: Direction) -> (Sealer, Opener) {
        let (ours, theirs) = match ours {
            Direction::Sender => (self.sender, self.receiver),
            Direction::Receiver => (self.receiver, self.sender),
        };
        (Sealer::of(ours), Opener::of(theirs, self.failures))
    }
}

/// That of a session with this secret.
#[cfg(any(test, feature = "testing"))]
pub fn pass_of(secret: [u8; 32]) -> StreamPass {
    let (secret, cipher) = (SessionSecret::new(secret), Cipher::Aes128Gcm);
    SessionKeys::derive(secret, KeySchedule::Second, cipher).streams.pass().clone()
}

#[cfg(test)]
mod tests;
