//! Files as they were, and as they are.

/// What changed of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// An image with 75 scattered writes of 4 kB
    Image,
    /// An image of which 5% was written, in scattered blocks of 64 kB
    Vm,
    /// A dump of half the size, with lines put in and taken out
    Dump,
    /// A log that grew by a twentieth
    Log,
    /// An archive whose first member grew
    Tar,
}

impl Case {
    /// As the user gives it.
    pub fn name(self) -> &'static str {
        match self {
            Case::Image => "image",
            Case::Vm => "vm",
            Case::Dump => "dump",
            Case::Log => "log",
            Case::Tar => "tar",
        }
    }

    /// The old content, of `bytes` bytes or half of that, and the new one.
    pub fn contents(self, bytes: u64) -> (Vec<u8>, Vec<u8>) {
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        match self {
            Case::Image => written(len, 75, 4096),
            Case::Vm => written(len, len / 20 / 65_536, 65_536),
            Case::Dump => dump(len / 2),
            Case::Log => {
                let new = lines(0..(len / 80) as u64);
                (new[..new.len() - new.len() / 20].to_vec(), new)
            }
            Case::Tar => {
                let old = random(len, 1);
                let new = [&old[..5_000], &random(10_007, 2), &old[5_000..]].concat();
                (old, new)
            }
        }
    }
}

fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// A number for each of another seed.
fn draw(seed: u64, most: usize) -> usize {
    let hash = blake3::hash(&seed.to_le_bytes());
    let mut word = [0; 8];
    word.copy_from_slice(&hash.as_bytes()[..8]);
    (u64::from_le_bytes(word) % most.max(1) as u64) as usize
}

fn written(len: usize, writes: usize, write: usize) -> (Vec<u8>, Vec<u8>) {
    let old = random(len, 1);
    let mut new = old.clone();
    for number in 0..writes {
        let at = draw(number as u64, len.saturating_sub(write)) / write * write;
        let end = (at + write).min(len);
        new[at..end].copy_from_slice(&random(end - at, 1000 + number as u64));
    }
    (old, new)
}

fn line(number: u64) -> String {
    let hash = blake3::hash(&number.to_le_bytes()).to_hex();
    format!("INSERT INTO t VALUES ({number:09}, '{}');\n", &hash[..40])
}

fn lines(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(|number| line(number).into_bytes()).collect()
}

/// Every 2,500th line is gone, and some are new.
fn dump(len: usize) -> (Vec<u8>, Vec<u8>) {
    let count = (len / line(0).len()) as u64;
    let mut new = Vec::with_capacity(len);
    for number in 0..count {
        if number % 2_500 != 1_000 {
            new.extend_from_slice(line(number).as_bytes());
        }
        if number % 2_500 == 2_000 {
            new.extend_from_slice(line(1_000_000_000 - number).as_bytes());
        }
    }
    (lines(0..count), new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_changes_some_and_keeps_most() {
        for case in [Case::Image, Case::Vm, Case::Dump, Case::Log, Case::Tar] {
            let (old, new) = case.contents(4 << 20);
            assert_ne!(old, new, "{case:?}");
            let same = old.iter().zip(&new).filter(|(old, new)| old == new).count();
            assert!(new.len() >= 1 << 20 && same > 1000, "{case:?}");
        }
    }
}
