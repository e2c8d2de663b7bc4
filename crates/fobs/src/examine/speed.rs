//! How fast one core of this host seals and hashes.

use fobs_channel::secure::datagram::{Cipher, Direction, TAG_LEN};
use fobs_channel::secure::schedule::{KeySchedule, SessionKeys, SessionSecret};
use fobs_model::host_facts::CipherSpeed;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Time slices measured, and the length of each. The best one counts: in the others something else ran.
const SLICES: u32 = 5;
const SLICE: Duration = Duration::from_millis(10);
/// Data bytes of a packet on a path of 1500 bytes, header bytes beside them.
const PACKET_LEN: usize = 1444;
const HEADER_LEN: usize = 12;
/// Bytes hashed at once: the smallest full chunk.
const HASHED_LEN: usize = 1 << 20;

/// Both ciphers, on packets of an ordinary path.
pub(super) fn ciphers() -> Vec<CipherSpeed> {
    [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305]
        .map(|cipher| CipherSpeed { name: cipher.name().to_owned(), bps: seal(cipher) })
        .into()
}

fn seal(cipher: Cipher) -> f64 {
    let keys = SessionKeys::derive(SessionSecret::random(), KeySchedule::Second, cipher);
    let (mut sealer, _) = keys.datagrams.of_end(Direction::Sender);
    let (header, body, mut sealed) = ([0; HEADER_LEN], [0; PACKET_LEN], [0; PACKET_LEN + TAG_LEN]);
    let mut number = 0;
    best_bps(PACKET_LEN, || {
        sealer.seal(number, &header, black_box(&body), &mut sealed);
        black_box(&sealed);
        number += 1;
    })
}

/// BLAKE3, bits per second.
pub(super) fn hash_bps() -> f64 {
    let data = vec![0; HASHED_LEN];
    best_bps(HASHED_LEN, || {
        black_box(blake3::hash(black_box(&data)));
    })
}

/// The best rate of several slices, bits per second, of work on `len` bytes.
fn best_bps(len: usize, mut work: impl FnMut()) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..SLICES {
        let (began, mut count) = (Instant::now(), 0_u64);
        while began.elapsed() < SLICE {
            work();
            count += 1;
        }
        best = best.max(count as f64 * len as f64 * 8.0 / began.elapsed().as_secs_f64());
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_and_the_hash_have_a_rate() {
        let found = ciphers();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|speed| speed.bps > 1e6), "{found:?}");
        assert!(hash_bps() > 1e6);
    }
}
