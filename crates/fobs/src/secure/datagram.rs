//! Packet protection (protocol 3.1 to 3.4): one [`Sealer`] and one [`Opener`] per direction.
//!
//! The keys of an epoch follow from the packet number, so that no message is needed. Nothing allocates after
//! construction, and a packet costs one AEAD operation with cached keys.

use std::collections::VecDeque;
use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{self, HKDF_SHA256};

use super::wipe;

/// Bytes that sealing adds to a packet (protocol 3.1).
pub const TAG_LEN: usize = 16;
/// Packets per epoch, as a power of two: 4,194,304, below the 2^23 of RFC 9001 section 6.6 (protocol 3.3).
pub const EPOCH_BITS: u32 = 22;
/// A session ends before this packet number (protocol 3.4).
pub const PACKET_NUMBER_END: u64 = 1 << 62;
/// Most epochs between the newest authenticated packet and a new one. A correct sender is at most one ahead
/// (an epoch is longer than any round trip); the second is slack. It bounds the derivations that a forged
/// packet number can cause.
pub const EPOCHS_AHEAD_MAX: u64 = 2;

/// The two AEADs of the data plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// Fastest where the CPU has AES instructions.
    Aes128Gcm,
    /// Fastest elsewhere.
    ChaCha20Poly1305,
}

impl Cipher {
    /// The name on the control channel and in output.
    pub fn name(self) -> &'static str {
        match self {
            Cipher::Aes128Gcm => "AES-128-GCM",
            Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    /// The cipher of this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Cipher> {
        [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305].into_iter().find(|cipher| cipher.name() == name)
    }

    /// The faster one on this CPU: AES-128-GCM where it has instructions for AES and carry-less
    /// multiplication (measured: 7.9 against 1.7 GB/s on 1.4 KB packets), else ChaCha20-Poly1305.
    pub fn best_here() -> Cipher {
        #[cfg(target_arch = "x86_64")]
        let fast_aes =
            std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let fast_aes = std::arch::is_aarch64_feature_detected!("aes")
            && std::arch::is_aarch64_feature_detected!("pmull");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let fast_aes = false;

        if fast_aes { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// The 32 bytes that all keys of a session come from (protocol 3.2). Wiped when dropped, never printed.
pub struct SessionSecret([u8; 32]);

impl SessionSecret {
    /// The secret of the TLS exporter or of the `accept` message.
    pub fn new(bytes: [u8; 32]) -> SessionSecret {
        SessionSecret(bytes)
    }

    /// A fresh secret from the operating system.
    ///
    /// # Panics
    /// If the operating system provides no randomness.
    pub fn random() -> SessionSecret {
        SessionSecret(super::random_bytes())
    }

    /// The bytes themselves, for the `accept` message over SSH.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What all keys of the session are expanded from.
    pub(super) fn extract(&self) -> hkdf::Prk {
        hkdf::Salt::new(HKDF_SHA256, b"fobs v1").extract(&self.0)
    }
}

impl Drop for SessionSecret {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(..)")
    }
}

/// The side that emits the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The sender of data.
    Sender,
    /// The receiver of data.
    Receiver,
}

impl Direction {
    /// The info string of the first traffic secret (protocol 3.2).
    fn label(self) -> &'static [u8] {
        match self {
            Direction::Sender => b"fobs sender",
            Direction::Receiver => b"fobs receiver",
        }
    }
}

/// Seals the packets of one direction.
#[derive(Debug)]
pub struct Sealer {
    ratchet: Ratchet,
    keys: EpochKeys,
    /// Smallest packet number not sealed yet.
    next: u64,
}

impl Sealer {
    /// Keys for the packets that `direction` emits.
    pub fn new(secret: &SessionSecret, cipher: Cipher, direction: Direction) -> Sealer {
        Sealer::of(Ratchet::new(secret, cipher, direction))
    }

    pub(super) fn of(mut ratchet: Ratchet) -> Sealer {
        let keys = ratchet.advance();
        Sealer { ratchet, keys, next: 0 }
    }

    /// Encrypts `body` into `sealed`, which is longer by [`TAG_LEN`]; `header` is authenticated, not
    /// encrypted. Not in place: the body is in a chunk and would have to be copied to its datagram first.
    ///
    /// # Panics
    /// If `sealed` has another length, or if the packet number does not increase from call to call, skips
    /// more than [`EPOCHS_AHEAD_MAX`] epochs, or reaches [`PACKET_NUMBER_END`]: two packets with one number
    /// would reveal both.
    pub fn seal(&mut self, packet_number: u64, header: &[u8], body: &[u8], sealed: &mut [u8]) {
        assert!(packet_number >= self.next, "packet number {packet_number} is used twice or out of order");
        assert!(packet_number < PACKET_NUMBER_END, "the packet numbers of this session are used up");
        self.next = packet_number + 1;

        let epoch = packet_number >> EPOCH_BITS;
        assert!(epoch <= self.keys.epoch + EPOCHS_AHEAD_MAX, "no receiver follows a leap to epoch {epoch}");
        while self.keys.epoch < epoch {
            self.keys = self.ratchet.advance();
        }
        let (secret, tag) = sealed.split_at_mut(body.len());
        self.keys
            .key
            .seal_out_of_place_scatter(
                self.keys.nonce(packet_number),
                Aad::from(header),
                body,
                secret,
                &[],
                tag,
            )
            .expect("the tag has its length, and a packet is far shorter than what one AEAD call can seal");
    }
}

