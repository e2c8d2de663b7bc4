//! The committed corpora, replayed.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use super::*;

/// Targets of other crates, which replay these corpora themselves.
const ELSEWHERE: [&str; 1] = ["config"];

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_file_of_the_fuzz_corpora_is_survived() {
    for target in TARGETS {
        let files = entries(&fuzz().join("corpus").join(target.name));
        assert!(!files.is_empty(), "{} has no corpus", target.name);
        for file in files {
            let input = fs::read(&file).unwrap();
            let outcome = catch_unwind(|| (target.entry)(&input));
            assert!(outcome.is_ok(), "{} fails on {}", target.name, file.display());
        }
    }
}

#[test]
fn every_target_is_a_program_and_has_a_corpus() {
    let named: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(named.len(), TARGETS.len(), "names are unique");
    for directory in ["fuzz_targets", "corpus"] {
        let stems = entries(&fuzz().join(directory)).into_iter();
        let found: BTreeSet<String> =
            stems.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        let elsewhere: BTreeSet<String> = ELSEWHERE.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(found, &named | &elsewhere, "{directory}");
    }
}
