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
        }
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
            // Programs make those.
            Case::Pack | Case::Modules | Case::Postgres => (Vec::new(), Vec::new()),
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
