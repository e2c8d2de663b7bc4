//! The key of one AEAD, in the library that is faster on this CPU.
//!
//! aws-lc has AES-GCM for AVX-512, and else that of CPUs from 2010; ring has one for the wide AES
//! instructions (VAES) without AVX-512, as of AMD's Zen 3 and of Intel's CPUs for desktops. There, with the
//! copies that ring needs because it works in place, it seals and opens 1.5 times what aws-lc does in
//! packets of 1.4 KB, and 1.7 times in those of 8.9 KB (AMD EPYC Milan, one core: 4.0 instead of 2.6 GB/s,
//! and 6.1 instead of 3.6).

use super::cipher::{Cipher, TAG_LEN};
use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes of a nonce.
pub(super) const NONCE_LEN: usize = 12;

/// A key that seals and opens; the caller never seals with one nonce twice.
pub(super) enum PacketKey {
    AwsLc(LessSafeKey),
    #[cfg(target_arch = "x86_64")]
    Ring(wide::Key),
}

impl PacketKey {
    /// Takes the key of a cipher, which has its length.
    pub(super) fn new(cipher: Cipher, key: &[u8]) -> PacketKey {
        #[cfg(target_arch = "x86_64")]
        if cipher == Cipher::Aes128Gcm && wide::is_faster() {
            return PacketKey::Ring(wide::Key::new(key));
        }
        PacketKey::aws_lc(cipher, key)
    }

    fn aws_lc(cipher: Cipher, key: &[u8]) -> PacketKey {
        let unbound = UnboundKey::new(cipher.algorithm(), key).expect("the key has the algorithm's length");
        PacketKey::AwsLc(LessSafeKey::new(unbound))
    }

    /// Encrypts `body` into `secret`, of the same length, and writes the tag.
    ///
    /// # Panics
    /// If a length is another.
    pub(super) fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        header: &[u8],
        body: &[u8],
        secret: &mut [u8],
        tag: &mut [u8],
    ) {
        match self {
            PacketKey::AwsLc(key) => key
                .seal_out_of_place_scatter(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(header),
                    body,
                    secret,
                    &[],
                    tag,
                )
                .expect(
                    "the tag has its length, and a packet is far shorter than what one AEAD call can seal",
                ),
            #[cfg(target_arch = "x86_64")]
            PacketKey::Ring(key) => {
                secret.copy_from_slice(body);
                tag.copy_from_slice(key.seal_in_place(nonce, header, secret).as_ref());
            }
        }
    }

    /// Authenticates and decrypts `secret` into `body`, of the same length; `None` if it is not authentic:
    /// `body` is meaningless then.
    pub(super) fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        header: &[u8],
        secret: &[u8],
        tag: &[u8; TAG_LEN],
        body: &mut [u8],
    ) -> Option<()> {
        match self {
            PacketKey::AwsLc(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.open_separate_gather(nonce, Aad::from(header), secret, tag, body).ok()
            }
            #[cfg(target_arch = "x86_64")]
            PacketKey::Ring(key) => {
                if body.len() != secret.len() {
                    return None;
                }
                body.copy_from_slice(secret);
                key.open_in_place(nonce, header, *tag, body)
            }
        }
    }
}

/// AES-128-GCM by ring.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{NONCE_LEN, TAG_LEN};
    use fobs_sys::Erased;
    use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

    /// Whether this CPU has wide AES instructions, and not the AVX-512 that aws-lc uses them with.
    pub(super) fn is_faster() -> bool {
        let is_wide = std::arch::is_x86_feature_detected!("vaes")
            && std::arch::is_x86_feature_detected!("vpclmulqdq")
            && std::arch::is_x86_feature_detected!("avx2");
        is_wide && !std::arch::is_x86_feature_detected!("avx512bw")
    }

    /// A key, which ring does not overwrite.
    pub(in super::super) struct Key(Erased<LessSafeKey>);

    impl Key {
        pub(super) fn new(key: &[u8]) -> Key {
            let unbound = UnboundKey::new(&AES_128_GCM, key).expect("the key has the algorithm's length");
            Key(Erased::new(LessSafeKey::new(unbound)))
        }

        pub(super) fn seal_in_place(&self, nonce: [u8; NONCE_LEN], header: &[u8], body: &mut [u8]) -> Tag {
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(header), body);
            tag.expect("a packet is far shorter than what one AEAD call can seal")
        }

        pub(super) fn open_in_place(
            &self,
            nonce: [u8; NONCE_LEN],
            header: &[u8],
            tag: [u8; TAG_LEN],
            secret: &mut [u8],
        ) -> Option<()> {
            let (nonce, tag) = (Nonce::assume_unique_for_key(nonce), Tag::from(tag));
            self.0.open_in_place_separate_tag(nonce, Aad::from(header), tag, secret, 0..).ok().map(|_| ())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies around the block lengths of both libraries, bytes.
    const LENGTHS: [usize; 11] = [0, 1, 15, 16, 17, 95, 96, 1372, 8900, 16_384, 65_000];

    fn both() -> Vec<PacketKey> {
        let key = [3; 16];
        let mut keys = vec![PacketKey::aws_lc(Cipher::Aes128Gcm, &key)];
        #[cfg(target_arch = "x86_64")]
        keys.push(PacketKey::Ring(wide::Key::new(&key)));
        keys
    }

    #[test]
    fn both_libraries_make_and_open_the_same_packets() {
        for len in LENGTHS {
            let body: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let mut made = Vec::new();
            for key in both() {
                let (mut secret, mut tag) = (vec![0; len], [0; TAG_LEN]);
                key.seal([9; NONCE_LEN], b"header", &body, &mut secret, &mut tag);
                made.push((secret, tag));
            }
            assert!(made.windows(2).all(|pair| pair[0] == pair[1]), "of {len} bytes");
            for key in both() {
                let (secret, tag) = &made[0];
                let mut opened = vec![1; len];
                assert_eq!(key.open([9; NONCE_LEN], b"header", secret, tag, &mut opened), Some(()));
                assert!(opened == body, "of {len} bytes");
            }
        }
    }

    #[test]
    fn what_is_not_authentic_opens_nowhere() {
        for key in both() {
            let (mut secret, mut tag) = (vec![0; 100], [0; TAG_LEN]);
            key.seal([9; NONCE_LEN], b"header", &[5; 100], &mut secret, &mut tag);
            let mut body = vec![0; 100];
            let mut opens = |nonce, header: &[u8], secret: &[u8], tag: &[u8; TAG_LEN]| {
                key.open(nonce, header, secret, tag, &mut body).is_some()
            };
            assert!(opens([9; NONCE_LEN], b"header", &secret, &tag));
            assert!(!opens([8; NONCE_LEN], b"header", &secret, &tag));
            assert!(!opens([9; NONCE_LEN], b"other", &secret, &tag));
            assert!(!opens([9; NONCE_LEN], b"header", &secret, &[0; TAG_LEN]));
            assert!(!opens([9; NONCE_LEN], b"header", &secret[1..], &tag));
            secret[99] ^= 1;
            assert!(!opens([9; NONCE_LEN], b"header", &secret, &tag));
        }
    }
}
