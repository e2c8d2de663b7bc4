//! Bytes that are the same in every run.

pub(super) fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// A number for each of another seed.
pub(super) fn draw(seed: u64, most: usize) -> usize {
    let hash = blake3::hash(&seed.to_le_bytes());
    let mut word = [0; 8];
    word.copy_from_slice(&hash.as_bytes()[..8]);
    (u64::from_le_bytes(word) % most.max(1) as u64) as usize
}

pub(super) fn lines(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(|number| line(number).into_bytes()).collect()
}

pub(super) fn line(number: u64) -> String {
    let hash = blake3::hash(&number.to_le_bytes()).to_hex();
    format!("INSERT INTO t VALUES ({number:09}, '{}');\n", &hash[..40])
}
