#![no_main]

// The parser of a program that has no library.
#[allow(dead_code, reason = "the target only parses")]
#[path = "../../crates/fobs-cli/src/config/file.rs"]
mod file;

libfuzzer_sys::fuzz_target!(|input: &str| {
    if let Err(problem) = file::parse(input) {
        assert!(problem.line >= 1 && problem.line <= input.lines().count() + 1);
    }
});
