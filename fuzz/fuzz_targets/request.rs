#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fobs::fuzzing::run("request", input));
