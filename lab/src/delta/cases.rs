//! Files as they were, and as they are.

use std::fs;
use std::path::Path;

use super::bytes::{draw, line, lines, random};
use super::trees;

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
    /// A pack of git, made anew after some commits
    Pack,
    /// A tree of 4,000 small texts after an update
    Modules,
    /// The data of a PostgreSQL server before and after pgbench
    Postgres,
    /// A tree of 300 files under another name
    Moved,
    /// Weights of 2 bytes of which 2% changed, where both ends have the old ones (--basis)
    Weights,
    /// The image between two devices without delay: auto beside never
    Fast,
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
            Case::Pack => "pack",
            Case::Modules => "modules",
            Case::Postgres => "postgres",
            Case::Moved => "moved",
            Case::Weights => "weights",
            Case::Fast => "fast",
        }
    }

    /// Whether the path is one without an emulator, whatever the others have.
    pub fn is_local(self) -> bool {
        self == Case::Fast
    }

    /// What fobs is told beside the ordinary, where the old files are in `old`.
    pub fn words(self, old: &Path) -> Vec<String> {
        match self {
            Case::Weights => vec![format!("--basis={}", old.display())],
            _ => Vec::new(),
        }
    }

    /// Why it cannot be made here, if it cannot.
    pub fn lacks(self) -> Option<&'static str> {
        (self == Case::Postgres && !trees::has_postgres())
            .then_some("PostgreSQL is not here; apt-get install postgresql postgresql-contrib")
    }

    /// Makes what was in `old` and what is in `new`, of about `bytes` bytes. Programs work in `scratch`.
    ///
    /// # Errors
    /// One sentence: there is no room, or a program failed.
    pub fn make(self, bytes: u64, old: &Path, new: &Path, scratch: &Path) -> Result<(), String> {
        let failed = |error| format!("cannot make the files in {}: {error}", old.display());
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        match self {
            Case::Pack => {
                trees::pack(scratch, old, len / 3, 10)?;
                trees::pack(scratch, new, len / 3, 20)
            }
            Case::Modules => {
                trees::modules(old, false).and_then(|()| trees::modules(new, true)).map_err(failed)
            }
            Case::Postgres => {
                // A unit of pgbench has 15 MB.
                trees::cluster(scratch, old, None, (bytes / 20_000_000).max(1))?;
                trees::cluster(scratch, new, Some(old), 0)
            }
            Case::Moved => {
                trees::numbered(&old.join("before"), len).map_err(failed)?;
                trees::numbered(&new.join("now/deeper"), len).map_err(failed)
            }
            _ => {
                let (was, is) = self.contents(bytes);
                fs::write(old.join("file"), was)
                    .and_then(|()| fs::write(new.join("file"), is))
                    .map_err(failed)
            }
        }
    }

    /// The old content, of `bytes` bytes or half of that, and the new one.
    fn contents(self, bytes: u64) -> (Vec<u8>, Vec<u8>) {
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        match self {
            Case::Image | Case::Fast => written(len, 75, 4096),
            Case::Weights => weights(len),
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
            // Programs make those.
            Case::Pack | Case::Modules | Case::Postgres | Case::Moved => (Vec::new(), Vec::new()),
        }
    }
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

/// Numbers of 2 bytes, mantissa first, as training leaves them: of one in fifty the mantissa is another.
fn weights(len: usize) -> (Vec<u8>, Vec<u8>) {
    let mut old = random(len, 1);
    for number in old.chunks_exact_mut(2) {
        number[1] = (number[1] & 0x80) | (0x38 + (number[1] & 7));
    }
    let mut new = old.clone();
    for (number, chance) in new.chunks_exact_mut(2).zip(random(len / 2, 2)) {
        if chance < 5 {
            number[0] = number[0].wrapping_add(1 + chance);
        }
    }
    (old, new)
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
        for case in [Case::Image, Case::Vm, Case::Dump, Case::Log, Case::Tar, Case::Weights, Case::Fast] {
            let (old, new) = case.contents(4 << 20);
            assert_ne!(old, new, "{case:?}");
            let same = old.iter().zip(&new).filter(|(old, new)| old == new).count();
            assert!(new.len() >= 1 << 20 && same > 1000, "{case:?}");
        }
    }
}