/// Opens the packets of one direction.
#[derive(Debug)]
pub struct Opener {
    ratchet: Ratchet,
    /// Newest epoch of an authenticated packet.
    current: u64,
    /// Keys of consecutive epochs: the previous, the current, and later ones that were tried. Those are kept,
    /// so that many forgeries cost one derivation.
    epochs: VecDeque<EpochKeys>,
}

impl Opener {
    /// Keys for the packets that `direction` emits.
    pub fn new(secret: &SessionSecret, cipher: Cipher, direction: Direction) -> Opener {
        Opener::of(Ratchet::new(secret, cipher, direction))
    }

    pub(super) fn of(mut ratchet: Ratchet) -> Opener {
        let mut epochs = VecDeque::with_capacity(2 + EPOCHS_AHEAD_MAX as usize);
        epochs.push_back(ratchet.advance());
        Opener { ratchet, current: 0, epochs }
    }

    /// Authenticates and decrypts `sealed` into `body`, which is shorter by [`TAG_LEN`]. False for a packet
    /// of another session, of an epoch too far off, or that was modified; the content of `body` is then
    /// meaningless, and the state is unchanged.
    #[must_use]
    pub fn open(&mut self, packet_number: u64, header: &[u8], sealed: &[u8], body: &mut [u8]) -> bool {
        self.try_open(packet_number, header, sealed, body).is_some()
    }

    fn try_open(&mut self, packet_number: u64, header: &[u8], sealed: &[u8], body: &mut [u8]) -> Option<()> {
        let epoch = packet_number >> EPOCH_BITS;
        let oldest = self.epochs.front()?.epoch;
        if packet_number >= PACKET_NUMBER_END || epoch < oldest || epoch > self.current + EPOCHS_AHEAD_MAX {
            return None;
        }
        while self.ratchet.next_epoch <= epoch {
            self.epochs.push_back(self.ratchet.advance());
        }
        let keys = &self.epochs[(epoch - oldest) as usize];
        let (secret, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG_LEN)?)?;
        keys.key
            .open_separate_gather(keys.nonce(packet_number), Aad::from(header), secret, tag, body)
            .ok()?;
        if epoch > self.current {
            self.current = epoch;
            while self.epochs.front().is_some_and(|oldest| oldest.epoch + 1 < epoch) {
                self.epochs.pop_front();
            }
        }
        Some(())
    }
}

/// The keys of one epoch.
struct EpochKeys {
    epoch: u64,
    key: LessSafeKey,
    iv: [u8; 12],
}

impl EpochKeys {
    /// `iv XOR packet_number`, the number in the low 64 of 96 bits (protocol 3.4).
    fn nonce(&self, packet_number: u64) -> Nonce {
        // Written as two words, because the cipher reads eight bytes at once and need not wait for single
        // stores.
        let [iv @ .., a, b, c, d] = self.iv;
        let high = u64::from_be_bytes(iv) ^ (packet_number >> 32);
        let low = u32::from_be_bytes([a, b, c, d]) ^ packet_number as u32;
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&high.to_be_bytes());
        nonce[8..].copy_from_slice(&low.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

impl fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochKeys({})", self.epoch)
    }
}

/// The chain of traffic secrets (protocol 3.2). It holds the secret of an epoch only until the keys of that
/// epoch are made, so that it cannot decrypt earlier packets.
pub(super) struct Ratchet {
    cipher: Cipher,
    traffic: hkdf::Prk,
    next_epoch: u64,
}

impl Ratchet {
    fn new(secret: &SessionSecret, cipher: Cipher, direction: Direction) -> Ratchet {
        Ratchet::of(cipher, next_secret(&secret.extract(), direction.label()))
    }

    /// A chain that begins with this traffic secret.
    pub(super) fn of(cipher: Cipher, traffic: hkdf::Prk) -> Ratchet {
        Ratchet { cipher, traffic, next_epoch: 0 }
    }

    /// The keys of `next_epoch`; advances to the one after.
    fn advance(&mut self) -> EpochKeys {
        let algorithm = self.cipher.algorithm();
        let mut key = [0; 32];
        let key_bytes = &mut key[..algorithm.key_len()];
        expand(&self.traffic, b"fobs key", key_bytes);
        let unbound = UnboundKey::new(algorithm, key_bytes).expect("the key has the algorithm's length");
        wipe(&mut key);
        let mut iv = [0; 12];
        expand(&self.traffic, b"fobs iv", &mut iv);

        let epoch = self.next_epoch;
        self.traffic = next_secret(&self.traffic, b"fobs next");
        self.next_epoch += 1;
        EpochKeys { epoch, key: LessSafeKey::new(unbound), iv }
    }
}

impl fmt::Debug for Ratchet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ratchet({}, next epoch {})", self.cipher.name(), self.next_epoch)
    }
}

struct OutputLen(usize);

impl hkdf::KeyType for OutputLen {
    fn len(&self) -> usize {
        self.0
    }
}

pub(super) fn expand(secret: &hkdf::Prk, info: &[u8], output: &mut [u8]) {
    secret
        .expand(&[info], OutputLen(output.len()))
        .and_then(|material| material.fill(output))
        .expect("the output is far shorter than 255 hashes");
}

pub(super) fn next_secret(secret: &hkdf::Prk, info: &[u8]) -> hkdf::Prk {
    secret.expand(&[info], HKDF_SHA256).expect("one hash of output is always allowed").into()
}

#[cfg(test)]
mod tests;
