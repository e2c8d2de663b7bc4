//! Chunks as bytes: damaged, malicious and random ones.

use proptest::prelude::*;

use super::super::chunk::{Encoding, Form, Layout, RECORDS_MAX, TRAILER_LEN};
use super::super::*;
use super::support::*;

/// A chunk with several files in it, as a source makes it.
fn real_chunk(compress: bool) -> Vec<u8> {
    let world = World::new();
    world.write("tree/small", &content(100, 1));
    world.write("tree/text", &b"words and more words ".repeat(300));
    world.write("tree/empty", b"");
    std::os::unix::fs::symlink("small", world.from("tree/link")).expect("a link");
    let mut source =
        Source::open(SourceSpec { compress, ..spec(&[&world.from("tree")]) }).expect("the source");
    let mut buf = vec![0; CHUNK_LEN_MAX];
    let filled = source.next_chunk(&mut buf, CHUNK_DATA_MAX).expect("a chunk");
    assert!(filled.is_final);
    buf.truncate(filled.len);
    buf
}

#[test]
fn any_damaged_byte_is_noticed() {
    let mut chunk = real_chunk(false);
    let mut scratch = Vec::new();
    verify(&chunk, &mut scratch).expect("it is good");
    for at in 0..chunk.len() {
        for damage in [1, 0x80, 0xff] {
            chunk[at] ^= damage;
            assert!(verify(&chunk, &mut scratch).is_err(), "byte {at} xor {damage}");
            chunk[at] ^= damage;
        }
    }
    for len in 0..chunk.len() {
        assert!(verify(&chunk[..len], &mut scratch).is_err(), "cut to {len}");
    }
}

#[test]
fn damage_to_a_compressed_chunk_never_changes_content() {
    let mut chunk = real_chunk(true);
    let mut scratch = Vec::new();
    let good = verify(&chunk, &mut scratch).expect("it is good");
    assert_eq!(good.layout.encoding, Encoding::Zstd);
    let body = scratch[..good.layout.body_len()].to_vec();
    let mut noticed = 0;
    for at in 0..chunk.len() {
        chunk[at] ^= 0x10;
        match verify(&chunk, &mut scratch) {
            // zstd's frames have bits that mean nothing.
            Ok(_) => assert!(scratch[..body.len()] == body, "byte {at}"),
            Err(_) => noticed += 1,
        }
        chunk[at] ^= 0x10;
    }
    assert!(noticed + 8 > chunk.len(), "{noticed} of {}", chunk.len());
}

#[test]
fn damage_is_told_from_nonsense() {
    let mut chunk = real_chunk(false);
    chunk[0] ^= 1;
    assert_eq!(verify(&chunk, &mut Vec::new()), Err(VerifyError::Mismatch));
    assert!(matches!(verify(&[], &mut Vec::new()), Err(VerifyError::Malformed(_))));
}

/// A chunk of `stored` that claims to unpack to these lengths.
fn packed(stored: &[u8], data_len: usize, records_len: usize) -> Vec<u8> {
    let mut chunk = [stored, &[0; TRAILER_LEN]].concat();
    let layout =
        Layout { data_len, records_len, encoding: Encoding::Zstd, form: Form::Whole, digest: [0; 32] };
    layout.encode(&mut chunk, stored.len());
    chunk
}

#[test]
fn bombs_end_at_the_declared_length() {
    let bomb = zstd::bulk::compress(&vec![0; 256 << 20], 19).expect("zstd works");
    assert!(bomb.len() < 64 << 10);
    let mut scratch = Vec::new();
    for (data_len, records_len) in [(0, 0), (1, 0), (CHUNK_DATA_MAX, RECORDS_MAX)] {
        let chunk = packed(&bomb, data_len, records_len);
        assert!(matches!(verify(&chunk, &mut scratch), Err(VerifyError::Malformed(_))));
        assert!(scratch.len() <= CHUNK_DATA_MAX + RECORDS_MAX);
        assert!(scratch.capacity() <= 2 * CHUNK_LEN_MAX);
    }
    // Shorter than declared is refused too.
    let short = zstd::bulk::compress(&[0; 10], 1).expect("zstd works");
    assert!(matches!(verify(&packed(&short, 11, 0), &mut scratch), Err(VerifyError::Malformed(_))));
    // And lengths beyond a chunk's are refused before anything is allocated.
    let mut scratch = Vec::new();
    let mut chunk = packed(&bomb, 0, 0);
    let trailer = chunk.len() - TRAILER_LEN;
    chunk[trailer..trailer + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(verify(&chunk, &mut scratch), Err(VerifyError::Malformed(_))));
    assert_eq!(scratch.capacity(), 0);
}

/// Of nothing zstd makes a frame of some bytes; no bytes at all would unpack to nothing too.
#[test]
fn no_bytes_are_no_compressed_body() {
    let mut chunk = seal(&[], &[]);
    assert!(verify(&chunk, &mut Vec::new()).is_ok());
    let at = chunk.len() - TRAILER_LEN + 8;
    chunk[at] = 1;
    assert!(matches!(verify(&chunk, &mut Vec::new()), Err(VerifyError::Malformed(_))));
}

proptest! {
    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(verify(&bytes, &mut Vec::new()).is_err());
    }

    #[test]
    fn random_bodies_are_refused_or_make_sense(
        data in prop::collection::vec(any::<u8>(), 0..100),
        records in prop::collection::vec(prop_oneof![0_u8..8, any::<u8>()], 0..60),
        flags in 0_u32..3,
    ) {
        let mut chunk = seal(&data, &records);
        let at = chunk.len() - TRAILER_LEN + 8;
        chunk[at..at + 4].copy_from_slice(&flags.to_le_bytes());
        // It may verify by chance; it must not panic.
        if let Ok(verified) = verify(&chunk, &mut Vec::new()) {
            prop_assert_eq!(verified.data_bytes(), data.len() as u64);
            prop_assert_eq!(flags, 0);
        }
    }
}
