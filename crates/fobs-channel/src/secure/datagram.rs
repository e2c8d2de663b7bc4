//! Packet protection (protocol 3.1 to 3.5): one [`Sealer`] and one [`Opener`] per direction.
//!
//! The keys of an epoch follow from the packet number, so that no message is needed. A packet costs one AEAD
//! operation with cached keys, and allocates nothing.

use std::collections::VecDeque;
use std::fmt;

use aws_lc_rs::hkdf::Prk;
use zeroize::Zeroizing;

pub use super::cipher::{Cipher, Direction, TAG_LEN};
use super::labels::{Failures, Labels};
use super::packet_key::{NONCE_LEN, PacketKey};
use super::replay::REPLAY_WINDOW;

/// Packets per epoch, as a power of two: 4,194,304, below the 2^23 of RFC 9001 section 6.6 (protocol 3.3).
pub const EPOCH_BITS: u32 = 22;
/// A session ends before this packet number (protocol 3.4).
pub const PACKET_NUMBER_END: u64 = 1 << 62;
/// Most epochs between the newest authenticated packet and a new one. A correct sender is at most one ahead
/// (an epoch is longer than any round trip); the second is slack. It bounds the derivations that a forged
/// packet number can cause.
pub const EPOCHS_AHEAD_MAX: u64 = 2;

/// Seals the packets of one direction.
#[derive(Debug)]
pub struct Sealer {
    ratchet: Ratchet,
    keys: EpochKeys,
    /// Smallest packet number not sealed yet.
    next: u64,
}

impl Sealer {
    /// Takes the keys of a direction.
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
        self.keys.key.seal(self.keys.nonce(packet_number), header, body, secret, tag);
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
    /// The first packet number that makes keys useless.
    forget_at: u64,
    failures: Failures,
}

impl Opener {
    /// Takes the keys of a direction. What fails to open is added to `failures`.
    pub(super) fn of(mut ratchet: Ratchet, failures: Failures) -> Opener {
        let mut epochs = VecDeque::with_capacity(2 + EPOCHS_AHEAD_MAX as usize);
        epochs.push_back(ratchet.advance());
        Opener { ratchet, current: 0, epochs, forget_at: 1 << EPOCH_BITS, failures }
    }

    /// The number of packets and records that may fail to open in this session, once as many have: more are
    /// not to be tried, because each is a guess (RFC 9001 section 6.6).
    pub fn spent(&self) -> Option<u64> {
        self.failures.spent()
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
        let (secret, tag) = sealed.split_last_chunk()?;
        if keys.key.open(keys.nonce(packet_number), header, secret, tag, body).is_none() {
            self.failures.add();
            return None;
        }
        if packet_number >= self.forget_at {
            self.forget(packet_number, epoch);
        }
        Some(())
    }

    /// Forgets the keys of epochs whose packets would be dropped: those before the previous one, and the
    /// previous one too once it is behind the replay window.
    fn forget(&mut self, packet_number: u64, epoch: u64) {
        self.current = epoch;
        let behind_window = (epoch << EPOCH_BITS) + REPLAY_WINDOW;
        let (kept, next) = if packet_number >= behind_window {
            (epoch, (epoch + 1) << EPOCH_BITS)
        } else {
            (epoch - 1, behind_window)
        };
        while self.epochs.front().is_some_and(|oldest| oldest.epoch < kept) {
            self.epochs.pop_front();
        }
        self.forget_at = next;
    }
}

/// The keys of one epoch.
struct EpochKeys {
    epoch: u64,
    key: PacketKey,
    iv: Zeroizing<[u8; NONCE_LEN]>,
}

impl EpochKeys {
    /// `iv XOR packet_number`, the number in the low 64 of 96 bits (protocol 3.4).
    fn nonce(&self, packet_number: u64) -> [u8; NONCE_LEN] {
        // Written as two words, because the cipher reads eight bytes at once and need not wait for single
        // stores.
        let [iv @ .., a, b, c, d] = *self.iv;
        let high = u64::from_be_bytes(iv) ^ (packet_number >> 32);
        let low = u32::from_be_bytes([a, b, c, d]) ^ packet_number as u32;
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&high.to_be_bytes());
        nonce[8..].copy_from_slice(&low.to_be_bytes());
        nonce
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
    labels: Labels,
    traffic: Prk,
    next_epoch: u64,
}

impl Ratchet {
    /// A chain that begins with this traffic secret.
    pub(super) fn of(labels: Labels, traffic: Prk) -> Ratchet {
        Ratchet { labels, traffic, next_epoch: 0 }
    }

    /// The keys of `next_epoch`; advances to the one after.
    fn advance(&mut self) -> EpochKeys {
        let cipher = self.labels.cipher;
        let mut key = Zeroizing::new([0; 32]);
        let key_bytes = &mut key[..cipher.algorithm().key_len()];
        self.labels.fill(&self.traffic, "key", key_bytes);
        let key = PacketKey::new(cipher, key_bytes);
        let mut iv = Zeroizing::new([0; NONCE_LEN]);
        self.labels.fill(&self.traffic, "iv", &mut *iv);

        let epoch = self.next_epoch;
        self.traffic = self.labels.next(&self.traffic, "next");
        self.next_epoch += 1;
        EpochKeys { epoch, key, iv }
    }
}

impl fmt::Debug for Ratchet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ratchet({}, next epoch {})", self.labels.cipher.name(), self.next_epoch)
    }
}

#[cfg(test)]
mod tests;
