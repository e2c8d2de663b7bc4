//! The program to send to a host that has none: a static one for that host's kernel and CPU.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::state::data_directory;
use fobs_sys::named;

/// Most bytes of the program's head that are looked at: the table of its segments stands there.
const HEAD_BYTES: usize = 4096;
/// ELF (elf(5)): magic number and class of 64-bit programs, least byte first.
const MAGIC: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
/// The type of the segment that names a dynamic linker.
const PT_INTERP: u32 = 3;
/// Bytes of one entry of the table of segments.
const SEGMENT_LEN: usize = 56;

/// A CPU for which there are programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// By the words of `uname -m`.
    pub(super) fn named(word: &str) -> Option<Machine> {
        match word {
            "x86_64" | "amd64" => Some(Machine::X86_64),
            "aarch64" | "arm64" => Some(Machine::Aarch64),
            _ => None,
        }
    }

    /// The name of its program beside others.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Machine::X86_64 => "fobs-x86_64-unknown-linux-musl",
            Machine::Aarch64 => "fobs-aarch64-unknown-linux-musl",
        }
    }

    /// Its number in an ELF header.
    fn number(self) -> u16 {
        match self {
            Machine::X86_64 => 62,
            Machine::Aarch64 => 183,
        }
    }
}

/// Where programs are looked for, in order: what the caller offers, this one, its directory, `../lib/fobs`
/// from there, and the user's data directory.
pub(super) fn places(offered: &[PathBuf], machine: Machine) -> Vec<PathBuf> {
    let name = machine.file_name();
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent);
    let installed = beside.and_then(Path::parent).map(|prefix| prefix.join("lib/fobs").join(name));
    let mut places: Vec<PathBuf> = offered.iter().chain(&own).cloned().collect();
    places.extend(beside.map(|directory| directory.join(name)));
    places.extend(installed);
    places.extend(data_directory().map(|directory| directory.join(name)));
    places
}

/// The first of these files that is a static program for that machine.
pub(super) fn find(machine: Machine, places: &[PathBuf]) -> Option<PathBuf> {
    places.iter().find(|path| is_static(path, machine).unwrap_or(false)).cloned()
}

/// Whether a file is a program that needs nothing but the kernel of that machine.
fn is_static(path: &Path, machine: Machine) -> io::Result<bool> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    named::open(path)?.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    // A header that ends too early is no such program's.
    Ok(is_static_head(&head, machine).unwrap_or(false))
}

/// `None` where the head ends too early.
fn is_static_head(head: &[u8], machine: Machine) -> Option<bool> {
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    if !head.starts_with(&MAGIC) || half(18)? != machine.number() {
        return Some(false);
    }
    let table = usize::try_from(u64::from_le_bytes(head.get(32..40)?.try_into().ok()?)).ok()?;
    for segment in 0..usize::from(half(56)?) {
        let at = table.checked_add(segment * SEGMENT_LEN)?;
        let kind = u32::from_le_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?);
        if kind == PT_INTERP {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a program with segments of these types.
    fn head(machine: u16, segments: &[u32]) -> Vec<u8> {
        let mut head = vec![0; 64 + segments.len() * SEGMENT_LEN];
        head[..6].copy_from_slice(&MAGIC);
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head[32..40].copy_from_slice(&64_u64.to_le_bytes());
        head[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (place, kind) in segments.iter().enumerate() {
            let at = 64 + place * SEGMENT_LEN;
            head[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        }
        head
    }

    #[test]
    fn only_static_programs_of_the_machine_are_sent() {
        let wanted = Machine::X86_64;
        assert_eq!(is_static_head(&head(62, &[6, 1, 1]), wanted), Some(true));
        assert_eq!(is_static_head(&head(62, &[6, 3, 1]), wanted), Some(false), "it has a dynamic linker");
        assert_eq!(is_static_head(&head(183, &[6, 1]), wanted), Some(false), "another CPU");
        assert_eq!(is_static_head(b"#!/bin/sh\n", wanted), Some(false));
        let whole = head(62, &[6, 1, 1]);
        for len in 6..whole.len() {
            let cut = is_static_head(&whole[..len], wanted);
            assert!(cut != Some(true) || len >= 64 + 2 * SEGMENT_LEN + 4, "{len} bytes");
        }
        let mut far = head(62, &[1]);
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(is_static_head(&far, wanted), None);
    }

    #[test]
    fn machines_have_the_names_that_uname_gives_them() {
        for (word, machine) in [
            ("x86_64", Some(Machine::X86_64)),
            ("arm64", Some(Machine::Aarch64)),
            ("aarch64", Some(Machine::Aarch64)),
            ("riscv64", None),
            ("", None),
        ] {
            assert_eq!(Machine::named(word), machine, "{word}");
        }
    }
}
