//! Listings and decisions.

use fobs_store::survey::{BATCH_ROWS_MAX, BatchWriter, Choice, decode_batch};

/// Any bytes as a batch of rows, and any bytes as the rows in one.
pub(super) fn batch(input: &[u8]) {
    let _ = decode_batch(input);
    let packed = zstd::bulk::compress(input, 1).expect("zstd packs anything");
    let Ok(rows) = decode_batch(&packed) else { return };
    assert!(rows.len() <= BATCH_ROWS_MAX);
    let mut writer = BatchWriter::default();
    rows.iter().for_each(|row| writer.push(row));
    let again = writer.finish().expect("zstd packs anything");
    assert_eq!(decode_batch(&again), Ok(rows));
}

/// The answers to a batch.
pub(super) fn choices(mut input: &[u8]) {
    while let Ok((choice, rest)) = Choice::decode(input) {
        assert!(rest.len() < input.len());
        let mut bytes = Vec::new();
        choice.encode(&mut bytes);
        assert_eq!(Choice::decode(&bytes), Ok((choice, &[][..])));
        input = rest;
    }
}
